"""What an op does beside its results is noticed, whatever its results are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from bot.worker import manners
from bot.worker.contract import Argument, Call, CallAnswer, Refusal, RunAnswer, TensorSpec


class Op:
    """Stands for an autograd function."""

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def apply(self, *arguments: Any) -> Any:
        return self.returned


class Lazy(torch.Tensor):
    """Does the work when somebody looks."""


@pytest.fixture
def as_it_was() -> Iterator[None]:
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    yield
    torch.set_rng_state(state)
    torch.set_default_dtype(dtype)
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.usefixtures("as_it_was")
def test_a_switch_that_was_turned_is_named() -> None:
    before = manners.switches()
    assert manners.switched(before) == []
    torch.set_default_dtype(torch.float64)
    assert manners.switched(before) == ["it changes the default type for everybody"]


@pytest.mark.usefixtures("as_it_was")
def test_drawing_random_numbers_moves_everybody_elses() -> None:
    before = manners.switches()
    torch.rand(1)
    assert manners.switched(before) == ["it changes the random numbers that come next for everybody"]


@pytest.mark.usefixtures("as_it_was")
def test_matrix_products_in_reduced_precision_are_a_switch() -> None:
    before = manners.switches()
    torch.backends.cuda.matmul.allow_tf32 = True
    assert any("matrix products" in odd for odd in manners.switched(before))


def test_a_tensor_of_its_own_kind_is_no_result() -> None:
    plain = torch.ones(2)
    assert manners.disguised([plain, None, torch.nn.Parameter(torch.ones(1))]) == []
    assert manners.disguised([plain.as_subclass(Lazy)]) == ["it returns a Lazy, not a plain tensor"]


def test_nothing_may_hang_on_a_result() -> None:
    result = torch.ones(2)
    result.clone = lambda: torch.zeros(2)  # type: ignore[method-assign]
    assert manners.disguised([result]) == ["it hangs clone on a tensor it returns"]


def test_a_result_that_the_backward_pass_writes_over_is_noticed() -> None:
    output, other = torch.ones(3), torch.zeros(2)
    witness = manners.Witness(Op((output, other)))
    assert witness.apply() == (output, other)
    assert witness.rewritten() == []
    output[1] = 5.0
    assert len(witness.rewritten()) == 1


def test_an_earlier_result_that_changes_is_noticed_unless_it_is_the_callers_own_memory() -> None:
    result, given = torch.ones(3), torch.ones(4)
    kept = manners.keep([result, given[1:], None], [given])
    given += 1
    assert kept.rewritten() == []
    result += 1
    assert len(kept.rewritten()) == 1


def test_new_contents_at_the_same_place_leave_no_trace() -> None:
    x = torch.arange(8.0).reshape(2, 4).requires_grad_(True)
    place, version = x.data_ptr(), x._version
    real = manners.disturb({"x": x})
    assert x.tolist() == [[0, 3, 2, 1], [4, 7, 6, 5]]
    assert float(x.detach().sum()) == 28.0, "whoever compares sums sees nothing new"
    manners.restore({"x": x}, real)
    assert x.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert (x.data_ptr(), x._version) == (place, version)


def test_narrow_and_whole_numbers_are_disturbed_too() -> None:
    tensors = {"narrow": torch.tensor([[2.0], [3.0]]), "labels": torch.tensor([1, 2, 3]), "none": torch.empty(0, 4)}
    real = manners.disturb(tensors)
    assert tensors["narrow"].tolist() == [[-2.0], [-3.0]]
    assert tensors["labels"].tolist() == [1, 3, 2]
    manners.restore(tensors, real)
    assert tensors["labels"].tolist() == [1, 2, 3]


def test_arguments_are_handed_on_as_a_layer_would() -> None:
    x, plain = torch.ones(2, requires_grad=True), torch.ones(2)
    on, same, eps = manners.handed_on([x, plain, 1e-6])
    assert not on.is_leaf and on.data_ptr() == x.data_ptr()
    assert same is plain and eps == 1e-6


def test_a_single_row_is_handed_on_with_its_stride() -> None:
    """Another stride is another alignment, which moves the last bit of a sum: it would look like a race."""
    row = torch.empty(200).as_strided((1, 128), (131, 1)).requires_grad_()
    assert manners.handed_on([row])[0].stride() == (131, 1)


def test_twice_the_gradient_is_twice_the_result() -> None:
    first = torch.tensor([1.0, -4.0, float("nan")])
    assert manners.is_double(first, 2 * first)
    assert manners.is_double(first, torch.tensor([2.07, -8.0, float("nan")]))
    assert not manners.is_double(first, torch.tensor([2.09, -8.0, float("nan")]))
    assert not manners.is_double(first, first)
    assert not manners.is_double(first, torch.tensor([2.0, -8.0]))
    assert not manners.is_double(first, None) and manners.is_double(None, None)


def in_turn(count: int) -> Callable[[int], tuple[list[Any], list[torch.Tensor]]]:
    """An op that has so many buffers and writes the number of its call into the next."""
    buffers = [torch.zeros(2) for _ in range(count)]

    def once(number: int) -> tuple[list[Any], list[torch.Tensor]]:
        return [buffers[number % count].fill_(number)], [torch.ones(2)]

    return once


def test_values_are_turned_along_the_longest_way_there_is() -> None:
    tensors = {"rows": torch.arange(6).reshape(2, 3), "column": torch.tensor([[1.0], [2.0]]), "one": torch.ones(1)}
    manners.turned(tensors, 1)
    assert tensors["rows"].tolist() == [[2, 0, 1], [5, 3, 4]]
    assert tensors["column"].tolist() == [[2.0], [1.0]]
    assert tensors["one"].tolist() == [1.0]


def test_buffers_that_are_handed_out_in_turn_are_noticed_up_to_a_dozen() -> None:
    assert len(manners.often(in_turn(1))) == len(manners.often(in_turn(manners.OFTEN - 1))) == 1
    assert manners.often(in_turn(manners.OFTEN)) == []


class Doubled:
    """Doubles its input, unless it believes that this was done before."""

    def __init__(self, x: torch.Tensor, *, trusts_addresses: bool) -> None:
        self._x, self._trusts, self._known = x, trusts_addresses, 0
        self._place = torch.full((3,), torch.nan)

    def __call__(self) -> list[Any]:
        if not self._trusts or self._known != self._x.data_ptr():
            torch.mul(self._x, 2, out=self._place)
        self._known = self._x.data_ptr()
        return [self._place, None]


def test_who_trusts_addresses_gives_an_old_result() -> None:
    x = torch.tensor([1.0, 2.0, 4.0])
    right = [torch.tensor([2.0, 4.0, 8.0]), None]
    assert manners.stale(right, Doubled(x, trusts_addresses=False), {"x": x}) == []
    assert x.tolist() == [1.0, 2.0, 4.0]
    (said,) = manners.stale(right, Doubled(x, trusts_addresses=True), {"x": x})
    assert "does not give what belongs to them" in said


def call(name: str, rows: int, columns: int = 8) -> Call:
    spec = TensorSpec("x", "float32", (rows, columns))
    return Call(name, name, "forward", (Argument("x", spec),), ())


def answered(name: str, *runs: RunAnswer) -> CallAnswer:
    return CallAnswer(name, runs, None if runs else Refusal("crashed", "it fell"))


def test_the_smallest_call_that_ran_is_repeated_and_what_came_of_it_told_with_its_last_run() -> None:
    run = RunAnswer("blob", (), (), (), ("known",))
    calls = [
        call("large", 8),
        call("small", 3),
        call("fell", 2),
        call("a row", 1),
        call("thin", 9, 7),
        call("empty", 0),
    ]
    runs: dict[str, list[RunAnswer]] = {"small": [run, run], "fell": []}
    answers = [answered(one.id, *runs.get(one.id, [run])) for one in calls]
    asked: list[str] = []

    def ask(one: Call) -> list[str]:
        asked.append(one.id)
        return ["it is odd"]

    told = manners.asked_often(calls, answers, ask)
    assert asked == ["small"]
    assert [r.oddities for r in told[1].runs] == [("known",), ("known", "it is odd")]
    assert [*told[:1], *told[2:]] == [*answers[:1], *answers[2:]]


def test_where_nothing_ran_nothing_is_repeated() -> None:
    answers = [answered("a")]
    assert manners.asked_often([call("a", 1)], answers, lambda one: ["never"]) == tuple(answers)
    assert manners.asked_often([], [], lambda one: ["never"]) == ()
