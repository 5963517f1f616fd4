"""Host loops over chunks of the rows: fewer of them, and what one leaves is freed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import pytest

from bot.engine import source
from bot.engine.transforms import chunks, free_early, wider_chunks
from tests.engine.library import changes

LOSS = '''"""A loss behind a linear layer, in the shape of Liger's fused ones."""

import torch
import triton


def forward(rows, weight, grads, temperature, step):
    n_rows, width = rows.shape
    classes = weight.shape[0]
    chunk_rows = triton.next_power_of_2(triton.cdiv(n_rows, triton.cdiv(classes, width)))  # a budget
    chunk_rows = min(chunk_rows, n_rows)
    n_chunks = triton.cdiv(n_rows, chunk_rows)
    total = torch.zeros(())

    for turn in range(n_chunks):
        first = turn * chunk_rows
        last = min((turn + 1) * chunk_rows, n_rows)
        mine = rows[first:last]

        logits = mine @ weight.t()
        logits = logits / temperature
        shares = torch.softmax(logits, dim=-1)
        both = (logits, shares)
        loss, change = step(*both)
        total = total + loss.sum()
        # What follows is of the weight.
        grads[first:last] = change @ weight
    return total
'''


def wider(text: str, way: str = "") -> str | None:
    found = wider_chunks.rewrite(text, way)
    return found.text if found is not None else None


def freed(text: str) -> str | None:
    found = free_early.rewrite(text)
    return found.text if found is not None else None


def test_three_lines_follow_the_one_that_says_how_wide_a_chunk_is() -> None:
    after = wider(LOSS)
    assert after is not None
    ast.parse(after)
    assert changes(LOSS, after) == (
        [],
        [
            "    # Every chunk reads all of weight: a 12th of what it and rows take, on top, makes fewer of them.",
            "    most_rows = max(chunk_rows, (chunk_rows + (n_rows + classes) * width // (12 * classes)) // 8 * 8)",
            "    fewest_chunks = (n_rows + most_rows - 1) // most_rows",
            "    chunk_rows = max(chunk_rows, min(most_rows, "
            "(n_rows + 8 * fewest_chunks - 1) // (8 * fewest_chunks) * 8))",
        ],
    )
    lines = after.splitlines()
    at = lines.index("    chunk_rows = min(chunk_rows, n_rows)")
    assert lines[at - 1].startswith("    chunk_rows = max(") and lines[at - 5].endswith("# a budget")


def test_a_loop_that_was_widened_is_not_widened_again() -> None:
    after = wider(LOSS)
    assert after is not None and wider(after) is None


@pytest.mark.parametrize("way", [way for way in wider_chunks.WAYS if way])
def test_each_way_says_what_it_is(way: str) -> None:
    found = wider_chunks.rewrite(LOSS, way)
    assert found is not None and found.title == "Fewer and wider chunks, " + way.replace("_", " ")
    chosen = wider_chunks.WAYS[way]
    assert f"a {chosen.share}th of" in found.text and f"({chosen.multiple} * fewest_chunks) * " in found.text
    assert ("del logits" in found.text) == way.startswith("freed")


def widths(way: str = "") -> Callable[[int, int, int], tuple[int, int]]:
    """What the host makes of (rows, width, classes): rows of a chunk before and after."""
    after = wider(LOSS, way)
    assert after is not None

    def run(text: str, rows: int, width: int, classes: int) -> int:
        lines = text.splitlines()
        first = next(n for n, line in enumerate(lines) if "a budget" in line)
        last = next(n for n, line in enumerate(lines) if line.startswith("    n_chunks"))
        sizes: dict[str, Any] = {"n_rows": rows, "width": width, "classes": classes, "triton": Triton}
        exec("\n".join(line.strip() for line in lines[first:last]), sizes)
        return int(sizes["chunk_rows"])

    return lambda *sizes: (run(LOSS, *sizes), run(after, *sizes))


class Triton:
    @staticmethod
    def cdiv(a: int, b: int) -> int:
        return -(-a // b)

    @staticmethod
    def next_power_of_2(n: int) -> int:
        return 1 << (n - 1).bit_length()


SIZES = [(2048, 2048, 32000), (4096, 1024, 32000), (1024, 4096, 8192), (8192, 4096, 128256), (1000, 512, 777)]


@pytest.mark.parametrize(("rows", "width", "classes"), [*SIZES, (1, 1, 1), (3, 4, 5), (7, 3, 1000), (129, 64, 4097)])
@pytest.mark.parametrize("way", [way for way in wider_chunks.WAYS if not way.startswith("freed")])
def test_chunks_are_never_narrower_and_take_little_more_memory(way: str, rows: int, width: int, classes: int) -> None:
    """Input and weight, a gradient of each, and a chunk's logits in the same type."""
    before, after = widths(way)(rows, width, classes)
    assert before <= after <= max(before, rows)
    share = wider_chunks.WAYS[way].share
    held = 2 * (rows + classes) * width + before * classes
    assert (after - before) * classes <= held / (2 * share) + 8 * classes
    if after > before:
        assert math.ceil(rows / after) < math.ceil(rows / before)
        assert after % wider_chunks.WAYS[way].multiple == 0 or after == rows


@pytest.mark.parametrize(
    ("rows", "width", "classes", "chunks_before", "chunks_after"),
    [(2048, 2048, 32000, 16, 7), (4096, 1024, 32000, 32, 19), (1024, 4096, 8192, 2, 2), (8192, 4096, 128256, 32, 14)],
)
def test_there_are_fewer_chunks_where_there_were_many(
    rows: int, width: int, classes: int, chunks_before: int, chunks_after: int
) -> None:
    before, after = widths()(rows, width, classes)
    assert (math.ceil(rows / before), math.ceil(rows / after)) == (chunks_before, chunks_after)


@pytest.mark.parametrize(("rows", "width", "classes"), [(40, 128, 32), (24, 96, 32), (32, 128, 32)])
def test_where_one_chunk_is_enough_nothing_changes(rows: int, width: int, classes: int) -> None:
    assert widths()(rows, width, classes) == (rows, rows)


@pytest.mark.parametrize(("rows", "width", "classes"), [(1024, 2048, 32000), (2048, 1024, 8192), (512, 4096, 32000)])
def test_what_was_freed_is_worth_twice_the_rows(rows: int, width: int, classes: int) -> None:
    before, after = widths("freed_by_a_48th")(rows, width, classes)
    assert 2 * before <= after < 3 * before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    total = torch.zeros(())", "    total = torch.zeros(()) + chunk_rows"),
        ("    return total", "    return total, chunk_rows"),
        ("    return total", "    return total, n_chunks"),
        ("logits = mine @ weight.t()", "logits = mine @ weight[:classes].t()"),
        ("    classes = weight.shape[0]", "    classes = weight.shape[0]\n    most_rows = classes"),
        ("    classes = weight.shape[0]", "    classes = weight.shape[0]\n    fewest_chunks = classes"),
        ("    chunk_rows = min(chunk_rows, n_rows)\n", ""),
        ("chunk_rows = min(chunk_rows, n_rows)", "chunk_rows = min(chunk_rows, 512)"),
        ("    n_chunks = triton.cdiv(n_rows, chunk_rows)", "    n_chunks = n_rows // chunk_rows"),
        ("last = min((turn + 1) * chunk_rows, n_rows)", "last = (turn + 1) * chunk_rows"),
        ("first = turn * chunk_rows", "first = turn * 64"),
        ("        mine = rows[first:last]", "        mine = rows[:last]"),
        ("range(n_chunks)", "range(1, n_chunks)"),
        ("    n_rows, width = rows.shape", "    n_rows, width = rows.shape\n    n_rows = n_rows // 2"),
        ("    classes = weight.shape[0]", "    classes = weight.shape[0]\n    classes = 2 * classes"),
        ("    classes = weight.shape[0]", "    classes = grads.shape[0]"),
        ("    total = torch.zeros(())", "    if temperature:\n        chunk_rows = 1\n    total = torch.zeros(())"),
    ],
    ids=[
        "the width is asked for elsewhere",
        "and behind the loop",
        "how many there are is asked for elsewhere",
        "the weight is taken in parts",
        "a name is taken",
        "the other one is taken",
        "no cap",
        "another cap",
        "the rest is left out",
        "no end",
        "starts elsewhere",
        "not its own rows",
        "not all chunks",
        "fewer rows than the tensor has",
        "another number of classes",
        "the classes are not the weight's",
        "another width in a branch",
    ],
)
def test_whatever_else_follows_the_width_keeps_it(old: str, new: str) -> None:
    assert LOSS.count(old) == 1
    assert wider(LOSS.replace(old, new)) is None


def test_a_buffer_of_one_chunk_may_ask_how_wide_it_is() -> None:
    buffer = "    total = torch.zeros(())\n    held = torch.empty((chunk_rows, classes))"
    assert wider(LOSS.replace("    total = torch.zeros(())", buffer)) is not None


def test_a_line_that_would_be_too_long_is_not_written() -> None:
    assert wider(LOSS.replace("chunk_rows", "rows_that_one_of_the_chunks_has_at_most")) is None


def test_a_chunk_is_told_by_its_names() -> None:
    (found,) = chunks.chunked(source.parse(LOSS))
    assert (found.width, found.total, found.columns, found.classes) == ("chunk_rows", "n_rows", "width", "classes")
    assert (found.rows, found.weight) == ("rows", "weight")


def test_what_is_not_read_again_is_freed_behind_its_last_reader() -> None:
    after = freed(LOSS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(LOSS, after)
    assert not gone and new == [
        "        # Freed once it was read for the last time, so that less of chunk_rows x classes exists at once.",
        "        del logits, shares",
        "        del both  # read for the last time",
        "        del loss  # read for the last time",
        "        del change  # read for the last time",
    ]
    lines = [line.strip() for line in after.splitlines()]
    assert lines[lines.index("del logits, shares") - 2] == "both = (logits, shares)"
    assert lines[lines.index("del both  # read for the last time") - 1] == "loss, change = step(*both)"
    assert lines[lines.index("del change  # read for the last time") - 1] == "grads[first:last] = change @ weight"


def test_what_was_freed_is_not_freed_again() -> None:
    after = freed(LOSS)
    assert after is not None and freed(after) is None


def test_a_name_that_gets_another_value_is_freed_before_it_does() -> None:
    again = (
        "        total = total + loss.sum()\n        shares = torch.exp(change)\n        total = total + shares.sum()\n"
    )
    after = freed(LOSS.replace("        total = total + loss.sum()\n", again))
    assert after is not None
    lines = [line.strip() for line in after.splitlines()]
    assert lines.count("del logits, shares") == 1
    assert lines[lines.index("del shares  # read for the last time") - 1] == "total = total + shares.sum()"


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("    return total", "    return total, change", "change"),
        ("    total = torch.zeros(())", "    total = torch.zeros(())\n    change = None", "change"),
        ("        total = total + loss.sum()", "        total = total + loss.sum()\n        del loss", "loss"),
        (
            "        total = total + loss.sum()",
            "        step = lambda: loss\n        total = total + loss.sum()",
            "loss",
        ),
        ("        total = total + loss.sum()", "        total = total + sum(x for x in loss)", "loss"),
        ("        grads[first:last] = change @ weight", "        grads[change] = change @ weight", "change"),
        (
            "        logits = mine @ weight.t()\n",
            "        if turn > 0:\n            logits = mine @ weight.t()\n",
            "logits",
        ),
    ],
    ids=[
        "read behind the loop",
        "known before it",
        "freed by its author",
        "known to a function",
        "read one by one",
        "a place",
        "not computed in each turn",
    ],
)
def test_a_name_that_others_know_is_left_alone(old: str, new: str, kept: str) -> None:
    assert LOSS.count(old) == 1
    text = LOSS.replace(old, new)
    after = freed(text)
    assert after is not None
    _, written = changes(text, after)
    frees = [
        name.strip() for line in written if " del " in line for name in line.split("del ")[1].split("#")[0].split(",")
    ]
    assert frees and kept not in frees


def test_a_part_of_another_tensor_and_a_number_are_not_freed() -> None:
    after = freed(LOSS)
    assert after is not None
    assert "del mine" not in after and "del first" not in after and "del last" not in after


def test_one_name_alone_is_not_worth_a_line() -> None:
    short = LOSS.split("        shares = ")[0] + "        grads[first:last] = logits @ weight\n    return total\n"
    assert freed(short) is None
    assert freed(
        short.replace("logits / temperature", "logits / temperature\n        more = logits * 2\n        more += 1")
    )


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("side = torch.cuda.Stream()", True),
        ("torch.cuda.current_stream()", True),
        ("total.record_stream(side)", True),
        ("torch.cuda.StreamContext(side)", True),
        ("streams = ()", True),
        ("upstream = total", False),
        ("streamed = total", False),
        ("pass  # the other stream", False),
    ],
)
def test_nothing_is_freed_early_in_a_file_that_knows_of_streams(line: str, stays: bool) -> None:
    text = LOSS.replace("    return total", f"    {line}\n    return total")
    assert (freed(text) is None) is stays
