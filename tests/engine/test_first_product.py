"""The first product of a sum over chunks is written, and the sum is what it was: of memory that nobody filled."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bot.engine.rewriting import of_file
from bot.engine.transforms import first_product
from bot.proposers import engine
from tests.engine.library import changes

MADE = "        grad_weight = torch.zeros_like(weight, device=x.device) if wanted else None\n"
WIDE = "        grad_weight = torch.zeros_like(weight, dtype=torch.float64) if wanted else None\n"
TURN = "    for chunk in range(chunks):\n"
PRODUCT = """                torch.addmm(
                    grad_weight,
                    part.t(),
                    rows,
                    out=grad_weight,
                )
"""
OTHERS = "                grad_weight += torch.mm(part.t(), rows).to(grad_weight.dtype)\n"
SUM = f'''"""A loss behind a linear layer."""

import torch


def forward(x, weight, size, wanted=True, wide=False):
    rows_in_all = x.shape[0]
    chunks = -(-rows_in_all // size)
    if not wide:
{MADE}    else:
{WIDE}    total = 0.0

    # chunk by chunk
{TURN}        rows = x[chunk * size : (chunk + 1) * size]
        part = rows @ weight.t()
        total = total + part.sum()
        if grad_weight is not None:
            if grad_weight.dtype == part.dtype:
{PRODUCT}            else:
                # another type
{OTHERS}        del part
    return total, grad_weight
'''


def rewritten(text: str) -> str | None:
    found = first_product.rewrite(text)
    return found.text if found is not None else None


def written(text: str) -> str:
    after = rewritten(text)
    assert after is not None
    return after


def test_the_sum_begins_with_a_product_and_nothing_else_changes() -> None:
    gone, new = changes(SUM, written(SUM))
    assert gone == [MADE.rstrip(), WIDE.rstrip()]
    assert new == [
        f"        # {first_product.WHY}",
        MADE.rstrip().replace("zeros", "empty"),
        WIDE.rstrip().replace("zeros", "empty"),
        f"    # {first_product.NONE}",
        "    if chunks < 1 and grad_weight is not None:",
        "        grad_weight.zero_()",
        "                    beta=0 if chunk == 0 else 1,",
        "                if chunk == 0:",
        "                    grad_weight.zero_()",
    ]
    after = written(SUM)
    assert f"    total = 0.0\n\n    # {first_product.NONE}\n" in after
    assert "        grad_weight.zero_()\n    # chunk by chunk\n    for chunk" in after
    assert "                # another type\n                if chunk == 0:\n" in after
    assert rewritten(after) is None


def test_it_says_of_what() -> None:
    found = first_product.rewrite(SUM)
    assert found is not None and found.kernels == ()
    assert found.why.startswith("grad_weight is filled with zeros, which the product of the first chunk reads")


def of(text: str, dirty: bool = False) -> Any:
    """Its forward, where what nobody filled is no number."""

    class Dirty:
        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

        def empty_like(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            return torch.full_like(*args, float("nan"), **kwargs)

    found: dict[str, Any] = {}
    exec(text.replace("import torch\n", ""), found | {"torch": Dirty() if dirty else torch}, found)
    return found["forward"]


@pytest.mark.parametrize(
    "text",
    [
        SUM,
        SUM.replace(
            OTHERS,
            OTHERS.replace("+= ", "= ").replace("grad_weight = torch.mm", "grad_weight.add_(torch.mm").rstrip() + ")\n",
        ),
        SUM.replace("torch.addmm(\n                    grad_weight,\n", "grad_weight.addmm_(\n").replace(
            "                    out=grad_weight,\n", ""
        ),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 12])
def test_the_sum_is_what_it_was(text: str, rows: int, wide: bool) -> None:
    before, after = of(text), of(written(text), dirty=True)
    x, weight = torch.randn(rows, 6), torch.randn(5, 6)
    assert before(x, weight, 4, False, wide)[1] is after(x, weight, 4, False, wide)[1] is None
    was, now = (forward(x, weight, 4, True, wide)[1] for forward in (before, after))
    assert torch.equal(was, now) and was.dtype == now.dtype


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        (
            "something else is made of it first",
            "    total = 0.0\n",
            "    total = 0.0 if grad_weight is None else grad_weight.sum()\n",
        ),
        ("another name for it", "    total = 0.0\n", "    total = 0.0\n    kept = grad_weight\n"),
        ("it is made of ones", "torch.zeros_like(weight, device", "torch.ones_like(weight, device"),
        ("it is another tensor now and then", "if wanted else None\n    else", "if wanted else x\n    else"),
        (
            "a turn may be left",
            "        total = total + part",
            "        if chunk > 3:\n            break\n        total = total + part",
        ),
        (
            "a turn may go on",
            "        total = total + part",
            "        if chunk > 3:\n            continue\n        total = total + part",
        ),
        (
            "a turn may fail and be caught",
            "        total = total + part.sum()\n",
            "        try:\n            total = total + part.sum()\n        except RuntimeError:\n            pass\n",
        ),
        ("one way adds nothing", OTHERS, "                pass\n"),
        ("one way adds twice", OTHERS, OTHERS * 2),
        ("there is no other way", f"            else:\n                # another type\n{OTHERS}", ""),
        ("it is left out now and then", "if grad_weight is not None:", "if grad_weight is not None and chunk != 1:"),
        ("it is looked at in a turn", "total = total + part.sum()", "total = total + part.sum() + grad_weight.sum()"),
        ("it is looked at by a condition", "if grad_weight.dtype == part.dtype:", "if grad_weight.sum() == 0:"),
        ("what is added is made of it", "torch.mm(part.t(), rows).to", "torch.mm(grad_weight, rows).to"),
        (
            "a factor is made of it",
            "                    part.t(),\n",
            "                    part.t() + grad_weight.sum(),\n",
        ),
        ("the product goes elsewhere", "out=grad_weight,", "out=part,"),
        ("it has a beta already", "out=grad_weight,", "beta=2,\n                    out=grad_weight,"),
        ("what is told is in a dictionary", "out=grad_weight,", "**told,"),
        (
            "something else is added to",
            "torch.addmm(\n                    grad_weight,",
            "torch.addmm(\n                    weight,",
        ),
        ("no product at all", PRODUCT, "                grad_weight.add_(part.t() @ rows)\n"),
        ("turns begin elsewhere", TURN, "    for chunk in range(1, chunks):\n"),
        ("turns are of a list", TURN, "    for chunk in order:\n"),
        ("the chunk is counted on", "        rows = x", "        chunk += 1\n        rows = x"),
        ("how many there are changes", "    total = 0.0\n", "    total = 0.0\n    chunks = chunks + 1\n"),
        ("no Python", "def forward(", "def forward(:"),
    ],
)
def test_it_is_filled_as_before_where_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in SUM
    assert rewritten(SUM.replace(before, after)) is None, why


WANTED = SUM.replace("    if not wide:\n", "    needed = x.requires_grad\n    if needed:\n").replace(
    "    else:\n        grad_weight = torch.zeros_like(weight, dtype=torch.float64) if wanted else None\n",
    "    else:\n        grad_weight = None\n",
)
ASKED = WANTED.replace("if grad_weight is not None:", "if grad_weight is not None and needed:")
TOTAL = "    total = 0.0\n"


def test_what_is_asked_where_it_is_made_may_be_asked_in_a_turn() -> None:
    assert "beta=0 if chunk == 0 else 1" in written(WANTED) and "beta=0 if chunk == 0 else 1" in written(ASKED)
    assert rewritten(ASKED.replace("and needed:", "and weight.requires_grad:")) is None


ANOTHER = "    needed = size > 2\n"
CLEARED = "    needed.clear()\n"
PATTERN = "    match [[]]:\n        case [needed]:\n            pass\n"
STARS = ASKED.replace("needed = x.requires_grad", "args = args[1:]").replace("needed", "args")


def asking(what: str) -> str:
    """The same condition around the zeros and in a turn."""
    return ASKED.replace("if needed:", f"if {what}:").replace("and needed:", f"and {what}:")


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("it is given another value", ASKED.replace(TOTAL, TOTAL + ANOTHER)),
        ("a part of it may change", ASKED.replace(TOTAL, TOTAL + CLEARED)),
        ("it is asked of a tensor", asking("x.requires_grad")),
        ("it is asked of somebody", asking("any(x)")),
        ("it is everybody's", ASKED.replace("    needed = x.requires_grad\n", "")),
        ("a parameter with stars is cut", STARS.replace("wide=False", "wide=False, *args")),
        ("a pattern names it", ASKED.replace(TOTAL, TOTAL + PATTERN)),
    ],
)
def test_a_condition_that_may_mean_something_else_in_a_turn_is_none(why: str, text: str) -> None:
    assert text != ASKED
    assert rewritten(text) is None, why


NAMED = "    if not wide:\n" + MADE + "    else:\n" + WIDE


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("whoever handed it over wants it added to", "wanted=True", "grad_weight=None, wanted=True"),
        ("it has no value on some way", NAMED, "    if not wide:\n" + MADE),
        ("turns are of a span", TURN, TURN.replace("chunks)", "*chunks)")),
        ("it is a leaf that may not be filled", "device=x.device)", "device=x.device, requires_grad=True)"),
        ("the chunk is somebody else's too", TURN, "    global chunk\n" + TURN),
        ("the chunk is forgotten", "        rows = x", "        del chunk\n        rows = x"),
        ("it is nested too deep", "total = 0.0", "total = " + " + ".join(["0.0"] * 1500)),
    ],
)
def test_what_an_attack_found_is_filled_as_before(why: str, before: str, after: str) -> None:
    assert before in SUM
    assert rewritten(SUM.replace(before, after)) is None, why


def test_a_condition_that_names_something_is_no_expression() -> None:
    named = SUM.replace("    if not wide:\n", "    if other := not wide:\n")
    assert "beta=0 if chunk == 0 else 1" in written(named)
    in_turn = named.replace("        if grad_weight is not None:\n", "        if other := not wide:\n")
    assert rewritten(in_turn) is None


def test_a_word_that_is_the_functions_own_is_left_to_all_rewrites_alike() -> None:
    assert of_file("first_product", SUM) is not None
    assert of_file("first_product", SUM.replace("wide=False):", "wide=False, range=range):")) is None


def test_a_count_below_zero_has_no_turn_either() -> None:
    text = SUM.replace("-(-rows_in_all // size)", "(rows_in_all - 1) // size")
    x, weight = torch.randn(0, 6), torch.randn(5, 6)
    assert torch.equal(of(text)(x, weight, 4)[1], of(written(text), dirty=True)(x, weight, 4)[1])


def test_two_such_sums_are_one_too_many() -> None:
    assert rewritten(SUM + "\n\n" + SUM[SUM.index("def forward") :].replace("forward", "again")) is None


def test_it_comes_when_the_chunks_are_settled() -> None:
    """Other ideas about the loop do not know it afterwards."""
    assert "first_product" in engine.LAST
