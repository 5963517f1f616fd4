"""Dark and light, a phone, a keyboard, and words that would rather be code."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bot.forge.client import open_forge
from bot.localhub.board import Attempt, Board, Card
from bot.localhub.server import Hub
from tests.browser.conftest import PHONE, Look, NewReader, Place, Reader
from tests.localhub.conftest import BOT, populate
from tests.localhub.test_page import ledger, png

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

CONTRAST = """selectors => selectors.flatMap(selector => [...document.querySelectorAll(selector)].map(one => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const seen = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [[r, .2126], [g, .7152], [b, .0722]].reduce((sum, [part, weight]) => {
    const share = part / 255;
    return sum + weight * (share <= .03928 ? share / 12.92 : ((share + .055) / 1.055) ** 2.4);
  }, 0);
  let behind = one;
  while (behind.parentElement && seen(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
  const pair = [light(seen(getComputedStyle(one).color)), light(seen(getComputedStyle(behind).backgroundColor))];
  return [selector, (Math.max(...pair) + .05) / (Math.min(...pair) + .05)];
}))"""
READ = (
    ".meta",
    ".say",
    ".label",
    ".said p",
    ".said a",
    ".said td",
    ".said .add",
    ".said .del",
    ".said .hunk",
    ".head",
    ".sha",
    ".branch",
    ".state",
    ".mark.APPROVED",
    ".mark.failure",
    ".mark.pending",
    "tr.add td",
    "tr.del td",
    "tr.hunk td",
    ".plus",
    ".minus",
    "button.primary",
    ".chip code",
    ".tabs a",
    ".doing.asks .grow",
    ".label.best",
    ".attempts .word",
    ".trouble",
    ".own",
)
TABLE = "| " + " | ".join(f"column {n}" for n in range(9)) + " |\n" + "|---" * 9 + "|\n" + "| some words " * 9 + "|\n"


def busy_page(hub: Hub) -> str:
    """Something of everything a pull request shows."""
    token = hub.token("mira", ("read", "comment", "status", "push"))
    hub.comment(
        "lee", 1, f"Long: {'x' * 300}\n\n```diff\n@@ -1 +1 @@\n-a\n+b\n```\n\n{TABLE}\n\n[out](https://a.example)"
    )
    hub.comment("mira", 1, f"`{'code_' * 60}`\n\n![plot]({ledger(hub, 'p.png', png(60))})\n\n<sub>quiet</sub>")
    hub.review("mira", 1, "APPROVE", "Reads well.")
    hub.push(BOT, "tune", {"a.py": b"a = 3  # " + b"long " * 60 + b"\n"}, "[Perf] a: faster\n\nWhy.\n")
    forge = open_forge(hub.url, hub.repo, token)
    for state, name in (("success", "a"), ("failure", "b"), ("pending", "c")):
        forge.set_status(forge.pull(1).head_sha, state, f"kernelwright/{name}", "a word about it")  # type: ignore[arg-type]
    tried = (Attempt("v1", "wider", "1.40x (estimated)", "good"), Attempt("v2", "loop", "rejected", "bad"))
    hub.show(Board((Card("c7", 1, "a", "asks", "waits for a word", best="v1 is 1.40x", attempts=tried),)))
    return hub.page_url(1)


@pytest.fixture
def busy(tmp_path: Path) -> Any:
    with Hub(tmp_path / "hub") as hub:
        populate(hub)
        hub.invite("mira", "dana", "lee")
        yield hub, busy_page(hub)


@pytest.mark.parametrize("look", ["light", "dark"])
def test_everything_can_be_read(reader: NewReader, busy: tuple[Hub, str], look: Look) -> None:
    one = reader(look=look).goes_to(busy[1])
    found = one.page.evaluate(CONTRAST, list(READ))
    assert {name for name, _ in found} == set(READ), "every selector was met"
    assert [(name, round(ratio, 2)) for name, ratio in found if ratio < 4.5] == []
    page = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (page == "rgb(14, 18, 24)") is (look == "dark")


def becomes(one: Reader, colour: str) -> None:
    """The page is on its way when a button was pressed: this waits for it."""
    painted = "colour => document.body && getComputedStyle(document.body).backgroundColor === colour"
    one.page.wait_for_function(painted, arg=colour, timeout=10_000)


def test_the_switch_overrules_the_system_and_is_remembered(reader: NewReader, busy: tuple[Hub, str]) -> None:
    one = reader(look="light").goes_to(busy[1])
    one.writes("a draft").presses("Dark")
    becomes(one, "rgb(14, 18, 24)")
    assert one.page.url == busy[1], "one stays where one was"
    assert one.page.get_by_label("Comment, in Markdown").input_value() == "a draft"
    one.goes_to(busy[0].server_url)
    becomes(one, "rgb(14, 18, 24)")
    one.presses("Auto")
    becomes(one, "rgb(246, 247, 249)")


@pytest.mark.parametrize("path", ["", "/files", "/commits"])
def test_a_phone_needs_no_scrolling_sideways(reader: NewReader, busy: tuple[Hub, str], path: str) -> None:
    one = reader(size=PHONE).goes_to(busy[1] + path)
    assert one.sideways() <= 0
    scrolls = "[...document.querySelectorAll('.wide, .scroll')].some(one => one.scrollWidth > one.clientWidth)"
    assert one.page.evaluate(scrolls) is (path != "/commits"), "what is wide scrolls within itself"


def test_the_start_page_on_a_phone(reader: NewReader, place: Place) -> None:
    place.gpu.hold()
    place.hub.comment("mira", 1, "/optimize rms_norm")
    one = reader(size=PHONE).goes_to(place.hub.server_url)
    one.sees("profiling the untouched kernel", within=".doing")
    assert one.sideways() <= 0


def focused(one: Reader) -> str:
    found = one.page.evaluate(
        "(one => [one.tagName, one.name || '', one.value || one.textContent].join(' '))(document.activeElement)"
    )
    return str(found).strip()


def test_a_keyboard_is_enough(reader: NewReader, busy: tuple[Hub, str]) -> None:
    hub, page = busy
    one = reader().goes_to(page)
    one.page.keyboard.press("Tab")
    assert focused(one).endswith("Skip to the content")
    assert one.page.locator(".skip").bounding_box()["y"] >= 0, "it can be seen while it has the focus"
    one.page.get_by_role("radio", name="mira").focus()
    chosen = "document.querySelector('.who input:focus-visible + .person')"
    ring = one.page.evaluate(f"getComputedStyle({chosen}).outlineStyle")
    assert ring == "solid"
    one.page.keyboard.press("ArrowRight")
    assert one.page.get_by_role("radio", name="dana").is_checked()
    one.page.keyboard.press("Tab")
    assert focused(one).startswith("TEXTAREA")
    one.page.keyboard.type("from the keyboard")
    one.page.keyboard.press("Control+Enter")
    one.sees_comment("from the keyboard")
    assert hub.comments(1)[-1]["user"]["login"] == "dana"
    assert focused(one).startswith("TEXTAREA"), "one can go on writing"
    stops = []
    for _ in range(5):
        one.page.keyboard.press("Tab")
        stops.append(focused(one))
    assert [stop.split(" ", 1)[0] for stop in stops[:3]] == ["BUTTON"] * 3
    assert len(set(stops)) == len(stops)


def test_each_field_and_button_has_a_name(reader: NewReader, busy: tuple[Hub, str]) -> None:
    one = reader().goes_to(busy[1])
    nameless = """
        [...document.querySelectorAll('button, a[href], textarea, input:not([type=hidden]), summary, [role=region]')]
        .filter(one => !one.hidden && !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length))
        .map(one => one.outerHTML)"""
    assert one.page.evaluate(nameless) == []
    levels = one.page.evaluate("[...document.querySelectorAll('h1, h2')].map(one => Number(one.tagName[1]))")
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))


HOSTILE = """<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">
<a href="javascript:window.hacked=1">press</a> [me](javascript:window.hacked=1)
<svg onload="window.hacked=1"></svg><iframe src="https://evil.example"></iframe>
<form action="/-/theme"><button>sure</button></form><style>body { display: none }</style>
![track](https://evil.example/pixel.png) </article></main></body>"""


def test_hostile_words_do_nothing(reader: NewReader, busy: tuple[Hub, str]) -> None:
    hub, page = busy
    one, asked = reader(), []
    one.page.on("request", lambda request: asked.append(request.url))
    hub.comment("lee", 1, HOSTILE)
    one.goes_to(page).sees_comment("press")
    hub.comment("lee", 1, f"And live. {HOSTILE}")
    one.sees_comment("And live.")
    one.page.wait_for_timeout(300)
    assert one.page.evaluate("window.hacked") is None
    assert one.count("#timeline script, #timeline iframe, #timeline form, #timeline [onerror], #timeline style") == 0
    assert {url for url in asked if not url.startswith(hub.server_url)} == set()


def test_a_page_elsewhere_can_post_nothing(reader: NewReader, busy: tuple[Hub, str]) -> None:
    hub, page = busy
    before = len(hub.comments(1))
    prize = (
        f'<form method="post" action="{page}/say"><input name="as" value="mira">'
        '<input name="body" value="/optimize rms_norm"><button>Win a prize</button></form>'
    )
    one = reader()
    one.page.route("http://evil.example/", lambda asked: asked.fulfill(body=prize, content_type="text/html"))
    one.goes_to("http://evil.example/")
    with one.page.expect_navigation():
        one.page.get_by_text("Win a prize").click()
    assert "not sent by a page of ours" in one.page.content()
    one.wrong.clear()  # the browser notes the refusal
    assert len(hub.comments(1)) == before
