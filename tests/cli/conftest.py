from __future__ import annotations

from tests.zones.places import at, pictures

__all__ = ["at", "pictures"]
