"""The proposer that needs no model: launch numbers and named rewrites, the most promising first. The model of time
ranks launch numbers in no time, so they come first. On a GPU a race says what is worth a round: all rewrites that apply
race before the first has one, and those that promise nothing race once more with the launch numbers and the warps of
what was rewritten, when nothing else is left.

One idea a round. Every idea is built on the incumbent, so accepted ideas add up by themselves; one that was accepted
and can be carried further is tried a second time.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator

from bot.analysis.strategies import TOGETHER
from bot.campaign.lineage import NUMBERS_TECHNIQUE
from bot.engine import fitting, rewriting, settings_table
from bot.engine.transforms import (
    ACROSS_FILES,
    PER_KERNEL,
    TRANSFORMS,
    drop_sort,
    last_axis_first,
    longer_lists,
    mask_where_read,
    more_programs,
    relax_atomics,
    rows_in_turns,
    wider_chunks,
    within_reach,
)
from bot.engine.transforms.rewrite import FilesRewrite, Rewrite, of_one_file
from bot.model.ids import Digest
from bot.model.variant import Hypothesis, Proposal, sources_digest
from bot.proposers import along, combined, gathered, merged, nearby, promise, raced, room, rules, warps
from bot.proposers.brief import Brief, techniques_in
from bot.proposers.forecast import UNSEEN, Change, Forecast, as_it_was, forecast, in_tiles, twice_the_programs, walked
from bot.proposers.rules import Tables

NAME = "engine"
SWEEP = NUMBERS_TECHNIQUE
AGAIN = {"more_programs": 2, "taller_tiles": 2}
"""Rewrites that can be carried further once they were accepted, and how often they are tried in all."""
FORECASTS: dict[str, Change] = {
    **dict.fromkeys((*TRANSFORMS, *ACROSS_FILES, *TOGETHER), as_it_was),
    "tile_rows": in_tiles,
    "more_programs": twice_the_programs,
    "walk_rows": walked,
}
"""What a rewrite does to a launch. Most change nothing that the model can see."""
SPARING = ("drop_zero_fill", "drop_detours")
"""Rewrites after which a pass moves no byte that it does not have to."""
CROWDED = ("drop_detours",)
"""Rewrites after which a thread may hold more, so that one that spills wants more warps besides."""
FOR_SOME = ("walk_rows", "reduce_loss")
"""Rewrites that leave most launches as they are: without a scored case they are about, there is nothing to try."""
ON_A_GPU = (
    *TOGETHER,
    *("divide_once", "gather_factors", "share_exponentials", "base_two", "quick_log", "tanh_by_exp2"),
    *("pipeline_steps", "pipeline_products", "pipeline_turns", "further_ahead", "longer_lists", "taller_tiles"),
    *("rows_at_once", "heads_at_once", "pairs_at_once", "narrower_tiles", "last_axis_first"),
    *("drop_sort", "scale_in_kernel", "read_the_number", "ask_once", "scale_sum", "sum_behind_loop", "sum_together"),
    *("fuse_rows", "walk_back", "stores_first", "running_softmax", "mask_where_read", "within_reach"),
    *("sum_at_once", "relax_atomics", "add_once_a_run", "wider_chunks", "free_early", "first_product", "meet_once"),
    "rows_in_turns",
)
"""Rewrites that take away instructions, meetings of warps, programs or launches of torch, or hide what is waited for.
What anybody waits for the model cannot tell, and launches of torch it does not know."""
FIRST = ("reduce_loss", "drop_clone", "add_in_float32")
"""Tried before all others where variants are measured, and before any race: they are of a kernel that stores less,
waits for no other, or is given no copy, and what else gives anything shows once that is so."""
MOST_AT_ONCE = 12
"""Each takes a second or two of one processor to be recorded, and a dozen blocks of every case."""
SHOWN = {
    "add_in_float32": 3.21,
    "partial_sums": 2.77,
    "divide_by_constants": 1.74,
    "scale_in_kernel": 1.70,
    "quick_log": 1.26,
    "pipeline_rows": 1.24,
    "sum_together": 1.18,
    "tile_rows": 1.15,
    "sum_at_once": 1.06,
    "more_programs": 1.06,
    "block_rows": 1.03,
    "divide_once": 1.03,
    "longer_lists": 1.02,
}
"""The least that an H200 measured of a rewrite over all scored cases of an op that it was made for
(docs/results/h200/campaigns), where the model sees less of it: rows that are loaded ahead were tried after ideas that
promised more, and gave more than those."""
COMPLETED_BY = {"partial_sums": "sum_together", "scale_in_kernel": "read_the_number"}
"""What belongs to a rewrite where it applies to what that makes: two sums and two casts of torch's made a call of
group_norm's backward 62 us longer on the host, and so cost it a gain of 2.86x. A launch in place of torch's product
made one of tvd's 26 us longer, and cost it 3.46x, so the host asks more cheaply what it asks before. By itself that
hardly shows on the GPU, and might never become the incumbent that the launch needs."""
KNOWING: dict[str, Callable[[str, Brief], Rewrite | None]] = {
    "relax_atomics": lambda text, brief: relax_atomics.of_kernels(text, brief.launched),
    "last_axis_first": lambda text, brief: last_axis_first.of_kernels(text, brief.launched, brief.site.relied_on),
    "drop_sort": lambda text, brief: drop_sort.rewrite(text, brief.site.relied_on),
    "mask_where_read": lambda text, brief: mask_where_read.rewrite(text, brief.site.relied_on),
    "within_reach": lambda text, brief: within_reach.rewrite(text, brief.site.relied_on),
    "rows_in_turns": lambda text, brief: rows_in_turns.rewrite(text, brief.site.relied_on),
    "longer_lists": lambda text, brief: longer_lists.rewrite(text, brief.site.relied_on, brief.beside(text)),
}
"""Rewrites that ask for more than the text, once that has something for them."""
LAST = ("rows_in_turns", "last_axis_first", "first_product", "meet_once", "walk_back", "stores_first", "cache_hints")
"""Finishing touches: tried on a kernel whose work and warps are settled."""
HOPELESS = 0.96
"""A rewrite that the model sees this far behind is left alone where no GPU is: there the model judges as well, and
refuses it. Tiles of relu_squared, 0.95x, took all three rounds of a campaign. Not stricter, since a forecast is no
estimate: rows of softmax that are walked were forecast at 0.98x, and estimated at 1.01x. On a GPU none counts for
less than 1."""


def _sweeps(brief: Brief, tables: Tables) -> Iterator[Proposal | None]:
    untouched = {kernel: table for kernel, table in tables.items() if brief.untouched(kernel)}
    return rules.proposals(brief, untouched, SWEEP, "Launch numbers that follow the shape", rules.MODEL, NAME)


def _may_repeat(brief: Brief, name: str) -> bool:
    earlier = brief.rounds_with(name)
    return not earlier or (earlier[-1].is_accepted and len(earlier) < AGAIN.get(name, 1))


def _known(brief: Brief, name: str, text: str, only: str = "") -> Rewrite | None:
    """By what the brief knows beside the text, where the rewrite asks for that."""
    found = rewriting.of_file(name, text, only)
    return KNOWING[name](text, brief) if found is not None and name in KNOWING and not only else found


def _made(brief: Brief, name: str, text: str, only: str = "") -> Rewrite | None:
    making = functools.partial(_known, brief)
    return combined.of_file(name, text, only, making) if name in TOGETHER else making(name, text, only)


def _rewrites(brief: Brief, name: str) -> Iterator[tuple[FilesRewrite, Change]]:
    """What a named transform makes of the incumbent, file by file or of all of them, and what it does to a launch."""
    if name in ACROSS_FILES:
        together = rewriting.of_files(name, brief.sources)
        yield from () if together is None else ((together, FORECASTS[name]),)
        return
    for file in brief.sources:
        rewrite, change = _made(brief, name, file.text), FORECASTS[name]
        if rewrite is None:
            continue
        if name == "more_programs" and (widest := room.widest(brief, rewrite.kernels)):
            narrower = more_programs.rewrite(file.text, up_to=widest)
            rewrite, change = (narrower, room.up_to(widest, change)) if narrower is not None else (rewrite, change)
        yield of_one_file(file.path, _completed(name, rewrite)), change


def _completed(name: str, rewrite: Rewrite) -> Rewrite:
    other = rewriting.of_file(COMPLETED_BY[name], rewrite.text) if name in COMPLETED_BY else None
    if other is None:
        return rewrite
    return dataclasses.replace(rewrite, text=other.text, why=f"{rewrite.why} {other.why}")


def _rewrite(brief: Brief, name: str) -> tuple[float, Proposal] | None:
    """A named transform where it applies first, with the model's forecast for it."""
    if not _may_repeat(brief, name) or (name in ON_A_GPU and not brief.is_measured):
        return None
    for rewrite, change in _rewrites(brief, name):
        found = _hypothesis(brief, name, name, rewrite, change)
        if found is not None:
            return found
    return None


def _alone(brief: Brief, name: str, *, races: bool) -> Iterator[tuple[float, Proposal]]:
    """Each kernel on its own, so that the forward's gain is not lost with the backward's: where it `races`, where it
    has raced, and after all of them together were rejected."""
    earlier = brief.rounds_with(name)
    if not (name in PER_KERNEL or name in combined.IN_ONE_KERNEL) or (earlier and earlier[0].is_accepted):
        return
    for file in brief.sources:
        whole = _made(brief, name, file.text)
        for kernel in whole.kernels if whole is not None and len(whole.kernels) > 1 else ():
            technique = f"{name}:{kernel}"
            if brief.rounds_with(technique) or not (races or earlier or promise.of(brief, technique) is not None):
                continue
            rewrite = _made(brief, name, file.text, kernel)
            if rewrite is None:
                continue
            alone = dataclasses.replace(rewrite, title=f"{rewrite.title}, in {kernel} alone")
            found = _hypothesis(brief, name, technique, of_one_file(file.path, alone), FORECASTS[name])
            if found is not None:
                yield found


def _roomier(brief: Brief, name: str, *, races: bool) -> tuple[float, Proposal] | None:
    """With more warps besides for whoever spills today: only beside the idea itself in a race, and by what it
    promised there."""
    technique = f"{name}{warps.ROOMIER}"
    if not brief.is_measured or brief.rounds_with(technique):
        return None
    if not races and promise.of(brief, technique) is None:
        return None
    for rewrite, change in _rewrites(brief, name) if warps.who_spills(brief) else ():
        roomier = warps.with_room(brief, rewrite)
        found = _hypothesis(brief, name, technique, roomier, change) if roomier is not None else None
        if found is not None:
            return found
    return None


def _other_ways(brief: Brief, *, races: bool) -> Iterator[tuple[float, Proposal]]:
    """The other ways of wider chunks: only beside the first in a race, and by what they promised there."""
    name = "wider_chunks"
    if not brief.is_measured:
        return
    for way in filter(None, wider_chunks.WAYS):
        technique = f"{name}:{way}"
        if brief.rounds_with(technique) or not (races or promise.of(brief, technique) is not None):
            continue
        for file in brief.sources:
            rewrite = wider_chunks.rewrite(file.text, way)
            found = rewrite and _hypothesis(brief, name, technique, of_one_file(file.path, rewrite), FORECASTS[name])
            if found:
                yield found


def _one(brief: Brief, technique: str) -> Proposal | None:
    """What an idea makes that raced by this name."""
    name, _, kernel = technique.partition(":")
    if name not in FORECASTS:  # with more warps besides, say
        return None
    if not kernel:
        found = _rewrite(brief, name)
        return found[1] if found is not None else None
    alone = (made for _, made in _alone(brief, name, races=True))
    return next((made for made in alone if made.hypothesis.technique == technique), None)


def _hypothesis(
    brief: Brief, name: str, technique: str, rewrite: FilesRewrite, change: Change
) -> tuple[float, Proposal] | None:
    if not fitting.is_about(name, rewrite.kernels, brief.facts) or brief.leaves_callers_behind(rewrite.texts):
        return None
    expects = forecast(brief, rewrite.kernels, change, least_traffic=name in SPARING, spared=rewrite.spared)
    if name in FOR_SOME and expects is not None and expects.gain == 1:
        return None
    if rewrite.kernels and expects is not None and not expects.case:
        return None  # no scored case launches what would change
    hypothesis = Hypothesis(
        title=rewrite.title,
        why=rewrite.why,
        expected=_expected(expects, rewrite.seen),
        technique=technique,
        references=brief.references,
    )
    proposal = Proposal(files=brief.with_texts(rewrite.texts), hypothesis=hypothesis, proposer=NAME)
    gain = expects.gain if expects is not None else 1.0
    return max(gain, SHOWN.get(name, 1.0)) if brief.is_measured else gain, proposal


def _expected(expects: Forecast | None, seen: str) -> str:
    if expects is None or abs(expects.gain - 1) < 0.001:
        if seen:
            return f"{seen} Here there is no forecast: nothing changes that the model counts before it is compiled."
        return UNSEEN
    return expects.says()


def _by_gain(made: Iterable[tuple[float, Proposal] | None]) -> list[Proposal]:
    """Equal ones stay in their order."""
    hopeful = [found for found in made if found is not None and found[0] >= HOPELESS]
    return [proposal for _, proposal in sorted(hopeful, key=lambda pair: -pair[0])]


Found = Iterable[tuple[float, Proposal] | None]


def _works(brief: Brief, *, races: bool = False) -> Found:
    """Rewrites of how a kernel works, in the order of the diagnosis."""
    every = (*ACROSS_FILES, *TRANSFORMS, *TOGETHER)
    order = tuple(dict.fromkeys((*(name for name in brief.diagnosis.strategies if name in every), *every)))
    yield from (_rewrite(brief, name) for name in order if name not in LAST)
    yield from (found for name in order if name not in LAST for found in _alone(brief, name, races=races))
    yield from (_roomier(brief, name, races=races) for name in order if name in CROWDED)
    yield from _other_ways(brief, races=races)


def _finish(brief: Brief, *, races: bool = False, but: Collection[str] = ()) -> Found:
    """Warps of what was rewritten, but of these kernels, then finishing touches."""
    yield from ((1.0, proposal) for proposal in warps.ideas(brief, NAME, but))
    yield from (_rewrite(brief, name) for name in LAST)
    yield from (found for name in LAST for found in _alone(brief, name, races=races))


def _is_settled(brief: Brief, technique: str) -> bool:
    """One of its kernels has it already, so that what all of them together promised is no word on the others."""
    whole = technique.removesuffix(warps.ROOMIER)
    names = [played.variant.hypothesis.technique for played in brief.rounds if played.is_accepted]
    accepted = [one for name in names for one in techniques_in(name)]
    return any(one != technique and one.partition(":")[0] == whole for one in accepted if whole in PER_KERNEL)


def _promising(brief: Brief, found: Found) -> Found:
    """Who raced is worth what the race promised, and a round only where that may be accepted. The others as they
    were."""
    for one in found:
        technique = one[1].hypothesis.technique if one is not None else ""
        if one is None or not combined.is_due(brief, technique):
            continue
        promised = promise.of(brief, technique)
        if promised is None:
            yield one
        elif promised >= promise.WORTH_A_ROUND and not _is_settled(brief, technique):
            yield promised, one[1]


def _in_order(brief: Brief, tables: Tables) -> Iterator[Proposal | None]:
    """Making all rewrites takes seconds: where launch numbers come first, only once they have nothing new to say."""
    if not brief.is_measured:
        yield from _sweeps(brief, tables)
        yield from _by_gain((*_works(brief), *_finish(brief)))
        return
    yield from merged.ideas(brief, NAME)
    for name in FIRST:
        yield from _by_gain((_rewrite(brief, name),))
    yield from gathered.ideas(brief, NAME, _one)
    yield from _by_gain(_promising(brief, _works(brief)))
    if not brief.has_race_ahead:
        yield from nearby.ideas(brief, NAME)  # once they are in, launch numbers race anew
        asks = brief.race is None and not raced.has_spoken(brief)
        yield from _sweeps(brief, tables) if asks else raced.ideas(brief, NAME)
        yield from _by_gain(_promising(brief, _finish(brief)))


def _new(brief: Brief, found: Found) -> tuple[Proposal, ...]:
    """Each source once, and none that was judged: as they would have a round, the likeliest first."""
    known: set[Digest] = set(brief.judged)
    new = []
    for _, proposal in sorted((one for one in found if one is not None), key=lambda pair: -pair[0]):
        idea = along.whole(brief, proposal)
        digest = sources_digest(idea.files)
        if digest not in known:
            known.add(digest)
            new.append(idea)
    return tuple(new)


def _tunes_anew(brief: Brief, idea: Proposal) -> bool:
    """Whether it changes a kernel that tunes itself, or its grid: that is tuned again, with the GPU for itself, which
    takes as long as a round. In a race it would be one of several that are tuned at once."""
    name, tuned = idea.hypothesis.technique.partition(":")[0], brief.tuned
    if not tuned or name not in FORECASTS:
        return False
    return any(not tuned.isdisjoint(rewrite.kernels) for rewrite, _ in _rewrites(brief, name))


def openers(brief: Brief) -> tuple[Proposal, ...]:
    """Ideas that may race before the first of them has a round. None where one that comes before all others is still
    ahead, or where some could not race with the others."""
    try:
        if not brief.has_opening_ahead or _new(brief, (_rewrite(brief, name) for name in FIRST)):
            return ()
        ideas = _new(brief, _works(brief, races=True))[:MOST_AT_ONCE]
        return () if any(_tunes_anew(brief, idea) for idea in ideas) else ideas
    except SyntaxError:
        return ()


def leftovers(brief: Brief, raced_by_numbers: Collection[str]) -> tuple[Proposal, ...]:
    """Who races beside launch numbers: what promised nothing before, and what comes last anyway."""
    try:
        every = (*_works(brief, races=True), *_finish(brief, races=True, but=raced_by_numbers))
        return tuple(idea for idea in _new(brief, every) if not _tunes_anew(brief, idea))[:MOST_AT_ONCE]
    except SyntaxError:
        return ()


def near(brief: Brief) -> tuple[tuple[Proposal, tuple[str, ...]], ...]:
    """And what is near the numbers that accepted rewrites brought along, each with the cases that it races in."""
    try:
        made = tuple(nearby.racers(brief, NAME))
    except SyntaxError:
        return ()
    return tuple((idea, cases) for idea, cases in made if sources_digest(idea.files) not in brief.judged)


def propose(brief: Brief) -> Proposal | None:
    """The next idea that was not judged before, or None when every idea that applies was tried."""
    if brief.budget <= 0:
        return None
    try:
        text = "\n".join(file.text for file in brief.original)
        tables = settings_table.tables(brief.baseline, brief.suite, brief.surveys, text)
        for proposal in _in_order(brief, tables):
            idea = along.whole(brief, proposal) if proposal is not None else None
            if idea is not None and sources_digest(idea.files) not in brief.judged:
                return idea
    except SyntaxError:  # an incumbent that a person brought may parse for Triton's Python and not for ours
        return None
    return None
