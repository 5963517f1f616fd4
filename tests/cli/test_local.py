"""`kernelwright optimize` on a checkout: what is said and where, what stays and what goes, going on after a stop."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli import local, local_desk
from bot.cli import resume as resuming
from bot.cli.local import optimize
from bot.cli.show import show
from bot.errors import BotError, UserError
from bot.ledger import slim as slimming
from bot.ledger.journal import JournalFile, Segment
from bot.model.campaign import Outcome, Stage, StopReason
from bot.model.facts import BudgetRaised, OrderTaken, RoundOpened, VariantJudged
from bot.model.measurement import Runner
from bot.model.reasons import ReasonCode
from bot.render import labels
from bot.zones.intake import SEGMENT
from tests.cli import counter
from tests.cli.checkout import KERNEL, OP, ROOT, Checkout, two
from tests.fakes.tty import Terminal
from tests.patience import wait_until_gone

DOCS = (ROOT / "docs" / "terminal.md").read_text(encoding="utf-8")
COUNTER = [sys.executable, "-m", "tests.cli.counter"]


def test_a_knowledge_base_adds_what_no_datasheet_has(here: Checkout) -> None:
    wiki = here.root.parent / "wiki"
    wiki.mkdir()
    (wiki / "README.md").write_text("- [Hopper](hopper.md)\n", "utf-8")
    rows = "| Precision | Peak TFLOPS |\n|---|---|\n| TF32 (Matrix) | 494.7 |\n| FP8 (Matrix) | ~1979 |\n"
    (wiki / "hopper.md").write_text(f"## NVIDIA H200 SXM\n{rows}", "utf-8")
    asked = here.run("--wiki", str(wiki))
    assert isinstance(asked.exception, UserError), "it waits for an answer, and the profile is there"
    assert asked.stderr.count("'~1979' is hedged") == 1
    line = "NVIDIA H200 SXM TF32 matrix rate, dense: 494.7 TFLOPS <- <gpu-wiki>/hopper.md:L4 (read "
    assert line in (here.folder / "README.md").read_text("utf-8")


def test_plain_lines_where_nobody_watches(here: Checkout) -> None:
    head = here.git("rev-parse", "HEAD")
    done = here.run("--yes", *two(here))
    assert done.return_value == 0, done.output
    assert "\x1b" not in done.output
    assert done.stderr.splitlines()[0] == "rms_norm: profiling the untouched kernel"
    assert re.search(r"v1 rejected, .*\(estimated\): ", done.stderr)
    assert re.search(r"v2 accepted, .*x \(estimated\)", done.stderr)
    assert re.search(r"\* v2 +\S+x \(estimated\) +best +", done.stdout)
    assert "12 passed in 2.00s" in done.stdout
    campaign = here.campaign()
    assert f"rms_norm: committed on branch optimize/{campaign.id}" in done.stdout
    assert here.git("rev-parse", f"optimize/{campaign.id}").strip() == campaign.pushed
    assert f"git merge optimize/{campaign.id}" in done.stderr
    # Nothing of the work is left behind, and the tree is as it was.
    assert here.left() == set()
    assert here.git("status", "--porcelain") == ""
    assert here.git("rev-parse", "HEAD") == head
    assert {"journal.jsonl", "README.md", "report.md"} <= {path.name for path in here.folder.iterdir()}


@pytest.mark.parametrize(("words", "runs"), [((), True), (("--no-script",), False)])
def test_the_repository_s_own_script_runs_unless_it_is_left_out(
    words: tuple[str, ...], runs: bool, here: Checkout
) -> None:
    here.run(*words)
    assert here.campaign().policy.benchmark_script is runs
    assert here.campaign().policy.self_approval


def test_quiet_says_questions_and_the_result_alone(here: Checkout) -> None:
    done = here.run("--yes", "--quiet", *two(here))
    assert done.stderr == ""
    heads = [line for line in done.stdout.splitlines() if line.startswith("rms_norm: ")]
    assert heads == [
        "rms_norm: the profile, approved by --yes",
        "rms_norm: the winner, approved by --yes",
        "rms_norm: the commit, approved by --yes",
        f"rms_norm: committed on branch optimize/{here.campaign().id}",
    ]


def documented() -> dict[str, set[str]]:
    """Event -> its own keys, as docs/terminal.md lists them; the empty name has those that all share."""
    rows = re.findall(r"^\| `?([a-z_]*|every line)`? \| (.*?) \|", DOCS, re.M)
    return {name.replace("every line", ""): set(re.findall(r"`(\w+)`", keys)) for name, keys in rows if "`" in keys}


def test_json_lines_have_the_keys_that_are_documented(here: Checkout) -> None:
    done = here.run("--yes", "--json", *two(here))
    assert done.stderr == ""
    told = [json.loads(line) for line in done.stdout.splitlines()]
    known = documented()
    for line in told:
        assert set(line) == known[""] | known[line["event"]], line["event"]
        assert line["schema"] == 1
        assert line["kernel"] == KERNEL
    events = [line["event"] for line in told]
    assert events[:3] == ["stage", "profiled", "stage"]
    assert events.count("variant_judged") == 2
    assert [line["checkpoint"] for line in told if line["event"] == "checkpoint"] == ["profile", "winner", "final"]
    assert [line["approved"] for line in told if line["event"] == "answered"] == [True] * 3
    result = told[-1]
    assert (result["event"], result["outcome"], result["reason_code"]) == ("result", "pushed", "pushed")
    assert result["evidence"] == "static"
    assert result["speedup"] > 1.1
    assert (result["score_low"], result["winner"]) == (None, "v2")
    # The last two: tests/render/test_races.py and test_machines.py.
    elsewhere = {"order_failed", "interrupted", "numbers_raced", "machine_changed"}
    assert set(events) | elsewhere == set(known) - {""}


def test_without_a_terminal_a_question_stops_it_and_yes_goes_on(here: Checkout) -> None:
    stopped = here.run(*two(here))
    assert isinstance(stopped.exception, UserError)
    assert stopped.exception.reason is ReasonCode.AWAITING_APPROVAL
    assert "--yes" in stopped.exception.hint
    assert "rms_norm: waiting for your word on the profile" in stopped.stdout
    first = here.campaign()
    assert first.stage is Stage.AWAIT_PROFILE
    done = here.run("--yes", *two(here))
    assert done.return_value == 0
    assert f"going on with {first.id}: 0 of 2 variants judged so far" in done.stderr
    assert "it was begun with" not in done.stderr
    assert here.campaign().id == first.id


def test_who_asks_for_something_else_hears_that_it_goes_on_as_it_was_begun(here: Checkout) -> None:
    assert isinstance(here.run(*two(here)).exception, UserError)
    done = here.run("--goal", "memory", "--max-variants", "7", "--yes", *two(here)[:-2])
    assert "it was begun with --goal balanced and keeps it, not memory; --fresh begins anew" in done.stderr
    assert "it was begun with --max-variants 2 and keeps it, not 7; --fresh begins anew" in done.stderr
    assert "--mode" not in done.stderr.split("begins anew")[0]
    assert "benchmark script" not in done.stderr


def test_a_campaign_that_goes_on_keeps_the_script_that_it_was_begun_with(here: Checkout) -> None:
    assert isinstance(here.run(*two(here)).exception, UserError)
    done = here.run("--no-script", "--yes", *two(here))
    assert "it was begun with the repository's own benchmark script and keeps it; --fresh begins anew" in done.stderr


class Newer(counter.CounterBench):
    """Of a machine with another compiler."""

    @property
    def runner(self) -> Runner:
        return super().runner.model_copy(update={"triton": "3.7.0"})


def test_the_same_command_goes_on_on_another_machine(here: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiled on one and searched on another: nothing is held against v0 of the first."""
    here.run(*two(here))
    monkeypatch.setattr(local_desk, "opener_for", lambda gpu: Newer)
    done = here.run("--yes", *two(here))
    assert done.return_value == 0, done.output
    assert "Triton 3.7.0): v0 was estimated again" in done.stderr
    assert [fact.kind for fact in here.facts()].count("machine_changed") == 1
    campaign = here.campaign()
    assert (campaign.outcome, campaign.winner, campaign.ignored) == (Outcome.PUSHED, 2, ())
    assert "Another machine" in (here.folder / "logs" / "optimize.md").read_text(encoding="utf-8")


def test_a_head_that_moved_meanwhile_is_said(here: Checkout) -> None:
    here.run(*two(here))
    pinned = here.git("rev-parse", "--short=7", "HEAD").strip()
    here.git("commit", "--quiet", "--allow-empty", "-m", "More")
    done = here.run()
    now = here.git("rev-parse", "--short=7", "HEAD").strip()
    assert f"it is about {pinned}, and HEAD is now {now}; --fresh begins anew" in done.stderr
    assert here.campaign().pull is not None and here.campaign().pull.head_sha.startswith(pinned)  # type: ignore[union-attr]


def test_fresh_moves_an_unfinished_campaign_aside(here: Checkout) -> None:
    here.run(*two(here))
    first = here.campaign().id
    time.sleep(1.1)  # a campaign is named after the second it began in
    here.run("--fresh")
    assert here.campaign().id != first
    assert (here.folder.with_name(f"{KERNEL}.{first}") / "journal.jsonl").is_file()
    shown = CliRunner().invoke(show, [first, "--repo", str(here.root)], standalone_mode=False)
    assert "waiting for your word on the profile" in shown.output


def test_what_a_killed_command_had_heard_is_not_measured_again(here: Checkout) -> None:
    """Killed between segment and journal, with half a tree exported."""
    words = two(here)
    here.run(*words)
    whole = here.run("--yes", *words)
    assert whole.return_value == 0
    journal = here.folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if '"variant_judged"' in line)
    facts, order = here.facts(), "x"
    mine = [fact for fact in facts[: at + 1] if isinstance(fact, local_desk.MEASURING_FACTS)]
    order = next(fact.order for fact in mine if isinstance(fact, VariantJudged))
    segment = Segment(here.folder / "segments" / order / SEGMENT)
    segment.path.parent.mkdir(parents=True)
    for fact in (fact for fact in mine if fact.order == order):
        segment.append(fact, "2026-01-02T03:04:05Z")
    journal.write_text("".join(lines[: at - 1]))  # the last two facts reached the segment alone
    half = here.folder / "scratch" / "tree"
    half.mkdir(parents=True)
    (half / "nothing.py").write_text("")
    again = here.run("--yes", *words)
    assert again.return_value == 0, again.output
    assert [fact.number for fact in here.facts() if isinstance(fact, VariantJudged)] == [1, 2]
    assert here.campaign().ignored == ()
    assert here.left() == set()


@pytest.mark.parametrize("last", ["round_opened", "variant_measured", "variant_judged"])
def test_a_journal_that_is_carried_elsewhere_by_itself_goes_on_where_it_was(here: Checkout, last: str) -> None:
    """Without the folder of work under way. On an H200 the whole search was done again, and its journal lost the line
    that says so."""
    words = two(here)
    here.run(*words)
    assert here.run("--yes", *words).return_value == 0
    journal = here.folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if f'"{last}"' in line)
    journal.write_text("".join(lines[: at + 1]))
    assert here.left() == set()
    again = here.run("--yes", *words)
    assert again.return_value == 0, again.output
    assert [fact.number for fact in here.facts() if isinstance(fact, VariantJudged)] == [1, 2]
    assert here.campaign().ignored == ()
    orders = [fact.order for fact in here.facts() if isinstance(fact, OrderTaken)]
    assert len(orders) == len(set(orders))


def carried(here: Checkout, *, slim: bool = False) -> tuple[Path, list[str], Checkout]:
    """A journal that was stopped behind its first verdict, the ideas it is about, and another clone of the checkout."""
    words = two(here)
    here.run(*words)
    assert here.run("--yes", *words).return_value == 0
    lines = (here.folder / "journal.jsonl").read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if '"variant_judged"' in line)
    text = "".join(lines[: at + 1])
    path = here.root.parent / "carried.jsonl"
    path.write_text(slimming.slim(text, {OP: (here.root / OP).read_text()}) if slim else text)
    other = Checkout(here.root.parent / "other")
    here.git("clone", "--quiet", str(here.root), str(other.root))
    return path, words, other


@pytest.mark.parametrize("slim", [False, True])
def test_a_campaign_of_another_checkout_goes_on_from_its_journal(here: Checkout, slim: bool) -> None:
    """Also from a published one, that keeps no text of the library."""
    path, words, other = carried(here, slim=slim)
    assert (OP in path.read_text()) and (slim == slimming.is_slim(path.read_text()))
    done = other.run("--resume", str(path), "--yes", *words)
    assert done.return_value == 0, done.output
    assert f"going on with {here.campaign().id}: 1 of 2 variants judged so far" in done.stderr
    assert [fact.number for fact in other.facts() if isinstance(fact, VariantJudged)] == [1, 2]
    assert other.campaign().outcome is Outcome.PUSHED and other.campaign().ignored == ()
    assert not (other.folder / ".journal.jsonl").exists()


def test_one_that_was_stopped_before_anything_was_measured_goes_on_as_well(here: Checkout) -> None:
    path, words, other = carried(here)
    lines = path.read_text().splitlines(keepends=True)
    assert '"campaign_requested"' in lines[0]
    path.write_text(lines[0])
    assert other.run("--resume", str(path), "--yes", *words).return_value == 0
    assert other.campaign().id == here.campaign().id and other.campaign().outcome is Outcome.PUSHED


def unresumed(checkout: Checkout, *words: str) -> UserError:
    error = checkout.run(*words).exception
    assert isinstance(error, UserError), error
    return error


def test_what_cannot_go_on_is_refused_and_moves_nothing(here: Checkout) -> None:
    path, words, other = carried(here)
    ended = here.folder / "journal.jsonl"
    error = unresumed(other, "--resume", str(ended), *words)
    assert "came to its end: its 2 variants were tried" in str(error)
    assert "--max-variants 3 or more goes on with it" in error.hint and "rebuild" in error.hint
    assert not other.folder.exists()
    error = unresumed(other, "--resume", str(other.root / "nothing.jsonl"))
    assert "cannot be read" in str(error)
    softmax = ["softmax", "--repo", str(other.root), "--resume", str(path)]
    other_kernel = CliRunner().invoke(optimize, softmax, standalone_mode=False).exception
    assert isinstance(other_kernel, UserError) and f"about {KERNEL}, not softmax" in str(other_kernel)
    assert not (other.root / "optimization").exists()
    other.run(*words)
    begun = other.campaign().id
    error = unresumed(other, "--resume", str(path), "--yes")
    assert error.reason is ReasonCode.ALREADY_RUNNING and "--fresh" in error.hint
    error = unresumed(other, "--resume", str(ended), "--fresh", *words)
    assert "came to its end" in str(error) and other.campaign().id == begun, "the file was read before anything moved"


def ended(here: Checkout) -> tuple[Path, Checkout]:
    """The journal of a campaign whose two variants were tried and that was committed, and another clone."""
    carried(here)
    path = here.folder / "journal.jsonl"
    assert here.campaign().stopped is StopReason.BUDGET_SPENT and here.campaign().outcome is Outcome.PUSHED
    return path, Checkout(here.root.parent / "other")


def test_a_search_that_spent_its_variants_goes_on_with_more(here: Checkout) -> None:
    path, other = ended(here)
    done = other.run("--resume", str(path), "--yes", "--max-variants", "3")
    assert done.return_value == 0, done.output
    assert f"going on with {here.campaign().id}: 2 of 3 variants judged so far" in done.stderr
    facts = other.facts()
    assert [fact.number for fact in facts if isinstance(fact, VariantJudged)] == [1, 2, 3]
    assert [fact.max_variants for fact in facts if isinstance(fact, BudgetRaised)] == [3]
    assert [fact.kind for fact in facts].count("search_ended") == 1, "what came after it before is found out anew"
    assert other.campaign().outcome is Outcome.PUSHED and other.campaign().ignored == ()
    shown = CliRunner().invoke(show, [str(other.folder / "journal.jsonl")], standalone_mode=False)
    assert "the search goes on with up to 3 variants in all" in shown.output


def changed(path: Path, why: str, variants: int = 2) -> None:
    """As if its search had ended for another reason."""
    text = path.read_text().replace('"why":"budget_spent"', f'"why":"{why}"')
    path.write_text(text.replace('"max_variants":2', f'"max_variants":{variants}'))


@pytest.mark.parametrize("why", ["time_over", "ideas_exhausted"])
def test_one_whose_minutes_or_ideas_were_over_goes_on_as_it_was_begun(here: Checkout, why: str) -> None:
    path, other = ended(here)
    changed(path, why, variants=3)
    assert other.run("--resume", str(path), "--yes", "--max-variants", "2").return_value == 0
    assert [fact.number for fact in other.facts() if isinstance(fact, VariantJudged)] == [1, 2, 3]
    assert not [fact for fact in other.facts() if isinstance(fact, BudgetRaised)]


@pytest.mark.parametrize("why", ["efficient", "stagnation", "target_met", "gpu_time_spent", "too_many_failures"])
def test_one_whose_search_was_over_for_good_does_not(here: Checkout, why: str) -> None:
    path, other = ended(here)
    changed(path, why)
    error = unresumed(other, "--resume", str(path), "--yes", "--max-variants", "9")
    assert labels.STOPPED[StopReason(why)] in str(error) and "nothing is left to go on with" in str(error)
    assert not other.folder.exists()


def test_one_that_would_end_at_once_says_why(here: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = ended(here)
    monkeypatch.setattr(resuming, "why_stop", lambda campaign: StopReason.EFFICIENT)
    error = unresumed(other, "--resume", str(path), "--yes", "--max-variants", "9")
    assert "it would go no further, because the kernel is close enough to its roof" in str(error)
    assert not other.folder.exists()


def test_a_repository_that_allows_no_more_is_heard(here: Checkout) -> None:
    path, other = ended(here)
    text = path.read_text()
    policy = text.index('"policy":')
    at = text.index('"max_variants":', policy)
    end = text.index(",", at)
    path.write_text(text[:at] + '"max_variants":2' + text[end:])
    error = unresumed(other, "--resume", str(path), "--yes", "--max-variants", "9")
    assert "its repository allows 2" in error.hint and "--max-variants" not in error.hint


def test_a_campaign_about_a_commit_that_is_not_here_is_refused(here: Checkout) -> None:
    path, _, other = carried(here)
    other.git("commit", "--quiet", "--amend", "-m", "The same files", "--date", "2020-01-01T00:00:00Z")
    other.git("remote", "remove", "origin")
    other.git("reflog", "expire", "--expire=now", "--all")
    other.git("gc", "--quiet", "--prune=now")
    error = unresumed(other, "--resume", str(path))
    assert error.reason is ReasonCode.BASE_CHANGED and "which this repository does not have" in str(error)
    assert not other.folder.exists()


def test_whoever_stops_a_resumed_campaign_is_not_told_to_resume_it_again(here: Checkout) -> None:
    ctx = optimize.make_context("optimize", [KERNEL, "--resume", "elsewhere.jsonl", "--yes", "--repo", str(here.root)])
    assert local._again(ctx) == f"kernelwright optimize {KERNEL} --repo {here.root} --yes"


@pytest.mark.parametrize(("seconds", "late"), [(0, False), (119.9, False), (120, True)])
def test_minutes_are_of_the_command(seconds: float, late: bool) -> None:
    clock = iter([1000.0, 1000.0 + seconds])
    assert local._later_than(2, lambda: next(clock))() is late
    assert not local._later_than(None, lambda: 1e12)()


def late_after(here: Checkout, monkeypatch: pytest.MonkeyPatch, judged: int) -> list[int | None]:
    """The minutes are over once so many variants were judged. What was asked for is kept."""
    asked: list[int | None] = []

    def later_than(minutes: int | None) -> Callable[[], bool]:
        asked.append(minutes)
        return lambda: sum(isinstance(fact, VariantJudged) for fact in here.facts()) >= judged

    monkeypatch.setattr(local, "_later_than", later_than)
    return asked


def test_once_its_minutes_are_over_the_best_so_far_is_finished(here: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*here.idea("better", 1.2), *here.idea("much better", 1.1), "--max-variants", "5", "--minutes", "7"]
    asked = late_after(here, monkeypatch, 1)
    done = here.run("--yes", *words)
    assert done.return_value == 0, done.output
    assert asked == [7]
    assert [fact.number for fact in here.facts() if isinstance(fact, VariantJudged)] == [1]
    assert here.campaign().outcome is Outcome.PUSHED
    assert "the search ended: the minutes that the command was given (`--minutes`) are over" in done.output


def test_with_nothing_to_finish_it_is_left_open_and_goes_on(here: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*two(here), "--minutes", "7"]
    late_after(here, monkeypatch, 1)
    first = here.run("--yes", *words)
    assert first.return_value == 130
    assert "stopped by the clock (`--minutes`) while trying variants; all before is kept\n" in first.output
    assert "--minutes 7" in first.output
    assert here.campaign().stage is Stage.OPTIMIZING
    late_after(here, monkeypatch, 3)
    second = here.run("--yes", *words)
    assert second.return_value == 0, second.output
    assert here.campaign().outcome is Outcome.PUSHED


@pytest.mark.parametrize("minutes", ["0", "-1", "soon", str(local.MOST_MINUTES + 1)])
def test_minutes_that_are_none_are_refused(here: Checkout, minutes: str) -> None:
    done = CliRunner().invoke(optimize, [KERNEL, "--repo", str(here.root), "--minutes", minutes])
    assert done.exit_code == 2 and "--minutes" in done.output


def test_a_kernel_that_is_almost_one_is_offered(here: Checkout) -> None:
    found = CliRunner().invoke(optimize, ["rms-nrm", "--repo", str(here.root)], standalone_mode=False)
    assert isinstance(found.exception, BotError)
    assert found.exception.hint.startswith("did you mean `rms_norm`? kernels here: ")
    assert not (here.root / "optimization").exists()


# Real processes


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def workers_of(pid: int) -> list[str]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_an_interrupted_search_goes_on_where_it_was(here: Checkout) -> None:
    """A real SIGINT to a real process, in the middle of its second round."""
    words = [*COUNTER, KERNEL, "--repo", str(here.root), "--yes", *two(here)]
    first = subprocess.Popen(
        words, env=here.environment(FAKE_SLOW="# better"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    journal = JournalFile(here.folder / "journal.jsonl").path
    while not (journal.exists() and journal.read_text().count('"round_opened"') == 2 and workers_of(first.pid)):
        assert first.poll() is None, first.communicate()
        time.sleep(0.05)
    workers = workers_of(first.pid)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "stopped by you while trying variants; all before is kept; v2 will be measured again" in err
    for pid in workers:
        wait_until_gone(int(pid))
    assert "scratch" not in here.left()
    assert [fact.number for fact in here.facts() if isinstance(fact, VariantJudged)] == [1]
    go_on = re.search(r"^  go on:  (.*)$", err, re.M)
    assert go_on is not None
    typed = shlex.split(go_on[1])
    assert typed[:7] == ["kernelwright", "optimize", KERNEL, "--repo", str(here.root), "--max-variants", "2"]
    assert (typed.count("--try"), typed[-1]) == (2, "--yes")
    second = subprocess.run(
        [*COUNTER, *typed[2:]], env=here.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 0, second.stderr
    assert "1 of 2 variants judged so far" in second.stderr
    assert [fact.number for fact in here.facts() if isinstance(fact, VariantJudged)] == [1, 2]
    assert [fact.variant.number for fact in here.facts() if isinstance(fact, RoundOpened)] == [1, 2]
    assert here.campaign().outcome is Outcome.PUSHED
    assert here.left() == set()


def test_a_person_at_a_terminal(here: Checkout, terminals: list[Terminal]) -> None:
    words = [*COUNTER, KERNEL, *two(here)]
    terminal = Terminal(words, here.root, here.environment(FAKE_SLOW="# better"), columns=90, height=30)
    terminals.append(terminal)
    prompt = "approve | reject [reason] | quit:"
    terminal.until(lambda sheet: prompt in sheet.text)
    terminal.type("aprove")
    terminal.until(lambda sheet: "type one of: approve | reject [reason] | quit" in sheet.text)
    terminal.type("approve")
    at_work = re.compile(r"^rms_norm · optimizing · round 2 of (?:.*\n)*1 worker process, \d", re.M)
    live = terminal.until(lambda sheet: bool(at_work.search(sheet.text)))
    assert re.search(r"^rms_norm · optimizing · round 2 of at most 2  \d", live.text, re.M)
    assert re.search(r"^compiling, checking and comparing it \(", live.text, re.M)
    assert re.search(r"^v2: .*\n  because: ", live.text, re.M)
    assert re.search(r"^  v1 .* rejected ", live.text, re.M)
    assert re.search(r"^  v2 +measuring ", live.text, re.M)
    assert re.search(r"^1 worker process, \d", live.text, re.M)
    assert live.hidden
    terminal.interrupt()
    assert terminal.end() == 130
    sheet = terminal.sheet
    assert not sheet.hidden, "the cursor is given back"
    assert sheet.clipped == 0
    assert "round 2 of at most 2" not in sheet.text, "the picture is taken away"
    assert prompt in sheet.text, "what was said stays"
    assert "go on:  kernelwright optimize rms_norm --" in sheet.text


def test_the_questions_after_a_search(here: Checkout, terminals: list[Terminal]) -> None:
    environment = here.environment(NO_COLOR="1")
    terminal = Terminal([*COUNTER, KERNEL, *two(here)], here.root, environment, columns=90)
    terminals.append(terminal)
    terminal.until(lambda sheet: sheet.text.endswith("quit:"))
    terminal.type("approve")
    terminal.until(lambda sheet: "show vN" in sheet.text)
    terminal.type("show v1")
    terminal.until(lambda sheet: "+# worse" in sheet.text and sheet.text.endswith("quit:"))
    terminal.type("approve v1")
    terminal.until(lambda sheet: "accepted: v2" in sheet.text and sheet.text.endswith("quit:"))
    terminal.type("quit")
    assert terminal.end() == 130
    assert "stopped by you while waiting for your word on the winner" in terminal.sheet.text
    assert not re.search(r"\x1b\[[\d;]+m", terminal.raw), "NO_COLOR is heeded"
    assert here.campaign().stage is Stage.AWAIT_WINNER
    assert here.run("--yes").return_value == 0
