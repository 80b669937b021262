"""What the docstrings under the fields of a settings dataclass say."""

from unittest.mock import patch

from pydantic import ConfigDict, TypeAdapter


def described(kind):
    """Return the JSON Schema of `kind`, with the docstring of each field as its description.

    Only tests read them: pydantic parses the source of every class for them.
    """
    config = ConfigDict(**kind.__pydantic_config__, use_attribute_docstrings=True)
    with patch.object(kind, "__pydantic_config__", config):
        return TypeAdapter(kind).json_schema()
