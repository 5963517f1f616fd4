"""A row that is read again is read from its end, by walks whose turns know nothing of each other."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import indent

import libcst as cst
import pytest

from bot.engine import ranges, source
from bot.engine.steps import by_block
from bot.engine.transforms import cache_hints, pipeline_steps, stores_first, walk_back
from tests.engine.library import changes, interpret, sample
from tests.engine.test_cache_hints import BETWEEN, FIRST_READ, LOSS, ONCE, SECOND_READ, SECOND_STORE, put

WALK = "        for i in range(0, n_cols, BLOCK):"
TURNS = "        for turn in range(0, n_cols, BLOCK):"
PLACE = "            i = (tl.cdiv(n_cols, BLOCK) - 1) * BLOCK - turn"
HEAD, SECOND = LOSS.split(BETWEEN)
ONE_ROW, WALKS = LOSS[: LOSS.index("    total = 0.0")], LOSS[LOSS.index("    total = 0.0") :]
CHANNELS = ONE_ROW + "    for channel in range(4):\n" + indent(WALKS, "    ")
SUM = "        total += tl.sum(x * w)"


def back(text: str) -> str | None:
    ast.parse(text)
    found = walk_back.rewrite(text)
    return found.text if found is not None else None


def again(old: str, new: str) -> str:
    """The loss with something else in its second walk."""
    return HEAD + BETWEEN + put(SECOND, old, new)


def behind(more: str) -> str:
    return f"{LOSS}{more}\n"


def test_the_second_walk_begins_at_the_end_and_nothing_else_changes() -> None:
    after = back(LOSS)
    assert after is not None
    ast.parse(after)
    assert changes(LOSS, after) == ([WALK], [f"        # {walk_back.WHY}", TURNS, PLACE])


def test_a_walk_that_counts_its_blocks_does_too() -> None:
    counted = LOSS.replace("range(0, n_cols, BLOCK)", "range(tl.cdiv(n_cols, BLOCK))").replace(
        "i + tl", "i * BLOCK + tl"
    )
    after = back(counted)
    assert after is not None
    _, new = changes(counted, after)
    assert new[1:] == [
        "        for turn in range(tl.cdiv(n_cols, BLOCK)):",
        "            i = tl.cdiv(n_cols, BLOCK) - 1 - turn",
    ]


def test_what_a_loop_says_beside_its_range_stays() -> None:
    ahead = pipeline_steps.rewrite(LOSS)
    assert ahead is not None
    after = back(ahead.text)
    assert after is not None
    gone, new = changes(ahead.text, after)
    assert "num_stages=" in gone[0] and new[1] == gone[0].replace("for i", "for turn")


def test_done_once_it_is_not_done_again() -> None:
    after = back(LOSS)
    assert after is not None and back(after) is None


def test_what_comes_later_sees_the_walk_that_it_was() -> None:
    after = back(LOSS)
    assert after is not None
    assert by_block(LOSS, "_loss", "BLOCK") and by_block(after, "_loss", "BLOCK")
    for hints in (stores_first, cache_hints):
        before, since = hints.rewrite(LOSS), hints.rewrite(after)
        assert before is not None and since is not None
        assert changes(after, since.text)[1] == changes(LOSS, before.text)[1]


def test_a_place_that_only_looks_like_it_is_no_walk_from_the_end() -> None:
    after = back(LOSS)
    assert after is not None
    further = put(after, "- 1) * BLOCK - turn", "- 2) * BLOCK - turn")
    assert not by_block(further, "_loss", "BLOCK") and stores_first.rewrite(further) is None


def test_a_turn_that_is_asked_for_besides_is_none_either() -> None:
    after = back(LOSS)
    assert after is not None
    assert stores_first.rewrite(put(after, "again * total", "again * total * turn")) is None


INDEPENDENT = {
    "a name of the first walk that each turn begins anew": again(
        SECOND_STORE, f"            x = again\n{SECOND_STORE}"
    ),
    "a name that only some turns know": again(
        SECOND_STORE, f"            if total > 0:\n                extra = again + 1\n{SECOND_STORE}"
    ),
}
DEPENDENT = {
    "no walk reads it again": ONCE,
    "the second walk is not over the same row": again(
        "x_ptr + cols, mask=cols < n_cols, other", "y_ptr + cols, mask=cols < n_cols, other"
    ),
    "it goes on by another step": LOSS.replace("n_cols, BLOCK):", "n_cols, 2 * BLOCK):"),
    "it begins elsewhere": LOSS.replace("range(0,", "range(BLOCK,"),
    "its turns share columns": LOSS.replace("tl.arange(0, BLOCK)", "tl.arange(0, 2 * BLOCK)"),
    "its end is loaded": LOSS.replace("range(0, n_cols, BLOCK)", "range(0, tl.load(y_ptr), BLOCK)"),
    "its step is no constant": LOSS.replace("n_cols, ignored, BLOCK: tl.constexpr,", "n_cols, ignored, BLOCK,"),
    "it is written out": again(WALK, "        for i in tl.static_range(0, n_cols, BLOCK):"),
    "a sum grows": again(SECOND_STORE, f"            total += tl.sum(again)\n{SECOND_STORE}"),
    "a sum of its own grows": behind("")
    .replace(BETWEEN, f"    more = 0.0\n{BETWEEN}")
    .replace(SECOND_STORE, f"            more += tl.sum(again)\n{SECOND_STORE}"),
    "a value is left behind": behind("    tl.store(y_ptr + row, i)"),
    "a block is left behind": behind("    tl.store(y_ptr + row, tl.sum(again))"),
    "what the last turn knew is read": put(
        again(SECOND_READ, f"            before = x\n{SECOND_READ}"),
        SECOND_STORE,
        f"{SECOND_STORE}\n            x = again",
    ).replace("    total = 0.0", "    total = 0.0\n    x = 0.0"),
    "a branch decides who gives a value": again(
        SECOND_STORE, f"            if total > 0:\n                picked = 1.0\n{SECOND_STORE}"
    ),
    "a parameter changes": again(SECOND_STORE, f"{SECOND_STORE}\n            ignored += 1"),
    "the end moves": again(SECOND_STORE, f"{SECOND_STORE}\n            n_cols = n_cols - 0"),
    "it stores to one place": again(SECOND_STORE, f"{SECOND_STORE}\n            tl.store(y_ptr + row, i)"),
    "it adds to one place": again(SECOND_STORE, f"{SECOND_STORE}\n            tl.atomic_add(y_ptr + row, 1)"),
    "it waits": again(SECOND_STORE, f"{SECOND_STORE}\n            tl.debug_barrier()"),
    "it speaks": again(SECOND_STORE, f'{SECOND_STORE}\n            tl.device_print("turn", i)'),
    "it hands a pointer on": again(SECOND_STORE, f"{SECOND_STORE}\n            more = _add(y_ptr + row, again)"),
    "it reads what the row before has stored": again(
        SECOND_READ, f"{SECOND_READ}\n            left = tl.load(x_ptr + cols - 1)"
    ),
    "every turn of another loop walks over the row": CHANNELS,
    "every turn of another loop walks over a part of it": CHANNELS.replace(
        "x_ptr + cols", "x_ptr + channel * n_cols + cols"
    ),
    "there is a name like the new one": put(LOSS, "    total = 0.0", "    turn, total = 1, 0.0"),
    "the language has another name": LOSS.replace(
        "import triton.language as tl", "import triton.language as lang"
    ).replace("tl.", "lang."),
}


def more(line: str, *lines: str) -> str:
    """The loss with more lines at the end of its second walk."""
    return again(SECOND_STORE, "\n".join((SECOND_STORE, *(f"            {one}" for one in (line, *lines)))))


def first(line: str, text: str = LOSS) -> str:
    """The loss with a line above its walks."""
    return put(text, "    total = 0.0", f"    total = 0.0\n    {line}")


TO = "tl.store(x_ptr + cols, again * total - picked"
HELPER = "@triton.jit\ndef _note(p, v):\n    tl.store(p, v)\n    return v\n\n\n@triton.jit\ndef _loss"
ELSEWHERE = {
    "a loop within knows it, and one behind reads it": first(
        "best = 0.0", more("best = 1.0", "for j in range(2):", "    best = again * j")
    )
    + "    tl.store(y_ptr + row, best)\n",
    "its end moves": LOSS.replace("range(0, n_cols", "range(0, end").replace(
        "    total = 0.0", "    total = 0.0\n    end = n_cols"
    ),
    "its end is its own place": first("i = n_cols", again("range(0, n_cols", "range(0, i")),
    "the head of a later loop reads it": first("last = 0", more("last = i"))
    + "    for j in range(0, last, BLOCK):\n        last = j\n",
    "a loop that is written out gave it a value": put(
        more("carry += 1"), "    total = 0.0", "    total = 0.0\n    for k in tl.static_range(1):\n        carry = 0.0"
    ),
    "a list is made of it": first("prev = 0.0", more("both = [prev for prev in (again,)]")),
    "a list changes": first("state = [0.0]", more("s = state", "s[0] = total")),
    "it reads a part that another turn stores, by minus": again(
        SECOND_READ, f"{SECOND_READ}\n            left = tl.load(x_ptr + (cols - BLOCK), mask=cols >= BLOCK)"
    ),
    "it reads one number of what is stored": again(
        SECOND_READ, f"{SECOND_READ}\n            left = tl.load(x_ptr + (i - 1), mask=i > 0)"
    ),
    "it stores to the next part as well": more("tl.store(x_ptr + cols + BLOCK, again, mask=cols < n_cols)"),
    "it takes its step back": again(TO, TO.replace("cols,", "cols + (0 - i),")),
    "it stores to the next part of another": more(
        "tl.store(w_ptr + cols, total)", "tl.store(w_ptr + 64 + cols, total)"
    ),
    "it takes the step back of another": more("tl.store(w_ptr + cols + (0 - i), total)"),
    "it stores at what a call says": more("tl.store(w_ptr + cols + tl.load(y_ptr), total)"),
    "it stores to the same few": more("tl.store(y_ptr + row + i * 0 + tl.arange(0, 16), total)"),
    "its columns come round again": again(TO, TO.replace("cols,", "cols.to(tl.uint8),")),
    "the block shrinks": first("BLOCK = BLOCK // 2"),
    "a helper stores": more("seen = _note(w_ptr + row, total)").replace("@triton.jit\ndef _loss", HELPER),
    "somebody else's function has a name of the language's": more("seen = lib.load(w_ptr + row)"),
    "somebody else's function is called": more("seen = put(w_ptr + row, total)"),
    "a branch in one line": more("if total > 3: tl.store(y_ptr + row, i)"),
    "its place had another type": put(
        LOSS, "    total = 0.0", "    total = 0.0\n    for i in tl.static_range(2):\n        total += i"
    ),
    "its place was a number": first("i = total * 2"),
    "its place goes on elsewhere": LOSS + "    for i in range(0, ignored, BLOCK):\n        picked += 1\n",
    "the language is a parameter": LOSS.replace("_loss(", "_loss(tl, "),
    "its end is no parameter": LOSS.replace("range(0, n_cols", "range(0, N_COLS"),
    "a loop of one line": HEAD
    + BETWEEN
    + "\n        for i in range(0, n_cols, BLOCK): "
    + TO.replace("again", "tl.load(x_ptr + cols)")
    + ")\n",
    "a sum of hundreds of terms": more("y = " + "again + " * 900 + "again"),
    "a product of hundreds of factors": more("y = " + "again * " * 900 + "again"),
}


SEEN = "seen = clamp(y_ptr + row, total)"
CLAMP = "@triton.jit\ndef clamp(p, v):\n    tl.store(p, v)\n    return v"
LOSS_HEAD = "@triton.jit\ndef _loss("
WIDER = """    if total > 0:
        for j in range(0, ignored, BLOCK):
            cols = j + tl.arange(0, BLOCK)
            total += tl.sum(tl.load(w_ptr + row + cols, mask=cols < ignored, other=0.0))
        for j in range(0, ignored, BLOCK):
            cols = j + tl.arange(0, BLOCK)
            tl.store(y_ptr + row + cols, tl.load(w_ptr + row + cols, mask=cols < ignored, other=0.0))
"""


def beside(before: str, line: str = SEEN) -> str:
    """The loss with something above its kernel, and a line in its second walk."""
    return put(more(line), LOSS_HEAD, f"{before}\n\n\n{LOSS_HEAD}")


MEANINGS = {
    "two walks are as long as two numbers say": LOSS + WIDER,
    "its end has few bits": put(LOSS, "n_cols, ignored", "n_cols: tl.int16, ignored"),
    "a number stands before the pointer": more("tl.store(ignored + y_ptr + row * 2 + cols, again)"),
    "what it adds to its columns is wide": put(
        more("tl.store(y_ptr + apart + cols, again)"),
        "    total = 0.0",
        "    total = 0.0\n    apart = tl.arange(0, BLOCK) * 1",
    ),
    "range is another": put(LOSS, LOSS_HEAD, f"from triton.language import static_range as range\n\n\n{LOSS_HEAD}"),
    "range is a parameter": LOSS.replace("_loss(", "_loss(range, "),
    "a name of the language's is somebody's": beside("clamp = _note"),
    "a name of the language's is an atomic's": beside("from triton.language import atomic_add as clamp"),
    "a name of the language's is nobody's": more(SEEN),
    "a name of the language's is a helper's that stores": beside("if True:\n" + indent(CLAMP, "    ")),
    "a name of the language's is a parameter": put(
        more(SEEN), LOSS_HEAD, f"from triton.language.math import clamp\n\n\n{LOSS_HEAD}clamp, "
    ),
    "a helper is another in the end": put(
        more("seen = _pure(y_ptr + row, total)"),
        LOSS_HEAD,
        f"@triton.jit\ndef _pure(p, v):\n    return v\n\n\n_pure = _note\n\n\n{LOSS_HEAD}",
    ),
    "a helper calls what it is given": put(
        more("seen = _call(_note, y_ptr + row, total)"),
        LOSS_HEAD,
        f"@triton.jit\ndef _call(exp, p, v):\n    return exp(p, v)\n\n\n{LOSS_HEAD}",
    ),
    "a cast is somebody else's": beside("import lib", "seen = lib.cast(y_ptr + row, total)"),
    "the language is another module": LOSS.replace("import triton.language as tl", "import mylang as tl"),
    "names stand for thousands of terms": put(
        LOSS,
        "    total = 0.0",
        "    total = 0.0\n"
        + "".join(f"    a{n} = a{n - 1} + a{n - 1} + a{n - 1} + a{n - 1}\n" for n in range(1, 30))
        + "    y_ptr += a29",
    ),
}


@pytest.mark.parametrize("text", MEANINGS.values(), ids=MEANINGS)
def test_where_a_word_may_mean_something_else_it_stays(text: str) -> None:
    assert text != LOSS and back(text) is None


KNOWN = {
    "a library's": put(
        more("part = tanh(again)"), LOSS_HEAD, f"from triton.language.extra.libdevice import tanh\n\n\n{LOSS_HEAD}"
    ),
    "the language's": more("part = tl.math.exp2(again)"),
    "a value's own": more("part = again.to(tl.float32).cast(tl.bfloat16)"),
    "a helper's": put(
        more("part = _half(again)"),
        LOSS_HEAD,
        f"@triton.jit\ndef _half(v):\n    return tl.exp(v.to(tl.float32)) * 0.5\n\n\n{LOSS_HEAD}",
    ),
}


@pytest.mark.parametrize("text", KNOWN.values(), ids=KNOWN)
def test_calls_that_reckon_are_taken(text: str) -> None:
    assert back(text) is not None


@pytest.mark.parametrize("text", ELSEWHERE.values(), ids=ELSEWHERE)
def test_whatever_it_is_not_sure_of_stays(text: str) -> None:
    assert text != LOSS and back(text) is None


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("range(0, n, B)", "n = (tl.cdiv(n, B) - 1) * B - turn"),
        ("range(0, n, B + C)", "i = (tl.cdiv(n, B + C) - 1) * B + C - turn"),
        ("range(0, n, -B)", "i = (tl.cdiv(n, -B) - 1) * -B - turn"),
        ("range(0, tl.cdiv(n, B), step=2)", "i = tl.cdiv(n, B) - 1 - turn"),
        ("tl.range(tl.cdiv(n, B), arg2=m)", "i = tl.cdiv(n, B) - 1 - turn"),
        ("range(*a, 0, n, B)", "i = (tl.cdiv(n, B) - 1) * B - turn"),
        ("range(0, tl.load(c), B)", "i = (tl.cdiv(tl.load(c), B) - 1) * B - turn"),
        ("range(0, n, B)", "i = (tl.cdiv(n, B) - 1) * B - turn\n    n = n - B"),
        ("range(0, n, B)", "i = (tl.cdiv(n, B) - 1) * B - turn\n    i += B"),
        ("range(0, n, B)", "i = (tl.cdiv(n, B) - 1) * B - turn\n    later = turn"),
        ("tl.static_range(0, n, B)", "i = (tl.cdiv(n, B) - 1) * B - turn"),
        ("range(B, n, B)", "i = (tl.cdiv(n, B) - 1) * B - turn"),
        ("range(tl.cdiv(div=B, x=n))", "i = tl.cdiv(B, n) - 1 - turn"),
        ("range(tl.cdiv(*n, *B))", "i = tl.cdiv(n, B) - 1 - turn"),
    ],
)
def test_what_only_looks_like_a_walk_from_the_end_is_none(head: str, line: str) -> None:
    loop = source.parse(f"for turn in {head}:\n    {line}\n    x = i\n").body[0]
    assert ranges.from_the_end(cst.ensure_type(loop, cst.For)) == ""


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("range(0, n, B)", "i = (tl.cdiv(n, B) - 1) * B - turn"),
        ("tl.range(0, n, B, num_stages=S)", "i = (tl.cdiv(n, B) - 1) * B - turn"),
        ("range(tl.cdiv(n, B))", "i = tl.cdiv(n, B) - 1 - turn"),
        ("tl.range(0, tl.cdiv(n, B))", "i = tl.cdiv(n, B) - 1 - turn"),
    ],
)
def test_a_walk_from_the_end_is_known_by_its_first_line(head: str, line: str) -> None:
    loop = cst.ensure_type(source.parse(f"for turn in {head}:\n    {line}\n    x = i\n").body[0], cst.For)
    assert ranges.from_the_end(loop) == "i"
    assert source.code(ranges.straight_loop(loop)) == f"for i in {head}:\n    x = i\n"


@pytest.mark.parametrize("name", ["x_stride", "picked"])
def test_a_name_that_is_made_of_itself_ends(name: str) -> None:
    text = LOSS.replace("x_ptr + cols", f"x_ptr + {name} + cols")
    assert back(first(f"{name} += {name}", text)) == back(first(f"{name} = {name} * 1", text)) is None
    assert by_block(first(f"{name} += {name}", text), "_loss", "BLOCK")


@pytest.mark.parametrize("text", INDEPENDENT.values(), ids=INDEPENDENT)
def test_a_turn_may_have_names_of_its_own(text: str) -> None:
    assert back(text) is not None


@pytest.mark.parametrize("text", DEPENDENT.values(), ids=DEPENDENT)
def test_where_the_order_may_matter_it_stays(text: str) -> None:
    assert text != LOSS
    assert back(text) is None


@pytest.mark.parametrize("text", [LOSS, ONCE, sample("softmax"), sample("jsd")])
def test_whether_it_applies_is_whether_it_has_something_to_say(text: str) -> None:
    assert walk_back.applies(text) is (back(text) is not None)


def test_the_first_walk_may_stand_anywhere_before() -> None:
    assert back(put(LOSS, FIRST_READ, f"{FIRST_READ}\n        picked += tl.sum(x)")) is not None
    assert back(put(LOSS, SUM, f"{SUM}\n        ignored += 1")) is not None


PLAYED = """
import pathlib, sys, torch
sys.path.insert(0, sys.argv[1])
import before, after

for n_cols in (63, 64, 65, 128, 193):
    torch.manual_seed(n_cols)
    x, w = torch.randn(3, n_cols, dtype=torch.bfloat16), torch.randn(n_cols)
    y = torch.tensor([0, 7, 2])
    left, right = x.clone(), x.clone()
    for kernel, row in ((before._loss, left), (after._loss, right)):
        kernel[(3,)](row, n_cols, y, w, n_cols, 7, BLOCK=64, WITH_GRADIENT=True)
    assert torch.equal(left, right) and not torch.equal(left, x), n_cols
"""


@pytest.mark.slow
def test_the_result_is_the_one_of_before_to_the_bit(tmp_path: Path) -> None:
    after = back(LOSS)
    assert after is not None
    interpret(tmp_path, PLAYED, before=LOSS, after=after)
