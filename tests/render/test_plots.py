"""Pictures: the right size, the same bytes, and no surprises from hostile names."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from bot.model.campaign import Campaign
from bot.render import plots
from tests.render import builders as a

Draw = Callable[..., bytes]
BOTH = pytest.mark.parametrize("draw", [plots.speedup, plots.variants])


def pixels(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


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
        variant = played.variant.model_copy(update={"number": number})
        found.append(played.model_copy(update={"variant": variant, "verdict": verdict}))
    return a.searched(rounds=tuple(found))


@BOTH
def test_a_phone_can_show_it(draw: Draw) -> None:
    for dark in (False, True):
        png = draw(a.searched(), dark=dark)
        width, height = pixels(png)
        assert width == 1080
        assert 400 < height < 1600
        assert len(png) < 200_000


@BOTH
def test_the_same_campaign_is_the_same_picture(draw: Draw) -> None:
    assert draw(a.searched()) == draw(a.searched())
    assert draw(a.searched()) != draw(a.searched(), dark=True)


@BOTH
def test_a_crowd_still_fits(draw: Draw) -> None:
    png = draw(crowded(), dark=True)
    assert len(png) < 200_000
    assert pixels(png)[1] < 2400


@BOTH
def test_settings_of_the_machine_do_not_reach_it(draw: Draw) -> None:
    import matplotlib

    wanted = draw(a.searched())
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.dpi": 20}):
        assert draw(a.searched()) == wanted


@BOTH
def test_where_nothing_was_accepted_the_nearest_is_drawn(draw: Draw) -> None:
    assert draw(a.searched(rounds=a.rounds()[1:2], lineage=(0,))).startswith(b"\x89PNG")


@BOTH
def test_without_a_score_there_is_nothing_to_draw(draw: Draw) -> None:
    with pytest.raises(AssertionError, match="to draw"):
        draw(a.profiled())


@BOTH
def test_the_title_says_where_the_numbers_come_from(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(plots, "_title", lambda figure, first, second, look: said.append(second))
    draw(a.searched())
    draw(a.measured())
    assert said == ["estimated (STATIC) for sm_90, not timed", "measured on NVIDIA H200"]
