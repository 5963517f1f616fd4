"""Whether a kernel goes through its columns in steps of a block, so that a smaller block still sees all of them.

Argued from every access: columns come from `tl.arange(0, BLOCK)`, and each address that is made of them also holds the
place of a loop around it that goes on by the block: `for start in range(0, n, BLOCK)` with `start + cols`, or
`for i in range(tl.cdiv(n, BLOCK))` with `i * BLOCK + cols`. What is not understood counts as a row taken at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, columns, kernels, ranges, source
from bot.engine.addresses import Names
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

SIZES = ("arange", "cdiv", "zeros", "full")
"""Calls that may read the block: they ask how large it is and nothing else."""
ACCESSES = ("load", "store")
DEEPEST = 24
"""Names that stand for names; one that is made of itself would never end."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an access stands: the loops around it, and what each name stands for there."""

    loops: tuple[cst.For, ...]
    names: Names


def _is_access(call: cst.Call) -> bool:
    name = kernels.called_name(call)
    return bool(call.args) and (name in ACCESSES or name.startswith("atomic_"))


class _Steps:
    def __init__(self, kernel: cst.FunctionDef, block: str) -> None:
        self.kernel, self.block = kernel, block
        self.spread = columns.of_rows(kernel)
        self.names = addresses.names_of(kernel)
        self.seen = False

    def hold(self) -> bool:
        if self._means_more() or not all(self._is_plain(call) for call in kernels.calls(self.kernel, "arange")):
            return False
        return self._accesses(self.kernel.body, _Place((), self.names)) and self.seen

    def _is_plain(self, call: cst.Call) -> bool:
        """Whether an arange is over the block itself, or has nothing to do with it."""
        end = kernels.argument(call, 1, "end")
        made = self.names.made.get(end.value, end) if isinstance(end, cst.Name) else end
        return end is not None and (source.code(end) == self.block or not source.loads(made or end, self.block))

    def _means_more(self) -> bool:
        """Whether the block is read where it is no size: compared, handed on to a helper, added to a pointer."""
        sizes: list[cst.CSTNode] = [call for name in SIZES for call in kernels.calls(self.kernel, name)]
        for loop in kernels.loops(self.kernel):
            sizes.append(loop.iter)
            for product in findall(loop.body, m.BinaryOperation(operator=m.Multiply())):
                sizes += [product] if self._counted(product, loop) else []
        known = {id(name) for size in sizes for name in findall(size, m.Name(self.block))}
        return any(id(name) not in known for name in findall(self.kernel.body, m.Name(self.block)))

    def _counted(self, product: cst.CSTNode, loop: cst.For) -> bool:
        sides = {
            source.code(side) for side in (getattr(product, "left", loop.iter), getattr(product, "right", loop.iter))
        }
        return sides == {self.block, source.code(loop.target)}

    def _accesses(self, node: cst.CSTNode, place: _Place) -> bool:
        """Whether every access in it steps by the block, or has nothing to do with it."""
        if isinstance(node, cst.For):
            return self._accesses(node.body, self._inside(node, place))
        if isinstance(node, cst.Call) and _is_access(node) and not self._steps(node.args[0].value, place):
            return False
        return all(self._accesses(child, place) for child in node.children)

    def _inside(self, loop: cst.For, place: _Place) -> _Place:
        """In a loop a name stands for what the loop makes of it, if that is one thing."""
        made: dict[str, list[cst.BaseExpression]] = {}
        for found in findall(loop.body, m.Assign(targets=[m.AssignTarget(target=m.Name())])):
            assign = cst.ensure_type(found, cst.Assign)
            made.setdefault(cst.ensure_type(assign.targets[0].target, cst.Name).value, []).append(assign.value)
        once = {name: values[0] for name, values in made.items() if len(values) == 1}
        grown = {name.value for name in self._grown(loop) if isinstance(name, cst.Name)}
        kept = {name: value for name, value in place.names.made.items() if name not in made}
        mine = {name: value for name, value in {**kept, **once}.items() if name not in grown}
        return _Place((*place.loops, loop), Names(mine, place.names.moved, place.names.unknown))

    def _grown(self, loop: cst.For) -> list[cst.BaseExpression]:
        return [cst.ensure_type(found, cst.AugAssign).target for found in findall(loop.body, m.AugAssign())]

    def _steps(self, node: cst.CSTNode, place: _Place, depth: int = 0) -> bool:
        """Whether what is made of the block's columns in it goes on with a loop."""
        if depth > DEEPEST:
            return False
        if isinstance(node, cst.Name):
            made = place.names.made.get(node.value)
            if made is not None:
                return self._steps(made, place, depth + 1)
            return node.value not in self.spread
        if isinstance(node, cst.Call) and kernels.called_name(node) == "arange":
            return not self._is_block(node)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return self._sum_steps(node, place, depth)
        if isinstance(node, cst.Attribute | cst.Arg):
            return self._steps(node.value, place, depth + 1)
        return all(self._steps(child, place, depth + 1) for child in node.children)

    def _sum_steps(self, node: cst.BaseExpression, place: _Place, depth: int) -> bool:
        terms = addresses.parts(node)
        bare = [term for term in terms if self._is_columns(term, place)]
        if bare and not self._goes_on(node, place):
            return False
        self.seen |= bool(bare)
        return all(self._steps(term, place, depth + 1) for term in terms if term not in bare)

    def _is_block(self, call: cst.Call) -> bool:
        end = kernels.argument(call, 1, "end")
        return end is None or source.loads(end, self.block) > 0

    def _is_columns(self, node: cst.BaseExpression, place: _Place) -> bool:
        """The arange itself, or a variable that holds it."""
        node = addresses.without_casts(node)
        if isinstance(node, cst.Name) and node.value in place.names.made:
            node = addresses.without_casts(place.names.made[node.value])
        return isinstance(node, cst.Call) and kernels.called_name(node) == "arange" and self._is_block(node)

    def _goes_on(self, node: cst.BaseExpression, place: _Place) -> bool:
        """Whether the place of a loop that goes on by the block is one of the terms."""
        found = addresses.terms(node, place.names)
        return any(step in found for loop in place.loops if (step := self._step(loop, place)) is not None)

    def _step(self, loop: cst.For, place: _Place) -> addresses.Product | None:
        call, target = loop.iter, source.code(loop.target)
        if not isinstance(call, cst.Call) or kernels.called_name(call) not in ranges.NAMES:
            return None
        by = kernels.argument(call, 2, "step")
        if by is not None:
            return (target,) if source.code(by) == self.block else None
        stop = call.args[-1].value if call.args and call.args[-1].keyword is None else None
        if isinstance(stop, cst.Name):
            stop = place.names.made.get(stop.value)
        counted = isinstance(stop, cst.Call) and kernels.called_name(stop) == "cdiv" and len(stop.args) == 2
        if isinstance(stop, cst.Call) and counted and source.code(stop.args[1].value) == self.block:
            return tuple(sorted((self.block, target)))
        return None


@lru_cache(maxsize=64)
def by_block(text: str, kernel: str, block: str) -> bool:
    try:
        definition = source.kernel_named(source.parse(text), kernel)
        return definition is not None and _Steps(ranges.straight(definition), block).hold()
    except NotUnderstood:
        return False
