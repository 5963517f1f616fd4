"""One function for each thing the bot can say: a campaign goes in, Markdown comes out. The caller adds the marker."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from bot.model.campaign import Campaign, Checkpoint, Stage
from bot.model.commands import CommandError, Optimize
from bot.model.ids import VariantNumber
from bot.model.people import Actor, Refusal
from bot.model.reasons import ReasonCode
from bot.model.rivals import Rivalry
from bot.model.wait import Wait
from bot.render import (
    answering,
    bars,
    budget,
    commit,
    escape,
    explaining,
    folded,
    from_roof,
    gains,
    labels,
    machines,
    mind,
    numbers,
    plots,
    profile_page,
    rival_rows,
    script_rows,
    self_tuned,
    steps,
    story,
    tables,
    typed,
    view,
    waiting,
)
from bot.render.budget import Detail
from bot.render.environment import render
from bot.render.escape import Trusted
from bot.render.links import Links, link, picture
from bot.render.meanings import MEANINGS
from bot.render.view import Differ

NO_LINKS = Links()
OPEN_CASES = 12
"""Rows of a table of cases that is not folded."""
MOST_FILES = 8
STATUS_LIMIT = 140
MOST_TURNS = 30
"""Rounds that a story tells in a comment; a long search keeps its middle in the record."""
LIST_LIMIT = 200
"""Kernels one listing names; a library has dozens."""


def _said(template: str, values: dict[str, Any], commands: tuple[str, ...]) -> str:
    body = render(f"comments/{template}.md.j2", **values)
    return f"{body}\n{typed.line(commands)}\n"


def _origin(links: Links) -> Trusted:
    """Where everything is kept."""
    pointers = [link("record", links.ledger), link("every accepted variant", links.lineage), link("run", links.run)]
    return Trusted(" · ".join(str(pointer) for pointer in pointers if pointer))


def _values(campaign: Campaign, links: Links) -> dict[str, Any]:
    """What every page about a campaign may speak of."""
    number = view.best(campaign)
    score = view.score_of(campaign, number)
    passed, total = view.right(view.measurement_of(campaign, number))
    return {
        "campaign": campaign,
        "kernel": escape.code(view.kernel(campaign)),
        "name": Trusted(view.kernel(campaign)),
        "pinned": view.pinned(campaign),
        "branch": view.branch(campaign),
        "policy": campaign.policy,
        "as_patch": bool(view.why_patch(campaign)),
        "why_patch": view.why_patch(campaign),
        "static": view.is_static(campaign),
        "runner": view.runner(campaign),
        "number": number,
        "best": f"v{number}",
        "title": view.title_of(campaign, number).rstrip(". "),
        "speedup": numbers.score(score),
        "gained": gains.gained(campaign, number),
        "gained_v0": numbers.over(score, "v0"),
        "made_of": gains.explained(campaign, number),
        "way": gains.way(campaign, number),
        "passed": passed,
        "total": total,
        "tried": view.tried(campaign, number),
        "model_error": labels.MODEL_ERROR,
        "notes": view.notes(campaign),
        "minds": [escape.text(said, escape.SENTENCE_LIMIT) for said in mind.of_kernel(campaign)],
        "failed_before": mind.failed_before(campaign),
        "failed_before_next": mind.failed_before_next(campaign),
        "seen": bool(
            campaign.answer_to(Checkpoint.WINNER) or (campaign.outcome and campaign.answer_to(Checkpoint.FINAL))
        ),
        "checked": steps.checked(campaign),
        "worst": view.worst(score),
        "names": labels.case_names(campaign.profile.suite if campaign.profile else None),
        "held_back": steps.held_back(campaign),
        "roof": steps.roof(campaign),
        "searched": steps.searched(campaign),
        "stopped": labels.STOPPED[campaign.stopped] if campaign.stopped else "",
        "site": campaign.profile.site if campaign.profile else None,
        "origin": _origin(links),
        "links": links,
        "machine": folded.machine(view.runner(campaign), machines.sentence(campaign)),
        "fold": tables.fold,
    }


def _beaten(campaign: Campaign, rivals: Rivalry | None) -> Trusted:
    """Who is faster than what the page is about, as a sentence; empty where nobody is."""
    said = rival_rows.beaten(rivals, view.case_names(campaign))
    return Trusted(f"{escape.text(said, escape.SENTENCE_LIMIT)}.") if said else Trusted("")


def _findings(campaign: Campaign, links: Links, detail: Detail, rivals: Rivalry | None) -> dict[str, Any]:
    """The variants: an open table, the plot and its text, and everything else folded."""
    shown = tables.shown(campaign, detail.visible)
    others = tuple(r.variant.number for r in campaign.rounds if r.variant.number not in shown)
    rest = others[: detail.folded]
    every = (*shown, *rest) if detail.folded else shown
    number = view.best(campaign)
    return {
        "table": tables.variants(campaign, shown),
        "bars": bars.variants(campaign, shown),
        "others": tables.variants(campaign, rest) if rest else Trusted(""),
        "other_count": numbers.many(len(others), "more variant"),
        "left_out": numbers.many(len(others) - len(rest), "more variant") if len(others) > len(rest) else "",
        "variants_picture": picture(links.variants_light, links.variants_dark, plots.alt("variants", campaign)),
        "cases_picture": picture(links.plot_light, links.plot_dark, plots.alt("speedup", campaign)),
        "roof_picture": picture(links.roofline_light, links.roofline_dark, plots.alt("roofline", campaign)),
        "lineage_picture": picture(links.lineage_light, links.lineage_dark, plots.alt("lineage", campaign)),
        "cases": folded.cases(campaign, number, detail.cases),
        "open_cases": folded.cases(campaign, number, min(detail.cases, OPEN_CASES)),
        "baseline": folded.baseline(campaign, min(detail.cases, OPEN_CASES)),
        "beaten": _beaten(campaign, rivals),
        "rivals": rival_rows.of_report(rivals, view.case_names(campaign), detail.cases),
        "from_roof": from_roof.of_report(rivals, view.case_names(campaign), detail.cases),
        "from_roof_head": from_roof.headline(rivals),
        "resources": folded.resources(campaign, every),
        "passports": folded.passports(campaign, every),
        "findings": folded.findings(campaign, every, 3 * len(every)),
    }


def _settings(command: Optimize | None) -> dict[str, Any]:
    if command is None:
        return {"goal": "balanced", "scope": "both passes", "gpu": "any", "mode": "interactive", "target": ""}
    return {
        "goal": labels.GOALS[command.goal],
        "scope": labels.SCOPES[command.scope],
        "gpu": labels.GPUS[command.gpu],
        "mode": command.mode,
        "target": command.target.text if command.target else "",
    }


def _page(
    template: str,
    campaign: Campaign,
    links: Links,
    more: Callable[[Detail], dict[str, Any]] = lambda _: {},
    rivals: Rivalry | None = None,
) -> str:
    def at(detail: Detail) -> str:
        values = _values(campaign, links) | _findings(campaign, links, detail, rivals) | more(detail)
        return _said(template, values, typed.now(campaign))

    return budget.fitted(at)


def status(campaign: Campaign, links: Links = NO_LINKS, wait: Wait | None = None) -> str:
    """The one living comment: what was understood, where it stands, how to stop it."""
    values = _values(campaign, links) | _settings(campaign.command)
    values |= {
        "glyph": steps.glyph(campaign),
        "headline": steps.headline(campaign, wait),
        "steps": steps.table(campaign, wait),
        "requester": campaign.requester.login if campaign.requester else "",
        "budget": numbers.many(view.budget(campaign), "variant"),
        "over": campaign.stage in (Stage.CLOSING, Stage.ENDED),
        "waiting": campaign.stage in typed.WAITING,
        "queue": waiting.line(wait),
        "asks": Stage.AWAIT_FINAL in steps.asked(campaign) and campaign.stage is not Stage.PUSHING,
    }
    return budget.cut(_said("status", values, typed.now(campaign)))


def commit_status(campaign: Campaign) -> str:
    """The one line beside a commit's dot: GitHub allows 140 characters."""
    head = steps.headline(campaign)
    best = f"; v{campaign.incumbent} is {view.speedup_of(campaign, campaign.incumbent)}" if campaign.incumbent else ""
    reason = f" ({campaign.reason})" if campaign.reason else ""
    return escape.plain(f"{head}{reason}{best}", STATUS_LIMIT)


def checkpoint_profile(campaign: Campaign, links: Links = NO_LINKS, rivals: Rivalry | None = None) -> str:
    """Asks whether to go on from what the profile found."""
    profile = campaign.profile
    assert profile is not None, "a profile checkpoint needs a profile"

    def more(detail: Detail) -> dict[str, Any]:
        return {
            "approval": typed.approval(campaign),
            "who": answering.who(campaign),
            "diagnosis": profile.diagnosis,
            "differs": [escape.code(path) for path in profile.oracle_differs[: detail.visible]],
            "differ_count": len(profile.oracle_differs),
            "site": profile.site,
            "budget": numbers.many(view.budget(campaign), "variant"),
        } | profile_page.of_comment(campaign, profile, detail.visible, detail.folded)

    return _page("checkpoint_profile", campaign, links, more, rivals)


def checkpoint_winner(campaign: Campaign, links: Links = NO_LINKS, rivals: Rivalry | None = None) -> str:
    """Asks which variant to finish."""
    picks = [f"v{number}" for number in campaign.lineage[1:] if number != view.best(campaign)]
    asked = {"approval": typed.approval(campaign), "who": answering.who(campaign), "picks": picks[-8:]}
    return _page("checkpoint_winner", campaign, links, lambda _: asked, rivals)


def _files(campaign: Campaign) -> list[Trusted]:
    changed = view.changed_files(campaign)
    more = len(changed) - MOST_FILES
    rest = [Trusted(f"{more} more")] if more > 0 else []
    return [*(escape.code(path) for path in changed[:MOST_FILES]), *rest]


def _finalization(campaign: Campaign, detail: Detail, diff: str) -> dict[str, Any]:
    """What the clean worktree said: the table of commands, what failed, the change itself."""
    done = campaign.finalization
    runs = script_rows.commands(done) if done else []
    return {
        "approval": typed.approval(campaign),
        "runs": folded.commands(runs[: 2 * detail.visible]),
        "failed": view.failed_run(campaign),
        "script": script_rows.folded(campaign),
        "lines": detail.lines,
        "diff": escape.fence(diff, "diff", lines=detail.lines, limit=12_000) if diff else Trusted(""),
        "diff_size": view.diff_size(diff),
        "files": _files(campaign),
        "message": escape.fence(commit.winner_message(campaign), "text", lines=detail.lines),
        "who": answering.who(campaign, final=True),
    }


def checkpoint_final(campaign: Campaign, links: Links = NO_LINKS, differ: Differ = view.diff) -> str:
    """Asks whether to push. Tests and style have passed."""
    diff = differ(view.sources_of(campaign, 0), view.committed(campaign))
    return _page("checkpoint_final", campaign, links, lambda detail: _finalization(campaign, detail, diff))


def _last_word(campaign: Campaign) -> str:
    """Who ended it: gave the final approval, or said no."""
    final = campaign.answer_to(Checkpoint.FINAL)
    refused = [answer for answer in campaign.answers if not answer.approved]
    found = refused[-1] if refused else final
    return found.actor.login if found else ""


def _is_reviewed(campaign: Campaign) -> bool:
    """Whether the push was approved by a review, which is what a merge waits for."""
    final = campaign.answer_to(Checkpoint.FINAL)
    return final is not None and final.approved and final.via == "review"


def _commit(campaign: Campaign, links: Links) -> Trusted:
    name = f"`{(campaign.pushed or '')[:7]}`"
    return link(name, links.commit) or Trusted(name)


def _first_line(body: str, said: Trusted) -> str:
    """With a sentence at the end of it, so that nobody reads of a gain without it."""
    head, newline, rest = body.partition("\n")
    return f"{head} **{said}**{newline}{rest}" if said else body


def result(
    campaign: Campaign, links: Links = NO_LINKS, differ: Differ = view.diff, rivals: Rivalry | None = None
) -> str:
    """The last word of a campaign, whatever it is."""
    outcome = campaign.outcome
    assert outcome is not None, "a result needs an outcome"
    meant = MEANINGS[campaign.reason or ReasonCode.INTERNAL_ERROR]
    diff = differ(view.sources_of(campaign, 0), view.committed(campaign))

    def more(detail: Detail) -> dict[str, Any]:
        return _finalization(campaign, detail, diff) | {
            "reason": campaign.reason or "internal_error",
            "detail": campaign.detail,
            "tuned": self_tuned.said(campaign.profile) if campaign.profile else "",
            "again": Trusted(escape.one_command(campaign.again) or typed.ANEW),
            "can_retry": typed.can_retry(campaign),
            "history": story.story(campaign, min(detail.folded, MOST_TURNS)),
            "meaning_what": Trusted(meant.what),
            "meaning_why": Trusted(meant.why),
            "actor": _last_word(campaign),
            "reviewed": _is_reviewed(campaign),
            "commit": _commit(campaign, links),
            "efficient": campaign.stopped == "efficient",
        }

    return _first_line(_page(f"result_{outcome}", campaign, links, more, rivals), _beaten(campaign, rivals))


def explanation(
    campaign: Campaign, number: VariantNumber | None, links: Links = NO_LINKS, differ: Differ = view.diff
) -> str:
    """One variant in words; the one that matters most where none was named."""
    which = view.best(campaign) if number is None else number

    def at(detail: Detail) -> str:
        values = _values(campaign, links) | explaining.values(campaign, which, detail, differ)
        return _said("explanation", values, typed.now(campaign))

    return budget.fitted(at)


def _whole(said: str) -> str:
    """A sentence as a page writes it, however its author began and ended it."""
    ended = said if said[-1:] in (".", "?", "!", ":", "") else f"{said}."
    return ended[:1].upper() + ended[1:]


def refusal(found: Refusal, actor: Actor, links: Links = NO_LINKS, *, once: bool = False) -> str:
    """The command may not be carried out. `once`: it is not explained to this person a second time."""
    values = {
        "actor": actor.login,
        "what": found.what.rstrip("."),
        "code": found.code,
        "why": _whole(found.why),
        "next": _whole(found.next),
        "once": once,
        "paste": Trusted(escape.one_command(found.paste)),
        "run": link("run", links.run),
    }
    return budget.cut(_said("refusal", values, IDLE_OR_STATUS))


IDLE_OR_STATUS = ("/optimize status", *typed.IDLE)


def command_error(error: CommandError, actor: Actor, links: Links = NO_LINKS) -> str:
    """The comment could not be understood."""
    values = {
        "actor": actor.login,
        "what": error.what.rstrip("."),
        "code": error.code,
        "why": _whole(error.why),
        "hint": _whole(error.hint),
        "paste": Trusted(escape.one_command(error.paste)),
        "run": link("run", links.run),
    }
    return budget.cut(_said("command_error", values, typed.IDLE))


def help(body: str, campaign: Campaign | None = None) -> str:
    """`body` is the page of commands/help.py, Markdown of ours."""
    return budget.cut(_said("help", {"body": Trusted(body)}, typed.now(campaign)))


def meaning(reason: ReasonCode) -> str:
    """What a reason code means, for who read it somewhere."""
    found = MEANINGS[reason]
    said = {"what": Trusted(found.what), "why": Trusted(found.why), "next": Trusted(found.next)}
    return _said("meaning", {"reason": reason, **said}, IDLE_OR_STATUS)


def listing(kernels: Collection[str], touched: Collection[str] = ()) -> str:
    """The kernels that can be asked for; those this pull request touches come first."""
    first = [name for name in kernels if name in set(touched)]
    rest = [name for name in kernels if name not in set(touched)]
    names = [*first, *rest]
    values = {
        "touched": [escape.code(name) for name in first[:LIST_LIMIT]],
        "others": [escape.code(name) for name in rest[: max(LIST_LIMIT - len(first), 0)]],
        "more": max(len(names) - LIST_LIMIT, 0),
        "count": numbers.many(len(names), "kernel"),
    }
    example = (f"/optimize {names[0]}",) if names and escape.one_command(f"/optimize {names[0]}") else ()
    return budget.cut(_said("listing", values, (*example, *typed.ALWAYS)))


def status_none(last: Campaign | None = None) -> str:
    """What `/optimize status` is answered with while no campaign is open; `last` is the one that ended last."""
    values = {"last": _values(last, NO_LINKS) | {"headline": steps.headline(last)} if last else {}}
    return _said("status_none", values, typed.now(last))
