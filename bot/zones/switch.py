"""The kill switch: one repository variable turns everything off."""

from __future__ import annotations

from collections.abc import Mapping

from bot.model.campaign import Zone
from bot.model.reasons import ReasonCode
from bot.zones.report import ZoneReport

SWITCH = "KERNELWRIGHT_ENABLED"


def switched_off(environment: Mapping[str, str], zone: Zone) -> ZoneReport | None:
    """The refusal, unless the variable says `true` or nobody set it, as on a machine of one's own.

    A workflow passes on a repository variable that does not exist as the empty word, and that is a no.
    """
    if environment.get(SWITCH, "true") == "true":
        return None
    detail = f"{SWITCH} is not `true` in this repository, so nothing was read and nothing was done"
    return ZoneReport(zone=zone, decision="refused", reason_code=ReasonCode.DISABLED, detail=detail)
