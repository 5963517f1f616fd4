"""scope: BC-13, what a variant may touch and what has to stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot import guardrails
from bot.analysis import callers
from bot.guardrails import judge
from bot.guardrails.scope import scope
from bot.model.variant import SourceFile
from bot.model.verdict import Decision
from tests.guardrails import hearings as h


def messages(text: str, before: str = h.V0) -> list[str]:
    return [finding.message.removeprefix(f"{h.PATH}: ") for finding in scope(h.hearing(text=text, before=before))]


def edited(old: str, new: str) -> str:
    assert h.FASTER.count(old) >= 1, old
    return h.FASTER.replace(old, new)


REFUSED = {
    "a parameter more": (
        edited("def scale_forward(x, factor)", "def scale_forward(x, factor, w=None)"),
        "signature of scale_forward",
    ),
    "a parameter less": (edited("(ctx, x, factor=2.0)", "(ctx, x)"), "signature of ScaleFunction.forward"),
    "another default": (edited("factor=2.0", "factor=3.0"), "signature of ScaleFunction.forward"),
    "another name": (
        edited("def scale_forward(x, factor)", "def scale_forward(x, scale)"),
        "signature of scale_forward",
    ),
    "an annotation": (edited("def scale_forward(x, factor):", "def scale_forward(x, factor) -> int:"), "scale_forward"),
    "a shared kernel": (
        edited("def shared_kernel(X, n_cols,", "def shared_kernel(X, n_cols, n_rows,"),
        "shared_kernel",
    ),
    "not a kernel any more": (edited("@triton.jit\ndef shared", "def shared"), "shared_kernel"),
    "not static any more": (
        edited("    @staticmethod\n    def backward", "    def backward"),
        "ScaleFunction.backward",
    ),
    "a class with other bases": (edited("(torch.autograd.Function)", "(object)"), "ScaleFunction"),
    "a class gone": (edited("class ScaleFunction", "class _ScaleFunction"), "the public name ScaleFunction is gone"),
    "a constant gone": (edited("MAX_BLOCK", "_MAX_BLOCK"), "the public name MAX_BLOCK is gone"),
    "set again below": (h.FASTER + "\nscale_forward = None\n", "signature of scale_forward"),
    "defined again below": (h.FASTER + "\ndef scale_forward(x, factor):\n    return x\n", "signature of scale_forward"),
    "defined under a condition": (h.FASTER + "\nif True:\n    def scale_forward():\n        pass\n", "scale_forward"),
    "a comment gone": (
        edited("    # Where the row ends.\n", ""),
        '1 comment(s) of the author were removed or rewritten, first "# Where',
    ),
    "a comment rewritten": (edited("# The widest block.", "# The widest block ever."), "comment(s)"),
    "a docstring gone": (edited('    """x * factor"""\n', ""), 'the docstring "x * factor" was removed'),
    "a docstring rewritten": (edited('"""One program a row."""', '"""A program a row."""'), "One program a row."),
    "a docstring made a comment": (edited('    """One program a row."""', "    # One program a row."), "docstring"),
    "no Python": (h.FASTER + "\ndef (:\n", "cannot be read as Python: invalid syntax"),
    "nothing": ("", "is gone"),
    "a null byte": (h.FASTER + "\x00", "cannot be read as Python"),
    "nested beyond reason": ("x = " + "-" * 20_000 + "1\n", "cannot be read as Python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bc_13_what_others_rely_on_stays(name: str) -> None:
    text, words = REFUSED[name]
    assert words in "\n".join(messages(text))
    assert judge(h.hearing(text=text)).decision is Decision.REJECTED


ALLOWED = {
    "other launch numbers": h.FASTER,
    "a comment moved": edited("    # Where the row ends.\n", "").replace(
        'a row."""\n', 'a row."""\n    # Where the row ends.\n'
    ),
    "a comment indented": edited("    # Where the row ends.", "        # Where the row ends.".replace("    ", "  ")),
    "more comments": edited("    num_warps = 8\n", "    # Eight: one element a thread.\n    num_warps = 8\n"),
    "a longer docstring": edited('"""Scales a row."""', '"""Optimization Variant 3: warps\n\nScales a row.\n"""'),
    "a docstring moved": edited('    """One program a row."""\n', "").replace(
        "def shared_kernel(X, n_cols, BLOCK_SIZE: tl.constexpr):\n    pass",
        'def shared_kernel(X, n_cols, BLOCK_SIZE: tl.constexpr):\n    """One program a row."""',
    ),
    "a private kernel with more parameters": edited("_scale_kernel(X, Y,", "_scale_kernel(X, Y, Z,"),
    "a private kernel renamed": edited("_scale_kernel", "_scale_tile_kernel"),
    "a new private function": h.FASTER + "\n\ndef _settings(n_cols):\n    return 1024, 4\n",
    "a new public function": h.FASTER + "\n\ndef scale_settings(n_cols):\n    return 1024, 4\n",
    "a new constant": edited("MAX_BLOCK = 4096", "MAX_BLOCK = 4096\n_WARPS = 8"),
    "another value of a constant": edited("MAX_BLOCK = 4096", "MAX_BLOCK = 2048"),
    "a needless import gone": edited("import os\n", "").replace('    debug = os.environ.get("SCALE_DEBUG")\n', ""),
    "an inner function": edited(
        "    num_warps = 8\n", "    num_warps = 8\n\n    def grid(meta):\n        return (1,)\n\n"
    ),
    "one more decorator told otherwise": edited("@triton.jit\ndef _scale", "@triton.jit(noinline=True)\ndef _scale"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_the_rest_is_the_variants_own_business(name: str) -> None:
    assert messages(ALLOWED[name]) == []


MORE, GONE = "a private kernel with more parameters", "a private kernel renamed"


@pytest.mark.parametrize("name", [MORE, GONE])
def test_who_imports_a_private_kernel_can_still_launch_it(name: str) -> None:
    heard = h.hearing(text=ALLOWED[name], relied_on=("_scale_kernel",))
    told = "_scale_kernel cannot be called any more as it is, and another file imports it: keep its parameters"
    assert h.said(scope(heard)).endswith(f"{h.PATH}: {told}")
    assert judge(heard).decision is Decision.REJECTED
    assert scope(h.hearing(text=ALLOWED["other launch numbers"], relied_on=("_scale_kernel",))) == []


def test_inner_functions_are_nobodys_interface() -> None:
    before = h.V0.replace("    num_warps = 4\n", "    num_warps = 4\n\n    def grid(meta):\n        return (1,)\n\n")
    assert messages(h.FASTER, before) == []


def test_a_tuned_kernel_stays_tuned_and_may_be_tuned_otherwise() -> None:
    tuned = "@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=['n_cols'])\n@triton.jit\ndef shared"
    before = h.V0.replace("@triton.jit\ndef shared", tuned)
    assert messages(before.replace("num_warps=4)", "num_warps=8)"), before) == []
    assert messages(h.FASTER, before) == ["the signature of shared_kernel changed, and callers rely on it"]


def test_a_private_kernel_that_tunes_itself_goes_on_doing_so() -> None:
    tuned = "@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=['n_cols'])\n@triton.jit\ndef _scale"
    before = h.V0.replace("@triton.jit\ndef _scale", tuned)
    assert before != h.V0 and messages(before.replace("num_warps=4)", "num_warps=8)"), before) == []
    assert messages(h.FASTER, before) == [
        "_scale_kernel chose its launch numbers itself (triton.autotune) and does so no more: change its list instead"
    ]
    assert messages(h.FASTER.replace("_scale_kernel", "_scale_tile_kernel"), before) == []


def test_of_two_equal_comments_both_stay() -> None:
    twice = h.V0.replace("    pass\n", "    # Where the row ends.\n    pass\n")
    assert messages(h.V0, twice) == [
        '1 comment(s) of the author were removed or rewritten, first "# Where the row ends."'
    ]
    assert messages(twice.replace("num_warps = 4", "num_warps = 8"), twice) == []


def test_of_two_equal_docstrings_both_stay() -> None:
    twice = h.V0.replace('    """One program a row."""', '    """x * factor"""')
    once = twice.replace('    """x * factor"""\n', "", 1)
    assert messages(once, twice) == ['the docstring "x * factor" was removed or rewritten']


def with_files(*files: SourceFile) -> str:
    heard = h.hearing()
    changed = heard.model_copy(update={"variant": heard.variant.model_copy(update={"files": files})})
    return h.said(scope(changed))


FASTER_FILE = h.files(h.FASTER)[0]


@pytest.mark.parametrize(
    "path", [h.OTHER, "test/transformers/test_scale.py", "pyproject.toml", ".github/workflows/ci.yml"]
)
def test_other_files_are_not_the_variants(path: str) -> None:
    assert f"{path} is not a file of this kernel; a variant may not touch it" in with_files(
        FASTER_FILE, SourceFile(path=path, text="x = 1\n")
    )


def test_a_file_that_was_left_out_is_missing() -> None:
    assert with_files() == f"{h.PATH} is missing from the variant"


def test_two_texts_for_one_file_are_one_too_many() -> None:
    assert f"{h.PATH} is there 2 times" in with_files(FASTER_FILE, h.files("")[0])


def test_an_allowed_file_that_v0_did_not_have_is_read_too() -> None:
    heard = h.hearing(allowed=(h.PATH, h.OTHER))
    files = (FASTER_FILE, SourceFile(path=h.OTHER, text="def (:\n"))
    changed = heard.model_copy(update={"variant": heard.variant.model_copy(update={"files": files})})
    assert f"{h.OTHER} cannot be read as Python" in h.said(scope(changed))


def test_only_one_place_parses_as_many_are_judged_side_by_side() -> None:
    """Python 3.11 fails now and then where two threads parse at once: `source.parse` has a lock."""
    home = Path(guardrails.__file__).parent
    read = {path.name: path.read_text("utf-8") for path in (*home.glob("*.py"), Path(callers.__file__))}
    assert [name for name, text in read.items() if "ast.parse(" in text] == ["source.py"]
