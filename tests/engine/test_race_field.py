"""Which launch numbers race, and what a settings table makes of the result."""

from __future__ import annotations

import pytest

from bot.engine import race_field
from bot.engine.race_field import field, numbers_of, rule_of, tables
from bot.engine.transforms import sum_in_float32
from bot.model.measurement import CaseResult, Launch
from bot.model.race import MOST_RACERS, Lap, Numbers, Race, Racer
from bot.model.variant import SourceFile
from tests.analysis import made
from tests.engine.library import changes, op, sample
from tests.engine.test_sum_in_float32 import HALF

NARROW, WIDE = made.case("forward", cols=1024), made.case("forward", cols=8192)
ONE = op("""
n_rows, n_cols = x.shape
BLOCK_SIZE = triton.next_power_of_2(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=2)
""")


WALK = """    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        v = tl.load(x + row * n_cols + cols, mask=mask)
        tl.store(y + row * n_cols + cols, v * 2, mask=mask)
"""


def files(text: str) -> tuple[SourceFile, ...]:
    return (SourceFile(path="src/k.py", text=text),)


def wide_and_narrow(warps: int = 2, kernel: str = "_k") -> tuple[CaseResult, CaseResult]:
    narrow, wide = (made.launch(kernel, block=block, warps=warps) for block in (1024, 8192))
    return made.result(NARROW, narrow, us=10.0), made.result(WIDE, wide, us=80.0)


def launches(*found: Launch) -> list[tuple[str, Launch]]:
    return [(f"case-{number}", launch) for number, launch in enumerate(found)]


def configs(numbers: tuple[Numbers, ...], *blocks: int) -> list[list[tuple[int, int]]]:
    return [[rule_of(one).config(block) for block in blocks] for one in numbers]


# Who is in it


def test_warps_follow_the_row_or_are_the_same_for_all_where_no_thread_gets_too_much() -> None:
    found = numbers_of("_k", launches(made.launch(block=1024, warps=2), made.launch(block=8192, warps=2)), ONE)
    assert [one.each for one in found if one.each] == [8, 16, 32]
    assert [one.warps for one in found if one.warps] == [4, 8, 16, 32], "one or two warps would hold 8192 by 128 each"
    assert all(one.cap is None for one in found)


def test_nothing_races_that_changes_nothing_or_stands_there_twice() -> None:
    found = numbers_of("_k", launches(made.launch(block=1024, warps=4)), ONE)
    told = configs(found, 1024)
    assert [(1024, 4)] not in told
    assert len(told) == len({tuple(one) for one in told})


def test_a_kernel_that_walks_its_row_by_the_block_may_take_smaller_steps() -> None:
    walking = ONE[: ONE.index("    cols =")] + WALK + ONE[ONE.index("\n\ndef run") :]
    at = launches(made.launch(block=8192, warps=8))
    assert {one.cap for one in numbers_of("_k", at, walking)} == {None, 4096, 2048, 1024, 512}
    assert {one.cap for one in numbers_of("_k", at, ONE)} == {None}
    beside = walking.replace("    for start", "    first = tl.load(x + tl.arange(0, BLOCK_SIZE))\n    for start")
    assert {one.cap for one in numbers_of("_k", at, beside)} == {None}, "the first block is all it would see of it"


def test_large_steps_race_with_as_many_elements_a_thread_as_it_can_hold_and_small_ones_do_not() -> None:
    """Of cross_entropy 16,384 columns with 32 elements a thread were the quickest, and nobody tried them."""
    walking = ONE[: ONE.index("    cols =")] + WALK + ONE[ONE.index("\n\ndef run") :]
    found = numbers_of("_k", launches(made.launch(block=32768, warps=32)), walking)
    capped = [(one.cap, one.each) for one in found if one.cap]
    assert [cap for cap, each in capped if each == 32] == [16384, 8192]
    assert {each for cap, each in capped if cap == 4096} == {8, 16}


def test_a_kernel_without_one_block_for_all_its_launches_races_with_counts() -> None:
    bare = numbers_of("_k", launches(made.launch(constants=(), warps=4)), ONE)
    assert [(one.block_name, one.warps) for one in bare] == [("", 1), ("", 2), ("", 8), ("", 16), ("", 32)]
    two = launches(made.launch(block=1024, warps=4), made.launch(constants=(("BLOCK_N", "1024"),), warps=4))
    assert [one.warps for one in numbers_of("_k", two, ONE)] == [1, 2, 8, 16, 32]


def test_each_racer_is_the_source_with_its_numbers_written_in() -> None:
    facts = made.measurement(*wide_and_narrow())
    for racing in field(files(ONE), facts):
        (numbers,), (file,) = racing.numbers, racing.files
        gone, new = changes(ONE, file.text)
        assert len(new) >= 1 and "num_warps=2)" in "".join(gone)
        warps = "16 if torch.version.hip else 32" if numbers.warps == 32 else numbers.warps
        assert f"num_warps={warps})" in file.text or f"// {32 * (numbers.each or 0)}" in file.text
        assert racing.cases == (NARROW.id, WIDE.id)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n",
        ONE.replace("@triton.jit", "@triton.autotune(configs=CONFIGS, key=[])\n@triton.jit"),
        ONE.replace("import torch\n", "", 1),
        ONE.replace("n_rows, n_cols = x.shape", "n_rows, n_cols = sizes(x)"),
    ],
    ids=["launched elsewhere", "autotuned", "no torch to ask", "no tensor to ask"],
)
def test_a_launch_that_cannot_be_rewritten_has_no_race(text: str) -> None:
    assert field(files(ONE), made.measurement(*wide_and_narrow())) != ()
    assert field(files(text), made.measurement(*wide_and_narrow())) == ()


def test_a_launch_that_gets_its_warps_in_a_dictionary_races_with_others_in_it() -> None:
    launch = "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=2)"
    assert launch in ONE
    held = ONE.replace(
        launch, "args = {'num_warps': 2}\n    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, **args)"
    )
    facts = made.measurement(*wide_and_narrow())
    assert [racing.numbers for racing in field(files(held), facts)] == [r.numbers for r in field(files(ONE), facts)]
    for racing in field(files(held), facts):
        gone, _ = changes(held, racing.files[0].text)
        assert gone == ["    args = {'num_warps': 2}"]
    shared = held.replace("**args)", "**args)\n    return args")
    assert field(files(shared), facts) == ()


def test_kernels_that_share_no_case_race_at_once() -> None:
    """Forward and backward of the sample's rms_norm: as many racers as one kernel has numbers, not as both."""
    text = sample("rms_norm")
    forward, backward = made.case("forward"), made.case("backward")
    facts = made.measurement(
        made.result(forward, made.launch("_rms_norm_forward_kernel", warps=2), us=10.0),
        made.result(backward, made.launch("_rms_norm_backward_kernel", warps=2), us=30.0),
    )
    found = field(files(text), facts)
    first = found[0]
    assert [numbers.kernel for numbers in first.numbers] == ["_rms_norm_forward_kernel", "_rms_norm_backward_kernel"]
    assert set(first.cases) == {forward.id, backward.id}
    assert len(found) == max(
        sum(any(numbers.kernel == kernel for numbers in racing.numbers) for racing in found)
        for kernel in ("_rms_norm_forward_kernel", "_rms_norm_backward_kernel")
    )


def test_kernels_of_one_pass_race_one_after_the_other() -> None:
    text = sample("rms_norm")
    case = made.case("backward")
    both = (made.launch("_rms_norm_forward_kernel", warps=2), made.launch("_rms_norm_backward_kernel", warps=2))
    found = field(files(text), made.measurement(made.result(case, *both, us=40.0)))
    assert {len(racing.numbers) for racing in found} == {1}


def test_no_more_than_so_many_are_let_in_and_the_likeliest_first() -> None:
    facts = made.measurement(*wide_and_narrow())
    everybody = field(files(ONE), facts, most=MOST_RACERS)
    assert field(files(ONE), facts, most=2) == everybody[:2]
    assert [racing.numbers[0].each for racing in everybody[:3]] == [8, 16, 32]


def test_a_kernel_that_adds_up_in_half_precision_races_as_its_rule_will_be_written() -> None:
    """Each racer's kernel in float32, and with it the other one of its file."""
    found = field(files(HALF), made.measurement(*wide_and_narrow(kernel="_forward")))
    assert found
    for racing in found:
        gone, _ = changes(HALF, racing.files[0].text)
        assert racing.files[0].text.count(sum_in_float32.WHY) == 2
        assert "    w = tl.load(w_ptr + row)  # of its type" in gone and any("dy_ptr" in line for line in gone)
    backward = field(
        files(HALF), made.measurement(*wide_and_narrow(kernel="_backward")), backward_only=frozenset({"_backward"})
    )
    assert {racing.files[0].text.count(sum_in_float32.WHY) for racing in backward} == {1}


# What comes of it


def race(speedups: dict[int, tuple[float, float]], left: int | None = None) -> Race:
    """Elements a thread, and v0's time over its own on the narrow and the wide case; v1 itself is at 1.25x v0."""

    def laps(narrow: float, wide: float) -> tuple[Lap, ...]:
        pairs = ((NARROW.id, narrow), (WIDE.id, wide))
        return tuple(Lap(case=case, speedup=s, low=s, high=s, blocks=12) for case, s in pairs)

    others = tuple(
        Racer(
            numbers=(Numbers(kernel="_k", block_name="BLOCK_SIZE", each=each),),
            laps=laps(*both)[: 1 if each == left else 2],
            left="it fell" if each == left else "",
        )
        for each, both in speedups.items()
    )
    return Race(of=1, racers=(Racer(laps=laps(1.25, 1.25)), *others))


SUITE = made.suite(NARROW, WIDE)


def test_times_are_those_of_the_source_itself_by_what_the_race_saw() -> None:
    facts = made.measurement(*wide_and_narrow())
    name, rows = tables(race({16: (2.5, 5.0)}), facts, SUITE)["_k"]
    assert name == "BLOCK_SIZE"
    narrow, wide = rows
    assert narrow.us == {(1024, 2): pytest.approx(10.0)}, "16 elements a thread are two warps there: as it is"
    assert wide.us == {(8192, 2): pytest.approx(80.0), (8192, 16): pytest.approx(20.0)}


def test_counts_of_a_kernel_without_a_block_are_told_by_their_warps_alone() -> None:
    bare = made.launch(constants=(), warps=4)
    facts = made.measurement(made.result(NARROW, bare, us=10.0), made.result(WIDE, bare, us=80.0))
    counts = [racing.numbers for racing in field(files(ONE), facts)]
    assert [numbers[0].warps for numbers in counts] == [1, 8, 16, 32], "two is what the source says"
    ran = race({16: (2.5, 5.0)})
    eight = ran.racers[1].model_copy(update={"numbers": counts[1]})
    name, rows = tables(ran.model_copy(update={"racers": (ran.racers[0], eight)}), facts, SUITE)["_k"]
    assert name == "" and rows[0].us == {(0, 4): pytest.approx(10.0), (0, 8): pytest.approx(5.0)}
    assert rows[1].us[(0, 8)] == pytest.approx(20.0)


def test_the_width_of_a_row_is_the_size_that_the_blocks_follow() -> None:
    facts = made.measurement(*wide_and_narrow())
    _, rows = tables(race({16: (2.5, 5.0)}), facts, SUITE)["_k"]
    assert [row.width for row in rows] == [1024, 8192]


@pytest.mark.parametrize(
    ("sizes", "widths"),
    [
        ([(2048, 4096, 4096), (2048, 32000, 32768), (512, 128256, 32768)], [4096, 32000, 128256]),
        ([(2048, 32000, 4096), (512, 128256, 4096)], [32000, 128256]),
        ([(4096, 4096, 4096), (8192, 8192, 8192)], []),
        ([(64, 1000, 2048), (64, 3000, 4096)], []),
    ],
    ids=["as far as a block may reach", "all beyond it", "two sizes would do", "no size does"],
)
def test_where_nobody_can_tell_the_width_is_not_known(sizes: list[tuple[int, int, int]], widths: list[int]) -> None:
    cases = [(made.case("forward", rows=rows, cols=cols), block) for rows, cols, block in sizes]
    assert list(race_field._widths(cases).values()) == widths


def test_who_left_is_known_where_it_ran() -> None:
    facts = made.measurement(*wide_and_narrow())
    _, (narrow, wide) = tables(race({8: (2.5, 5.0)}, left=8), facts, SUITE)["_k"]
    assert (1024, 4) in narrow.us
    assert list(wide.us) == [(8192, 2)]


def test_what_spilled_in_a_case_is_not_known_there_however_fast_it_was() -> None:
    """Eight warps made mhc_coeffs 1.32x as fast and were refused for 24 bytes in one shape, though sixteen had
    raced beside them."""
    facts = made.measurement(*wide_and_narrow())
    found = race({8: (2.5, 5.0), 16: (2.5, 4.0)})
    narrow, wide = found.racers[1].laps
    spilled = found.racers[1].model_copy(update={"laps": (narrow, wide.model_copy(update={"spills": 24}))})
    assert (found.first, spilled.spills) == (found.racers[1], True)
    found = found.model_copy(update={"racers": (found.racers[0], spilled, found.racers[2])})
    _, (narrow_row, wide_row) = tables(found, facts, SUITE)["_k"]
    assert (1024, 4) in narrow_row.us
    assert set(wide_row.us) == {(8192, 2), (8192, 16)}
    assert found.first == found.racers[2]


def test_a_race_that_the_source_itself_did_not_finish_says_nothing() -> None:
    facts = made.measurement(*wide_and_narrow())
    found = race({16: (2.5, 5.0)})
    alone = found.model_copy(update={"racers": found.others})
    short = found.model_copy(update={"racers": (Racer(laps=found.racers[0].laps[:1]), *found.others)})
    assert tables(alone, facts, SUITE) == {}
    assert tables(short, facts, SUITE) == {}


def test_a_count_for_all_rows_is_a_rule_of_the_race_alone() -> None:
    rule = race_field.rule_of(Numbers(kernel="_k", block_name="BLOCK_SIZE", warps=8))
    assert [rule.config(block) for block in (256, 65536)] == [(256, 8), (65536, 8)]
    assert rule.warps_text == "8"


def test_there_is_room_where_somebody_could_race() -> None:
    facts = made.measurement(*wide_and_narrow())
    assert race_field.has_room(files(ONE), facts) and field(files(ONE), facts)
    launched_elsewhere = ONE.split("def run")[0]
    assert not race_field.has_room(files(launched_elsewhere), facts) and not field(files(launched_elsewhere), facts)
