from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.errors import Conflict, GitError
from bot.git import repo as repo_module
from bot.git.repo import Repo
from bot.model.reasons import ReasonCode
from tests.examples import SLOW
from tests.git.world import AUTHOR, DATE, MAIN, World, git, raw_commit

PR = "refs/heads/pr"


# Reading


def test_reading_a_commit(world: World) -> None:
    assert world.repo.resolve("main") == world.repo.resolve(world.base) == world.base
    assert world.repo.read("main", "src/op.py") == b"x = 1\n"
    assert world.repo.list("main") == ("README.md", "src/op.py")
    assert world.repo.list("main", "src") == ("src/op.py",)
    assert world.repo.message("main") == "first\n"
    assert world.repo.parents("main") == ()


@pytest.mark.parametrize(
    "path", ["nope", "src", "src/nope", "README.md/x", "", "/README.md", "./README.md", "src/../README.md"]
)
def test_what_is_not_a_file_reads_as_nothing(world: World, path: str) -> None:
    assert world.repo.read("main", path) is None


def test_links_and_submodules_are_not_files(world: World) -> None:
    entries = [
        ("120000", "link", b"/etc/passwd"),
        ("120000", "dir", b"/etc"),
        ("160000", "sub", b"1" * 40),
        ("100644", "plain", b"ok"),
    ]
    raw_commit(world.repo.path, "refs/heads/evil", entries)
    assert world.repo.read("evil", "plain") == b"ok"
    assert [world.repo.read("evil", path) for path in ("link", "dir/passwd", "sub", "sub/x")] == [None] * 4
    assert world.repo.list("evil") == ("plain",)


def test_a_glob_is_a_name_like_any_other(world: World) -> None:
    raw_commit(world.repo.path, "refs/heads/evil", [("100644", "*", b"star"), ("100644", "a", b"a")])
    assert world.repo.read("evil", "*") == b"star"
    assert world.repo.list("evil", ":(top)a") == ()


@pytest.mark.parametrize(
    "rev", ["-oProxyCommand=x", "--output=/tmp/x", "main:README.md", "main^{tree}", "a..b", "@{-1}", ""]
)
def test_a_hostile_rev_is_refused_everywhere(world: World, rev: str) -> None:
    acts = (
        lambda: world.repo.resolve(rev),
        lambda: world.repo.read(rev, "a"),
        lambda: world.repo.list(rev),
        lambda: world.repo.changed(rev, world.base),
        lambda: world.repo.changed(world.base, rev),
        lambda: world.repo.is_ancestor(rev, world.base),
        lambda: world.repo.message(rev),
        lambda: world.repo.remote_sha(rev),
        lambda: world.repo.push(rev, world.base, ""),
    )
    for act in acts:
        with pytest.raises(GitError, match="not a"):
            act()


def test_a_branch_called_like_an_option_stays_a_branch(world: World) -> None:
    """Git itself will not make one, but `refs/heads/-x` is a valid name on a server."""
    world.set("refs/heads/-upload-pack", world.base)
    world.repo.fetch("+refs/heads/*:refs/heads/*")
    assert world.repo.resolve("refs/heads/-upload-pack") == world.base
    with pytest.raises(GitError, match="not a usable ref name"):
        world.repo.resolve("-upload-pack")


def test_an_abbreviated_id(world: World) -> None:
    assert world.repo.resolve(world.base[:7]) == world.base
    assert world.repo.resolve("0" * 7) is None


def test_a_branch_cannot_pose_as_an_abbreviated_id(world: World) -> None:
    other = world.commit(world.base, "evil")
    git(world.repo.path, "update-ref", f"refs/heads/{world.base[:7]}", other)
    assert git(world.repo.path, "rev-parse", world.base[:7]).strip() == other, "plain git is fooled"
    assert world.repo.resolve(world.base[:7]) == world.base


def test_an_id_of_something_else_is_no_commit(world: World) -> None:
    blob = git(world.repo.path, "rev-parse", "main:README.md").strip()
    assert world.repo.resolve(blob) is None and world.repo.resolve(blob[:12]) is None


def test_what_changed_between_two_commits(world: World) -> None:
    files = {"src/op.py": b"x = 2\n", "new.txt": b"hello\n"}
    later = world.repo.commit_files(world.base, files, "m", author=AUTHOR, date=DATE)
    assert world.repo.changed(world.base, later) == ("new.txt", "src/op.py")
    assert world.repo.changed(world.base, world.base) == ()


def test_a_changed_mode_and_a_rename_are_changes(world: World) -> None:
    later = raw_commit(world.repo.path, PR, [("100755", "src/op.py", b"x = 1\n")], world.base)
    assert world.repo.changed(world.base, later) == ("src/op.py",)
    moved = raw_commit(world.repo.path, "refs/heads/m", [("100644", "moved", b"hello\n")])
    assert set(world.repo.changed(world.base, moved)) == {"README.md", "moved", "src/op.py"}


def test_a_file_name_of_strange_bytes(world: World) -> None:
    git(world.repo.path, "update-ref", PR, world.base)
    later = raw_commit(world.repo.path, PR, [("100644", '"a\\tb\\n\\303\\244\\377"', b"x")], world.base)
    assert world.repo.changed(world.base, later) == ("a\tb\nä\\xff",)


def test_a_replaced_commit_is_read_as_it_was_written(world: World) -> None:
    other = world.commit(None, "evil", "README.md")
    git(world.repo.path, "replace", world.base, other)
    assert world.repo.read(world.base, "README.md") == b"hello\n"


def test_a_file_too_large_to_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repo_module, "MAX_BLOB", 6)
    assert world.repo.read("main", "src/op.py") == b"x = 1\n"
    monkeypatch.setattr(repo_module, "MAX_BLOB", 5)
    with pytest.raises(GitError, match="6 bytes, more than 5"):
        world.repo.read("main", "src/op.py")


def test_a_commit_as_a_tree(world: World) -> None:
    tree = world.repo.at("main")
    assert tree.exists("src/op.py") and not tree.exists("src")
    assert tree.read("src/op.py") == b"x = 1\n" and tree.read("nope") is None
    assert tree.list("src") == tree.list("src/") == ("src/op.py",)
    assert tree.list("sr") == ()


def test_ancestry(world: World) -> None:
    later = world.commit(world.base, "2")
    assert world.repo.is_ancestor(world.base, later) and not world.repo.is_ancestor(later, world.base)
    with pytest.raises(GitError):
        world.repo.is_ancestor("1" * 40, later)


# Committing


def commit(world: World, files: dict[str, bytes], parent: str | None = None, **kwargs: object) -> str:
    given = {"author": AUTHOR, "date": DATE, **kwargs}
    return world.repo.commit_files(parent, files, "message", **given)  # type: ignore[arg-type]


def test_the_same_commit_twice_has_one_name(world: World) -> None:
    first, second = (commit(world, {"a": b"1", "b/c": b"2"}, world.base) for _ in range(2))
    assert first == second
    assert world.repo.parents(first) == (world.base,)


def test_it_is_the_commit_that_git_itself_would_make(world: World) -> None:
    work = Repo.clone(str(world.server.path), world.root / "work")
    (work.path / "src" / "op.py").write_text("x = 2\n")
    identity = ("-c", "user.name=Ann Author", "-c", "user.email=ann@example.com")
    git(work.path, "add", "src/op.py")
    tree = git(work.path, "write-tree").strip()
    ours = commit(world, {"src/op.py": b"x = 2\n"}, world.base)
    assert git(world.repo.path, "rev-parse", f"{ours}^{{tree}}").strip() == tree
    assert git(world.repo.path, *identity, "show", "-s", "--format=%an|%ae|%cn|%aI|%cI|%B", ours).strip() == (
        "Ann Author|ann@example.com|Ann Author|2026-01-31T12:00:00+00:00|2026-01-31T12:00:00+00:00|message"
    )


@pytest.mark.parametrize("other", [{"date": "2026-01-31T12:00:01Z"}, {"author": ("Bob", "bob@example.com")}])
def test_who_and_when_are_part_of_the_name(world: World, other: dict[str, object]) -> None:
    assert commit(world, {"a": b"1"}) != commit(world, {"a": b"1"}, **other)


@pytest.mark.parametrize("date", ["2026-01-31T12:00:00", "2026-01-31T12:00:00+00:00", "2026-01-31T14:00:00+02:00"])
def test_one_moment_is_one_name(world: World, date: str) -> None:
    assert commit(world, {"a": b"1"}, date=date) == commit(world, {"a": b"1"})


def test_other_files_stay_unless_these_are_the_whole_tree(world: World) -> None:
    assert world.repo.list(commit(world, {"a": b"1"}, world.base)) == ("README.md", "a", "src/op.py")
    assert world.repo.list(commit(world, {"a": b"1"}, world.base, whole_tree=True)) == ("a",)


def test_an_executable_file_stays_one(world: World) -> None:
    base = raw_commit(world.repo.path, PR, [("100755", "run.sh", b"old")])
    made = commit(world, {"run.sh": b"new", "plain": b"x"}, base)
    modes = {entry.path: entry.mode for entry in world.repo.entries(made)}
    assert modes == {"run.sh": "100755", "plain": "100644"}


@pytest.mark.parametrize("path", ["link", "dir/x", "sub", "sub/x", "folder", "plain/x", "deep/link/x"])
def test_nothing_is_written_through_a_link_or_over_a_folder(world: World, path: str) -> None:
    entries = [
        ("120000", "link", b"/etc/passwd"),
        ("120000", "dir", b"/etc"),
        ("160000", "sub", b"1" * 40),
        ("100644", "folder/file", b""),
        ("100644", "plain", b""),
        ("120000", "deep/link", b".."),
    ]
    evil = raw_commit(world.repo.path, PR, entries)
    with pytest.raises(GitError, match="cannot be written"):
        commit(world, {path: b"pwned"}, evil)


def test_two_files_that_cannot_both_be(world: World) -> None:
    with pytest.raises(GitError, match="a is not a folder"):
        commit(world, {"a": b"", "a/b": b""})


@pytest.mark.parametrize(
    "path", ["../x", ".git/hooks/post-checkout", "/etc/passwd", "a/../../x", "a\nM 100644 inline b"]
)
def test_paths_out_of_the_tree(world: World, path: str) -> None:
    with pytest.raises(GitError, match="not a path we write to"):
        commit(world, {path: b"pwned"})


@pytest.mark.parametrize("author", [("A\nfrom x", "a@b"), ("A <x>", "a@b"), ("", "a@b"), ("A", "")])
def test_an_author_cannot_smuggle_a_header(world: World, author: tuple[str, str]) -> None:
    with pytest.raises(GitError, match="not a usable author"):
        commit(world, {"a": b""}, author=author)


@pytest.mark.parametrize("date", ["yesterday", "", "2026-13-01T00:00:00Z", "1 +0000\nfrom x"])
def test_a_date_that_is_none(world: World, date: str) -> None:
    with pytest.raises(GitError, match="not a date"):
        commit(world, {"a": b""}, date=date)


@pytest.mark.parametrize("parent", ["main", "-x", "1" * 39, "1" * 40, ""])
def test_a_parent_that_is_no_commit_here(world: World, parent: str) -> None:
    with pytest.raises(GitError):
        commit(world, {"a": b""}, parent)


def test_a_commit_leaves_no_ref_and_no_index(world: World) -> None:
    before = git(world.repo.path, "for-each-ref")
    commit(world, {"a": b"1"}, world.base)
    assert git(world.repo.path, "for-each-ref") == before
    assert not (world.repo.path / "index").exists()


@settings(max_examples=8, deadline=None, suppress_health_check=[*SLOW, HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), message=st.text(max_size=80))
def test_any_content_and_any_message_come_back(world: World, content: bytes, message: str) -> None:
    sha = world.repo.commit_files(None, {"a": content}, message, author=AUTHOR, date=DATE)
    assert world.repo.read(sha, "a") == content
    expected = message.replace("\0", "").rstrip().encode("utf-8", "backslashreplace").decode() + "\n"
    assert world.repo.message(sha) == expected
    assert world.repo.parents(sha) == ()


# Pushing


def test_a_push_moves_the_branch(world: World) -> None:
    new = world.commit(world.base, "2")
    world.repo.push(MAIN, new, world.base)
    assert world.at(MAIN) == world.repo.remote_sha(MAIN) == new


@pytest.mark.parametrize("nothing", ["", None])
def test_a_new_branch_must_not_exist(world: World, nothing: str | None) -> None:
    new = world.commit(world.base, "2")
    world.repo.push(PR, new, nothing)
    assert world.at(PR) == new
    with pytest.raises(Conflict):
        world.repo.push(PR, world.base, nothing)
    assert world.at(PR) == new


def test_pushing_what_is_there_already_is_done(world: World) -> None:
    world.repo.push(MAIN, world.base, world.base)
    world.repo.push(MAIN, world.base, "")
    assert world.at(MAIN) == world.base


def test_a_plain_push_brings_dropped_commits_back_and_ours_refuses(world: World) -> None:
    dropped = world.commit(world.base, "a secret")
    world.repo.push(PR, dropped, "")
    winner = world.commit(dropped, "faster")
    world.set(PR, world.base)  # the author takes the secret out again
    with pytest.raises(Conflict, match="moved before the push"):
        world.repo.push(PR, winner, dropped)
    assert world.at(PR) == world.base
    git(world.repo.path, "push", "-q", "origin", f"{winner}:{PR}")
    assert world.at(PR) == winner, "a plain push is a fast-forward, and the secret is back"


def test_a_branch_that_went_on_is_a_conflict(world: World) -> None:
    ours, theirs = world.commit(world.base, "ours"), world.commit(world.base, "theirs")
    world.repo.push(MAIN, theirs, world.base)
    with pytest.raises(Conflict):
        world.repo.push(MAIN, ours, world.base)
    assert world.at(MAIN) == theirs


def test_a_branch_that_was_deleted_is_a_conflict(world: World) -> None:
    world.repo.push(PR, world.base, "")
    git(world.server.path, "update-ref", "-d", PR)
    with pytest.raises(Conflict):
        world.repo.push(PR, world.commit(world.base, "2"), world.base)
    assert world.at(PR) is None


def test_of_many_pushes_at_once_one_wins(world: World) -> None:
    shas = [world.commit(world.base, str(index)) for index in range(6)]
    outcomes: list[str] = []

    def push(sha: str) -> None:
        try:
            Repo(world.repo.path).push(MAIN, sha, world.base)
            outcomes.append(sha)
        except Conflict:
            outcomes.append("")

    threads = [threading.Thread(target=push, args=(sha,)) for sha in shas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 6 and [sha for sha in outcomes if sha] == [world.at(MAIN)]


def test_a_hook_that_declines_is_named_forbidden(world: World) -> None:
    hook = world.server.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitError, match="hook declined") as refused:
        world.repo.push(MAIN, world.commit(world.base, "2"), world.base)
    assert refused.value.reason is ReasonCode.PUSH_FORBIDDEN and "contents: write" in refused.value.hint
    assert not isinstance(refused.value, Conflict)


def test_a_name_that_cannot_exist_beside_another_is_no_conflict(world: World) -> None:
    world.repo.push("refs/heads/a", world.base, "")
    with pytest.raises(GitError) as refused:
        world.repo.push("refs/heads/a/b", world.base, "")
    assert not isinstance(refused.value, Conflict)


def test_a_server_that_is_gone(world: World) -> None:
    world.server.path.rename(world.root / "elsewhere")
    for act in (lambda: world.repo.push(PR, world.base, ""), lambda: world.repo.remote_sha(PR)):
        with pytest.raises(GitError) as failed:
            act()
        assert not isinstance(failed.value, Conflict)
        assert failed.value.reason is not ReasonCode.PUSH_FORBIDDEN


@pytest.mark.parametrize(
    "ref", ["main", "HEAD", "refs/tags/v1", "refs/heads/", "refs/heads/-x\n", "+refs/heads/x", ":x"]
)
def test_only_full_branch_names_are_pushed(world: World, ref: str) -> None:
    with pytest.raises(GitError):
        world.repo.push(ref, world.base, "")


@pytest.mark.parametrize(("sha", "expect"), [("main", ""), ("a" * 39, ""), ("b" * 40, "main"), ("-x", ""), ("", "")])
def test_only_full_ids_are_pushed_and_expected(world: World, sha: str, expect: str) -> None:
    with pytest.raises(GitError, match="not a full commit id"):
        world.repo.push(PR, sha, expect)


def test_two_branches_of_one_name_are_told_apart(world: World) -> None:
    world.set("refs/heads/x/refs/heads/main", world.commit_on_server())
    assert world.repo.remote_sha(MAIN) == world.base


def test_fetching(world: World) -> None:
    new = world.commit_on_server()
    world.set("refs/pull/7/head", new)
    assert world.repo.resolve(new) is None
    world.repo.fetch("+refs/pull/7/head:refs/pull/7/head", "+refs/heads/*:refs/heads/*")
    assert world.repo.resolve("refs/pull/7/head") == new
    with pytest.raises(GitError, match="couldn't find remote ref"):
        world.repo.fetch("refs/pull/8/head")


def test_a_malformed_history_is_not_taken_in(world: World) -> None:
    """What fsck finds, such as an entry called .git, does not get into our clone."""
    evil = raw_commit(world.server.path, "refs/heads/evil", [("100644", ".git/config", b"[core]")])
    with pytest.raises(GitError, match="failed"):
        world.repo.fetch("+refs/heads/evil:refs/heads/evil")
    assert world.repo.resolve(evil) is None


def test_other_protocols_are_closed(world: World) -> None:
    with pytest.raises(GitError, match="not allowed"):
        world.repo.fetch("main", remote="ssh://127.0.0.1/x.git")


def test_a_clone_is_whole_or_not_there(world: World, tmp_path: Path) -> None:
    with pytest.raises(GitError):
        Repo.clone(str(tmp_path / "nowhere.git"), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert Repo.clone(str(world.server.path), tmp_path / "copy", bare=True).resolve("HEAD") == world.base
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
