"""The hub as a whole: what it remembers, what it refuses, what it tells the jobs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from bot.errors import CorruptRecord
from bot.forge.client import open_forge
from bot.forge.events import CommentPosted, Ignored, ReviewsMayHaveChanged, read_event
from bot.git.repo import Repo
from bot.localhub.server import Hub
from bot.localhub.wire import Refused, refusal
from tests.localhub.conftest import BOT, populate


def get(hub: Hub, path: str, login: str | None = "mira", kind: str = "Bearer") -> requests.Response:
    headers = {"Authorization": f"{kind} {hub.token(login, {'read'})}"} if login else {}
    return requests.get(f"{hub.url}{path}", headers=headers, timeout=10)


# Where it answers


def test_it_answers_on_the_loopback_alone(hub: Hub) -> None:
    assert hub.server_url.startswith("http://127.0.0.1:")
    assert hub.url == f"{hub.server_url}/api/v3"
    assert hub.git_url == f"{hub.server_url}/sample/kernels.git"


def test_every_address_in_a_body_is_its_own(hub: Hub) -> None:
    hub.comment("mira", 1, "hello")
    hub.review("mira", 1, "APPROVE")

    def addresses(shape: Any) -> list[str]:
        match shape:
            case dict():
                return [found for value in shape.values() for found in addresses(value)]
            case list():
                return [found for value in shape for found in addresses(value)]
            case str() if "://" in shape:
                return [shape]
            case _:
                return []

    for path in ("", "/pulls", "/pulls/1", "/pulls/1/files", "/pulls/1/reviews", "/issues/1/comments"):
        found = addresses(get(hub, f"/repos/{hub.repo}{path}").json())
        assert found
        assert {address[: len(hub.server_url)] for address in found} == {hub.server_url}, path


@pytest.mark.parametrize("kind", ["token", "Bearer", "bearer"])
def test_both_ways_to_show_a_token(hub: Hub, kind: str) -> None:
    assert get(hub, "/user", kind=kind).json()["login"] == "mira"


def test_no_token_and_a_wrong_token(hub: Hub) -> None:
    assert (get(hub, "/user", login=None).status_code, get(hub, "/user", login=None).json()["message"]) == (
        401,
        "Requires authentication",
    )
    wrong = requests.get(f"{hub.url}/user", headers={"Authorization": "token nonsense"}, timeout=10)
    assert (wrong.status_code, wrong.json()["message"]) == (401, "Bad credentials")
    assert "documentation_url" in wrong.json()


def test_an_unknown_route_is_501_and_remembered(hub: Hub) -> None:
    assert hub.unknown == []
    assert get(hub, f"/repos/{hub.repo}/labels").status_code == 501
    assert get(hub, "/repos/somebody/else/pulls").status_code == 501
    assert (
        requests.delete(
            f"{hub.url}/user", headers={"Authorization": f"token {hub.token('mira', {'read'})}"}, timeout=10
        ).status_code
        == 501
    )
    assert [(seen.method, seen.path) for seen in hub.unknown] == [
        ("GET", f"/api/v3/repos/{hub.repo}/labels"),
        ("GET", "/api/v3/repos/somebody/else/pulls"),
        ("DELETE", "/api/v3/user"),
    ]


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b""])
def test_a_body_that_is_no_object(hub: Hub, body: bytes) -> None:
    headers = {"Authorization": f"token {hub.token('mira', {'comment'})}"}
    answer = requests.post(f"{hub.url}/repos/{hub.repo}/issues/1/comments", data=body, headers=headers, timeout=10)
    assert answer.status_code in (400, 422)
    assert hub.comments(1) == []


def test_a_stopped_hub_talks_to_nobody(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "hub").start()
    hub.add_user("mira", "maintain")
    with requests.Session() as session:
        session.headers["Authorization"] = f"token {hub.token('mira', {'read'})}"
        assert session.get(f"{hub.url}/user", timeout=10).ok
        hub.stop()
        with pytest.raises(requests.ConnectionError):
            session.get(f"{hub.url}/user", timeout=10)
    hub.stop()


# Tokens


def test_a_token_is_the_same_when_asked_again_and_another_with_other_scopes(hub: Hub) -> None:
    assert hub.token(BOT, {"read", "status"}) == hub.token(BOT, {"status", "read"})
    assert hub.token(BOT, {"read"}) != hub.token(BOT, {"status", "read"})
    assert hub.token(BOT, {"read"}) != hub.token("mira", {"read"})


def test_a_new_role_keeps_the_account(hub: Hub) -> None:
    before = hub.user_id("dana")
    hub.add_user("dana", "admin")
    assert hub.user_id("dana") == before


def test_what_people_do_is_refused_like_any_request(hub: Hub) -> None:
    with pytest.raises(Refused, match="422"):
        hub.review("dana", 1, "APPROVE")
    with pytest.raises(Refused, match="404"):
        hub.comment("dana", 77, "hello")


# Memory


def snapshot(hub: Hub, to: Path) -> Path:
    return Path(shutil.copytree(hub.root, to))


def test_a_copy_of_its_folder_opens_as_the_same_hub_elsewhere(hub: Hub, tmp_path: Path) -> None:
    token, comment = hub.token(BOT, {"read", "comment"}), hub.comment("mira", 1, "/optimize a")
    hub.review("mira", 1, "APPROVE", "Fine.")
    copy = snapshot(hub, tmp_path / "copy")
    later = hub.comment("mira", 1, "after the copy was taken")
    with Hub(copy) as other:
        assert other.server_url != hub.server_url
        forge = open_forge(other.url, other.repo, token, own_login=BOT, own_id=other.user_id(BOT))
        assert [c.id for c in forge.comments(1)] == [comment]
        assert forge.comments(1)[0].url.startswith(other.server_url)
        assert forge.reviews(1)[0].commit_id == forge.pull(1).head_sha == hub.history.heads()["refs/heads/tune"]
        assert other.comment("mira", 1, "in the copy") == later, "ids go on where the copy was taken"
        assert [name for name, _ in other.events()] == ["issue_comment", "workflow_run", "issue_comment"]
        assert hub.server_url not in (copy / "state.json").read_text()


def test_a_copy_opens_on_the_same_port_too(hub: Hub, tmp_path: Path) -> None:
    copy, other = snapshot(hub, tmp_path / "copy"), None
    while other is None:
        port = int(hub.server_url.rpartition(":")[2])
        hub.stop()
        try:
            other = Hub(copy, port=port).start()
        except OSError:  # somebody else on this machine took the port in between
            hub.start()
    try:
        assert other.server_url == f"http://127.0.0.1:{port}"
        assert get(other, "/user").json()["login"] == "mira"
    finally:
        other.stop()


def test_opening_again_changes_nothing(hub: Hub) -> None:
    before = (hub.root / "state.json").read_bytes()
    again = Hub(hub.root)
    assert again.world == hub.world
    assert (hub.root / "state.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b'{"repo": "../x"}', b"[]"])
def test_a_broken_state_is_not_guessed_at(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.json").write_bytes(content)
    with pytest.raises(CorruptRecord):
        Hub(tmp_path)


def test_a_repository_that_lies_elsewhere(tmp_path: Path) -> None:
    bare = tmp_path / "repo.git"
    Repo.init(bare, bare=True)
    with Hub(tmp_path / "hub", bare=bare) as hub:
        populate(hub)
        assert (bare / "refs/heads/tune").is_file() or "refs/heads/tune" in hub.history.heads()
        assert not (tmp_path / "hub" / "git").exists()
    with Hub(tmp_path / "hub", bare=bare) as hub:
        assert open_forge(hub.url, hub.repo, hub.token("mira", {"read"})).pull(1).number == 1


def test_the_clock_is_whatever_it_is_given(tmp_path: Path) -> None:
    with Hub(tmp_path / "hub", clock=lambda: "2030-01-01T00:00:00Z") as hub:
        populate(hub)
        hub.comment("mira", 1, "hello")
        assert hub.comments(1)[0]["created_at"] == "2030-01-01T00:00:00Z"


def test_ids_ascend_over_everything(hub: Hub) -> None:
    ids = [hub.comment("mira", 1, "a"), hub.review("mira", 1, "APPROVE"), hub.comment("dana", 1, "b")]
    assert ids == sorted(set(ids))


def test_many_may_speak_at_once(hub: Hub) -> None:
    with ThreadPoolExecutor(8) as pool:
        forges = [open_forge(hub.url, hub.repo, hub.token("mira", {"read", "comment"})) for _ in range(8)]
        made = list(pool.map(lambda forge: forge.post_comment(1, "hello"), forges))
    assert len(set(made)) == 8 == len(hub.comments(1))
    assert len(list(hub.events())) == 8


# Branches


def test_a_pull_request_whose_branch_is_deleted_is_closed(hub: Hub) -> None:
    hub.history.repo.path.joinpath("refs/heads/tune").unlink()
    forge = open_forge(hub.url, hub.repo, hub.token("mira", {"read"}))
    assert not forge.pull(1).is_open


def test_who_moved_the_branch_is_remembered(hub: Hub) -> None:
    hub.push("mira", "tune", {"a.py": b"a = 3\n"}, "Help\n")
    hub.push(BOT, "tune", {"a.py": b"a = 4\n"}, "[Perf] a\n")
    part = hub.world.threads[1].pull
    assert part is not None
    assert [push.author for push in part.pushes] == ["mira", BOT]
    assert part.pushes[0].after == part.pushes[1].before


# Events


def delivered(hub: Hub) -> list[tuple[str, dict[str, Any]]]:
    return [(name, json.loads(path.read_bytes())) for name, path in hub.events()]


def test_a_persons_comment_becomes_an_event(hub: Hub) -> None:
    made = hub.comment("mira", 1, "/optimize a")
    ((name, payload),) = delivered(hub)
    assert name == "issue_comment"
    assert payload["action"] == "created"
    comment, issue = payload["comment"], payload["issue"]
    assert comment["id"] == made
    assert comment["user"]["type"] == "User"
    assert comment.keys() >= {"id", "node_id", "body", "html_url", "created_at", "user", "performed_via_github_app"}
    assert (issue["number"], issue["state"], issue["locked"]) == (1, "open", False)
    assert issue["pull_request"]["url"] == f"{hub.url}/repos/sample/kernels/pulls/1"
    assert issue["user"]["id"] == hub.user_id("dana")
    assert payload["repository"].keys() >= {"id", "full_name", "default_branch", "private"}
    assert payload["sender"]["id"] == comment["user"]["id"] == hub.user_id("mira")


def test_the_events_are_what_our_reader_expects(hub: Hub) -> None:
    issue = hub.open_issue("lee", "Slow")
    hub.comment("mira", 1, "/optimize a")
    hub.comment("lee", issue, "/optimize a")
    hub.review("mira", 1, "APPROVE")
    comment, on_issue, review = (read_event(name, path.read_bytes(), hub.user_id(BOT)) for name, path in hub.events())
    assert isinstance(comment, CommentPosted) and comment.is_pull and comment.body == "/optimize a"
    assert comment.actor.id == hub.user_id("mira")
    assert isinstance(on_issue, CommentPosted) and not on_issue.is_pull and on_issue.pull_number == issue
    assert isinstance(review, ReviewsMayHaveChanged)
    assert review.head_sha == hub.history.heads()["refs/heads/tune"]


def test_an_event_of_the_bots_own_would_be_ignored(hub: Hub) -> None:
    hub.comment("mira", 1, "/optimize a")
    ((name, path),) = hub.events()
    assert isinstance(read_event(name, path.read_bytes(), hub.user_id("mira")), Ignored)


def test_a_review_says_nothing_but_where(hub: Hub) -> None:
    hub.review("mira", 1, "REQUEST_CHANGES", "A secret word.")
    ((name, payload),) = delivered(hub)
    assert name == "workflow_run"
    assert payload["workflow_run"]["head_sha"] == hub.history.heads()["refs/heads/tune"]
    assert payload["workflow_run"]["event"] == "pull_request_review"
    assert "secret" not in json.dumps(payload)


def test_what_the_bot_says_starts_nothing(hub: Hub) -> None:
    token = hub.token(BOT, {"read", "comment"})
    forge = open_forge(hub.url, hub.repo, token, own_login=BOT, own_id=hub.user_id(BOT))
    forge.edit_comment(forge.post_comment(1, "/optimize a"), "/optimize b")
    assert delivered(hub) == []


def test_an_event_is_delivered_until_it_was_taken_to_its_end(hub: Hub) -> None:
    for text in ("first", "second"):
        hub.comment("mira", 1, text)
    for _, _path in hub.events():
        break  # the job died
    said = []
    for _, path in hub.events():
        said.append(json.loads(path.read_bytes())["comment"]["body"])
        if len(said) == 1:
            hub.comment("mira", 1, "third, while the first is being answered")
    assert said == ["first", "second", "third, while the first is being answered"]
    assert delivered(hub) == []


# Faults


def test_a_fault_before_leaves_no_trace_and_one_after_does(hub: Hub) -> None:
    headers = {"Authorization": f"token {hub.token('mira', {'comment'})}"}

    def post() -> int:
        address = f"{hub.url}/repos/{hub.repo}/issues/1/comments"
        return requests.post(address, json={"body": "hello"}, headers=headers, timeout=10).status_code

    def at(wanted: str) -> Callable[..., Any]:
        return lambda moment, _request: refusal(502, "Bad Gateway") if moment == wanted else None

    hub.inject(at("before"))
    assert (post(), len(hub.comments(1))) == (502, 0)
    hub.inject(at("after"))
    assert (post(), len(hub.comments(1))) == (502, 1)
    hub.inject(None)
    assert (post(), len(hub.comments(1))) == (201, 2)
    assert [seen.status for seen in hub.seen] == [502, 502, 201]


def test_its_page_is_served_to_a_browser(hub: Hub) -> None:
    assert "Could it be faster, too?" in requests.get(hub.page_url(1), timeout=10).text
    assert requests.get(hub.page_url(2), timeout=10).status_code == 404
