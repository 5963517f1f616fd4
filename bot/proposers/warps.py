"""Other warps for a kernel that is rewritten: twice or half as many once that was accepted, or twice as many along with
a rewrite of one that spills.

A launch's warps were chosen for the kernel as it was: one that now holds several rows, or waits for none, may want
others. Nothing that the model counts says which, so only a GPU is asked; and each answer is a round like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from bot.campaign.lineage import FEWER_WARPS, MORE_WARPS
from bot.engine import launch_numbers
from bot.engine.most_warps import MOST_WARPS
from bot.engine.source import MEASURED, NotUnderstood
from bot.engine.transforms.rewrite import FilesRewrite
from bot.model.variant import Hypothesis, Proposal, SourceFile
from bot.proposers.brief import Brief
from bot.proposers.forecast import UNSEEN


@dataclass(frozen=True, slots=True)
class Way:
    """One way to go, for as long as it is accepted."""

    technique: str
    words: str
    more: bool
    last: int
    """Where no launch may go on from."""


WAYS = (
    Way(MORE_WARPS, "Twice as many warps", more=True, last=MOST_WARPS),
    Way(FEWER_WARPS, "Half as many warps", more=False, last=1),
)


ROOMIER = f":{MORE_WARPS}"
"""How the technique ends of a rewrite that takes twice the warps along. A thread that spills has no room for what the
rewrite lets it hold: without a detour through float32 a backward pass of mHC was 3.3x as fast in one shape on an H100,
and took 2.4 times as long in the one in which it spilled before. Of rows whose tiles are counted, those alone that are
whole vectors have them: compiled for odd ones, a tile of two streams in twice the warps goes through 16 KiB of shared
memory before each is stored, and on an H200 such rows took 2.4 times as long as without the rewrite."""
ROOM = "Twice the warps: a thread held more than it has registers for."


def who_spills(brief: Brief) -> frozenset[str]:
    """Kernels of the incumbent that keep a part of what a thread holds in memory, in some scored case."""
    launches = (launch for case in brief.facts.cases for launch in case.launches)
    return frozenset(one.kernel for one in launches if one.resources is not None and one.resources.spill_bytes > 0)


def with_room(brief: Brief, rewrite: FilesRewrite) -> FilesRewrite | None:
    """The rewrite with twice the warps for those of its kernels that spill today; None where there are none, or where
    they are tuned or launched in another way that nobody here can change."""
    texts, wider = dict(rewrite.texts), []
    for path, kernel in [(path, kernel) for path in texts for kernel in rewrite.kernels if kernel in who_spills(brief)]:
        try:
            text = launch_numbers.with_other_warps(texts[path], kernel, more=True, why=ROOM, whole=True)
        except NotUnderstood:
            continue
        if text != texts[path]:
            texts[path] = text
            wider.append(kernel)
    if not wider:
        return None
    get = "it gets" if len(wider) == 1 else "they get"
    why = f"{rewrite.why} {' and '.join(wider)} spilled before, so {get} twice the warps."
    return replace(rewrite, texts=texts, title=f"{rewrite.title}, with twice the warps", why=why)


def _warps_of(brief: Brief) -> dict[str, set[int]]:
    """For each changed kernel the warps it is launched with, the kernel that takes most time first."""
    found: dict[str, set[int]] = {}
    slowest = sorted(brief.facts.cases, key=lambda case: -(case.timing.median_us if case.timing else 0.0))
    for launch in (launch for case in slowest for launch in case.launches):
        if not brief.untouched(launch.kernel):
            found.setdefault(launch.kernel, set()).add(launch.num_warps)
    return found


def _may_go(brief: Brief, way: Way, kernel: str, warps: set[int]) -> bool:
    """Not past the end, not twice after a no, and not back after the other way was right."""
    earlier = brief.rounds_with(f"{way.technique}:{kernel}")
    others = [one for other in WAYS if other is not way for one in brief.rounds_with(f"{other.technique}:{kernel}")]
    refused = bool(earlier) and not earlier[-1].is_accepted
    return way.last not in warps and not refused and not any(one.is_accepted for one in others)


def _with_other_warps(brief: Brief, file: SourceFile, kernel: str, way: Way) -> str:
    arch = brief.baseline.runner.arch
    why = f"{way.words} as is usual for the block {MEASURED}{arch})."
    return launch_numbers.with_other_warps(file.text, kernel, more=way.more, why=why, arch=arch)


def _proposal(brief: Brief, way: Way, kernel: str, warps: set[int], by: str) -> Proposal | None:
    file = brief.file_of(kernel)
    try:
        text = _with_other_warps(brief, file, kernel, way) if file is not None else ""
    except NotUnderstood:
        return None
    if file is None or text == file.text:
        return None
    now = ", ".join(map(str, sorted(warps)))
    hypothesis = Hypothesis(
        title=f"{way.words} for {kernel}",
        why=f"{kernel} is not what it was when its warps ({now}) were chosen: v{brief.incumbent} changed its work.",
        expected=UNSEEN,
        technique=f"{way.technique}:{kernel}",
        references=brief.references,
    )
    return Proposal(files=brief.with_text(file.path, text), hypothesis=hypothesis, proposer=by)


def ideas(brief: Brief, by: str, but: Collection[str] = ()) -> Iterator[Proposal]:
    if not brief.is_measured or not brief.incumbent:
        return
    raced = {numbers.kernel for racer in brief.race.others for numbers in racer.numbers} if brief.race else set()
    for kernel, warps in _warps_of(brief).items():
        if kernel in raced or kernel in but:  # and was asked already, or is, with all the others
            continue
        for way in WAYS:
            found = _proposal(brief, way, kernel, warps, by) if _may_go(brief, way, kernel, warps) else None
            if found is not None:
                yield found
