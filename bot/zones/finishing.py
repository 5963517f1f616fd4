"""The winner's tests and style check, file by file, so that a job that is stopped in them goes on where it was."""

from __future__ import annotations

from collections.abc import Callable

from bot.campaign.effects import FinishWinner
from bot.campaign.lineage import sources_of
from bot.model.campaign import Campaign
from bot.model.facts import Fact, FilePassed, Finalized
from bot.zones import oracle
from bot.zones.workshop import Workshop


def finished(
    campaign: Campaign, shop: Workshop, head: str, effect: FinishWinner, tell: Callable[[Fact], None]
) -> Finalized:
    """`tell` hears of each test file that passed."""
    assert campaign.profile is not None
    done = shop.finish(
        shop.repo,
        head,
        campaign.profile.site,
        effect.winner,
        sources_of(campaign, effect.winner),
        python=shop.python,
        scratch=shop.scratch / "finish",
        judging=campaign.profile.oracle_differs,
        judged_by=oracle.judged_by(campaign),
        gpu=shop.gpu,
        with_script=campaign.policy.benchmark_script,
        earlier=campaign.tested,
        passed=lambda file: tell(FilePassed(order=effect.order, file=file)),
    )
    return Finalized(order=effect.order, finalization=done)
