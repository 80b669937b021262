"""One rank: its coordinates and file names, its step clock, its NVTX ranges."""
