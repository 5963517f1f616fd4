"""What only a branch can do to a ledger; what every ledger does is in tests/contracts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bot.errors import Conflict, CorruptRecord, GitError
from bot.git.repo import Repo
from bot.ledger import branch
from bot.ledger.branch import Ledger
from bot.ledger.layout import LEDGER_REF
from bot.model.campaign import Zone
from bot.model.facts import EffectRequested, Fact
from bot.model.reasons import ReasonCode
from tests.git.world import git, raw_commit

AT = "2026-01-31T12:00:00Z"
ROOT = Path(__file__).parents[2]


class Hub:
    """A server, and writers with a clone each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.server = Repo.init(root / "server.git", bare=True)
        self._names = iter(range(100))

    def open(self) -> Ledger:
        return Ledger(Repo.clone(str(self.server.path), self.root / f"{next(self._names)}.git", bare=True))

    def tip(self) -> str:
        return git(self.server.path, "rev-parse", LEDGER_REF).strip()

    def evil(self, *entries: tuple[str, str, bytes]) -> str:
        """Somebody with push rights writes to the branch by hand."""
        return raw_commit(self.server.path, LEDGER_REF, list(entries), f"{LEDGER_REF}^0")


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path)


def append(ledger: Ledger, campaign: str, seq: int, key: str = "k", files: dict[str, bytes] | None = None) -> str:
    facts: list[Fact] = [EffectRequested(key=key, zone=Zone.PUBLISH)]
    return ledger.append(campaign, facts, zone=Zone.PUBLISH, at=AT, expect_seq=seq, files=files or {})


def test_the_first_append_founds_an_orphan_branch_that_explains_itself(hub: Hub) -> None:
    tip = append(hub.open(), "c1", 0)
    assert hub.tip() == tip and hub.server.parents(tip) == ()
    assert hub.server.list(tip) == ("README.md", "campaigns/c1/journal.jsonl")
    assert b"memory of Kernelwright" in (hub.server.read(tip, "README.md") or b"")
    git(hub.server.path, "fsck", "--strict")


def test_one_append_is_one_commit_that_names_its_facts(hub: Hub) -> None:
    ledger = hub.open()
    first = append(ledger, "c1", 0)
    second = append(ledger, "c1", 1, files={"campaigns/c1/report.md": b"x"})
    assert hub.server.parents(second) == (first,)
    assert hub.server.changed(first, second) == ("campaigns/c1/journal.jsonl", "campaigns/c1/report.md")
    assert hub.server.message(second).startswith("c1: effect_requested\n")
    assert (
        git(hub.server.path, "show", "-s", "--format=%an %aI", second).strip()
        == "kernelwright 2026-01-31T12:00:00+00:00"
    )


def test_a_human_word_in_the_readme_stays(hub: Hub) -> None:
    ledger = hub.open()
    append(ledger, "c1", 0)
    hub.evil(("100644", "README.md", b"ours is better"))
    append(ledger, "c1", 1)
    assert hub.server.read(hub.tip(), "README.md") == b"ours is better"


def test_the_journal_on_the_branch_only_grows(hub: Hub) -> None:
    ledger, before = hub.open(), b""
    for seq in range(4):
        now = hub.server.read(append(ledger, "c1", seq, f"k{seq}"), "campaigns/c1/journal.jsonl") or b""
        assert now.startswith(before) and len(now) > len(before)
        before = now


def test_an_append_costs_three_git_commands(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from bot.git import repo as module

    ledger = hub.open()
    append(ledger, "c1", 0)
    verbs: list[str] = []
    real = module.run
    monkeypatch.setattr(module, "run", lambda path, args, **rest: verbs.append(args[0]) or real(path, args, **rest))
    append(ledger, "c1", 1)
    assert verbs == ["ls-tree", "fast-import", "push"]


def test_a_rewound_branch_stops_the_writer(hub: Hub) -> None:
    ledger = hub.open()
    first = append(ledger, "c1", 0)
    append(ledger, "c1", 1)
    git(hub.server.path, "update-ref", LEDGER_REF, first)
    with pytest.raises(CorruptRecord, match="rewritten"):
        append(ledger, "c1", 2)
    with pytest.raises(CorruptRecord, match="rewritten"):
        ledger.refresh()
    assert hub.tip() == first


def test_a_deleted_branch_is_not_founded_again_by_a_writer_that_knew_it(hub: Hub) -> None:
    ledger = hub.open()
    append(ledger, "c1", 0)
    git(hub.server.path, "update-ref", "-d", LEDGER_REF)
    with pytest.raises(CorruptRecord, match="rewritten"):
        append(ledger, "c1", 1)


def test_a_journal_rewritten_in_a_later_commit_stops_the_writer(hub: Hub) -> None:
    ledger = hub.open()
    append(ledger, "c1", 0, "approved by nobody")
    journal = hub.server.read(hub.tip(), "campaigns/c1/journal.jsonl") or b""
    hub.evil(("100644", "campaigns/c1/journal.jsonl", journal.replace(b"nobody", b"everybody")))
    ledger.refresh()
    with pytest.raises(CorruptRecord, match="no longer begins as it did"):
        ledger.lines("c1")
    with pytest.raises(CorruptRecord):
        append(ledger, "c1", 1)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (("120000", "campaigns/c1/journal.jsonl", b"../../README.md"), "not a plain file"),
        (("100644", "campaigns/c1/journal.jsonl/x", b""), "not a plain file"),
        (("160000", "campaigns/c1/journal.jsonl", b"1" * 40), "not a plain file"),
        (("100644", "campaigns/c1/journal.jsonl", b"\xff\n"), "not ASCII"),
        (("100644", "campaigns/c1/journal.jsonl", b"torn"), "line 1 has no end"),
        (("100644", "campaigns/c1/journal.jsonl", b"{}\n"), "line 1"),
    ],
)
def test_a_journal_that_is_none(hub: Hub, entry: tuple[str, str, bytes], complaint: str) -> None:
    append(hub.open(), "other", 0)
    hub.evil(entry)
    ledger = hub.open()
    with pytest.raises(CorruptRecord, match=complaint):
        ledger.lines("c1")
    with pytest.raises(CorruptRecord, match=complaint):
        append(ledger, "c1", 0)
    append(ledger, "other", 1)


def test_what_does_not_belong_on_the_branch_is_passed_over(hub: Hub) -> None:
    append(hub.open(), "c1", 0)
    hub.evil(
        ("120000", "campaigns/link", b"c1"),
        ("100644", "campaigns/file", b""),
        ("100644", "campaigns/UPPER/journal.jsonl", b""),
        ("100644", "campaigns/a b/journal.jsonl", b""),
        ("160000", "campaigns/sub", b"1" * 40),
        ("120000", "campaigns/c1/secret", b"/etc/passwd"),
    )
    ledger = hub.open()
    assert ledger.campaigns() == ("c1",)
    assert ledger.read("campaigns/c1/secret") is None
    assert ledger.read("campaigns/link/journal.jsonl") is None


def test_nothing_is_written_through_a_link(hub: Hub) -> None:
    append(hub.open(), "other", 0)
    hub.evil(("120000", "campaigns/c1", b"other"))
    with pytest.raises(GitError, match="not a folder"):
        append(hub.open(), "c1", 0)


def test_when_the_line_breaks_after_the_server_took_it_the_append_is_done(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = hub.open()
    append(ledger, "c1", 0)
    real = ledger._repo.push

    def push(*args: object, **rest: object) -> None:
        real(*args, **rest)  # type: ignore[arg-type]
        monkeypatch.undo()
        append(hub.open(), "c2", 0)  # and another job goes on before we look
        raise GitError("the remote end hung up")

    monkeypatch.setattr(ledger._repo, "push", push)
    tip = append(ledger, "c1", 1)
    assert hub.server.is_ancestor(tip, hub.tip()) and tip != hub.tip()
    append(ledger, "c1", 2)
    assert len(hub.open().lines("c1")) == 3 and len(hub.open().lines("c2")) == 1


def test_when_the_line_breaks_before_the_append_failed(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = hub.open()

    def push(*args: object, **rest: object) -> None:
        raise GitError("could not resolve host")

    monkeypatch.setattr(ledger._repo, "push", push)
    with pytest.raises(GitError, match="could not resolve host"):
        append(ledger, "c1", 0)
    monkeypatch.undo()
    append(ledger, "c1", 0)


def test_a_token_that_may_not_write_is_said(hub: Hub) -> None:
    hook = hub.server.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitError) as refused:
        append(hub.open(), "c1", 0)
    assert refused.value.reason is ReasonCode.PUSH_FORBIDDEN


def test_losing_for_ever_is_given_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch, "ATTEMPTS", 3)
    ledger, other, tries = hub.open(), hub.open(), []
    real = ledger._repo.push

    def push(*args: object, **rest: object) -> None:
        append(other, "busy", len(tries))
        tries.append(1)
        real(*args, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger._repo, "push", push)
    with pytest.raises(Conflict, match="moved 3 times"):
        append(ledger, "c1", 0)
    assert len(tries) == 3 and hub.open().campaigns() == ("busy",)


WRITER = """
import sys
from pathlib import Path
from bot.errors import Conflict
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.model.campaign import Zone
from bot.model.facts import EffectRequested
ledger, own = Ledger(Repo.clone(sys.argv[1], Path(sys.argv[2]), bare=True)), sys.argv[3]
ledger.lines("shared")
sys.stdin.readline()
def append(campaign, seq, key):
    facts, at = [EffectRequested(key=key, zone=Zone.DECIDE)], "2026-01-31T12:00:00Z"
    ledger.append(campaign, facts, zone=Zone.DECIDE, at=at, expect_seq=seq)
try:
    append("shared", 0, "claim")
    print("won")
except Conflict:
    print("lost")
for seq in range(3):
    append(own, seq, own)
"""


def test_processes_that_race_for_one_campaign(hub: Hub) -> None:
    """The same fact, the same second, the same empty journal: one claim."""
    commands = [
        (sys.executable, "-c", WRITER, str(hub.server.path), str(hub.root / f"racer{number}"), f"own{number}")
        for number in range(3)
    ]
    racers = [
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for command in commands
    ]
    said = [racer.communicate("go\n", timeout=60) for racer in racers]
    assert sorted(out.strip() for out, _ in said) == ["lost", "lost", "won"], said
    ledger = hub.open()
    assert len(ledger.lines("shared")) == 1
    assert [len(ledger.lines(f"own{number}")) for number in range(3)] == [3, 3, 3]
    assert [racer.returncode for racer in racers] == [0, 0, 0]
