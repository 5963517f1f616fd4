"""What every Forge must do: the one in memory, and the real client against the embedded GitHub."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from bot.errors import ForgeError
from bot.forge.client import Forge, open_forge
from bot.localhub.server import Hub
from bot.model.people import Role
from tests.fakes.forge import FakeHub

BOT = "kernelwright[bot]"


class Side(Protocol):
    """The people, our forge, and how to see what became of our writing."""

    people: Any
    forge: Forge

    def forge_of(self, login: str) -> Forge: ...
    def reactions(self, comment: int) -> list[tuple[str, str]]: ...
    def statuses(self, sha: str) -> list[tuple[str, str, str]]: ...


class FakeSide:
    def __init__(self) -> None:
        self.people = FakeHub()
        _populate(self.people)
        self.forge = self.forge_of(BOT)

    def forge_of(self, login: str) -> Forge:
        return self.people.forge(login)

    def reactions(self, comment: int) -> list[tuple[str, str]]:
        return [(login, content) for at, login, content in self.people.reactions if at == comment]

    def statuses(self, sha: str) -> list[tuple[str, str, str]]:
        return [(context, state, words) for at, context, state, words, _ in self.people.statuses if at == sha]


class HubSide:
    def __init__(self, hub: Hub) -> None:
        self.people = hub
        self.forge = self.forge_of(BOT)

    def forge_of(self, login: str) -> Forge:
        hub, token = self.people, self.people.token(login, {"read", "comment", "status"})
        return open_forge(hub.url, hub.repo, token, own_login=login, own_id=hub.user_id(login))

    def reactions(self, comment: int) -> list[tuple[str, str]]:
        return [(r.author, r.content) for r in self.people.world.reactions_to(comment)]

    def statuses(self, sha: str) -> list[tuple[str, str, str]]:
        return [(s.context, s.state, s.description) for s in self.people.world.statuses if s.sha == sha]


def _populate(people: Any) -> None:
    people.add_user("mira", "maintain")
    people.add_user("dana", "write")
    people.add_user("lee", "read")
    people.add_user(BOT, "write", is_bot=True)
    people.push("mira", "main", {"a.py": b"a = 1\n", "b.py": b"b = 1\n"}, "Begin\n")
    people.push("dana", "tune", {"a.py": b"a = 2\n"}, "Tune\n")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("begun") / "hub"
    _populate(Hub(root))
    return root


@pytest.fixture(params=["fake", "hub"])
def side(request: pytest.FixtureRequest, begun: Path, tmp_path: Path) -> Iterator[Side]:
    if request.param == "fake":
        yield FakeSide()
        return
    with Hub(Path(shutil.copytree(begun, tmp_path / "hub"))) as hub:
        yield HubSide(hub)
        assert hub.unknown == []


@pytest.fixture
def number(side: Side) -> int:
    return int(side.people.open_pull("dana", "tune", "main", "Tune a", "It was slow."))


def test_we_know_who_we_are(side: Side) -> None:
    assert (side.forge.me().login, side.forge.me().id) == (BOT, side.people.user_id(BOT))
    assert side.forge.me().is_bot


def test_a_pull_request_is_read_whole(side: Side, number: int) -> None:
    pull = side.forge.pull(number)
    assert (pull.number, pull.is_open, pull.is_draft) == (number, True, False)
    assert (pull.author.login, pull.author.id) == ("dana", side.people.user_id("dana"))
    assert (pull.head_ref, pull.head_repo, pull.base_ref, pull.base_repo) == (
        "tune",
        "sample/kernels",
        "main",
        "sample/kernels",
    )
    assert pull.head_sha == side.forge.branch_sha("tune")
    assert not pull.from_fork


def test_a_pull_request_follows_its_branch_until_it_is_closed(side: Side, number: int) -> None:
    second = side.people.push("dana", "tune", {"a.py": b"a = 3\n"}, "More\n")
    assert side.forge.pull(number).head_sha == second
    side.people.close_pull(number)
    side.people.push("dana", "tune", {"a.py": b"a = 4\n"}, "Too late\n")
    assert not side.forge.pull(number).is_open
    assert side.forge.pull(number).head_sha == second


def test_a_draft_is_a_draft(side: Side) -> None:
    number = side.people.open_pull("dana", "tune", "main", "Tune a", draft=True)
    assert side.forge.pull(number).is_draft


def test_a_fork_is_known_as_one_and_may_disappear(side: Side) -> None:
    fork = side.people.fork("lee")
    head = side.people.push("lee", "mine", {"a.py": b"a = 9\n"}, "From outside\n", repo=fork)
    number = side.people.open_pull("lee", "mine", "main", "From outside", head_repo=fork)
    assert side.forge.pull(number).head_repo == "lee/kernels"
    assert side.forge.pull(number).from_fork
    assert side.forge.pulls_with_head(head) == (number,)
    side.people.delete_fork(fork)
    assert side.forge.pull(number).head_repo is None
    assert side.forge.pull(number).head_sha == head


def test_what_is_not_there_is_an_error_with_a_hint(side: Side) -> None:
    issue = side.people.open_issue("lee", "Why is it slow?")
    for missing in (issue, 99):
        with pytest.raises(ForgeError) as caught:
            side.forge.pull(missing)
        assert caught.value.hint
    with pytest.raises(ForgeError):
        side.forge.comments(99)


@pytest.mark.parametrize("role", list(Role))
def test_each_role_is_read_as_it_is(side: Side, role: Role) -> None:
    side.people.add_user("pat", role)
    assert side.forge.role("pat") is role


def test_a_stranger_has_no_role(side: Side) -> None:
    assert side.forge.role("nobody") is Role.NONE


def test_a_role_taken_away_is_gone(side: Side) -> None:
    side.people.add_user("dana", "read")
    assert not side.forge.role("dana").may_write


def test_comments_come_in_order_with_their_authors(side: Side, number: int) -> None:
    first = side.people.comment("mira", number, "/optimize a")
    second = side.forge.post_comment(number, "On it.")
    seen = side.forge.comments(number)
    assert [(c.id, c.actor.login, c.body) for c in seen] == [(first, "mira", "/optimize a"), (second, BOT, "On it.")]
    assert seen[0].created_at == seen[0].updated_at
    assert seen[0].created_at.endswith("Z")
    assert str(first) in seen[0].url


def test_more_comments_than_fit_on_a_page(side: Side, number: int) -> None:
    for count in range(101):
        side.people.comment("mira", number, f"{count}")
    assert [comment.body for comment in side.forge.comments(number)] == [str(count) for count in range(101)]


def test_an_issue_takes_comments_too(side: Side) -> None:
    issue = side.people.open_issue("lee", "Why is it slow?")
    made = side.forge.post_comment(issue, "Because.")
    assert [comment.id for comment in side.forge.comments(issue)] == [made]


def test_one_comment_by_its_id(side: Side, number: int) -> None:
    made = side.people.comment("mira", number, "hello")
    found = side.forge.comment(made)
    assert found is not None
    assert (found.id, found.actor.login, found.body) == (made, "mira", "hello")
    assert side.forge.comment(424242) is None


def test_our_comment_can_be_rewritten(side: Side, number: int) -> None:
    made = side.forge.post_comment(number, "one")
    side.forge.edit_comment(made, "two")
    assert [comment.body for comment in side.forge.comments(number)] == ["two"]


def test_an_edited_comment_shows_it(side: Side, number: int) -> None:
    made = side.people.comment("mira", number, "one")
    side.people.edit_comment("mira", made, "two")
    found = side.forge.comment(made)
    assert found is not None
    assert found.body == "two"
    assert found.updated_at >= found.created_at


def test_a_comment_that_is_not_there_cannot_be_rewritten(side: Side) -> None:
    with pytest.raises(ForgeError):
        side.forge.edit_comment(424242, "two")


@pytest.mark.parametrize("body", ["", "x" * 65537])
def test_a_body_nobody_takes(side: Side, number: int, body: str) -> None:
    with pytest.raises(ForgeError):
        side.forge.post_comment(number, body)
    assert side.forge.comments(number) == ()


def test_the_longest_body_is_taken_whole(side: Side, number: int) -> None:
    made = side.forge.post_comment(number, "é" * 65536)
    found = side.forge.comment(made)
    assert found is not None
    assert found.body == "é" * 65536


def test_a_comment_is_folded_away_and_stays_so(side: Side, number: int) -> None:
    first, second = side.forge.post_comment(number, "one"), side.forge.post_comment(number, "two")
    assert [comment.is_minimized for comment in side.forge.comments(number)] == [False, False]
    side.forge.minimize(first)
    side.forge.minimize(first, "RESOLVED")
    assert [comment.is_minimized for comment in side.forge.comments(number)] == [True, False]
    side.forge.edit_comment(first, "still one")
    found = side.forge.comment(first)
    assert found is not None
    assert (found.body, found.is_minimized) == ("still one", True)
    side.forge.minimize(second, "RESOLVED")
    assert all(comment.is_minimized for comment in side.forge.comments(number))


def test_a_comment_that_cannot_be_folded_away(side: Side, number: int) -> None:
    made = side.people.comment("mira", number, "hello")
    with pytest.raises(ForgeError):
        side.forge.minimize(424242)
    with pytest.raises(ForgeError):
        side.forge.minimize(made, "BORING")  # type: ignore[arg-type]
    with pytest.raises(ForgeError):
        side.forge_of("lee").minimize(made)
    assert not any(comment.is_minimized for comment in side.forge.comments(number))


def test_a_reaction_is_kept_once_and_taken_back_by_its_owner_alone(side: Side, number: int) -> None:
    made = side.people.comment("mira", number, "/optimize a")
    side.forge.react(made, "eyes")
    side.forge.react(made, "eyes")
    side.forge.react(made, "rocket")
    side.forge_of("dana").react(made, "eyes")
    assert sorted(side.reactions(made)) == [("dana", "eyes"), (BOT, "eyes"), (BOT, "rocket")]
    side.forge.unreact(made, "eyes")
    side.forge.unreact(made, "eyes")
    assert sorted(side.reactions(made)) == [("dana", "eyes"), (BOT, "rocket")]


def test_a_reaction_github_does_not_have(side: Side, number: int) -> None:
    made = side.people.comment("mira", number, "hello")
    with pytest.raises(ForgeError):
        side.forge.react(made, "shrug")
    with pytest.raises(ForgeError):
        side.forge.react(424242, "eyes")


def test_a_review_names_the_commit_it_was_given_on(side: Side, number: int) -> None:
    head = side.forge.pull(number).head_sha
    first = side.people.review("mira", number, "REQUEST_CHANGES", "Not yet.")
    second = side.people.review("mira", number, "APPROVE")
    side.people.push("dana", "tune", {"a.py": b"a = 5\n"}, "More\n")
    third = side.people.review("lee", number, "COMMENT", "Nice.")
    side.people.dismiss_review(second)
    seen = side.forge.reviews(number)
    assert [(r.id, r.actor.login, r.state, r.body) for r in seen] == [
        (first, "mira", "CHANGES_REQUESTED", "Not yet."),
        (second, "mira", "DISMISSED", ""),
        (third, "lee", "COMMENTED", "Nice."),
    ]
    assert [review.commit_id == head for review in seen] == [True, True, False]
    assert all(review.submitted_at.endswith("Z") for review in seen)


def test_a_status_is_set_and_the_same_one_is_not_set_twice(side: Side, number: int) -> None:
    head = side.forge.pull(number).head_sha
    side.forge.set_status(head, "pending", "kernelwright/a", "profiling")
    side.forge.set_status(head, "pending", "kernelwright/a", "profiling")
    side.forge.set_status(head, "pending", "kernelwright/b", "profiling")
    side.forge.set_status(head, "success", "kernelwright/a", "done", "https://runs.example/1")
    assert side.statuses(head) == [
        ("kernelwright/a", "pending", "profiling"),
        ("kernelwright/b", "pending", "profiling"),
        ("kernelwright/a", "success", "done"),
    ]


@pytest.mark.parametrize(("given", "kept"), [(140, "d" * 140), (141, "d" * 139 + "…")])
def test_a_long_description_is_cut_where_github_would_refuse(side: Side, number: int, given: int, kept: str) -> None:
    head = side.forge.pull(number).head_sha
    side.forge.set_status(head, "error", "kernelwright/a", "d" * given)
    assert side.statuses(head) == [("kernelwright/a", "error", kept)]


def test_a_status_needs_a_commit(side: Side) -> None:
    with pytest.raises(ForgeError):
        side.forge.set_status("0" * 40, "error", "kernelwright/a", "lost")


def test_changed_files(side: Side, number: int) -> None:
    assert side.forge.changed_files(number) == ("a.py",)
    side.people.push("dana", "tune", {"c.py": b"c = 1\n"}, "More\n")
    assert side.forge.changed_files(number) == ("a.py", "c.py")


def test_open_pull_requests_of_a_head(side: Side, number: int) -> None:
    head = side.forge.pull(number).head_sha
    other = side.people.open_pull("dana", "tune", "main", "The same branch again")
    assert side.forge.pulls_with_head(head) == (number, other)
    side.people.close_pull(number)
    assert side.forge.pulls_with_head(head) == (other,)
    side.people.push("dana", "tune", {"a.py": b"a = 7\n"}, "More\n")
    assert side.forge.pulls_with_head(head) == ()
    assert side.forge.pulls_with_head("0" * 40) == ()


def test_where_a_branch_stands(side: Side) -> None:
    head = side.people.push("dana", "deep/er", {"a.py": b"a = 8\n"}, "More\n")
    assert side.forge.branch_sha("deep/er") == side.forge.branch_sha("refs/heads/deep/er") == head
    assert side.forge.branch_sha("no-such-branch") is None
