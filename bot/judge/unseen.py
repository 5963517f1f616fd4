"""What a clock reads besides what is scored: sizes that nobody named, in the passes and types that are scored."""

from __future__ import annotations

from bot.judge.hidden import unseen_sizes
from bot.judge.plan import call_of
from bot.judge.recipe import Recipe
from bot.worker.contract import Shape, UnseenCase

COUNT = 2
"""Sizes. With three that are scored, a quarter of what is timed and more is of no size that a search could aim at."""


def unseen_cases(recipe: Recipe, cases: tuple[Shape, ...], seed: int) -> tuple[UnseenCase, ...]:
    """Called by number, and of a loss with each of its gradients: where that is 1, hardly anything is left to do, which
    says nothing of the other."""
    scored = {case.sizes for case in cases}
    types = tuple(dict.fromkeys(case.dtype for case in cases))
    found = []
    for number, sizes in enumerate(unseen_sizes(recipe, cases, seed, COUNT) if cases else (), 1):
        if sizes in scored:
            continue
        dtype = types[(number - 1) % len(types)]
        for direction, grad in dict.fromkeys((case.direction, case.grad) for case in cases):
            name = f"unseen-{number}-{direction}-{dtype}" + ("-one" if grad == "one" else "")
            shape = Shape(name, direction, sizes, dtype, grad)
            found.append(UnseenCase(shape, call_of(recipe, shape, recipe.stock, name)))
    return tuple(found)
