"""Starts replayers, plays v0 against a variant in blocks, verifies every slot, and reads a clock of its own beside
theirs."""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from bot.judge.driver import Driver
from bot.judge.frames import BLOCK, BURST, Ask
from bot.judge.handle import OPEN_SECONDS, Replayer, Unplayable
from bot.judge.layout import BANKS, Layout, layout_of
from bot.judge.nvml import Nvml
from bot.judge.recipe import Recipe
from bot.judge.replayer import MAX_TAPE, Setup
from bot.judge.scored import Scored
from bot.worker.contract import Call, parse, read_bytes
from bot.worker.contract.tape import TAPE, Tape, sound
from bot.worker.contract.timing import Blocks, Burst, Common, Four, Opened, Roof

BASELINE, CONTROL, FIRST = 0, 1, 2
"""Arms: v0, v0 once more, and then the variants."""
RIVAL_SECONDS = 100.0
"""To set one up: torch compiles it first."""
BURST_US = 20_000.0
"""Long enough for a clock of the host: a microsecond is a twenty-thousandth of it."""
MAX_BURST = 20_000
NEAR = 0.03
"""Further apart both clocks are asked again. Of 1,470 such runs on H100s and H200s one in a hundred was, and three were
more than the 5 % apart that a verdict allows: a variant of jsd that was 2.54x was refused for one of them. The middle
of three as long as the first was not enough: beside somebody who compiled with all processors, two of 30 were 5.2 and
6.0 % apart, and cost cross_entropy both of its winners."""
LONGER, FAR = 5, 0.2
"""Runs that are asked again are so much longer: a host that is late is late by as much, whatever it waits for. Not
where the clocks are so far apart: a few milliseconds of lateness are not, and a backlog that no event sees might be."""
PILOTS = 4
TOGETHER = 8
"""Half a gigabyte of the GPU each, while they wait; and so many of those who have played may rest."""
INTERRUPTED = 1.5
"""v0 takes this much longer than its median in no slot of its own: somebody else had the GPU."""
INTERRUPTIONS = 1
"""May be. Of 1,866 readings of 96 such slots none had more, but where replayers came up beside them."""
AGAIN = 2
"""So often an interrupted reading is thrown away for another."""
ROOF_READINGS = 24
ROOM = 1 / 3
"""The share of the GPU's memory that cases may keep between their turns; whoever plays and whoever checks needs the
rest."""

Key = tuple[str, int]
"""A case and its lanes."""
Run = Callable[[int, int], tuple[float, float]]
"""(arm, how often) -> microseconds by the events, and by the judge's own clock."""


def crowded_out(kept: Mapping[Key, int], layout: Layout, room: float) -> list[Key]:
    """Who goes, so that this one fits. All large cases of a kernel are more than a GPU holds; they are asked for in a
    circle, so whoever came last is needed last."""
    staying, leaving = list(kept), []
    while staying and sum(kept[key] for key in staying) + layout.kept_bytes > room:
        leaving.append(staying.pop())
    return leaving


def is_interrupted(slots: Sequence[float]) -> bool:
    """Whether something else took the GPU meanwhile. v0's slots alone are asked: no variant can throw readings away."""
    longest = INTERRUPTED * statistics.median(slots or (0.0,))
    return sum(us > longest for us in slots) > INTERRUPTIONS


def _beside(run: Run, arm: int) -> float:
    """What the judge's clock sees of a run and the events do not: the message, and what comes before the pass. Before a
    backward pass that is a forward pass, which a variant may have made faster: of each arm its own."""
    return statistics.median(wall - events for events, wall in (run(arm, 1) for _ in range(5)))


def _long_runs(run: Run, counts: Mapping[int, int]) -> Burst:
    """A pass of the one against a pass of the other."""
    beside = {arm: _beside(run, arm) for arm in (BASELINE, FIRST)}
    events, walls, covered = {BASELINE: 0.0, FIRST: 0.0}, {BASELINE: 0.0, FIRST: 0.0}, 1.0
    for arm in (BASELINE, FIRST, FIRST, BASELINE):
        seen, wall = run(arm, counts[arm])
        events[arm] += seen / counts[arm]
        walls[arm] += (wall - beside[arm]) / counts[arm]
        covered = min(covered, seen / max(1.0, wall - beside[arm]))
    return Burst(walls[FIRST] / walls[BASELINE], events[FIRST] / events[BASELINE], covered)


def _apart(burst: Burst) -> float:
    return burst.wall_ratio / burst.event_ratio - 1 if burst.event_ratio > 0 else math.inf


def _filling(us: float, longer: int) -> int:
    """How many passes of so many microseconds make a run. Each arm has a number of its own: v0's backward pass of
    group_norm takes twenty times the variant's, and as many of it took 15 s."""
    return max(10, min(longer * MAX_BURST, int(longer * BURST_US / us)))


def long_runs(run: Run) -> Burst:
    """v0 and the first variant, for so long that both clocks can tell.

    Whoever moves work to where no event sees it does so all along; a host that is late is late for a message. So where
    the clocks of a run differ, three more are played, longer unless they are far apart, and the one in the middle is
    told."""
    for arm in (BASELINE, FIRST):
        run(arm, 2)
    once = {arm: max(0.5, run(arm, 10)[0] / 10) for arm in (BASELINE, FIRST)}
    counts = {arm: _filling(us, 1) for arm, us in once.items()}
    told = _long_runs(run, counts)
    if abs(_apart(told)) <= NEAR:
        return told
    if abs(_apart(told)) <= FAR:
        counts = {arm: _filling(us, LONGER) for arm, us in once.items()}
    return sorted((_long_runs(run, counts) for _ in range(3)), key=_apart)[1]


class Timekeeper:
    def __init__(self, kernel: str, recipe: Recipe, seed: int, folder: Path, gpu: str, still: int = 0) -> None:
        """`still`: of those who are on the GPU by now, how many the bench made to stand still."""
        self._kernel, self._recipe, self._seed, self._folder = kernel, recipe, seed, folder
        self._has_rivals = False
        self._driver = Driver()
        self._nvml = Nvml(gpu)
        self._others, self._still = max(0, self._nvml.read().processes - still), still
        self._scored: dict[Key, Scored] = {}
        self._waiting: list[Replayer] = []
        self._playing: Replayer | None = None
        self._retired: list[Replayer] = []
        """Who has played and does nothing any more: to end a process takes half a second, and all together no more."""
        self._on: Scored | None = None
        self._count = 0
        self._random = secrets.SystemRandom()
        self._turns = 0

    # -- replayers --------------------------------------------------------------------------------------------

    def start(self, count: int, *, alone: bool = False) -> int:
        """So that as many wait. Who has to be waited for comes up together with others, for later, or `alone`."""
        if len(self._waiting) < count:
            self._begin(count if alone else max(count, TOGETHER))
        return len(self._waiting)

    def _begin(self, count: int) -> None:
        while len(self._waiting) < count:
            self._count += 1
            self._waiting.append(Replayer(self._folder / f"replayer-{self._count}.log"))

    def open(
        self,
        call: Call,
        baseline: str,
        variants: tuple[str, ...],
        lanes: int,
        *,
        fresh: bool,
        rivals: tuple[str, ...] = (),
        still: int = 0,
    ) -> Opened:
        """A rival computes the right results, so it never meets a variant, nor a process that played one. `still`: how
        many processes may be on the GPU that the bench made to stand still."""
        self._still = still
        if rivals and (variants or not (fresh or self._has_rivals)):
            raise Unplayable("a rival is played beside v0 alone, in a process of its own")
        fresh, self._has_rivals = fresh or (self._has_rivals and not rivals), bool(rivals)
        if fresh:
            self._retire()
        if self._playing is not None:
            self._playing.end_case()
        else:
            self._begin(1)
        self._settle()
        if self._playing is None:
            self._begin(1)  # who came up with others may have found no memory; nobody else is on the way now
            self._playing = self._waiting.pop(0)
        tape = sound(parse(Tape, read_bytes(Path(baseline) / TAPE, MAX_TAPE)))
        layout = layout_of(call, tape, lanes)
        self._on = self._case(call, layout)
        setup = Setup(call, (baseline, baseline, *variants), lanes, self._on.shared_bytes, self._kernel, rivals)
        self._playing.set_up(setup, self._on.descriptor, RIVAL_SECONDS if rivals else OPEN_SECONDS)
        arms = (BASELINE, CONTROL, CONTROL, BASELINE)
        pilots = [self._play(arms) for _ in range(PILOTS)]
        # One block meets every bank: from here on v0's own error is known for each.
        if why := self._verify(arms, pilots[-1][1]):
            raise Unplayable(why)
        slot_us = statistics.median(wall for _, _, wall in pilots) / len(arms)
        return Opened(lanes, statistics.median(t for times, _, _ in pilots for t in times), slot_us)

    def _settle(self) -> None:
        """Nobody is on the way up while a clock runs: who makes a context takes the GPU from a slot for a millisecond
        at a time. Who does not come up is left, and missed when its turn comes."""
        staying, until = [], time.monotonic() + OPEN_SECONDS
        for replayer in self._waiting:
            try:
                replayer.come_up(max(0.1, until - time.monotonic()))
                staying.append(replayer)
            except Unplayable:
                replayer.close()
        self._waiting = staying

    def _case(self, call: Call, layout: Layout) -> Scored:
        key = (call.case, layout.lanes)
        if key not in self._scored:
            self._make_room(layout)
            self._scored[key] = Scored(self._recipe, call, layout, self._seed, self._driver)
        return self._scored[key]

    def _make_room(self, layout: Layout) -> None:
        room = torch.cuda.get_device_properties(0).total_memory * ROOM
        for key in crowded_out({key: one.layout.kept_bytes for key, one in self._scored.items()}, layout, room):
            self._scored.pop(key).close()

    def _retire(self) -> None:
        if self._playing is not None:
            self._playing.end_case()
            self._retired.append(self._playing)
        self._playing = self._on = None
        if len(self._retired) > TOGETHER:
            self._end_retired()

    def close(self) -> None:
        """Nothing is played any more until somebody is opened."""
        self._retire()
        self._end_retired()

    def _end_retired(self) -> None:
        for replayer in self._retired:
            replayer.hang_up()
        while self._retired:
            self._retired.pop().close()

    def end(self) -> None:
        self.close()
        for replayer in self._waiting:
            replayer.hang_up()
        for replayer in self._waiting:
            replayer.close()

    # -- blocks -----------------------------------------------------------------------------------------------

    def _play(self, arms: tuple[int, ...]) -> tuple[tuple[float, ...], tuple[int, ...], float]:
        """(time of each slot in us, the contents each found, wall time)"""
        assert self._playing is not None
        self._turns += 1
        # Slots one after another meet every bank, and none twice in a row.
        first = self._random.randrange(BANKS)
        banks = tuple((first + slot) % BANKS for slot in range(len(arms)))
        times, wall = self._playing.ask(Ask(BLOCK, self._turns & 0x7F, arms, banks, 1, secrets.randbits(64)))
        if len(times) != len(arms):
            raise Unplayable("the replayer read other slots than it was asked for")
        return times, banks, wall

    def _verify(self, arms: tuple[int, ...], banks: tuple[int, ...]) -> str:
        assert self._on is not None
        for slot, (arm, bank) in enumerate(zip(arms, banks, strict=True)):
            if why := self._on.verify(slot, bank, is_baseline=arm < FIRST):
                return ("v0" if arm < FIRST else "the variant") + f": {why}"
        self._on.spoil()
        return ""

    def _order(self, others: tuple[int, ...]) -> tuple[int, ...]:
        """One block of v0 and these, there and back, in an order drawn at random: the first place is the fastest."""
        arms = [BASELINE, *others]
        self._random.shuffle(arms)
        return (*arms, *reversed(arms))

    def _expected(self) -> int:
        """How many processes the GPU may have: this one and who plays among them."""
        return self._others + self._still + len(self._waiting) + len(self._retired) + 2

    def _some(self, groups: Sequence[tuple[int, ...]]) -> tuple[list[dict[int, Four]], str, float]:
        """One block of v0 against each of these groups; none of them where something disturbed the batch."""
        orders = [self._order(group) for group in groups]
        arms = tuple(arm for order in orders for arm in order)
        times, banks, wall = self._play(arms)
        wrong = self._verify(arms, banks)
        now = self._nvml.read()
        lanes = self._on.layout.lanes if self._on is not None else 1
        possible = all(t > 0 for t in times) and sum(times) * lanes <= wall
        if now.is_disturbed or now.processes > self._expected() or not possible:
            return [], wrong, wall
        left, found = iter(times), []
        for group, order in zip(groups, orders, strict=True):
            mine = [(arm, round(next(left), 4)) for arm in order]
            a, b = (t for arm, t in mine if arm == BASELINE)
            pairs = {other: [t for arm, t in mine if arm == other] for other in group}
            found.append({other: (a, b, c, d) for other, (c, d) in pairs.items()})
        return found, wrong, wall

    def _many(self, groups: Sequence[tuple[int, ...]]) -> tuple[dict[int, list[Four]], int, str, float]:
        """(blocks of each arm, how many were voided, what was wrong, ms)"""
        assert self._on is not None
        found: dict[int, list[Four]] = {arm: [] for group in groups for arm in group}
        each = 2 * (1 + max((len(group) for group in groups), default=1))
        at_once = self._on.layout.slots // each
        if not at_once:
            return found, len(groups), "", 0.0
        voided, spent, wrong = 0, 0.0, ""
        for start in range(0, len(groups), at_once):
            some = groups[start : start + at_once]
            read, wrong, wall = self._some(some)
            spent += wall
            if wrong:
                break
            voided += 0 if read else len(some)
            for block in read:
                for arm, times in block.items():
                    found[arm].append(times)
        return found, voided, wrong, spent / 1e3

    def _undisturbed(self, groups: Sequence[tuple[int, ...]]) -> tuple[dict[int, list[Four]], int, str, float]:
        """As `_many`; a reading that was interrupted is thrown away for another, and the last one kept as it is: who is
        interrupted that often is refused for the scatter of it."""
        spent = 0.0
        for turn in range(1 + AGAIN):
            found, voided, wrong, ms = self._many(groups)
            spent += ms
            # Those of one group stand beside the same v0.
            slots = [us for arm in {group[0] for group in groups} for block in found[arm] for us in block[:2]]
            slots += [us for block in found.get(CONTROL, ()) for us in block[2:]]
            if wrong or turn == AGAIN or not is_interrupted(slots):
                break
        return found, voided, wrong, spent

    def blocks(self, variant: int, count: int, control: int) -> Blocks:
        """Blocks of a variant with blocks of the control strewn among them."""
        arm = FIRST + variant
        kinds = [(arm,)] * count + [(CONTROL,)] * control
        self._random.shuffle(kinds)
        found, voided, wrong, spent_ms = self._undisturbed(kinds)
        return Blocks(tuple(found.get(arm, ())), tuple(found.get(CONTROL, ())), voided, wrong, spent_ms)

    def common(self, variants: tuple[int, ...], count: int) -> Common:
        """Blocks in which several variants stand beside one v0."""
        arms = tuple(FIRST + variant for variant in variants)
        found, voided, wrong, spent_ms = self._undisturbed([arms] * count)
        return Common(tuple(tuple(found.get(arm, ())) for arm in arms), voided, wrong, spent_ms)

    def _run(self, arm: int, count: int) -> tuple[float, float]:
        assert self._playing is not None
        times, wall = self._playing.ask(Ask(BURST, 0, (arm,), (0,), count, secrets.randbits(64)))
        return times[0], wall

    def burst(self) -> Burst:
        """Of the first variant."""
        return long_runs(self._run)

    # -- the roof ---------------------------------------------------------------------------------------------

    def roof(self, nbytes: int, lanes: int) -> Roof:
        """The fastest that so many bytes can be moved here: half read and half written, also in place, or two thirds
        read. On one H200 a copy of 524 MB took 127 us in one process and 140 in the next, by where its two buffers lay;
        a kernel that scaled in place was refused for its 131."""
        flush = torch.empty(3 * self._driver.l2_bytes, dtype=torch.uint8, device="cuda")
        halves = torch.empty(lanes, 2, max(16, nbytes // 8), device="cuda").normal_()
        thirds = torch.empty(lanes, 3, max(16, nbytes // 12), device="cuda").normal_()
        copies = [lambda x=lane: x[0].copy_(x[1]) for lane in halves]
        triads = [lambda x=lane: torch.add(x[1], x[2], alpha=2.0, out=x[0]) for lane in thirds]
        scales = [lambda x=lane: x[0].mul_(1.0) for lane in halves]
        return Roof(_cold(copies, flush), _cold(scales, flush), _cold(triads, flush))


def _cold(work: Sequence[Callable[[], object]], flush: torch.Tensor) -> float:
    """Microseconds of one piece of work out of a cold cache, the pieces behind one another as lanes are."""
    graph = torch.cuda.CUDAGraph()
    work[0]()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for piece in work:
            piece()
    readings = []
    for turn in range(ROOF_READINGS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        flush.fill_(turn)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        readings.append(begin.elapsed_time(end) * 1e3 / len(work))
    return float(statistics.median(readings))
