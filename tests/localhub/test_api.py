"""Every endpoint, asked by PyGithub as anybody would use it, eager and with its own defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import requests
from github import Auth, Github, GithubException, UnknownObjectException
from github.Repository import Repository

from bot.localhub.server import Hub

BOT = "kernelwright[bot]"


def connected(hub: Hub, token: str) -> Github:
    return Github(
        base_url=hub.url, auth=Auth.Token(token), retry=None, seconds_between_requests=None, seconds_between_writes=None
    )


@pytest.fixture
def repo(hub: Hub) -> Iterator[Repository]:
    """As mira, who maintains it."""
    yield connected(hub, hub.add_user("mira", "maintain")).get_repo(hub.repo)
    assert hub.unknown == []


@pytest.fixture
def lazy(hub: Hub) -> Repository:
    """As mira too, but nothing is read before it is needed: there is no endpoint for a commit itself."""
    return connected(hub, hub.add_user("mira", "maintain")).withLazy(True).get_repo(hub.repo)


@pytest.fixture
def as_bot(hub: Hub) -> Repository:
    return connected(hub, hub.token(BOT, {"read", "comment", "status"})).get_repo(hub.repo)


def status_of(act: Callable[[], object]) -> int:
    with pytest.raises(GithubException) as caught:
        act()
    return caught.value.status


def test_the_repository(repo: Repository) -> None:
    assert (repo.full_name, repo.default_branch, repo.fork, repo.private) == ("sample/kernels", "main", False, False)
    assert repo.owner.login == "sample"


def test_people(hub: Hub, repo: Repository) -> None:
    api = connected(hub, hub.add_user("mira", "maintain"))
    assert (api.get_user().login, api.get_user().type) == ("mira", "User")
    assert (api.get_user(BOT).id, api.get_user(BOT).type) == (hub.user_id(BOT), "Bot")
    assert api.get_user("dana").node_id != api.get_user("lee").node_id
    with pytest.raises(UnknownObjectException):
        api.get_user("nobody")


def test_an_installation_token_has_no_user(hub: Hub) -> None:
    api = connected(hub, hub.token(BOT, {"read"}))
    assert status_of(lambda: api.get_user().login) == 403


def test_permissions(hub: Hub, repo: Repository) -> None:
    hub.add_user("tara", "triage")
    hub.add_user("out", "none")
    words = {
        login: (repo.get_collaborator_permission(login), repo.get_collaborator_role_name(login))
        for login in ("mira", "dana", "lee", "tara", "out")
    }
    assert words == {
        "mira": ("write", "maintain"),
        "dana": ("write", "write"),
        "lee": ("read", "read"),
        "tara": ("read", "triage"),
        "out": ("none", "none"),
    }
    assert status_of(lambda: repo.get_collaborator_permission("nobody")) == 404


def test_pull_requests(hub: Hub, repo: Repository) -> None:
    hub.push("dana", "other", {"b.py": b"b = 2\n"}, "Other\n")
    hub.open_pull("dana", "other", "main", "Other", draft=True)
    hub.close_pull(1)
    assert [pull.number for pull in repo.get_pulls()] == [2]
    assert [pull.number for pull in repo.get_pulls(state="closed")] == [1]
    assert [pull.number for pull in repo.get_pulls(state="all")] == [2, 1]
    pull = repo.get_pull(2)
    assert (pull.title, pull.draft, pull.state, pull.user.login) == ("Other", True, "open", "dana")
    assert pull.base.sha == repo.get_git_ref("heads/main").object.sha
    assert repo.get_pull(1).closed_at is not None
    with pytest.raises(UnknownObjectException):
        repo.get_pull(3)


def test_files_of_a_pull_request(hub: Hub, repo: Repository) -> None:
    hub.push("dana", "files", {"deep/new.py": b"x = 1\n", "b.py": b"b = 1\nb = 2\n"}, "Files\n")
    number = hub.open_pull("dana", "files", "main", "Files")
    hub.push("mira", "main", {"later.py": b"not part of it\n"}, "Main moved on\n")
    first, second = repo.get_pull(number).get_files()
    assert (first.filename, first.status, first.additions, first.deletions) == ("b.py", "modified", 1, 0)
    assert first.patch == "@@ -1 +1,2 @@\n b = 1\n+b = 2"
    assert (second.filename, second.status, second.changes) == ("deep/new.py", "added", 1)


def test_a_pull_request_from_a_fork(hub: Hub, repo: Repository) -> None:
    fork = hub.fork("lee")
    head = hub.push("lee", "mine", {"a.py": b"a = 9\n"}, "From outside\n", repo=fork)
    pull = repo.get_pull(hub.open_pull("lee", "mine", "main", "From outside", head_repo=fork))
    assert (pull.head.sha, pull.head.label, pull.head.user.login) == (head, "lee:mine", "lee")
    assert pull.head.repo.full_name == "lee/kernels" and pull.head.repo.fork
    assert [file.filename for file in pull.get_files()] == ["a.py"]


def test_comments(hub: Hub, repo: Repository, as_bot: Repository) -> None:
    made = as_bot.get_pull(1).create_issue_comment("Working on it.")
    assert (made.user.login, made.user.type, made.body) == (BOT, "Bot", "Working on it.")
    made.edit("Done.")
    assert [comment.body for comment in repo.get_pull(1).get_issue_comments()] == ["Done."]
    assert repo.get_pull(1).get_issue_comment(made.id).body == "Done."
    assert made.html_url == f"{hub.server_url}/sample/kernels/pull/1#issuecomment-{made.id}"
    assert made.url.startswith(hub.url)


@pytest.mark.parametrize(("login", "role", "allowed"), [("dana", "write", True), ("lee", "read", False)])
def test_writers_may_rewrite_what_others_wrote(
    hub: Hub, as_bot: Repository, login: str, role: str, allowed: bool
) -> None:
    made = as_bot.get_pull(1).create_issue_comment("Mine.")
    theirs = connected(hub, hub.add_user(login, role)).get_repo(hub.repo).get_pull(1).get_issue_comment(made.id)
    if allowed:
        theirs.edit("Theirs.")
    else:
        assert status_of(lambda: theirs.edit("Theirs.")) == 403
    assert hub.comments(1)[0]["body"] == ("Theirs." if allowed else "Mine.")


@pytest.mark.parametrize(("length", "refused"), [(65536, False), (65537, True), (0, True)])
def test_the_length_of_a_comment(repo: Repository, length: int, refused: bool) -> None:
    pull = repo.get_pull(1)
    if not refused:
        assert len(pull.create_issue_comment("é" * length).body) == length
    else:
        assert status_of(lambda: pull.create_issue_comment("é" * length)) == 422


@pytest.mark.parametrize(("count", "requests_made"), [(0, 1), (30, 1), (31, 2), (101, 4)])
def test_a_long_list_comes_in_pages(hub: Hub, repo: Repository, count: int, requests_made: int) -> None:
    for number in range(count):
        hub.comment("lee", 1, f"{number}")
    pull, before = repo.get_pull(1), len(hub.seen)
    assert [comment.body for comment in pull.get_issue_comments()] == [str(number) for number in range(count)]
    assert len(hub.seen) - before == requests_made


def test_pages_are_no_longer_than_a_hundred(hub: Hub) -> None:
    for number in range(101):
        hub.comment("lee", 1, f"{number}")
    address = f"{hub.url}/repos/{hub.repo}/issues/1/comments"
    headers = {"Authorization": f"Bearer {hub.token('lee', {'read'})}"}
    sizes = [
        len(requests.get(f"{address}?per_page={size}&page={page}", headers=headers, timeout=10).json())
        for size, page in ((100, 1), (100, 2), (1000, 1), (0, 1), ("x", 1), (100, 3))
    ]
    assert sizes == [100, 1, 100, 1, 30, 0]


def test_reactions(hub: Hub, repo: Repository, as_bot: Repository) -> None:
    comment = repo.get_pull(1).get_issue_comment(hub.comment("dana", 1, "/optimize a"))
    for content in ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"):
        comment.create_reaction(content)
    mine = as_bot.get_pull(1).get_issue_comment(comment.id)
    first, again = mine.create_reaction("eyes"), mine.create_reaction("eyes")
    assert first.id == again.id
    assert len(list(comment.get_reactions())) == 9
    assert not mine.delete_reaction(next(r.id for r in comment.get_reactions() if r.user.login == "mira"))
    assert mine.delete_reaction(first.id)
    assert not mine.delete_reaction(first.id)
    assert status_of(lambda: comment.create_reaction("shrug")) == 422
    assert comment.raw_data["reactions"]["total_count"] == 0, "as it was when the comment was read"
    assert repo.get_pull(1).get_issue_comment(comment.id).raw_data["reactions"]["eyes"] == 1


def test_reviews(hub: Hub, repo: Repository, lazy: Repository) -> None:
    pull = repo.get_pull(1)
    made = pull.create_review(body="Reads well.", event="APPROVE")
    assert (made.state, made.body, made.user.login, made.commit_id) == (
        "APPROVED",
        "Reads well.",
        "mira",
        pull.head.sha,
    )
    hub.push("dana", "tune", {"a.py": b"a = 3\n"}, "More\n")
    on_old = pull.create_review(body="Not this.", event="REQUEST_CHANGES", commit=lazy.get_commit(pull.head.sha))
    assert (on_old.state, on_old.commit_id) == ("CHANGES_REQUESTED", pull.head.sha)
    assert repo.get_pull(1).create_review(body="Now?", event="COMMENT").commit_id != pull.head.sha
    assert [review.state for review in pull.get_reviews()] == ["APPROVED", "CHANGES_REQUESTED", "COMMENTED"]


@pytest.mark.parametrize(
    ("event", "body", "says"),
    [
        ("APPROVE", "", "Can not approve your own pull request"),
        ("REQUEST_CHANGES", "No.", "Can not request changes on your own pull request"),
    ],
)
def test_nobody_decides_about_their_own_pull_request(hub: Hub, event: str, body: str, says: str) -> None:
    pull = connected(hub, hub.add_user("dana", "write")).get_repo(hub.repo).get_pull(1)
    with pytest.raises(GithubException) as caught:
        pull.create_review(body=body, event=event)
    assert caught.value.status == 422
    assert caught.value.data["errors"] == [says]
    assert pull.create_review(body="A remark is fine.", event="COMMENT").state == "COMMENTED"


@pytest.mark.parametrize("event", ["REQUEST_CHANGES", "COMMENT", "SHRUG"])
def test_a_review_that_says_nothing(repo: Repository, event: str) -> None:
    pull = repo.get_pull(1)
    assert status_of(lambda: pull.create_review(body="", event=event)) == 422


def test_statuses(lazy: Repository) -> None:
    head = lazy.get_pull(1).head.sha
    commit = lazy.get_commit(head)
    assert commit.get_combined_status().state == "pending"
    commit.create_status("pending", context="kernelwright/a", description="profiling", target_url="https://x.example")
    commit.create_status("success", context="ci")
    assert commit.get_combined_status().state == "pending"
    commit.create_status("success", context="kernelwright/a", description="done")
    combined = commit.get_combined_status()
    assert (combined.state, combined.total_count, combined.sha) == ("success", 2, head)
    assert {s.context: s.description for s in combined.statuses} == {"kernelwright/a": "done", "ci": ""}
    commit.create_status("error", context="ci")
    assert commit.get_combined_status().state == "failure"


@pytest.mark.parametrize(
    ("sha", "state", "length", "refused"),
    [
        (None, "success", 140, False),
        (None, "success", 141, True),
        (None, "great", 3, True),
        ("0" * 40, "error", 3, True),
    ],
)
def test_a_status_nobody_takes(lazy: Repository, sha: str | None, state: str, length: int, refused: bool) -> None:
    commit = lazy.get_commit(sha or lazy.get_pull(1).head.sha)

    def post() -> object:
        return commit.create_status(state, context="a", description="d" * length)

    if refused:
        assert status_of(post) == 422
    else:
        post()


def test_refs(hub: Hub, repo: Repository) -> None:
    ref = repo.get_git_ref("heads/tune")
    assert (ref.ref, ref.object.sha, ref.object.type) == ("refs/heads/tune", repo.get_pull(1).head.sha, "commit")
    assert repo.get_git_ref("pull/1/head").object.sha == ref.object.sha
    assert status_of(lambda: repo.get_git_ref("heads/nothing").object) == 404


WRITES = {
    "comment": lambda repo: repo.get_pull(1).create_issue_comment("hello"),
    "reaction": lambda repo: repo.get_pull(1).get_issue_comments()[0].create_reaction("eyes"),
    "edit": lambda repo: repo.get_pull(1).get_issue_comments()[0].edit("hello"),
    "review": lambda repo: repo.get_pull(1).create_review(body="hello", event="COMMENT"),
    "status": lambda repo: repo.get_commit(repo.get_pull(1).head.sha).create_status("error"),
}


@pytest.mark.parametrize("write", list(WRITES))
def test_a_token_without_the_scope_gets_githubs_words(hub: Hub, write: str) -> None:
    hub.comment("lee", 1, "hello")
    reader = connected(hub, hub.token("lee", {"read"})).withLazy(True).get_repo(hub.repo)
    before = hub.world.model_dump_json()
    with pytest.raises(GithubException) as caught:
        WRITES[write](reader)
    assert (caught.value.status, caught.value.data["message"]) == (403, "Resource not accessible by integration")
    assert "documentation_url" in caught.value.data
    assert hub.world.model_dump_json() == before
