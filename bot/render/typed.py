"""What can be typed at each moment: the last line of every comment."""

from __future__ import annotations

from bot.model.campaign import Campaign, Stage
from bot.render import view
from bot.render.escape import Trusted

WAITING = (Stage.AWAIT_PROFILE, Stage.AWAIT_WINNER, Stage.AWAIT_FINAL)
OVER = (Stage.NEW, Stage.CLOSING, Stage.ENDED)
ALWAYS = ("/optimize help",)
IDLE = ("/optimize list", *ALWAYS)


def approval(campaign: Campaign) -> str:
    """The line that says yes to the question a campaign waits on."""
    chosen = view.best(campaign)
    return "/optimize approve" if campaign.stage is Stage.AWAIT_PROFILE else f"/optimize approve v{chosen}"


def now(campaign: Campaign | None) -> tuple[str, ...]:
    if campaign is None:
        return IDLE
    if campaign.stage in OVER:
        return (f"/optimize {view.kernel(campaign)}", *IDLE) if campaign.command else IDLE
    answers = (approval(campaign), "/optimize reject [reason]") if campaign.stage in WAITING else ()
    tries = ("/optimize try <sha>",) if campaign.stage in view.TRY_STAGES else ()
    cancel = () if campaign.stage is Stage.PUSHING else ("/optimize cancel",)
    return (*answers, *tries, "/optimize status", *cancel, *ALWAYS)


def line(commands: tuple[str, ...]) -> Trusted:
    """`commands` are ours: a verb table's words and checked names."""
    return Trusted("commands: " + " · ".join(f"`{command}`" for command in commands))
