"""Effects that speak: the status comment, questions, the result, commit statuses, reactions."""

from __future__ import annotations

from typing import Literal

from bot.analysis.rivals import of_campaign
from bot.campaign.effects import AskHuman, Effect, MarkCommit, OfferPull, ReactFinally, SayResult, SayStatus
from bot.forge.threads import keep, say_once
from bot.git.difference import difference
from bot.ledger.layout import campaign_dir, plot_path
from bot.model.campaign import Campaign, Checkpoint, Outcome
from bot.render import comments
from bot.render.links import Links
from bot.zones.doors import Doors
from bot.zones.hushing import hush_everything_but, hush_questions
from bot.zones.scribe import Scribe
from bot.zones.waiting import waiting

FINAL_REACTION = {
    Outcome.PUSHED: "hooray",
    Outcome.NOTHING_TO_DO: "+1",
    Outcome.REJECTED: "+1",
    Outcome.CANCELLED: "+1",
    Outcome.REVERTED: "-1",
    Outcome.FAILED: "confused",
}


def status_state(campaign: Campaign) -> Literal["pending", "success", "failure", "error"]:
    """pending while anybody works or is waited for; error where it was not finished, by the machine's fault or because
    somebody cancelled it, since GitHub knows no neutral status and green would claim a result; failure is the
    variant's."""
    if campaign.outcome is None:
        return "pending"
    if campaign.outcome in (Outcome.FAILED, Outcome.CANCELLED):
        return "error"
    return "failure" if campaign.outcome is Outcome.REVERTED else "success"


def links(campaign: Campaign, scribe: Scribe, doors: Doors) -> Links:
    """Where the records and plots of this campaign can be read, by the commit they stand in."""
    settings, tip, folder = doors.settings, scribe.tip, campaign_dir(campaign.id)
    drawn = doors.ledger.list(f"{folder}/plots")

    def plot(name: str, *, dark: bool) -> str:
        path = plot_path(campaign.id, name, dark=dark)
        return settings.blob_url(tip, path) + "?raw=true" if path in drawn else ""

    return Links(
        plot_light=plot("speedup", dark=False),
        plot_dark=plot("speedup", dark=True),
        variants_light=plot("variants", dark=False),
        variants_dark=plot("variants", dark=True),
        roofline_light=plot("roofline", dark=False),
        roofline_dark=plot("roofline", dark=True),
        lineage_light=plot("lineage", dark=False),
        lineage_dark=plot("lineage", dark=True),
        ledger=settings.tree_url(tip, folder) if tip else "",
        run=settings.run_url,
        commit=settings.commit_url(campaign.pushed) if campaign.pushed else "",
        lineage=settings.tree_url(f"optimize/{campaign.id}", "") if campaign.incumbent else "",
    )


def _ask(effect: AskHuman, campaign: Campaign, found: Links) -> str:
    match effect.checkpoint:
        case Checkpoint.PROFILE:
            return comments.checkpoint_profile(campaign, found, of_campaign(campaign))
        case Checkpoint.WINNER:
            return comments.checkpoint_winner(campaign, found, of_campaign(campaign))
        case Checkpoint.FINAL:
            return comments.checkpoint_final(campaign, found, difference)


def result_key(campaign: Campaign) -> str:
    """A campaign that was retried ends more than once, and each end is news."""
    return f"{campaign.id}/result" + (f"/{campaign.retries}" if campaign.retries else "")


def _status_beside(campaign: Campaign) -> tuple[str, ...]:
    """Key of the status comment, where it stays in sight beside the result: the end of a cancelled campaign says all
    that its status does."""
    return () if campaign.outcome is Outcome.CANCELLED else (f"{campaign.id}/status",)


def say(effect: Effect, scribe: Scribe, doors: Doors) -> str:
    """Carry out one speaking effect and return what it made. Doing it twice makes nothing twice."""
    campaign, forge = scribe.campaign, doors.forge
    assert campaign.pull is not None and campaign.command is not None
    number = campaign.pull.number
    match effect:
        case SayStatus():
            body = comments.status(campaign, links(campaign, scribe, doors), waiting(scribe, doors))
            return str(keep(forge, number, f"{campaign.id}/status", body))
        case AskHuman():
            body = _ask(effect, campaign, links(campaign, scribe, doors))
            asked = say_once(forge, number, f"{campaign.id}/{effect.key}", body)
            hush_questions(campaign, forge, but=effect.key)
            return str(asked)
        case SayResult():
            key = result_key(campaign)
            body = comments.result(campaign, links(campaign, scribe, doors), difference, of_campaign(campaign))
            said = say_once(forge, number, key, body)
            hush_everything_but(campaign, forge, (*_status_beside(campaign), key))
            return str(said)
        case MarkCommit():
            state, context = status_state(campaign), f"kernelwright/{campaign.command.kernel}"
            for commit in filter(None, (campaign.pull.head_sha, campaign.pushed)):
                forge.set_status(commit, state, context, comments.commit_status(campaign), doors.settings.run_url)
            return state
        case ReactFinally():
            forge.react(campaign.comment_id, FINAL_REACTION[campaign.outcome or Outcome.FAILED])
            forge.unreact(campaign.comment_id, "eyes")
            return ""
        case OfferPull():
            from bot.zones.offer import offer_pull  # what only a sweep needs

            return offer_pull(campaign, links(campaign, scribe, doors), doors)
        case _:
            raise AssertionError(f"{effect} is not said but done")
