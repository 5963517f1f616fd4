"""Where a result has few rows, the untouched kernel is asked for more of them: its luck is nobody's yardstick."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Callable

import pytest
import torch

from bot.judge.answer import Found, Returned, Run
from bot.judge.compare import compared, folded, once
from bot.judge.inputs import DTYPES, fill, raw_bytes
from bot.judge.known import Known, known_of
from bot.judge.plan import (
    BYTES_OF_A_DRAW,
    DRAWS,
    DRAWS_OF_MANY,
    DRAWS_PER_DIRECTION,
    ROWS_OF_A_LARGEST,
    ROWS_PER_DIRECTION,
    TURNS_ON_GPU,
    Probe,
    call_of,
    complete,
    draws_of,
    plan,
    probes_of,
)
from bot.judge.recipes import RECIPES
from bot.judge.tolerance import (
    CROWD_FOR_LEAN,
    LEAN_ULPS,
    LEAN_ULPS_OF_FLOAT32,
    MAX_FACTOR,
    MAX_ULPS,
    NOISE_FACTOR,
    RMS_FACTOR,
    ROWS_FOR_LARGEST,
    Entry,
    Errors,
    beyond,
    leaned,
    marks,
    strayed,
)
from bot.worker.contract import Row, Rows, Shape, TensorOut
from tests.judge.returned import rows

ULP = torch.finfo(torch.float32).eps
SOFTMAX, GROUPS = RECIPES["softmax"], RECIPES["group_norm"]


def check(rows: int, cols: int = 16, direction: str = "forward") -> Shape:
    return Shape(f"{direction}-{rows}x{cols}", direction, (("rows", rows), ("cols", cols)), "float32")  # type: ignore[arg-type]


# -- which are drawn --------------------------------------------------------------------------------------------------


def drawn(*checks: Shape, on_gpu: bool = True) -> tuple[tuple[Probe, ...], tuple[Probe, ...]]:
    planned, both = plan(SOFTMAX, (), checks, seed=3, on_gpu=on_gpu)
    return both[: len(planned.checks)], both[len(planned.checks) :]


def test_a_check_of_few_rows_is_drawn_further_than_one_of_enough() -> None:
    assert ROWS_OF_A_LARGEST == ROWS_FOR_LARGEST
    checks = check(ROWS_OF_A_LARGEST - 1), check(ROWS_OF_A_LARGEST, 17)
    probes, draws = drawn(*checks)
    few = [probe.call.id for probe in probes if probe.shape.id == "forward-31x16"]
    assert 0 < len(few) < len(probes)
    for probe in probes:
        asked = DRAWS if probe.call.id in few else DRAWS_OF_MANY
        assert sum(draw.again == probe.call.id for draw in draws) == asked
    assert {draw.shape.id for draw in drawn(*checks, on_gpu=False)[1]} <= {"forward-31x16"}, "it has no time for it"


def test_a_vector_among_the_results_is_few_rows_too() -> None:
    shape = Shape("b", "backward", (("batch", 9), ("groups", 3), ("each", 1), ("length", 8)), "float32")
    probes = probes_of(GROUPS, (shape,), 3, TURNS_ON_GPU)
    assert len(draws_of(GROUPS, probes, 3, on_gpu=True)) == DRAWS * len(probes)
    forward = dataclasses.replace(shape, direction="forward", sizes=(*shape.sizes[:1], ("groups", 4), *shape.sizes[2:]))
    probes = probes_of(GROUPS, (forward,), 3, TURNS_ON_GPU)
    assert len(draws_of(GROUPS, probes, 3, on_gpu=True)) == DRAWS_OF_MANY * len(probes)


def test_a_draw_is_the_same_check_with_other_values() -> None:
    probes, draws = drawn(check(3), check(2, 9, "backward"))
    stock = {probe.call.id: probe for probe in probes}
    for draw in draws:
        of = stock[draw.again]
        assert (draw.shape, draw.kind, draw.constants) == (of.shape, of.kind, of.constants)
        same = dataclasses.replace(draw.call, id=of.call.id, blob=of.call.blob, turns=of.call.turns)
        assert same == of.call
        assert draw.call.turns == TURNS_ON_GPU[1]
    everything = [*probes, *draws]
    for name in ("seed", "id", "blob"):
        values = {getattr(one, name) if name == "seed" else getattr(one.call, name) for one in everything}
        assert len(values) == len(everything)
    one = next(draw for draw in draws if draw.kind == "normal")
    assert not torch.equal(fill(SOFTMAX, one)["x"], fill(SOFTMAX, stock[one.again])["x"])


@pytest.mark.parametrize("on_gpu", [True, False])
def test_what_a_variant_is_asked_for_does_not_grow(on_gpu: bool) -> None:
    planned, both = plan(SOFTMAX, (), (check(3),), seed=3, on_gpu=on_gpu)
    turns = TURNS_ON_GPU if on_gpu else (2, 1)
    assert planned.checks == tuple(probe.call for probe in probes_of(SOFTMAX, (check(3),), 3, turns))
    assert planned.draws == tuple(probe.call for probe in both if probe.again) != ()


def test_what_takes_the_oracle_long_is_drawn_less() -> None:
    cols = BYTES_OF_A_DRAW // (2 * 4)  # x and dy, in four bytes
    for wide, asked in ((cols, DRAWS), (cols + 1, DRAWS_OF_MANY)):
        probes, draws = drawn(check(1, wide, "backward"))
        assert len(draws) == asked * len(probes)
    assert drawn(check(1, cols + 1, "backward"), on_gpu=False)[1] == ()


def test_on_a_gpu_their_number_is_bounded_and_all_get_some() -> None:
    checks = tuple(check(2, 8 + n) for n in range(36))
    probes, draws = drawn(*checks)
    assert len(probes) * DRAWS > DRAWS_PER_DIRECTION
    assert len(draws) == DRAWS_PER_DIRECTION
    each = [sum(draw.again == probe.call.id for draw in draws) for probe in probes]
    assert max(each) - min(each) <= 1


def test_without_a_gpu_they_take_what_the_checks_left_of_the_time() -> None:
    def cost(some: tuple[Probe, ...]) -> int:
        return sum(dict(probe.shape.sizes)["rows"] * probe.call.turns for probe in some)

    probes, draws = drawn(check(3), check(4, 9), on_gpu=False)
    assert draws
    assert ROWS_PER_DIRECTION - 4 < cost(probes) + cost(draws) <= ROWS_PER_DIRECTION
    assert all(draw.call.turns == 1 for draw in draws)
    spent, none = drawn(*(check(rows) for rows in (20, 21, 22)), on_gpu=False)
    assert cost(spent) > ROWS_PER_DIRECTION
    assert none == ()


# -- what they allow --------------------------------------------------------------------------------------------------


def errors_of(worst: float, rows: int = 3) -> Errors:
    there = torch.full((rows,), worst, dtype=torch.float64)
    return Errors(there, there * 0)


def ratio(rows: int, mine: float, drawn: float) -> float:
    found = Entry("c", "g", "float32", errors_of(0.0, rows), errors_of(mine, rows), errors_of(0.0, rows), drawn)
    return marks([found])["c"].ratio


def test_few_rows_may_be_as_far_off_as_twice_the_draws_and_enough_rows_may_not() -> None:
    limit = MAX_FACTOR * 1e-4 + MAX_ULPS * ULP
    assert ratio(ROWS_FOR_LARGEST - 1, limit * 0.999, 1e-4) < 1 < ratio(ROWS_FOR_LARGEST - 1, limit * 1.001, 1e-4)
    assert ratio(ROWS_FOR_LARGEST, limit * 0.999, 1e-4) > 100


@pytest.mark.parametrize(("rows", "asks"), [(ROWS_FOR_LARGEST - 1, ("015",)), (ROWS_FOR_LARGEST, ())])
def test_what_has_enough_rows_asks_for_no_draws_of_its_probe(rows: int, asks: tuple[str, ...]) -> None:
    good, bad = errors_of(0.0, rows), errors_of(1e-3, rows)
    ((_, mark),) = beyond([Entry("c", "g", "float32", good, bad, good, unheard=("015",))])
    assert (mark.rule, mark.unheard) == ("largest", asks)
    assert list(beyond([Entry("c", "g", "float32", good, good, good, unheard=("015",))])) == []


def test_what_rounding_explains_of_a_draw_is_not_counted_twice() -> None:
    small, large, here = errors_of(1e-6), errors_of(1e-3), errors_of(2e-6)
    assert strayed([], here) == 0.0
    assert strayed([(large, large)], here) == 0.0, "a sum that is small by chance"
    found = strayed([(errors_of(5e-5), small), (errors_of(8e-5), small), (errors_of(1.4e-3), large)], here)
    assert found == pytest.approx(NOISE_FACTOR * 2e-6 + 8e-5 - NOISE_FACTOR * 1e-6)
    assert strayed([(errors_of(math.nan), small), (errors_of(8e-5), small)], here) < 1e-4


def leaning(lean: float, rows: int = 3) -> Errors:
    return dataclasses.replace(errors_of(0.0, rows), lean=lean, crowd=CROWD_FOR_LEAN)


def lean_ratio(rows: int, mine: float, drawn: float) -> float:
    still = leaning(0.0, rows)
    found = Entry("c", "g", "float32", still, leaning(mine, rows), still, drawn_lean=drawn)
    return marks([found])["c"].ratio


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("rows", [ROWS_FOR_LARGEST - 1, ROWS_FOR_LARGEST])
def test_few_rows_and_many_may_lean_half_as_far_again_as_the_draws(sign: int, rows: int) -> None:
    """What is kept of a group in half precision leans all the rows that are made of it."""
    limit = RMS_FACTOR * 1e-3 + (LEAN_ULPS + LEAN_ULPS_OF_FLOAT32) * ULP
    assert lean_ratio(rows, sign * limit * 0.999, 1e-3) < 1 < lean_ratio(rows, sign * limit * 1.001, 1e-3)
    assert lean_ratio(rows, sign * limit * 0.999, 0.0) > 100


@pytest.mark.parametrize("rows", [ROWS_FOR_LARGEST - 1, ROWS_FOR_LARGEST])
def test_what_leans_asks_for_draws(rows: int) -> None:
    still = leaning(0.0, rows)
    ((_, mark),) = beyond([Entry("c", "g", "float32", still, leaning(1e-3, rows), still, unheard=("015",))])
    assert (mark.rule, mark.unheard) == ("common", ("015",))


def test_of_the_leans_of_draws_the_furthest_counts_and_rounding_is_taken_out() -> None:
    still = leaning(1e-6)
    assert leaned([]) == 0.0
    assert leaned([(leaning(1e-3), leaning(1e-3))]) == 0.0, "rounding alone"
    found = leaned([(leaning(5e-5), still), (leaning(-8e-5), still), (leaning(math.nan), still)])
    assert found == pytest.approx(8e-5 - NOISE_FACTOR * 1e-6)


KEY = ("gradient", "affine_scaling_weight")
Off = Callable[[Probe], list[float]]
"""By how much of the truth each entry of the gradient is off."""


def gradient_of_three() -> list[Known]:
    """The gradient of a weight of three channels, and its draws: bare numbers, no kernel has run."""
    sizes = (("batch", 1), ("groups", 3), ("each", 1), ("length", 40))
    shape = Shape("backward-1x3x1x40-float32", "backward", sizes, "float32")
    constants = complete(GROUPS, shape, {"eps": 1e-5})
    probe = Probe(call_of(GROUPS, shape, constants, "000"), shape, "offset", constants, seed=9)
    draws = draws_of(GROUPS, (probe,), 4, on_gpu=True)
    once = [dataclasses.replace(p, call=dataclasses.replace(p.call, turns=1)) for p in (probe, *draws)]
    return [known_of(GROUPS, one)[0] for one in once]


@pytest.fixture(scope="module")
def prepared() -> list[Known]:
    return gradient_of_three()


def left(known: Known, off: list[float], *, runs: int = 1, restless: bool = False) -> Returned:
    found: list[Run] = []
    for turn in range(runs):
        run: Run = {}
        for key, truth in known.truth.items():
            scale = truth.abs().max() if key == KEY else 0.0
            dtype = known.probe.shape.dtype
            value = truth + scale * torch.tensor(off, dtype=torch.float64) if key == KEY else truth
            value = value.to(DTYPES[dtype])
            if restless and turn and key == KEY:
                value[0] *= 1 + torch.finfo(value.dtype).eps
            raw = raw_bytes(value)
            record = TensorOut(*key, dtype, tuple(value.shape), value.stride(), "cpu", 0, len(raw))  # type: ignore[arg-type]
            run[key] = Found(record, raw)
        found.append(run)
    return Returned(tuple(found), (), "")


ROUNDING = 1e-4


def lucky_once(probe: Probe) -> list[float]:
    """One rounding, anywhere up to a size, and by luck hardly any in the probe that counts."""
    rng = random.Random(probe.seed)
    most = ROUNDING * (1.0 if probe.again else 0.02)
    return [rng.uniform(-most, most) for _ in range(3)]


def heard(known: list[Known], base: Off) -> list[Known]:
    return folded([dataclasses.replace(one, baseline=left(one, base(one.probe))) for one in known])


def judged(known: list[Known], off: list[float]) -> Row:
    (row,) = rows(known, {"000": left(known[0], off)}, baseline=False)
    return row


def typical() -> float:
    """The largest error in three rows of a kernel that rounds like that."""
    rng = random.Random(1)
    return statistics.median(max(rng.uniform(0, ROUNDING) for _ in range(3)) for _ in range(2000))


def test_luck_in_three_rows_is_no_yardstick_where_there_are_draws(prepared: list[Known]) -> None:
    equally_good = [0.9 * ROUNDING, -0.4 * ROUNDING, 0.7 * ROUNDING]
    alone = judged(heard(prepared[:1], lucky_once), equally_good)
    assert not alone.passed and alone.worst == "gradient affine_scaling_weight"
    row = judged(heard(prepared, lucky_once), equally_good)
    assert row.passed, row.detail


@pytest.mark.parametrize("place", range(3))
def test_three_times_the_typical_error_in_that_probe_is_refused_still(prepared: list[Known], place: int) -> None:
    planted = [3 * typical() if place == n else 0.0 for n in range(3)]
    row = judged(heard(prepared, lucky_once), planted)
    assert not row.passed
    assert row.detail.startswith("gradient affine_scaling_weight: its largest error is")


def test_a_draw_that_is_gross_or_did_not_come_back_allows_nothing(prepared: list[Known]) -> None:
    def wild(probe: Probe) -> list[float]:
        return [7.0, 7.0, 7.0] if probe.again else lucky_once(probe)

    bad = [0.9 * ROUNDING] * 3
    assert not judged(heard(prepared, wild), bad).passed
    lost = [dataclasses.replace(one, baseline=left(one, lucky_once(one.probe))) for one in prepared]
    lost = [dataclasses.replace(one, baseline=None) if one.probe.again else one for one in lost]
    assert not judged(folded(lost), bad).passed
    assert len(folded(lost)) == 1, "nobody else is asked for them"


def test_draws_show_whose_last_bit_depends_on_an_order(prepared: list[Known]) -> None:
    """Only in one of them: in the probe itself the untouched kernel was lucky."""

    def twice(one: Known) -> Known:
        return dataclasses.replace(
            one, probe=dataclasses.replace(one.probe, call=dataclasses.replace(one.probe.call, turns=2))
        )

    known = [twice(one) for one in prepared]
    for shown in (True, False):
        told = [
            dataclasses.replace(one, baseline=left(one, [0.0] * 3, runs=2, restless=shown and one is known[-1]))
            for one in known
        ]
        mine = {"000": left(known[0], [0.0] * 3, runs=2, restless=True)}
        (row,) = rows(folded(told), mine, baseline=False)
        assert row.passed == shown, row.detail


WHOLE = ("gradient", "X")


@pytest.fixture(scope="module")
def two_groups() -> list[Known]:
    """The gradient of two groups of 2049 elements, and its draws."""
    sizes = (("batch", 1), ("groups", 2), ("each", 3), ("length", 683))
    shape = Shape("backward-1x2x3x683-float16", "backward", sizes, "float16")
    constants = complete(GROUPS, shape, {"eps": 1e-5})
    probe = Probe(call_of(GROUPS, shape, constants, "000"), shape, "normal", constants, seed=9)
    draws = draws_of(GROUPS, (probe,), 4, on_gpu=True)
    once = [dataclasses.replace(p, call=dataclasses.replace(p.call, turns=1)) for p in (probe, *draws)]
    return [known_of(GROUPS, one)[0] for one in once]


def scaled(known: Known, factor: float) -> Returned:
    run: Run = {}
    for key, truth in known.truth.items():
        value = (truth * factor if key == WHOLE else truth).to(torch.float16)
        raw = raw_bytes(value)
        record = TensorOut(*key, "float16", tuple(value.shape), value.stride(), "cpu", 0, len(raw))  # type: ignore[arg-type]
        run[key] = Found(record, raw)
    return Returned((run,), (), "")


def test_that_two_rows_leaned_against_each_other_is_luck(two_groups: list[Known]) -> None:
    """1/std of a group is rounded to half precision, and leans all of its gradient: by luck hardly here."""
    told = [dataclasses.replace(one, baseline=scaled(one, 1 + (2e-4 if one.probe.again else 0))) for one in two_groups]

    def row(known: list[Known], factor: float) -> Row:
        (found,) = rows(folded(known), {"000": scaled(known[0], factor)}, baseline=False)
        return found

    alone = row(told[:1], 1 - 1.5e-4)
    assert not alone.passed and alone.detail.startswith("gradient X: its common error")
    assert row(told, 1 - 1.5e-4).passed
    assert not row(told, 1.001).passed and not row(told, 0.99).passed


# -- when they are asked for ------------------------------------------------------------------------------------------

FEW_ROWS, LARGER, UNDRAWN, FORWARD = "000", "001", "002", "003"


def probe_of(name: str, length: int, direction: str = "backward", dtype: str = "float32") -> Probe:
    sizes = (("batch", 1), ("groups", 3), ("each", 1), ("length", length))
    called = f"{direction}-{length}" + ("" if dtype == "float32" else f"-{dtype}")
    shape = Shape(called, direction, sizes, dtype)  # type: ignore[arg-type]
    constants = complete(GROUPS, shape, {"eps": 1e-5})
    return Probe(call_of(GROUPS, shape, constants, name, turns=2), shape, "normal", constants, seed=int(name) + 9)


PROBES = (
    probe_of(FEW_ROWS, 40),
    probe_of(LARGER, 80),
    probe_of(UNDRAWN, 200),
    probe_of(FORWARD, 120, "forward"),
)
UNHEARD = tuple(draw for draw in draws_of(GROUPS, PROBES, 4, on_gpu=True) if draw.again != UNDRAWN)
STILL = [0.0] * 3


@pytest.fixture(scope="module")
def asked_for() -> list[Known]:
    known = [known_of(GROUPS, probe)[0] for probe in PROBES]
    return [dataclasses.replace(one, baseline=left(one, STILL, runs=2)) for one in known]


Change = Callable[[Known], Returned]


def again(told: list[Known], unheard: tuple[Probe, ...] = UNHEARD, **by: Change) -> tuple[str, ...]:
    """What a variant asks for that is another in the probes named (p000=...)."""
    mine = {one.probe.call.id: by.get(f"p{one.probe.call.id}", still)(one) for one in told}
    return compared(folded(told, unheard), mine, baseline=False).again


def draws_for(*names: str) -> tuple[str, ...]:
    return tuple(draw.call.id for draw in UNHEARD if draw.again in names)


def still(known: Known) -> Returned:
    return left(known, STILL, runs=2)


def further(known: Known) -> Returned:
    return left(known, [ROUNDING, 0.0, 0.0], runs=2)


def restless(known: Known) -> Returned:
    return left(known, STILL, runs=2, restless=True)


def racing(known: Known) -> Returned:
    return dataclasses.replace(further(known), races=("two programs write one place",))


def test_the_draws_of_each_probe_are_asked_for_that_fails_by_its_few_rows(asked_for: list[Known]) -> None:
    assert again(asked_for) == ()
    assert again(asked_for, p000=further) == draws_for(FEW_ROWS) != ()
    assert again(asked_for, p000=further, p001=further) == draws_for(FEW_ROWS, LARGER)


def test_none_where_there_are_none_or_they_were_heard(asked_for: list[Known]) -> None:
    assert again(asked_for, p002=further) == ()
    assert again(asked_for, p000=further, p002=further) == (), "it is refused anyhow"
    left_over = tuple(draw for draw in UNHEARD if draw.again != FEW_ROWS)
    assert again(asked_for, left_over, p000=further) == ()


def test_none_where_something_else_is_against_it_in_whatever_case(asked_for: list[Known]) -> None:
    assert again(asked_for, p000=racing) == ()
    assert again(asked_for, p000=further, p001=racing) == ()


def test_none_of_the_untouched_kernel_itself(asked_for: list[Known]) -> None:
    mine = {one.probe.call.id: further(one) for one in asked_for}
    found = compared(folded(asked_for, UNHEARD), mine, baseline=True)
    assert not all(row.passed for row in found.rows) and found.again == ()


@pytest.mark.parametrize("place", [FEW_ROWS, LARGER, UNDRAWN])
def test_for_an_order_that_shows_the_draws_of_the_largest_of_its_kind_are_asked_and_its_own(
    asked_for: list[Known], place: str
) -> None:
    """Also for a probe that has none itself: those of one speak for all. A variant of fused_moe was refused for an
    order that the untouched kernel shows where all of its programs run at once, and not in larger shapes."""
    assert again(asked_for, **{f"p{place}": restless}) == draws_for(place, LARGER)


def test_an_order_that_the_untouched_kernel_shows_in_a_draw_of_that_probe_is_no_fault(asked_for: list[Known]) -> None:
    own = next(draw for draw in UNHEARD if draw.again == FEW_ROWS)
    drawn = known_of(GROUPS, own)[0]
    for shown in (True, False):
        told = [*asked_for, dataclasses.replace(drawn, baseline=left(drawn, STILL, runs=2, restless=shown))]
        left_over = tuple(draw for draw in UNHEARD if draw.call.id != own.call.id)
        assert (again(told, left_over, p000=restless) == ()) is shown


def test_what_takes_the_oracle_long_is_asked_for_an_order_only_where_nothing_else_has_draws(
    asked_for: list[Known],
) -> None:
    length = BYTES_OF_A_DRAW // (2 * 3 * 4)  # X and dY, three channels, in four bytes
    for wide, asked in ((length - 8, True), (length + 1, False)):
        probe = probe_of("004", wide)
        one = known_of(GROUPS, probe)[0]
        assert (probe.call.nbytes <= BYTES_OF_A_DRAW) is asked
        told = [*asked_for, dataclasses.replace(one, baseline=left(one, STILL, runs=2))]
        names = iter(range(900, 1000))
        drawn = (
            dataclasses.replace(draw.call, id=str(next(names))) for draw in draws_of(GROUPS, (probe,), 4, on_gpu=True)
        )
        wide_draws = tuple(dataclasses.replace(UNHEARD[0], call=call, again="004") for call in drawn)
        ids = tuple(draw.call.id for draw in wide_draws)
        speaks = ids if asked else draws_for(LARGER)
        assert set(again(told, (*UNHEARD, *wide_draws), p000=restless)) == {*draws_for(FEW_ROWS), *speaks}
        assert set(again(told, (*UNHEARD, *wide_draws), p004=restless)) == set(speaks), "nor its own"
        assert again(told, wide_draws, p000=restless) == ids


def test_both_reasons_ask_together(asked_for: list[Known]) -> None:
    assert again(asked_for, p000=further, p002=restless) == draws_for(FEW_ROWS, LARGER)


def test_for_an_order_only_draws_that_are_run_twice_and_were_not_heard(asked_for: list[Known]) -> None:
    once = tuple(dataclasses.replace(draw, call=dataclasses.replace(draw.call, turns=1)) for draw in UNHEARD)
    assert again(asked_for, once, p000=restless) == ()
    known = [known_of(GROUPS, draw)[0] for draw in UNHEARD if draw.again == LARGER]
    heard = [dataclasses.replace(one, baseline=still(one)) for one in known]
    left_over = tuple(draw for draw in UNHEARD if draw.again != LARGER)
    assert again([*asked_for, *heard], left_over, p000=restless) == draws_for(FEW_ROWS)
    assert again([*asked_for, *heard], (), p000=restless) == (), "all were heard, so it is refused"
    shown = [dataclasses.replace(one, baseline=restless(one)) for one in known]
    mine = {one.probe.call.id: (restless if one.probe.call.id == UNDRAWN else still)(one) for one in asked_for}
    found = compared(folded([*asked_for, *shown], left_over), mine, baseline=False)
    assert all(row.passed for row in found.rows)


GROSS = 7.0
"""Times the largest value of the result."""


def gross(known: Known) -> Returned:
    return left(known, [GROSS] * 3, runs=2)


def far_off(asked_for: list[Known]) -> list[Known]:
    """The untouched kernel is chance in one probe, and the same chance each time."""
    first, *others = asked_for
    return [dataclasses.replace(first, baseline=gross(first)), *others]


def there(told: list[Known], off: float, *heard: Known) -> Rows:
    """What is said of a variant that is restless where the untouched kernel is far off, and so far off itself."""
    mine = {one.probe.call.id: still(one) for one in told}
    one, other = left(told[0], STILL), left(told[0], [off] * 3, runs=2, restless=True)
    mine[FEW_ROWS] = dataclasses.replace(one, runs=(one.runs[0], other.runs[1]))
    return compared(folded([*told, *heard], () if heard else UNHEARD), mine, baseline=False)


@pytest.mark.parametrize("off", [0.0, 0.1 * GROSS, 0.999 * GROSS])
def test_where_nobody_is_right_an_order_may_show_if_it_shows_elsewhere(asked_for: list[Known], off: float) -> None:
    told = far_off(asked_for)
    assert there(told, off).again == draws_for(FEW_ROWS, LARGER)
    draw = next(known_of(GROUPS, draw)[0] for draw in UNHEARD if draw.again == LARGER)
    for base, passes in ((restless, True), (still, False)):
        found = there(told, off, dataclasses.replace(draw, baseline=base(draw)))
        assert [row.case for row in found.rows if not row.passed] == ([] if passes else ["backward-40"])


@pytest.mark.parametrize("off", [1.001 * GROSS, float("nan")])
def test_nor_may_it_take_anybody_further_off(asked_for: list[Known], off: float) -> None:
    told = far_off(asked_for)
    assert there(told, off).again == (), "no draw can mend it"
    draw = next(known_of(GROUPS, draw)[0] for draw in UNHEARD if draw.again == LARGER)
    (row, *others) = there(told, off, dataclasses.replace(draw, baseline=restless(draw))).rows
    assert not row.passed and all(other.passed for other in others)
    assert "depends on uninitialised memory or on the order in which programs run" in row.detail


def test_an_order_that_shows_in_one_type_may_show_in_another(asked_for: list[Known]) -> None:
    """group_norm's shares are rounded to bfloat16: in float16 they add up without rounding, by luck."""
    half = known_of(GROUPS, probe_of("004", 40, dtype="float16"))[0]
    half = dataclasses.replace(half, baseline=still(half))
    for base, passes in ((restless, True), (still, False)):
        shown = [dataclasses.replace(one, baseline=base(one)) for one in asked_for if one.probe.call.id == LARGER]
        mine = {LARGER: still(shown[0]), "004": restless(half)}
        found = compared(folded([*shown, half]), mine, baseline=False)
        assert [row.passed for row in found.rows] == [True, passes]
    other_way = [one for one in asked_for if one.probe.call.id == FORWARD]
    shown = [dataclasses.replace(one, baseline=restless(one)) for one in other_way]
    found = compared(folded([*shown, half]), {FORWARD: still(shown[0]), "004": restless(half)}, baseline=False)
    assert [row.passed for row in found.rows] == [True, False], "nothing of a backward is said by a forward"


def test_where_the_untouched_kernel_is_far_off_it_says_so_of_itself_alone(asked_for: list[Known]) -> None:
    """Who is asked for that call alone is held against nothing."""
    told = far_off(asked_for)
    mine = {one.probe.call.id: one.baseline for one in told if one.baseline is not None}
    assert compared(folded(told), mine, baseline=True).unheld == (FEW_ROWS,)
    assert compared(folded(asked_for), mine, baseline=True).unheld == ()
    assert compared(folded(told), mine, baseline=False).unheld == ()
    (row,) = compared(once(told, [FEW_ROWS]), mine, baseline=False).rows
    assert not row.passed and row.detail.startswith("the untouched kernel fails: ")
