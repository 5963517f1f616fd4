"""Commands that cannot be carried out: what happened, why, what to type next; and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bot.bench.gpu import Gpu
from bot.cli import local
from bot.cli.cases import cases
from bot.cli.local import optimize
from bot.cli.profile import profile
from bot.errors import BotError, CorruptRecord, OperatorError, UserError
from bot.ledger import slim as slimming
from bot.model.facts import CampaignRequested
from bot.model.measurement import DOCTOR, Fault
from bot.model.reasons import ReasonCode
from bot.targets.contract import read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree
from tests.cli.checkout import OP, Checkout, two

BENCHMARK = "benchmark/scripts/benchmark_softmax.py"


def refused(command: click.Command, here: Checkout, kernel: str, *words: str) -> BotError:
    done = CliRunner().invoke(command, [kernel, "--repo", str(here.root), *words], standalone_mode=False)
    assert isinstance(done.exception, BotError), done.exception
    return done.exception


@pytest.mark.parametrize("command", [optimize, profile, cases])
def test_what_a_kernel_lacks_is_said_with_why_and_what_to_do(here: Checkout, command: click.Command) -> None:
    (here.root / BENCHMARK).unlink()
    error = refused(command, here, "Softmax")
    assert str(error) == f"`softmax` cannot be optimised: missing {BENCHMARK}"
    assert error.hint == ("add and commit that file: without its test and its benchmark nothing about it can be proved")
    assert error.reason is ReasonCode.PREFLIGHT_FAILED
    with pytest.raises(UserError) as told:
        open_target(DirectoryTree(here.root), read_config(None)).site("softmax")
    assert (str(told.value), told.value.hint, told.value.reason) == (str(error), error.hint, error.reason)


@pytest.mark.parametrize("command", [optimize, profile, cases])
def test_a_name_that_nothing_has_is_no_kernel(here: Checkout, command: click.Command) -> None:
    error = refused(command, here, "softmx")
    assert error.reason is ReasonCode.UNKNOWN_KERNEL and "missing" not in str(error)
    assert error.hint.startswith("did you mean `softmax`? kernels here: ")


# What cannot begin opens no campaign


def test_a_python_that_does_not_start_opens_no_campaign(here: Checkout) -> None:
    for _ in range(2):
        error = here.run("--python", "/nope", "--yes").exception
        assert isinstance(error, OperatorError) and "/nope does not start" in str(error) and error.hint
        assert not (here.root / "optimization").exists()
    done = here.run("--yes", *two(here))
    assert done.return_value == 0 and "going on with" not in done.stderr


def test_nor_does_it_move_one_aside(here: Checkout) -> None:
    here.run(*two(here))
    begun = here.campaign().id
    assert isinstance(here.run("--fresh", "--python", "/nope").exception, OperatorError)
    assert here.campaign().id == begun


def test_a_gpu_that_is_taken_opens_no_campaign(here: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(uuid="GPU-taken", name="NVIDIA H200", driver="1", arch="sm_90", memory_mib=1, nodes=())
    monkeypatch.setattr(local, "gpu_of", lambda _: gpu)
    with local.reserved(gpu):
        error = here.run("--yes").exception
    assert isinstance(error, OperatorError) and "another campaign is using" in str(error)
    assert not (here.root / "optimization").exists()


def test_a_journal_of_its_own_that_cannot_be_read_is_to_be_moved_away(here: Checkout) -> None:
    here.folder.mkdir(parents=True)
    (here.folder / "journal.jsonl").write_text("nothing\n")
    for words in ([], ["--fresh"]):
        error = here.run(*words).exception
        assert isinstance(error, CorruptRecord) and f"move {here.folder} away" in error.hint
    here.folder.rename(here.root / "away")
    assert here.run("--yes", *two(here)).return_value == 0


# Journals of something else


def elsewhere(here: Checkout) -> Path:
    """A published journal of rms_norm, from a checkout that this one knows nothing of."""
    assert here.run("--yes", *two(here)).return_value == 0
    path = here.root.parent / "elsewhere.jsonl"
    text = (here.folder / "journal.jsonl").read_text()
    path.write_text(slimming.slim(text, {OP: (here.root / OP).read_text()}))
    here.folder.rename(here.root.parent / "done")
    return path


def without_it(here: Checkout) -> None:
    """The library no longer has that kernel."""
    here.git("rm", "--quiet", OP, "test/transformers/test_rms_norm.py", "benchmark/scripts/benchmark_rms_norm.py")
    here.git("commit", "--quiet", "-m", "Another library")


def test_the_journal_of_another_kernel_is_told_as_such_whatever_the_tree(here: Checkout) -> None:
    path = elsewhere(here)
    without_it(here)
    for command, words, next_step in (
        (optimize, ["--resume"], f"kernelwright optimize rms_norm --resume {path}"),
        (optimize, ["--try"], "name a journal of softmax with --try"),
        (profile, ["--journal"], f"kernelwright profile rms_norm --journal {path}"),
    ):
        error = refused(command, here, "softmax", *words, str(path))
        assert str(error) == f"{path} is of a campaign about rms_norm, not softmax"
        assert (error.hint, error.reason) == (next_step, ReasonCode.BAD_VALUE)


def test_a_journal_that_was_cut_in_its_first_line_says_what_to_do(here: Checkout) -> None:
    path = elsewhere(here)
    first = path.read_text().split("\n")[0]
    path.write_text(first[: first.index("campaign_requested") + 30])
    error = refused(optimize, here, "rms_norm", "--resume", str(path))
    assert str(error) == "elsewhere.jsonl: line 1 has no end"
    assert error.hint == "name the journal.jsonl of a campaign, or the folder that holds it"


def moved(here: Checkout) -> None:
    op = here.root / OP
    op.write_text(op.read_text() + "# another\n")
    here.git("commit", "--quiet", "-am", "Another base")


@pytest.mark.parametrize("option", ["--resume", "--try"])
def test_a_journal_of_another_text_says_which_commit_it_began_with(here: Checkout, option: str) -> None:
    """--repo is the repository that is optimised: naming another one is no way out."""
    path = elsewhere(here)
    began = here.git("rev-parse", "HEAD")[:7]
    moved(here)
    error = refused(optimize, here, "rms_norm", option, str(path))
    assert error.reason is ReasonCode.BASE_CHANGED
    assert f"check out {began}" in error.hint and "--repo" not in error.hint
    here.git("checkout", "--quiet", began)
    goes_on = refused(optimize, here, "rms_norm", option, str(path))
    assert goes_on.reason is ReasonCode.AWAITING_APPROVAL, "done as it was said, it works"


def test_a_journal_of_another_repository_goes_on_there(here: Checkout) -> None:
    path = elsewhere(here)
    text = path.read_text()
    head = here.git("rev-parse", "HEAD").strip()
    path.write_text(text.replace(head, "0" * 40))
    moved(here)
    error = refused(optimize, here, "rms_norm", "--resume", str(path))
    assert "is about 0000000, which this repository does not have" in str(error)
    assert "it goes on where it began" in error.hint and "--repo" not in error.hint


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: "# A title\n\nWords.\n", "line 1"),
        (lambda text: "", "begins no campaign"),
        (lambda text: '{"a": 1}\n', "line 1"),
    ],
)
@pytest.mark.parametrize("option", ["--resume", "--try"])
def test_a_file_that_is_no_journal_is_answered_with_what_is(
    here: Checkout, option: str, damage: Callable[[str], str], said: str
) -> None:
    path = here.root.parent / "README.jsonl"
    path.write_text(damage(""))
    error = refused(optimize, here, "rms_norm", option, str(path))
    assert said in str(error) and error.hint.startswith("name the journal.jsonl of a campaign")
    assert CampaignRequested.__name__ not in str(error)


# The untouched kernel does not run


@pytest.mark.parametrize(
    ("kind", "detail", "said"),
    [
        ("import_failed", "SyntaxError: invalid syntax (lib/op.py:3)", "mend that line"),
        ("import_failed", "IndentationError: unexpected indent (lib/op.py:3)", "mend that line"),
        ("import_failed", "ModuleNotFoundError: No module named 'x' (lib/op.py:1)", "install that module"),
        ("import_failed", "OpMissing: expected one autograd.Function in lib/op.py, found none", "exactly one class"),
        ("import_failed", "ValueError: 3 (lib/op.py:3)", "mend what the message names"),
        ("crashed", "SyntaxError: while it ran", "mend what the message names"),
        ("crashed", "", "`kernelwright doctor` looks at the machine"),
    ],
)
def test_what_an_import_raised_says_what_to_mend(kind: Any, detail: str, said: str) -> None:
    assert said in Fault(kind=kind, detail=detail).next_step


def test_a_campaign_and_a_profile_say_what_to_do_about_it(here: Checkout) -> None:
    op = here.root / OP
    op.write_text(op.read_text() + "# fake: fault crashed\n")
    here.git("commit", "--quiet", "-am", "Broken")
    done = here.run("--yes")
    assert done.return_value == 1
    assert here.campaign().detail.startswith("the untouched rms_norm does not run here: crashed")
    assert here.campaign().detail.endswith(f"; {DOCTOR}")
