"""The front door: verbs, help, exit codes. Nothing heavy is imported to open it."""

from __future__ import annotations

import ast
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from bot import __main__ as door
from bot.cli.entry import VERBS, cli
from bot.errors import BotError, Conflict, CorruptRecord, ForgeError, GitError, OperatorError, UserError
from bot.model.reasons import ReasonCode

NEEDED = ["bot.errors", "bot.model", "bot.model.reasons"]
STARTED_WITH = {"_distutils_hack", "sitecustomize", "usercustomize", "_virtualenv"}
"""What an interpreter may bring along by itself."""
QUICK_S = 0.4
"""Of processor time, best of twenty, so that a busy machine is no failure. A third of it is what it takes."""
HEAVY = ("torch", "triton", "pandas", "matplotlib", "github", "libcst")


def typed(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(words), prog_name="kernelwright")
    return done.exit_code, done.output


def left_with(monkeypatch: pytest.MonkeyPatch, outcome: object) -> int:
    """The exit code when the command line returns this, or raises it."""

    def run(**_: object) -> object:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(door.cli, "main", run)
    with pytest.raises(SystemExit) as left:
        door.main()
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.mark.parametrize("words", [("--help",), ("-h",)])
def test_help_lists_every_verb_with_a_sentence(words: tuple[str, ...]) -> None:
    code, text = typed(*words)
    assert code == 0
    for verb, (_, sentence) in VERBS.items():
        assert f"\n  {verb} " in text
        assert " ".join(sentence.split()[:3]) in text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_there_and_explains_itself(verb: str) -> None:
    code, text = typed(verb, "--help")
    assert code == 0
    assert text.startswith(f"Usage: kernelwright {verb}")
    assert all("  " in line for line in text.partition("Options:")[2].splitlines() if line.startswith("  --"))


@pytest.mark.parametrize(
    ("word", "meant"), [("optimise", "optimize"), ("pubish", "publish"), ("dmeo", "demo"), ("measures", "measure")]
)
def test_a_verb_that_is_almost_one_is_offered_and_not_run(word: str, meant: str) -> None:
    code, text = typed(word)
    assert code == 2
    assert f"no such command: {word}. Did you mean {meant}?" in text


def test_a_word_that_is_like_no_verb_is_not_guessed() -> None:
    code, text = typed("xyzzy")
    assert (code, "Did you mean" in text) == (2, False)
    assert "kernelwright --help" in text


def test_options_that_are_missing_or_unknown_are_the_user_s_to_mend() -> None:
    assert typed("publish")[0] == 2
    assert "--campaign" in typed("publish")[1]
    assert typed("--bogus")[0] == 2
    assert typed("measure", "--order", "x")[0] == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("optimize", "rms_norm", "--max-variants", "zero"), "'zero' is not a valid whole number."),
        (("calibrate", "--minutes", "soon"), "'soon' is not a valid number."),
    ],
)
def test_a_word_in_place_of_a_number_is_told_what_was_expected(words: tuple[str, ...], told: str) -> None:
    code, text = typed(*words)
    assert code == 2
    assert told in text


def test_the_version_is_told() -> None:
    assert typed("--version") == (0, "kernelwright, version " + typed("--version")[1].split()[-1] + "\n")


ERRORS = [
    (UserError, 2),
    (OperatorError, 3),
    (CorruptRecord, 4),
    (ForgeError, 5),
    (GitError, 6),
    (Conflict, 6),
    (BotError, 70),
]


@pytest.mark.parametrize(("kind", "code"), ERRORS)
def test_each_kind_of_error_has_its_exit_code(
    kind: type[BotError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = kind("it went wrong", hint="do this next")
    assert left_with(monkeypatch, error) == code
    told = capsys.readouterr()
    assert told.err == f"kernelwright: {error.reason}: it went wrong\n  do this next\n"
    assert told.out == ""


def test_only_a_comment_is_called_a_line_that_could_not_be_read() -> None:
    """`parse_error` is a code of comments: what is typed in a terminal was read."""
    assert UserError("no such thing").reason is ReasonCode.BAD_VALUE


def test_other_endings_have_theirs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with(monkeypatch, None) == 0
    assert left_with(monkeypatch, 0) == 0
    assert left_with(monkeypatch, 1) == 1
    assert left_with(monkeypatch, click.UsageError("no")) == 2
    assert left_with(monkeypatch, click.Abort()) == 130
    assert "stopped" in capsys.readouterr().err


def test_the_help_page_knows_the_exit_codes() -> None:
    page = typed("--help")[1].partition("Exit codes:")[2]
    told = {int(line.split()[0]) for line in page.splitlines() if line.strip()}
    assert told == {0, 1, 130} | {kind.exit_code for kind, _ in ERRORS}
    assert f"{UserError.exit_code}    you can mend it: a wrong name, option or file, or an answer is awaited" in page


def test_what_nobody_expected_is_no_ending_of_a_campaign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 means that a campaign ended without a commit; a mistake of ours must never be read as that."""
    assert left_with(monkeypatch, ZeroDivisionError("by nothing")) == BotError.exit_code == 70
    told = capsys.readouterr().err
    assert "ZeroDivisionError: by nothing" in told and "Traceback" in told
    assert told.endswith("kernelwright: internal_error: a mistake of ours; please report it with the lines above\n")


def test_an_exit_that_was_chosen_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    assert left_with(monkeypatch, SystemExit(5)) == 5


def test_opening_the_door_imports_nothing_heavy() -> None:
    script = (
        "import resource, sys; sys.argv = ['kernelwright', '--help']\n"
        "from bot.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as left: assert left.code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] == 'bot'))\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names - {'bot'}))\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime)"
    )
    seconds = []
    for _ in range(20):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
        heavy, ours, theirs, used = done.stdout.splitlines()[-4:]
        assert heavy == "[]"
        assert ast.literal_eval(ours) == ["bot", "bot.__main__", "bot.cli", "bot.cli.entry", *NEEDED]
        assert set(ast.literal_eval(theirs)) <= {"click", "__main__", *STARTED_WITH}
        seconds.append(float(used))
        if seconds[-1] < QUICK_S:
            break
    assert min(seconds) < QUICK_S


def test_who_lays_files_does_not_wait_for_who_thinks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each call that lets Python go waits until whoever thinks beside it has had its turn."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    monkeypatch.setattr(sys, "argv", ["kernelwright", "--version"])
    try:
        with pytest.raises(SystemExit):
            door.main()
        assert capsys.readouterr().out and sys.getswitchinterval() == pytest.approx(door.SWITCH_S)
    finally:
        sys.setswitchinterval(before)
