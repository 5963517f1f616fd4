"""Strict JSON for the contract's records: every field is checked when it is read, unknown ones are refused."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, TypeVar, Union

from bot.worker.contract.limits import ContractError

T = TypeVar("T")


def _union_members(kind: Any) -> tuple[Any, ...] | None:
    origin = typing.get_origin(kind)
    if origin is Union or origin is types.UnionType:
        return typing.get_args(kind)
    return None


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:
            raise ContractError(f"{where}: the number is too large") from None
        if number != number or abs(number) == float("inf"):
            raise ContractError(f"{where}: not a finite number")
        return number
    if type(value) is not kind:
        raise ContractError(f"{where}: expected {getattr(kind, '__name__', kind)}, found {type(value).__name__}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ContractError(f"{where}: the number is too large")
    return value


def _tuple_of(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, list):
        raise ContractError(f"{where}: expected a list, found {type(value).__name__}")
    members = typing.get_args(kind)
    if len(members) == 2 and members[1] is Ellipsis:
        return tuple(_read(members[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if len(members) != len(value):
        raise ContractError(f"{where}: expected {len(members)} values, found {len(value)}")
    return tuple(_read(m, item, f"{where}[{i}]") for i, (m, item) in enumerate(zip(members, value, strict=True)))


def _union_of(members: tuple[Any, ...], value: Any, where: str) -> Any:
    for member in members:
        try:
            return _read(member, value, where)
        except ContractError:
            continue
    raise ContractError(f"{where}: a {type(value).__name__} does not fit here")


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ContractError(f"{where}: expected an object, found {type(value).__name__}")
    hints = _hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if unknown := sorted(set(value) - set(fields)):
        raise ContractError(f"{where}: unknown field {unknown[0]!r}")
    for name, field in fields.items():
        if name not in value and field.default is dataclasses.MISSING:
            raise ContractError(f"{where}: field {name!r} is missing")
    return kind(**{name: _read(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def _read(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, where)
    if (members := _union_members(kind)) is not None:
        return _union_of(members, value, where)
    origin = typing.get_origin(kind)
    if origin is tuple:
        return _tuple_of(kind, value, where)
    if origin is typing.Literal:
        if value not in typing.get_args(kind) or not isinstance(value, str):
            raise ContractError(f"{where}: {str(value)[:80]!r} is not one of {typing.get_args(kind)}")
        return value
    return _scalar(kind, value, where)


def parse(kind: type[T], text: str | bytes) -> T:
    """Text -> one of the shapes above, or a ContractError that names the field."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{kind.__name__}: not JSON") from error
    return typing.cast(T, _read(kind, value, kind.__name__))


def render(record: Any) -> str:
    return json.dumps(dataclasses.asdict(record), allow_nan=False)
