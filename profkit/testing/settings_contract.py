"""What profkit asks of the settings of every plugin: defaults, and a docstring under each field."""

from dataclasses import MISSING, fields
from typing import Any, cast
from unittest.mock import patch

from pydantic import ConfigDict, TypeAdapter

from profkit.core.settings import Settings


def described(kind: type[Settings]) -> dict[str, Any]:
    """Return the JSON Schema of `kind`, with the docstring of each field as its description.

    Only tests read them: pydantic parses the source of every class for them.
    """
    config = cast("ConfigDict", {**kind.__pydantic_config__, "use_attribute_docstrings": True})
    with patch.object(kind, "__pydantic_config__", config):
        return TypeAdapter(kind).json_schema()


def check_settings(kind: type[Settings]) -> None:
    """Raise `AssertionError` if a field of `kind` has no default or no docstring."""
    require(kind.__doc__, f"{kind.__qualname__} has no docstring")
    properties = described(kind).get("properties", {})
    for field in fields(kind):
        where = f"{kind.__qualname__}.{field.name}"
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        require(has_default, f"{where} has no default")
        if field.name in kind.__annotations__:
            require(properties[field.name].get("description"), f"{where} has no docstring below it")


def require(condition: object, message: str) -> None:
    """Raise `AssertionError` with `message` unless `condition` holds."""
    if not condition:
        raise AssertionError(message)
