from __future__ import annotations

from tests.openapi.recording import judged, recorder
from tests.zones.places import at, pictures

__all__ = ["at", "judged", "pictures", "recorder"]
