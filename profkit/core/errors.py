"""Errors a user can act on: each says what happened, where, and what to do next."""

from profkit.core.formatting import cut

_LONGEST = 20_000


class ProfkitError(Exception):
    """Base of every error that profkit raises on purpose; the CLI prints it without a traceback."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        # It may quote a value or an error of others, of any length.
        message = cut(message, _LONGEST)
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)


class ConfigError(ProfkitError):
    """The configuration asks for something that does not exist or does not fit."""


class PluginError(ProfkitError):
    """A plugin file breaks its contract; the message starts with its ``file:line``."""


class InputError(ProfkitError):
    """A file is not what its reader needs: missing, damaged, or of another format."""
