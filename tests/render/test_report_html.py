"""One file to be mailed: complete, loads and runs nothing, and whatever a variant says in it stays text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bot.model.campaign import Campaign, Outcome
from bot.model.facts import JournalLine, OrderFailed
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile
from bot.render import report_html
from tests.render import builders as a
from tests.render import pictures as of

PIXEL = b"\x89PNG\r\n\x1a\n-not really-"
HOSTILE = (
    '</pre></style><script>alert(1)</script><img src=x onerror="x()"><a href="javascript:x">\u202eevil\u200b @here'
)
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav", "section", "div", "p", "h1",
    "h2", "h3", "b", "a", "ul", "li", "dl", "dt", "dd", "code", "pre", "span", "table", "thead", "tbody", "tr", "th",
    "td", "details", "summary", "figure", "figcaption", "picture", "source", "img",
}  # fmt: skip
LOADS = {"src", "href", "srcset", "action", "data", "poster", "background"}


class Seen(HTMLParser):
    """Every tag and attribute as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def drawn(campaign: Campaign) -> dict[str, tuple[bytes, bytes]]:
    return dict.fromkeys(report_html.TITLES, (PIXEL + b"light", PIXEL + b"dark"))


def page(campaign: Campaign, lines: tuple[JournalLine, ...] = (), **more: object) -> str:
    return report_html.page(campaign, lines or a.lines(), drawn(campaign), **more)  # type: ignore[arg-type]


def hostile() -> Campaign:
    """Everything a stranger may have written is an attack."""
    found = []
    for played in a.rounds():
        idea = played.variant.hypothesis.model_copy(
            update=dict.fromkeys(("title", "why", "expected", "technique"), HOSTILE) | {"references": (HOSTILE,)}
        )
        files = (SourceFile(path=a.OP_PATH, text=f"{HOSTILE}\n{played.variant.number}\n"),)
        variant = played.variant.model_copy(update={"hypothesis": idea, "files": files, "proposer": HOSTILE})
        verdict = played.verdict
        assert verdict is not None
        wrong = verdict.model_copy(
            update={"findings": tuple(f.model_copy(update={"message": HOSTILE}) for f in verdict.findings)}
        )
        found.append(played.model_copy(update={"variant": variant, "verdict": wrong}))
    runs = a.finalization(tests=(a.run(("x", HOSTILE), True, HOSTILE, output=HOSTILE),))
    diagnosis = a.DIAGNOSIS.model_copy(update={"sentence": f"`{HOSTILE}` {HOSTILE}"})
    return a.pushed(rounds=tuple(found), finalization=runs, profile=a.profile(diagnosis=diagnosis), detail=HOSTILE)


@pytest.mark.parametrize("campaign", [a.pushed(), hostile()], ids=["kind", "hostile"])
def test_it_holds_no_tag_but_its_own_and_loads_nothing(campaign: Campaign) -> None:
    lines = (*a.lines(), JournalLine(seq=99, at="now", zone="publish", fact=_failed(HOSTILE)))
    seen = Seen(page(campaign, lines, sources=[HOSTILE]))
    assert {tag for tag, _ in seen.tags} <= TAGS
    assert seen.open == []
    for tag, given in seen.tags:
        assert not any(name.startswith("on") or name == "style" for name in given), (tag, given)
        for name in LOADS & set(given):
            assert given[name].startswith(("data:image/png;base64,", "#")), (tag, given[name][:80])


def _failed(words: str) -> OrderFailed:
    return OrderFailed(order="o-optimize", reason=ReasonCode.COMPUTE_FAILED, detail=words)


def test_hostile_words_are_shown_as_words() -> None:
    seen = Seen(page(hostile()))
    assert "<script>alert(1)</script>" in seen.text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b]", page(hostile()))


def test_its_policy_allows_its_own_style_and_nothing_else() -> None:
    text = page(a.pushed())
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert style is not None and policy is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1].split("; ") == [
        "default-src 'none'",
        "img-src data:",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_everything_is_in_it() -> None:
    seen = Seen(page(a.pushed(), sources=["H200 memory bandwidth: 4800 GB/s <- its datasheet"]))
    for words in (
        "rms_norm: v3 is 1.42x (estimated) over abc1234, correct on 8 of 8 cases",
        "Committed (pushed).",
        "No GPU timed anything",
        "Mind: forward 512x1024 is 1.6 % slower than v0, within the 5 % limit",
        "held back by memory traffic",
        "The backward walks its rows one by one and waits for each load.",
        "+ return triton.next_power_of_2(n_cols), 8 if n_cols >= 2048 else 2",
        "forward 512x1024 is 8.1 % slower than v0 (limit 5 %)",
        "took too long to compile",
        "42 passed in 13.80s",
        "H200 memory bandwidth: 4800 GB/s <- its datasheet",
        f"git checkout {a.HEAD}",
        "kernelwright optimize rms_norm --repo . --goal balanced --scope general --gpu hopper --max-variants 8",
        "python -m pytest test/transformers/test_rms_norm.py -x",
        f"git revert {a.PUSHED}",
        "v2 rejected, 0.910x (estimated): forward 512x1024 is 8.1 % slower",
    ):
        assert words in seen.text, words
    pictures = [given for tag, given in seen.tags if tag == "img"]
    assert len(pictures) == 4
    assert all(base64.b64decode(given["src"].split(",")[1]) == PIXEL + b"light" for given in pictures)
    assert pictures[0]["alt"].startswith("rms_norm: v3 is 1.42x (estimated) over v0")
    assert len([given for tag, given in seen.tags if tag == "source"]) == 4


def test_every_variant_has_its_own_place_and_the_best_is_open() -> None:
    seen = Seen(page(a.pushed()))
    ideas = [given for tag, given in seen.tags if tag == "details" and "idea" in given.get("class", "")]
    assert [given["class"] for given in ideas] == [
        "idea accepted",
        "idea rejected",
        "idea accepted",
        "idea rejected",
        "idea rejected",
    ]
    assert [i for i, given in enumerate(ideas) if "open" in given] == [2]


def test_a_verdict_that_does_not_follow_is_doubted_aloud() -> None:
    assert "does not follow" not in page(a.pushed())
    seen = Seen(page(a.pushed(), doubted=[3]))
    assert "the journal's verdict on v3 does not follow from its raw facts" in seen.text
    assert "This verdict does not follow" in seen.text


def test_measured_numbers_are_not_called_estimated() -> None:
    seen = Seen(report_html.page(a.measured(), (), drawn(a.measured())))
    assert "Measured on NVIDIA H200." in seen.text
    assert "estimated" not in seen.text
    assert "1.42x [1.39x, 1.45x]" in seen.text


def test_a_campaign_that_has_hardly_begun_has_a_page_too() -> None:
    for campaign in (a.requested(), a.profiled(), Campaign(id="4711-rms_norm")):
        seen = Seen(report_html.page(campaign, (), {}))
        assert "no variant was judged yet" in seen.text
    assert "Not over: waiting for you." in Seen(report_html.page(a.profiled(), (), {})).text


def test_nothing_better_is_an_answer() -> None:
    over = a.ended(Outcome.NOTHING_TO_DO, ReasonCode.NO_IMPROVEMENT, rounds=a.rounds()[1:2], lineage=(0,))
    seen = Seen(page(over))
    assert "rms_norm: none of 1 variant is better" in seen.text
    assert "Nothing to do (no_improvement)." in seen.text


def test_without_matplotlib_the_bars_remain() -> None:
    seen = Seen(report_html.page(a.pushed(), a.lines(), {}))
    assert "No pictures: matplotlib was not there" in seen.text
    assert "v3 ████████████ 1.42x (estimated) winner" in seen.text


def test_a_bare_number_never_gets_onto_the_page() -> None:
    with pytest.raises(TypeError, match="say it in words"):
        report_html._environment().from_string("{{ value }}").render(value=1.4203)
    with pytest.raises(TypeError, match="say it in words"):
        report_html._environment().from_string("{{ value }}").render(value=None)


@pytest.mark.parametrize(("count", "cut"), [(report_html.MOST_LINES, False), (report_html.MOST_LINES + 1, True)])
def test_a_very_long_diff_says_that_it_was_cut(count: int, cut: bool) -> None:
    rows = report_html.diff_rows("\n".join(f"+{i}" for i in range(count)))
    assert len(rows) == report_html.MOST_LINES + cut
    assert (rows[-1] == ("same", "... (1 more lines)")) == cut


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (375, True)])
def test_a_browser_shows_it_on_a_desk_and_on_a_phone(width: int, dark: bool, tmp_path: Path) -> None:
    from PIL import Image

    from bot.localhub import browser
    from bot.render import plots

    if browser.found() is None:
        pytest.skip("no Chromium here; `make browser` installs one")
    campaign, known = of.estimated()
    real = {"variants": (plots.picture("variants", campaign, known), plots.picture("variants", campaign, dark=True))}
    (tmp_path / "page.html").write_text(report_html.page(campaign, a.lines(), real), encoding="utf-8")
    assert browser.screenshot(tmp_path / "page.html", tmp_path / "page.png", width, dark)
    shown = Image.open(tmp_path / "page.png").convert("RGB")
    assert shown.width == width
    corner = shown.getpixel((2, shown.height - 2))
    assert isinstance(corner, tuple)
    assert (sum(corner) < 150) == dark, "the page follows the reader's colours"
