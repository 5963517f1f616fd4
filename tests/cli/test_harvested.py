"""`kernelwright harvested`: a winner on the sizes of the library's own benchmark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.bench import gpu as gpus
from bot.bench.gpu import parse
from bot.bench.harvest import Harvest, Point
from bot.cli import harvested as module
from bot.cli.harvested import MOST_BYTES, harvested, suite_for, swept
from bot.errors import OperatorError, UserError
from bot.model.harvested import HarvestedRun
from bot.model.measurement import Measurement, Paired
from bot.model.variant import SourceFile, sources_digest
from tests.analysis.blocks import reading
from tests.cli.test_cases import GPU, point
from tests.cli.test_show import folded, written
from tests.fakes.bench import FakeBench
from tests.render import builders as a

H200 = parse("GPU-d79bbc67, NVIDIA H200, 580.159.04, 9.0, 143771")


class Clocked(FakeBench):
    """The fake bench, with blocks of a variant that is a tenth faster than v0."""

    opened: Clocked
    effort: Any = None

    def __init__(self, *asked: Any, **more: Any) -> None:
        super().__init__(*asked, **more)
        Clocked.opened, self.effort = self, more["effort"]

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        found = super().measure(files, passports=passports)
        found = found.model_copy(update={"runner": a.GPU_RUNNER})
        if len(self.measured) == 1:
            return found
        paired = Paired(tier="replay", search=reading(10.0), confirm=(reading(10.0), reading(10.1), reading(9.9)))
        cases = tuple(case.model_copy(update={"paired": paired}) for case in found.cases)
        return found.model_copy(update={"cases": cases})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of a pushed campaign, the tree that it ran on, and a machine that has a GPU."""
    written(tmp_path / "journal.jsonl", folded())
    op = tmp_path / "stock" / a.OP_PATH
    op.parent.mkdir(parents=True)
    op.write_text(a.SOURCE, encoding="utf-8")
    monkeypatch.setattr(module, "the_gpu", lambda instead: H200)
    monkeypatch.setattr(module, "open_measured_bench", Clocked)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    sweep(monkeypatch, point(1024, 4096), point(3072, 4096, "W in float32", x="3072"))
    return tmp_path


def sweep(monkeypatch: pytest.MonkeyPatch, *points: Point, **more: Any) -> None:
    monkeypatch.setattr(module, "harvest", lambda *_, **__: Harvest(GPU, points, **more))


def typed(place: Path, *words: str) -> Result:
    asked = [str(place / "journal.jsonl"), "--repo", str(place / "stock"), *words]
    return CliRunner().invoke(harvested, asked, standalone_mode=False)


def test_the_winner_is_timed_beside_v0_on_each_size_of_the_script(place: Path) -> None:
    done = typed(place)
    assert done.return_value == 0, done.exception
    assert done.output.splitlines() == [
        "rms_norm, v3 beside v0 on NVIDIA H200, sizes of benchmark/scripts/benchmark_rms_norm.py",
        "",
        "Case                Where from     v0, us   Its time, us  Speed-up  95 % interval",
        "fwd 1024x4096 bf16  T 1024 (ours)  100.000  90.909        1.100x    1.098x to 1.10x",
        "bwd 1024x4096 bf16  T 1024 (ours)  100.000  90.909        1.100x    1.098x to 1.10x",
        "fwd 3072x4096 bf16  T 3072 (ours)  100.000  90.909        1.100x    1.098x to 1.10x",
        "bwd 3072x4096 bf16  T 3072 (ours)  100.000  90.909        1.100x    1.098x to 1.10x",
        "",
        "No case is clearly more than 2 % slower (one-sided 99 %, Holm)",
        "",
        "T 3072 (ours), 3072 x 4096 bfloat16: timed without W in float32",
    ]
    (winner,) = a.rounds()[2].variant.files
    assert Clocked.opened.measured == [sources_digest(a.sources()), sources_digest((winner,))]
    assert Clocked.opened.closed
    assert Clocked.opened.effort.losers and Clocked.opened.effort.processes == 3


def test_the_blocks_are_kept_so_that_anybody_can_read_them_again(place: Path) -> None:
    typed(place, "--json", str(place / "blocks.json"))
    run = HarvestedRun.model_validate_json((place / "blocks.json").read_text(encoding="utf-8"))
    assert (run.kernel, run.variant, run.gpu) == ("rms_norm", 3, GPU)
    assert run.source == sources_digest(a.rounds()[2].variant.files)
    assert [len(case.paired.confirm) for case in run.measurement.cases if case.paired] == [3, 3, 3, 3]
    assert json.loads((place / "blocks.json").read_text())["sweep"][1]["differs"] == ["W in float32"]


def test_what_was_scored_and_what_is_too_large_is_left_out_with_the_reason() -> None:
    cols = MOST_BYTES // 4 // 1024
    points = (
        point(4096, 4096),
        point(4096, 4096, dtype="float32"),
        point(1024, cols, dtype="float32"),
        point(1024, cols + 1, dtype="float32"),
        point(1024, 2 * cols, dtype="bfloat16"),
    )
    suite = a.SUITE.model_copy(update={"cases": (a.case("forward", 4096, 4096),)})
    found = swept(points, suite)
    told = ["scored in the campaign", "", "", "its sizes multiply to 1 GiB, more than 1", ""]
    assert [one.left_out for one in found] == told
    cases = suite_for("rms_norm", found).cases
    assert {(case.size("cols"), case.dtype) for case in cases} == {
        (4096, "float32"),
        (cols, "float32"),
        (2 * cols, "bfloat16"),
    }


def test_what_is_no_larger_than_what_was_scored_is_timed() -> None:
    """No tensor of a linear layer with a loss has all of its sizes, whose product is some hundred GiB."""
    cols = 2 * MOST_BYTES // 4 // 1024
    suite = a.SUITE.model_copy(update={"cases": (a.case("forward", 1024, cols, dtype="float32"),)})
    found = swept((point(2048, cols // 2, dtype="float32"), point(1024, cols + 1, dtype="float32")), suite)
    assert [one.left_out for one in found] == ["", "its sizes multiply to 2 GiB, more than 2"]
    (long,) = swept((point(3072, cols // 3, dtype="float32"),), suite)
    assert long.left_out == "its sizes multiply to 2 GiB, one is more than twice what was scored"


def test_a_loss_is_timed_with_both_of_its_gradients() -> None:
    found = swept((point(1024, 4096, dtype="float32"),), a.SUITE)
    ids = [case.id for case in suite_for("jsd", found).cases]
    assert ids == [
        f"{one}-1024x4096-float32{end}" for one, end in (("forward", ""), ("backward", ""), ("backward", "-one"))
    ]


def sizes(rows: int, cols: int) -> tuple[tuple[str, int], ...]:
    return ("rows", rows), ("cols", cols)


def test_or_on_sizes_that_nobody_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as often as they are drawn, in the types that were scored; what was scored is not timed again."""
    asked: list[tuple[str, int, int]] = []

    def unseen(kernel: str, cases: Any, seed: int, count: int, python: str, scratch: Path) -> Any:
        assert {case.shape for case in cases} == {case.shape for case in a.SUITE.cases}
        asked.append((kernel, seed, count))
        return sizes(2047, 4097), a.SUITE.cases[0].shape, sizes(2047, 4097)

    monkeypatch.setattr(module, "unseen_sizes", unseen)
    monkeypatch.setattr(module, "harvest", None)
    done = typed(place, "--drawn", "3", "--seed", "7", "--json", str(place / "blocks.json"))
    assert done.return_value == 0, done.exception
    assert asked == [("rms_norm", 7, 3)]
    lines = done.output.splitlines()
    assert lines[0] == "rms_norm, v3 beside v0 on NVIDIA H200, sizes drawn with seed 7"
    assert [line.split("  ")[0] for line in lines[3:5]] == ["fwd 2047x4097 bf16", "bwd 2047x4097 bf16"]
    assert "drawn with 7, 512 x 1024 bfloat16: scored in the campaign" in done.output
    run = HarvestedRun.model_validate_json((place / "blocks.json").read_text(encoding="utf-8"))
    assert (run.seed, run.benchmark, run.gpu, len(run.suite.cases)) == (7, "", "", 2)


def test_or_on_both_and_what_both_name_is_the_script_s(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(monkeypatch, point(1024, 4096), point(3072, 4096, x="3072"), point(2047, 4097, dtype="float32", x="2047"))
    monkeypatch.setattr(module, "unseen_sizes", lambda *_: (sizes(2047, 4097), sizes(1024, 4096)))
    done = typed(place, "--drawn", "2", "--seed", "0", "--scripted", "--json", str(place / "blocks.json"))
    assert done.return_value == 0, done.exception
    lines = done.output.splitlines()
    script = "benchmark/scripts/benchmark_rms_norm.py"
    assert lines[0] == f"rms_norm, v3 beside v0 on NVIDIA H200, sizes of {script} and sizes drawn with seed 0"
    assert [re.split("  +", line)[:2] for line in lines[3:11:2]] == [
        ["fwd 1024x4096 bf16", "T 1024 (ours)"],
        ["fwd 3072x4096 bf16", "T 3072 (ours)"],
        ["fwd 2047x4097 fp32", "T 2047 (ours)"],
        ["fwd 2047x4097 bf16", "drawn with 0"],
    ]
    run = HarvestedRun.model_validate_json((place / "blocks.json").read_text(encoding="utf-8"))
    assert (run.seed, run.benchmark, run.gpu) == (0, script, GPU)


def test_the_script_alone_needs_no_word_for_it(place: Path) -> None:
    assert typed(place, "--scripted").output == typed(place).output


def test_without_a_seed_it_is_another_each_time_and_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(
        module, "unseen_sizes", lambda kernel, cases, seed, *_: seeds.append(seed) or (sizes(33, 4097),)
    )
    told = [typed(place, "--drawn", "1").output for _ in range(2)]
    assert len(set(seeds)) == 2
    assert all(f"sizes drawn with seed {seed}\n" in one for seed, one in zip(seeds, told, strict=True))


def test_a_seed_of_nothing_is_a_mistake(place: Path) -> None:
    error = typed(place, "--seed", "7").exception
    assert isinstance(error, UserError) and error.hint == "say how many: --drawn 2"


def test_a_case_that_is_clearly_slower_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slower(Clocked):
        def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
            found = super().measure(files, passports=passports)
            first, *others = found.cases
            if first.paired is None:
                return found
            slow = Paired(tier="replay", search=reading(-4.0), confirm=(reading(-4.0), reading(-4.1), reading(-3.9)))
            return found.model_copy(update={"cases": (first.model_copy(update={"paired": slow}), *others)})

    monkeypatch.setattr(module, "open_measured_bench", Slower)
    said = typed(place).output
    assert "Clearly more than 2 % slower (one-sided 99 %, Holm): forward-1024x4096-bfloat16\n" in said


def test_where_everything_was_scored_nothing_is_timed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = a.SUITE.cases[0]
    sweep(monkeypatch, point(case.size("rows"), case.size("cols"), x="7"))
    monkeypatch.setattr(module, "open_measured_bench", None)
    done = typed(place)
    assert (done.return_value, done.output) == (0, "T 7 (ours): scored in the campaign\n")


def test_a_script_without_sizes_says_what_next(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(monkeypatch, why_not="it never called the op", what_next="measure the op itself")
    error = typed(place).exception
    assert isinstance(error, UserError)
    assert "has no sizes to time: it never called the op" in str(error) and error.hint == "measure the op itself"


def test_v0_that_cannot_be_timed_is_no_result(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Clocked):
        def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
            return a.measurement(files, fault=a.Fault(kind="memory", detail="out of memory"))

    monkeypatch.setattr(module, "open_measured_bench", Broken)
    error = typed(place, "--json", str(place / "blocks.json")).exception
    assert isinstance(error, OperatorError) and "v0 cannot be timed on these sizes: memory" in str(error)
    assert Clocked.opened.closed and not (place / "blocks.json").exists()


def test_a_variant_that_is_wrong_there_is_told_and_not_timed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(FakeBench):
        def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
            found = super().measure(files, passports=passports)
            wrong = found.checks[0].model_copy(update={"passed": False, "detail": "off by 7"})
            first = self.measured == [sources_digest(files)]
            return found if first else found.model_copy(update={"checks": (wrong, *found.checks[1:])})

    monkeypatch.setattr(module, "open_measured_bench", Wrong)
    done = typed(place)
    assert done.return_value == 1
    assert "not timed, as a check failed: " in done.output and "off by 7" in done.output


def test_a_place_where_nothing_can_be_written_is_told_before_the_gpu_is_asked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "open_measured_bench", None)
    error = typed(place, "--json", str(place / "nowhere" / "blocks.json")).exception
    assert isinstance(error, UserError) and "nowhere" in str(error) and "--json" in str(error.hint)


def test_without_a_gpu_the_sizes_can_still_be_seen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "find_gpus", lambda: ())
    monkeypatch.setattr(module, "the_gpu", gpus.the_gpu)
    error = typed(place).exception
    assert isinstance(error, OperatorError)
    assert "kernelwright cases" in error.hint and "--evidence" not in error.hint
