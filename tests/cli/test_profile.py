"""`kernelwright profile` and `kernelwright roofline` on a checkout, with a bench that answers at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.bench.compile_pool import ALL_PASSPORTS
from bot.cli import analysing
from bot.cli.judge_suite import sample
from bot.cli.profile import profile
from bot.cli.roofline import roofline
from bot.errors import OperatorError, UserError
from bot.model.measurement import Evidence, Measurement, Timing
from bot.model.variant import SourceFile
from bot.render import plots
from tests.fakes.bench import FakeBench


class Fast(FakeBench):
    """A clock that says what no memory can do."""

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        found = super().measure(files, passports=passports)
        runner = found.runner.model_copy(update={"evidence": Evidence.MEASURED, "gpu_name": "NVIDIA H200"})
        timing = Timing(median_us=0.5, timer="replay")
        cases = tuple(case.model_copy(update={"timing": timing}) for case in found.cases)
        return found.model_copy(update={"runner": runner, "cases": cases})


def run(command: Any, *words: str, bench: type[FakeBench] = FakeBench) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysing, "opener_for", lambda gpu: bench)
        return CliRunner().invoke(command, [*words, "--repo", str(sample()), "--evidence", "static"],
                                  standalone_mode=False)  # fmt: skip


def test_the_roofline_says_work_bytes_bound_share_target_and_where_the_ceiling_was_read() -> None:
    done = run(roofline, "rms_norm")
    assert (done.exception, done.return_value) == (None, 0)
    assert (
        "rms_norm: estimated for Hopper sm_90: compiled and modelled, no GPU timed anything (heuristic)" in done.output
    )
    assert "stop target: 90 % of the roof" in done.output
    assert "memory (datasheet): 4,800 GB/s <-" in done.output
    assert "% (estimated) of the roof" in done.output
    assert "Diagnosis" not in done.output


def test_the_profile_shows_all_of_it_and_labels_what_is_no_measurement() -> None:
    done = run(profile, "rms_norm")
    assert (done.exception, done.return_value) == (None, 0)
    for title in ("Roofline", "Diagnosis", "Why: evidence -> inference -> action", "What to try", "Compiled for"):
        assert title in done.output
    assert "(heuristic, certainty low); tier 2, with a reduction" in " ".join(done.output.split())
    assert "unavailable: no profiler was asked" in done.output
    assert "easured on" not in done.output


def test_as_json_it_is_one_object_without_a_word_beside_it() -> None:
    told = json.loads(run(profile, "rms_norm", "--json").output)
    assert (told["schema_version"], told["evidence"], told["gpu"]) == (1, "static", None)
    assert {case["case"] for case in told["cases"]} == {one["case"] for one in told["launches"]}
    assert all(case["percent"] is not None and case["reason"] is None for case in told["cases"])
    assert told["diagnosis"]["plan"][0]["name"] == "launch_parameters"
    assert any("memory bandwidth: 4800 GB/s <- " in number for number in told["hardware"])
    assert "diagnosis" not in json.loads(run(roofline, "rms_norm", "--json").output)


@pytest.mark.parametrize("command", [profile, roofline])
def test_a_share_above_the_roof_is_an_error_and_never_shown(command: Any) -> None:
    done = run(command, "rms_norm", bench=Fast)
    assert done.return_value == 4
    assert "error: above_the_roof" in done.output
    assert "no share is given (above_the_roof)" in " ".join(done.output.split())
    shares = [line.split("  ")[-1].strip() for line in done.output.splitlines() if line.startswith("  fwd")]
    assert shares and set(shares) == {"error: above_the_roof"}
    told = json.loads(run(command, "rms_norm", "--json", bench=Fast).output)
    assert {case["percent"] for case in told["cases"]} == {None} and told["roof_percent"] is None


def test_the_record_a_campaign_would_leave_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "picture", lambda name, campaign, known, *, dark: name.encode())
        done = run(profile, "rms_norm", "--out", str(tmp_path / "p"))
    assert done.exception is None
    written = {"profile.md", "profile.json", "roofline-light.png", "roofline-dark.png"}
    assert {path.name for path in (tmp_path / "p").iterdir()} == written
    page = (tmp_path / "p" / "profile.md").read_text(encoding="utf-8")
    assert page.startswith("# Optimization Profile: rms_norm") and "tier: 2, with a reduction" in page
    assert "## Roofline" in page and "What Came Of It" not in page


def test_a_kernel_that_is_not_there_is_answered_with_one_that_is() -> None:
    done = run(roofline, "rms_nrm")
    assert isinstance(done.exception, UserError) and done.exception.hint == "did you mean rms_norm?"


def test_a_kernel_that_does_not_run_is_said_to_and_why() -> None:
    class Broken(FakeBench):
        def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
            marked = files[0].model_copy(update={"text": f"{files[0].text}\n# fake: fault crashed\n"})
            return super().measure((marked, *files[1:]), passports=passports)

    done = run(profile, "rms_norm", bench=Broken)
    assert isinstance(done.exception, OperatorError)
    assert "the untouched rms_norm does not run here: crashed" in str(done.exception)


def test_six_chips_are_compiled_for() -> None:
    assert ALL_PASSPORTS == ("sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950")
    assert analysing.FULL.passports == ALL_PASSPORTS
