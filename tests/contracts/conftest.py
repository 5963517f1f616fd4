from __future__ import annotations

from tests.openapi.recording import judged, recorder

__all__ = ["judged", "recorder"]
