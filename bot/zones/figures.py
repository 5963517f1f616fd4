"""What pictures show beyond a campaign: intervals, noise floors and roofs, computed from its raw readings."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bot.analysis.measured import controls
from bot.analysis.paired import noise_floor
from bot.analysis.stats import Incomparable, case_readings
from bot.hardware.catalog import for_runner
from bot.model.campaign import Campaign
from bot.model.ids import VariantNumber
from bot.model.measurement import Measurement, Suite
from bot.render import view
from bot.render.plot_data import Figures, Roof, RoofPoint, Spread


def _spread(found: Measurement, suite: Suite) -> Spread:
    """Nothing where nothing was read twice: a picture is no place to fail."""
    try:
        readings = case_readings(found, suite)
        floor = list(controls(found).values())
    except (Incomparable, ValueError):
        return Spread()
    spans = {case: reading.estimate.interval() for case, reading in readings.items()}
    return Spread(
        cases={case: (math.exp(low), math.exp(high)) for case, (low, high) in spans.items() if math.isfinite(high)},
        noise_percent=100 * noise_floor(floor) if floor else None,
    )


def _rate(minimum_bytes: int, us: float | None) -> float | None:
    """GB/s; 1000 bytes in a microsecond are 1 GB/s."""
    return minimum_bytes / us / 1000 if us and minimum_bytes > 0 else None


def roof_of(campaign: Campaign, after: Mapping[str, float]) -> Roof | None:
    """Every scored case of the profile that has bytes to move and a share of the roof that can be, and the best
    variant's times where it has any."""
    profile = campaign.profile
    if profile is None:
        return None
    sheet = for_runner(profile.baseline.runner)
    impossible = {one.case for one in profile.diagnosis.roofs if one.reason is not None}
    scored = {case.id for case in profile.suite.cases} - impossible
    points = tuple(
        RoofPoint(
            case=one.case,
            before=_rate(one.minimum_bytes, one.timing.median_us if one.timing else None),
            after=_rate(one.minimum_bytes, after.get(one.case)),
            plain=_rate(one.minimum_bytes, one.roof_us),
            intensity=one.flops / one.minimum_bytes if one.flops > 0 and one.minimum_bytes > 0 else None,
        )
        for one in profile.baseline.cases
        if one.case in scored and one.minimum_bytes > 0
    )
    products = any(2 * one.matrix_flops > one.flops for one in profile.baseline.cases)
    peak = sheet.number("bf16") if products else sheet.number("fp32")
    return Roof(points=points, ceiling=sheet.number("memory_bandwidth"), peak=peak, gpu=sheet.gpu)


def figures_of(campaign: Campaign) -> Figures:
    best = view.best(campaign)
    score = view.score_of(campaign, best) if best else None
    after = {case.case: case.after_us for case in score.cases} if score else {}
    suite = campaign.profile.suite if campaign.profile else None
    spreads: dict[VariantNumber, Spread] = {}
    for played in campaign.rounds:
        if suite is not None and played.measurement is not None:
            spreads[played.variant.number] = _spread(played.measurement, suite)
    return Figures(spreads=spreads, roof=roof_of(campaign, after))
