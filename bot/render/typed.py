"""What can be typed at each moment: the last line of every comment."""

from __future__ import annotations

from bot.model.campaign import MOST_RETRIES, Campaign, Outcome, Stage
from bot.render import view
from bot.render.escape import Trusted

WAITING = (Stage.AWAIT_PROFILE, Stage.AWAIT_WINNER, Stage.AWAIT_FINAL)
OVER = (Stage.NEW, Stage.CLOSING, Stage.ENDED)
ALWAYS = ("/optimize help",)
IDLE = ("/optimize list", *ALWAYS)
ANEW = "/optimize restart"


def approval(campaign: Campaign) -> str:
    """The line that says yes to the question a campaign waits on."""
    chosen = view.best(campaign)
    return "/optimize approve" if campaign.stage is Stage.AWAIT_PROFILE else f"/optimize approve v{chosen}"


def can_retry(campaign: Campaign) -> bool:
    """Whether a job of it failed and may be done again."""
    return campaign.outcome is Outcome.FAILED and campaign.failed is not None and campaign.retries < MOST_RETRIES


def _explain(campaign: Campaign) -> tuple[str, ...]:
    return ("/optimize explain vN",) if campaign.rounds else ()


def _afterwards(campaign: Campaign) -> tuple[str, ...]:
    retry = ("/optimize retry",) if can_retry(campaign) else ()
    return (*retry, *_explain(campaign), ANEW)


def now(campaign: Campaign | None) -> tuple[str, ...]:
    if campaign is None:
        return IDLE
    if campaign.stage in OVER:
        return (*_afterwards(campaign), *IDLE) if campaign.command else IDLE
    answers = (approval(campaign), "/optimize reject [reason]") if campaign.stage in WAITING else ()
    tries = ("/optimize try <sha>",) if campaign.stage in view.TRY_STAGES else ()
    cancel = () if campaign.stage is Stage.PUSHING else ("/optimize cancel",)
    return (*answers, *tries, *_explain(campaign), "/optimize status", *cancel, *ALWAYS)


def line(commands: tuple[str, ...]) -> Trusted:
    """`commands` are ours: a verb table's words and checked names."""
    return Trusted("commands: " + " · ".join(f"`{command}`" for command in commands))
