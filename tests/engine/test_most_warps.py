"""More than 16 warps do not launch on AMD, and every number that is written knows it in the words of its module."""

from __future__ import annotations

import pytest

from bot.engine.launch_numbers import Numbers, with_other_warps, write
from bot.engine.source import NotUnderstood
from tests.engine.library import op
from tests.engine.test_launch_numbers import BY_TORCH, launched_by

WHY = "Others."
FOLLOWING = "min(max({block} // 512, 1), {most})"
BY_IS_HIP = "32 if not is_hip() else 16"
FOLLOWED = """
BLOCK_SIZE = 4096 * n_rows
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
"""
FROM_A_LIBRARY = "from library.utils import is_hip\n"


def with_is_hip(body: str, made: str = FROM_A_LIBRARY) -> str:
    return op(body).replace("import torch\n", f"import torch\n{made}")


def most_in(text: str) -> str:
    """What the rule ends with at the launch, the last thing of the file."""
    _, _, end = write(text, Numbers("_k", warps=FOLLOWING)).partition("num_warps=min(max(BLOCK_SIZE // 512, 1), ")
    return end.rstrip("),\n ")


@pytest.mark.parametrize(
    "made",
    [
        FROM_A_LIBRARY,
        "from library.utils import calculate_settings, is_hip\n",
        "def is_hip() -> bool:\n    return torch.version.hip is not None\n\n\n",
        f"{FROM_A_LIBRARY}MOST = 32 if not is_hip() else 16\n",
    ],
)
def test_a_module_with_is_hip_is_asked_with_it(made: str) -> None:
    assert most_in(with_is_hip(FOLLOWED, made)) == BY_IS_HIP


@pytest.mark.parametrize(
    ("why", "made"),
    [
        ("it has none", ""),
        ("under another name", "from library.utils import is_hip as amd\n"),
        ("only in a branch", "try:\n    from library.utils import is_hip\nexcept ImportError:\n    pass\n"),
        ("in a function", "def warps():\n    from library.utils import is_hip\n\n    return 4\n\n\n"),
        ("a value and no function", f"{FROM_A_LIBRARY}MOST = 16 if is_hip else 32\n"),
        ("made anew", f"{FROM_A_LIBRARY}is_hip = is_hip()\n"),
        ("asked of a device", "def is_hip(device):\n    return device.hip\n\n\nMOST = is_hip(0)\n"),
        ("everything", "from library.utils import *\n"),
        ("torch's parts as well", "import torch.nn as nn\nfrom torch import Tensor\nNEW = hasattr(torch, 'xpu')\n"),
    ],
)
def test_else_its_torch_is_asked(why: str, made: str) -> None:
    assert most_in(with_is_hip(FOLLOWED, made)) == BY_TORCH, why


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", ""),
        ("import torch\n", "import torch as t\n"),
        ("import torch\n", "try:\n    import torch\nexcept ImportError:\n    pass\n"),
        ("run(x, y,", "run(torch, y,"),
        ("    BLOCK_SIZE = ", "    torch = None\n    BLOCK_SIZE = "),
    ],
    ids=["no torch", "another name", "a branch", "a parameter", "a variable"],
)
def test_a_module_with_neither_is_told_32(before: str, after: str) -> None:
    text = op(FOLLOWED)
    assert before in text
    assert most_in(text.replace(before, after)) == "32"


@pytest.mark.parametrize(
    ("warps", "understood"), [("32 if not utils.is_hip() else 16", False), ("IS_HIP or 8", False), ("SHIPS", True)]
)
def test_what_a_module_did_for_amd_in_other_words_is_not_lost(warps: str, understood: bool) -> None:
    text = op(FOLLOWED.replace("num_warps=4", f"num_warps={warps}")).replace("import torch\n", "import utils\n")
    if understood:
        assert most_in(text) == "32"
        return
    for numbers in (Numbers("_k", warps=FOLLOWING), Numbers("_k", warps="{most}")):
        with pytest.raises(NotUnderstood, match="words of its own"):
            write(text, numbers)
    with pytest.raises(NotUnderstood, match="words of its own"):
        with_other_warps(text, "_k", more=True, why=WHY)
    assert "num_warps=8)" in write(text, Numbers("_k", warps="8")), "that launches anywhere"


@pytest.mark.parametrize(
    ("made", "warps"), [("", "4"), ("", "16"), (FROM_A_LIBRARY, "16"), (FROM_A_LIBRARY, BY_IS_HIP)]
)
@pytest.mark.parametrize(("block", "follows"), [(1024, 2), (8192, 16), (16384, 32), (65536, 32)])
def test_no_launch_asks_for_more_than_amd_has(made: str, warps: str, block: int, follows: int) -> None:
    """Run for real, as on either vendor's GPU."""
    body = FOLLOWED.replace("4096 * n_rows", str(block)).replace("num_warps=4", f"num_warps={warps}")
    before = with_is_hip(body, made)
    twice = min(2 * int(warps[:2].strip()), 32)
    for wanted, after in (
        (follows, write(before, Numbers("_k", warps=FOLLOWING))),
        (32, write(before, Numbers("_k", warps="{most}"))),
        (twice, with_other_warps(before, "_k", more=True, why=WHY)),
    ):
        assert launched_by(after)["num_warps"] == wanted
        assert launched_by(after, hip="6.4")["num_warps"] == min(wanted, 16)


@pytest.mark.parametrize(("warps", "more"), [("1", False), (BY_TORCH, True), (BY_IS_HIP, True)])
def test_a_launch_at_either_end_stays_as_it_is(warps: str, more: bool) -> None:
    text = op(f"_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps={warps})")
    assert with_other_warps(text, "_k", more=more, why=WHY) == text
    assert with_other_warps(text, "_k", more=not more, why=WHY).count(f"# {WHY}") == 1


@pytest.mark.parametrize("most", ["32", BY_TORCH, BY_IS_HIP])
def test_what_was_doubled_before_is_doubled_further_however_the_most_was_said(most: str) -> None:
    text = with_is_hip(f"_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=min(2 * num_warps, {most}))")
    after = with_other_warps(text, "_k", more=True, why=WHY)
    assert f"num_warps=min(4 * num_warps, {BY_IS_HIP}))" in after
