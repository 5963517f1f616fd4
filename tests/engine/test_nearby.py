"""Numbers that a rewrite wrote, at their neighbours; those that the library wrote stay as they are."""

from __future__ import annotations

import ast
from itertools import pairwise

import pytest

from bot.engine.nearby import MOST, MOST_HELD, Nearby, _numbers, nearby, with_numbers
from bot.engine.source import parse

HEAD = """import torch
import triton
import triton.language as tl


@triton.jit
def _k(x, n_rows, n_cols, BLOCK: tl.constexpr, TURN: tl.constexpr, AHEAD: tl.constexpr, MODE: tl.constexpr):
    for start in tl.range(0, n_rows, TURN, num_stages=AHEAD):
        rows = start + tl.arange(0, TURN)[:, None]
        cols = tl.arange(0, BLOCK)
        tl.store(x + rows * n_cols + cols, MODE)


"""
BEFORE = (
    HEAD
    + """def launch(x, n_cols):
    mode = 3
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    BLOCK = 4096
    _k[(programs,)](x, 7, n_cols, BLOCK=BLOCK, TURN=1, AHEAD=1, MODE=mode, num_warps=4)
"""
)
AFTER = (
    HEAD
    + """def launch(x, n_cols):
    mode = 8
    # Two programs.
    programs = (2 if n_cols <= 2048 else 1) * torch.cuda.get_device_properties(x.device).multi_processor_count
    BLOCK = 4096
    turn = 4 if n_cols <= 1024 else 1
    BLOCK, num_warps = min(BLOCK, 512), 4
    stages = 3
    _k[(programs,)](
        x,
        7,
        n_cols,
        BLOCK=BLOCK,
        TURN=turn,
        AHEAD=stages,
        MODE=mode,
        num_warps=num_warps,
    )
"""
)


def around(after: str, before: str = BEFORE, kernel: str = "_k") -> tuple[Nearby, ...]:
    return nearby(before, after, frozenset({kernel}))


def words(one: Nearby) -> str:
    """Without the line."""
    return one.says.partition(" (line ")[0]


def told(after: str, before: str = BEFORE) -> set[str]:
    return {words(one) for one in around(after, before)}


def in_launch(line: str, arguments: str, before: str = BEFORE) -> set[str]:
    """Of a launch with these arguments, below such a line."""
    body = f"def launch(x, n_cols, wide):\n    {line}\n    _k[(1,)](x, 7, n_cols, {arguments})\n"
    return told(HEAD + body, before)


def test_half_and_twice_as_much_of_each_number_and_a_stage_more_and_less() -> None:
    assert told(AFTER) == {
        *("1 in place of 2 for programs", "4 in place of 2 for programs", "2 in place of 1 for programs"),
        *("1024 in place of 2048 for the bound of programs", "4096 in place of 2048 for the bound of programs"),
        *("2 in place of 4 for turn", "8 in place of 4 for turn", "2 in place of 1 for turn"),
        *("512 in place of 1024 for the bound of turn", "2048 in place of 1024 for the bound of turn"),
        *("256 in place of 512 for BLOCK", "1024 in place of 512 for BLOCK"),
        *("2 in place of 4 for num_warps", "8 in place of 4 for num_warps"),
        *("2 in place of 3 for stages", "4 in place of 3 for stages"),
    }


def test_what_is_no_size_and_what_the_source_before_says_stay_as_they_are() -> None:
    said = " ".join(told(AFTER))
    assert "mode" not in said and "of 4096" not in said
    assert told(BEFORE) == set()
    assert around(AFTER, kernel="_another") == (), "no scored case launches it"


def test_each_differs_in_one_number_and_in_nothing_else() -> None:
    for one in around(AFTER):
        ast.parse(one.text)
        changed = [(was, now) for was, now in zip(AFTER.split("\n"), one.text.split("\n"), strict=True) if was != now]
        assert len(changed) == 1 and one.kernels == ("_k",)
        assert changed[0][1] == changed[0][0].replace(str(one.was), str(one.now), 1) or str(one.now) in changed[0][1]
        assert with_numbers(one.text, {one.place: one.was}) == AFTER


def test_several_at_once() -> None:
    some = [
        one for one in around(AFTER) if words(one) in ("8 in place of 4 for turn", "1024 in place of 512 for BLOCK")
    ]
    text = with_numbers(AFTER, {one.place: one.now for one in some})
    assert text == AFTER.replace("turn = 4", "turn = 8").replace("min(BLOCK, 512)", "min(BLOCK, 1024)")


def test_the_first_of_each_comes_before_the_second_of_any() -> None:
    places = [one.place for one in around(AFTER)]
    count = len(set(places))
    assert len(set(places[:count])) == count < len(places)
    assert len({one.slug for one in around(AFTER)}) == len(places)


def test_no_more_than_a_race_takes() -> None:
    lines = "\n".join(f"    b{n} = {2**n % 512 + 2 * n + 2} if wide else 1" for n in range(20))
    names = " ".join(f"b{n} if n_cols == {n} else" for n in range(20))
    body = f"def launch(x, n_cols, wide):\n{lines}\n    _k[(1,)](x, 7, n_cols, BLOCK={names} 1, TURN=1)\n"
    assert len(around(HEAD + body)) == MOST


def test_numbers_end_where_a_launch_does() -> None:
    assert in_launch("w = 32", "num_warps=w") == {"16 in place of 32 for w"}
    assert in_launch("w = 1", "num_warps=w") == {"2 in place of 1 for w"}
    assert in_launch("s = 5", "AHEAD=s") == {"4 in place of 5 for s"}
    assert in_launch("s = 1", "AHEAD=s") == {"2 in place of 1 for s"}
    assert in_launch("b = 3", "BLOCK=b") == {"6 in place of 3 for b"}, "there is no half of it"
    assert in_launch(f"b = {MOST_HELD}", "BLOCK=b") == {f"{MOST_HELD // 2} in place of {MOST_HELD} for b"}
    assert in_launch(f"b = n_cols if n_cols <= {MOST_HELD} else 1", "TURN=b") == {
        f"{MOST_HELD // 2} in place of {MOST_HELD} for the bound of b",
        f"{2 * MOST_HELD} in place of {MOST_HELD} for the bound of b",
        "2 in place of 1 for b",
    }


def test_a_number_of_the_launch_itself_and_a_divisor() -> None:
    assert in_launch("pass", "BLOCK=64") == {"32 in place of 64 for BLOCK", "128 in place of 64 for BLOCK"}
    assert in_launch("b = min(n_cols // 4, wide)", "BLOCK=b") == {
        "2 in place of 4 for the divisor of b",
        "8 in place of 4 for the divisor of b",
    }
    assert in_launch("b = n_cols // 2", "BLOCK=b") == set(), "half of a row is no size to choose"
    assert in_launch("pass", "BLOCK=64", before=BEFORE + "    BLOCK=64,\n") == set(), "such a line was there before"


def test_the_bound_of_a_choice_that_has_a_name() -> None:
    said = in_launch("is_wide = n_cols > 512\n    b = 128 if is_wide else n_cols", "BLOCK=b")
    assert said == {
        *("64 in place of 128 for b", "256 in place of 128 for b"),
        *("256 in place of 512 for the bound of b", "1024 in place of 512 for the bound of b"),
    }


def test_a_launch_by_the_name_of_one_of_two_kernels_is_of_both() -> None:
    other = HEAD.replace("def _k(", "def _walking(").replace(HEAD[: HEAD.index("@triton")], "")
    body = "def launch(x, n_cols, wide):\n    k = _walking if wide else _k\n    k[(1,)](x, 7, n_cols, BLOCK=64)\n"
    found = around(HEAD + other + body)
    assert {one.kernels for one in found} == {("_walking", "_k")} and len(found) == 2


def test_a_loop_of_launches_and_a_helper_that_holds_the_block() -> None:
    helper = """@triton.jit
def _part(x, BLOCK: tl.constexpr):
    return tl.load(x + tl.arange(0, BLOCK))


@triton.jit
def _whole(x, SIZE: tl.constexpr):
    tl.store(x, tl.sum(_part(x, SIZE), axis=0))


def launch(x):
    for part in x:
        _whole[(1,)](part, SIZE=256)
"""
    found = nearby(HEAD, HEAD + helper, frozenset({"_whole"}))
    assert {words(one) for one in found} == {"128 in place of 256 for SIZE", "512 in place of 256 for SIZE"}


def test_the_programs_of_a_grid_are_theirs_who_count_multiprocessors() -> None:
    """Twice as many of a grid's second axis would read what is no row of anybody's."""
    assert in_launch("grid = (n_cols, 2)", "MODE=1").__len__() == 0
    body = "def launch(x, n_cols):\n    _k[(n_cols, 2)](x, 7, n_cols, MODE=1)\n"
    assert told(HEAD + body) == set()


def test_a_number_counts_the_same_wherever_a_line_ends() -> None:
    """A form feed ends a line for Python's splitlines, and none for Python."""
    after = AFTER.replace("    # Two programs.\n", "    # Two\x0c programs.\n")
    assert all(first.text != second.text for first, second in pairwise(around(after)))
    assert all(len(one.text.split("\n")) == len(after.split("\n")) for one in around(after))
    assert told(after) == told(AFTER)


def values(after: str) -> dict[str, tuple[str, frozenset[int] | None]]:
    return {words(one): (one.given, one.values) for one in around(after)}


def test_it_is_known_which_launches_may_be_others_where_a_number_is_the_one_that_is_given() -> None:
    """A bound that holds for all of them moves nobody by holding for more."""
    found = values(AFTER)
    assert found["2 in place of 4 for turn"] == found["8 in place of 4 for turn"] == ("TURN", frozenset({4}))
    assert found["2 in place of 1 for turn"] == ("TURN", frozenset({1}))
    assert found["512 in place of 1024 for the bound of turn"] == ("TURN", frozenset({4}))
    assert found["2048 in place of 1024 for the bound of turn"] == ("TURN", frozenset({1}))
    assert found["2 in place of 4 for num_warps"] == ("num_warps", frozenset({4}))
    assert found["4 in place of 3 for stages"] == ("AHEAD", frozenset({3}))


def test_where_it_is_one_of_several_that_make_what_is_given_nobody_knows() -> None:
    found = values(AFTER)
    assert {found[says][1] for says in found if "BLOCK" in says or "programs" in says} == {None}


def in_choice(line: str) -> dict[str, frozenset[int] | None]:
    body = f"def launch(x, n_cols, wide):\n    {line}\n    _k[(1,)](x, 7, n_cols, TURN=t)\n"
    return {words(one): one.values for one in around(HEAD + body) if "bound" in one.says}


def test_a_choice_of_three_and_one_the_other_way_round() -> None:
    assert in_choice("t = 4 if n_cols <= 256 else 2 if n_cols <= 512 else 1") == {
        "128 in place of 256 for the bound of t": frozenset({4}),
        "512 in place of 256 for the bound of t": frozenset({1, 2}),
        "256 in place of 512 for the bound of t": frozenset({2}),
        "1024 in place of 512 for the bound of t": frozenset({1}),
    }
    assert in_choice("t = 4 if n_cols > 256 else 2") == {
        "128 in place of 256 for the bound of t": frozenset({2}),
        "512 in place of 256 for the bound of t": frozenset({4}),
    }


def test_of_a_bound_among_others_or_of_another_kind_nobody_knows() -> None:
    for test in ("128 < n_cols <= 256", "not n_cols <= 256", "wide and not n_cols <= 256"):
        assert set(in_choice(f"t = 4 if {test} else 2").values()) == {None}, test
    assert in_choice("t = 4 if n_cols <= 256 else n_cols")["512 in place of 256 for the bound of t"] is None


@pytest.mark.parametrize(
    "test", ["n_cols % 16 == 0 and n_cols <= 256", "n_cols <= 256 or wide", "n_cols <= 256 and (wide or n_cols)"]
)
def test_a_bound_among_others_holds_for_more_as_it_would_alone(test: str) -> None:
    """What is no bound is no number of the race."""
    assert in_choice(f"t = 4 if {test} else 2") == {
        "128 in place of 256 for the bound of t": frozenset({4}),
        "512 in place of 256 for the bound of t": frozenset({2}),
    }


def test_a_number_that_two_launches_are_given_by_other_names_is_of_both() -> None:
    other = HEAD.replace("def _k(", "def _other(").replace("TURN", "STEP").replace(HEAD[: HEAD.index("@triton")], "")
    body = """def launch(x, n_cols):
    t = 8
    _k[(1,)](x, 7, n_cols, TURN=t)
    _other[(1,)](x, 7, n_cols, STEP=t)
"""
    found = nearby(BEFORE, HEAD + other + body, frozenset({"_k", "_other"}))
    assert {(one.kernels, one.given, one.values) for one in found} == {(("_k", "_other"), "", None)}


def test_what_says_of_what_kind_a_thing_is_bounds_nothing() -> None:
    for test in ("n_cols == 256", "x.stride(-1) <= 1", "torch.cuda.get_device_capability()[0] >= 9", "x.dim() > 2"):
        assert in_choice(f"t = 4 if {test} else 2") == {}, test


KERNEL = """@triton.jit
def _own(x, n, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    for start in tl.range(0, n, 16{options}):
        tl.store(x + start + tl.arange(0, 16), {value})
"""


def sized(value: str, options: str = "") -> set[str]:
    """Of a kernel that uses its constants so, those whose numbers may be others."""
    body = "def launch(x, n):\n    _own[(1,)](x, n, A=2, B=4, C=8)\n"
    text = HEAD + KERNEL.format(value=value, options=options) + "\n\n" + body
    return {one.given for one in nearby(HEAD, text, frozenset({"_own"}))}


def test_a_size_is_what_says_how_much_there_is_and_no_value_or_count_of_turns() -> None:
    assert sized("tl.full((A,), B, tl.float32)") == {"A"}
    assert sized("tl.zeros((A, B), tl.float32)") == {"A", "B"}
    assert sized("tl.arange(A, B)") == {"A", "B"}
    assert sized("sum([C for _ in range(A)])") == set()
    assert sized("sum([1 for _ in range(A, B, C)])") == {"C"}
    assert sized("0", ", num_stages=A") == {"A"}


def test_a_grid_that_is_made_of_the_same_number_keeps_it() -> None:
    body = "def launch(x, n_cols):\n    _k[(triton.cdiv(n_cols, 64),)](x, 7, n_cols, BLOCK=64)\n"
    assert told(HEAD + body) == set()
    assert told(HEAD + body.replace("64),)]", "32),)]")) != set()


def test_where_programs_are_counted_twice_room_was_made_for_so_many() -> None:
    count = "torch.cuda.get_device_properties(x.device).multi_processor_count"
    shares = f"    shares = torch.empty((4 * {count}, n_cols))\n"
    body = f"def launch(x, n_cols):\n    programs = 4 * {count}\n    _k[(programs,)](x, 7, n_cols, MODE=1)\n"
    assert told(HEAD + body) == {"2 in place of 4 for programs", "8 in place of 4 for programs"}
    assert told(HEAD + body.replace("    _k[", f"{shares}    _k[")) == set()


def test_what_leaves_its_function_is_given_to_launches_of_all() -> None:
    other = HEAD.replace("def _k(", "def _other(").replace(HEAD[: HEAD.index("@triton")], "")
    for leaves in ("    ctx.t = t\n", "    return x, t\n"):
        body = f"def launch(ctx, x, n_cols):\n    t = 8\n    _k[(1,)](x, 7, n_cols, TURN=t)\n{leaves}"
        found = nearby(BEFORE, HEAD + other + body, frozenset({"_k", "_other"}))
        assert {one.kernels for one in found} == {("_k", "_other")}
    plain = nearby(BEFORE, HEAD + other + body.replace(", t\n", "\n"), frozenset({"_k", "_other"}))
    assert {one.kernels for one in plain} == {("_k",)}


def test_kernels_that_call_one_another_in_a_circle_are_read_to_their_end() -> None:
    circle = """@triton.jit
def _a(x, N: tl.constexpr):
    return _b(x, N)


@triton.jit
def _b(x, M: tl.constexpr):
    return _a(x, M) + tl.sum(tl.arange(0, M))


def launch(x):
    _a[(1,)](x, N=8)
"""
    assert {one.given for one in nearby(HEAD, HEAD + circle, frozenset({"_a"}))} == {"N"}


def test_each_says_where_it_stands() -> None:
    for one in around(AFTER):
        line = AFTER.split("\n")[int(one.says.rpartition("line ")[2].rstrip(")")) - 1]
        assert str(one.was) in line


TOLD = """
def launch(x, n):
    # Ours alone.
    m = 4096
    # Two where a row of up to 4096 columns leaves room,
    # and 40960 is another number.
    programs = 2 if n <= 4096 else 1
    # 16 elements a thread: first in a race of 512.
    num_warps = min(max(n // 512, 1), 32)
    # Up to 8192, or 8192.
    size = 8192 if n > 8192 else n
    return programs, num_warps, size, m
"""


def _renumbered(line: str, was: int, now: int) -> str:
    """With the first such number of that line changed."""
    row = next(at for at, one in enumerate(TOLD.split("\n"), 1) if line in one)
    places = [place for place, (node, at) in enumerate(_numbers(parse(TOLD))) if at.start.line == row]
    mine = [place for place in places if _numbers(parse(TOLD))[place][0].value == str(was)]
    return with_numbers(TOLD, {mine[0]: now})


def test_what_is_said_of_a_number_says_the_one_that_it_is_now() -> None:
    """rms_norm's winner had 2048 below a line that said 4096."""
    text = _renumbered("programs = 2", 4096, 2048)
    changed = {"4096 columns": "2048 columns", "n <= 4096": "n <= 2048"}
    expected = TOLD
    for old, new in changed.items():
        expected = expected.replace(old, new)
    assert text == expected


def test_a_block_by_half_as_much_is_half_as_many_elements_a_thread() -> None:
    text = _renumbered("num_warps = min", 512, 256)
    assert "# 8 elements a thread: first in a race of 512." in text and "n // 256" in text


def test_of_two_numbers_alike_nobody_knows_which_is_meant() -> None:
    text = _renumbered("size = ", 8192, 4096)
    assert "# Up to 8192, or 8192." in text and "size = 4096 if n > 8192" in text


def test_what_other_gpus_keep_is_no_number_to_change() -> None:
    """Here it would change nothing: half of a race would run what v0 runs."""
    launch = "num_warps=16 if _is_sm_90(x.device) and n_cols <= 2048 else {elsewhere}"
    after = BEFORE.replace("num_warps=4", launch.format(elsewhere=2))
    assert {one.was for one in around(after)} == {16, 2048}
    chosen = BEFORE.replace("num_warps=4", launch.replace("_is_sm_90(x.device) and ", "").format(elsewhere=2))
    assert {one.was for one in around(chosen)} == {16, 2048, 2}
    bound = next(one for one in around(after) if one.was == 2048)
    assert (bound.given, bound.values) == ("num_warps", {16})
