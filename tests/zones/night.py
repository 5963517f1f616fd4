"""Nights on the embedded GitHub: the sweep's jobs, with the real zones in this process and invented GPU facts."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Sequence

from bot.analysis.bottleneck import diagnose
from bot.analysis.estimate import timed
from bot.campaign.lineage import TRY_TECHNIQUE, next_number
from bot.campaign.machine import fold
from bot.git.repo import Repo
from bot.hardware.catalog import for_arch
from bot.localhub.world import FIRST_ID
from bot.model.campaign import Campaign, StopReason
from bot.model.facts import Fact, Profiled, RoundOpened, SearchEnded, VariantJudged, VariantMeasured
from bot.model.ids import CommitSha
from bot.model.measurement import Runner
from bot.model.variant import Hypothesis, SourceFile, Variant
from bot.settings import Settings
from bot.targets.contract import CONFIG
from bot.zones.judging import verdict_of
from bot.zones.notice import write_dashboard
from bot.zones.push import push
from bot.zones.report import ZoneReport
from bot.zones.sweep import SweepReport, plan, start
from tests.zones import gpu
from tests.zones.conversation import KERNEL, MIRA, Conversation

FOUNDED = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
POLICY = '[policy]\nevidence = "static"\n'
SWEEP = '[sweep]\nenabled = true\n[sweep.pools]\nhopper = ["self-hosted", "gpu", "hopper"]\n'
BRANCH = f"kernelwright/sweep/{KERNEL}"
FIRST = "sweep-20260102-hopper-rms_norm"
SECOND = "sweep-20260103-hopper-rms_norm"
FASTER = gpu.Idea("keep the row in registers", "# v1 keeps the row in registers\n", traffic=1.5)


def profiled(campaign: Campaign, repo: Repo, traffic: float, runner: Runner) -> list[Fact]:
    """The target as it stands, moving `traffic` times its least bytes on this machine."""
    profile = gpu.profile(campaign, repo)
    moved = gpu.measurement(profile.suite, profile.sources, traffic).model_copy(update={"runner": runner})
    baseline = timed(moved, profile.suite)
    again = {"baseline": baseline, "diagnosis": diagnose(baseline, profile.suite, for_arch(gpu.ARCH), ())}
    assert campaign.order is not None
    return [Profiled(order=campaign.order.id, profile=profile.model_copy(update=again))]


def tried(campaign: Campaign, repo: Repo, commit: CommitSha, traffic: float) -> list[Fact]:
    """One round on the kernel's files as they stand at a commit."""
    assert campaign.profile is not None and campaign.order is not None
    order, number, runner = campaign.order.id, next_number(campaign), campaign.profile.baseline.runner
    texts = ((path, repo.read(commit, path) or b"") for path in campaign.profile.site.files)
    files = tuple(SourceFile(path=path, text=text.decode()) for path, text in texts)
    idea = Hypothesis(
        title=f"try {commit[:7]}",
        why="it stood here",
        expected="nothing",
        technique=TRY_TECHNIQUE,
        references=(commit,),
    )
    variant = Variant(number=number, parent=campaign.incumbent, files=files, hypothesis=idea, proposer="human")
    found = gpu.measurement(campaign.profile.suite, files, traffic).model_copy(update={"runner": runner})
    facts: list[Fact] = [
        RoundOpened(order=order, variant=variant),
        VariantMeasured(order=order, number=number, measurement=timed(found, campaign.profile.suite)),
    ]
    verdict = verdict_of(fold(campaign, facts), number)
    return [*facts, VariantJudged(order=order, number=number, verdict=verdict)]


class Night(Conversation):
    """A conversation whose clock can be moved on to the next day."""

    @property
    def days(self) -> int:
        """Kept in the folder, so that a copy goes on where it was."""
        kept = self.folder / "days"
        return int(kept.read_text()) if kept.exists() else 0

    def _now(self) -> str:
        said = self._hub.world.last_id - FIRST_ID if self._hub else 0
        return (FOUNDED + datetime.timedelta(days=self.days, seconds=said)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def sleeps(self) -> Night:
        """Until the next night."""
        (self.folder / "days").write_text(str(self.days + 1))
        return self

    def rules(self, text: str = POLICY + SWEEP) -> Night:
        """What the default branch says from now on, and the trusted checkout with it."""
        self.hub.push(MIRA, "main", {CONFIG: text.encode()}, "Rules\n")
        return self.trusts()

    def trusts(self) -> Night:
        shutil.rmtree(self.folder / "trusted")
        self.repo.export("refs/heads/main", self.folder / "trusted")
        return self

    # Jobs

    def plans(self) -> SweepReport:
        return plan(self._at("decide"), self._now)

    def starts(self, campaign: str = FIRST) -> ZoneReport:
        return start(self._at("decide"), campaign, self._now)

    def _at(self, zone: str) -> Settings:
        return self.settings(zone)

    def tells(self) -> SweepReport:
        return write_dashboard(self._at("publish"), self._now)

    def sweep(self, name: str = FIRST) -> Campaign:
        return fold(Campaign(id=name), self.journals[name])

    def profiled(self, name: str = FIRST, traffic: float = 2.0, runner: Runner = gpu.RUNNER) -> ZoneReport:
        facts = profiled(self.sweep(name), self.repo, traffic, runner)
        return self.publishes(self.leaves(facts), campaign=name)

    def tried(self, name: str, *tries: tuple[CommitSha, float], ideas: Sequence[gpu.Idea] = ()) -> ZoneReport:
        """The search, beginning with these commits and the traffic each causes."""
        facts: list[Fact] = []
        for commit, traffic in tries:
            facts += tried(fold(self.sweep(name), facts), self.repo, commit, traffic)
        for idea in ideas:
            facts += gpu.one_round(fold(self.sweep(name), facts), idea)
        order = self.sweep(name).order
        assert order is not None
        facts.append(SearchEnded(order=order.id, why=StopReason.IDEAS_EXHAUSTED))
        return self.publishes(self.leaves(facts), campaign=name)

    def searched(self, name: str = FIRST, ideas: Sequence[gpu.Idea] = (FASTER,)) -> ZoneReport:
        return self.publishes(self.leaves(gpu.searched(self.sweep(name), ideas)), campaign=name)

    def finished(self, name: str = FIRST) -> ZoneReport:
        return self.publishes(self.leaves(gpu.finished(self.sweep(name))), campaign=name)

    def pushed(self, name: str = FIRST) -> ZoneReport:
        return push(self._at("push"), name)

    def whole(self, name: str = FIRST, ideas: Sequence[gpu.Idea] = (FASTER,)) -> Campaign:
        """A night's campaign from its start to its end."""
        self.starts(name)
        self.profiled(name)
        self.searched(name, ideas)
        self.finished(name)
        self.pushed(name)
        return self.sweep(name)

    # What can be seen

    @property
    def own_pulls(self) -> list[int]:
        return [thread.number for thread, part in self.hub.world.pulls() if part.head_ref == BRANCH]

    def body(self, number: int) -> str:
        return self.hub.world.threads[number].body

    @property
    def issues(self) -> list[int]:
        return [t.number for t in self.hub.world.threads.values() if t.pull is None]
