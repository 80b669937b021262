"""Reports of Nsight Systems, of every version, as tables."""
