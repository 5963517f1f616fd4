"""Which passes are run: the scored cases with the constants callers use, the checks with everything redrawn."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bot.judge.recipe import Constants, Operand, Recipe
from bot.worker.contract import Argument, Call, CasePlan, Plan, Shape, TensorSpec

KINDS = ("normal", "scaled_rows", "spikes", "offset", "tails")
"""How the values of a check are spread."""
ROWS_PER_DIRECTION = 120
"""The interpreter takes 1.5 to 3 ms a row and pass; this many rows in each direction are about two seconds."""

NOT_BF16 = "not run: the interpreter does bfloat16 arithmetic on raw bits, so nothing can be concluded from it"


@dataclass(frozen=True)
class Probe:
    """One way of filling a check."""

    call: Call
    shape: Shape
    kind: str
    constants: Constants
    seed: int


def _sizes(shape: Shape, dims: tuple[str, ...]) -> tuple[int, ...]:
    sizes = dict(shape.sizes)
    missing = [dim for dim in dims if dim not in sizes]
    if missing:
        raise ValueError(f"case {shape.id} has no size {missing[0]!r}, only {', '.join(sizes) or 'none'}")
    return tuple(sizes[dim] for dim in dims)


def _operand(operand: Operand, shape: Shape) -> TensorSpec:
    dtype = "int64" if operand.fill == "labels" else shape.dtype
    return TensorSpec(operand.name, dtype, _sizes(shape, operand.dims), operand.grad)


def call_of(recipe: Recipe, shape: Shape, constants: Constants, name: str, *, blob: str = "", turns: int = 1) -> Call:
    arguments = tuple(
        Argument(a.name, tensor=_operand(a, shape))
        if isinstance(a, Operand) and a.name not in constants
        else Argument(a.name, value=constants[a.name])
        for a in recipe.arguments
    )
    grads = tuple(TensorSpec(f"d{out.name}", shape.dtype, _sizes(shape, out.dims)) for out in recipe.outputs)
    return Call(name, shape.id, shape.direction, arguments, grads, blob, turns)


def minimum_bytes(recipe: Recipe, shape: Shape) -> int:
    """Bytes that any implementation moves; forward and backward are two passes, as the output has to exist in
    between."""
    specs = {o.name: _operand(o, shape) for o in recipe.operands}
    specs |= {out.name: TensorSpec(out.name, shape.dtype, _sizes(shape, out.dims)) for out in recipe.outputs}
    specs |= {f"d{name}": spec for name, spec in specs.items()}
    names: tuple[str, ...] = ()
    if shape.direction in ("forward", "full"):
        names += recipe.forward_traffic
    if shape.direction in ("backward", "full"):
        names += recipe.backward_traffic
    return sum(specs[name].nbytes for name in names)


def _rounds(checks: tuple[Shape, ...], direction: str) -> int:
    """How many sets of values each check of a direction gets: as many as the time allows, and at least one."""
    rows = sum(dict(shape.sizes).get("rows", 1) for shape in checks if shape.direction == direction)
    return max(1, min(len(KINDS), ROWS_PER_DIRECTION // max(1, rows)))


def probes_of(recipe: Recipe, checks: tuple[Shape, ...], seed: int) -> tuple[Probe, ...]:
    """Kinds and modes are dealt out in turn, out of step with each other, so that each direction meets all of them."""
    rng = random.Random(seed)
    dealt: dict[str, int] = {}
    probes: list[Probe] = []
    for shape in checks:
        for round_ in range(_rounds(checks, shape.direction)):
            turn = dealt.get(shape.direction, 0)
            dealt[shape.direction] = turn + 1
            constants = recipe.modes[(turn + turn // len(KINDS)) % len(recipe.modes)](rng)
            name = f"{len(probes):03d}"
            call = call_of(recipe, shape, constants, name, blob=f"{name}.in", turns=2 if round_ == 0 else 1)
            probes.append(Probe(call, shape, KINDS[turn % len(KINDS)], constants, rng.getrandbits(63)))
    return tuple(probes)


def plan(
    recipe: Recipe, cases: tuple[Shape, ...], checks: tuple[Shape, ...], seed: int
) -> tuple[Plan, tuple[Probe, ...]]:
    runnable = tuple(shape for shape in checks if shape.dtype != "bfloat16")
    probes = probes_of(recipe, runnable, seed)
    scored = tuple(
        CasePlan(call_of(recipe, shape, recipe.stock, shape.id), minimum_bytes(recipe, shape)) for shape in cases
    )
    skipped = tuple((shape.id, NOT_BF16) for shape in checks if shape.dtype == "bfloat16")
    return Plan(scored, tuple(probe.call for probe in probes), skipped), probes
