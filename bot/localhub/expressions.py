"""GitHub's `${{ }}` expressions, as far as our workflow files use them. What is not known here is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bot.errors import CorruptRecord

TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][\w-]*)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[<>!()\[\].,]))"
)
HOLE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
STATUS = re.compile(r"\b(always|success|failure|cancelled)\s*\(")
CONSTANTS = {"true": True, "false": False, "null": None}


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None:
            raise CorruptRecord(f"not an expression: {text.strip()!a}")
        found.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return found


def as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, list | dict) else str(value)


def _as_number(value: Any) -> float:
    if value is None or value == "":
        return 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def is_true(value: Any) -> bool:
    return value not in (None, False, 0, "")


def _same(left: Any, right: Any) -> bool:
    """Texts without regard to case; different kinds as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    return bool(left == right) if type(left) is type(right) else _as_number(left) == _as_number(right)


def _contains(where: Any, what: Any) -> bool:
    if isinstance(where, list):
        return any(_same(item, what) for item in where)
    return as_text(what).lower() in as_text(where).lower()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "contains": _contains,
    "startswith": lambda text, start: as_text(text).lower().startswith(as_text(start).lower()),
    "format": lambda text, *values: re.sub(r"\{(\d+)\}", lambda found: as_text(values[int(found[1])]), text),
    "fromjson": json.loads,
    "tojson": json.dumps,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _same,
    "!=": lambda left, right: not _same(left, right),
    "<": lambda left, right: _as_number(left) < _as_number(right),
    ">": lambda left, right: _as_number(left) > _as_number(right),
    "<=": lambda left, right: _as_number(left) <= _as_number(right),
    ">=": lambda left, right: _as_number(left) >= _as_number(right),
}


class _Reader:
    """Recursive descent; every level is one rank of operators."""

    def __init__(self, text: str, known: Mapping[str, Any]) -> None:
        self._text, self._known = text, known
        self._tokens = _tokens(text)

    def _next(self) -> str:
        return self._tokens[0][1] if self._tokens and self._tokens[0][0] == "sign" else ""

    def _take(self, sign: str) -> bool:
        if self._next() != sign:
            return False
        self._tokens.pop(0)
        return True

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise CorruptRecord(f"{sign} is missing in {self._text.strip()!a}")

    def whole(self) -> Any:
        value = self.either()
        if self._tokens:
            raise CorruptRecord(f"{self._tokens[0][1]!a} is too much in {self._text.strip()!a}")
        return value

    def either(self) -> Any:
        value = self.both()
        while self._take("||"):
            other = self.both()
            value = value if is_true(value) else other
        return value

    def both(self) -> Any:
        value = self.comparison()
        while self._take("&&"):
            other = self.comparison()
            value = other if is_true(value) else value
        return value

    def comparison(self) -> Any:
        value = self.negation()
        while self._next() in COMPARISONS:
            value = COMPARISONS[self._tokens.pop(0)[1]](value, self.negation())
        return value

    def negation(self) -> Any:
        return not is_true(self.negation()) if self._take("!") else self.place()

    def place(self) -> Any:
        value = self.atom()
        while self._next() in (".", "["):
            if self._take("."):
                key: Any = self._name()
            else:
                self._need("[")
                key = self.either()
                self._need("]")
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def _name(self) -> str:
        if not self._tokens or self._tokens[0][0] != "name":
            raise CorruptRecord(f"a name is missing in {self._text.strip()!a}")
        return self._tokens.pop(0)[1]

    def atom(self) -> Any:
        if self._take("("):
            value = self.either()
            self._need(")")
            return value
        if not self._tokens:
            raise CorruptRecord(f"something is missing in {self._text.strip()!a}")
        kind, text = self._tokens.pop(0)
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return float(text) if "." in text else int(text)
        return self._named(text)

    def _named(self, name: str) -> Any:
        if self._take("("):
            values: list[Any] = []
            while self._next() != ")":
                values.append(self.either())
                self._take(",")
            self._need(")")
            return self._called(name, values)
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name not in self._known:
            raise CorruptRecord(f"{name!a} is nothing that {self._text.strip()!a} may speak of here")
        return self._known[name]

    def _called(self, name: str, values: Sequence[Any]) -> Any:
        known = self._known.get("functions", {})
        function = known.get(name) or FUNCTIONS.get(name.lower())
        if function is None:
            raise CorruptRecord(f"no function {name!a} is known here")
        try:
            return function(*values)
        except (TypeError, ValueError) as error:  # also what a step that was cut off has not given
            raise CorruptRecord(f"{name}: {error}") from error


def evaluate(text: str, known: Mapping[str, Any]) -> Any:
    return _Reader(text, known).whole()


def fill(text: str, known: Mapping[str, Any]) -> Any:
    """A value of a workflow file with its holes filled; one that is a single hole keeps its kind."""
    alone = HOLE.fullmatch(text.strip())
    if alone and text.count("${{") == 1:
        return evaluate(alone[1], known)
    return HOLE.sub(lambda hole: as_text(evaluate(hole[1], known)), text)


def holds(condition: str | None, known: Mapping[str, Any]) -> bool:
    """An `if:`. Without a word about the steps before, it asks that they succeeded."""
    text = (condition or "true").strip()
    alone = HOLE.fullmatch(text)
    text = alone[1] if alone else text
    if not STATUS.search(text):
        text = f"success() && ({text})"
    return is_true(evaluate(text, known))
