"""torch's arithmetic on the rows of tensors, read from host lines and written as a Triton kernel with a program a row.

What is read: sums, differences, products and quotients of tensors of one shape, numbers, sums along the last dimension
that keep it, softmax and log_softmax along it, exponentials. What needs no other element of its row is worked out where
it is wanted; a sum or a largest element of a row takes a walk over the row of its own, after those that it needs. What
torch writes down in the tensors' type is rounded to it, though nothing is written down: a row of softmax whose one
element is 1 in float16 loses in a gradient what is rounded away of it, and keeps what is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.source import NotUnderstood

OPERATORS: dict[type[cst.BaseBinaryOp], str] = {cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/"}
KEPT = {"dim": "-1", "keepdim": "True"}
ALONG = {"dim": "-1"}
ROUNDED = "_rounded"
"""To the type of the tensors, and on in float32."""
LONG = 72
"""Of an expression in a line."""
FULL, ROW, NUMBER = 2, 1, 0
"""How much there is of something: an element for each of a tensor's, one a row, one in all."""


@dataclass(frozen=True)
class Leaf:
    """A tensor by its name, or a number by its name or itself."""

    said: str
    extent: int


@dataclass(frozen=True)
class Worked:
    """An operator between two, or `exp`, `log` or `ROUNDED` of one."""

    operator: str
    parts: tuple[Expression, ...]

    @cached_property
    def extent(self) -> int:
        return max(part.extent for part in self.parts)


@dataclass(frozen=True)
class Reduced:
    """The `sum` or the `max` of each row."""

    kind: str
    of: Expression
    extent: int = ROW


Expression = Leaf | Worked | Reduced


def parts_of(one: Expression) -> tuple[Expression, ...]:
    match one:
        case Worked(parts=parts):
            return parts
        case Reduced(of=of):
            return (of,)
    return ()


def every(one: Expression) -> Iterator[Expression]:
    """It and all that it is made of, the innermost first."""
    for part in parts_of(one):
        yield from every(part)
    yield one


def _in_a_turn(one: Expression) -> Iterator[Expression]:
    """Of `every` what is worked out for it in a turn, as often as it is: not what a sum of the row was made of."""
    for part in () if isinstance(one, Reduced) else parts_of(one):
        yield from _in_a_turn(part)
    yield one


def walk_of(one: Expression) -> int:
    """In which walk over a row it is known: what needs no other element in the first."""
    inner = max((walk_of(part) for part in parts_of(one)), default=0)
    return inner + 1 if isinstance(one, Reduced) else inner


def launches_of(one: Expression) -> int:
    """Of torch's: each writes down what it has worked out."""
    return len({part for part in every(one) if isinstance(part, Worked) and part.operator == ROUNDED})


def _softmax(of: Expression, *, in_log: bool) -> Expression:
    apart = Worked("-", (of, Reduced("max", of)))
    total = Reduced("sum", Worked("exp", (apart,)))
    return Worked("-", (apart, Worked("log", (total,)))) if in_log else Worked("/", (Worked("exp", (apart,)), total))


def _rounded(of: Expression) -> Expression:
    return Worked(ROUNDED, (of,))


def as_stored(one: Expression) -> Expression:
    return one.parts[0] if isinstance(one, Worked) and one.operator == ROUNDED else one


@dataclass(frozen=True)
class Reader:
    """`known`: names that stand for an expression. `numbers`: those that are numbers, not tensors."""

    known: Mapping[str, Expression]
    numbers: frozenset[str]

    def read(self, node: cst.BaseExpression) -> Expression:
        match node:
            case cst.Name(value=name) if name not in ("True", "False", "None"):
                return self.known.get(name) or Leaf(name, NUMBER if name in self.numbers else FULL)
            case cst.Integer() | cst.Float():
                return Leaf(source.code(node.with_changes(lpar=(), rpar=())), NUMBER)
            case cst.BinaryOperation() if type(node.operator) in OPERATORS:
                both = self.read(node.left), self.read(node.right)
                if max(one.extent for one in both) == NUMBER:
                    raise NotUnderstood("arithmetic of numbers is the host's")
                if both[0].extent == NUMBER and isinstance(node.operator, cst.Divide):
                    raise NotUnderstood("torch multiplies with a reciprocal, and rounds twice")
                return _rounded(Worked(OPERATORS[type(node.operator)], both))
            case cst.Call():
                return self._called(node)
        raise NotUnderstood(f"{source.code(node)} is no arithmetic of rows")

    def _called(self, call: cst.Call) -> Expression:
        """`torch.name(x, ...)` or `x.name(...)`."""
        if not isinstance(call.func, cst.Attribute) or any(arg.star for arg in call.args):
            raise NotUnderstood("nobody knows what is called")
        name, of = str(call.func.attr.value), call.func.value
        args = list(call.args)
        if m.matches(of, m.Name("torch")):
            if not args or args[0].keyword is not None:
                raise NotUnderstood("nobody knows of what")
            of = args.pop(0).value
        told = {arg.keyword.value if arg.keyword is not None else "": source.code(arg.value) for arg in args}
        x = self.read(of)
        if x.extent == FULL and name == "sum" and told == KEPT:
            return _rounded(Reduced("sum", x))
        if x.extent == FULL and name in ("softmax", "log_softmax") and told == ALONG:
            return _rounded(_softmax(x, in_log=name == "log_softmax"))
        if x.extent != NUMBER and name == "exp" and not told:
            return _rounded(Worked("exp", (x,)))
        if x.extent == ROW and name == "broadcast_to" and len(args) == 1 and self._is_shape(args[0].value):
            return x
        if name == "contiguous" and not told and isinstance(x, Worked) and x.extent == FULL:
            return x
        raise NotUnderstood(f"{name} is not read")

    def _is_shape(self, node: cst.BaseExpression) -> bool:
        """`x.shape` of a whole tensor: all of them have one shape."""
        return isinstance(node, cst.Attribute) and node.attr.value == "shape" and self.read(node.value).extent == FULL


@dataclass(frozen=True)
class Kernel:
    """`outputs`: what is stored, by name."""

    name: str
    outputs: Mapping[str, Expression]

    @cached_property
    def _every(self) -> tuple[Expression, ...]:
        return tuple(dict.fromkeys(part for one in self.outputs.values() for part in every(one)))

    @property
    def reduces(self) -> bool:
        return bool(self._reduced)

    def leaves(self, extent: int) -> tuple[str, ...]:
        """Tensors, or numbers that have a name."""
        found = (one for one in self._every if isinstance(one, Leaf) and one.extent == extent)
        return tuple(one.said for one in found if one.said.isidentifier())

    @cached_property
    def _reduced(self) -> dict[Expression, str]:
        """What is known of a row, by the name that it has in the kernel."""
        names: dict[Expression, str] = {}
        for one in self._every:
            if isinstance(one, Reduced):
                name = "largest" if one.kind == "max" else "total"
                again = sum(known.startswith(name) for known in names.values())
                names[one] = f"{name}_{again + 1}" if again else name
        return names

    def _said(self, one: Expression, named: Mapping[Expression, str], *, tighter_than: int = 0) -> str:
        """In brackets where it stands in something that binds tighter. `named`: what has a name by now."""
        if one in named:
            return named[one]
        match one:
            case Leaf(said=said):
                return said
            case Reduced():
                return self._reduced[one]
            case Worked(operator=operator, parts=(only,)):
                said = self._said(only, named)
                return f"{ROUNDED}({said}, kind)" if operator == ROUNDED else f"tl.{operator}({said})"
            case Worked(operator=operator, parts=(left, right)):
                binds = 1 if operator in "+-" else 2
                first = self._said(left, named, tighter_than=binds - 1)
                text = f"{first} {operator} {self._said(right, named, tighter_than=binds)}"
                return text if binds > tighter_than else f"({text})"
        raise AssertionError(one)

    def _parts(self, wanted: Sequence[Expression]) -> tuple[list[str], dict[Expression, str]]:
        """Lines of a turn that give a name to what is wanted more than once in it, or would make a line too long."""
        lines, named = list[str](), dict[Expression, str]()
        seen = Counter(part for one in wanted for part in _in_a_turn(one))

        def name(one: Expression) -> None:
            if isinstance(one, Worked) and one.extent == FULL and one not in named:
                text = self._said(one, named)
                named[one] = f"part_{len(named) + 1}"
                lines.append(f"        {named[one]} = {text}")

        for one in dict.fromkeys(part for whole in wanted for part in _in_a_turn(whole)):
            if seen[one] > 1:
                name(one)
            elif len(self._said(one, named)) > LONG:
                for part in parts_of(one):
                    name(part)
        return lines, named

    def _loaded(self, *wanted: Expression) -> Iterator[str]:
        """The lines of a turn that load what these need of the row, outside of what is known of it."""
        needed = {part.said for one in wanted for part in _in_a_turn(one) if isinstance(part, Leaf)}
        yield from (
            f"        {name} = tl.load({name}_ptr + offsets, mask=mask, other=0.0).to(tl.float32)"
            for name in self.leaves(FULL)
            if name in needed
        )

    def _walks(self) -> Iterator[str]:
        walks = sorted({walk_of(one) for one in self._reduced})
        for walk in walks:
            found = {
                one: name for one, name in self._reduced.items() if walk_of(one) == walk and isinstance(one, Reduced)
            }
            for one, name in found.items():
                begins = 'float("-inf")' if one.kind == "max" else "0.0"
                yield f"    {name} = tl.full((BLOCK_SIZE,), {begins}, dtype=tl.float32)"
            yield from _TURN
            yield from self._loaded(*(one.of for one in found))
            lines, named = self._parts([one.of for one in found])
            yield from lines
            for one, name in found.items():
                here = self._said(one.of, named)
                if one.kind == "max":
                    yield f'        {name} = tl.maximum({name}, tl.where(mask, {here}, float("-inf")))'
                else:
                    yield f"        {name} += tl.where(mask, {here}, 0.0)"
            yield from (f"    {name} = tl.{one.kind}({name}, axis=0)" for one, name in found.items())

    def text(self) -> str:
        pointers = [f"{name}_ptr" for name in self.leaves(FULL)] + [f"new_{name}_ptr" for name in self.outputs]
        lines = [
            "@triton.jit",
            f"def {self.name}(",
            *(f"    {name}," for name in (*pointers, *self.leaves(NUMBER), "n_cols", "BLOCK_SIZE: tl.constexpr")),
            "):",
            f"    kind: tl.constexpr = {pointers[0]}.dtype.element_ty",
            "    first = tl.program_id(0).to(tl.int64) * n_cols",
            *self._walks(),
            *_TURN,
            *self._loaded(*self.outputs.values()),
        ]
        parts, named = self._parts(list(self.outputs.values()))
        lines += parts
        for name, one in self.outputs.items():
            lines.append(f"        new_{name} = {self._said(one, named)}")
            lines.append(f"        tl.store(new_{name}_ptr + offsets, new_{name}, mask=mask)")
        return "\n".join(lines) + "\n"


_TURN = (
    "    for start in range(0, n_cols, BLOCK_SIZE):",
    "        offsets = first + start + tl.arange(0, BLOCK_SIZE)",
    "        mask = start + tl.arange(0, BLOCK_SIZE) < n_cols",
)
