"""Shapes that nobody was told: larger than an interpreter can take, drawn anew by the judge for each bench with a GPU.

Many rows for few programs, rows that no tile divides, rows longer than any usual block; and for a kernel of other sizes
than rows and columns, sizes between half the least and twice the most of what is scored, and no more than the most
where they are powers of two or a compiler would take minutes. Their names say nothing, so that two benches with other
draws ask for the same checks by name.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from bot.judge.recipe import Operand, Output, Recipe, extent
from bot.worker.contract import Shape

KINDS: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
    ((8500, 9200), (100, 140)),
    ((513, 640), (2049, 2300)),
    ((7, 9), (16385, 16390)),
    ((3, 5), (66000, 71000)),
    ((255, 261), (4090, 4110)),
)
"""Ranges of rows and of columns."""
TILE = 16
MOST = 2**21
"""The product of the sizes of another shape: the oracle and its samples of noise run on the host, in float64."""
MOST_NUMBERS = 2**23
"""Of all its tensors together, for an op of which the product of the sizes says little: heads that are counted in
groups of units, scores of each position with each other. Two gigabytes were drawn so once, and no check may hand over
256 MiB. What the reference makes on the way counts as well: scores of 60 million took the judge 45 s of a processor."""

Sizes = tuple[tuple[str, int], ...]


def _odd(size: int, least: int, most: int, rng: random.Random) -> int:
    """A number near it that no tile divides, or one beside a power of two."""
    near = 2 ** round(math.log2(size)) + rng.choice((-1, 1)) if rng.random() < 0.5 else size | 1
    return min(max(near, least, 1), most)


def _round(size: int, least: int, most: int) -> int:
    """Of whole tiles, as most sizes that people use: the multiple of a tile next to it. What is counted, as heads are,
    has none."""
    near = TILE * round(size / TILE) if least >= 2 * TILE else size
    return min(max(near, least, 1), most)


def _power(least: int, most: int, rng: random.Random) -> int:
    return 1 << rng.randint((least - 1).bit_length(), most.bit_length() - 1)


def numbers(recipe: Recipe, sizes: dict[str, int]) -> int:
    """In all that is handed to the op and to its backward pass, and in what the reference makes on the way."""
    things: tuple[Operand | Output, ...] = (*recipe.operands, *recipe.outputs)
    every = (*(thing.dims for thing in things), *recipe.on_the_way)
    return sum(math.prod(extent(sizes, dim) for dim in dims) for dims in every)


def _halved(name: str, size: int, recipe: Recipe, *, tiles: bool) -> int:
    if name in recipe.powers:
        return max(1, size // 2)
    if tiles and size >= 2 * TILE:
        return size // 2 // TILE * TILE
    unit = 2 if name in recipe.evens else 1
    return unit * max(1, size // (2 * unit) | 1)


def _between(
    scored: tuple[Sizes, ...],
    recipe: Recipe,
    rng: random.Random,
    most_in_all: int = 0,
    most_numbers: int = 0,
    *,
    tiles: bool = False,
    kept: Mapping[str, int] | None = None,
) -> Sizes:
    """Each size by itself, odd ones, or of whole `tiles`. Where all of them are too much, the largest gives way, down
    to a single one if it must. Powers of two are of what a kernel unrolls, and twice the most of those is a minute of a
    compiler (mhc_post_res). Beside some that are `kept` none is more than the most: it would be more than all of them
    hold, and the others would be next to nothing (fused_moe has as many experts as it can, or tokens)."""
    most_in_all, most_numbers = most_in_all or MOST, most_numbers or MOST_NUMBERS
    kept = kept or {}
    found: dict[str, int] = {}
    for place, (name, _) in enumerate(scored[0]):
        if name in kept:
            found[name] = kept[name]
            continue
        sizes = [one[place][1] for one in scored]
        least, most = max(1, min(sizes) // 2), (1 if kept or name in recipe.bounded else 2) * max(sizes)
        drawn = round(math.exp(rng.uniform(math.log(least), math.log(most))))
        if name in recipe.powers:
            found[name] = _power(least, max(sizes), rng)
        elif tiles:
            found[name] = _round(drawn + drawn % 2 if name in recipe.evens else drawn, least, most)
        elif name in recipe.evens:
            found[name] = 2 * _odd(drawn // 2 or 1, -(-least // 2), most // 2, rng)
        else:
            found[name] = _odd(drawn, least, most, rng)
    while math.prod(found.values()) > most_in_all or numbers(recipe, found) > most_numbers:
        largest = max((name for name in found if name not in kept), key=lambda name: found[name])
        if (less := _halved(largest, found[largest], recipe, tiles=tiles)) == found[largest]:
            break
        found[largest] = less
    return tuple(found.items())


def _sizes(recipe: Recipe, scored: tuple[Sizes, ...], number: int, rng: random.Random) -> Sizes:
    if {name for sizes in scored for name, _ in sizes} != {"rows", "cols"}:
        return _between(scored, recipe, rng)
    rows, cols = KINDS[number]
    return ("rows", rng.randint(*rows)), ("cols", rng.randint(*cols))


def unseen_sizes(recipe: Recipe, cases: tuple[Shape, ...], seed: int, count: int) -> tuple[Sizes, ...]:
    """Sizes for a clock: like those that are scored, and no more work than the most of them. Odd ones and such of whole
    tiles in turn: what a kernel gains where no row begins where sixteen bytes can be read at once says little of the
    sizes that people use, and of rms_norm's winner it was a tenth where it is a half elsewhere."""
    rng = random.Random(seed ^ 0xC10C)
    scored = tuple(dict.fromkeys(shape.sizes for shape in cases))
    most = max(math.prod(size for _, size in one) for one in scored)
    most_numbers = max(numbers(recipe, dict(one)) for one in scored)
    found = []
    for number in range(count):
        like = dict(rng.choice(scored)) if recipe.tuned else {}
        kept = {name: like[name] for name in recipe.tuned}
        found.append(_between(scored, recipe, rng, most, most_numbers, tiles=bool(number % 2), kept=kept))
    return tuple(found)


def hidden(recipe: Recipe, cases: tuple[Shape, ...], checks: tuple[Shape, ...], seed: int) -> tuple[Shape, ...]:
    """For each pass that is checked. None where nothing is scored that could say how large they should be."""
    rng = random.Random(seed ^ 0x5EED)
    scored = tuple(shape.sizes for shape in (cases or checks))
    found = []
    for number in range(len(KINDS) if scored else 0):
        for place, direction in enumerate(sorted({shape.direction for shape in checks})):
            sizes = _sizes(recipe, scored, number, rng)
            dtype = recipe.types[(number + place) % len(recipe.types)]
            found.append(Shape(f"hidden-{number + 1}-{direction}-{dtype}", direction, sizes, dtype))
    return tuple(found)
