"""`kernelwright show`: by file, folder, kernel or name; a page to be mailed; doubt where a verdict does not follow."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bot.campaign.machine import checkpoint_key, fold
from bot.cli.show import show
from bot.errors import CorruptRecord, OperatorError, UserError
from bot.git.local import set_branch
from bot.git.repo import Repo
from bot.ledger import journal
from bot.ledger.layout import LEDGER_REF, journal_path
from bot.model.campaign import Campaign, Outcome, Zone
from bot.model.facts import Answered, CampaignClosed, EffectDone, EffectRequested, Fact, RoundOpened, VariantJudged
from bot.model.reasons import ReasonCode
from bot.model.verdict import Decision
from bot.render import plots, view
from bot.zones.judging import verdict_of
from bot.zones.rereading import doubted
from tests.render import builders as a


@cache
def folded() -> tuple[Fact, ...]:
    """The journal of the pushed campaign, with the questions that were asked before its answers."""
    facts: list[Fact] = []
    now = Campaign(id=a.CAMPAIGN_ID)
    for fact in a.facts():
        due: list[Fact] = [fact]
        if isinstance(fact, Answered):
            key = checkpoint_key(now)
            asked = [EffectRequested(key=key, zone=Zone.PUBLISH), EffectDone(key=key, zone=Zone.PUBLISH)]
            due = [*asked, fact]
        facts += due
        now = fold(now, due)
    assert now.ignored == ()
    return tuple(facts)


@cache
def content(facts: tuple[Fact, ...]) -> bytes:
    return journal.write(journal.number(facts, zone=Zone.DECIDE, at="2026-11-20T09:00:00Z", first=0)).encode()


def written(path: Path, facts: tuple[Fact, ...] = ()) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content(facts or folded()))
    return path


def shown(*words: str, root: Path | None = None) -> Result:
    where = ["--repo", str(root)] if root else []
    return CliRunner().invoke(show, [*words, *where], standalone_mode=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a local campaign and one that was moved aside."""
    Repo.init(tmp_path / "here")
    written(tmp_path / "here/optimization/rms_norm/journal.jsonl")
    other = a.facts()[0].model_copy(update={"campaign": "older-1"})
    written(tmp_path / "here/optimization/geglu.older-1/journal.jsonl", (other, *a.facts()[1:3]))
    return tmp_path / "here"


@pytest.mark.parametrize("name", ["rms_norm", a.CAMPAIGN_ID])
def test_a_local_campaign_is_found_by_kernel_and_by_name(name: str, checkout: Path) -> None:
    found = shown(name, root=checkout)
    assert "rms_norm: committed (pushed)" in found.output
    assert "v2 rejected, 0.910x (estimated): forward 512x1024 is 8.1 % slower" in found.output


def test_the_result_comes_first_and_effects_only_when_they_are_asked_for(checkout: Path) -> None:
    short, whole = (shown("rms_norm", *words, root=checkout).output for words in ((), ("--all",)))
    assert short.splitlines()[0] == "rms_norm: committed (pushed)"
    assert short.index("* v3 ") < short.index("What happened") < short.index("campaign requested")
    assert "effect requested" not in short and "effect done" not in short
    assert {*whole.splitlines()} - {*short.splitlines()} == {
        line for line in whole.splitlines() if line.endswith(("effect requested", "effect done"))
    }
    assert whole.count("effect done") == 3


def test_a_file_and_a_folder_are_found(tmp_path: Path) -> None:
    path = written(tmp_path / "some/journal.jsonl")
    assert shown(str(path), root=tmp_path).output == shown(str(path.parent), root=tmp_path).output


def test_a_campaign_on_the_ledger_is_found(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path)
    content = written(tmp_path.parent / "outside.jsonl").read_bytes()
    author = ("bot", "bot@example.org")
    made = repo.commit_files(
        None, {journal_path(a.CAMPAIGN_ID): content}, "x\n", author=author, date="2026-11-20T09:00:00Z"
    )
    set_branch(repo.path, LEDGER_REF.removeprefix("refs/heads/"), made)
    assert json.loads(shown(a.CAMPAIGN_ID, "--json", root=tmp_path).output)["outcome"] == "pushed"


@pytest.mark.parametrize("name", ["nothing", "../nothing", "Not A Name", "\u202e"])
def test_what_is_not_there_is_answered_with_what_is(name: str, checkout: Path) -> None:
    found = shown(name, root=checkout).exception
    assert isinstance(found, UserError)
    assert found.reason is ReasonCode.NOT_FOUND
    assert "rms_norm" in found.hint


def test_a_journal_that_was_cut_by_a_kill_is_read_up_to_there(checkout: Path) -> None:
    path = checkout / "optimization/rms_norm/journal.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    found = shown("rms_norm", root=checkout)
    assert found.exit_code == 0
    assert "the winner is commit" in found.output and "campaign closed" not in found.output


@pytest.mark.parametrize("broken", [b"\xff\xfe\n", b'{"no": "fact"}\n', b"[" * 100_000 + b"\n"])
def test_a_broken_journal_is_refused_with_its_line(broken: bytes, checkout: Path) -> None:
    path = checkout / "optimization/rms_norm/journal.jsonl"
    path.write_bytes(path.read_bytes() + broken)
    assert isinstance(shown("rms_norm", root=checkout).exception, CorruptRecord)


def test_one_page_is_written(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[str, bool]] = []

    def draw(name: str, *_: object, dark: bool = False) -> bytes:
        drawn.append((name, dark))
        return b"\x89PNG"

    monkeypatch.setattr(plots, "picture", draw)
    found = shown("rms_norm", "--html", str(checkout / "page.html"), root=checkout)
    assert found.exit_code == 0, found.exception
    page = (checkout / "page.html").read_text(encoding="utf-8")
    assert "v3 is 1.42x (estimated) over abc1234" in page
    assert drawn == [(name, dark) for name in plots.PLOTS for dark in (False, True)]
    assert page.count('<img alt="rms_norm: ') == 4
    assert "NVIDIA H200 SXM memory bandwidth: 4800 GB/s &lt;- bot/hardware/datasheets/products/h200-sxm.toml:L" in page


def test_without_matplotlib_there_is_a_page_all_the_same(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert shown("rms_norm", "--html", str(checkout / "page.html"), root=checkout).exit_code == 0
    assert "No pictures: matplotlib was not there" in (checkout / "page.html").read_text(encoding="utf-8")


def test_the_page_counts_lines_as_git_does(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(view, "unified_diff", lambda *_, **__: ["+ of the standard library"] * 777)
    assert shown("rms_norm", "--html", str(checkout / "page.html"), root=checkout).exit_code == 0
    page = (checkout / "page.html").read_text(encoding="utf-8")
    assert "v3 against v0, +" in page and "+777" not in page


def test_a_page_that_cannot_be_written_is_said(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = shown("rms_norm", "--html", str(checkout / "no/such/page.html"), root=checkout).exception
    assert isinstance(found, OperatorError)
    assert "--html FILE" in found.hint


# Verdicts are computed again


def follows(now: Campaign, fact: VariantJudged) -> VariantJudged:
    return fact.model_copy(update={"verdict": verdict_of(now, fact.number)})


def forged(now: Campaign, fact: VariantJudged) -> VariantJudged:
    """As it follows, but for v2."""
    honest = follows(now, fact)
    if fact.number != 2:
        return honest
    return honest.model_copy(
        update={"verdict": honest.verdict.model_copy(update={"decision": Decision.ACCEPTED, "findings": ()})}
    )


def replayed(change: Callable[[Campaign, VariantJudged], VariantJudged]) -> tuple[Fact, ...]:
    """The first two rounds: who grows from whom depends on the verdicts."""
    facts: list[Fact] = []
    now = Campaign(id=a.CAMPAIGN_ID)
    for fact in folded():
        if isinstance(fact, RoundOpened):
            if fact.variant.number > 2:
                break
            fact = fact.model_copy(update={"variant": fact.variant.model_copy(update={"parent": now.incumbent})})
        facts.append(change(now, fact) if isinstance(fact, VariantJudged) else fact)
        now = fold(now, facts[-1:])
    return tuple(facts)


def test_a_verdict_that_follows_is_not_doubted_and_a_forged_one_is() -> None:
    assert doubted(a.CAMPAIGN_ID, replayed(follows)) == ()
    assert doubted(a.CAMPAIGN_ID, replayed(forged)) == (2,)


def test_a_verdict_said_twice_or_of_nothing_changes_nothing() -> None:
    facts = replayed(forged)
    again = next(fact for fact in facts if isinstance(fact, VariantJudged))
    assert doubted(a.CAMPAIGN_ID, (*facts, again)) == (2,)
    assert doubted(a.CAMPAIGN_ID, (again, CampaignClosed(outcome=Outcome.PUSHED))) == ()


def test_the_page_says_which_verdicts_are_doubted(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (checkout / "optimization/rms_norm/journal.jsonl").unlink()
    written(checkout / "optimization/rms_norm/journal.jsonl", replayed(forged))
    shown("rms_norm", "--html", str(checkout / "page.html"), root=checkout)
    page = (checkout / "page.html").read_text(encoding="utf-8")
    assert "the journal's verdict on v2 does not follow from its raw facts" in page
