"""What every Offers must do: the one in memory, and the real client against the embedded GitHub."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from bot.errors import ForgeError, OperatorError
from bot.forge.marks import marker
from bot.forge.offers import Offers, find_issue, open_offers
from bot.localhub.server import Hub
from bot.localhub.wire import Request, Response, refusal
from tests.fakes.forge import FakeHub
from tests.fakes.offers import FakeOffers

BOT, BRANCH = "kernelwright[bot]", "kernelwright/sweep/a"


def _populate(people: Any) -> None:
    people.add_user("mira", "maintain")
    people.add_user(BOT, "write", is_bot=True)
    people.push("mira", "main", {"a.py": b"a = 1\n"}, "Begin\n")
    people.push(BOT, BRANCH, {"a.py": b"a = 2\n"}, "Faster\n")


def connected(hub: Hub) -> Offers:
    token = hub.token(BOT, {"read", "comment"})
    return open_offers(hub.url, hub.repo, token, own_login=BOT, own_id=hub.user_id(BOT), sleep=lambda _: None)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("begun") / "hub"
    _populate(Hub(root))
    return root


@pytest.fixture
def hub(begun: Path, tmp_path: Path) -> Iterator[Hub]:
    with Hub(Path(shutil.copytree(begun, tmp_path / "hub"))) as hub:
        yield hub
        assert hub.unknown == []


@pytest.fixture(params=["fake", "hub"])
def side(request: pytest.FixtureRequest) -> tuple[Any, Offers]:
    if request.param == "fake":
        people = FakeHub()
        _populate(people)
        return people, FakeOffers(people, people.people[BOT])
    hub = request.getfixturevalue("hub")
    return hub, connected(hub)


def offered(offers: Offers, title: str = "Faster a", body: str = "It was slow.") -> int:
    return offers.open_pull(head=BRANCH, base="main", title=title, body=body)


def test_a_pull_request_of_our_branch_is_opened_and_found(side: tuple[Any, Offers]) -> None:
    _, offers = side
    assert offers.pulls_from(BRANCH) == ()
    number = offered(offers)
    (found,) = offers.pulls_from(BRANCH)
    assert (found.number, found.title, found.body) == (number, "Faster a", "It was slow.")
    assert (found.is_open, found.is_merged, found.author.login) == (True, False, BOT)
    assert found.url.endswith(f"/pull/{number}")
    assert offers.pulls_from("main") == ()


def test_a_second_offer_of_the_same_branch_is_the_first(side: tuple[Any, Offers]) -> None:
    _, offers = side
    assert offered(offers) == offered(offers, title="Faster still")
    assert len(offers.pulls_from(BRANCH)) == 1


def test_a_closed_one_stays_visible_and_another_may_follow(side: tuple[Any, Offers]) -> None:
    people, offers = side
    first = offered(offers)
    people.close_pull(first)
    assert [pull.is_open for pull in offers.pulls_from(BRANCH)] == [False]
    second = offered(offers)
    assert [pull.number for pull in offers.pulls_from(BRANCH)] == [second, first], "the newest first"


def test_its_words_can_be_changed(side: tuple[Any, Offers]) -> None:
    _, offers = side
    number = offered(offers)
    offers.edit_pull(number, title="Faster a, again", body="Measured anew.")
    (found,) = offers.pulls_from(BRANCH)
    assert (found.title, found.body) == ("Faster a, again", "Measured anew.")
    with pytest.raises(ForgeError):
        offers.edit_pull(99, title="x", body="y")


def test_a_branch_that_is_not_there_cannot_be_offered(side: tuple[Any, Offers]) -> None:
    _, offers = side
    with pytest.raises(ForgeError):
        offers.open_pull(head="kernelwright/sweep/none", base="main", title="x", body="y")


def test_issues_are_opened_found_by_key_and_changed(side: tuple[Any, Offers]) -> None:
    _, offers = side
    assert find_issue(offers, "sweep/dashboard") is None
    number = offers.open_issue(title="Sweeps", body=f"{marker('sweep/dashboard')}\n\nNothing yet.")
    found = find_issue(offers, "sweep/dashboard")
    assert found is not None and (found.number, found.title, found.is_open) == (number, "Sweeps", True)
    offers.edit_issue(number, title="Sweeps", body=f"{marker('sweep/dashboard')}\n\nA table.")
    found = find_issue(offers, "sweep/dashboard")
    assert found is not None and found.body.endswith("A table.")
    with pytest.raises(ForgeError):
        offers.edit_issue(99, title="x", body="y")


def test_a_pull_request_is_no_issue_of_ours(side: tuple[Any, Offers]) -> None:
    _, offers = side
    offers.open_pull(head=BRANCH, base="main", title="Faster", body=f"{marker('sweep/dashboard')}\n\nx")
    assert find_issue(offers, "sweep/dashboard") is None


# What only the real client can meet


def test_somebody_else_s_issue_with_our_marker_is_theirs(hub: Hub) -> None:
    hub.open_issue("mira", "Mine", f"{marker('sweep/dashboard')}\n\nlook here")
    assert find_issue(connected(hub), "sweep/dashboard") is None


def test_a_merged_one_says_so(hub: Hub) -> None:
    offers = connected(hub)
    number = offered(offers)
    hub.merge_pull("mira", number)
    (found,) = offers.pulls_from(BRANCH)
    assert (found.is_open, found.is_merged) == (False, True)
    assert hub.history.repo.read("refs/heads/main", "a.py") == b"a = 2\n"


@pytest.mark.parametrize("made", ["pull", "issue"])
def test_a_doubtful_answer_makes_nothing_twice(hub: Hub, made: str) -> None:
    offers, sent = connected(hub), []

    def lost(when: Literal["before", "after"], request: Request) -> Response | None:
        if when == "after" and request.method == "POST":
            sent.append(request.path)
            return refusal(502, "Bad Gateway")
        return None

    hub.inject(lost)
    if made == "pull":
        number = offered(offers)
    else:
        number = offers.open_issue(title="Sweeps", body=f"{marker('sweep/dashboard')}\n\nx")
    assert len(sent) == 1
    assert list(hub.world.threads) == [number]


def test_a_setting_that_forbids_it_is_named(hub: Hub) -> None:
    words = "GitHub Actions is not permitted to create or approve pull requests."
    hub.inject(
        lambda when, request: (
            refusal(403, words) if (when, request.method, request.path[-6:]) == ("before", "POST", "/pulls") else None
        )
    )
    with pytest.raises(OperatorError) as caught:
        offered(connected(hub))
    assert "Workflow permissions" in caught.value.hint
    assert caught.value.reason == "push_forbidden"
