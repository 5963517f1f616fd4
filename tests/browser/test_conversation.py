"""People play a campaign by hand in the page: they write, the zones answer, and nobody reloads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import NewReader, Place

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


def test_from_a_comment_to_the_commit(reader: NewReader, place: Place) -> None:
    one = reader().goes_to(place.page())
    one.is_now("mira").says("/optimize rms_norm")
    one.sees("waits for a word on the profile").sees_comment("Shall I go on?")
    assert one.page.get_by_role("list", name="reactions").first.inner_text().strip(), "the request was seen"
    one.says("/optimize approve").sees("waits for a word on the winner").sees_comment("Take it?")
    one.says("/optimize approve").sees("waits for the last word").sees_comment("Push it?")
    one.writes("Reads well.").presses("Approve").sees("approved these changes")
    one.sees("pushed 1 commit").sees("rms_norm: pushed")
    head = place.hub.history.heads()["refs/heads/tidy-rms_norm"]
    commit = one.page.locator(f"#commit-{head}")
    assert "[Perf]" in commit.inner_text() or "rms_norm" in commit.inner_text()
    assert commit.locator("tr.add").count() > 0
    added = commit.locator("tr.add td.text").first.evaluate("cell => getComputedStyle(cell).backgroundColor")
    same = commit.locator("tr.same td.text").first.evaluate("cell => getComputedStyle(cell).backgroundColor")
    assert added != same, "what was added has a colour of its own"
    assert one.page.locator("#aside .mark.APPROVED").count() == 1
    assert one.page.locator("#aside .mark.success").count() >= 1
    one.page.get_by_role("link", name="Files changed").click()
    assert one.page.locator("details.file").count() == 1
    one.goes_to(place.hub.server_url).sees("pushed", within=".pill.good")


def test_an_outsider_is_refused_kindly(reader: NewReader, place: Place) -> None:
    one = reader().goes_to(place.page())
    one.is_now("lee").says("/optimize rms_norm").sees_comment("permission_denied")
    (answer,) = place.bodies()[1:]
    assert "lee" in answer and "write" in answer, "who asked, and what would be needed"
    assert place.hub.world.accounts["lee"].role.value == "read"
    assert one.count(".doing") == 0, "no campaign began"


def test_an_author_cannot_approve_their_own_work(reader: NewReader, place: Place) -> None:
    one = reader().goes_to(place.page())
    one.is_now("mira").writes("x")
    assert one.page.get_by_role("button", name="Approve", exact=True).is_enabled()
    one.is_now("dana")
    assert one.page.get_by_role("button", name="Approve", exact=True).is_disabled()
    assert one.page.get_by_role("button", name="Request changes", exact=True).is_disabled()
    one.sees("dana can neither approve it nor request changes", within="#composer")
    assert one.page.get_by_role("button", name="Comment review", exact=True).is_enabled()


def test_an_author_who_gets_around_the_page_meets_the_rule_itself(reader: NewReader, place: Place) -> None:
    one = reader(script=False).goes_to(place.page())
    one.is_now("dana").writes("Mine is good.").presses("Approve")
    one.sees("nobody approves or refuses their own work", within="#trouble")
    assert one.page.get_by_label("Comment, in Markdown").input_value() == "Mine is good.", "nothing typed is lost"
    assert place.hub.world.reviews == {}


def test_cancel_stops_a_running_job(reader: NewReader, place: Place) -> None:
    place.gpu.hold()
    one = reader().goes_to(place.page())
    one.is_now("mira").says("/optimize rms_norm").sees("measure", within="#aside")
    one.sees("profiling the untouched kernel", within="#now")
    one.says("/optimize cancel").sees("rms_norm: cancelled", within="#now")
    one.sees("stopped", within="#aside")
    one.says("/optimize status")
    assert place.hub.history.heads()["refs/heads/tidy-rms_norm"] == place.hub.world.threads[1].pull.first  # type: ignore[union-attr]


def test_a_word_from_elsewhere_arrives_without_a_reload(reader: NewReader, place: Place) -> None:
    one, other = reader().goes_to(place.page()), reader().goes_to(place.page())
    one.writes("half a thou")
    one.page.evaluate("window.mine = 1")
    other.is_now("lee").says("Does it work for fp16?")
    one.sees_comment("Does it work for fp16?")
    assert one.page.evaluate("window.mine") == 1, "the page was not loaded again"
    assert one.page.get_by_label("Comment, in Markdown").input_value() == "half a thou"
    assert one.page.get_by_role("status").inner_text() == "lee commented"
    other.writes("**Bold** and `code`").presses("Comment")
    one.page.locator("#timeline strong").get_by_text("Bold").wait_for()


def test_an_answer_that_never_comes_does_not_keep_the_page_from_asking_again(reader: NewReader, place: Place) -> None:
    one, asked = reader(), []

    def lost_once(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:  # the first has no answer, ever
            route.continue_()

    one.page.route("**/-/changes", lost_once)
    with one.page.expect_request("**/-/changes"):
        one.goes_to(place.page())
    place.hub.comment("lee", 1, "Does it work for fp16?")
    one.sees_comment("Does it work for fp16?")


def test_each_tab_speaks_as_its_own_person_and_remembers_it(reader: NewReader, place: Place) -> None:
    one, other = reader().goes_to(place.page()), reader().goes_to(place.page())
    one.is_now("lee").writes("a draft")
    assert other.page.get_by_role("radio", name="mira").is_checked()
    one.page.reload()
    assert one.page.get_by_role("radio", name="lee").is_checked()
    assert one.page.get_by_label("Comment, in Markdown").input_value() == "a draft"


def test_what_the_bot_would_understand_is_one_click_away(reader: NewReader, place: Place) -> None:
    one = reader().goes_to(place.page(2))
    one.page.get_by_role("button", name="/optimize geglu").click()
    assert one.page.get_by_label("Comment, in Markdown").input_value() == "/optimize geglu"


def test_an_empty_comment_is_not_posted(reader: NewReader, place: Place) -> None:
    one = reader().goes_to(place.page())
    one.presses("Comment").sees("There is nothing to post yet", within="#trouble")
    one.presses("Request changes").sees("only an approval may go without words", within="#trouble")
    assert place.hub.comments(1) == []


def test_when_the_hub_is_gone_the_page_says_so_and_keeps_the_text(reader: NewReader, place: Place) -> None:
    one = reader().goes_to(place.page())
    one.writes("/optimize rms_norm")
    place.hub.stop()
    one.presses("Comment").sees("does not answer; what you typed is still here", within="#trouble")
    one.page.get_by_text("does not answer any more").wait_for(state="visible")
    assert one.page.get_by_label("Comment, in Markdown").input_value() == "/optimize rms_norm"
