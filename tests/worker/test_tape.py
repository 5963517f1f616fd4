"""A tape comes from a process that ran hostile code: nothing in it may point outside of its own memory."""

from __future__ import annotations

from typing import Any

import pytest

from bot.worker.contract import ContractError, parse, render
from bot.worker.contract.tape import (
    MAX_STEPS,
    MOST_TOLD,
    READS,
    Descriptor,
    Item,
    Left,
    Operation,
    Pointer,
    Region,
    Scalar,
    Tape,
    View,
    sound,
)
from tests.worker.tapes import X, Y, kernel, operation, tape


def told(elements: int) -> Operation:
    """The host is told so many numbers, of one."""
    return operation(READS, Item("view", view=View(0, 0, "float32", (elements,), (0,))), result=None)


def test_an_honest_tape_crosses_the_border_unchanged() -> None:
    told = tape(kernel(), operation())
    assert sound(parse(Tape, render(told))) == told


def told_of(**changes: Any) -> Descriptor:
    """All of a matrix of bfloat16, 4 x 16."""
    given: dict[str, Any] = {"region": 0, "offset": 0, "element": 9, "shape": (4, 16), "stride": (16, 1)}
    return Descriptor(**{**given, "block": (2, 8), **changes})


def described(**changes: Any) -> Tape:
    return tape(kernel(arguments=(told_of(**changes), Scalar("i32", 8))))


def test_a_described_tensor_crosses_the_border_unchanged() -> None:
    told = described(swizzle=3, nan=True)
    assert sound(parse(Tape, render(told))) == told
    assert told_of().end == 128 and told_of(offset=32, shape=(3, 8)).end == 32 + 2 * (2 * 16 + 8)


def test_as_much_may_be_described_as_there_is() -> None:
    assert sound(described(shape=(1, 1, 1, 4, 16), stride=(64, 64, 64, 16, 1), block=(1, 1, 1, 256, 256)))
    assert sound(described(element=4, shape=(4, 4), stride=(4, 1), block=(1, 2)))
    assert sound(described(offset=96, shape=(1, 16)))
    assert sound(described(element=11, shape=(4, 8), stride=(8, 1)))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"region": 2}, "no region 2"),
        ({"shape": (5, 16)}, "outside of region 0"),
        ({"shape": (4, 17)}, "outside of region 0"),
        ({"offset": 16}, "outside of region 0"),
        ({"offset": -16}, "steps that no GPU takes"),
        ({"offset": 8, "shape": (3, 16)}, "steps that no GPU takes"),
        ({"stride": (12, 1), "shape": (4, 12)}, "steps that no GPU takes"),
        ({"stride": (-16, 1)}, "steps that no GPU takes"),
        ({"stride": (16, 2), "shape": (4, 8)}, "steps that no GPU takes"),
        ({"block": (2, 4)}, "steps that no GPU takes"),
        ({"stride": (2**39, 1), "shape": (1, 16)}, "steps that no GPU takes"),
        ({"stride": (2**62, 1), "shape": (1, 16), "element": 2}, "steps that no GPU takes"),
        ({"block": (2, 257)}, "blocks of"),
        ({"block": (0, 8)}, "blocks of"),
        ({"shape": (0, 16)}, "blocks of"),
        ({"shape": (), "stride": (), "block": ()}, "0 dimensions"),
        ({"shape": (1,) * 6, "stride": (8,) * 5 + (1,), "block": (8,) * 6}, "6 dimensions"),
        ({"stride": (1,)}, "2 dimensions"),
        ({"block": (8,)}, "2 dimensions"),
        ({"element": 10}, "unknown form"),
        ({"element": -1}, "unknown form"),
        ({"swizzle": 4}, "unknown form"),
        ({"swizzle": -1}, "unknown form"),
    ],
)
def test_a_descriptor_that_says_more_than_there_is_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ContractError, match=why):
        sound(described(**changes))


def test_a_view_ends_where_its_last_element_ends() -> None:
    assert X.end == 128
    assert View(0, 4, "bfloat16", (2, 3), (10, 1)).end == 4 + 2 * 13
    assert View(0, 64, "float32", (0, 8), (8, 1)).end == 64


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (tape(kernel(arguments=(Pointer(2, 0),))), "no region 2"),
        (tape(kernel(arguments=(Pointer(-1, 0),))), "no region -1"),
        (tape(kernel(arguments=(Pointer(0, 129),))), "outside of region 0"),
        (tape(kernel(arguments=(Pointer(0, -1),))), "outside of region 0"),
        (tape(kernel(arguments=(Scalar("i32", 2**32),))), "argument of kind 'i32'"),
        (tape(kernel(arguments=(Scalar("i128", 1),))), "argument of kind 'i128'"),
        (tape(kernel(binary="../../etc/passwd")), "not a hash"),
        (tape(kernel(grid=(0, 1, 1))), "grid"),
        (tape(kernel(grid=(1, 65536, 1))), "grid"),
        (tape(kernel(threads=2048)), "threads"),
        (tape(kernel(shared=-1)), "shared memory"),
        (tape(operation("aten::set_")), "not among the operations"),
        (tape(told(MOST_TOLD + 1)), "1025 elements for the host"),
        (tape(operation("aten::exp", Item("view", view=View(0, 0, "float32", (5, 8), (8, 1))))), "outside of region 0"),
        (tape(operation(result=View(1, 2, "float32", (4, 8), (8, 1)))), "between two elements"),
        (tape(operation(result=View(1, 0, "float32", (4, 8), (8, -1)))), "negative"),
        (tape(operation(result=View(1, 0, "object", (4, 8), (8, 1)))), "unknown form"),
        (tape(left=(Left("output", "0", View(1, 64, "float32", (4, 8), (8, 1))),)), "outside of region 1"),
        (tape(regions=(Region(-1, "x"), Region(128))), "no GPU has"),
        (tape(regions=(Region(2**40, "x"), Region(128))), "no GPU has"),
        (tape(*[kernel()] * (MAX_STEPS + 1)), "too long"),
        (tape(kernel(), waits=-1), "waits -1 times"),
        (tape(kernel(), waits=MAX_STEPS + 1), "waits 513 times"),
    ],
)
def test_what_points_elsewhere_is_refused(wrong: Tape, why: str) -> None:
    with pytest.raises(ContractError, match=why):
        sound(wrong)


def test_an_empty_recording_is_none() -> None:
    with pytest.raises(ContractError, match="nothing was launched"):
        sound(tape(steps=()))


@pytest.mark.parametrize("changes", [{"grid": (2**31 - 1, 65535, 65535)}, {"threads": 1024}, {"shared": 256 * 1024}])
def test_limits_themselves_are_allowed(changes: dict[str, Any]) -> None:
    assert sound(tape(kernel(**changes)))


def test_the_host_may_be_told_as_much_as_is_allowed() -> None:
    assert sound(tape(told(MOST_TOLD)))


def test_the_last_byte_of_a_region_may_be_named() -> None:
    assert sound(tape(kernel(arguments=(Pointer(0, 128), Scalar("i32", 2**32 - 1)))))
    assert sound(tape(operation(result=Y)))
