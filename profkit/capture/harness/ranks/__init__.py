"""One rank: its place among the others, its clock, its steps and ranges."""
