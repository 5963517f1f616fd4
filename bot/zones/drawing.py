"""Records and plots of a campaign, as files for the ledger commit that carries the facts they were drawn from."""

from __future__ import annotations

from collections.abc import Mapping

from bot.analysis.rivals import of_campaign
from bot.ledger.layout import campaign_dir, plot_path
from bot.model.campaign import Campaign
from bot.model.facts import JournalLine
from bot.render.records import records
from bot.zones.figures import figures_of


def draw_records(campaign: Campaign, lines: tuple[JournalLine, ...]) -> Mapping[str, bytes]:
    """Every text record. Needs no plotting packages, so any zone can do it."""
    if campaign.profile is None:
        return {}
    folder = campaign_dir(campaign.id)
    made = records(campaign, lines, of_campaign(campaign))
    return {f"{folder}/{path}": content for path, content in made.items()}


def draw_all(campaign: Campaign, lines: tuple[JournalLine, ...]) -> Mapping[str, bytes]:
    """Records and every plot there is something to draw in, each in light and dark."""
    from bot.render import plots  # matplotlib takes more than a second to import

    files, known = dict(draw_records(campaign, lines)), figures_of(campaign)
    for name in plots.available(campaign, known):
        for dark in (False, True):
            files[plot_path(campaign.id, name, dark=dark)] = plots.picture(name, campaign, known, dark=dark)
    return files
