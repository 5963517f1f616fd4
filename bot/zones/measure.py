"""The measure zone: the only one near the GPU. No token, no network; its word is checked by publish.

It reads the journal at the commit its order names and appends to a segment of its own.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bot.analysis.estimate import timed
from bot.bench.measure import Bench
from bot.bench.sandbox import BUBBLEWRAP
from bot.campaign.effects import (
    Effect,
    EndSearch,
    FinishWinner,
    JudgeVariant,
    MeasureVariant,
    OpenRound,
    ProfileKernel,
    RaceNumbers,
)
from bot.campaign.lineage import has_opening_ahead, has_race_ahead, pending_tries, sources_of
from bot.campaign.machine import advance, fold, owed_in
from bot.errors import OperatorError, UserError
from bot.git.repo import Repo
from bot.hardware.catalog import for_choice
from bot.ledger import journal
from bot.ledger.journal import Segment
from bot.ledger.layout import journal_path
from bot.model.campaign import OUT_OF_BUDGET, Campaign, Order, Profile, StopReason, Zone
from bot.model.commands import GpuChoice
from bot.model.facts import (
    Fact,
    MachineChanged,
    NumbersRaced,
    OrderFailed,
    OrderTaken,
    Profiled,
    RoundOpened,
    SearchEnded,
    VariantJudged,
    VariantMeasured,
)
from bot.model.ids import OrderId
from bot.model.measurement import Measurement, Suite
from bot.model.policy import RepoPolicy
from bot.model.race import Race
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, Variant
from bot.model.verdict import Verdict
from bot.proposers import exhausted, ideas_in, next_proposal, untried
from bot.proposers.brief import Tried, brief_of
from bot.targets.base import hindrance
from bot.targets.contract import CONFIG, TRUSTED, RepoConfig, read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree
from bot.zones import elsewhere, oracle
from bot.zones.finalists import asked_last
from bot.zones.finishing import finished
from bot.zones.first_look import FirstLook, Subject
from bot.zones.intake import SEGMENT
from bot.zones.judging import Weighs, may_win, unrun, verdict_of
from bot.zones.lateness import in_time
from bot.zones.racing import before_a_round, raced, starters
from bot.zones.report import ZoneReport, about
from bot.zones.rivals import of_winner
from bot.zones.workshop import Preflight, Workshop, stepped, until_checked

__all__ = ["Preflight", "Shift", "Workshop", "measure", "read_campaign", "work"]

MOST_STEPS = 1000
"""Three steps a round and at most 119 rounds; more would be a loop of ours."""


class Shift:
    """One job's work on one order. The tree and the bench are opened when they are first needed."""

    def __init__(self, campaign: Campaign, shop: Workshop, segment: Segment | None = None) -> None:
        self.campaign = campaign
        self._shop = shop
        self._segment = segment
        self._bench: Bench | None = None
        self._site: KernelSite | None = None

    @property
    def _head(self) -> str:
        assert self.campaign.pull is not None
        return self.campaign.pull.head_sha

    def _tree(self) -> Path:
        tree = self._shop.scratch / "tree"
        if not tree.exists():
            self._shop.repo.export(self._head, tree)
        return tree

    def bench(self, profile: Profile) -> Bench:
        if self._bench is None:
            self._bench = self._shop.open_bench(
                self._tree(),
                profile.site,
                profile.suite,
                profile.baseline.runner.arch,
                self._shop.python,
                self._shop.scratch / "bench",
            )
        return self._bench

    def close(self) -> None:
        if self._bench is not None:
            self._shop.put_away(self._bench)

    def _arch(self) -> str:
        """What was asked for; without a wish, what is here."""
        gpu, asked = self._shop.gpu, _gpu(self.campaign)
        wish = self.campaign.command.gpu if self.campaign.command is not None else GpuChoice.AUTO
        return gpu.arch if gpu is not None and wish is GpuChoice.AUTO else for_choice(asked).arch

    def _weak_fence(self, policy: RepoPolicy) -> str:
        """Why nobody's code may run on this machine, if so. Asked before any of it does."""
        assert self._bench is not None
        name = self._bench.runner.sandbox
        if self._shop.gpu is None or self._shop.is_own or not policy.require_sandbox or name == BUBBLEWRAP:
            return ""
        return (
            f"this GPU machine would hold other people's code by {name} only; install bubblewrap on it"
            f" (`kernelwright doctor --runner` says how), or set `require_sandbox = false` in the {CONFIG} of {TRUSTED}"
        )

    def _config(self) -> RepoConfig:
        """From the default branch, never from the pull request: it says what runs, and behind which fence."""
        shop = self._shop
        text = DirectoryTree(shop.trusted).read(CONFIG) if shop.trusted else shop.repo.read("HEAD", CONFIG)
        return read_config(text, of=TRUSTED)

    def _subject(self, kernel: str, config: RepoConfig) -> Subject:
        """What is to be profiled, or why it cannot be."""
        tree = DirectoryTree(self._tree())
        target = open_target(tree, config)
        if why := hindrance(target, kernel):
            raise Preflight(ReasonCode.PREFLIGHT_FAILED, f"{why}; {why.hint}")
        site, suite = target.site(kernel, with_gpu=self._shop.gpu is not None), target.suite(kernel)
        unjudged = oracle.unjudged(self.campaign, site, self._shop.repo)
        if unjudged:
            raise Preflight(ReasonCode.PREFLIGHT_FAILED, f"{kernel} cannot be judged here: {unjudged}")
        return site, suite, tuple(SourceFile(path=path, text=_text(tree.read(path)) or "") for path in site.files)

    def _opened(self, site: KernelSite, suite: Suite, arch: str) -> Bench:
        """In place of what was open before: two would share the GPU's memory."""
        self.close()
        shop, self._bench = self._shop, None
        self._bench = shop.open_bench(self._tree(), site, suite, arch, shop.python, shop.scratch / "bench")
        return self._bench

    def profile(self, effect: ProfileKernel) -> Fact:
        assert self.campaign.command is not None and self.campaign.pull is not None
        kernel, config = self.campaign.command.kernel, self._config()
        subject = self._subject(kernel, config)
        site, suite, _ = subject
        arch = self._arch()
        bench = self._opened(site, suite, arch)
        if weak := self._weak_fence(config.policy):
            raise Preflight(ReasonCode.PREFLIGHT_FAILED, f"{kernel} cannot be measured here: {weak}")
        differing = oracle.differing(self.campaign.pull, site, self._shop.repo)
        look = FirstLook(self.campaign, self._shop, self._tree(), arch, differing)
        reopened = partial(self._opened, site, arch=arch)
        return Profiled(order=effect.order, profile=look.whole(bench, subject, reopened))

    def race(self, effect: RaceNumbers) -> Fact:
        assert self.campaign.profile is not None
        return NumbersRaced(order=effect.order, race=raced(self.bench(self.campaign.profile), brief_of(self.campaign)))

    def _before(self) -> Race | None:
        """What races before the next round, where ideas have not raced yet."""
        if not has_opening_ahead(self.campaign):
            return None
        assert self.campaign.profile is not None
        return before_a_round(self.bench(self.campaign.profile), brief_of(self.campaign))

    def open_round(self, effect: OpenRound) -> Fact:
        if (race := self._before()) is not None:
            return NumbersRaced(order=effect.order, race=race)
        brief = brief_of(self.campaign, tried=self._tried())
        proposal = next_proposal(brief)
        if proposal is None and has_race_ahead(self.campaign):
            return self.race(RaceNumbers(order=effect.order, incumbent=self.campaign.incumbent))
        if proposal is None:
            why = StopReason.IDEAS_EXHAUSTED
            return self._ended(effect.order, why, exhausted(brief))
        variant = Variant(
            number=effect.number,
            parent=self.campaign.incumbent,
            files=proposal.files,
            hypothesis=proposal.hypothesis,
            proposer=proposal.proposer,
        )
        return RoundOpened(order=effect.order, variant=variant)

    def _tried(self) -> tuple[Tried, ...]:
        """The kernel's files as they stand at each commit somebody asked to try."""
        assert self.campaign.profile is not None
        found = []
        for commit, actor in pending_tries(self.campaign):
            texts = {path: _text(self._shop.repo.read(commit, path)) for path in self.campaign.profile.site.files}
            files = tuple(SourceFile(path=path, text=text) for path, text in texts.items() if text is not None)
            found.append(Tried(commit, actor, files, ideas_in(self._shop.repo.message(commit))))
        return tuple(found)

    def measure(self, effect: MeasureVariant) -> Fact:
        assert self.campaign.profile is not None
        files = sources_of(self.campaign, effect.number)
        profile = self.campaign.profile
        # Hostile text is refused before any of it runs.
        measurement = unrun(self.campaign, effect.number)
        if measurement is None:
            bench, passed, name = self.bench(profile), self._shop.passed, f"v{effect.number} checked and measured"
            if isinstance(bench, Weighs):
                bench.weigh(partial(may_win, self.campaign, effect.number, bench.runner))
            found = stepped(passed, name, lambda: bench.measure(files, passports=True), until_checked)
            measurement = timed(found, profile.suite)
            following = partial(self._following, effect, measurement)
            measurement = asked_last(bench, self.campaign, effect.number, files, measurement, following, passed)
        return VariantMeasured(order=effect.order, number=effect.number, measurement=measurement)

    def _following(self, effect: MeasureVariant, measurement: Measurement, verdict: Verdict) -> tuple[SourceFile, ...]:
        """The files of the round that opens next if this verdict stands. What people brought is not foreseen, nor what
        a race will say."""
        order, number = effect.order, effect.number
        measured = VariantMeasured(order=order, number=number, measurement=measurement)
        judged = VariantJudged(order=order, number=number, verdict=verdict)
        after = fold(self.campaign, (measured, judged))
        next_ = next(iter(owed_in(after, Zone.MEASURE)), None)
        if not isinstance(next_, OpenRound | RaceNumbers) or pending_tries(after) or has_opening_ahead(after):
            return ()
        brief = brief_of(after, tried=())
        proposal = next_proposal(brief) if isinstance(next_, OpenRound) else None
        if proposal is None and has_race_ahead(after):
            starters(brief)  # made once: the race finds them made
        return proposal.files if proposal is not None else ()

    def judge(self, effect: JudgeVariant) -> Fact:
        return VariantJudged(order=effect.order, number=effect.number, verdict=verdict_of(self.campaign, effect.number))

    def _ended(self, order: OrderId, why: StopReason, note: str = "") -> SearchEnded:
        rivals = of_winner(self.campaign, why, self.bench, self._shop.passed)
        return SearchEnded(order=order, why=why, note=note, rivals=rivals)

    def _end_search(self, effect: EndSearch) -> SearchEnded:
        """A budget of variants that ended with the last idea cut nothing off."""
        if effect.why not in OUT_OF_BUDGET:
            return self._ended(effect.order, effect.why)
        brief = brief_of(self.campaign, tried=self._tried())
        left = untried(brief)
        is_all = not left and effect.why is StopReason.BUDGET_SPENT
        why = StopReason.IDEAS_EXHAUSTED if is_all else effect.why
        return self._ended(effect.order, why, left or exhausted(brief))

    def finish(self, effect: FinishWinner) -> Fact:
        return finished(self.campaign, self._shop, self._head, effect, self.tell)

    def tell(self, fact: Fact) -> None:
        """Written down, then told."""
        if self._segment is not None:
            self._segment.append(fact, self._shop.clock())
        self.campaign, _ = advance(self.campaign, fact)
        self._shop.told(self.campaign, fact)

    def _elsewhere(self, order: OrderId) -> Fact | None:
        """v0 once more, where this machine is another than its numbers are of; None where they hold."""
        profile = self.campaign.profile
        assert profile is not None
        bench, kernel = self.bench(profile), profile.site.kernel
        if not elsewhere.is_another(bench.runner, profile.baseline.runner):
            return None
        if weak := self._weak_fence(self._config().policy):
            raise Preflight(ReasonCode.PREFLIGHT_FAILED, f"{kernel} cannot be measured here: {weak}")
        try:
            return MachineChanged(order=order, baseline=elsewhere.v0_again(bench, profile))
        except elsewhere.CannotGoOn as why:
            if self._shop.is_own:  # nobody is told but who typed it: the order stays open, and the same line goes on
                raise OperatorError(str(why), hint=elsewhere.OWN_HINT) from why
            raise Preflight(ReasonCode.PREFLIGHT_FAILED, f"{why}; {elsewhere.HINT}") from why

    def perform(self, effect: Effect) -> Fact:
        first = self._elsewhere(effect.order) if isinstance(effect, OpenRound | RaceNumbers | MeasureVariant) else None
        return first or self._perform(effect)

    def _perform(self, effect: Effect) -> Fact:
        match effect:
            case ProfileKernel():
                return self.profile(effect)
            case RaceNumbers():
                return self.race(effect)
            case OpenRound():
                return self.open_round(effect)
            case MeasureVariant():
                return self.measure(effect)
            case JudgeVariant():
                return self.judge(effect)
            case EndSearch():
                return self._end_search(effect)
            case FinishWinner():
                return self.finish(effect)
            case _:
                raise AssertionError(f"{effect} is not measured")


def _text(content: bytes | str | None) -> str | None:
    if content is None or isinstance(content, str):
        return content
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _gpu(campaign: Campaign) -> GpuChoice:
    assert campaign.command is not None
    asked = campaign.command.gpu
    return GpuChoice(campaign.policy.default_gpu) if asked is GpuChoice.AUTO else asked


def read_campaign(order: Order, ledger_commit: str, repo: Repo) -> Campaign:
    """The campaign as it stood at the commit the order names."""
    text = _text(repo.read(ledger_commit, journal_path(order.campaign)))
    if text is None:
        raise OperatorError(
            f"the ledger has no journal of {order.campaign} at {ledger_commit[:12]}",
            hint="fetch the branch kernelwright/ledger before this step",
        )
    lines = journal.parse(text, journal_path(order.campaign))
    return fold(Campaign(id=order.campaign), (line.fact for line in lines))


def work(order: Order, campaign: Campaign, shop: Workshop, out: Path) -> Campaign:
    """Carry out one order, fact by fact; an earlier attempt's segment is continued where it stopped."""
    out.mkdir(parents=True, exist_ok=True)
    segment = Segment(out / SEGMENT)
    if not segment.facts():
        segment.append(OrderTaken(order=order.id, at=shop.clock()), shop.clock())
    shift = Shift(fold(campaign, segment.facts()), shop, segment)
    try:
        for _ in range(MOST_STEPS):
            mine = owed_in(shift.campaign, Zone.MEASURE)
            if not mine or shift.campaign.order is None or shift.campaign.order.id != order.id:
                return shift.campaign
            try:
                fact = shift.perform(in_time(mine[0], shop.is_late))
            except Preflight as stop:
                fact = OrderFailed(order=order.id, reason=stop.reason, detail=str(stop))
            except UserError as error:
                fact = OrderFailed(order=order.id, reason=error.reason, detail=f"{error}. {error.hint}")
            shift.tell(fact)
    except BaseException:  # whatever the end of our own processes made of it on the way up
        if not shop.halt.signal:
            raise
        return _stopped(order, fold(campaign, segment.facts()), segment, shop)
    finally:
        shift.close()
    raise AssertionError(f"{order.id} is not done after {MOST_STEPS} steps")


def _stopped(order: Order, campaign: Campaign, segment: Segment, shop: Workshop) -> Campaign:
    """The segment says that it ends here, and why."""
    if campaign.order is None or campaign.order.id != order.id:
        return campaign
    detail = f"the runner told the job to stop ({shop.halt.signal}); every process of it was ended"
    fact = OrderFailed(order=order.id, reason=ReasonCode.COMPUTE_STOPPED, detail=detail)
    segment.append(fact, shop.clock())
    return advance(campaign, fact)[0]


def measure(order: Order, ledger_commit: str, shop: Workshop, out: Path) -> ZoneReport:
    """What the GPU job calls. An order that was taken or closed since is left alone."""
    campaign = read_campaign(order, ledger_commit, shop.repo)
    if campaign.order is None or campaign.order.id != order.id:
        return about(
            Zone.MEASURE,
            campaign,
            code=ReasonCode.NOTHING_WAITING,
            ledger_commit=ledger_commit,
            decision="ignored",
            detail=f"order {order.id} is closed",
        )
    after = work(order, campaign, shop, out)
    return about(Zone.MEASURE, after, code=after.reason or ReasonCode.ACCEPTED, ledger_commit=ledger_commit)
