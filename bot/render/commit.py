"""What git remembers: the winning commit's message and those of the lineage branch. Plain text, no Markdown."""

from __future__ import annotations

import textwrap

from bot.model.campaign import Campaign, Checkpoint
from bot.model.ids import VariantNumber
from bot.model.measurement import Evidence
from bot.render import gains, labels, numbers, view
from bot.render.escape import message as quiet

AUTHOR = ("kernelwright", "bot@kernelwright.invalid")
"""Nobody's mailbox, and nobody's account."""
SUBJECT = 72
BODY = 72
MOST_CASES = 12
MOST_CHANGES = 8


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(
        text, BODY, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _score(campaign: Campaign, number: VariantNumber) -> str:
    return numbers.score(view.score_of(campaign, number))


def _subject(campaign: Campaign, number: VariantNumber) -> str:
    """The figure always; the idea too when the line has room for it."""
    played = campaign.round_of(number)
    title = quiet(played.variant.hypothesis.title, SUBJECT) if played else ""
    base = f"[Perf] Optimize {view.kernel(campaign)} kernel: {_score(campaign, number)}"
    return f"{base}, {title}" if title and len(base) + 2 + len(title) <= SUBJECT else base


def _changes(campaign: Campaign, number: VariantNumber) -> str:
    """Every accepted step with its own share: the last idea is not given the credit of those before it."""
    steps = gains.steps(campaign, number)
    evidence = view.evidence(campaign)
    lines = []
    for one in steps[-MOST_CHANGES:]:
        title = quiet(one.title)
        share = numbers.labelled(_share(one, is_first=one is steps[0]), evidence)
        lines.append(_wrapped(f"{title}: {share}" if len(steps) > 1 else title, "- ", "  "))
    return "\n".join(["Key changes:", *lines])


def _share(one: gains.Step, *, is_first: bool) -> str:
    """Nobody who reads a log knows the numbers of variants."""
    if one.share is None:
        return gains.share_of(one)
    return f"{numbers.ratio(one.share)}{'' if is_first else ' on top'}"


def _summary(campaign: Campaign, number: VariantNumber) -> str:
    """What gained most, and how far it was checked."""
    steps = gains.steps(campaign, number)
    most = max(steps, key=lambda one: one.share or 0.0, default=None)
    played = campaign.round_of(most.number) if most is not None else None
    why = quiet(played.variant.hypothesis.why) if played else ""
    passed, total = view.right(view.measurement_of(campaign, number))
    against = f"against the fp64 oracle, {quiet(view.tried(campaign, number))}"
    checked = f"Correct on {passed} of {numbers.many(total, 'case')} {against}." if total else ""
    ends = "" if not why or why.endswith((".", "!", "?", "…")) else "."
    return _wrapped(f"{why}{ends} {checked}".strip())


def _result(width: int, name: str, before_us: float, after_us: float, speedup: float) -> str:
    before, after = numbers.duration(before_us), numbers.duration(after_us)
    return f"  {name:<{width}}  {before:>8} -> {after:>8}  {numbers.ratio(speedup):>6}"


def _results(campaign: Campaign, number: VariantNumber) -> str:
    score = view.score_of(campaign, number)
    runner = view.runner(campaign)
    if score is None or runner is None:
        return ""
    static = score.evidence is Evidence.STATIC
    where = (
        f"estimated for {runner.arch} by compiling, not timed; {labels.MODEL_ERROR}"
        if static
        else f"measured on {quiet(runner.gpu_name)}"
    )
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    cases = [
        (quiet(names.get(case.case, case.case), 30), case.before_us, case.after_us, case.speedup)
        for case in score.cases[:MOST_CASES]
    ]
    shapes = [(quiet(row.name, 30), row.before_us, row.after_us, row.speedup) for row in gains.shapes(campaign, number)]
    summed = shapes[:MOST_CASES] if gains.adds_up(campaign) else []
    width = max((len(name) for name, *_ in (*cases, *summed)), default=0)
    lines = [_result(width, *row) for row in cases]
    more = len(score.cases) - len(cases)
    lines += [f"  and {numbers.many(more, 'more case')}"] * (more > 0)
    if summed:
        lines += ["Forward and backward added:", *(_result(width, *row) for row in summed)]
        more = len(shapes) - len(summed)
        lines += [f"  and {numbers.many(more, 'more shape')}"] * (more > 0)
    mean = _wrapped(f"{numbers.speed_alone(score)} = {gains.mean_of(campaign)}")
    memory = numbers.memory(score)
    means = [mean, f"{memory}, by the pass of each shape that needs most"] if memory else [mean]
    return "\n".join([f"Results ({where}):", *lines, *means])


def _approver(campaign: Campaign) -> str:
    """Who let it be pushed: a person, or the repository's own policy, which says so."""
    final = campaign.answer_to(Checkpoint.FINAL)
    if final and final.approved:
        return final.actor.login
    return 'repository policy (final_approval = "none")' if campaign.policy.final_approval == "none" else ""


def _trailers(campaign: Campaign, number: VariantNumber, approver: str = "") -> str:
    """`Judged-at`, for a judge is all that `Evidence: static` had: no GPU measured it."""
    score = view.score_of(campaign, number)
    trailers = {
        "Kernelwright-Campaign": campaign.id,
        "Judged-at": campaign.measured_at or (campaign.pull.head_sha if campaign.pull else ""),
        "Evidence": str(score.evidence) if score else "",
        "Requested-by": campaign.requester.login if campaign.requester else "",
        "Approved-by": approver,
        "Signed-off-by": f"{AUTHOR[0]} <{AUTHOR[1]}>" if campaign.policy.signoff else "",
    }
    return "\n".join(f"{name}: {value}" for name, value in trailers.items() if value)


def round_message(campaign: Campaign, number: VariantNumber) -> str:
    """One accepted round on `optimize/<campaign>`, so that reviewers can diff any variant."""
    played = campaign.round_of(number)
    hypothesis = played.variant.hypothesis if played else None
    title = quiet(hypothesis.title) if hypothesis else view.title_of(campaign, number)
    subject = f"[optimize] {view.kernel(campaign)} triton round-{number + 1}: {title}"
    expected = quiet(f"{hypothesis.why} Expected: {hypothesis.expected}") if hypothesis else ""
    facts = [
        _wrapped(f"Hypothesis: {expected}", rest="  "),
        _wrapped(f"Result: {numbers.over(view.score_of(campaign, number), 'v0')}", rest="  "),
        f"Details: campaigns/{campaign.id}/{view.kernel(campaign)}_v{number}_notes.md",
    ]
    shown = subject if len(subject) <= SUBJECT else subject[: SUBJECT - 1].rstrip() + "…"
    return "\n\n".join([shown, "\n".join(facts), _trailers(campaign, number)]) + "\n"


def winner_message(campaign: Campaign) -> str:
    """The winning commit, fit to be read in five years without this conversation."""
    number = view.best(campaign)
    parts = (
        _subject(campaign, number),
        _summary(campaign, number),
        _changes(campaign, number),
        _results(campaign, number),
        _trailers(campaign, number, _approver(campaign)),
    )
    return "\n\n".join(part for part in parts if part) + "\n"
