"""Steps and phases of a script that marks none: seen from hooks, without a change to it."""
