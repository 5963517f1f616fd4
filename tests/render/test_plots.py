"""Pictures: as somebody last looked at them, legible on a phone, honest in their titles, unmoved by hostile names."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from bot.model.campaign import Campaign
from bot.model.measurement import Evidence
from bot.model.verdict import CaseScore
from bot.render import plot_canvas, plot_cases, plot_lineage, plot_roofline, plots
from bot.render.plot_canvas import DARK, LIGHT, Look
from bot.render.plot_data import NO_FIGURES, Figures, Roof, Spread
from tests.conftest import GOLDEN
from tests.render import builders as a
from tests.render import pictures as of

EVERY = pytest.mark.parametrize("name", list(plots.PLOTS))
PHONE = 375
"""Pixels of a small phone's width."""
LEAST = 10
"""Pixels a letter has to be tall there."""
KEPT = {
    "speedup-static-light": lambda: plots.picture("speedup", *of.estimated()),
    "speedup-measured-dark": lambda: plots.picture("speedup", *of.timed(), dark=True),
    "variants-measured-light": lambda: plots.picture("variants", *of.timed()),
    "variants-static-dark": lambda: plots.picture("variants", *of.estimated(), dark=True),
    "roofline-static-light": lambda: plots.picture("roofline", *of.estimated()),
    "roofline-measured-dark": lambda: plots.picture("roofline", *of.timed(), dark=True),
    "lineage-static-light": lambda: plots.picture("lineage", *of.estimated()),
    "lineage-measured-dark": lambda: plots.picture("lineage", *of.timed(), dark=True),
    "trend-measured-light": lambda: plots.trend(of.nights()),
    "trend-measured-dark": lambda: plots.trend(of.nights(), dark=True),
}


@pytest.mark.parametrize("name", KEPT)
def test_it_looks_as_when_somebody_looked(name: str, request: pytest.FixtureRequest) -> None:
    png, path = KEPT[name](), GOLDEN / "plots" / f"{name}.png"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png)
    assert path.is_file(), f"no picture {path.name}; draw it with --update-golden and look at it"
    assert of.away(png, path.read_bytes()) <= of.MOST_AWAY, f"{path.name} changed; --update-golden if that is wanted"
    assert len(png) < 200_000


def test_one_bar_that_is_a_little_longer_is_noticed() -> None:
    campaign, known = of.timed()
    played = campaign.rounds[0]
    assert played.verdict is not None and played.verdict.score is not None
    score = played.verdict.score.model_copy(update={"value": 1.22, "speed": 1.22})
    verdict = played.verdict.model_copy(update={"score": score})
    rounds = (played.model_copy(update={"verdict": verdict}), *campaign.rounds[1:])
    changed = plots.picture("variants", campaign.model_copy(update={"rounds": rounds}), known)
    assert of.away(changed, (GOLDEN / "plots" / "variants-measured-light.png").read_bytes()) > of.MOST_AWAY


def texts(figure: Any) -> list[Any]:
    """Every word that is drawn. Ticks beyond the ends of an axis have words too, and nobody sees them."""
    from matplotlib.text import Text

    unseen = set()
    for axes in figure.axes:
        low, high = axes.get_xlim()
        unseen |= {id(t.label1) for t in axes.xaxis.get_major_ticks() if not low <= t.get_loc() <= high}
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in found if id(text) not in unseen]


@EVERY
@pytest.mark.parametrize("busy", [False, True])
def test_a_phone_shows_every_word_whole_and_legible(name: str, busy: bool) -> None:
    campaign, known = (of.crowded(), of.timed()[1]) if busy else of.timed()
    figure = of.figure(name, campaign, known)
    width, height = figure.canvas.get_width_height()
    assert width == 1080
    assert height < 2400
    for text in texts(figure):
        box = text.get_window_extent()
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        assert inside, f"{text.get_text()!r} is cut off"
        pixels = text.get_fontsize() / 72 * plot_canvas.DPI * PHONE / width
        assert pixels >= LEAST, f"{text.get_text()!r} is {pixels:.1f} pixels tall on a phone"


FIGURE = re.compile(r"(?<![\w.])[-±+]?\d[\d.]*(?:e[+-]?\d+)?(?![\w.]*x\d)")
UNITS = re.compile(
    r"\s?(x|%|us|ms|s|GB/s|TB/s|[GT]FLOP/s|FLOP/B|of|cases?|shapes?|ideas?|kept|variants?|nights?|kernels?|slower|faster)\b|\s?%"
)


@EVERY
def test_no_number_stands_without_a_unit(name: str) -> None:
    names = {"fwd", "bwd", "full"}
    for text in texts(of.figure(name, *of.timed())):
        words = text.get_text()
        if words.split()[0] in names or (text.get_color() == LIGHT.quiet and name == "lineage"):
            continue  # a case's own name, an idea's own title
        for found in FIGURE.finditer(words):
            assert UNITS.match(words, found.end()), f"{found[0]} in {words!r}"


@pytest.mark.parametrize(("most", "said"), [(999, "0 GB/s, 500 GB/s"), (1000, "0 TB/s, 0.5 TB/s")])
def test_the_ticks_of_one_axis_have_one_unit(most: float, said: str) -> None:
    show = plot_roofline.rates(most)
    assert ", ".join(map(show, (0, 500))) == said
    words = {text.get_text() for text in texts(of.figure("roofline", *of.timed()))}
    assert {"0 TB/s", "2 TB/s"} <= words and "0 GB/s" not in words


@EVERY
def test_an_estimate_says_so_in_the_picture(name: str) -> None:
    said = " ".join(text.get_text() for text in texts(of.figure(name, *of.estimated())))
    assert "Estimated (STATIC) for Hopper sm_90, not timed." in said
    assert "Measured" not in said
    said = " ".join(text.get_text() for text in texts(of.figure(name, *of.timed())))
    assert "Measured on NVIDIA H200." in said
    assert "stimated" not in said


def test_the_same_campaign_is_the_same_picture_whatever_the_machine_prefers() -> None:
    import matplotlib

    wanted = plots.picture("variants", *of.estimated())
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.dpi": 20}):
        assert plots.picture("variants", *of.estimated()) == wanted
    assert struct.unpack(">II", wanted[16:24])[0] == 1080


def test_what_can_be_drawn_grows_with_the_campaign() -> None:
    _, known = of.estimated()
    assert plots.available(a.requested()) == ()
    assert plots.available(a.profiled(), known) == ("roofline",)
    assert plots.available(a.searched(), known) == ("speedup", "variants", "roofline", "lineage")
    assert plots.available(a.searched()) == ("speedup", "variants", "lineage")
    only_wrong = a.searched(rounds=a.rounds()[3:], lineage=(0,))
    assert plots.available(only_wrong) == ("lineage",)
    assert plots.available(a.searched(), Figures(roof=Roof(()))) == ("speedup", "variants", "lineage")


@pytest.mark.parametrize("name", ["speedup", "variants", "roofline"])
def test_without_a_score_there_is_nothing_to_draw(name: str) -> None:
    with pytest.raises(AssertionError, match="to draw"):
        plots.picture(name, a.profiled())


@pytest.mark.parametrize(
    ("low", "speedup", "high", "noise", "said"),
    [
        (None, 1.02, None, None, "faster"),
        (None, 0.98, None, None, "slower"),
        (None, 1.0, None, None, "same"),
        (1.001, 1.02, 1.04, None, "faster"),
        (1.0, 1.02, 1.04, None, "same"),
        (0.96, 0.98, 1.0, None, "same"),
        (0.96, 0.98, 0.999, None, "slower"),
        (1.01, 1.02, 1.03, 1.99, "faster"),
        (1.01, 1.02, 1.03, 2.01, "same"),
    ],
)
def test_faster_is_beyond_its_interval_and_the_noise(
    low: float | None, speedup: float, high: float | None, noise: float | None, said: str
) -> None:
    case = CaseScore(case="c", before_us=1.0, after_us=1.0 / speedup, speedup=speedup)
    spread = Spread({"c": (low, high)} if low and high else {}, noise)
    assert plot_cases.state_of(case, spread) == said


def rejected() -> Campaign:
    return a.searched(rounds=a.rounds()[1:2], lineage=(0,))


def test_titles_say_what_was_found() -> None:
    campaign, known = of.timed()
    assert plot_cases.title(campaign, known) == "v3 is 1.42x over v0, 8 of 9 cases faster, 1 slower"
    assert plots.alt("variants", campaign).startswith("rms_norm: v3 is 1.42x over v0, best of 5 variants")
    assert plots.alt("roofline", campaign) == "rms_norm: from 38 % of the roof to 54 % with v3, case by case"
    assert plots.alt("lineage", rejected()) == "rms_norm: which idea led where: 1 idea, 0 kept"
    assert "none of 1 variant is better" in plots.alt("variants", rejected())
    assert "v2 is 0.910x (estimated) over v0 (not accepted)" in plots.alt("speedup", rejected())
    assert plots.alt("roofline", a.profiled()).startswith("rms_norm: v0 reaches 38 % of the roof, estimated")


def test_a_gain_within_the_noise_is_no_headline() -> None:
    played = a.rounds(Evidence.MEASURED)[0]
    assert played.verdict is not None and played.verdict.score is not None
    score = played.verdict.score.model_copy(update={"value": 1.004, "speed": 1.004, "low": 0.998, "high": 1.01})
    verdict = played.verdict.model_copy(update={"score": score})
    unsure = a.measured().model_copy(update={"rounds": (played.model_copy(update={"verdict": verdict}),)})
    assert "v1 shows no significant change" in plots.alt("speedup", unsure)


def test_the_lineage_names_the_rule_that_decided() -> None:
    codes = [plot_lineage.code_of(played) for played in a.rounds()]
    assert codes == [
        "",
        "rejected: regression",
        "with a note: regression",
        "rejected: correctness",
        "rejected: correctness",
    ]
    assert plot_lineage.code_of(a.rounds()[0].model_copy(update={"verdict": None})) == "not judged yet"


def test_a_long_lineage_keeps_what_was_accepted_and_the_latest() -> None:
    rounds = []
    for number in range(1, 31):
        played = a.rounds()[0 if number in (2, 9) else 3]
        rounds.append(
            played.model_copy(update={"variant": played.variant.model_copy(update={"number": number, "parent": 0})})
        )
    shown = [played.variant.number for played in plot_lineage.shown(a.searched(rounds=tuple(rounds)))]
    assert shown == [2, 9, *range(18, 31)]
    plots.picture("lineage", a.searched(rounds=tuple(rounds), lineage=(0, 2, 9)))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


BLIND = {  # Machado, Oliveira and Fernandes 2009, severity 1
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return tuple(sum(weight * part for weight, part in zip(row, rgb, strict=True)) for row in matrix)


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_colours_are_read_and_told_apart_by_everybody(look: Look) -> None:
    assert contrast(look.ink, look.page) >= 7
    assert contrast(look.quiet, look.page) >= 4.5
    for colour in (look.before, look.best, look.accepted, look.refused, look.roof):
        assert contrast(colour, look.page) >= 3, f"{colour} is faint on {look.page}"
    for matrix in BLIND.values():
        best, accepted, roof = (seen(colour, matrix) for colour in (look.best, look.accepted, look.roof))
        for one, other in ((best, accepted), (best, roof)):
            assert sum((x - y) ** 2 for x, y in zip(one, other, strict=True)) ** 0.5 > 60


def test_nothing_is_known_of_a_campaign_without_figures() -> None:
    assert NO_FIGURES.spread(3) == Spread()
    assert NO_FIGURES.roof is None


def test_the_one_mark_of_the_best_keeps_its_colour() -> None:
    from io import BytesIO

    from PIL import Image

    drawn = Image.open(BytesIO(plots.picture("lineage", of.crowded()))).convert("RGB")
    assert bytes.fromhex(LIGHT.best[1:]) in {bytes(colour) for _, colour in drawn.getcolors(1 << 20)}
