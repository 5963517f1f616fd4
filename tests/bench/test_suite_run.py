"""How far a file of a suite is followed, what is asked of it on the way, and when it got what it declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.bench.checks import Checked
from bot.bench.suite_files import Exhibit
from bot.bench.suite_run import CHECKED, Court, Outcome, Steps
from bot.errors import OperatorError
from bot.model.measurement import Fault, Measurement
from bot.model.variant import SourceFile
from tests.bench import tiny
from tests.fakes.bench import FakeBench

FASTER = tiny.SOURCE.replace("num_warps=4", "num_warps=8")
SLY = FASTER.replace("import torch\n", "import ctypes\n\nimport torch\n", 1)


class Told(FakeBench):
    """A fake bench that says what it was asked. `# fake: raises` fails a check because something raised."""

    def __init__(self) -> None:
        super().__init__(Path(), tiny.SITE, tiny.SUITE)
        self.asked: list[str] = []

    def check(self, files: tuple[SourceFile, ...]) -> Checked:
        self.asked.append("check")
        text = files[0].text
        measured = super().measure(files, passports=False)
        rows = measured.checks
        if "# fake: raises" in text:
            rows = (rows[0].model_copy(update={"passed": False, "margin": None, "detail": "KeyError: 1"}), *rows[1:])
        crashed = frozenset({rows[0].case}) if "# fake: raises" in text else frozenset()
        return Checked(rows=rows, fault=measured.fault, crashed=crashed)

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool, checked: Checked | None = None) -> Measurement:
        self.asked.append("measure")
        return super().measure(files, passports=passports)


def heard(text: str, *reasons: str, steps: Steps | None = None) -> tuple[Outcome, list[str]]:
    bench = Told()
    court = Court(tiny.SITE, tiny.SUITE, tiny.files(), bench)
    exhibit = Exhibit(Path("suite/softmax/one.py"), "softmax", text, reasons, "both")
    outcome = court.hear(exhibit, steps or Steps())
    return outcome, bench.asked[1:]  # the first question was about v0


class Lost(Told):
    """A machine on which v0 passes nothing, or does not even run."""

    def __init__(self, fault: Fault | None = None) -> None:
        super().__init__()
        self._fault = fault

    def check(self, files: tuple[SourceFile, ...]) -> Checked:
        rows = super().check(files).rows
        return Checked(rows=tuple(r.model_copy(update={"passed": False}) for r in rows), fault=self._fault)


@pytest.mark.parametrize(
    ("fault", "why"),
    [(None, "it passes none of its checks"), (Fault(kind="memory", detail="no room"), "memory: no room")],
)
def test_where_the_untouched_kernel_is_no_yardstick_nobody_is_judged(fault: Fault | None, why: str) -> None:
    """Else every honest file would be rejected for a fault of v0."""
    with pytest.raises(OperatorError, match="the untouched softmax cannot be held against itself here") as found:
        Court(tiny.SITE, tiny.SUITE, tiny.files(), Lost(fault))
    assert why in str(found.value)


def marked(mark: str, text: str = FASTER) -> str:
    return f"{text}\n# fake: {mark}\n"


def test_an_honest_file_is_followed_to_the_end() -> None:
    outcome, asked = heard(FASTER)
    assert outcome.match and outcome.reasons == ()
    assert asked == ["check", "measure", "measure"], "the checks, then v0 once, then the file"


def test_what_the_text_condemns_is_never_run() -> None:
    outcome, asked = heard(SLY, "honesty")
    assert (outcome.verdict, outcome.reasons, outcome.match, asked) == ("REJECTED", ("honesty",), True, [])
    assert "ctypes" in outcome.evidence


def test_without_the_filter_what_it_does_decides() -> None:
    outcome, asked = heard(marked("wrong", SLY), "correctness", steps=Steps(static=False))
    assert (outcome.reasons, outcome.match, asked) == (("correctness",), True, ["check"])
    outcome, _ = heard(SLY, "honesty", steps=Steps(static=False))
    assert outcome.reasons == () and not outcome.match


def test_nothing_is_compiled_for_what_is_wrong() -> None:
    outcome, asked = heard(marked("wrong"), "correctness")
    assert outcome.match and asked == ["check"]


def test_the_checks_alone() -> None:
    outcome, asked = heard(FASTER, steps=Steps(timing=False))
    assert (outcome.verdict, outcome.match, asked) == (CHECKED, True, ["check"])


def test_being_slower_is_found_by_the_clock() -> None:
    outcome, _ = heard(marked("traffic 9.0", tiny.SOURCE), "regression")
    assert outcome.verdict == "REJECTED" and "regression" in outcome.reasons and outcome.match


def test_no_gain_is_no_rejection() -> None:
    outcome, _ = heard(tiny.SOURCE + "\n# the same program\n")
    assert (outcome.verdict, outcome.match) == ("INCONCLUSIVE", True)


def test_a_file_that_must_pass_is_rejected_by_nobody() -> None:
    outcome, _ = heard(marked("wrong"))
    assert not outcome.match
    assert outcome.expected == "PASS"


def test_another_reason_than_the_declared_one_is_a_miss() -> None:
    assert not heard(marked("wrong"), "honesty")[0].match
    assert heard(marked("wrong"), "honesty", "correctness")[0].match


@pytest.mark.parametrize(("declared", "match"), [(("correctness",), False), (("fault",), True)])
def test_a_crash_counts_where_it_is_the_declared_reason(declared: tuple[str, ...], match: bool) -> None:
    outcome, asked = heard(marked("fault crashed"), *declared)
    assert (outcome.reasons, outcome.match, asked) == (("fault",), match, ["check"])


def test_a_check_that_raised_does_not_show_that_a_file_is_wrong() -> None:
    outcome, _ = heard(marked("raises"), "correctness")
    assert outcome.verdict == "REJECTED" and not outcome.match
    assert outcome.evidence.startswith("it raised, which is no reason")


def test_files_are_heard_side_by_side_and_told_in_order() -> None:
    court = Court(tiny.SITE, tiny.SUITE, tiny.files(), Told())
    asked = [Exhibit(Path(f"softmax/{n}.py"), "softmax", marked(f"memory {n + 1}"), (), "both") for n in range(5)]
    told = list(court.hear_all(asked, Steps(), 2))
    assert [outcome.file for outcome in told] == [f"softmax/{n}.py" for n in range(5)]
    assert set(told[0].as_json()) == {
        *("file", "op", "verdict", "reasons", "expected", "match", "evidence", "seconds"),
    }
