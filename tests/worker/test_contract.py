"""The border between bench, judge and worker: what does not fit its shape stays outside."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.worker.contract import (
    ITEM_SIZE,
    MAX_TEXT,
    Argument,
    Call,
    CallAnswer,
    CheckAnswer,
    CheckRequest,
    ContractError,
    Footprint,
    Proof,
    Refusal,
    RunAnswer,
    Subject,
    TensorOut,
    TensorSpec,
    Touched,
    clip,
    offsets,
    parse,
    read_bytes,
    render,
    write_text,
)

ROOT = Path(__file__).parents[2]
NAMES = st.text(max_size=20)
SPECS = st.builds(
    TensorSpec,
    name=NAMES,
    dtype=st.sampled_from(sorted(ITEM_SIZE)),
    shape=st.lists(st.integers(0, 100), max_size=3).map(tuple),
    grad=st.booleans(),
)
VALUES = (
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | NAMES
)
ARGUMENTS = st.builds(Argument, name=NAMES, tensor=SPECS) | st.builds(Argument, name=NAMES, value=VALUES)
CALLS = st.builds(
    Call,
    id=NAMES,
    case=NAMES,
    direction=st.sampled_from(["forward", "backward", "full"]),
    arguments=st.lists(ARGUMENTS, max_size=3).map(tuple),
    grads=st.lists(SPECS, max_size=2).map(tuple),
    blob=NAMES,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(CALLS, max_size=3).map(tuple))
def test_what_is_rendered_is_read_back(calls: tuple[Call, ...]) -> None:
    subject = Subject("/root", "m", "m.py", (Proof("m.py", "0" * 64),))
    request = CheckRequest("check", subject, "sm_90", calls)
    assert parse(CheckRequest, render(request)) == request


@given(JSON)
def test_any_json_is_an_answer_or_a_contract_error(value: Any) -> None:
    try:
        parse(CheckAnswer, json.dumps(value))
    except ContractError:
        return
    assert isinstance(value, dict) and isinstance(value["calls"], list)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_contract_error(content: bytes) -> None:
    with pytest.raises(ContractError):
        parse(CheckAnswer, content)


ANSWER = CheckAnswer(
    (
        CallAnswer(
            "000",
            (
                RunAnswer(
                    "000-0.bin",
                    (TensorOut("output", "0", "float32", (2,), (1,), "cpu", 0, 8),),
                    (Footprint("k", (Touched("x", 1.0, 0.0),)),),
                    (),
                ),
            ),
            Refusal("memory", "x"),
        ),
    )
)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda a: a.pop("calls"), "CheckAnswer: field 'calls' is missing"),
        (lambda a: a.update(extra=1), "CheckAnswer: unknown field 'extra'"),
        (lambda a: a["calls"][0].update(id=3), "CheckAnswer.calls[0].id: expected str, found int"),
        (lambda a: a["calls"][0].update(runs={}), "CheckAnswer.calls[0].runs: expected a list, found dict"),
        (
            lambda a: a["calls"][0]["runs"][0]["tensors"][0].update(offset=True),
            "tensors[0].offset: expected int, found bool",
        ),
        (lambda a: a["calls"][0]["runs"][0]["tensors"][0].update(offset=2**70), "offset: the number is too large"),
        (lambda a: a["calls"][0]["runs"][0]["tensors"][0].update(role="oracle"), "is not one of"),
        (lambda a: a["calls"][0]["runs"][0]["footprints"][0]["regions"][0].update(read=1e999), "not a finite number"),
        (lambda a: a["calls"][0]["runs"][0]["footprints"][0]["regions"][0].update(read=10**400), "is too large"),
        (lambda a: a["calls"][0].update(refusal=[]), "a list does not fit here"),
    ],
)
def test_a_broken_answer_is_refused_by_name_of_the_field(spoil: Any, told: str) -> None:
    answer = json.loads(render(ANSWER))
    spoil(answer)
    with pytest.raises(ContractError) as refused:
        parse(CheckAnswer, json.dumps(answer))
    assert told in str(refused.value)


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(ContractError):
        parse(CheckAnswer, "[" * 200_000)


def test_a_whole_number_may_stand_for_a_share_and_nothing_else_may() -> None:
    assert parse(Touched, '{"region": "x", "read": 1, "write": 0}') == Touched("x", 1.0, 0.0)
    with pytest.raises(ContractError):
        parse(Touched, '{"region": "x", "read": true, "write": 0}')


@given(st.lists(SPECS, min_size=1, max_size=6).map(tuple))
def test_tensors_in_a_blob_are_aligned_and_apart(specs: tuple[TensorSpec, ...]) -> None:
    starts, size = offsets(specs)
    ends = [start + spec.nbytes for start, spec in zip(starts, specs, strict=True)]
    assert all(start % 64 == 0 for start in starts)
    assert all(end <= start for end, start in zip(ends, [*starts[1:], size], strict=True))


def test_a_plain_file_up_to_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5) == b"12345"
    with pytest.raises(ContractError, match="5 bytes, more than 4"):
        read_bytes(path, 4)


def test_links_pipes_folders_and_devices_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "link", tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "absent"):
        with pytest.raises(ContractError):
            read_bytes(path, 100)


def test_an_answer_is_written_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "answer.json", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]


def test_the_end_of_a_long_error_is_kept() -> None:
    assert clip("short") == "short"
    long = clip("x" * 5000 + "the reason")
    assert long.endswith("the reason")
    assert len(long) <= MAX_TEXT + 4


@pytest.mark.parametrize("house", ["worker", "judge"])
def test_guest_houses_parse_under_python_3_10(house: str) -> None:
    for path in (ROOT / "bot" / house).rglob("*.py"):
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 10))
