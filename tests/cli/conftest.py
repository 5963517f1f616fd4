from __future__ import annotations

from tests.zones.places import at

__all__ = ["at"]
