"""What a tape asks of torch is done on the lanes' own memory, and on nothing else."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
import torch

from bot.judge import arms
from bot.judge.arms import MAKERS, OPERATIONS, Arm, Lane
from bot.judge.driver import Driver
from bot.judge.layout import ALIGN, BANKS, layout_of, padded, scratch_of
from bot.worker.contract import Argument, Call, ContractError, TensorSpec
from bot.worker.contract.tape import (
    LIBRARY,
    Descriptor,
    Item,
    Kernel,
    Left,
    Operation,
    Pointer,
    Region,
    Scalar,
    Tape,
    View,
)
from tests.worker.tapes import X, Y, kernel, operation, tape

CALL = Call("c", "forward-4x8", "forward", (Argument("x", TensorSpec("x", "float32", (4, 8))),), (), blob="", turns=1)


def played(told: Tape, x: torch.Tensor, lanes: int = 1) -> list[torch.Tensor]:
    """The first result of each lane after one pass, every lane on the same x."""
    layout = layout_of(CALL, told, lanes)
    arm = Arm(told, Path("nowhere"), layout, driver=None)  # type: ignore[arg-type]
    size = layout.bank_bytes + arm.scratch_bytes
    memory = torch.full((lanes * size,), 0xFF, dtype=torch.uint8)
    found = []
    for number in range(lanes):
        lane = Lane(memory, number * size)
        lane.tensor(0, X).copy_(x)
        arm.prepare(lane, 0)
        arm.body(lane, 0)
        into = [torch.empty(4, 8)]
        arm.hand_over(lane, into)
        found += into
    return found


def numbers() -> torch.Tensor:
    return torch.arange(32, dtype=torch.float32).reshape(4, 8)


def test_every_operation_that_may_be_recorded_can_be_played() -> None:
    assert set(OPERATIONS) | set(MAKERS) == LIBRARY
    assert not set(OPERATIONS) & set(MAKERS)


def test_a_step_reads_one_region_and_writes_another() -> None:
    first, second = played(tape(operation()), numbers(), lanes=2)
    assert torch.equal(first, 2 * numbers())
    assert torch.equal(second, 2 * numbers())


def item(view: View) -> Item:
    return Item("view", view=view)


class Noting:
    """A driver that launches nothing and says what it was handed: of what is described, where and as what."""

    def __init__(self) -> None:
        self.launched: list[list[Any]] = []

    def function(self, cubin: bytes, symbol: str, shared: int) -> str:
        return symbol

    def tensor_map(self, address: int, told: Descriptor) -> tuple[int, Descriptor]:
        return address, told

    def launch(self, function: Any, grid: Any, threads: int, shared: int, stream: int, values: list[Any]) -> None:
        self.launched.append(values)


def test_what_is_described_is_described_anew_for_the_memory_of_each_lane(tmp_path: Path) -> None:
    told = Descriptor(1, 32, 7, shape=(3, 8), stride=(8, 1), block=(1, 8))
    step = kernel(arguments=(Pointer(1, 32), told, Scalar("i32", 3)))
    (tmp_path / f"{step.binary}.cubin").write_bytes(b"a kernel")
    steps, driver = tape(step), Noting()
    layout = layout_of(CALL, steps, 2)
    arm = Arm(steps, tmp_path, layout, driver=driver)  # type: ignore[arg-type]
    size = layout.bank_bytes + arm.scratch_bytes
    memory = torch.zeros(2 * size, dtype=torch.uint8)
    for lane in (Lane(memory, 0), Lane(memory, size)):
        arm.body(lane, 0)
    places = []
    for pointer, (address, described), number, *_ in driver.launched:
        assert (described, number.value) == (told, 3)
        assert address == pointer.value, "as a pointer to the same place is"
        places.append(address)
    assert places[1] - places[0] == size


class Library:
    """Stands for libcuda: keeps what the driver is called with."""

    def __init__(self) -> None:
        self.called: list[Any] = []

    def cuTensorMapEncodeTiled(self, made: Any, *arguments: Any) -> int:
        self.called = [ctypes.addressof(made), len(made), *arguments]
        return 0


def test_the_driver_counts_dimensions_from_the_innermost_on() -> None:
    driver, library = Driver.__new__(Driver), Library()
    driver._library = library
    told = Descriptor(0, 0, 9, shape=(2, 5, 64), stride=(1024, 128, 1), block=(1, 4, 32), swizzle=2, nan=True)
    made = driver.tensor_map(4096, told)
    at, nbytes, element, rank, address, sizes, steps, block, each, *rest = library.called
    assert (at % 64, nbytes, ctypes.addressof(made)) == (0, 128, at)
    assert (element.value, rank.value, address.value) == (9, 3, 4096)
    assert (list(sizes), list(steps)[:2]) == ([64, 5, 2], [256, 2048]), "steps are bytes, the innermost goes without"
    assert (list(block), list(each)) == ([32, 4, 1], [1, 1, 1])
    assert [number.value for number in rest] == [0, 2, 2, 1]


EQUAL = operation("aten::equal", item(X), item(X), result=None)
READ = operation("aten::_local_scalar_dense", item(View(0, 4, "float32", (), ())), result=None)


@pytest.mark.parametrize(
    ("steps", "asks"),
    [
        ((EQUAL,), True),
        ((EQUAL, EQUAL), True),
        ((READ,), True),
        ((EQUAL, READ), True),
        ((EQUAL, operation("aten::zero_", item(Y), result=None)), False),
        ((EQUAL, kernel()), False),
        ((READ, kernel()), False),
        ((operation("aten::mul_.Tensor", item(X), Item("float", number=2.0), result=None),), False),
    ],
)
def test_who_only_asks_may_ask_again_and_changes_nothing(steps: tuple[Operation | Kernel, ...], asks: bool) -> None:
    told = tape(*steps, before=(operation(),))
    arm = Arm(told, Path("nowhere"), layout_of(CALL, told, 1), driver=None)  # type: ignore[arg-type]
    assert arm.only_asks == asks
    if asks:
        assert torch.equal(played(told, numbers())[0], 2 * numbers())


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (operation("aten::exp", item(X)), lambda x: x.exp()),
        (operation("aten::neg", item(X)), lambda x: -x),
        (operation("aten::clamp", item(X), Item("float", number=7.0), Item("none")), lambda x: x.clamp(min=7.0)),
        (operation("aten::div.Tensor", item(X), Item("float", number=4.0)), lambda x: x / 4),
        (operation("aten::add.Tensor", item(X), item(X), Item("int", number=2)), lambda x: 3 * x),
        (operation("aten::sub.Tensor", item(X), item(X), Item("int", number=2)), lambda x: -x),
        (operation("aten::copy_", item(Y), item(X), Item("bool", number=0), result=None), lambda x: x),
        (operation("aten::fill_.Scalar", item(Y), Item("float", number=3.5), result=None), lambda x: 0 * x + 3.5),
        (operation("aten::zero_", item(Y), result=None), lambda x: 0 * x),
        (
            operation(
                "aten::mm",
                item(X),
                item(View(0, 0, "float32", (8, 8), (0, 1))),
            ),
            lambda x: x.sum(dim=1, keepdim=True) * x[0],
        ),
        (
            operation(
                "aten::sum.dim_IntList",
                item(X),
                Item("ints", numbers=(0,)),
                Item("bool", number=1),
                Item("none"),
                result=View(1, 0, "float32", (1, 8), (8, 1)),
            ),
            None,
        ),
    ],
)
def test_operations_mean_what_torch_means(step: Operation, wanted: Any) -> None:
    found = played(tape(step), numbers())[0]
    if wanted is None:
        assert torch.equal(found[0], numbers().sum(dim=0))
    else:
        assert torch.equal(found, wanted(numbers()))


@pytest.mark.parametrize(
    ("op", "arguments", "wanted"),
    [("aten::max", (), 31.0), ("aten::min", (), 0.0), ("aten::sum", (), 496.0)],
)
def test_what_makes_one_number_of_all(op: str, arguments: tuple[Item, ...], wanted: float) -> None:
    told = tape(operation(op, item(X), *arguments, result=View(1, 0, "float32", (), ())))
    assert played(told, numbers())[0][0, 0] == wanted


@pytest.mark.parametrize(
    ("op", "wanted"),
    [("ne", 31), ("eq", 1), ("lt", 5), ("le", 6), ("gt", 26), ("ge", 27)],
)
def test_comparisons_mean_what_they_say(op: str, wanted: int) -> None:
    flags = View(2, 0, "bool", (4, 8), (8, 1))
    told = tape(
        operation(f"aten::{op}.Scalar", item(X), Item("int", number=5), result=flags),
        operation("aten::copy_", item(Y), item(flags), result=None),
        regions=(Region(128, "x"), Region(128), Region(32)),
    )
    assert played(told, numbers())[0].sum() == wanted


@pytest.mark.parametrize(("op", "wanted"), [("ne", 24), ("eq", 8), ("lt", 0), ("le", 8), ("gt", 24), ("ge", 32)])
def test_tensors_are_compared_place_by_place(op: str, wanted: int) -> None:
    """With the first row, which broadcasts."""
    flags, row = View(2, 0, "bool", (4, 8), (8, 1)), View(0, 0, "float32", (1, 8), (8, 1))
    told = tape(
        operation(f"aten::{op}.Tensor", item(X), item(row), result=flags),
        operation("aten::copy_", item(Y), item(flags), result=None),
        regions=(Region(128, "x"), Region(128), Region(32)),
    )
    assert played(told, numbers())[0].sum() == wanted


def test_a_comparison_for_the_host_leaves_nothing_behind() -> None:
    told = tape(operation("aten::equal", item(X), item(X), result=None), operation())
    assert torch.equal(played(told, numbers())[0], 2 * numbers())


@pytest.mark.parametrize(
    ("step", "dtype", "wanted"),
    [
        (EQUAL, torch.bool, True),
        (
            operation("aten::equal", item(X), item(View(0, 0, "float32", (4, 8), (0, 1))), result=None),
            torch.bool,
            False,
        ),
        (READ, torch.float32, 1.0),
        (operation(READ.op, item(View(0, 8, "float32", (1, 1), (8, 1))), result=None), torch.float32, 2.0),
    ],
)
def test_the_host_is_told_by_a_copy_that_stays_where_the_answer_is(
    step: Operation, dtype: torch.dtype, wanted: float
) -> None:
    """A comparison as well: otherwise who reads the number would pay for a copy that v0 is spared."""
    heard = arms._HEARD.setdefault((dtype, 1), torch.empty(1, dtype=dtype))
    heard.fill_(not wanted)
    assert torch.equal(played(tape(step, operation()), numbers())[0], 2 * numbers())
    assert arms._HEARD[dtype, 1] is heard and heard.item() == wanted


def test_several_numbers_are_told_in_one_copy() -> None:
    step = operation(READ.op, item(View(0, 0, "float32", (4, 2), (8, 3))), result=None)
    assert torch.equal(played(tape(step, operation()), numbers())[0], 2 * numbers())
    assert torch.equal(arms._HEARD[torch.float32, 8].view(4, 2), numbers()[:, [0, 3]])


def test_what_prepares_runs_before_what_is_scored() -> None:
    told = tape(operation("aten::exp", item(Y)), before=(operation("aten::neg", item(X)),))
    assert torch.equal(played(told, numbers())[0], (-numbers()).exp())


def test_a_tape_may_not_bring_inputs_of_its_own() -> None:
    stranger = tape(operation(), regions=(Region(128, "weights of mine"), Region(128)))
    with pytest.raises(ContractError, match="is not the judge's"):
        played(stranger, numbers())


def test_an_input_of_another_size_is_not_the_judges() -> None:
    with pytest.raises(ContractError, match="is not the judge's"):
        played(tape(operation(), regions=(Region(256, "x"), Region(128))), numbers())


def test_a_variant_has_to_leave_what_v0_leaves() -> None:
    layout = layout_of(CALL, tape(operation()), 1)
    other = tape(operation(), left=(Left("output", "1", Y),))
    with pytest.raises(ContractError, match="other results"):
        Arm(other, Path("nowhere"), layout, driver=None)  # type: ignore[arg-type]


def test_banks_and_slots_never_touch() -> None:
    layout = layout_of(CALL, tape(operation()), lanes=3)
    assert layout.bank_bytes == padded(128) == ALIGN
    spans = [(layout.bank(b), layout.bank_bytes) for b in range(BANKS)]
    spans += [(layout.result(s, lane), layout.lane_bytes) for s in range(layout.slots) for lane in range(3)]
    ends = [0, *(start + size for start, size in sorted(spans))]
    assert [start for start, _ in sorted(spans)] == ends[:-1]
    assert ends[-1] == layout.shared_bytes


def test_neighbouring_lanes_hold_different_contents() -> None:
    layout = layout_of(CALL, tape(operation()), lanes=4)
    assert [layout.contents(1, lane) for lane in range(4)] == [1, 2, 0, 1]


def test_inputs_take_no_room_among_the_scratch() -> None:
    placed, size = scratch_of((Region(128, "x"), Region(100), Region(513)))
    assert placed == {1: 0, 2: 512}
    assert size == 512 + 1024
