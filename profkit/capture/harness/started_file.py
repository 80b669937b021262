"""How a program and the supervisor of the tool around it know of one another."""

STARTED_FILE = "PROFKIT_STARTED_FILE"
"""Environment variable with a file that a program makes when it has started."""

FAILED_STARTS = "PROFKIT_FAILED_STARTS"
"""Environment variable with the exit statuses of a tool that ended before its program began."""


def failed_starts_note(statuses: str) -> str:
    """Return a note for readers on failed starts that ended with `statuses`."""
    return (
        f"the tool ended before the program began (exit status {statuses}; the log says more) and"
        " was started again"
    )
