"""Numbers go where a maintainer would have put them, and everything else stays byte for byte."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from bot.engine.launch_numbers import Numbers, with_other_warps, write
from bot.engine.source import NotUnderstood
from bot.engine.widths import are_known
from tests.engine.library import changes, op, sample

WHY = "16 elements a thread (estimated for sm_90)."
PER_THREAD = "min(max({block} // 512, 1), 32)"
BY_TORCH = "16 if torch.version.hip else 32"
NARROW = "min(max(BLOCK_SIZE // 512, 1), 32) if n_cols <= 32768"
BRANCHES = """
num_warps = 4
if n_cols > 8:
    BLOCK_SIZE = 16
else:
    BLOCK_SIZE = 8
"""


def rewritten(body: str, **numbers: str) -> tuple[list[str], list[str]]:
    before = op(body)
    after = write(before, Numbers("_k", why=WHY, **numbers))
    ast.parse(after)
    return changes(before, after)


def test_a_number_that_was_unpacked_is_set_again_on_the_next_line() -> None:
    body = """
BLOCK_SIZE, num_warps = settings(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
    assert rewritten(body, warps=PER_THREAD) == (
        [],
        [f"    # {WHY}", "    num_warps = min(max(BLOCK_SIZE // 512, 1), 32)"],
    )


def test_a_number_with_a_line_of_its_own_is_changed_there() -> None:
    body = """
BLOCK_SIZE = triton.next_power_of_2(n_cols)
num_warps = 4
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
    gone, new = rewritten(body, warps="8")
    assert gone == ["    num_warps = 4"]
    assert new == [f"    # {WHY}", "    num_warps = 8"]


def test_a_comment_above_the_changed_line_stays() -> None:
    body = """
BLOCK_SIZE = 1024
# Four are enough for everybody.
num_warps = 4
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
    gone, _ = rewritten(body, warps="8")
    assert gone == ["    num_warps = 4"]


def test_a_number_that_is_made_before_its_block_is_made_again_above_the_launch() -> None:
    body = """
num_warps = 4
BLOCK_SIZE = triton.next_power_of_2(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
    _, new = rewritten(body, warps=PER_THREAD)
    assert new[-1] == "    num_warps = min(max(BLOCK_SIZE // 512, 1), 32)"
    gone, _ = rewritten(body, warps="8")
    assert gone == ["    num_warps = 4"]


def test_a_literal_in_the_launch_is_changed_in_place() -> None:
    body = "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=4)"
    gone, new = rewritten(body, warps="8")
    assert gone == ["    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=4)"]
    assert new == [f"    # {WHY}", "    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=8)"]


def test_a_number_that_was_never_given_is_added_in_a_line_of_its_own() -> None:
    body = """
BLOCK_SIZE = 1024
_k[(n_rows,)](
    x,
    y,
    n_cols,
    BLOCK_SIZE=BLOCK_SIZE,
)
"""
    assert rewritten(body, stages="2") == ([], [f"    # {WHY}", "        num_stages=2,"])


def test_a_number_is_added_before_what_is_passed_on() -> None:
    body = """
more = {"BLOCK_ROW": 16}
more["STEP"] = 2
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, **more)
"""
    _, new = rewritten(body, warps="8")
    assert new == [f"    # {WHY}", "    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=8, **more)"]


LAYER_NORM = """
BLOCK_SIZE, num_warps = settings(n_cols)
grid = (132,)
kernel_args = {"num_warps": num_warps}
if x.device.type == "xpu":
    kernel_args.update({"num_warps": 32, "num_stages": 4})
    set_large_grf_mode(kernel_args)
_k[grid](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, **kernel_args)
"""
"""How Liger launches the backward of layer_norm."""


def test_a_number_that_a_dictionary_holds_is_changed_where_its_variable_is_made() -> None:
    assert rewritten(LAYER_NORM, warps=PER_THREAD) == (
        [],
        [f"    # {WHY}", "    num_warps = min(max(BLOCK_SIZE // 512, 1), 32)"],
    )


def test_a_variable_that_others_read_stays_and_the_dictionary_changes() -> None:
    body = f"{LAYER_NORM}return num_warps\n"
    assert rewritten(body, warps=PER_THREAD) == (
        ['    kernel_args = {"num_warps": num_warps}'],
        [f"    # {WHY}", '    kernel_args = {"num_warps": min(max(BLOCK_SIZE // 512, 1), 32)}'],
    )


def test_a_number_that_the_dictionary_gets_by_its_key_is_changed_there() -> None:
    body = LAYER_NORM.replace('{"num_warps": num_warps}', '{"num_warps": 2}\nkernel_args["num_warps"] = 4')
    assert rewritten(body, warps="8") == (
        ['    kernel_args["num_warps"] = 4'],
        [f"    # {WHY}", '    kernel_args["num_warps"] = 8'],
    )


def test_a_number_that_a_branch_alone_may_put_in_is_put_in_from_the_start() -> None:
    """Said in the call it would be said twice on that branch."""
    assert rewritten(LAYER_NORM, stages="2") == (
        ['    kernel_args = {"num_warps": num_warps}'],
        [f"    # {WHY}", '    kernel_args = {"num_warps": num_warps, "num_stages": 2}'],
    )
    _, new = rewritten(LAYER_NORM.replace('{"num_warps": num_warps}', "{}"), warps="8")
    assert new[-1] == '    kernel_args = {"num_warps": 8}'


def test_no_launch_says_a_number_twice_whatever_the_dictionary_holds() -> None:
    """Run for real: each launch is called with what the source says."""
    said: list[dict[str, object]] = []
    for held in ('{"num_warps": num_warps}', "{}", '{"num_stages": 4}', "{**{}}"):
        for device in ("cuda", "xpu"):
            for numbers in (
                Numbers("_k", warps=PER_THREAD, why=WHY),
                Numbers("_k", warps="8"),
                Numbers("_k", stages="2"),
            ):
                text = write(op(LAYER_NORM.replace('{"num_warps": num_warps}', held)), numbers)
                said.append(launched_by(text, device))
    assert {one["BLOCK_SIZE"] for one in said} == {4096}
    assert {one.get("num_warps") for one in said} == {None, 2, 8, 32}
    assert {one.get("num_stages") for one in said} == {None, 2, 4}


def launched_by(text: str, device: str = "cuda", hip: str | None = None) -> dict[str, object]:
    """The named arguments with which `run` launches its kernel, where torch was built for this HIP."""
    told: dict[str, object] = {}

    class Kernel:
        def __getitem__(self, grid: object) -> Callable[..., None]:
            return lambda *args, **named: told.update(named)

    host = text[text.index("def run(") :]
    names: dict[str, object] = {
        "_k": Kernel(),
        "torch": SimpleNamespace(version=SimpleNamespace(hip=hip)),
        "is_hip": lambda: hip is not None,
        "settings": lambda n_cols: (4096, 2),
        "set_large_grf_mode": lambda kernel_args: kernel_args.update({"grf_mode": "large"}),
    }
    exec(host, names)
    run = names["run"]
    assert callable(run)
    tensor = SimpleNamespace(device=SimpleNamespace(type=device))
    run(tensor, tensor, 8192, 4096)
    return told


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a dictionary of the caller's", 'kernel_args = {"num_warps": num_warps}', "pass"),
        ("made by somebody else", '{"num_warps": num_warps}', "launch_args(n_cols)"),
        ("used by another launch", "_k[grid]", "_other[grid](x, **kernel_args)\n_k[grid]"),
        ("handed back", "**kernel_args)", "**kernel_args)\nreturn kernel_args"),
        ("another dictionary as well", "**kernel_args)", "**kernel_args, **more)"),
        ("not a variable", "**kernel_args)", "**launch_args(n_cols))"),
        (
            "a block that is not known yet",
            "kernel_args = {",
            'kernel_args = {"num_warps": 4}\nBLOCK_SIZE = 2048\nmore = {',
        ),
        ("a block that a branch makes", "BLOCK_SIZE, num_warps = settings(n_cols)", BRANCHES),
    ],
)
def test_a_dictionary_that_is_not_understood_keeps_its_numbers(why: str, before: str, after: str) -> None:
    assert before in LAYER_NORM
    with pytest.raises(NotUnderstood):
        write(op(LAYER_NORM.replace(before, after)), Numbers("_k", warps=PER_THREAD))


def test_a_variable_that_something_else_reads_is_left_alone() -> None:
    body = """
BLOCK_SIZE, num_warps = settings(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
return num_warps
"""
    gone, new = rewritten(body, warps="8")
    assert len(gone) == 1 and "num_warps=8" in new[-1]


IN_BRANCHES = """
BLOCK_SIZE = triton.next_power_of_2(n_cols)
warps = 4
if n_cols > 8:
    warps = 8

# a row each
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=warps)
"""


def test_a_variable_that_branches_set_is_set_above_its_only_reader() -> None:
    """Where the launch no longer read it, a linter would find it unused, and what it was before is read by nobody."""
    assert rewritten(IN_BRANCHES, warps=PER_THREAD) == (
        ["    warps = 4", "    if n_cols > 8:", "        warps = 8"],
        [f"    # {WHY}", "    warps = min(max(BLOCK_SIZE // 512, 1), 32)"],
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    warps = 8", "    warps = 8  # measured"),
        ("if n_cols > 8:", "# as others have it\nif n_cols > 8:"),
        ("if n_cols > 8:", "if counted(n_cols):"),
        ("    warps = 8", "    warps, more = 8, 2"),
        ("    warps = 8", "    warps = 8\n    print(n_cols)"),
        ("    warps = 8", "    warps = 8\nelse:\n    more = 2"),
        ("    warps = 8", "    warps = 8\nelif n_cols > 4:\n    more = 2"),
    ],
)
def test_a_branch_that_does_more_or_is_spoken_of_stays(before: str, after: str) -> None:
    gone, new = rewritten(IN_BRANCHES.replace(before, after), warps=PER_THREAD)
    assert gone == [] and new == [f"    # {WHY}", "    warps = min(max(BLOCK_SIZE // 512, 1), 32)"]


def test_each_way_of_a_branch_is_read_by_nobody() -> None:
    ways = IN_BRANCHES.replace("    warps = 8", "    warps = 8\nelif n_cols > 4:\n    warps = 6\nelse:\n    warps = 2")
    gone, _ = rewritten(ways, warps=PER_THREAD)
    assert gone[:2] == ["    warps = 4", "    if n_cols > 8:"] and len(gone) == 7


def test_what_the_new_number_is_made_of_stays() -> None:
    gone, new = rewritten(IN_BRANCHES, warps="2 * warps")
    assert gone == [] and new[-1] == "    warps = 2 * warps"


def test_and_a_later_rule_is_written_over_that_line() -> None:
    once = write(op(IN_BRANCHES), Numbers("_k", why=WHY, warps=PER_THREAD))
    twice = write(once, Numbers("_k", why=WHY.replace("16", "8"), warps=PER_THREAD.replace("512", "256")))
    assert twice == write(
        op(IN_BRANCHES), Numbers("_k", why=WHY.replace("16", "8"), warps=PER_THREAD.replace("512", "256"))
    )


def test_in_a_branch_it_is_set_in_that_branch() -> None:
    body = IN_BRANCHES.replace("# a row each\n_k[", "if n_rows:\n    _k[")
    gone, new = rewritten(body, warps="2")
    assert not gone and new == [f"        # {WHY}", "        warps = 2"]


def test_a_launch_that_grows_too_long_for_its_line_gets_a_line_for_each_argument() -> None:
    body = """
BLOCK_SIZE = triton.next_power_of_2(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=x.a_long_name_of_something if x else 8, num_stages=2)
"""
    before = op(body)
    assert max(map(len, before.splitlines())) <= 120
    after = write(before, Numbers("_k", warps="min(max({block} // 512, 1), 32) if x.a_long_name_of_something else 8"))
    ast.parse(after)
    assert changes(before, after)[1] == [
        "    _k[(n_rows,)](",
        "        x,",
        "        y,",
        "        n_cols,",
        "        BLOCK_SIZE=BLOCK_SIZE,",
        "        num_warps=min(max(BLOCK_SIZE // 512, 1), 32) if x.a_long_name_of_something else 8,",
        "        num_stages=2,",
        "    )",
    ]


FOLLOWED = """
BLOCK_SIZE = 4096 * n_rows
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
"""
LONG = "min(4 if {block} <= 1024 else 8 if {block} <= 16384 else max(16, {block} // 2048), {most})"


def test_a_number_that_is_too_long_for_its_line_gets_a_line_for_each_part() -> None:
    said = [
        "4 if BLOCK_SIZE <= 1024 else 8 if BLOCK_SIZE <= 16384 else max(16, BLOCK_SIZE // 2048),",
        f"{BY_TORCH},",
    ]
    made = FOLLOWED.replace("_k[", "num_warps = 4\n_k[").replace("num_warps=4", "num_warps=num_warps")
    assert rewritten(made, warps=LONG)[1] == [
        f"    # {WHY}",
        "    num_warps = min(",
        *(f"        {line}" for line in said),
        "    )",
    ]
    _, new = rewritten(FOLLOWED, warps=LONG)
    assert new[-6:] == [
        "        BLOCK_SIZE=BLOCK_SIZE,",
        "        num_warps=min(",
        *(f"            {line}" for line in said),
        "        ),",
        "    )",
    ]
    _, new = rewritten(f"{LAYER_NORM}return num_warps\n", warps=LONG)
    assert new == [
        f"    # {WHY}",
        "    kernel_args = {",
        '        "num_warps": min(',
        *(f"            {line}" for line in said),
        "        ),",
        "    }",
    ]


def test_a_parameter_is_not_reassigned_but_the_argument_is_changed() -> None:
    before = op("pass").replace("def run(x, y, n_rows, n_cols):\n    pass", "") + (
        "def run(x, y, n_rows, n_cols, BLOCK_SIZE, num_warps):\n"
        "    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)\n"
    )
    _, new = changes(before, write(before, Numbers("_k", warps=PER_THREAD, why=WHY)))
    assert "num_warps=min(max(BLOCK_SIZE // 512, 1), 32))" in new[-1]


def test_a_new_block_goes_in_before_the_grid_is_computed_from_it() -> None:
    body = """
BLOCK_SIZE = triton.next_power_of_2(n_cols)
grid = (triton.cdiv(n_cols, BLOCK_SIZE),)
_k[grid](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE)
"""
    after = write(op(body), Numbers("_k", block="min({block}, 2048)", why=WHY)).splitlines()
    at = after.index("    BLOCK_SIZE = min(BLOCK_SIZE, 2048)")
    assert at < next(i for i, line in enumerate(after) if "grid =" in line)


@pytest.mark.parametrize(
    ("given", "passed", "line"),
    [
        ("num_warps = 8 if wide else 32\n", "num_warps=num_warps", f"num_warps = {NARROW} else num_warps"),
        ("", "num_warps=32", f"num_warps={NARROW} else 32"),
        ("", "", f"num_warps={NARROW} else 4"),
    ],
)
def test_numbers_for_narrow_rows_leave_wide_ones_what_they_have(given: str, passed: str, line: str) -> None:
    body = f"""
{given}BLOCK_SIZE = min(LARGEST, triton.next_power_of_2(n_cols))
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE{", " if passed else ""}{passed})
"""
    _, new = changes(
        op(body), write(op(body), Numbers("_k", block="min({block}, 8192)", warps=PER_THREAD, up_to=32768))
    )
    assert new[0] == "    BLOCK_SIZE = min(BLOCK_SIZE, 8192) if n_cols <= 32768 else BLOCK_SIZE"
    assert any(one.rstrip(",)").endswith(line) for one in new)


@pytest.mark.parametrize(
    ("up_to", "asked"), [(None, "n_cols % 16 == 0"), (32768, "n_cols <= 32768 and n_cols % 16 == 0")]
)
def test_numbers_for_rows_of_whole_vectors_leave_others_what_they_have(up_to: int | None, asked: str) -> None:
    body = """
num_warps = 8 if wide else 32
BLOCK_SIZE = triton.next_power_of_2(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
    _, new = changes(op(body), write(op(body), Numbers("_k", warps="16", up_to=up_to, whole=True)))
    assert new == [f"    num_warps = 16 if {asked} else num_warps"]


@pytest.mark.parametrize("made", ["settings(n_cols)", "triton.next_power_of_2(n_cols // 2)", "1024"])
def test_how_wide_a_row_is_has_to_stand_there(made: str) -> None:
    body = f"""
BLOCK_SIZE = {made}
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE)
"""
    assert not are_known(op(body), "_k", "BLOCK_SIZE")
    with pytest.raises(NotUnderstood, match="nobody says how wide a row of _k is"):
        write(op(body), Numbers("_k", warps="8", up_to=32768))


def test_every_launch_has_to_say_how_wide_its_rows_are() -> None:
    body = """
BLOCK_SIZE = triton.next_power_of_2(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE)
"""
    assert are_known(op(body), "_k", "BLOCK_SIZE")
    assert not are_known(op(body + "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024)\n"), "_k", "BLOCK_SIZE")
    assert not are_known(op("pass"), "_k", "BLOCK_SIZE")


def test_a_block_that_another_kernel_shares_is_not_touched() -> None:
    body = """
BLOCK_SIZE = 1024
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE)
_other[(n_rows,)](x, BLOCK_SIZE=BLOCK_SIZE)
"""
    with pytest.raises(NotUnderstood, match="alone"):
        write(op(body), Numbers("_k", block="min({block}, 256)"))


def test_a_later_rule_takes_the_place_of_an_earlier_one_of_ours() -> None:
    before = sample("jsd")
    once = write(before, Numbers("_jsd_forward_kernel", warps=PER_THREAD, block="min({block}, 2048)", why=WHY))
    again = Numbers(
        "_jsd_forward_kernel", warps="8", block="min({block}, 4096)", why="Eight warps (estimated for sm_90)."
    )
    _, new = changes(before, write(once, again))
    assert [line.strip() for line in new] == [
        "# Eight warps (estimated for sm_90).",
        "BLOCK_SIZE = min(BLOCK_SIZE, 4096)",
        "num_warps = 8",
    ]


def test_a_launch_inside_of_a_branch_is_changed_there() -> None:
    body = """
BLOCK_SIZE, num_warps = settings(n_cols)
with device(x):
    if n_cols > 8:
        _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    else:
        _k[(n_rows, 1)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
    gone, new = rewritten(body, warps="8")
    assert len(gone) == 2
    assert [line.strip() for line in new].count(f"# {WHY}") == 2
    assert all("num_warps=8" in line for line in new if "_k[" in line)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for i in range(2):\n    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024)", "loop"),
        ("pass", "not launched"),
        ("_k[(n_rows,)](x, y, n_cols, **more)", "dictionary"),
    ],
)
def test_what_is_not_understood_is_not_guessed(body: str, why: str) -> None:
    with pytest.raises(NotUnderstood, match=why):
        write(op(body), Numbers("_k", warps=PER_THREAD))


def test_a_variable_that_a_branch_may_have_changed_is_not_followed() -> None:
    body = """
BLOCK_SIZE, num_warps = settings(n_cols)
if n_cols > 8:
    num_warps = 2
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
    gone, new = rewritten(body, warps="8")
    assert gone == ["    if n_cols > 8:", "        num_warps = 2"]
    assert new == [f"    # {WHY}", "    num_warps = 8"]


@pytest.mark.parametrize("text", ["def f(:\n", "x = 1\n\x00", ""])
def test_a_source_that_is_no_python_or_has_no_launch_is_refused(text: str) -> None:
    with pytest.raises(NotUnderstood):
        write(text, Numbers("_k", warps="8"))


@pytest.mark.parametrize("kernel", ["rms_norm", "geglu", "jsd", "softmax"])
def test_every_kernel_of_the_sample_can_be_written_and_loses_no_line_but_its_number(kernel: str) -> None:
    before = sample(kernel)
    for name in [f"_{kernel}_forward_kernel", f"_{kernel}_backward_kernel"]:
        gone, new = changes(before, write(before, Numbers(name, warps=PER_THREAD, why=WHY)))
        assert all("num_warps = 4" in line for line in gone)
        assert 1 <= len(new) <= 2


def launched_with(warps: str, *turns: bool) -> str:
    """What stands in the launch after so many turns to more or to fewer."""
    text = op(f"num_warps = settings(n_cols)\n_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024{warps})")
    for more in turns:
        text = with_other_warps(text, "_k", more=more, why="Others.")
    assert text.count("# Others.") == 1
    ast.parse(text)
    return text.partition("BLOCK_SIZE=1024, ")[2].partition("\n")[0].removesuffix(")")


@pytest.mark.parametrize(
    ("warps", "turns", "told"),
    [
        (", num_warps=8", (True,), "num_warps=16"),
        (", num_warps=8", (True, True), f"num_warps={BY_TORCH}"),
        (", num_warps=16, num_stages=2", (True,), f"num_warps={BY_TORCH}, num_stages=2"),
        (", num_warps=8", (False,), "num_warps=4"),
        ("", (True,), "num_warps=8"),
        (", num_warps=num_warps", (True,), f"num_warps=min(2 * num_warps, {BY_TORCH})"),
        (", num_warps=num_warps", (True, True), f"num_warps=min(4 * num_warps, {BY_TORCH})"),
        (", num_warps=min(2 * num_warps, 32)", (True,), f"num_warps=min(4 * num_warps, {BY_TORCH})"),
        (", num_warps=num_warps", (False, False), "num_warps=max(num_warps // 4, 1)"),
        (", num_warps=num_warps + 1", (True,), f"num_warps=min(2 * (num_warps + 1), {BY_TORCH})"),
    ],
)
def test_warps_are_doubled_or_halved_where_the_launch_says_them(warps: str, turns: tuple[bool, ...], told: str) -> None:
    assert launched_with(warps, *turns) == told


def test_warps_in_a_dictionary_are_doubled_there() -> None:
    before = op(LAYER_NORM)
    gone, new = changes(before, with_other_warps(before, "_k", more=True, why="Others."))
    assert gone == ['    kernel_args = {"num_warps": num_warps}']
    assert new == ["    # Others.", f'    kernel_args = {{"num_warps": min(2 * num_warps, {BY_TORCH})}}']


def test_warps_in_a_dictionary_of_others_are_left_alone() -> None:
    text = op("_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, **more)")
    with pytest.raises(NotUnderstood, match="dictionary"):
        with_other_warps(text, "_k", more=True, why="Others.")


def test_a_kernel_that_tunes_itself_keeps_its_list() -> None:
    tuned = "@triton.autotune(configs=[], key=[])\n@triton.jit\ndef _k("
    text = op("_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024)").replace("@triton.jit\ndef _k(", tuned)
    assert tuned in text
    with pytest.raises(NotUnderstood, match="by itself"):
        with_other_warps(text, "_k", more=True, why="Others.")
