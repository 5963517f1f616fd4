"""What every ledger does: the one on a branch, and the one in memory that other tests use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.errors import Conflict, CorruptRecord, Overtaken, UserError
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.model.campaign import Zone
from bot.model.facts import EffectDone, EffectRequested, Fact
from tests.fakes.ledger import FakeLedger, LedgerStore

AT = "2026-01-31T12:00:00Z"
Open = Callable[[], Ledger]


@pytest.fixture(params=["branch", "memory"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Each call is another writer with a view of its own."""
    if request.param == "memory":
        store = LedgerStore()
        return lambda: FakeLedger(store)  # type: ignore[return-value]
    server = Repo.init(tmp_path / "server.git", bare=True)
    names = iter(range(100))
    return lambda: Ledger(Repo.clone(str(server.path), tmp_path / f"{next(names)}.git", bare=True))


def fact(key: str) -> EffectRequested:
    return EffectRequested(key=key, zone=Zone.PUBLISH)


def append(ledger: Ledger, campaign: str, *keys: str, seq: int, files: dict[str, bytes] | None = None) -> str:
    facts: list[Fact] = [fact(key) for key in keys]
    return ledger.append(campaign, facts, zone=Zone.PUBLISH, at=AT, expect_seq=seq, files=files or {})


def keys(ledger: Ledger, campaign: str) -> list[str]:
    return [line.fact.key for line in ledger.lines(campaign) if isinstance(line.fact, EffectRequested | EffectDone)]


def test_a_new_ledger_is_empty(open_ledger: Open) -> None:
    ledger = open_ledger()
    assert ledger.tip is None
    assert ledger.campaigns() == () == ledger.lines("c1")
    assert ledger.read("README.md") is None


def test_what_was_appended_is_read_by_everybody(open_ledger: Open) -> None:
    ledger = open_ledger()
    tip = append(ledger, "c1", "a", "b", seq=0)
    assert ledger.tip == tip and len(tip) == 40
    for reader in (ledger, open_ledger()):
        assert [(line.seq, line.at, line.zone) for line in reader.lines("c1")] == [
            (0, AT, Zone.PUBLISH),
            (1, AT, Zone.PUBLISH),
        ]
        assert keys(reader, "c1") == ["a", "b"]
        assert reader.campaigns() == ("c1",)
        assert reader.tip == tip


def test_facts_come_back_as_they_were(open_ledger: Open) -> None:
    said = EffectDone(key='"\n\u2028é😀<!-- -->', zone=Zone.DECIDE, ref="")
    open_ledger().append("c1", [said], zone=Zone.DECIDE, at=AT, expect_seq=0)
    assert open_ledger().lines("c1")[0].fact == said


def test_a_journal_goes_on(open_ledger: Open) -> None:
    ledger = open_ledger()
    tips = [append(ledger, "c1", key, seq=seq) for seq, key in enumerate("abc")]
    assert len(set(tips)) == 3
    assert keys(ledger, "c1") == keys(open_ledger(), "c1") == ["a", "b", "c"]


def test_records_stand_in_the_same_commit(open_ledger: Open) -> None:
    ledger = open_ledger()
    files = {
        "campaigns/c1/report.md": b"# 1\n",
        "campaigns/c1/plots/speedup.png": b"\x89PNG\0\xff",
        "tips/h100/op/triton/tips.md": b"t",
    }
    append(ledger, "c1", "a", seq=0, files=files)
    assert {path: open_ledger().read(path) for path in files} == files
    append(ledger, "c1", "b", seq=1, files={"campaigns/c1/report.md": b"# 2\n"})
    assert ledger.read("campaigns/c1/report.md") == b"# 2\n"
    assert ledger.read("campaigns/c1/plots/speedup.png") == b"\x89PNG\0\xff"
    assert ledger.read("campaigns/c1/nope.md") is ledger.read("campaigns/c1") is None


def test_records_are_listed_by_folder(open_ledger: Open) -> None:
    ledger = open_ledger()
    assert ledger.list("campaigns/c1") == ()
    plots = ("campaigns/c1/plots/a-dark.png", "campaigns/c1/plots/a-light.png")
    append(ledger, "c1", "a", seq=0, files=dict.fromkeys((*plots, "campaigns/c1/plots2/b.png"), b"png"))
    assert ledger.list("campaigns/c1/plots") == plots
    assert ledger.list("campaigns/c1/plot") == ledger.list("campaigns/c2") == ()


def test_records_alone_leave_the_journal_as_it_is(open_ledger: Open) -> None:
    ledger = open_ledger()
    append(ledger, "c1", "a", seq=0)
    append(ledger, "c1", seq=1, files={"campaigns/c1/report.md": b"x"})
    assert keys(ledger, "c1") == ["a"]
    append(ledger, "c1", "b", seq=1)


def test_appending_nothing_is_a_mistake(open_ledger: Open) -> None:
    with pytest.raises(ValueError, match="nothing to append"):
        append(open_ledger(), "c1", seq=0)


@pytest.mark.parametrize("seq", [0, 2])
def test_a_wrong_expectation_is_a_conflict(open_ledger: Open, seq: int) -> None:
    ledger = open_ledger()
    append(ledger, "c1", "a", seq=0)
    with pytest.raises(Conflict, match=f"has 1 lines, expected {seq}"):
        append(ledger, "c1", "b", seq=seq)
    assert keys(open_ledger(), "c1") == ["a"]


def test_the_second_to_claim_a_campaign_loses(open_ledger: Open) -> None:
    """Even when it says the very same thing in the very same second."""
    first, second = open_ledger(), open_ledger()
    assert first.lines("c1") == second.lines("c1") == ()
    append(first, "c1", "claim", seq=0)
    with pytest.raises(Conflict):
        append(second, "c1", "claim", seq=0)
    assert keys(second, "c1") == ["claim"], "the loser has read what the winner wrote"


def test_the_loser_goes_on_after_what_it_read(open_ledger: Open) -> None:
    first, second = open_ledger(), open_ledger()
    append(first, "c1", "a", seq=0)
    with pytest.raises(Conflict):
        append(second, "c1", "b", seq=0)
    append(second, "c1", "b", seq=1)
    assert keys(open_ledger(), "c1") == ["a", "b"]


def test_another_campaign_is_in_nobodys_way(open_ledger: Open) -> None:
    first, second = open_ledger(), open_ledger()
    assert first.lines("c1") == second.lines("c2") == ()
    append(first, "c1", "a", seq=0)
    append(second, "c2", "b", seq=0)
    append(first, "c1", "c", seq=1, files={"campaigns/c1/report.md": b"x"})
    reader = open_ledger()
    assert (keys(reader, "c1"), keys(reader, "c2")) == (["a", "c"], ["b"])
    assert reader.campaigns() == ("c1", "c2")


def test_a_reader_sees_news_after_it_looked_again(open_ledger: Open) -> None:
    reader, writer = open_ledger(), open_ledger()
    assert reader.lines("c1") == ()
    append(writer, "c1", "a", seq=0)
    assert reader.lines("c1") == () and reader.tip is None
    reader.refresh()
    assert keys(reader, "c1") == ["a"] and reader.tip == writer.tip


def test_a_reader_that_is_behind_may_append_when_it_is_right(open_ledger: Open) -> None:
    writer, other = open_ledger(), open_ledger()
    assert other.lines("c1") == ()
    append(writer, "c1", "a", seq=0)
    append(other, "c1", "b", seq=1)
    assert keys(other, "c1") == ["a", "b"]


@pytest.mark.parametrize("name", ["", "../c1", "C1", "a/b", "-x", "a b", "x" * 97, "a\n"])
def test_a_hostile_campaign_is_refused(open_ledger: Open, name: str) -> None:
    ledger = open_ledger()
    with pytest.raises(UserError, match="not a campaign's name"):
        ledger.lines(name)
    with pytest.raises(UserError, match="not a campaign's name"):
        append(ledger, name, "a", seq=0)


@pytest.mark.parametrize(
    "path",
    [
        *["campaigns/c1/journal.jsonl", "campaigns/c2/report.md", "README.md", "src/op.py", ".git/config"],
        *["campaigns/c1/../c2/x", "/etc/passwd", "campaigns/c1", "tips", "campaigns/c10/x", "campaigns/c1/a b", ""],
        *["campaigns/c1/", "campaigns/c1//x", "campaigns/c1/.git/config", "tips/.git/hooks/x"],
    ],
)
def test_a_campaign_writes_its_own_folder_and_the_tips(open_ledger: Open, path: str) -> None:
    ledger = open_ledger()
    with pytest.raises(CorruptRecord):
        append(ledger, "c1", "a", seq=0, files={path: b"x"})
    assert open_ledger().tip is None


def test_of_many_writers_one_claims_and_all_others_get_their_own(open_ledger: Open) -> None:
    writers = [open_ledger() for _ in range(4)]
    won: list[int] = []
    start = threading.Barrier(len(writers))

    def work(number: int, ledger: Ledger) -> None:
        start.wait()
        append(ledger, f"own{number}", "a", seq=0)
        try:
            append(ledger, "shared", "claim", seq=0)
            won.append(number)
        except Conflict:
            pass
        append(ledger, f"own{number}", "b", seq=1)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = open_ledger()
    assert len(won) == 1 and keys(reader, "shared") == ["claim"]
    assert [keys(reader, f"own{number}") for number in range(4)] == [["a", "b"]] * 4


def test_a_reason_is_asked_of_what_stands_right_before_the_append(open_ledger: Open) -> None:
    """Two campaigns want to begin at one moment, and only one may: who comes second finds the first one there."""
    one, other = open_ledger(), open_ledger()
    assert one.campaigns() == other.campaigns() == ()

    def begin(ledger: Ledger, campaign: str) -> str:
        alone: Callable[[], bool] = lambda: not set(ledger.campaigns()) - {campaign}  # noqa: E731
        return ledger.append(campaign, [fact("a")], zone=Zone.DECIDE, at=AT, expect_seq=0, still=alone)

    begin(other, "c2")
    with pytest.raises(Overtaken):
        begin(one, "c1")
    assert open_ledger().campaigns() == one.campaigns() == ("c2",)
    append(one, "c2", "b", seq=1)
    assert keys(open_ledger(), "c2") == ["a", "b"]
