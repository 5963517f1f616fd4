"""What a variant left behind, against the oracle and against the untouched kernel."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

import pytest
import torch

from bot.judge import compare
from bot.judge.answer import Found, Returned, read_answer
from bot.judge.compare import once
from bot.judge.inputs import raw_bytes
from bot.judge.known import Known, known_of
from bot.judge.plan import Probe, call_of, complete
from bot.judge.recipes import RECIPES
from bot.judge.tolerance import NOISE_FACTOR, errors
from bot.worker.contract import Refusal, Row, Shape, TensorOut
from tests.judge.returned import CHECKS, PROBES, RECIPE, Kernel, Results, right, rows, write_answer

FORWARD, FULL = (check.id for check in CHECKS)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> list[Known]:
    folder = tmp_path_factory.mktemp("baseline")
    write_answer(folder)
    returned = read_answer(folder)
    return [dataclasses.replace(known_of(RECIPE, probe)[0], baseline=returned[probe.call.id]) for probe in PROBES]


def judged(known: list[Known], folder: Path, kernel: Kernel = right, **how: object) -> dict[str, Row]:
    write_answer(folder, kernel, **how)  # type: ignore[arg-type]
    return {row.case: row for row in rows(known, read_answer(folder), baseline=False)}


def altered(change: object, key: tuple[str, str] = ("output", "0"), *, turns: tuple[int, ...] = (0, 1)) -> Kernel:
    def kernel(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        found = right(probe, tensors, turn)
        if key in found and turn in turns:
            found[key] = change(found[key])  # type: ignore[operator]
        return found

    return kernel


def test_the_untouched_kernel_passes_with_half_its_own_limit(known: list[Known], tmp_path: Path) -> None:
    found = judged(known, tmp_path)
    assert list(found) == [FORWARD, FULL]
    for row in found.values():
        assert row.passed
        assert row.margin is not None and row.margin <= 0.5
        assert row.worst in ("output y", "gradient x")


def test_another_order_of_summation_passes(known: list[Known], tmp_path: Path) -> None:
    def kernel(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        x = tensors["x"].clone().requires_grad_(True)
        e = (x - x.amax(-1, keepdim=True)).exp()
        parts = [e[..., i : i + 7].sum(-1, keepdim=True) for i in range(0, e.shape[-1], 7)]
        y = e / sum(parts)
        found: Results = {("output", "0"): y.detach().clone()}
        if probe.call.direction == "full":
            found[("gradient", "x")] = torch.autograd.grad(y, x, tensors["dy"])[0]
        return found

    assert all(row.passed for row in judged(known, tmp_path, kernel).values())


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y * 1.0001,
        lambda y: y.half().float(),
        lambda y: torch.cat([y[..., :-1], 0 * y[..., -1:]], -1),
        lambda y: y + 1e-5,
    ],
    ids=["scaled", "half precision", "no last column", "shifted"],
)
def test_a_wrong_output_fails_and_says_by_how_much(known: list[Known], tmp_path: Path, change: object) -> None:
    row = judged(known, tmp_path, altered(change))[FORWARD]
    assert not row.passed
    assert row.worst == "output y"
    assert row.margin is not None and row.margin > 1
    assert "times what the untouched kernel's own error allows (" in row.detail
    assert "of the largest value, its own " in row.detail


def test_one_wrong_small_row_is_not_hidden_by_the_large_ones(known: list[Known], tmp_path: Path) -> None:
    def change(y: torch.Tensor) -> torch.Tensor:
        y = y.clone()
        smallest = y.amax(-1).argmin()
        y[smallest] *= 1.001
        return y

    row = judged(known, tmp_path, altered(change))[FORWARD]
    assert not row.passed and "; values: " in row.detail


def test_a_wrong_gradient_fails_the_pass_that_has_one(known: list[Known], tmp_path: Path) -> None:
    found = judged(known, tmp_path, altered(lambda dx: dx * 1.01, ("gradient", "x")))
    assert found[FORWARD].passed
    assert not found[FULL].passed
    assert found[FULL].worst == "gradient x"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda y: y.double(), "is float64"),
        (lambda y: y[:-1].contiguous(), "output y is float32 [19, 64]"),
        (lambda y: y.t().contiguous().t(), "with strides [1, 20]"),
        (lambda y: None, "output y is None"),
        (lambda y: y.index_fill(0, torch.tensor([2]), float("nan")), "infinity or NaN"),
        (lambda y: y.index_fill(0, torch.tensor([2]), float("inf")), "infinity or NaN"),
    ],
)
def test_form_and_finiteness_are_exact(known: list[Known], tmp_path: Path, change: object, told: str) -> None:
    row = judged(known, tmp_path, altered(change))[FORWARD]
    assert not row.passed
    assert told in row.detail


def test_a_second_run_that_differs_shows_unwritten_memory(known: list[Known], tmp_path: Path) -> None:
    row = judged(known, tmp_path, altered(lambda y: y.nextafter(torch.tensor(9.0)), turns=(1,)))[FORWARD]
    assert not row.passed
    assert "depends on uninitialised memory or on the order in which programs run" in row.detail


def test_an_input_that_was_overwritten_is_told(known: list[Known], tmp_path: Path) -> None:
    def kernel(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        found = right(probe, tensors, turn)
        tensors["x"].zero_()
        return found

    row = judged(known, tmp_path, kernel)[FORWARD]
    assert not row.passed
    assert row.detail.startswith("input x was overwritten")


def test_a_result_in_the_memory_of_an_input_is_told(known: list[Known], tmp_path: Path) -> None:
    row = judged(known, tmp_path, shares="x")[FORWARD]
    assert not row.passed
    assert row.detail.startswith("output y lies in the memory of input x")


def test_a_race_the_untouched_kernel_has_not_is_told(known: list[Known], tmp_path: Path) -> None:
    row = judged(known, tmp_path, races=("k writes two different values to one place in y",))[FORWARD]
    assert not row.passed
    assert "two different values" in row.detail


def test_an_error_of_the_variant_is_the_reason(known: list[Known], tmp_path: Path) -> None:
    refusals = {probe.call.id: Refusal("crashed", "InterpreterError: boom") for probe in PROBES[:1]}
    found = judged(known, tmp_path, refusals=refusals)
    assert not found[FORWARD].passed
    assert "boom" in found[FORWARD].detail
    assert "values:" in found[FORWARD].detail
    assert found[FULL].passed


def test_a_call_that_never_came_back_fails(known: list[Known]) -> None:
    found = rows(known, {}, baseline=False)
    assert [row.passed for row in found] == [False, False]
    assert "returned nothing" in found[0].detail


def broken_baseline(known: list[Known], which: tuple[str, ...], tmp_path: Path) -> list[Known]:
    refusals = {p.call.id: Refusal("crashed", "unsupported") for p in PROBES if p.call.case in which}
    write_answer(tmp_path / "broken", refusals=refusals)
    returned = read_answer(tmp_path / "broken")
    return [dataclasses.replace(one, baseline=returned[one.probe.call.id]) for one in known]


def test_where_the_untouched_kernel_fails_nothing_is_required(known: list[Known], tmp_path: Path) -> None:
    lame = broken_baseline(known, (FULL,), tmp_path)
    found = judged(lame, tmp_path)
    assert found[FULL].passed
    assert found[FULL].margin is None
    assert "not required of a variant, as the untouched kernel fails here: unsupported" in found[FULL].detail
    own = rows(lame, read_answer(tmp_path / "broken"), baseline=True)
    assert [row.passed for row in own] == [True, False]


def test_without_any_yardstick_nothing_passes(known: list[Known], tmp_path: Path) -> None:
    lame = broken_baseline(known, (FORWARD, FULL), tmp_path)
    assert [row.passed for row in judged(lame, tmp_path).values()] == [False, False]


def test_a_grossly_wrong_untouched_kernel_is_no_yardstick(known: list[Known], tmp_path: Path) -> None:
    write_answer(tmp_path, altered(lambda y: y * 3))
    returned = read_answer(tmp_path)
    lame = [dataclasses.replace(one, baseline=returned[one.probe.call.id]) for one in known]
    found = rows(lame, returned, baseline=True)
    assert [row.passed for row in found] == [False, False]
    assert (
        "output y of the untouched kernel is typically further than 0.001 from the reference, namely" in found[0].detail
    )
    assert "(values: " in found[0].detail


def lopsided(known: list[Known], tmp_path: Path) -> tuple[list[Known], Kernel]:
    """The untouched kernel is far off on one of its probes alone: nothing but chance comes of it there."""
    unlucky = next(p for p in PROBES if p.call.case == FORWARD and p.kind == "offset")

    def chance(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        found = right(probe, tensors, turn)
        if probe is unlucky:
            found[("output", "0")] = found[("output", "0")] * 3  # type: ignore[operator]
        return found

    write_answer(tmp_path / "base", chance)
    returned = read_answer(tmp_path / "base")
    return [dataclasses.replace(one, baseline=returned[one.probe.call.id]) for one in known], chance


def test_one_gross_probe_says_nothing_of_the_others(known: list[Known], tmp_path: Path) -> None:
    lame, _ = lopsided(known, tmp_path)
    own = {row.case: row for row in rows(lame, read_answer(tmp_path / "base"), baseline=True)}
    assert all(row.passed for row in own.values())
    assert "not required, as the untouched kernel fails: output y of the untouched kernel is" in own[FORWARD].detail
    assert "(values: offset)" in own[FORWARD].detail
    assert own[FULL].detail == f"{sum(p.call.case == FULL for p in PROBES)} sets of inputs"
    mended = judged(lame, tmp_path / "mended")
    assert all(row.passed for row in mended.values())
    wrong = altered(lambda y: y * 1.0001)
    assert not judged(lame, tmp_path / "wrong", wrong)[FORWARD].passed


def test_what_rounding_alone_moves_as_far_is_held_against_that(known: list[Known], tmp_path: Path) -> None:
    lame, chance = lopsided(known, tmp_path)
    (unlucky,) = (one for one in lame if one.probe.call.case == FORWARD and one.probe.kind == "offset")
    key = ("output", "0")
    off = errors(read_answer(tmp_path / "base")[unlucky.probe.call.id].runs[0][key].values(), unlucky.truth[key])
    for share, excused in ((0.99, True), (1.01, False)):
        moved = dataclasses.replace(off, rms=off.rms * share / NOISE_FACTOR)
        blamed = dataclasses.replace(unlucky, noise={key: moved})
        others = [one for one in lame if one is not unlucky]
        write_answer(tmp_path / "same", chance)
        row, *_ = rows([blamed, *others], read_answer(tmp_path / "same"), baseline=False)
        assert ("not required" in row.detail) == excused


def test_what_comes_of_chance_may_be_no_number(known: list[Known], tmp_path: Path) -> None:
    """A variance of half precision is below zero here and there, and for another order of summation elsewhere."""
    lame, chance = lopsided(known, tmp_path)

    def other_chance(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        found = chance(probe, tensors, turn)
        if probe.kind == "offset" and probe.call.case == FORWARD:
            found[("output", "0")] = found[("output", "0")] * float("nan")  # type: ignore[operator]
        return found

    assert judged(lame, tmp_path / "other", other_chance)[FORWARD].passed
    assert not judged(known, tmp_path / "strict", other_chance)[FORWARD].passed


def test_where_results_are_chance_they_still_have_a_form_and_an_order(known: list[Known], tmp_path: Path) -> None:
    lame, chance = lopsided(known, tmp_path)

    def restless(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        found = chance(probe, tensors, turn)
        if probe.kind == "offset" and probe.call.case == FORWARD:
            tensors["x"].zero_()
        return found

    row = judged(lame, tmp_path / "restless", restless)[FORWARD]
    assert "input x was overwritten (values: offset)" in row.detail


def test_a_type_without_any_yardstick_leaves_the_other_types_theirs(known: list[Known], tmp_path: Path) -> None:
    def broken_there(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        found = right(probe, tensors, turn)
        if probe.call.case == FORWARD:
            found[("output", "0")] = found[("output", "0")] * 3  # type: ignore[operator]
        return found

    write_answer(tmp_path / "base", broken_there)
    returned = read_answer(tmp_path / "base")
    lame = [dataclasses.replace(one, baseline=returned[one.probe.call.id]) for one in known]
    own = {row.case: row for row in rows(lame, returned, baseline=True)}
    assert (own[FORWARD].passed, own[FULL].passed) == (False, True)
    mine = judged(lame, tmp_path / "mine")
    assert mine[FORWARD].passed
    assert mine[FORWARD].margin is None


GRADIENT = ("gradient", "y_pred")


def of_many_values(dtype: str) -> Known:
    """A loss averaged over so many values that its gradient is a few of the smallest steps of float16."""
    shape = Shape("backward", "backward", (("rows", 72), ("cols", 256)), dtype)
    constants = {"reduction": "mean", "log_target": True, "eps": 1e-6}
    call = call_of(RECIPES["kl_div"], shape, constants, "000")
    return known_of(RECIPES["kl_div"], Probe(call, shape, "offset", constants, seed=7))[0]


def left(result: torch.Tensor, key: tuple[str, str] = GRADIENT) -> Returned:
    kind, raw = str(result.dtype).removeprefix("torch."), raw_bytes(result)
    record = TensorOut(*key, kind, tuple(result.shape), result.stride(), "cpu", 0, len(raw))  # type: ignore[arg-type]
    return Returned(({key: Found(record, raw)},), (), "")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_its_type_cannot_hold_is_nobodys_error(dtype: str) -> None:
    known = of_many_values(dtype)
    stock = known.truth[GRADIENT].to(getattr(torch, dtype))
    known = dataclasses.replace(known, baseline=left(stock))
    (own,) = rows([known], {"000": left(stock)}, baseline=True)
    assert own.passed, own.detail
    (same,) = rows([known], {"000": left(stock)}, baseline=False)
    assert same.passed
    for wrong in (torch.zeros_like(stock), 1.5 * stock, -stock):
        (row,) = rows([known], {"000": left(wrong)}, baseline=False)
        assert row.margin is not None
        assert row.margin > 1


def test_where_a_type_ends_is_asked_of_each_result_by_itself() -> None:
    half, full = of_many_values("float16"), of_many_values("float32")
    assert half.floors == {GRADIENT: torch.finfo(torch.float16).tiny}
    assert 0 < full.floors[GRADIENT] < 1e-8


def test_a_number_in_place_of_a_nan_is_told(known: list[Known], tmp_path: Path) -> None:
    row = judged(known, tmp_path, altered(lambda y: y.nan_to_num(0.0)))[FORWARD]
    assert not row.passed
    assert "has a number where its inputs allow none (values: strange)" in row.detail


def test_infinities_of_the_untouched_kernel_may_be_mended(known: list[Known], tmp_path: Path) -> None:
    overflow = altered(lambda y: y.index_fill(0, torch.tensor([2]), float("inf")))
    write_answer(tmp_path / "base", overflow)
    returned = read_answer(tmp_path / "base")
    lame = [dataclasses.replace(one, baseline=returned[one.probe.call.id]) for one in known]
    assert all(row.passed for row in judged(lame, tmp_path / "same", overflow).values())
    assert all(row.passed for row in judged(lame, tmp_path / "mended").values())
    flipped = altered(lambda y: y.index_fill(0, torch.tensor([2]), float("-inf")))
    assert not judged(lame, tmp_path / "flipped", flipped)[FORWARD].passed


def group_norm_in_half(kind: str, **sizes: int) -> Known:
    """As liger-kernel 0.8.5 does it: the squares are added up in the type of the input."""
    recipe = RECIPES["group_norm"]
    shape = Shape("-".join(map(str, sizes.values())), "forward", tuple(sizes.items()), "float16")
    constants = complete(recipe, shape, {"eps": 1e-6})
    call = call_of(recipe, shape, constants, shape.id)
    known, filled = known_of(recipe, Probe(call, shape, kind, constants, seed=3))
    x = filled["X"].view(sizes["batch"], sizes["groups"], -1)
    mean = x.float().mean(-1, keepdim=True)
    squares = (x * x).sum(-1, keepdim=True).float() / x.shape[-1]
    normed = ((x.float() - mean) * (squares - mean * mean + 1e-6).rsqrt()).view(filled["X"].shape)
    y = normed * filled["affine_scaling_weight"][:, None] + filled["affine_shifting_bias"][:, None]
    return dataclasses.replace(known, baseline=left(y.half(), ("output", "0")))


def test_a_large_shape_on_which_half_precision_is_chance_speaks_for_itself_alone() -> None:
    small = group_norm_in_half("normal", batch=2, groups=8, each=3, length=43)
    large = group_norm_in_half("offset", batch=3, groups=17, each=33, length=67)
    assert large.truth["output", "0"][..., 0].numel() > 10 * small.truth["output", "0"][..., 0].numel()
    answers = {one.probe.call.id: one.baseline for one in (small, large) if one.baseline is not None}
    fine, chance = rows([small, large], answers, baseline=True)
    assert fine.passed, fine.detail
    assert not chance.passed
    assert "output Y of the untouched kernel is typically further than 0.05 from the reference, namely" in chance.detail
    assert "(values: offset; eps=1e-06" in chance.detail


def ran_once(folder: Path, kernel: Kernel, case: str) -> tuple[str, dict[str, Returned]]:
    """The first call of a case, run once, and nobody counted its launches."""
    (ident, *_) = [probe.call.id for probe in PROBES if probe.call.case == case]
    write_answer(folder, kernel)
    found = read_answer(folder)[ident]
    return ident, {ident: dataclasses.replace(found, runs=found.runs[:1])}


def counted(known: list[Known]) -> list[Known]:
    """As on a GPU, where launches are counted."""
    return [dataclasses.replace(k, baseline=dataclasses.replace(k.baseline, launches=3)) for k in known]  # type: ignore[type-var]


def test_who_ran_some_calls_once_is_compared_on_these_alone(known: list[Known], tmp_path: Path) -> None:
    ident, mine = ran_once(tmp_path, right, FULL)
    (row,) = rows(once(counted(known), (ident,)), mine, baseline=False)
    assert (row.case, row.passed) == (FULL, True)
    late = rows(once(counted(known), (ident,)), {}, baseline=False)
    assert [row.passed for row in late] == [False]


def test_and_what_it_left_is_held_to_the_same_tolerance(known: list[Known], tmp_path: Path) -> None:
    ident, mine = ran_once(tmp_path, altered(lambda y: y * 1.0001), FORWARD)
    (row,) = rows(once(counted(known), (ident,)), mine, baseline=False)
    assert not row.passed and row.worst == "output y"


def test_a_baseline_that_did_not_finish_excuses_there_too(known: list[Known], tmp_path: Path) -> None:
    ident, mine = ran_once(tmp_path, right, FULL)
    halted = [
        dataclasses.replace(k, baseline=dataclasses.replace(k.baseline, runs=()))  # type: ignore[type-var]
        for k in known
    ]
    (row,) = rows(once(halted, (ident,)), mine, baseline=False)
    assert not row.passed and row.detail.startswith("the untouched kernel fails: it did not finish")


def test_cases_are_looked_at_side_by_side(known: list[Known], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one keeps a processor busy for a second. Each meets the other before it goes on."""
    look, together = compare.Case.look, threading.Barrier(2, timeout=20)
    met: set[str] = set()

    def waiting(case: compare.Case, one: Known, mine: Returned | None) -> None:
        if case.name not in met:
            met.add(case.name)
            together.wait()
        look(case, one, mine)

    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(compare.Case, "look", waiting)
    assert [row.case for row in judged(known, tmp_path).values() if row.passed] == [FORWARD, FULL]


@pytest.mark.parametrize("processors", [None, 1, 64])
def test_how_many_look_changes_nothing_that_is_told(
    processors: int | None, known: list[Known], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = altered(lambda y: y * 1.01)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    (tmp_path / "before").mkdir()
    before = judged(known, tmp_path / "before", wrong)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    (tmp_path / "now").mkdir()
    assert judged(known, tmp_path / "now", wrong) == before
    assert not any(row.passed for row in before.values())
