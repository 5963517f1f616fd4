"""Which passes are run: the scored cases with the constants callers use, the checks with everything redrawn."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe, extent
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

ROWS_OF_A_LARGEST = 32
"""Of fewer rows the largest error is luck, see tolerance.py."""
DRAWS = 15
"""So many more of each check one of whose results has so few."""
DRAWS_OF_MANY = 9
"""Of every other check, on a GPU: how far many rows lean together is luck too where few numbers stand behind them."""
BYTES_OF_A_DRAW = 2**18
"""Of the tensors of a check that is drawn so often. With larger ones the oracle takes its time."""
DRAWS_PER_DIRECTION = 450
"""On a GPU: the untouched kernel takes them once, and compiles nothing for them. Nobody is asked for one before some
variant fails for want of it."""

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
    inferring: bool = False
    """By someone who wants no gradient of anything."""


MATRIX = Form()


@dataclass(frozen=True)
class Probe:
    """One way of filling a check."""

    call: Call
    shape: Shape
    kind: str
    constants: Constants
    seed: int
    again: str = ""
    """The id of the call of which this is a further draw: other values of the same kind, all else the same."""


def _extent(shape: Shape, dim: str) -> int:
    try:
        return extent(dict(shape.sizes), dim)
    except KeyError as missing:
        names = ", ".join(size for size, _ in shape.sizes) or "none"
        raise ValueError(f"case {shape.id} has no size {missing.args[0]!r}, only {names}") from missing


def _sizes(shape: Shape, dims: tuple[str, ...], form: Form = MATRIX) -> tuple[int, ...]:
    sizes = tuple(_extent(shape, dim) for dim in dims)
    return (*_leading(sizes[0], form), *sizes[1:]) if len(sizes) > 1 else sizes


def _leading(rows: int, form: Form) -> tuple[int, ...]:
    if not form.stacked:
        return (rows,)
    most = next((n for n in (3, 2) if rows % n == 0), 1)
    return most, rows // most


def _layout(thing: Operand | Output, form: Form) -> Layout:
    return thing.layout if len(thing.dims) < 2 or form.layout == "dense" else form.layout


def _operand(operand: Operand, shape: Shape, form: Form = MATRIX) -> TensorSpec:
    labels = operand.fill in ("labels", "routing")
    return TensorSpec(
        name=operand.name,
        dtype=operand.dtype or ("int64" if labels else shape.dtype),
        shape=_sizes(shape, operand.dims, form),
        grad=operand.grad and not form.inferring,
        layout=operand.layout if labels else _layout(operand, form),
        below=_extent(shape, operand.classes) if labels else 0,
    )


def _gradient(output: Output, shape: Shape, form: Form) -> TensorSpec:
    sizes = _sizes(shape, output.dims, form)
    ones = not sizes and shape.grad == "one"
    return TensorSpec(f"d{output.name}", output.dtype or shape.dtype, sizes, layout=_layout(output, form), ones=ones)


def complete(recipe: Recipe, shape: Shape, constants: Constants) -> Constants:
    """The constants of a mode, and those that repeat a size of the case."""
    sized = (a for a in recipe.arguments if isinstance(a, Constant) and a.size)
    return {**constants, **{a.name: _told(shape, a.size) for a in sized}}


def _told(shape: Shape, size: str | tuple[str, ...]) -> int | tuple[int, ...]:
    return _extent(shape, size) if isinstance(size, str) else tuple(_extent(shape, one) for one in size)


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
    constants = complete(recipe, shape, constants)
    given = recipe.arguments[: len(recipe.arguments) - recipe.optional] if form.brief else recipe.arguments
    arguments = tuple(
        Argument(a.name, tensor=_operand(a, shape, form))
        if isinstance(a, Operand) and a.name not in constants
        else Argument(a.name, value=constants[a.name])
        for a in given
    )
    grads = tuple(_gradient(out, shape, form) for out in recipe.outputs)
    return Call(name, shape.id, shape.direction, arguments, grads, blob, turns)


def minimum_bytes(recipe: Recipe, shape: Shape) -> int:
    """Bytes that any implementation moves; forward and backward are two passes, as the output has to exist in
    between. None in the backward pass of a loss whose gradient is 1, where the forward pass has made what it returns.
    """
    specs = {o.name: _operand(o, shape) for o in recipe.operands}
    specs |= {o.name: TensorSpec(o.name, o.dtype or shape.dtype, _sizes(shape, o.dims)) for o in recipe.outputs}
    specs |= {f"d{name}": spec for name, spec in specs.items()}
    names: tuple[str, ...] = ()
    if shape.direction in ("forward", "full"):
        names += recipe.forward_traffic
    if shape.direction in ("backward", "full") and not (shape.grad == "one" and recipe.comes_ready):
        names += recipe.backward_traffic
    one_in = {operand.name: operand.one_in for operand in recipe.operands}
    return sum(specs[name].nbytes // one_in.get(name, 1) for name in names)


def _rows(recipe: Recipe, shape: Shape) -> int:
    return max(1, _extent(shape, recipe.rows))


def _cols(recipe: Recipe, shape: Shape) -> int:
    return _extent(shape, recipe.cols)


def _tall(recipe: Recipe, shape: Shape) -> bool:
    """There for the number of its rows alone, and run once: it costs as much as all others together."""
    return _rows(recipe, shape) >= ROWS_OF_A_TYPE


def _rounds(recipe: Recipe, checks: tuple[Shape, ...], shape: Shape) -> int:
    """How many sets of values a check gets: as many as the time allows, and at least one. What is rare among the types
    of a direction gets more of them, as typical errors are told by type."""
    if _tall(recipe, shape) or _cols(recipe, shape) > WIDE:
        return 1
    alike = [other for other in checks if other.direction == shape.direction and not _tall(recipe, other)]
    allowed = ROWS_PER_DIRECTION // sum(_rows(recipe, other) for other in alike)
    needed = -(-ROWS_OF_A_TYPE // sum(_rows(recipe, other) for other in alike if other.dtype == shape.dtype))
    return max(1, min(len(KINDS), max(allowed, needed)))


def _forms(recipe: Recipe, direction: str) -> tuple[Form, ...]:
    """The plain one first and after each other one: most callers hand over what is dense."""
    odd = [Form(layout=layout) for layout in recipe.layouts if layout != "dense"]
    odd += [Form(stacked=True), Form(stacked=True, layout="sliced")] if recipe.stacks else []
    odd += [Form(brief=True)] if recipe.optional else []
    odd += [Form(inferring=True)] if recipe.infers and direction == "forward" else []
    return tuple(form for strange in odd for form in (MATRIX, strange)) or (MATRIX,)


def _extremes(recipe: Recipe, checks: tuple[Shape, ...]) -> Iterator[tuple[Shape, str]]:
    for direction in dict.fromkeys(shape.direction for shape in checks):
        for dtype, where, kind in EXTREMES:
            found = [s for s in checks if (s.direction, s.dtype) == (direction, dtype) and not _tall(recipe, s)]
            if found and where == "wide":
                yield max(found, key=lambda shape: _cols(recipe, shape)), kind
            elif found:  # a row for each oddity, and as few as that
                yield min(found, key=lambda shape: _few(recipe, shape)), kind


def _few(recipe: Recipe, shape: Shape) -> tuple[bool, int, int]:
    rows = _rows(recipe, shape)
    return rows < 3, rows, -_cols(recipe, shape)


class _Drawn:
    """What the modes draw: once for all checks that meet a mode in the same round of them, forward and backward alike.
    Many kernels are compiled for their constants, and forward and backward of a shape share some: mhc_coeffs' checks
    were 209 kernels when each check had constants of its own, and are 125."""

    def __init__(self, recipe: Recipe, rng: random.Random) -> None:
        self._recipe, self._rng = recipe, rng
        self._known: dict[tuple[int, int], Constants] = {}

    def of(self, shape: Shape, turn: int) -> Constants:
        modes = self._recipe.modes
        number, again = (turn + turn // len(KINDS)) % len(modes), turn // (len(KINDS) * len(modes))
        if (number, again) not in self._known:
            self._known[number, again] = modes[number](self._rng)
        return complete(self._recipe, shape, self._known[number, again])


def probes_of(
    recipe: Recipe,
    named: tuple[Shape, ...],
    seed: int,
    turns: tuple[int, int] = TURNS,
    hidden: tuple[Shape, ...] = (),
) -> tuple[Probe, ...]:
    """Kinds and modes are dealt out in turn, out of step with each other, so that each direction meets all of them. The
    extremes come with the first mode, which leaves nothing out, and in shapes that have names: the longest hidden rows
    are longer than some kernels take, and what the untouched one does not take is asked of nobody."""
    checks = named + hidden
    rng = random.Random(seed)
    drawn = _Drawn(recipe, rng)
    dealt: dict[str, int] = {}
    probes: list[Probe] = []
    for shape in checks:
        forms = _forms(recipe, shape.direction)
        for round_ in range(_rounds(recipe, checks, shape)):
            turn = dealt.get(shape.direction, 0)
            dealt[shape.direction] = turn + 1
            constants = drawn.of(shape, turn)
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
                turns=turns[0 if round_ == 0 and not _tall(recipe, shape) else 1],
                form=form,
            )
            probes.append(Probe(call, shape, KINDS[turn % len(KINDS)], constants, rng.getrandbits(63)))
    for shape, kind in _extremes(recipe, named):
        constants = drawn.of(shape, 0)
        name = f"{len(probes):03d}"
        call = call_of(recipe, shape, constants, name, blob=f"{name}.in", turns=turns[1])
        probes.append(Probe(call, shape, kind, constants, rng.getrandbits(63)))
    return tuple(probes)


def _fewest_rows(call: Call) -> int:
    """Of all results, as tolerance.py counts rows."""
    shapes = [spec.shape for spec in call.grads] if call.direction != "backward" else []
    if call.direction != "forward":
        shapes += [a.tensor.shape for a in call.arguments if a.tensor is not None and a.tensor.grad]
    return max(1, min((math.prod(shape[:-1] if len(shape) > 1 else shape) for shape in shapes), default=1))


def _wanted(recipe: Recipe, probe: Probe, *, on_gpu: bool) -> int:
    large = _tall(recipe, probe.shape) or probe.call.nbytes > BYTES_OF_A_DRAW
    if large or _fewest_rows(probe.call) >= ROWS_OF_A_LARGEST:
        return DRAWS_OF_MANY if on_gpu else 0
    return DRAWS


def draws_of(recipe: Recipe, probes: tuple[Probe, ...], seed: int, *, on_gpu: bool = False) -> tuple[Probe, ...]:
    """Dealt out in turn for as long as the time lasts: without a GPU for what the checks themselves left of it."""
    rng = random.Random(seed ^ 0xD4A3)
    left = {probe.call.direction: DRAWS_PER_DIRECTION if on_gpu else ROWS_PER_DIRECTION for probe in probes}
    for probe in probes if not on_gpu else ():
        left[probe.call.direction] -= _rows(recipe, probe.shape) * probe.call.turns
    turns = (TURNS_ON_GPU if on_gpu else TURNS)[1]
    draws: list[Probe] = []
    for round_ in range(DRAWS):
        for probe in probes:
            cost = 1 if on_gpu else _rows(recipe, probe.shape) * turns
            if round_ >= _wanted(recipe, probe, on_gpu=on_gpu) or cost > left[probe.call.direction]:
                continue
            left[probe.call.direction] -= cost
            name = f"{len(probes) + len(draws):03d}"
            call = replace(probe.call, id=name, blob=f"{name}.in", turns=turns)
            draws.append(replace(probe, call=call, seed=rng.getrandbits(63), again=probe.call.id))
    return tuple(draws)


def plan(
    recipe: Recipe,
    cases: tuple[Shape, ...],
    checks: tuple[Shape, ...],
    seed: int,
    *,
    on_gpu: bool = False,
    hidden: tuple[Shape, ...] = (),
) -> tuple[Plan, tuple[Probe, ...]]:
    """`hidden`: shapes that are checked as well, and that only a GPU has the time for."""
    unfit = () if on_gpu else tuple(shape for shape in checks if shape.dtype == "bfloat16")
    runnable = tuple(shape for shape in checks if shape not in unfit)
    probes = probes_of(recipe, runnable, seed, TURNS_ON_GPU if on_gpu else TURNS, hidden)
    draws = draws_of(recipe, probes, seed, on_gpu=on_gpu)
    scored = tuple(
        CasePlan(call_of(recipe, shape, recipe.stock, shape.id), minimum_bytes(recipe, shape)) for shape in cases
    )
    skipped = tuple((shape.id, NOT_BF16) for shape in unfit)
    asked, alone = (tuple(probe.call for probe in some) for some in (probes, draws))
    return Plan(scored, asked, skipped, alone), (*probes, *draws)
