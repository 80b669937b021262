"""Bounds of numbers in settings, which pydantic reads and which need no pydantic.

Tools are imported in programs of users, whose environments may have none.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound of a number."""

    kind: Literal["gt", "ge"]
    """Whether a number must be greater, or may be equal as well."""

    value: int

    def __get_pydantic_core_schema__(self, source: object, handler: "GetCoreSchemaHandler") -> Any:
        """Return the schema of the number, with this bound."""
        return {**handler(source), self.kind: self.value}


PositiveInt = Annotated[int, Bound("gt", 0)]
NonNegativeInt = Annotated[int, Bound("ge", 0)]
PositiveFloat = Annotated[float, Bound("gt", 0)]
NonNegativeFloat = Annotated[float, Bound("ge", 0)]
