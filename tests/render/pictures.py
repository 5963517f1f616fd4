"""What pictures are drawn from in tests, and how two of them are compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from bot.model.campaign import Campaign
from bot.model.measurement import Evidence
from bot.render import plots
from bot.render.plot_canvas import look_of
from bot.render.plot_data import Figures, PastResult, Roof, RoofPoint, Spread
from tests.render import builders as a

SMALLER = 4
"""Pictures are compared at a quarter of their size: a hair's breadth of another rasteriser is not a change."""
MOST_AWAY = 0.004
"""Share of the pixels that may differ by more than a tenth of the whole range."""


def roof(campaign: Campaign, *, copies: bool) -> Roof:
    assert campaign.profile is not None
    score = campaign.rounds[2].verdict and campaign.rounds[2].verdict.score
    after = {case.case: case.after_us for case in score.cases} if score else {}
    points = []
    for one in campaign.profile.baseline.cases:
        assert one.timing is not None
        size = one.minimum_bytes / 1000
        copy = size / (size / 4300 + 2.2) if copies else None
        intensity = {"forward": 1.0, "backward": 1.83}.get(one.case.partition("-")[0], 1.4)
        points.append(RoofPoint(one.case, size / one.timing.median_us, size / after[one.case], copy, intensity))
    return Roof(tuple(points), 4800, 67, "NVIDIA H200 SXM")


def estimated() -> tuple[Campaign, Figures]:
    campaign = a.searched()
    return campaign, Figures(roof=roof(campaign, copies=False))


def timed() -> tuple[Campaign, Figures]:
    campaign = a.measured()
    score = a.rounds(Evidence.MEASURED)[2].verdict
    assert score is not None and score.score is not None
    spans = {case.case: (case.speedup * 0.985, case.speedup * 1.015) for case in score.score.cases}
    return campaign, Figures({3: Spread(spans, 0.8)}, roof(campaign, copies=True))


def crowded() -> Campaign:
    """More variants and cases than a page holds, with names that are formulas."""
    found = []
    for number in range(1, 60):
        played = a.rounds()[2]
        assert played.verdict is not None and played.verdict.score is not None
        cases = tuple(
            case.model_copy(update={"case": f"$\\frac{{1}}{{{i}}}$\u202e" * 9, "speedup": 0.3 + i})
            for i, case in enumerate(played.verdict.score.cases * 5)
        )
        score = played.verdict.score.model_copy(update={"value": 0.5 * number, "speed": 0.5 * number, "cases": cases})
        verdict = played.verdict.model_copy(update={"score": score})
        idea = played.variant.hypothesis.model_copy(update={"title": "$\\alpha_{" * 40})
        variant = played.variant.model_copy(update={"number": number, "parent": number - 1, "hypothesis": idea})
        found.append(played.model_copy(update={"variant": variant, "verdict": verdict}))
    return a.searched(rounds=tuple(found), lineage=tuple(range(60)))


def night(day: int, kernel: str, us: float, **fields: Any) -> PastResult:
    known: dict[str, Any] = {
        "day": f"2026-11-{day:02d}", "kernel": kernel, "gpu": "NVIDIA H200", "us": us, "evidence": Evidence.MEASURED,
        "low_us": 0.99 * us, "high_us": 1.01 * us, "noise_percent": 0.6,
    }  # fmt: skip
    return PastResult(**(known | fields))


def nights() -> list[PastResult]:
    """Three weeks: one kernel got faster, one slower, one stayed, and one is new."""
    found = []
    for day in range(1, 22):
        wave = 1 + 0.002 * math.sin(day)
        late = day >= 12
        found += [
            night(day, "rms_norm", 412 * wave * (0.7 if late else 1), mark="v3 merged" if day == 12 else ""),
            night(day, "layer_norm", 88 * wave * (1.04 if late else 1), mark="triton 3.7" if day == 12 else ""),
            night(day, "geglu", 240 * wave),
        ]
    return [*found, night(21, "cross_entropy", 1830)]


def figure(name: str, campaign: Campaign, known: Figures, *, dark: bool = False) -> Any:
    """The drawing itself, with its words still words."""
    from matplotlib import style

    with style.context("default"):
        drawn = plots.PLOTS[name](campaign, known, look_of(dark))
        drawn.canvas.draw()
        return drawn


def _small(png: bytes) -> np.ndarray[Any, Any]:
    image = Image.open(BytesIO(png)).convert("RGB")
    return np.asarray(image.resize((image.width // SMALLER, image.height // SMALLER), Image.Resampling.BOX), float)


def away(one: bytes, other: bytes) -> float:
    """Share of the pixels that are not the same; 1 for another size."""
    left, right = _small(one), _small(other)
    if left.shape != right.shape:
        return 1.0
    return float((np.abs(left - right).max(axis=2) > 25).mean())


Draw = Callable[[], bytes]
