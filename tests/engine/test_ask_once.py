"""What the host wants to know of its targets is asked in one launch, and it decides as before."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import ask_once, pipeline_steps
from tests.engine.library import HEAD, changes, interpret

QUESTIONS = """    target_mask = target != ignore_index
    n_non_ignore = target_mask.sum().item()
    assert (target * target_mask).max() < logits.shape[-1], (
        f"Target {target.max()} is out of bounds. Expected < {logits.shape[-1]}"
    )
    assert (target * target_mask).min() >= 0, f"Target {target.min()} is out of bounds. Expected >= 0"
"""
LOSS = (
    HEAD
    + """def forward(logits, target, weight, ignore_index):
    n_rows, n_cols = logits.shape

    # the targets that count
"""
    + QUESTIONS
    + """    total = n_non_ignore
    if weight is not None:
        assert weight.shape[0] == n_cols
        # their weights
        total = torch.gather(weight, dim=0, index=target.masked_select(target_mask)).sum().item()
    if target.stride(-1) != 1:
        target = target.contiguous()
    loss = torch.empty_like(logits)
    _k[(n_rows,)](logits, loss, n_cols, BLOCK_SIZE=1024)
    return loss, n_non_ignore, total
"""
)
MADE = "    target_mask = target != ignore_index\n"


def asked(text: str) -> str | None:
    found = ask_once.rewrite(text)
    return found.text if found is not None else None


def once(text: str) -> str:
    after = asked(text)
    assert after is not None
    ast.parse(after)
    return after


def test_three_questions_become_one_line_and_two_functions_are_new() -> None:
    after = once(LOSS)
    gone, new = changes(LOSS, after)
    assert gone == QUESTIONS.splitlines()
    assert new[-5:] == [
        f"    # {ask_once.WHY}",
        "    n_non_ignore, largest, smallest = _surveyed(target, ignore_index)",
        "    assert largest < logits.shape[-1],"
        ' f"Target {target.max()} is out of bounds. Expected < {logits.shape[-1]}"',
        '    assert smallest >= 0, f"Target {target.min()} is out of bounds. Expected >= 0"',
        "        target_mask = target != ignore_index",
    ]
    assert "\n".join(new[:-5]).strip() == ask_once.HELPER.strip()
    assert f"    # the targets that count\n    # {ask_once.WHY}\n" in after
    assert (
        "        # their weights\n        target_mask = target != ignore_index\n        total = torch.gather(" in after
    )


def test_it_is_done_once_and_says_of_what() -> None:
    found = ask_once.rewrite(LOSS)
    assert found is not None and asked(found.text) is None
    assert found.why.startswith("The host wants 3 numbers of target,") and found.kernels == ()


def test_others_leave_its_kernel_alone() -> None:
    found = pipeline_steps.rewrite(once(LOSS))
    assert found is None or "_survey_kernel" not in found.kernels


def test_a_question_may_be_written_without_a_space() -> None:
    assert "    assert smallest >= 0, f" in once(
        LOSS.replace("assert (target * target_mask).min", "assert(target * target_mask).min")
    )


def test_a_mask_that_nobody_else_wants_is_gone() -> None:
    after = once(LOSS.replace("target.masked_select(target_mask)", "target"))
    assert "target_mask" not in after


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("its targets are others", "    total = n_non_ignore\n", "    target = target + 1\n"),
        ("what is ignored is another", "    total = n_non_ignore\n", "    ignore_index = 3\n"),
        ("a method writes", "    total = n_non_ignore\n", "    target.clamp_(min=0)\n"),
        ("a part is written", "    total = n_non_ignore\n", "    target[0] = 0\n"),
        ("somebody is handed them", "    total = n_non_ignore\n", "    total = count(target)\n"),
        ("another name for them is added to", "    total = n_non_ignore\n", "    flat = target\n    flat += 1\n"),
        ("what shares their memory is written", "    total = n_non_ignore\n", "    logits[0] = 1\n"),
        ("the test may write", "if weight is not None:", "if target.clamp_(min=0).any():"),
        ("the test binds", "if weight is not None:", "if (ignore_index := 3) is not None:"),
        ("a result that goes elsewhere", "    total = n_non_ignore\n", "    total = torch.sum(logits, out=target)\n"),
        ("another look at them", "    total = n_non_ignore\n", "    flat = target.view(-1)\n"),
        (
            "a launch may write to them",
            "    total = n_non_ignore\n",
            "    _k[(1,)](logits, target, 1, BLOCK_SIZE=1024)\n",
        ),
        ("wanted in a loop", "    if weight is not None:\n", "    while n_rows:\n"),
        ("wanted by the test", "if weight is not None:", "if weight is not None and target_mask.any():"),
        (
            "wanted on the other way too",
            "    if target.stride",
            "    else:\n        total = target_mask\n    if target.stride",
        ),
        ("wanted further down", "    return loss,", "    return target_mask,"),
        ("wanted by an assertion", "{target.min()} is", "{target_mask.sum()} is"),
    ],
)
def test_a_mask_that_may_be_another_one_later_stays(why: str, before: str, after: str) -> None:
    assert before in LOSS
    text = once(LOSS.replace(before, after))
    line = f"    # the targets that count\n{MADE}    # {ask_once.WHY}\n    n_non_ignore, largest, smallest = _surveyed("
    if why == "wanted by an assertion":  # which is a line below: nothing can have happened by then
        line = f"    # the targets that count\n    # {ask_once.WHY}\n    n_non_ignore, largest, smallest = _surveyed("
        assert text.index(MADE) < text.index("    assert smallest")
    assert line in text, why
    assert text.count("target_mask = ") == 1


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("    n_non_ignore = target_mask.sum().item()\n", "", "_, largest, smallest"),
        (QUESTIONS.splitlines(keepends=True)[-1], "", "n_non_ignore, largest, _"),
        ("".join(QUESTIONS.splitlines(keepends=True)[2:5]), "", "n_non_ignore, _, smallest"),
        ("(target * target_mask)", "(target_mask * target)", "n_non_ignore, largest, smallest"),
        (".max() < ", ".max() <= ", "n_non_ignore, largest, smallest"),
        (".min() >= 0", ".min() > -1", "n_non_ignore, largest, smallest"),
    ],
)
def test_some_of_the_questions_are_enough(before: str, after: str, told: str) -> None:
    assert before in LOSS
    text = LOSS.replace("loss, n_non_ignore, total", "loss").replace("total = n_non_ignore", "total = 0")
    assert f"    {told} = _surveyed(target, ignore_index)\n" in once(text.replace(before, after))


def test_words_for_which_there_is_no_room_beside_their_question_stay_below() -> None:
    there = f'f"Target {{target.max()}} is out of bounds. Expected < {{logits.shape[-1]}}{"." * 9}"'
    text = LOSS.replace("logits.shape[-1]}", "logits.shape[-1]}" + "." * 9)
    assert len(f"    assert largest < logits.shape[-1], {there}") == 120
    assert f"    assert largest < logits.shape[-1], {there}\n" in once(text)
    longer = text.replace("Target {target.max", "Targets {target.max")
    assert "    assert largest < logits.shape[-1], (\n" in once(longer)


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("one question is one wait", "\n".join(QUESTIONS.splitlines()[2:]), ""),
        ("what is kept is equal", "target != ignore_index", "target == ignore_index"),
        ("a number that is worked out", "target != ignore_index", "target != -ignore_index"),
        ("more than a mask", "target != ignore_index", "target != ignore_index != 3"),
        ("a line between", "    n_non_ignore =", "    n_rows += 1\n    n_non_ignore ="),
        ("a sum along one side", "target_mask.sum()", "target_mask.sum(0)"),
        ("the largest along one side", ".max() <", ".max(0) <"),
        ("the count is the mask", "n_non_ignore = target_mask", "target_mask = target_mask"),
        ("the count is the number", "n_non_ignore = target_mask", "ignore_index = target_mask"),
        ("a name that is taken", "n_rows, n_cols =", "largest, n_cols ="),
        ("another name that is taken", "n_rows, n_cols =", "_, n_cols ="),
        (
            "the mask and the number are one",
            "target_mask = target != ignore_index",
            "ignore_index = target != ignore_index",
        ),
        ("the mask is known before", "    n_rows, n_cols =", "    target_mask = None\n    n_rows, n_cols ="),
        ("a function that looks at it", "    n_rows, n_cols =", "    look = lambda v: v * 2\n    n_rows, n_cols ="),
        ("what is imported inside", "    n_rows, n_cols =", "    from lib import entered\n    n_rows, n_cols ="),
        ("somebody decorates it", "def forward(", "@torch.jit.script\ndef forward("),
        ("it waits for others", "def forward(", "async def forward("),
        ("it gives in between", "    loss = torch", "    yield n_cols\n    loss = torch"),
        ("nothing is launched", "    _k[(n_rows,)](logits, loss, n_cols, BLOCK_SIZE=1024)\n", ""),
        ("a comment behind a question", "target_mask.sum().item()\n", "target_mask.sum().item()  # noqa\n"),
        (
            "a comment within a question",
            "assert (target * target_mask).max() < ",
            "assert (  # all\n        target * target_mask\n    ).max() < ",
        ),
        ("a kernel of that name", "_k", "_survey_kernel"),
        ("a guard about something else", "(target * target_mask)", "(target + target_mask)"),
        ("an equality", ".max() < logits", ".max() == logits"),
        ("no Triton", "import triton\n", ""),
        ("no Python", "def forward(", "def forward(:"),
    ],
)
def test_torch_is_asked_where_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in LOSS
    changed = LOSS.replace(before, after)
    if why in ("a sum along one side", "a line between"):  # the bounds are two questions all the same
        changed = changed.replace(QUESTIONS.splitlines(keepends=True)[-1], "")
    if why == "the largest along one side":
        changed = changed.replace("    n_non_ignore = target_mask.sum().item()\n", "    n_non_ignore = n_rows\n")
    assert asked(changed) is None, why


def test_two_functions_that_ask_are_one_too_many() -> None:
    again = LOSS.split("def forward(")[1]
    assert asked(f"{LOSS}\n\ndef other({again}") is None


RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import before, after
import torch

KINDS = [torch.int64, torch.int32, torch.int16, torch.float32]
for n in (1, 2, 5, 2047, 2048, 2049, 4096, 5000, 65536, 65537):
    for kind in KINDS if n < 3000 else KINDS[:1]:
        for ignored, low, high in ((-100, 0, 50), (-100, -7, -2), (3, 2, 5), (3, 3, 4), (1, 0, 2), (-1, -1, 40)):
            x = torch.randint(low, high, (n,)).to(kind)
            x[: n // 3] = ignored
            kept = x != ignored
            wanted = [kept.sum().item(), (x * kept).max(), (x * kept).min()]
            assert [int(v) for v in after._surveyed(x, ignored)] == [int(v) for v in wanted], (n, kind, ignored)
for ignored in (2**31 - 1, 2**31, 2**32 - 1, -(2**31), -(2**31) - 1, 2**40):
    for kind in (torch.int64, torch.int32):
        x = torch.tensor([-1, 0, 2**31 - 1, -(2**31), 5]).to(kind)
        kept = x != ignored
        wanted = [kept.sum().item(), (x * kept).max().item(), (x * kept).min().item()]
        assert [int(v) for v in after._surveyed(x, ignored)] == wanted, (ignored, kind)
big = torch.tensor([2**40 + 7, -(2**41)])
assert list(after._surveyed(big, -100)) == [2, 2**40 + 7, -(2**41)]
wide = torch.arange(12).view(3, 4)
assert [int(v) for v in after._surveyed(wide, 11)] == [11, 10, 0]
assert [int(v) for v in after._surveyed(wide.t(), 11)] == [11, 10, 0]
assert [int(v) for v in after._surveyed(wide, torch.tensor(11))] == [11, 10, 0]

def end(module, target, *rest):
    try:
        loss, *others = module.forward(torch.ones(3, 4), target, *rest)
        return "", [float(n) for n in others]
    except (AssertionError, RuntimeError) as error:
        return str(error), []

told = set()
for values in ([0, 1, 3], [0, 4, 3], [-1, 2, 2], [-100, 2, -100], [-100, -100, -100], [-100, 4, -5], []):
    target = torch.tensor(values, dtype=torch.int64)
    for weight in (None, torch.arange(4.0)):
        for ignored in (-100, 4, 2):
            was, now = (end(module, target, weight, ignored) for module in (before, after))
            assert was == now, (values, ignored, was, now)
            told.add(was[0][:6])
assert told == {"", "Target", "max():"}, told
"""
GUARD = 'x.device.type == "cpu" or '


def test_the_host_hears_and_decides_what_it_did(tmp_path: Path) -> None:
    """In the interpreter, whose tensors are on no GPU; those of the host itself are asked of torch."""
    after = once(LOSS)
    assert GUARD in after
    interpret(tmp_path, RUN, before=LOSS, after=after.replace(GUARD, ""))
    interpret(tmp_path, RUN, before=LOSS, after=after)
