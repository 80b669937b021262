"""Secrets of configurations: what is written and shared has references, the values lie at home.

Where a configuration holds a secret, plans, params of jobs, records and reports hold a reference
such as ``profkit-secret-0123456789abcdef``: a keyed hash, so that another value is another
reference, and a list of likely values does not help to guess it. The values are files that only the
user can read, in a folder outside of the project; the job that captures puts them back.
"""

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from profkit.core.errors import ConfigError
from profkit.core.secret_after_name import REFERENCE
from profkit.core.secret_masking import Masker

_REFERENCE = re.compile(rf"{REFERENCE}[0-9a-f]{{16}}")


def folder() -> Path:
    """Return the folder of the secrets, outside of what people share."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "profkit" / "secrets"


def reference(secret: str) -> str:
    """Return what stands for `secret`, and keep it; raises `ConfigError` where it cannot."""
    name = digest(secret)
    _keep(folder() / name, secret.encode(errors="surrogateescape"))
    return f"{REFERENCE}{name}"


def digest(text: str) -> str:
    """Return a hash of `text` with a key of this user's."""
    content = text.encode(errors="surrogateescape")
    return hmac.new(_salt(folder()), content, hashlib.sha256).hexdigest()[:16]


def hiding(environment: Mapping[str, str] = os.environ, known: Iterable[str] = ()) -> Masker:
    """Return what puts references in the place of secrets; see `Masker`.

    Of the secrets of `environment`, words and numbers are left unless they are `known`: a launcher
    may be called like one.
    """
    unlike_others = {
        name: value
        for name, value in environment.items()
        if not value.isalpha() and not value.isdigit()
    }
    return Masker(unlike_others, known, reference)


def secrets_of(*texts: str) -> list[str]:
    """Return the values of the references in `texts`; raises `ConfigError` without one of them."""
    return [secret(found) for text in texts for found in _REFERENCE.findall(text)]


def states(text: str) -> dict[str, bool]:
    """Return whether its value is there for each reference in `text`."""
    return {found: _file(found).is_file() for found in _REFERENCE.findall(text)}


def resolved(value: Any) -> Any:
    """Return a JSON value with the secrets in the place of their references.

    Raises `ConfigError` for one whose value is not there.
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: secret(match[0]), value)
    if isinstance(value, Mapping):
        return {key: resolved(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolved(item) for item in value]
    return value


def secret(found: str) -> str:
    """Return the value behind a reference; raises `ConfigError` if it is not there."""
    try:
        return _file(found).read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        raise ConfigError(
            f"{found}: stands for a secret whose value is not in {folder()}",
            hint="put in the value itself; hosts that share no home need one XDG_STATE_HOME",
        ) from None


def _file(found: str) -> Path:
    return folder() / found.removeprefix(REFERENCE)


@cache
def _salt(where: Path) -> bytes:
    path = where / "salt"
    _keep(path, secrets.token_bytes(32))
    return path.read_bytes()


def _keep(path: Path, content: bytes) -> None:
    """Write a file that only the user can read, unless it is there."""
    if path.is_file():
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        # Unlike a move, this leaves the file of another process that was first.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    except OSError as error:
        raise ConfigError(
            f"a secret of this configuration cannot be kept: {error}",
            hint="set XDG_STATE_HOME to a folder of yours that can be written",
        ) from None
