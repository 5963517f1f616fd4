"""Who may answer a question, in a few words: the same that the rules of commands/policy.py hold people to."""

from __future__ import annotations

from bot.model.campaign import Campaign

NEEDED = {"maintain": "the role maintain or admin", "admin": "the role admin"}


def _barred(campaign: Campaign) -> list[str]:
    """Whose yes to the last question does not count, and why."""
    why: dict[str, list[str]] = {}
    if campaign.pull is not None and not campaign.policy.self_approval:
        why.setdefault(campaign.pull.author.login, []).append("wrote this pull request")
    if campaign.requester is not None and not campaign.policy.requester_approval:
        why.setdefault(campaign.requester.login, []).append("asked for this")
    return [f"{login}, who {' and '.join(reasons)}" for login, reasons in why.items()]


def who(campaign: Campaign, *, final: bool = False) -> str:
    needed = NEEDED.get(campaign.policy.may_approve)
    said = f"A yes needs {needed}, a no write access" if needed else "Anyone with write access may answer"
    barred = _barred(campaign) if final else []
    return f"{said}{'; a yes may not come from ' + ', nor from '.join(barred) if barred else ''}."
