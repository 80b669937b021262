"""Steps and phases of scripts without marks, by hooks and without a change to the script."""
