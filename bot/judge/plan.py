"""Which passes are run: the scored cases with the constants callers use, the checks with everything redrawn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from bot.judge.recipe import Constants, Operand, Recipe
from bot.worker.contract import Argument, Call, CasePlan, Layout, Plan, Shape, TensorSpec

KINDS = ("normal", "scaled_rows", "spikes", "offset", "tails")
"""How the values of a check are spread."""
EXTREMES = (
    ("float32", "wide", "tails"),
    ("float32", "wide", "peaks"),
    ("float32", "few", "huge"),
    ("float32", "few", "strange"),
    ("float16", "wide", "offset"),
    ("float16", "wide", "loss_scaled"),
)
"""(type, check, kind) of what each direction meets besides, whatever the dice say: values that honest callers have now
and then, where they are most likely to show."""
ROWS_PER_DIRECTION = 120
"""The interpreter takes 1.5 to 3 ms a row and pass; this many rows in each direction are about two seconds."""

ROWS_OF_A_TYPE = 64
"""So many rows the typical error of a type is told from, see tolerance.py."""

WIDE = 2048
"""Columns beyond which a check gets one set of values, and the extremes."""

TURNS, TURNS_ON_GPU = (2, 1), (6, 2)
"""How often the first and every other set of values of a check is run: unwritten memory differs from turn to turn, and
on a GPU the order of its programs does as well."""
NOT_BF16 = "not run: the interpreter does bfloat16 arithmetic on raw bits, so nothing can be concluded from it"


@dataclass(frozen=True)
class Form:
    """How the matrices of a probe are handed over: the same numbers, whatever it says."""

    stacked: bool = False
    """The rows in two dimensions."""
    layout: Layout = "dense"
    brief: bool = False
    """Without the arguments that may be left out."""


MATRIX = Form()


@dataclass(frozen=True)
class Probe:
    """One way of filling a check."""

    call: Call
    shape: Shape
    kind: str
    constants: Constants
    seed: int


def _sizes(shape: Shape, dims: tuple[str, ...], form: Form = MATRIX) -> tuple[int, ...]:
    sizes = {"1": 1, **dict(shape.sizes)}
    missing = [dim for dim in dims if dim not in sizes]
    if missing:
        raise ValueError(
            f"case {shape.id} has no size {missing[0]!r}, only {', '.join(size for size, _ in shape.sizes) or 'none'}"
        )
    rest = tuple(sizes[dim] for dim in dims[1:])
    return (*_leading(sizes[dims[0]], form), *rest) if dims and rest else tuple(sizes[dim] for dim in dims)


def _leading(rows: int, form: Form) -> tuple[int, ...]:
    if not form.stacked:
        return (rows,)
    most = next((n for n in (3, 2) if rows % n == 0), 1)
    return most, rows // most


def _tensor(name: str, dims: tuple[str, ...], dtype: str, shape: Shape, form: Form, grad: bool = False) -> TensorSpec:
    return TensorSpec(name, dtype, _sizes(shape, dims, form), grad, form.layout if len(dims) > 1 else "dense")


def _operand(operand: Operand, shape: Shape, form: Form = MATRIX) -> TensorSpec:
    dtype = "int64" if operand.fill == "labels" else shape.dtype
    return _tensor(operand.name, operand.dims, dtype, shape, form, operand.grad)


def call_of(
    recipe: Recipe,
    shape: Shape,
    constants: Constants,
    name: str,
    *,
    blob: str = "",
    turns: int = 1,
    form: Form = MATRIX,
) -> Call:
    given = recipe.arguments[: len(recipe.arguments) - recipe.optional] if form.brief else recipe.arguments
    arguments = tuple(
        Argument(a.name, tensor=_operand(a, shape, form))
        if isinstance(a, Operand) and a.name not in constants
        else Argument(a.name, value=constants[a.name])
        for a in given
    )
    grads = tuple(_tensor(f"d{out.name}", out.dims, shape.dtype, shape, form) for out in recipe.outputs)
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


def _rows(shape: Shape) -> int:
    return max(1, dict(shape.sizes).get("rows", 1))


def _cols(shape: Shape) -> int:
    return dict(shape.sizes).get("cols", 1)


def _tall(shape: Shape) -> bool:
    """There for the number of its rows alone, and run once: it costs as much as all others together."""
    return _rows(shape) >= ROWS_OF_A_TYPE


def _rounds(checks: tuple[Shape, ...], shape: Shape) -> int:
    """How many sets of values a check gets: as many as the time allows, and at least one. What is rare among the types
    of a direction gets more of them, as typical errors are told by type."""
    if _tall(shape) or _cols(shape) > WIDE:
        return 1
    alike = [other for other in checks if other.direction == shape.direction and not _tall(other)]
    allowed = ROWS_PER_DIRECTION // sum(map(_rows, alike))
    needed = -(-ROWS_OF_A_TYPE // sum(_rows(other) for other in alike if other.dtype == shape.dtype))
    return max(1, min(len(KINDS), max(allowed, needed)))


def _forms(recipe: Recipe) -> tuple[Form, ...]:
    """The plain one first and after each other one: most callers hand over what is dense."""
    odd = [Form(layout=layout) for layout in recipe.layouts if layout != "dense"]
    odd += [Form(stacked=True), Form(stacked=True, layout="sliced")] if recipe.stacks else []
    odd += [Form(brief=True)] if recipe.optional else []
    return tuple(form for strange in odd for form in (MATRIX, strange)) or (MATRIX,)


def _extremes(checks: tuple[Shape, ...]) -> Iterator[tuple[Shape, str]]:
    for direction in dict.fromkeys(shape.direction for shape in checks):
        for dtype, where, kind in EXTREMES:
            found = [s for s in checks if (s.direction, s.dtype) == (direction, dtype) and not _tall(s)]
            if found and where == "wide":
                yield max(found, key=_cols), kind
            elif found:  # a row for each oddity, and as few as that
                yield min(found, key=lambda shape: (_rows(shape) < 3, _rows(shape), -_cols(shape))), kind


def probes_of(
    recipe: Recipe, checks: tuple[Shape, ...], seed: int, turns: tuple[int, int] = TURNS
) -> tuple[Probe, ...]:
    """Kinds and modes are dealt out in turn, out of step with each other, so that each direction meets all of them. The
    extremes come with the first mode, which leaves nothing out."""
    rng = random.Random(seed)
    dealt: dict[str, int] = {}
    forms = _forms(recipe)
    probes: list[Probe] = []
    for shape in checks:
        for round_ in range(_rounds(checks, shape)):
            turn = dealt.get(shape.direction, 0)
            dealt[shape.direction] = turn + 1
            constants = recipe.modes[(turn + turn // len(KINDS)) % len(recipe.modes)](rng)
            form = forms[(turn + turn // len(forms)) % len(forms)]
            if form.brief:
                constants |= {a.name: recipe.stock[a.name] for a in recipe.arguments[-recipe.optional :]}
            name = f"{len(probes):03d}"
            call = call_of(
                recipe,
                shape,
                constants,
                name,
                blob=f"{name}.in",
                turns=turns[0 if round_ == 0 and not _tall(shape) else 1],
                form=form,
            )
            probes.append(Probe(call, shape, KINDS[turn % len(KINDS)], constants, rng.getrandbits(63)))
    for shape, kind in _extremes(checks):
        constants = recipe.modes[0](rng)
        name = f"{len(probes):03d}"
        call = call_of(recipe, shape, constants, name, blob=f"{name}.in", turns=turns[1])
        probes.append(Probe(call, shape, kind, constants, rng.getrandbits(63)))
    return tuple(probes)


def plan(
    recipe: Recipe, cases: tuple[Shape, ...], checks: tuple[Shape, ...], seed: int, *, on_gpu: bool = False
) -> tuple[Plan, tuple[Probe, ...]]:
    unfit = () if on_gpu else tuple(shape for shape in checks if shape.dtype == "bfloat16")
    runnable = tuple(shape for shape in checks if shape not in unfit)
    probes = probes_of(recipe, runnable, seed, TURNS_ON_GPU if on_gpu else TURNS)
    scored = tuple(
        CasePlan(call_of(recipe, shape, recipe.stock, shape.id), minimum_bytes(recipe, shape)) for shape in cases
    )
    skipped = tuple((shape.id, NOT_BF16) for shape in unfit)
    return Plan(scored, tuple(probe.call for probe in probes), skipped), probes
