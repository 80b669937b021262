"""Processes: what a job starts ends with it, and how it gives memory back."""
