"""Holds an exchange against GitHub's own description of its API: the path, what was sent, what came back.

A schema of OpenAPI 3.0 is one of JSON Schema's fourth draft, but for `nullable`. An error that an endpoint does not
list, and few list them all, is held against GitHub's general shape of one.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft4Validator, FormatChecker

from tests.openapi.trim import COPY

API = "/api/v3"
SPANNING = ("ref", "path", "basehead")
"""Parameters that may hold slashes, whatever OpenAPI has to say about it."""
KNOWN_ERRORS: tuple[tuple[str, str, str], ...] = (
    (r"/pulls/\d+ 200|/pulls 200", r"head\.repo: None is not of type 'object'", "null once a fork was deleted"),
)
"""Errors of the description itself: exchange, finding, reason. At most eight, and each is needed by some test."""
FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time")
def _is_moment(value: object) -> bool:
    return not isinstance(value, str) or bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value))


@FORMATS.checks("uri")
def _is_address(value: object) -> bool:
    return not isinstance(value, str) or bool(re.fullmatch(r"https?://[^\s{}]+", value))


@dataclass(frozen=True, kw_only=True)
class Exchange:
    method: str
    path: str
    query: Mapping[str, str]
    sent: bytes
    status: int
    answer: bytes

    @property
    def name(self) -> str:
        return f"{self.method} {self.path} {self.status}"


def _nullable(part: Any) -> Any:
    """As JSON Schema says it. An enum need not name null where null is allowed, which GitHub's never does."""
    if isinstance(part, list):
        return [_nullable(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    said = {name: _nullable(inner) for name, inner in part.items() if name != "nullable"}
    return {"anyOf": [said, {"type": "null"}]} if part.get("nullable") is True else said


@functools.cache
def description() -> dict[str, Any]:
    found: dict[str, Any] = _nullable(json.loads(gzip.decompress(COPY.read_bytes())))
    return found


@functools.cache
def _routes() -> list[tuple[re.Pattern[str], str]]:
    def pattern(path: str) -> re.Pattern[str]:
        spans = {name: ".+" if name in SPANNING else "[^/]+" for name in re.findall(r"{(\w+)}", path)}
        return re.compile("".join(spans[part[1:-1]] if part[:1] == "{" else re.escape(part) for part in _parts(path)))

    return [(pattern(path), path) for path in sorted(description()["paths"], key=_exactness)]


def _exactness(path: str) -> tuple[int, str]:
    """Most letters of its own first."""
    return -len(re.sub(r"{\w+}", "", path)), path


def _parts(path: str) -> list[str]:
    return [part for part in re.split(r"({\w+})", path) if part]


@functools.cache
def route_of(path: str) -> str | None:
    return next((name for pattern, name in _routes() if pattern.fullmatch(path)), None)


def _resolved(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        part = description()["components"][kind][name]
    return part


@functools.cache
def _validator(schema: str) -> Draft4Validator:
    whole = {"components": description()["components"], "allOf": [json.loads(schema)]}
    return Draft4Validator(whole, format_checker=FORMATS)


def _against(schema: dict[str, Any], value: object) -> Iterator[str]:
    for error in _validator(json.dumps(schema)).iter_errors(value):
        deep = [error, *(error.context or ())]
        yield "; ".join(f"{'.'.join(map(str, one.absolute_path)) or 'body'}: {one.message[:200]}" for one in deep[:6])


def _json(text: bytes) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _content(part: dict[str, Any]) -> dict[str, Any] | None:
    content = part.get("content", {}).get("application/json")
    return content["schema"] if content else None


def _asked(operation: dict[str, Any], exchange: Exchange) -> Iterator[str]:
    known = {p["name"]: p for p in map(_resolved, operation.get("parameters", ())) if p["in"] == "query"}
    for name, text in exchange.query.items():
        if name not in known:
            yield f"query: nobody knows {name}"
            continue
        schema = known[name]["schema"]
        if schema.get("type") == "integer" and not text.isdecimal():
            continue  # GitHub takes no notice of such a number
        value: object = int(text) if schema.get("type") == "integer" else text
        yield from (f"query {name}: {why}" for why in _against(schema, value))
    body = _resolved(operation.get("requestBody", {}))
    sent, schema_ = _json(exchange.sent), _content(body)
    if schema_ is None:
        yield from ["a body was sent where none is read"] if sent else []
    elif sent is None:
        yield from ["no body was sent"] if body.get("required") else []
    else:
        yield from (f"sent {why}" for why in _against(schema_, sent))


def _came(operation: dict[str, Any], exchange: Exchange) -> Iterator[str]:
    found = operation["responses"].get(str(exchange.status))
    if found is None and exchange.status < 400:
        yield f"nobody said that {exchange.status} can come"
        return
    schema = {"$ref": "#/components/schemas/basic-error"} if found is None else _content(_resolved(found))
    value = _json(exchange.answer)
    if schema is None:
        yield from ["a body came where none was promised"] if value is not None else []
    elif value is None:
        yield "no body came"
    else:
        yield from _against(schema, value)


def wrong(exchange: Exchange) -> list[str]:
    """What GitHub's description says against it. A request that was refused need not have been a good one."""
    path = route_of(exchange.path.removeprefix(API))
    operation = description()["paths"].get(path, {}).get(exchange.method.lower())
    if operation is None:
        return [f"{exchange.name}: not in the description (see tests/openapi/trim.py for the paths that were kept)"]
    found = [*(_asked(operation, exchange) if exchange.status < 400 else ()), *_came(operation, exchange)]
    return [f"{exchange.name}: {why}" for why in found if not _known(exchange, why)]


def _known(exchange: Exchange, why: str) -> bool:
    return any(re.search(name, exchange.name) and re.search(text, why) for name, text, _ in KNOWN_ERRORS)
