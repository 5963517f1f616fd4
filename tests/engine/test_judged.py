"""What a transform makes of a kernel of the sample passes the judge's checks: interpreted, on poisoned memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.bench.measure import StaticBench, open_static_bench
from bot.cli.judge_suite import sample as sample_root
from bot.cli.judge_suite import target_of
from bot.engine.transforms import TRANSFORMS, base_two, divide_once, rows_at_once, walk_rows
from bot.model.variant import SourceFile

pytestmark = pytest.mark.slow


@dataclass
class Court:
    kernel: str
    path: str
    bench: StaticBench

    @property
    def text(self) -> str:
        return (sample_root() / self.path).read_text(encoding="utf-8")

    def complaints(self, text: str) -> list[str]:
        """What the judge has against a source; its own rows say which cases they are about."""
        found = self.bench.check((SourceFile(path=self.path, text=text),))
        assert found.fault is None, found.fault
        assert found.rows
        return [f"{row.case}: {row.detail}" for row in found.rows if not row.passed]


def court(kernel: str, scratch: Path) -> Iterator[Court]:
    root = sample_root()
    target = target_of(root)
    site, suite = target.site(kernel), target.suite(kernel, "quick")
    bench = open_static_bench(root, site, suite, "sm_90", sys.executable, scratch, seed=20261122)
    try:
        yield Court(kernel, site.files[0], bench)
    finally:
        bench.close()


@pytest.fixture(scope="module")
def layer_norm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    yield from court("layer_norm", tmp_path_factory.mktemp("layer_norm"))


@pytest.fixture(scope="module")
def cross_entropy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    yield from court("cross_entropy", tmp_path_factory.mktemp("cross_entropy"))


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    yield from court("softmax", tmp_path_factory.mktemp("softmax"))


def rewritten(name: str, text: str) -> str:
    found = TRANSFORMS[name].rewrite(text)
    assert found is not None
    return found.text


def test_layer_norm_needs_no_zeros_and_may_load_ahead_in_blocks_of_rows(layer_norm: Court) -> None:
    text = rewritten("block_rows", rewritten("pipeline_rows", rewritten("drop_zero_fill", layer_norm.text)))
    assert "torch.zeros" not in text and "BLOCK_ROW, num_stages=ROW_STAGES" in text
    assert layer_norm.complaints(text) == []


def test_a_block_that_forgets_its_last_row_is_noticed(layer_norm: Court) -> None:
    text = rewritten("block_rows", layer_norm.text)
    short = text.replace("row_mask = row < last_row", "row_mask = row < last_row - 1")
    assert short != text
    assert layer_norm.complaints(short)


def test_the_poison_shows_where_zeros_were_needed(layer_norm: Court) -> None:
    """A source that the transform refuses, with the zeros taken out all the same."""
    skipping = layer_norm.text.replace("last_row = tl.minimum(", "last_row = tl.minimum(-1 + ")
    found = TRANSFORMS["drop_zero_fill"].rewrite(skipping)
    assert found is not None and "dX = torch.zeros_like(dY)" in found.text
    forced = layer_norm.text.replace("mask=mask)\n\n        dW_row", "mask=mask & (cols > 0))\n\n        dW_row")
    assert layer_norm.complaints(forced.replace("dX = torch.zeros_like(dY)", "dX = torch.empty_like(dY)"))


def test_a_row_that_is_walked_comes_out_as_one_that_is_held(
    cross_entropy: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a budget of 64 columns all shapes of the quick suite are wide."""
    monkeypatch.setattr(walk_rows, "WIDEST", 64)
    monkeypatch.setattr(walk_rows, "WIDEST_STEP", 32)
    text = rewritten("walk_rows", cross_entropy.text)
    assert "min(BLOCK_SIZE // 4, 32) if wide else BLOCK_SIZE" in text
    assert "evict_last" in text
    assert cross_entropy.complaints(text) == []


def test_a_walk_that_forgets_the_last_block_is_noticed(cross_entropy: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_rows, "WIDEST", 64)
    monkeypatch.setattr(walk_rows, "WIDEST_STEP", 32)
    text = rewritten("walk_rows", cross_entropy.text)
    before, after = text.split("largest = -3.4e38", 1)
    short = before + "largest = -3.4e38" + after.replace("range(0, n_cols, B", "range(0, n_cols - B, B", 1)
    assert short != text
    assert cross_entropy.complaints(short)


def test_exponentials_may_be_taken_to_the_base_of_two(cross_entropy: Court) -> None:
    found = base_two.rewrite(cross_entropy.text)
    assert found is not None and "tl.math.exp2(" in found.text
    assert cross_entropy.complaints(found.text) == []


def test_a_row_may_be_divided_once(cross_entropy: Court) -> None:
    found = divide_once.rewrite(cross_entropy.text)
    assert found is not None and "* (1.0 / " in found.text
    assert cross_entropy.complaints(found.text) == []


def test_a_program_may_take_several_rows_at_once(softmax: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where few rows are enough, all shapes of the quick suite have eight in a program."""
    monkeypatch.setattr(rows_at_once, "FEWEST", 1)
    text = rewritten("rows_at_once", softmax.text)
    assert text.count("block_row if n_rows >= 1 else 1") == 2
    assert softmax.complaints(text) == []


def test_a_program_that_forgets_its_last_row_is_noticed(softmax: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_at_once, "FEWEST", 1)
    text = rewritten("rows_at_once", softmax.text)
    short = text.replace("(row < n_rows)", "(row < n_rows - 1)")
    assert short != text
    assert softmax.complaints(short)
