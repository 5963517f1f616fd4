from __future__ import annotations

from tests.cli.checkout import here, sample
from tests.zones.places import at, pictures

__all__ = ["at", "here", "pictures", "sample"]
