"""An idea keeps to the op of its campaign: what it changed of others in the same file is put back, byte for byte."""

from __future__ import annotations

import pytest

from bot.engine.put_back import put_back
from bot.model.variant import SourceFile

PATH, OTHER = "src/ops/mine.py", "src/ops/yours.py"
TEXT = '''"""Two ops in one file."""
import torch
import triton

MOST = 4


@triton.jit
def _shared(x):
    return x


# What the first op runs.
@triton.jit
def _mine_kernel(x_ptr):
    one = _shared(x_ptr)


@triton.jit
def _yours_kernel(x_ptr):
    two = _shared(x_ptr)


def mine(x):
    _mine_kernel[(MOST,)](x)
    return x


def mine_again(x):
    return torch.neg(x)


class Mine(torch.autograd.Function):
    forward, backward = mine, mine_again


def yours(x):
    _yours_kernel[(MOST,)](x)
    return x


class Yours(torch.autograd.Function):
    forward = yours
'''
LAUNCHED = frozenset({"_mine_kernel"})


def files(text: str, path: str = PATH) -> tuple[SourceFile, ...]:
    return (SourceFile(path=path, text=text),)


def edited(*pairs: tuple[str, str], text: str = TEXT) -> str:
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    return text


MINE = ("one = _shared(x_ptr)", "one = _shared(x_ptr) + 0")
MY_HOST = ("return torch.neg(x)", "return -x")
YOURS = ("two = _shared(x_ptr)", "two = _shared(x_ptr) + 0")
YOUR_HOST = ("_yours_kernel[(MOST,)](x)", "# Said why.\n    _yours_kernel[(MOST,)](x)")


def kept(after: str, before: str = TEXT, launched: frozenset[str] = LAUNCHED) -> str:
    (found,) = put_back(files(before), files(after), launched).files
    return found.text


def test_what_was_changed_of_another_op_is_put_back_and_named() -> None:
    after = edited(MINE, MY_HOST, YOURS, YOUR_HOST)
    assert kept(after) == edited(MINE, MY_HOST)
    found = put_back(files(TEXT), files(after), LAUNCHED)
    assert found.put_back == {"_yours_kernel", "yours"}


@pytest.mark.parametrize("said", ["@jit", "@triton.jit(do_not_specialize=['n'])", "@triton.autotune([])\n@triton.jit"])
def test_a_kernel_is_one_however_it_is_said(said: str) -> None:
    before = TEXT.replace("@triton.jit", said)
    assert kept(edited(MINE, YOURS, text=before), before) == edited(MINE, text=before)


def test_of_the_other_campaign_it_is_the_other_way_round() -> None:
    both = edited(MINE, YOURS, YOUR_HOST)
    assert kept(both, launched=frozenset({"_yours_kernel"})) == edited(YOURS, YOUR_HOST)


def test_an_idea_about_the_other_op_alone_leaves_nothing() -> None:
    assert kept(edited(YOURS)) == TEXT


def test_what_the_op_reaches_without_launching_it_is_its_own() -> None:
    """A second kernel for longer rows, and the backward pass that launches none."""
    long = (
        "def mine(x):\n",
        "@triton.jit\ndef _long_kernel(x_ptr):\n    three = x_ptr\n\n\ndef mine(x):\n    _long_kernel[(1,)](x)\n",
    )
    before = edited(long)
    after = edited(("three = x_ptr", "three = x_ptr + 0"), MY_HOST, text=before)
    assert kept(after, before) == after


def test_a_shared_function_brings_along_whoever_has_to_call_it_otherwise() -> None:
    wider = (("def _shared(x):", "def _shared(x, n):"), ("_shared(x_ptr)", "_shared(x_ptr, 1)"))
    after = edited(*wider)
    assert "two = _shared(x_ptr, 1)" in kept(after) and kept(after) == after


def test_a_shared_constant_does_too() -> None:
    after = edited(("MOST = 4", "MOST = (4,)"), ("(MOST,)", "MOST"))
    assert kept(after) == after


def test_a_new_function_stays_with_whoever_asked_for_it() -> None:
    new = ("def yours(x):\n", "@triton.jit\ndef _new(x):\n    return x\n\n\ndef yours(x):\n")
    assert kept(edited(new, ("two = _shared", "two = _new"))) == TEXT
    mine = edited(new, ("one = _shared", "one = _new"), YOURS)
    assert kept(mine) == edited(new, ("one = _shared", "one = _new"))


def test_a_new_function_of_a_new_function_goes_with_both() -> None:
    inner = "@triton.jit\ndef _inner(x):\n    return x\n\n\n@triton.jit\ndef _new(x):\n    return _inner(x)\n\n\n"
    assert kept(edited(("def yours(x):\n", f"{inner}def yours(x):\n"), ("two = _shared", "two = _new"))) == TEXT


def test_a_new_name_that_nobody_uses_is_nobody_else_s() -> None:
    assert kept(edited(YOURS) + "\n\nMEANT = True\n") == TEXT + "\n\nMEANT = True\n"


def test_what_is_put_back_may_not_miss_what_was_taken_away() -> None:
    """`_shared` went with the other op's own call of it: put back, that would call what is not there."""
    alone = edited(("one = _shared(x_ptr)", "one = x_ptr"))
    after = edited(
        ("@triton.jit\ndef _shared(x):\n    return x\n\n\n", ""),
        YOURS,
        ("two = _shared(x_ptr) + 0", "two = 2"),
        text=alone,
    )
    assert kept(after, alone) == after


def test_across_files_a_name_is_the_same_thing() -> None:
    host = "from ops.mine import _mine_kernel\n\n\ndef other_way(x):\n    _mine_kernel[(2,)](x)\n"
    before = (*files(TEXT), *files(host, OTHER))
    after = (*files(edited(YOURS)), *files(host.replace("(2,)", "(3,)"), OTHER))
    found = put_back(before, after, LAUNCHED)
    assert [one.text for one in found.files] == [TEXT, host.replace("(2,)", "(3,)")]


def test_lines_that_are_no_definition_stay_whatever_they_say() -> None:
    after = edited(("MOST = 4\n", "MOST = 4\nif MOST:\n    pass\n"), YOURS)
    assert kept(after) == edited(("MOST = 4\n", "MOST = 4\nif MOST:\n    pass\n"))


@pytest.mark.parametrize(
    ("before", "after", "launched"),
    [
        (TEXT, edited(YOURS), frozenset()),
        (TEXT, edited(YOURS), frozenset({"_kernel_of_another_module"})),
        (TEXT + "\n\ndef yours(x):\n    pass\n", edited(YOURS) + "\n\ndef yours(x):\n    pass\n", LAUNCHED),
        (TEXT, edited(YOURS) + "def (", LAUNCHED),
    ],
    ids=["nothing is launched", "what is launched is not in these files", "a name is given twice", "no Python"],
)
def test_where_it_cannot_be_told_what_is_whose_all_stays(before: str, after: str, launched: frozenset[str]) -> None:
    assert kept(after, before, launched) == after


@pytest.mark.parametrize("strange", ["\f", "\v", "\u2028", "\x85", "\x1c"])
def test_what_only_some_take_for_the_end_of_a_line_moves_nothing(strange: str) -> None:
    before = TEXT.replace("# What the first op runs.", f"# What the first{strange}op runs.")
    assert kept(edited(MINE, YOURS, text=before), before) == edited(MINE, text=before)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_lines_may_end_as_elsewhere(end: str) -> None:
    before, after, mine = (text.replace("\n", end) for text in (TEXT, edited(MINE, YOURS), edited(MINE)))
    assert kept(after, before) == mine


def test_what_follows_the_last_definition_stays() -> None:
    tail = "\n# The end.\n"
    assert kept(edited(MINE, YOURS) + tail, TEXT + tail) == edited(MINE) + tail
