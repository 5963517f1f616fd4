"""Shapes that nobody was told: larger than an interpreter can take, drawn anew by the judge for each bench with a GPU.

Many rows for few programs, rows that no tile divides, rows longer than any usual block. Their names say nothing, so
that two benches with other draws ask for the same checks by name.
"""

from __future__ import annotations

import random

from bot.worker.contract import Shape

KINDS: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
    ((8500, 9200), (100, 140)),
    ((513, 640), (2049, 2300)),
    ((7, 9), (16385, 16390)),
    ((3, 5), (66000, 71000)),
    ((255, 261), (4090, 4110)),
)
"""Ranges of rows and of columns."""
DTYPES = ("float16", "bfloat16", "float32")


def hidden(checks: tuple[Shape, ...], seed: int) -> tuple[Shape, ...]:
    """For each pass that is checked. Only for kernels whose sizes are rows and columns."""
    rng = random.Random(seed ^ 0x5EED)
    if any({name for name, _ in shape.sizes} != {"rows", "cols"} for shape in checks):
        return ()
    found = []
    for number, (rows, cols) in enumerate(KINDS):
        for place, direction in enumerate(sorted({shape.direction for shape in checks})):
            sizes = (("rows", rng.randint(*rows)), ("cols", rng.randint(*cols)))
            dtype = DTYPES[(number + place) % len(DTYPES)]
            found.append(Shape(f"hidden-{number + 1}-{direction}-{dtype}", direction, sizes, dtype))
    return tuple(found)
