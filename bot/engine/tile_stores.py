"""Of which sizes a launch provably writes every element, where a program stores one tile of rows and columns.

    rows = program * BLOCK + tl.arange(0, BLOCK)
    tl.store(ptr + batch * stride_0 + head * stride_1 + rows[:, None] * stride_2 + cols[None, :] * stride_3, ...)

Each axis of the grid is asked for what it counts: tiles of a size (`cdiv(size, BLOCK)`), one of a size, or the pairs of
two (`batch = program // n_heads`, `head = program % n_heads`). Nothing but the ends of rows and columns may be masked.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, coverage, kernels, runs, source
from bot.engine.addresses import Names, Product
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

EARLY = m.Return() | m.While() | m.Break() | m.Continue()
DOWN, ACROSS = "[:, None]", "[None, :]"


@dataclass(frozen=True, slots=True)
class Tiled:
    """A launch, and the kernel's names. What the launch hands over is told in the host's words."""

    site: LaunchSite
    kernel: cst.FunctionDef
    names: Names
    grid: tuple[str, ...]

    def host(self, parameter: str) -> str:
        if parameter in self.names.unknown or parameter in self.names.moved:
            raise NotUnderstood(f"{parameter} is not what the launch hands over")
        return source.code(runs.given(self.site, self.kernel, parameter))

    def axis(self, node: cst.BaseExpression) -> int:
        """Which axis of the grid a program's number counts."""
        made = self.names.made.get(node.value) if isinstance(node, cst.Name) else None
        said = source.code(addresses.without_casts(node if made is None else made))
        if said not in kernels.PROGRAMS:
            raise NotUnderstood("it is not known what a program is one of")
        return kernels.PROGRAMS[said]


def _masked(tiled: Tiled, call: cst.Call) -> dict[str, str]:
    """Of each end that is masked, `rows[:, None]`, the size: all that a mask of `&` says."""
    mask = kernels.argument(call, 2, "mask")
    if isinstance(mask, cst.Name):
        mask = tiled.names.made.get(mask.value)
    found, rest = dict[str, str](), [mask] if mask is not None else []
    while rest:
        node = rest.pop()
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitAnd):
            rest += [node.left, node.right]
            continue
        if not m.matches(node, m.Comparison(comparisons=[m.ComparisonTarget(m.LessThan(), m.Name())])):
            raise NotUnderstood("a mask says more than where a size ends")
        compared = cst.ensure_type(node, cst.Comparison)
        found[source.code(compared.left)] = source.code(compared.comparisons[0].comparator)
    return found


def indexed(tiled: Tiled, found: list[Product], name: str) -> list[str]:
    """Of each axis of the tensor what its stride is multiplied with."""
    known = dict[int, str]()
    for term in found:
        strides = [factor for factor in term if factor in source.parameters(tiled.kernel)]
        said = {tiled.host(stride) for stride in strides} if len(term) == 2 else set()
        axes = [at for at in range(len(found)) if {f"{name}.stride({one})" for one in (at, at - len(found))} & said]
        if len(axes) != 1 or axes[0] in known or len(strides) != 1:
            raise NotUnderstood("a place is no sum of strides, one for each size")
        (known[axes[0]],) = (factor for factor in term if factor != strides[0])
    return [known[axis] for axis in range(len(found))]


def _cdiv(count: str) -> list[str]:
    """What is divided by what, where that is all."""
    node = source.expression(count)
    is_one = isinstance(node, cst.Call) and kernels.called_name(node) == "cdiv"
    return [source.code(arg.value) for arg in cst.ensure_type(node, cst.Call).args] if is_one else []


def _counted(tiled: Tiled, index: str, masked: dict[str, str]) -> tuple[int, str]:
    """Rows or columns of a tile: by which axis of the grid, and of which size."""
    size = tiled.host(masked[index])
    made = addresses.terms(cst.Name(index.partition("[")[0]), tiled.names)
    for program, axis in kernels.PROGRAMS.items():
        for block in kernels.constants(tiled.kernel):
            if sorted(made) == sorted([tuple(sorted((block, program))), (f"tl.arange(0, {block})",)]):
                said = tiled.grid[axis] if axis < len(tiled.grid) else "None"
                if _cdiv(said) == [size, tiled.host(block)]:
                    return axis, size
    raise NotUnderstood("tiles are not counted by their size")


def _quotients(tiled: Tiled, indices: list[str]) -> dict[int, tuple[int, str]]:
    """Sizes that one axis of the grid counts the pairs of, by their axis: `program // n` and `program % n`."""
    found: dict[int, tuple[int, str]] = {}
    nodes = {at: source.expression(index) for at, index in enumerate(indices)}
    parts = {at: one for at, one in nodes.items() if m.matches(one, m.BinaryOperation(right=m.Name()))}
    over = [at for at, one in parts.items() if m.matches(one, m.BinaryOperation(operator=m.FloorDivide()))]
    left = [at for at, one in parts.items() if m.matches(one, m.BinaryOperation(operator=m.Modulo()))]
    if len(over) != len(left) or len(over) > 1:
        raise NotUnderstood("a quotient has no rest")
    for one, other in zip(over, left, strict=True):
        quotient, rest = (cst.ensure_type(nodes[at], cst.BinaryOperation) for at in (one, other))
        axis, number = tiled.axis(quotient.left), source.code(quotient.right)
        pairs = source.expression(tiled.grid[axis]) if axis < len(tiled.grid) else None
        if (axis, number) != (tiled.axis(rest.left), source.code(rest.right)) or not m.matches(
            pairs, m.BinaryOperation(operator=m.Multiply())
        ):
            raise NotUnderstood("a quotient and its rest are of different numbers")
        each, others = tiled.host(number), cst.ensure_type(pairs, cst.BinaryOperation)
        if source.code(others.right) != each:
            raise NotUnderstood("the grid does not count the pairs of two sizes")
        found |= {one: (axis, source.code(others.left)), other: (axis, each)}
    return found


def sizes(site: LaunchSite, kernel: cst.FunctionDef, pointer: str, name: str) -> tuple[str, ...]:
    """In the host's words, of the tensor that it calls `name`. Raises NotUnderstood where it is not sure of any."""
    tiled = Tiled(site, kernel, addresses.names_of(kernel), runs.grid_of(site))
    if findall(kernel, EARLY):
        raise NotUnderstood("a program may end early")
    stores = coverage.only_stored(kernel, addresses.derived(pointer, tiled.names))
    if len(stores) != 1 or stores[0].around:
        raise NotUnderstood("not one store, in every program")
    found = addresses.terms(stores[0].call.args[0].value, tiled.names)
    if found.count((pointer,)) != 1:
        raise NotUnderstood("a place does not begin with the tensor's")
    indices = indexed(tiled, [term for term in found if term != (pointer,)], name)
    masked = _masked(tiled, stores[0].call)
    pairs = _quotients(tiled, indices)
    known = dict(pairs)
    for at, index in enumerate(indices):
        if index in masked and index.endswith((DOWN, ACROSS)):
            known[at] = _counted(tiled, index, masked)
        elif at not in known:
            axis = tiled.axis(source.expression(index))
            known[at] = (axis, "".join(tiled.grid[axis : axis + 1]))
    _refuse_gaps(tiled, [index for index in indices if index in masked], masked, [axis for axis, _ in known.values()])
    if len({axis for axis, _ in known.values()}) != len(known) - len(pairs) // 2:
        raise NotUnderstood("an axis of the grid counts two things")
    return tuple(known[at][1] for at in range(len(indices)))


def _refuse_gaps(tiled: Tiled, ends: list[str], masked: dict[str, str], axes: list[int]) -> None:
    """Rows and columns that are one are a diagonal; an axis that counts nothing of them is of something else."""
    sides = [end[len(end.partition("[")[0]) :] for end in ends]
    if sorted(sides) != sorted((DOWN, ACROSS)) or len(sides) != len(masked):
        raise NotUnderstood("a tile is not of rows and columns, or more than these is masked")
    if set(axes) != set(range(len(tiled.grid))):
        raise NotUnderstood("an axis of the grid counts nothing")
