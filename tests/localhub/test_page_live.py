"""The served page: who may ask, who may post, and what each address shows."""

from __future__ import annotations

import re
from typing import Any

import pytest
import requests

from bot.localhub.board import Attempt, Board, Card, JobLine, JobState
from bot.localhub.guard import POLICY
from bot.localhub.server import Hub
from tests.localhub.conftest import BOT
from tests.localhub.test_page import ledger, png

TICK = "m3 8.500 3.500 3.500L13 4.500"
"""How the sign of a success is drawn."""


@pytest.fixture
def open_hub(hub: Hub) -> Hub:
    hub.invite("mira", "dana", "lee")
    return hub


def get(hub: Hub, path: str, **headers: str) -> requests.Response:
    return requests.get(f"{hub.server_url}{path}", headers=headers, timeout=10)


def say(hub: Hub, form: dict[str, str], number: int = 1, **headers: str | None) -> requests.Response:
    """As our own page posts it."""
    given = {"Origin": hub.server_url, **headers}
    kept = {name: value for name, value in given.items() if value is not None}
    return requests.post(f"{hub.page_url(number)}/say", data=form, headers=kept, timeout=10, allow_redirects=False)


# Who may ask


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"]
)
@pytest.mark.parametrize("path", ["/", "/sample/kernels/pull/1", "/-/changes"])
def test_another_name_for_this_machine_is_not_answered(open_hub: Hub, host: str, path: str) -> None:
    found = get(open_hub, path, Host=host)
    assert found.status_code == 403
    assert open_hub.server_url in found.text, "where the page does answer"


def test_both_names_of_the_loopback_are(open_hub: Hub) -> None:
    port = open_hub.server_url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert get(open_hub, "/", Host=host).status_code == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1", "http://localhost:1", "https://{}"]
)
def test_what_another_page_sends_is_not_posted(open_hub: Hub, origin: str | None) -> None:
    given = origin.format(open_hub.server_url.partition("//")[2]) if origin else None
    found = say(open_hub, {"as": "mira", "body": "/optimize a"}, Origin=given)
    assert found.status_code == 403
    assert "nothing was done" in found.text
    assert open_hub.comments(1) == [] and list(open_hub.events()) == []


def test_the_theme_is_not_set_from_elsewhere(open_hub: Hub) -> None:
    sent = {"theme": "dark", "back": "/"}
    found = requests.post(f"{open_hub.server_url}/-/theme", data=sent, timeout=10, allow_redirects=False)
    assert found.status_code == 403


def test_nothing_is_written_by_reading(open_hub: Hub) -> None:
    assert get(open_hub, "/sample/kernels/pull/1/say?as=mira&body=hi").status_code == 404
    assert open_hub.comments(1) == []


@pytest.mark.parametrize("path", ["/", "/sample/kernels/pull/1", "/sample/kernels/pull/99", "/-/page.js", "/-/changes"])
def test_every_answer_is_fenced_in(open_hub: Hub, path: str) -> None:
    found = get(open_hub, path).headers
    assert found["Content-Security-Policy"] == POLICY
    assert found["X-Content-Type-Options"] == "nosniff" and found["X-Frame-Options"] == "DENY"
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY and "frame-ancestors 'none'" in POLICY


def test_the_page_holds_no_script_or_style_of_its_own(open_hub: Hub) -> None:
    page = get(open_hub, "/sample/kernels/pull/1").text
    assert re.findall(r"<script[^>]*>", page) == ['<script src="/-/page.js" defer>']
    assert "<style" not in page and "style=" not in page and not re.search(r"\son\w+=", page)


# Posting


def test_a_comment_is_posted_as_whoever_was_chosen(open_hub: Hub) -> None:
    found = say(open_hub, {"as": "lee", "body": "one\r\ntwo\r\n", "event": ""})
    (comment,) = open_hub.comments(1)
    assert (found.status_code, found.headers["Location"]) == (303, f"/sample/kernels/pull/1#said-{comment['id']}")
    assert (comment["user"]["login"], comment["body"]) == ("lee", "one\ntwo")
    assert [name for name, _ in open_hub.events()] == ["issue_comment"]


@pytest.mark.parametrize(
    ("event", "state"), [("APPROVE", "APPROVED"), ("REQUEST_CHANGES", "CHANGES_REQUESTED"), ("COMMENT", "COMMENTED")]
)
def test_the_three_reviews(open_hub: Hub, event: str, state: str) -> None:
    assert say(open_hub, {"as": "mira", "body": "Why.", "event": event}).status_code == 303
    (review,) = open_hub.world.reviews.values()
    assert (review.author, review.state, review.body) == ("mira", state, "Why.")


def why(found: requests.Response) -> str:
    assert found.status_code == 422
    told: dict[str, Any] = found.json()
    return str(told["why"])


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"as": "dana", "body": "Mine.", "event": "APPROVE"}, "nobody approves or refuses their own work"),
        ({"as": "dana", "body": "Mine.", "event": "REQUEST_CHANGES"}, "nobody approves or refuses their own work"),
        ({"as": "mira", "body": " \r\n "}, "nothing to post yet"),
        ({"as": "mira", "body": "", "event": "COMMENT"}, "nothing to post yet"),
        ({"as": BOT, "body": "/optimize a"}, "Choose who speaks: mira, dana, lee."),
        ({"as": "nobody", "body": "x"}, "Choose who speaks"),
        ({"body": "x"}, "Choose who speaks"),
        ({"as": "mira", "body": "x", "event": "MERGE"}, "does none of them"),
        ({"as": "mira", "body": "x" * 65537}, "maximum is 65536 characters"),
        ({"as": "mira", "body": "x" * 2**20}, "more than this page takes"),
    ],
)
def test_what_cannot_be_posted_says_why(open_hub: Hub, form: dict[str, str], words: str) -> None:
    assert words in why(say(open_hub, form, Accept="application/json"))
    assert open_hub.comments(1) == [] and open_hub.world.reviews == {}


def test_the_longest_comment_is_posted(open_hub: Hub) -> None:
    assert say(open_hub, {"as": "mira", "body": "x" * 65536}).status_code == 303


def test_without_script_the_page_comes_back_with_what_was_typed(open_hub: Hub) -> None:
    found = say(open_hub, {"as": "dana", "body": "<b>Mine</b>", "event": "APPROVE"})
    assert found.status_code == 422
    assert "&lt;b&gt;Mine&lt;/b&gt;</textarea>" in found.text and "their own work" in found.text
    assert re.search(r'value="dana" checked', found.text)


def test_a_page_for_reading_has_nothing_to_post_with(hub: Hub) -> None:
    assert "<textarea" not in get(hub, "/sample/kernels/pull/1").text
    assert "for reading only" in why(say(hub, {"as": "mira", "body": "x"}, Accept="application/json"))
    assert hub.comments(1) == []


@pytest.mark.parametrize("number", [2, 99])
def test_only_a_pull_request_can_be_written_to(open_hub: Hub, number: int) -> None:
    open_hub.open_issue("dana", "An issue")
    assert say(open_hub, {"as": "mira", "body": "x"}, number=number).status_code == 404


# What each address shows


def test_links_of_a_comment_lead_to_pages_that_are_there(open_hub: Hub) -> None:
    sha = open_hub.push("dana", "tune", {"b/c.py": b"<c>\n", "d.bin": b"\0"}, "More\n\nWhy & how\n")
    base = f"/{open_hub.repo}"
    assert "Why &amp; how" in get(open_hub, f"{base}/commit/{sha}").text
    assert "&lt;c&gt;" in get(open_hub, f"{base}/blob/{sha}/b/c.py").text
    assert "&lt;c&gt;" in get(open_hub, f"{base}/blob/tune/b/c.py").text
    assert "no text" in get(open_hub, f"{base}/blob/{sha}/d.bin").text
    assert f'href="{base}/blob/{sha}/b/c.py"' in get(open_hub, f"{base}/tree/{sha}/b").text
    open_hub.comment(
        "mira", 1, f"[file]({open_hub.server_url}{base}/blob/{sha}/b/c.py) [away](http://127.0.0.1:1{base}/pull/1)"
    )
    page = get(open_hub, f"{base}/pull/1").text
    assert f'href="{base}/blob/{sha}/b/c.py"' in page
    assert "<span>away</span>" in page, "another port of this machine is not ours"


@pytest.mark.parametrize(
    "path",
    [
        "/sample/kernels/pull/99",
        "/sample/kernels/pull/2",
        "/sample/kernels/commit/" + "0" * 40,
        "/sample/kernels/blob/main/no.py",
        "/sample/kernels/blob/main/../../../etc/passwd",
        "/sample/kernels/blob/main/%2e%2e/a.py",
        "/sample/kernels/blob/nowhere/a.py",
        "/sample/kernels/tree/main/no",
        "/other/kernels/pull/1",
        "/-/nothing.js",
        "/favicon.ico",
    ],
)
def test_what_is_not_there(open_hub: Hub, path: str) -> None:
    open_hub.open_issue("dana", "An issue")
    found = get(open_hub, path)
    assert found.status_code == 404
    assert "There is no such" in found.text


def test_only_pictures_are_handed_out_raw(open_hub: Hub) -> None:
    address = ledger(open_hub, "plot.png", png()).partition("?")[0].replace("/blob/", "/raw/")
    path = address.removeprefix(open_hub.server_url)
    found = get(open_hub, path)
    assert (found.status_code, found.headers["Content-Type"], found.content) == (200, "image/png", png())
    evil = open_hub.push("dana", "evil", {"a.html": b"<script>", "a.svg": b"<svg/>"}, "Evil\n")
    for name in ("a.html", "a.svg"):
        assert get(open_hub, f"/{open_hub.repo}/raw/{evil}/{name}").status_code == 404


def test_a_plot_follows_the_switch(open_hub: Hub) -> None:
    light, dark = ledger(open_hub, "light.png", png(2)), ledger(open_hub, "dark.png", png(3))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    open_hub.comment("mira", 1, f'<picture>{source}<img alt="speed" src="{light}"></picture>')

    def media(**headers: str) -> list[str]:
        return re.findall(r'<source media="([^"]*)"', get(open_hub, "/sample/kernels/pull/1", **headers).text)

    assert media() == ["(prefers-color-scheme: dark)"]
    assert media(Cookie="kernelwright_theme=dark") == ["all"]
    assert media(Cookie="kernelwright_theme=light") == ["not all"]
    assert media(Cookie='kernelwright_theme="><script>') == ["(prefers-color-scheme: dark)"]


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nSet-Cookie: x=1", ""]
)
def test_the_switch_leads_nowhere_else(open_hub: Hub, back: str) -> None:
    given = {"theme": "dark", "back": back}
    headers = {"Origin": open_hub.server_url}
    found = requests.post(
        f"{open_hub.server_url}/-/theme", data=given, headers=headers, timeout=10, allow_redirects=False
    )
    assert (found.status_code, found.headers["Location"]) == (303, "/")
    assert found.headers["Set-Cookie"].startswith("kernelwright_theme=dark; Path=/;")


def test_changes_are_told_and_rest_is_rest(open_hub: Hub) -> None:
    def changes() -> int:
        return int(get(open_hub, "/-/changes").json()["changes"])

    first = changes()
    get(open_hub, "/sample/kernels/pull/1")
    assert changes() == first, "nobody asks again and again for nothing"
    comment = open_hub.comment("mira", 1, "hi")
    second = changes()
    open_hub.edit_comment("mira", comment, "hi there")
    third = changes()
    board = Board(jobs=(JobLine(1, "decide", 1, "running", "2026-01-02T03:04:05Z"),))
    open_hub.show(board)
    assert first < second < third < changes()
    last = changes()
    open_hub.show(board)
    assert changes() == last


def test_a_minimised_comment_is_folded(open_hub: Hub) -> None:
    said = open_hub.comment("mira", 1, "an old question")
    open_hub.world.comments[said].minimized = "outdated"
    page = get(open_hub, "/sample/kernels/pull/1").text
    folded = page[page.index('<details class="fold">') :]
    assert "minimised as outdated" in folded and folded.index("an old question") < folded.index("</details>")


@pytest.mark.parametrize(
    ("zone", "state", "says"), [("decide", "running", True), ("decide", "done", False), ("measure", "running", False)]
)
def test_that_a_comment_is_being_read_can_be_seen(open_hub: Hub, zone: str, state: JobState, says: bool) -> None:
    open_hub.show(Board(jobs=(JobLine(1, zone, 0, state, "2026-01-02T03:04:05Z"),)))
    assert ("the bot reads what was written" in get(open_hub, "/sample/kernels/pull/1").text) is says


@pytest.mark.parametrize(("state", "ticks"), [("done", 1), ("refused", 0)])
def test_a_refusal_does_not_look_like_a_success(open_hub: Hub, state: JobState, ticks: int) -> None:
    job = JobLine(1, "decide", 1, state, "2026-01-02T03:04:05Z", 1.0, "refused: permission denied")
    open_hub.show(Board(jobs=(job,)))
    page = get(open_hub, "/").text
    row = page[page.index('<section class="card jobs">') :]
    assert row.count(TICK) == ticks and "refused: permission denied" in row and "1.0 s" in row


def test_the_start_page_promises_no_duration(open_hub: Hub) -> None:
    begin = get(open_hub, "/").text.partition('aria-label="How to begin">')[2].partition("</section>")[0]
    assert "a commit is on the branch" in begin
    assert "minute" not in begin and "second" not in begin


def test_campaigns_and_jobs_are_on_the_start_page_and_their_own(open_hub: Hub) -> None:
    tried = (Attempt("v1", "<b>wider</b>", "1.40x (estimated)", "good"), Attempt("v2", "loop", "rejected", "bad"))
    tried += (Attempt("v3", "hints", "compiled and checked now", "busy"),)
    card = Card("c7", 1, "a", "busy", "trying variants", since="2026-01-02T03:04:05Z", attempts=tried, budget=8)
    job = JobLine(3, "measure", 1, "running", "2026-01-02T03:04:05Z")
    open_hub.show(Board((card,), (job,), {1: ("/optimize cancel",)}))
    for path in ("/", "/sample/kernels/pull/1"):
        page = get(open_hub, path).text
        assert "trying variants" in page and "1.40x (estimated)" in page and "&lt;b&gt;wider" in page
        assert "measure" in page and 'data-since="2026-01-02T03:04:05Z"' in page
    page = get(open_hub, "/sample/kernels/pull/1").text
    assert 'data-insert="/optimize cancel"' in page
    assert '<progress max="8" value="2"' in page
