"""Storms, seed by seed: nothing said or pushed twice, nothing pushed that nobody approved, no campaign lost.

A seed that fails prints its story and the line that tells it again. `make storm SEEDS=5000` tells more of them.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bot.forge import threads
from tests.fakes.git import FakeRepo
from tests.scenarios.storm import Storm, found_shared, over
from tests.scenarios.storm_people import live
from tests.scenarios.storm_truth import PULLS, all_wrong, watch
from tests.zones import places

REPLAY = "make storm SEED={seed}"
SEED, SEEDS = os.environ.get("STORM_SEED", ""), int(os.environ.get("STORM_SEEDS") or 60)
TOLD = (int(SEED),) if SEED else range(SEEDS)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    proposals = places.shared(tmp_path_factory) / "storm-proposals"
    proposals.mkdir(exist_ok=True)
    place = found_shared(tmp_path_factory.mktemp("storms"), proposals)
    gc.collect()
    gc.freeze()  # what torch and others brought is not swept again in every story
    yield place
    gc.unfreeze()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "storm"
    shutil.rmtree(tmp_path / "storm", ignore_errors=True)


Spoil = Callable[[pytest.MonkeyPatch], None]


def tell(seed: int, folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, spoil: Spoil | None = None) -> Storm:
    """One storm from the first word to a clear sky."""
    storm = Storm(seed, folder, shared)
    watch(storm)
    with over(storm, monkeypatch.setattr):
        if spoil is not None:
            spoil(monkeypatch)
        storm.rage(live)
        storm.calm()
    return storm


def story_of(storm: Storm, wrong: list[str]) -> str:
    return "\n".join((f"seed {storm.seed}, {storm.force}", *storm.log, *wrong, REPLAY.format(seed=storm.seed)))


@pytest.mark.parametrize("seed", TOLD)
def test_nothing_is_lost_or_doubled(seed: int, folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storm = tell(seed, folder, shared, monkeypatch)
    wrong = all_wrong(storm)
    assert not wrong, story_of(storm, wrong)


def test_a_seed_is_one_story(folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for time in ("first", "again"):
        with monkeypatch.context() as patch:
            storm = tell(28, folder / time, shared, patch)
        told.append((storm.log, storm.server.refs))
    assert len(told[0][0]) > 20
    assert told[0] == told[1]


# A storm that could not find anything would prove nothing


def said_without_looking(patch: pytest.MonkeyPatch) -> None:
    """A comment is posted whether or not it stands there already."""
    patch.setattr(threads, "_all", lambda forge, number, key: [])


def pushed_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    """The author is faster by a moment, and is overwritten."""
    push: Any = FakeRepo.push

    def forced(self: FakeRepo, ref: str, sha: str, expect: str | None, **how: Any) -> None:
        if ref in PULLS:
            late = self.commit_files(expect, {"late.md": b"late"}, "Late\n", author=("dana", "d"), date="2026-01-02")
            self.server.refs[ref] = expect = late
        push(self, ref, sha, expect, **how)

    patch.setattr(FakeRepo, "push", forced)


def written_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    """The ledger's compare-and-swap always swaps."""
    push: Any = FakeRepo.push

    def forced(self: FakeRepo, ref: str, sha: str, expect: str | None, **how: Any) -> None:
        push(self, ref, sha, self.remote_sha(ref) if "ledger" in ref else expect, **how)

    patch.setattr(FakeRepo, "push", forced)


def nobody_passes_by(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Storm, "calm", lambda self: None)


@pytest.mark.long
@pytest.mark.parametrize(
    "spoil", [said_without_looking, pushed_without_a_lease, written_without_a_lease, nobody_passes_by]
)
def test_a_storm_finds_what_is_broken(
    spoil: Spoil, folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = partial(_first_wrong, spoil, folder, shared, monkeypatch)
    assert any(map(find, range(SEEDS))), f"{SEEDS} storms noticed nothing"


def _first_wrong(spoil: Spoil, folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> bool:
    with monkeypatch.context() as patch:
        return bool(all_wrong(tell(seed, folder / str(seed), shared, patch, spoil)))
