"""Mask secrets in what a capture leaves, and warn of files of tools that contain them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profkit.capture.base import Tool
from profkit.core import secret_store
from profkit.core.secret_masking import Masker, forms
from profkit.core.secret_names import is_secret_name

_TEXTS = ("capture*.log", "*.error.txt")
# With a masked secret in these, a capture could not be repeated: they get references.
_REQUEST = ("command", "settings", "workload")


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputMask:
    """Knows the secrets of one capture."""

    environment: Mapping[str, str]
    """Environment variables of the ranks."""

    secrets: Sequence[str] = ()
    """Secrets of the configuration."""

    def masker(self) -> Masker:
        """Return what masks the secrets."""
        return Masker(self.environment, forms(self.secrets))

    def files(self, out: Path, tool: Tool) -> list[str]:
        """Mask the texts of a capture, and return warnings about them and other files."""
        masker = self.masker()
        for pattern in _TEXTS:
            for path in sorted(out.glob(pattern)):
                masker.file(path, path.name)
        return [*masker.warnings(), *self._environment_warning(out, tool)]

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of a capture without secrets, with warnings on those of its request."""
        masker = self.masker()
        request = secret_store.hiding(self.environment, forms(self.secrets))
        shown = {
            key: (request if key in _REQUEST else masker).document(value, key)
            for key, value in record.items()
        }
        return shown | {"warnings": [*shown["warnings"], *request.warnings()]}

    def _environment_warning(self, out: Path, tool: Tool) -> Iterator[str]:
        """Yield a warning if files of the tool contain the environment variables."""
        paths = {path for pattern in tool.files_with_environment for path in out.rglob(pattern)}
        if paths:
            names = ", ".join(sorted(str(path.relative_to(out)) for path in paths))
            secret = ", ".join(sorted(filter(is_secret_name, self.environment)))
            among = f", {secret} among them" if secret else ""
            yield (
                f"{names}: holds all environment variables of the run{among}; share it with people"
                " who may see them only"
            )
