"""From what a script hands to an op back to the sizes of a case, in the recipe's own names.

The judge is asked what the op would be handed at sizes that are large primes: each dimension then tells which of the
names it is made of. What was read is believed only where the judge, asked for these sizes, plans the very same shapes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bot.worker.contract import Argument, Layout, TensorSpec
from bot.worker.contract.harvest import Given, Handed

PRIMES = (211, 223, 227, 229, 233, 239, 241, 251)
"""One for each name. None divides a small multiple of another of them and one."""
MOST, MOST_TOGETHER = 2**31, 2**52
"""No dimension of anything that is launched is longer, and no sizes of a case are larger when multiplied."""
ROWS = "rows"

Sizes = tuple[tuple[str, int], ...]
Arguments = tuple[Argument, ...]
Planned = Callable[[Sizes, str], Arguments]
"""(sizes, type) -> what the judge would hand to the op."""
TOO_LARGE = "a tensor of a size that no GPU takes"


class Unreadable(ValueError):
    """A call that the recipe of the kernel does not cover; says why."""


@dataclass(frozen=True)
class Read:
    """One call in the words of the recipe."""

    sizes: Sizes
    dtype: str
    differs: tuple[str, ...]
    """What is handed over otherwise than in the scored cases, one word or two each."""


@dataclass(frozen=True)
class Equation:
    """`factor` times the sizes of `names`, plus `more`, is `value`."""

    names: tuple[str, ...]
    factor: int
    more: int
    value: int


def fingerprint(names: Sequence[str]) -> Sizes:
    return tuple(zip(names, PRIMES, strict=False))


def _parts(marked: int, names: Sequence[str]) -> tuple[tuple[str, ...], int, int] | None:
    """(names, factor, what is added) of a dimension of the fingerprint; None for a plain number."""
    for more in (0, 1):
        rest, found = marked - more, []
        for name, prime in fingerprint(names):
            while rest and rest % prime == 0:
                rest //= prime
                found.append(name)
        if found and rest < min(PRIMES):
            return tuple(found), rest, more
    return None


def _equation(marked: int, value: int, names: Sequence[str]) -> Iterator[Equation]:
    parts = _parts(marked, names)
    if parts is not None:
        yield Equation(*parts, value)


def _folded(shape: tuple[int, ...], spec: TensorSpec, names: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """The shape with as many dimensions as the recipe has: leading ones become rows; one that is missing is 1."""
    extra = len(shape) - len(spec.shape)
    if extra <= 0:
        for places in itertools.combinations(range(len(spec.shape)), -extra):
            rest = iter(shape)
            yield tuple(1 if place in places else next(rest) for place in range(len(spec.shape)))
        return
    rows = dict(fingerprint(names)).get(ROWS)
    start = spec.shape.index(rows) if rows in spec.shape else 0
    if spec.shape:
        yield (*shape[:start], math.prod(shape[start : start + extra + 1]), *shape[start + extra + 1 :])


def _plain(handed: Handed) -> tuple[str, tuple[int, ...]]:
    """Complex numbers are pairs of real ones."""
    return ("float32", (*handed.shape, 2)) if handed.dtype == "complex64" else (handed.dtype, handed.shape)


def _solved(equations: Sequence[Equation]) -> dict[str, int] | None:
    """The sizes that fit all equations; None where two contradict each other."""
    known: dict[str, int] = {}
    grown = True
    while grown:
        grown = False
        for one in equations:
            missing = [name for name in one.names if name not in known]
            if len(missing) != 1:
                continue
            rest = one.factor
            for name in one.names:
                rest *= known.get(name, 1)
            size, left = divmod(one.value - one.more, rest)
            if left or size < 1:
                return None
            known[missing[0]], grown = size, True
    return known


def _told(marked: Argument, given: Given, names: Sequence[str]) -> list[Equation]:
    """What a plain argument that repeats sizes says of them."""
    pairs = [(marked.value, given.value)]
    if isinstance(marked.value, tuple) and isinstance(given.value, tuple) and len(marked.value) == len(given.value):
        pairs = list(zip(marked.value, given.value, strict=True))
    plain = [(one, value) for one, value in pairs if type(one) is int and type(value) is int]
    return [equation for one, value in plain for equation in _equation(one, value, names)]


def _choices(marked: Argument, given: Given, names: Sequence[str]) -> list[list[Equation]]:
    """The ways in which one argument can be read."""
    if marked.tensor is None or given.tensor is None:
        return [_told(marked, given, names)]
    _, shape = _plain(given.tensor)
    return [_sides(marked.tensor.shape, folded, names) for folded in _folded(shape, marked.tensor, names)]


def _sides(marked: tuple[int, ...], shape: tuple[int, ...], names: Sequence[str]) -> list[Equation]:
    pairs = zip(marked, shape, strict=True)
    return [equation for one, value in pairs for equation in _equation(one, value, names)]


def _layout(handed: Handed) -> Layout | None:
    """Dense, or heads as they leave a projection; None for any other."""
    shape, stride = handed.shape, handed.stride
    if len(shape) != len(stride):
        return None
    if stride == _dense(shape):
        return "dense"
    if len(shape) == 4:
        batch, heads, length, width = shape
        swapped = _dense((batch, length, heads, width))
        if stride == (swapped[0], swapped[2], swapped[1], swapped[3]):
            return "swapped"
    return None


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def _same(given: object, wanted: object) -> bool:
    """A number for each dimension is the same as one for all of them."""
    if isinstance(given, tuple) and type(wanted) is int:
        return set(given) == {wanted}
    return type(given) is type(wanted) and given == wanted


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _differences(wanted: Argument, given: Given) -> Iterator[str]:
    name, spec, handed = wanted.name, wanted.tensor, given.tensor
    if spec is not None and handed is not None:
        dtype, _ = _plain(handed)
        if dtype != spec.dtype:
            yield f"{name} in {dtype}"
        if handed.dtype != "complex64" and _layout(handed) != spec.layout and len(handed.shape) == len(spec.shape):
            yield f"{name} {_layout(handed) or 'not dense'}"
    elif spec is not None:
        yield f"no {name}" if given.value is None and not given.other else f"{name} is no tensor"
    elif handed is not None:
        yield f"a tensor as {name}"
    elif given.other or not _same(given.value, wanted.value):
        yield f"{name} {given.other or _shown(given.value)}"


def _dtype(marked: Arguments, arguments: Sequence[Given], drawn: str) -> str:
    """The type of the case: that of the first operand without a type of its own."""
    for one, given in zip(marked, arguments, strict=False):
        if one.tensor is not None and given.tensor is not None and one.tensor.dtype == drawn:
            return given.tensor.dtype
    return drawn


def _fits(wanted: Argument, given: Given) -> bool:
    """Whether the shapes are the same, but for ones and for rows in several dimensions."""
    if wanted.tensor is None or given.tensor is None:
        return True
    (_, shape), spec = _plain(given.tensor), wanted.tensor.shape
    if len(shape) <= len(spec):
        return [size for size in shape if size != 1] == [size for size in spec if size != 1]
    return math.prod(shape) == math.prod(spec) and shape[-1:] == spec[-1:]


def _sound(arguments: Sequence[Given]) -> None:
    for given in arguments:
        if given.tensor is not None and not all(1 <= size <= MOST for size in given.tensor.shape):
            raise Unreadable(TOO_LARGE)


def read_call(arguments: Sequence[Given], names: Sequence[str], planned: Planned, types: Sequence[str]) -> Read:
    """Sizes, type and differences of one call; Unreadable where the recipe has no words for it."""
    _sound(arguments)
    marked = planned(fingerprint(names), "bfloat16")
    if len(arguments) < sum(one.tensor is not None for one in marked):
        raise Unreadable(f"{len(arguments)} arguments, fewer than the recipe has tensors")
    dtype = _dtype(marked, arguments, "bfloat16")
    if dtype not in types:
        raise Unreadable(f"its tensors are {dtype[:20]}")
    pairs = list(zip(marked, arguments, strict=False))
    choices = [_choices(one, given, names) for one, given in pairs]
    for chosen in itertools.islice(itertools.product(*choices), 256):
        found = _solved([equation for equations in chosen for equation in equations])
        if found is None or set(found) != set(names):
            continue
        sizes = tuple((name, found[name]) for name in names)
        if math.prod(found.values()) > MOST_TOGETHER:
            raise Unreadable(TOO_LARGE)
        wanted = planned(sizes, dtype)
        if all(_fits(one, given) for one, given in zip(wanted, arguments, strict=False)):
            differs = [word for one, given in zip(wanted, arguments, strict=False) for word in _differences(one, given)]
            return Read(sizes, dtype, tuple(differs))
    shapes = ", ".join("x".join(map(str, g.tensor.shape)) or "a number" for g in arguments if g.tensor is not None)
    raise Unreadable(f"no sizes of the recipe give tensors of {shapes}")
