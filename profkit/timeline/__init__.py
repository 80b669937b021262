"""One timeline of all ranks, for trace viewers."""
