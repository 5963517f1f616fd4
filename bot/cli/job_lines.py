"""What a terminal shows of jobs: a line when one begins, and another when it came to its end. Both bear the number that
the job's folder has."""

from __future__ import annotations

from bot.cli.job_log import campaign_of
from bot.cli.watching import STAGES
from bot.localhub.steps import LOG, Ran
from bot.model.campaign import Stage
from bot.render.numbers import seconds

CHECKING = "checking what the job found, and writing it up"
DOES = {
    "decide": "reading what was written",
    "take": "looking for what is to be done next",
    "publish": CHECKING,
    "push": "reading the approval once more before the push",
    "reconcile": "looking at every open campaign",
}
"""By zone. What a GPU job does depends on where its campaign stands."""


def _line(ran: Ran, middle: str, told: str) -> str:
    number = ran.folder.name.partition("-")[0]
    return f"  {number} {ran.zone or ran.job:9} {middle:>8}  {told}".rstrip()


class JobLines:
    def __init__(self) -> None:
        self._stages: dict[str, str] = {}
        """Campaign -> where the last job that spoke of it left it."""

    def began(self, ran: Ran) -> str:
        stage = self._stages.get(campaign_of(ran), "")
        does = STAGES[Stage(stage)][1] if stage and ran.zone == "measure" else DOES.get(ran.zone, "")
        return _line(ran, "begins", does)

    def ended(self, ran: Ran) -> str:
        """What it was, how long it took, what came of it."""
        words = {"cancelled": "stopped", "failure": f"failed: see {ran.folder / LOG}"}
        told = words.get(ran.result) or ran.report.get("reason_code", "")
        stage = ran.report.get("stage") if ran.result == "success" else None
        if stage:
            self._stages[campaign_of(ran)] = stage
        return _line(ran, seconds(ran.seconds), f"{told:22}{f' now {stage}' if stage else ''}")
