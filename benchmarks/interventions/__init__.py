"""What was changed in a program, beside what profkit says that changed."""
