"""Numbers of the hardware as a campaign registers them: none is used in a record that does not stand here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bot.model.word import Word

UNKNOWN = "UNKNOWN (not in the registry)"


class Learned(Word):
    """A number that a local knowledge base adds to what the registry has of a GPU."""

    name: str
    """As the registry calls the metric."""
    value: Annotated[float, Field(gt=0)]
    source: Annotated[str, Field(min_length=1)]
    """Its page and line, below the knowledge base."""
    read: Annotated[str, Field(pattern=r"\A\d{4}-\d{2}-\d{2}\Z")]
    """The day."""


class HardwareNumber(Word):
    """What a GPU has or can do at most, and where that was read. Without a value nobody knows it."""

    metric: str
    value: float | None = None
    unit: str = ""
    kind: str = ""
    """A peak, a maximum, a typical value, a limit or a count; dense or sparse; or measured."""
    source: str = ""
    """A file and line that a reader can look up, and the document that stands behind it."""

    def says(self) -> str:
        if self.value is None:
            return f"{self.metric}: {UNKNOWN}"
        unit = "" if self.unit == "count" else f" {self.unit}"
        return f"{self.metric}: {self.value:.10g}{unit} <- {self.source}"
