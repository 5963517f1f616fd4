"""The one door to the rewrites: a text in which `min` is something else, or a block than the host said, is nobody's."""

from __future__ import annotations

import pytest

from bot.engine import rewriting
from bot.engine.rewriting import speaks_plainly
from bot.model.variant import SourceFile
from tests.engine.library import sample
from tests.engine.test_drop_clone import files

TEXT = sample("rms_norm")


def is_left_alone(text: str) -> bool:
    return not speaks_plainly(text) and rewriting.of_file("more_programs", text) is None


def test_what_speaks_plainly_is_rewritten() -> None:
    assert rewriting.of_file("more_programs", TEXT) is not None


@pytest.mark.parametrize(
    "line",
    [
        "min = max",
        "def min(a, b):\n    return b",
        "class range: ...",
        "from operator import add as len",
        "from triton.language.math import max",
        "import builtins as int",
        "def f(tuple):\n    return tuple",
        "def f(x, *, sum=0):\n    return sum",
        "f = lambda all: all",
        "for float in (): ...",
        "with open(__file__) as min: ...",
        "try: ...\nexcept ValueError as max: ...",
        "(min := 3)",
        "a, (min, b) = 1, (2, 3)",
        "[0 for min in ()]",
        "import min.x",
        "def f(:",
    ],
)
def test_a_word_with_another_meaning_keeps_every_rewrite_away(line: str) -> None:
    assert is_left_alone(f"{TEXT}\n\n{line}\n")


KERNEL = "def _other_kernel(x_ptr, n, BLOCK: tl.constexpr, *, WIDE: tl.constexpr):\n    "


@pytest.mark.parametrize(
    "line",
    [
        "BLOCK = 128",
        "BLOCK //= 2",
        "WIDE: tl.constexpr = 2 * BLOCK",
        "n, BLOCK = 3, 4",
        "if n > 3:\n        BLOCK = 64",
        "for BLOCK in tl.static_range(3):\n        n += BLOCK",
        "del WIDE",
    ],
)
def test_a_kernel_that_gives_its_own_block_another_size_keeps_every_rewrite_away(line: str) -> None:
    assert is_left_alone(f"{TEXT}\n\n@triton.jit\n{KERNEL}{line}\n")


@pytest.mark.parametrize("line", ["n = BLOCK", "HALF: tl.constexpr = BLOCK // 2", "x_ptr += BLOCK", "f(BLOCK=3)"])
def test_a_kernel_may_read_its_sizes_and_give_others_what_it_likes(line: str) -> None:
    assert speaks_plainly(f"{TEXT}\n\n@triton.jit\n{KERNEL}{line}\n")


def test_files_are_rewritten_together_where_all_of_them_speak_plainly() -> None:
    texts = files()
    assert rewriting.of_files("drop_clone", _sources(texts)) is not None
    for path in texts:
        assert rewriting.of_files("drop_clone", _sources({**texts, path: f"{texts[path]}\n\nlen = 3\n"})) is None


def _sources(texts: dict[str, str]) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(path=path, text=text) for path, text in texts.items())


@pytest.mark.parametrize("line", ["x.min = 3", "f(min=3)", "d = {'min': 3}", "import min.x as y", "minimum = min"])
def test_other_uses_of_a_word_are_its_own(line: str) -> None:
    assert speaks_plainly(f"{TEXT}\n\n{line}\n")
