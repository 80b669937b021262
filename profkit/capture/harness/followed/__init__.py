"""Follow a command of the user's into the processes that it starts, and find its ranks there."""
