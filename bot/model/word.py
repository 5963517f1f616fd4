"""The base of every word: frozen, and closed to fields nobody declared."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Word(BaseModel):
    """A value that never changes after it was made; unknown fields are refused at the door."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, regex_engine="python-re")
