"""`kernelwright profile` and `kernelwright roofline` on a checkout, with a bench that answers at once."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.bench.compile_pool import ALL_PASSPORTS
from bot.bench.gpu import Gpu
from bot.bench.looking import Found
from bot.bench.measure import StaticBench
from bot.cli import analysing
from bot.cli.judge_suite import sample
from bot.cli.profile import profile
from bot.cli.roofline import roofline
from bot.errors import OperatorError, UserError
from bot.model.diagnosis import CaseRoof
from bot.model.measurement import DOCTOR, Case, Evidence, Fault, Measurement, Reading, Setting, Suite, Survey, Timing
from bot.model.profiling import Counter, Counters, Dispatch, KernelCounters, Moved
from bot.model.reasons import ReasonCode
from bot.model.rivals import Rival
from bot.model.variant import SourceFile
from bot.render import plots
from bot.zones.profiling import concluded, profiled
from tests.fakes.bench import FakeBench
from tests.render import builders


class Fast(FakeBench):
    """A clock that says what no memory can do."""

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        found = super().measure(files, passports=passports)
        runner = found.runner.model_copy(update={"evidence": Evidence.MEASURED, "gpu_name": "NVIDIA H200"})
        timing = Timing(median_us=0.5, timer="replay")
        cases = tuple(case.model_copy(update={"timing": timing}) for case in found.cases)
        return found.model_copy(update={"runner": runner, "cases": cases})


H200 = Gpu(uuid="GPU-1", name="NVIDIA H200", driver="580.159", arch="sm_90", memory_mib=143771, nodes=())
OTHER = Dispatch(op="rms_norm", by_itself="nvidia-cutedsl", judged="nvidia-triton")
DENIED = Counters(status="failed", detail="Nsight Compute was ended: it took too long, after 120 s")


class Counting(FakeBench):
    """An interpreter that watched two launches, and the clock of nobody."""

    moved = (
        Moved(
            case="forward-40960x4096-bfloat16", kernel="_rms_norm_forward_kernel", read_bytes=400e6, written_bytes=300e6
        ),
        Moved(
            case="backward-40960x4096-bfloat16",
            kernel="_rms_norm_backward_kernel",
            read_bytes=700e6,
            written_bytes=300e6,
        ),
    )


class Watched(FakeBench):
    """A GPU with a clock and a profiler, and no interpreter."""

    timed = 0
    found: Counters | None = None

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        type(self).timed += 1
        found = super().measure(files, passports=passports)
        runner = found.runner.model_copy(update={"evidence": Evidence.MEASURED, "gpu_name": "NVIDIA H200"})
        timing = Timing(median_us=600.0, timer="replay")
        cases = tuple(case.model_copy(update={"timing": timing, "traffic_factor": 0.7}) for case in found.cases)
        return found.model_copy(update={"runner": runner, "cases": cases})

    def expect_look(self, kernels: Sequence[str]) -> None:
        pass

    def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Callable[[], None]) -> Found:
        clocked()
        read = {
            "dram__bytes_read.sum": 500e6,
            "dram__bytes_write.sum": 200e6,
            "gpu__time_duration.sum": 3e5,
            "sm__throughput.avg.pct_of_peak_sustained_elapsed": 20.0,
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 90.0,
        }
        counters = tuple(Counter(name=name, value=value) for name, value in read.items())
        launched = tuple(KernelCounters(kernel=kernel, counters=counters) for kernel in kernels)
        asked = ("forward-40960x4096-bfloat16", "backward-40960x4096-bfloat16")
        return Found(self.found or Counters(status="read", version="2025.3", kernels=launched), (), asked, (OTHER,))


def run(command: Any, *words: str, bench: type[FakeBench] = FakeBench, gpu: Gpu | None = None) -> Result:
    """With a GPU: `bench` has it, and what counts and models beside it has none."""
    evidence = ("--evidence", "static") if gpu is None else ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysing, "opener_for", lambda gpu: bench)
        patch.setattr(analysing, "open_static_bench", Counting)
        if gpu is not None:
            patch.setattr(analysing, "gpu_of", lambda choice: gpu)
        return CliRunner().invoke(command, [*words, "--repo", str(sample()), *evidence], standalone_mode=False)


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
    assert "unavailable: a profiler watches a GPU, and nothing ran on one" in done.output
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
    assert isinstance(done.exception, UserError) and done.exception.hint.startswith("did you mean `rms_norm`? ")


def test_a_kernel_that_does_not_run_is_said_to_and_why() -> None:
    class Broken(FakeBench):
        def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
            marked = files[0].model_copy(update={"text": f"{files[0].text}\n# fake: fault crashed\n"})
            return super().measure((marked, *files[1:]), passports=passports)

    done = run(profile, "rms_norm", bench=Broken)
    assert isinstance(done.exception, OperatorError)
    assert "the untouched rms_norm does not run here: crashed" in str(done.exception)
    assert done.exception.hint == DOCTOR


def test_a_kernel_that_is_late_is_not_said_not_to_run() -> None:
    """fused_moe takes a minute on an idle machine of two cores, and more beside others."""

    class Late(FakeBench):
        def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
            late = Fault(kind="run_timeout", detail="did not finish within 60 s")
            return super().measure(files, passports=passports).model_copy(update={"fault": late})

    said = str(run(profile, "rms_norm", bench=Late).exception)
    assert "the untouched rms_norm took longer than its deadline: run_timeout: did not finish within 60 s" in said
    assert "busy" in said and "does not run" not in said


def test_six_chips_are_compiled_for() -> None:
    assert ALL_PASSPORTS == ("sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950")
    assert analysing.FULL.passports == ALL_PASSPORTS


def test_a_bench_is_told_which_chips_to_compile_for() -> None:
    class Bare(StaticBench):
        def __init__(self, *arguments: object) -> None:
            pass

    wanted = analysing.Asked("rms_norm", sample(), "", None, "sm_90")
    subject = analysing._subject(wanted)
    for depth in (analysing.FULL, analysing.ROOF):
        bench = analysing._bench(Bare, wanted, subject, Path(), depth)
        assert isinstance(bench, Bare) and bench.passports == depth.passports


SHAPE = ("--shape", "40960x4096", "--json", "--no-survey")


def on_gpu(*words: str, bench: type[Watched] = Watched) -> dict[str, Any]:
    Watched.timed = 0
    done = run(profile, "rms_norm", *SHAPE, *words, bench=bench, gpu=H200)
    assert done.exception is None, done.exception
    told: dict[str, Any] = json.loads(done.output)
    return told


def test_other_sizes_can_be_looked_at_and_are_both_passes_of_each() -> None:
    told = json.loads(run(profile, "rms_norm", *SHAPE, "--shape", "8x100").output)
    sizes = ("40960x4096", "8x100")
    assert [case["case"] for case in told["cases"]] == [
        f"{direction}-{size}-bfloat16" for size in sizes for direction in ("forward", "backward")
    ]
    forward = next(case for case in told["cases"] if case["case"] == "forward-8x100-bfloat16")
    assert forward["minimum_bytes"] == 2 * 8 * 100 * 2


@pytest.mark.parametrize("shape", ["4096", "4096x4096x1", "0x4", "ax4", "-1x4", "4096x"])
def test_sizes_that_are_none_of_the_kernels_are_answered_with_some_that_are(shape: str) -> None:
    done = run(profile, "rms_norm", "--shape", shape)
    assert isinstance(done.exception, UserError)
    assert str(done.exception.hint).startswith("its sizes are rows x cols, for example ")


def test_to_quick_checks_comes_the_widest_of_all_so_that_one_row_counts_in_full() -> None:
    checks = tuple(Case(id=f"c-{n}", direction="forward", shape=(("rows", 1), ("cols", n)), dtype="float32",
                        hidden=n == 99) for n in (3, 7, 50, 99))  # fmt: skip
    scored = (checks[0].model_copy(update={"id": "forward-1x3-bfloat16", "dtype": "bfloat16"}),)
    full, quick = (Suite(name="full", cases=scored, checks=c) for c in (checks, checks[:1]))
    assert [c.id for c in analysing.of_shapes(quick, full, ["4x4"]).checks] == ["c-3", "c-50"], "hidden ones stay so"
    assert [c.id for c in analysing.of_shapes(full, full, ["4x4"]).checks] == [c.id for c in checks]
    assert analysing.of_shapes(quick, full, ()) is quick


def test_on_a_gpu_the_bytes_are_counted_beside_and_held_against_the_profilers() -> None:
    told = on_gpu()
    assert (told["evidence"], told["gpu"], Watched.timed) == ("measured", "NVIDIA H200", 1)
    forward, backward = told["traffic"]
    assert (forward["counted_read"], forward["dram_read"], forward["level"]) == (400e6, 500e6, "dram")
    assert (forward["ratio"], forward["agrees"]) == (1.0, True)
    assert (round(backward["ratio"], 2), backward["agrees"]) == (1.43, False)
    page = run(profile, "rms_norm", "--shape", "40960x4096", bench=Watched, gpu=H200).output
    assert "Bytes, counted and read" in page and "1.429, more than 10 % apart" in page


def test_what_a_gpu_takes_for_the_bytes_of_a_kernel_gives_way_to_the_count() -> None:
    """It knows how large the tensors of a launch are, and not what of them is read, written or both."""
    wanted = analysing.Asked("rms_norm", sample(), "", H200, "sm_90", shapes=("40960x4096",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysing, "open_static_bench", Counting)
        watched = analysing.analysed(wanted, analysing.FULL, Watched)
        alone = analysing.analysed(wanted, analysing.ROOF, Watched)
    counted = {case.traffic_factor for case in watched.baseline.cases}
    assert 0.7 not in counted and {case.traffic_factor for case in alone.baseline.cases} == {0.7}


def test_without_the_clock_times_are_estimated_and_counters_are_the_gpus() -> None:
    told = on_gpu("--no-clock")
    assert (told["evidence"], Watched.timed) == ("static", 0)
    assert told["dispatch"] == [OTHER.model_dump()] == on_gpu()["dispatch"]
    assert told["counters"]["status"] == "read" and told["diagnosis"]["confidence"] == "measured"
    assert [one["agrees"] for one in told["traffic"]] == [True, False]


@pytest.mark.parametrize("words", [(), ("--no-clock",)])
def test_a_profiler_that_fails_leaves_the_rest_and_a_heuristic(words: tuple[str, ...]) -> None:
    class Silent(Watched):
        found = DENIED

    told = on_gpu(*words, bench=Silent)
    assert (told["counters"]["status"], told["diagnosis"]["confidence"]) == ("failed", "heuristic")
    assert [one["ratio"] for one in told["traffic"]] == [None, None]
    assert told["traffic"][0]["counted_read"] == 400e6


class Unwatched(Counting):
    """Its interpreter saw nothing."""

    moved = ()


class Dead(Counting):
    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        raise OperatorError("the judge is gone")


@pytest.mark.parametrize("counting", [Unwatched, Dead])
def test_a_count_that_cannot_be_had_takes_nothing_else_away(counting: type[FakeBench]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "Counting", counting)
        told = on_gpu()
    assert (told["traffic"], told["evidence"], told["counters"]["status"]) == ([], "measured", "read")


def test_launch_numbers_are_compiled_and_bytes_counted_when_no_clock_runs_any_more() -> None:
    """A timeline tells the host's time from the GPU's: company of ours would be taken for the kernel's host."""
    said: list[str] = []

    class Careful(Watched):
        def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Callable[[], None]) -> Found:
            time.sleep(0.05)
            said.append("timeline")
            return super().look(files, kernels, clocked)

        def survey(self, files: tuple[SourceFile, ...], settings: tuple[Setting, ...]) -> tuple[Survey, ...]:
            said.append("survey")
            return super().survey(files, settings)

    assert run(profile, "rms_norm", bench=Careful, gpu=H200).exception is None
    assert said == ["timeline", "survey"]


def test_plain_pytorch_is_played_beside_the_kernel_where_there_is_a_gpu(tmp_path: Path) -> None:
    order: list[str] = []

    class Rivalled(Watched):
        def expect_rivals(self) -> None:
            order.append("compiled ahead")

        def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
            order.append("v0")
            return super().measure(files, passports=passports)

        def rivals(self) -> tuple[Rival, ...]:
            reading = Reading(blocks=((600.0, 600.0, 900.0, 900.0),) * 24)
            return tuple(Rival(name="eager", case=case.id, reading=reading) for case in subject[1].cases)

    subject = analysing._subject(analysing.Asked("rms_norm", sample(), "", H200, "sm_90"))
    bench = Rivalled(sample(), *subject[:2], "sm_90", "", tmp_path)
    found, unwatched = profiled(bench, *subject, watch=True), profiled(bench, *subject)
    assert not isinstance(found, Fault) and {rival.name for rival in found.rivals} == {"eager"}
    assert found.diagnosis.rival == pytest.approx(600 / 900, abs=1e-4), "which says how much more there is to have"
    assert not isinstance(unwatched, Fault) and unwatched.rivals == () and unwatched.diagnosis.rival is None
    assert order == ["compiled ahead", "v0", "v0"], "compiled while v0 is checked, and only where they are played"


@pytest.mark.parametrize(("grad", "code"), [("drawn", 4), ("one", 0)])
def test_a_profile_from_before_fails_no_command_for_a_case_that_has_nothing_to_move(grad: str, code: int) -> None:
    plain = builders.profile(Evidence.MEASURED)
    first, *others = plain.suite.cases
    suite = plain.suite.model_copy(update={"cases": (first.model_copy(update={"grad": grad}), *others)})
    roofs = (CaseRoof(case=first.id, minimum_bytes=131072002, reason=ReasonCode.ABOVE_THE_ROOF),)
    diagnosis = plain.diagnosis.model_copy(update={"roofs": roofs})
    assert analysing.code_of(plain.model_copy(update={"suite": suite, "diagnosis": diagnosis})) == code


def test_what_the_launches_of_a_case_spill_stands_beside_its_bytes() -> None:
    plain = builders.profile(Evidence.MEASURED)
    first, *others = plain.baseline.cases
    (launch, *_) = first.launches
    assert launch.resources is not None
    spilling = launch.model_copy(
        update={
            "grid": (100, 2, 1),
            "num_warps": 8,
            "resources": launch.resources.model_copy(update={"spill_bytes": 96}),
        }
    )
    cases = (first.model_copy(update={"launches": (spilling,)}), *others)
    baseline = plain.baseline.model_copy(update={"cases": cases})
    moved = (Moved(case=first.case, kernel=launch.kernel, read_bytes=1e6, written_bytes=1e6),)
    found = concluded(plain.site, plain.suite, plain.sources, baseline, (), None, (), moved=moved)
    assert [one.spilled for one in found.traffic] == [200 * 8 * 32 * 96]
