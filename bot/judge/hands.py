"""How many threads share the judge's work: most of it is arithmetic on tensors, which waits for nobody."""

from __future__ import annotations

import os


def hands(most: int) -> int:
    """Half of the processors; the others are for whoever is being judged."""
    return max(1, min(most, (os.cpu_count() or 1) // 2))
