"""Columns of a large recording, kept in files and read back some rows at a time."""
