"""A checkout of the sample library, and `kernelwright optimize` on it with a bench that answers at once."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bot.campaign.machine import fold
from bot.cli import local_desk
from bot.cli.local import optimize
from bot.ledger.journal import JournalFile
from bot.model.campaign import Campaign
from bot.model.facts import CampaignRequested, Fact
from tests.cli import counter

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "templates" / "sample"
KERNEL = "rms_norm"
OP = f"src/sample_kernels/ops/{KERNEL}.py"
MOVED = "# fake: traffic {}\n"


@dataclass(frozen=True)
class Checkout:
    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "optimization" / KERNEL

    def git(self, *words: str) -> str:
        config = ["-c", "user.name=dana", "-c", "user.email=dana@example.org"]
        return subprocess.run(
            ["git", *config, *words], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout

    def idea(self, name: str, traffic: float | str) -> list[str]:
        """Words that have a version of the kernel tried which moves so many times its bytes; v0 moves twice."""
        text = (self.root / OP).read_text(encoding="utf-8")
        path = self.root.parent / f"{name}.py"
        path.write_text(text + MOVED.format(traffic) + f"# {name}\n", encoding="utf-8")
        return ["--try", str(path)]

    def facts(self) -> tuple[Fact, ...]:
        return JournalFile(self.folder / "journal.jsonl").facts()

    def campaign(self) -> Campaign:
        first = next(fact for fact in self.facts() if isinstance(fact, CampaignRequested))
        return fold(Campaign(id=first.campaign), self.facts())

    def left(self) -> set[str]:
        """Folders of work under way that are still there."""
        return {name for name in ("scratch", "segments") if (self.folder / name).exists()}

    def run(self, *words: str) -> Result:
        """In this process; nobody sits at a terminal."""
        return CliRunner().invoke(optimize, [KERNEL, "--repo", str(self.root), *words], standalone_mode=False)

    def environment(self, **more: str) -> dict[str, str]:
        keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {**keep, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **more}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The sample library, committed; its kernel moves twice the bytes it has to."""
    checkout = Checkout(tmp_path_factory.mktemp("sample") / "library")
    shutil.copytree(SAMPLE, checkout.root, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    op = checkout.root / OP
    op.write_text(op.read_text(encoding="utf-8") + MOVED.format(2.0), encoding="utf-8")
    checkout.git("init", "--quiet", "--initial-branch=main")
    checkout.git("add", ".")
    checkout.git("commit", "--quiet", "-m", "Sample")
    return checkout


@pytest.fixture
def here(sample: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout of one's own, and a bench that answers at once."""
    shutil.copytree(sample.root, tmp_path / "library", symlinks=True)
    opener, workshop = counter.stand_in()
    monkeypatch.setattr(local_desk, "opener_for", opener)
    monkeypatch.setattr(local_desk, "Workshop", workshop)
    return Checkout(tmp_path / "library")


def two(here: Checkout) -> list[str]:
    return [*here.idea("worse", 2.5), *here.idea("better", 1.2), "--max-variants", "2"]
