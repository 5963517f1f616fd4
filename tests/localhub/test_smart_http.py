"""Real git over HTTP: who may read, who may push what, and what an attempt without the right looks like to git."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.errors import Conflict, GitError
from bot.git.repo import Repo
from bot.localhub.server import Hub
from bot.localhub.wire import Request, Response
from bot.model.reasons import ReasonCode
from tests.localhub.conftest import BOT

WHEN, WHO = "2026-11-21T10:00:00Z", ("Kernelwright", "bot@example.org")
LEDGER, OWN, HEAD = "refs/heads/kernelwright/ledger", "refs/heads/optimize/c1", "refs/heads/tune"


@pytest.fixture
def clone(hub: Hub, tmp_path: Path) -> Callable[..., Repo]:
    def make(login: str = BOT, scopes: frozenset[str] | set[str] = frozenset({"read"}), url: str = "") -> Repo:
        token = hub.token(login, scopes)  # type: ignore[arg-type]
        return Repo.clone(url or hub.git_url, tmp_path / f"{login}-{'-'.join(sorted(scopes))}", token=token, bare=True)

    return make


def commit(repo: Repo, parent: str | None = None, text: bytes = b"a = 5\n") -> str:
    return repo.commit_files(parent, {"a.py": text}, "More\n", author=WHO, date=WHEN)


def test_a_clone_has_the_branches(clone: Callable[..., Repo], hub: Hub) -> None:
    repo = clone()
    assert repo.resolve("tune") == hub.history.heads()[HEAD]
    assert repo.read("tune", "a.py") == b"a = 2\n"


def test_anybody_may_read_a_public_repository(hub: Hub, tmp_path: Path) -> None:
    repo = Repo.clone(hub.git_url, tmp_path / "anonymous", bare=True)
    assert repo.resolve("tune") is not None


def test_a_pull_request_can_be_fetched_by_its_number_and_a_commit_by_its_id(
    clone: Callable[..., Repo], hub: Hub
) -> None:
    repo = clone()
    before = hub.history.heads()[HEAD]
    after = hub.push("dana", "tune", {"a.py": b"a = 3\n"}, "More\n")
    repo.fetch("+refs/pull/1/head:refs/pull/1/head")
    assert repo.resolve("refs/pull/1/head") == after != before
    repo.fetch(f"{after}:refs/heads/pinned")
    assert repo.resolve("pinned") == after


def test_a_pull_request_of_a_fork_is_here_too(clone: Callable[..., Repo], hub: Hub) -> None:
    fork = hub.fork("lee")
    head = hub.push("lee", "mine", {"a.py": b"a = 9\n"}, "From outside\n", repo=fork)
    number = hub.open_pull("lee", "mine", "main", "From outside", head_repo=fork)
    repo = clone()
    repo.fetch(f"+refs/pull/{number}/head:refs/pull/{number}/head")
    assert repo.resolve(f"refs/pull/{number}/head") == head
    assert clone("lee", {"read"}, url=f"{hub.server_url}/{fork}.git").resolve("mine") == head


def test_a_push_moves_the_pull_request(clone: Callable[..., Repo], hub: Hub) -> None:
    repo = clone("dana", {"read", "push"})
    before = hub.history.heads()[HEAD]
    made = commit(repo, before)
    repo.push(HEAD, made, expect=before)
    assert hub.history.heads()[HEAD] == made
    part = hub.world.threads[1].pull
    assert part is not None
    assert [(push.author, push.before, push.after) for push in part.pushes] == [("dana", before, made)]


def test_a_stale_lease_is_refused(clone: Callable[..., Repo], hub: Hub) -> None:
    repo = clone("dana", {"read", "push"})
    before = hub.history.heads()[HEAD]
    moved = hub.push("mira", "tune", {"a.py": b"a = 3\n"}, "Faster than you\n")
    with pytest.raises(Conflict):
        repo.push(HEAD, commit(repo, before), expect=before)
    assert hub.history.heads()[HEAD] == moved


def test_a_branch_that_exists_is_not_created_again(clone: Callable[..., Repo], hub: Hub) -> None:
    repo = clone(BOT, {"read", "ledger"})
    first = commit(repo)
    repo.push(LEDGER, first, expect="")
    with pytest.raises(Conflict):
        repo.push(LEDGER, commit(repo, text=b"another beginning\n"), expect="")
    assert hub.history.heads()[LEDGER] == first


@pytest.mark.parametrize("ref", [LEDGER, OWN])
def test_the_ledger_scope_moves_the_bots_own_branches(clone: Callable[..., Repo], hub: Hub, ref: str) -> None:
    repo = clone(BOT, {"read", "ledger"})
    made = commit(repo)
    repo.push(ref, made, expect="")
    assert hub.history.heads()[ref] == made


@pytest.mark.parametrize("branch", ["tune", "main", "kernelwright", "kernelwright-x", "optimize", "x/optimize/y"])
def test_the_ledger_scope_moves_nobody_elses(clone: Callable[..., Repo], hub: Hub, branch: str) -> None:
    repo, ref = clone(BOT, {"read", "ledger"}), f"refs/heads/{branch}"
    before = hub.history.heads().get(ref)
    with pytest.raises(GitError) as caught:
        repo.push(ref, commit(repo, before), expect=before or "")
    assert not isinstance(caught.value, Conflict)
    assert caught.value.reason is ReasonCode.PUSH_FORBIDDEN
    assert hub.history.heads().get(ref) == before


@pytest.mark.parametrize("scopes", [{"read"}, {"read", "comment", "status"}])
def test_a_token_that_may_not_push_is_stopped_at_the_door(
    clone: Callable[..., Repo], hub: Hub, scopes: set[str]
) -> None:
    repo = clone(BOT, scopes)
    with pytest.raises(GitError, match="403") as caught:
        repo.push(LEDGER, commit(repo), expect="")
    assert caught.value.reason is ReasonCode.PUSH_FORBIDDEN
    assert LEDGER not in hub.history.heads()


def test_a_reader_may_not_push_whatever_the_token_says(clone: Callable[..., Repo], hub: Hub) -> None:
    repo = clone("lee", {"read", "push"})
    with pytest.raises(GitError, match="403"):
        repo.push("refs/heads/mine", commit(repo), expect="")
    assert "refs/heads/mine" not in hub.history.heads()


def _git(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C", **more}
    return subprocess.run(
        ("git", *words), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_without_a_token_nobody_pushes(clone: Callable[..., Repo], hub: Hub) -> None:
    repo = clone("dana", {"read", "push"})
    done = _git(repo.path, "push", hub.git_url, f"{commit(repo)}:refs/heads/new")
    assert done.returncode != 0
    assert "could not read Username" in done.stderr
    assert "refs/heads/new" not in hub.history.heads()


@pytest.mark.parametrize("style", ["url", "bearer", "basic"])
def test_every_way_to_show_a_token_to_git(clone: Callable[..., Repo], hub: Hub, style: str) -> None:
    repo, token = clone("dana", {"read", "push"}), hub.token("dana", {"read", "push"})
    url, made = hub.git_url, commit(repo)
    header: tuple[str, ...] = ()
    match style:
        case "url":
            url = url.replace("://", f"://x-access-token:{token}@")
        case "bearer":
            header = ("-c", f"http.extraHeader=Authorization: Bearer {token}")
        case "basic":
            url = url.replace("://", f"://dana:{token}@")
    done = _git(repo.path, *header, "push", url, f"{made}:refs/heads/new")
    assert done.returncode == 0, done.stderr
    assert hub.history.heads()["refs/heads/new"] == made


def test_nobody_moves_a_pull_requests_own_ref(clone: Callable[..., Repo], hub: Hub) -> None:
    repo, token = clone("mira", {"read", "push"}), hub.token("mira", {"read", "push"})
    before = hub.history.heads()["refs/pull/1/head"]
    url = hub.git_url.replace("://", f"://x-access-token:{token}@")
    done = _git(repo.path, "push", "--force", url, f"{commit(repo)}:refs/pull/1/head")
    assert done.returncode != 0
    assert "hidden ref" in done.stderr
    assert hub.history.heads()["refs/pull/1/head"] == before


def test_a_push_larger_than_gits_buffer_arrives_in_chunks(clone: Callable[..., Repo], hub: Hub) -> None:
    repo = clone("dana", {"read", "push"})
    content = os.urandom(3 * 2**20)
    made = commit(repo, text=content)
    repo.push("refs/heads/large", made, expect="")
    assert hub.history.repo.read("large", "a.py") == content


def test_a_repository_that_is_not_here(hub: Hub, tmp_path: Path) -> None:
    for name in ("sample/other", "../hub/state", "sample/kernels.git.git"):
        with pytest.raises(GitError):
            Repo.clone(f"{hub.server_url}/{name}.git", tmp_path / "clone", bare=True)


def test_a_push_whose_answer_is_lost_was_made_all_the_same(clone: Callable[..., Repo], hub: Hub) -> None:
    repo = clone("dana", {"read", "push"})
    made = commit(repo)

    def lose(moment: str, request: Request) -> Response | None:
        return Response(502) if moment == "after" and "git-receive-pack" in request.path else None

    hub.inject(lose)
    with pytest.raises(GitError):
        repo.push("refs/heads/new", made, expect="")
    hub.inject(None)
    assert repo.remote_sha("refs/heads/new") == made
    repo.push("refs/heads/new", made, expect="")


def test_the_older_protocol_is_spoken_as_well(hub: Hub) -> None:
    listed = [
        subprocess.run(
            ["git", "-c", f"protocol.version={version}", "ls-remote", hub.git_url],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for version in (0, 2)
    ]
    assert listed[0] == listed[1]
    assert HEAD in listed[0]


@pytest.mark.parametrize(
    "path", ["/HEAD", "/objects/info/packs", "/info/refs", "/info/refs?service=git-upload-archive"]
)
def test_what_only_old_clients_ask_for_is_not_found(hub: Hub, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(hub.git_url + path, timeout=10)
    assert failed.value.code == 404


def test_a_body_that_only_claims_to_be_packed_is_refused(hub: Hub) -> None:
    claims = {"Content-Encoding": "gzip", "Content-Type": "application/x-git-upload-pack-request"}
    asked = urllib.request.Request(hub.git_url + "/git-upload-pack", b"0000", claims, method="POST")
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(asked, timeout=10)
    assert failed.value.code == 400
