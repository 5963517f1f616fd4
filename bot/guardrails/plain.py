"""Which values of a module cannot change, and which uses of a table leave no second way to reach it."""

from __future__ import annotations

import ast

from bot.guardrails.source import Source, root

READING_METHODS = {"get", "items", "keys", "values", "index", "count"}
READING_CALLS = {
    *("len", "sorted", "min", "max", "sum", "any", "all", "tuple", "list", "set", "dict", "frozenset", "enumerate"),
    *("zip", "range", "isinstance", "reversed", "str", "int", "float", "bool", "join"),
}
FILLING_METHODS = {
    *("append", "add", "update", "setdefault", "pop", "popitem", "clear", "insert", "extend", "remove", "discard"),
    *("appendleft", "extendleft", "move_to_end", "send", "copy_", "zero_", "fill_"),
}
PLAIN_CALLS = {
    *("triton.language.constexpr", "triton.Config", "triton.cdiv", "triton.next_power_of_2", "functools.partial"),
    *("torch.finfo", "torch.iinfo", "torch.device", "typing.TypeVar", "collections.namedtuple", "dataclasses.field"),
}
PLAIN_BUILTINS = {
    *("frozenset", "tuple", "int", "float", "bool", "str", "len", "min", "max", "abs", "round", "range"),
    *("staticmethod", "classmethod", "property"),
}
GENERICS = {"dict", "list", "set", "tuple", "type", "frozenset"}
MOST_ROUNDS = 50


class Plain:
    """What is plain in one source. A name that is set to something that can change is `kept`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.kept: set[str] = set()
        for _ in range(MOST_ROUNDS):
            more = {
                name for name in source.values.keys() - self.kept if not all(map(self.is_plain, source.values[name]))
            }
            if not more:
                return
            self.kept |= more
        self.kept |= source.values.keys()  # renamed so often that nobody can tell

    def is_plain(self, node: ast.expr | None) -> bool:
        """Whether a value cannot change after it was made, however it is handed around."""
        match node:
            case ast.Constant() | ast.Lambda() | ast.JoinedStr() | ast.Compare():
                return True
            case ast.Attribute():
                return not self._source.defines(root(node)) and root(node) not in self.kept
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name) as generic):  # Optional[int]
                return bool(self._source.dotted(generic)) or name in GENERICS
            case ast.Name(id=name):
                return name not in self.kept
            case ast.Tuple(elts=parts) | ast.BoolOp(values=parts):
                return all(map(self.is_plain, parts))
            case ast.UnaryOp(operand=part) | ast.Starred(value=part):
                return self.is_plain(part)
            case ast.BinOp(left=left, right=right) | ast.IfExp(body=left, orelse=right):
                return self.is_plain(left) and self.is_plain(right)
            case ast.Call(args=args, keywords=keywords):
                return self.calls_plainly(node) and all(map(self.is_plain, (*args, *(k.value for k in keywords))))
        return False

    def calls_plainly(self, node: ast.Call) -> bool:
        """Whether what is called makes something plain out of plain arguments."""
        dotted = self._source.dotted(node.func)
        library = bool(dotted) and all(name in PLAIN_CALLS or name.startswith("math.") for name in dotted)
        return library or (isinstance(node.func, ast.Name) and node.func.id in PLAIN_BUILTINS)

    def is_read(self, node: ast.expr) -> bool:
        """Whether this use of something kept leaves no second way to reach it."""
        match self._source.parents[node]:
            case ast.Subscript(value=value, ctx=context):
                return value is not node or isinstance(context, ast.Load)
            case ast.Attribute(attr=attr):
                return attr in READING_METHODS
            case ast.Compare() | ast.BinOp() | ast.FormattedValue() | ast.UnaryOp() | ast.Starred():
                return True
            case ast.For(iter=part) | ast.comprehension(iter=part) | ast.If(test=part) | ast.While(test=part):
                return part is node
            case ast.IfExp(test=test) as choice:
                return test is node or self.is_read(choice)
            case ast.BoolOp() as choice:
                return self.is_read(choice)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name in READING_CALLS
            case ast.keyword(arg="configs") as keyword:
                call = self._source.parents[keyword]
                return isinstance(call, ast.Call) and "triton.autotune" in self._source.dotted(call.func)
        return False

    def is_built(self, node: ast.Name) -> bool:
        """A table may be filled where the module is made."""
        if self._source.scope(node) is not None:
            return False
        match self._source.parents[node]:
            case ast.Subscript(value=value):
                return value is node
            case ast.Attribute(attr=attr):
                return attr in FILLING_METHODS
        return False
