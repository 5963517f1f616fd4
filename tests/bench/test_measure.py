"""Whole measurements of a tiny library: what is right passes, and each way of being wrong is told."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.bench import compile_pool, measure
from bot.bench.checks import Checked
from bot.bench.measure import Bench, Deadlines, StaticBench, open_static_bench
from bot.bench.sandbox import LIMITS_ONLY, Sandbox
from bot.errors import OperatorError
from bot.model.measurement import Fault, Measurement, Setting
from bot.model.variant import SourceFile
from bot.worker.contract import CompileAnswer
from tests.bench import tiny

pytestmark = pytest.mark.slow
DEADLINES = Deadlines(check_s=90, compile_s=90, budget_s=6)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def bench(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaticBench]:
    """The weaker fence: the stronger one is what the contract test runs under where it works."""
    scratch = tmp_path_factory.mktemp("scratch")
    opened = open_static_bench(
        tree, tiny.SITE, tiny.SUITE, "sm_90", sys.executable, scratch, deadlines=DEADLINES, seed=5,
        sandbox=Sandbox(LIMITS_ONLY),
    )  # fmt: skip
    yield opened
    opened.close()


def failing(found: Measurement | Checked) -> dict[str, str]:
    rows = found.checks if isinstance(found, Measurement) else found.rows
    return {row.case: row.detail for row in rows if not row.passed}


@pytest.fixture(scope="module")
def found(bench: Bench) -> Measurement:
    """A right variant that rounds elsewhere and makes a needless copy of its input."""
    (other,) = tiny.changed(
        "e = tl.exp(x - tl.max(x, axis=0))", "e = tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)"
    )
    kept, copied = "        x = x.contiguous()\n", "        x = x.contiguous().clone()\n"
    assert kept in other.text
    return bench.measure(tiny.files(other.text.replace(kept, copied)), passports=False)


def test_the_first_variant_brings_the_baseline_along(found: Measurement) -> None:
    """A resumed job never measured v0; a right variant that rounds elsewhere passes all the same."""
    assert found.fault is None
    assert failing(found) == {}
    assert found.runner.sandbox == "process limits only"
    assert found.runner.torch and found.runner.triton
    skipped = [row for row in found.checks if "bfloat16" in row.case]
    assert [(row.passed, row.margin) for row in skipped] == [(True, None)]
    assert skipped[0].detail.startswith("not run: ")
    margins = [row.margin for row in found.checks if row not in skipped]
    assert all(margin is not None and margin <= 1 for margin in margins)


def test_what_a_pass_moves_and_takes_is_in_its_case(found: Measurement) -> None:
    """A needless copy of the input costs once more its traffic and once more its memory."""
    forward, backward = found.cases
    tensor = 512 * 2048 * 2
    assert (forward.minimum_bytes, backward.minimum_bytes) == (2 * tensor, 3 * tensor)
    assert forward.traffic_factor == pytest.approx(2.0)
    assert backward.traffic_factor == pytest.approx(1.0)
    assert forward.memory_bytes == 3 * tensor, "the input, its copy and the result"
    assert forward.launches[0].grid == (512, 1, 1)
    assert forward.launches[0].num_warps == 4
    assert ("BLOCK_SIZE", "2048") in forward.launches[0].constants


def test_each_pass_is_told_what_is_wrong_with_it(bench: StaticBench) -> None:
    (op,) = tiny.changed(
        "mask=mask)\n\n\n@triton.jit\ndef _softmax_b", "mask=cols * 2 < n_cols)\n\n\n@triton.jit\ndef _softmax_b"
    )
    text = op.text.replace(
        "dx = y * (dy - tl.sum(y * dy, axis=0))", "dx = (y * (dy - tl.sum(y * dy, axis=0))).to(tl.float16)"
    )
    found = bench.check(tiny.files(text))
    assert found.fault is None
    details = failing(found)
    # Half of the output is never written: NaN in the first run, other rubbish in the second.
    assert "output y" in details["forward-7x100-float32"]
    assert (
        "depends on uninitialised memory" in details["forward-7x100-float32"]
        or "NaN" in details["forward-7x100-float32"]
    )
    assert "gradient x" in details["backward-7x100-float32"]


def test_an_address_outside_of_the_tensors_is_a_fault(bench: StaticBench) -> None:
    found = bench.check(tiny.changed("mask=mask, other=-float(", "mask=cols >= 0, other=-float("))
    assert found.fault is not None
    assert found.fault.kind == "memory"
    assert "_softmax_forward_kernel reads" in found.fault.detail
    assert failing(found)


def test_a_kernel_that_compiles_for_ever_is_ended_and_told(bench: Bench) -> None:
    """65536 columns on one warp keep the compiler busy for minutes. The checks, which are narrow, still run."""
    (op,) = tiny.changed("num_warps=4)\n        ctx.save", "num_warps=1)\n        ctx.save")
    wide = "BLOCK_SIZE=65536 if n_cols > 1000 else block_of(n_cols), num_warps=1"
    found = bench.measure(
        tiny.files(op.text.replace("BLOCK_SIZE=block_of(n_cols), num_warps=1", wide)), passports=False
    )
    assert found.fault is not None
    assert found.fault.kind == "compile_timeout"
    assert found.fault.detail.endswith("did not compile within 6 s")
    assert failing(found) == {}
    assert found.cases[0].launches[0].resources is None
    assert found.cases[1].launches[0].resources is not None


def test_a_launch_of_another_file_under_the_kernels_name_is_no_variant(bench: Bench) -> None:
    """Made up at run time: its source is in no file that could be proved."""
    made = tiny.changed(
        "class SoftmaxFunction",
        "import linecache\n_text = open(__file__).read().split('@triton.jit')[1].split('\\n\\n')[0]\n"
        "_text = '\\n@triton.jit' + _text.replace('- tl.max(x, axis=0)', '')\n"
        "linecache.cache['<made>'] = (len(_text), None, _text.splitlines(True), '<made>')\n"
        "exec(compile(_text, '<made>', 'exec'))\n\n\nclass SoftmaxFunction",
    )
    found = bench.measure(made, passports=False)
    assert found.fault is not None
    assert found.fault.kind == "protocol"
    assert "is in no file" in found.fault.detail


def test_a_setting_that_compiles_too_long_is_an_error_of_the_survey(bench: Bench) -> None:
    settings = (
        Setting(kernel="_softmax_forward_kernel", num_warps=1, constants=(("BLOCK_SIZE", 65536),)),
        Setting(kernel="_softmax_forward_kernel", num_warps=8),
        Setting(kernel="nobody", num_warps=8),
    )
    found = bench.survey(tiny.files(), settings)
    assert [survey.setting.num_warps for survey in found] == [1, 8]
    assert found[0].error.startswith("compile_timeout: ")
    assert found[1].error == ""


def test_a_surveyed_variant_that_does_not_import_is_an_error_for_each(bench: Bench) -> None:
    found = bench.survey(tiny.hostile("raise ValueError"), (Setting(kernel="k", num_warps=1),))
    assert [survey.case for survey in found] == [case.id for case in tiny.SUITE.cases]
    assert all(survey.error.startswith("import_failed: ValueError") for survey in found)


def broken_tree(tmp_path: Path) -> tuple[Path, tuple[SourceFile, ...]]:
    root = tiny.write_tree(tmp_path / "broken")
    (root / tiny.OP).write_text("raise RuntimeError('v0 is broken')\n")
    return root, tiny.files("raise RuntimeError('v0 is broken')\n")


def test_a_broken_v0_is_a_fault_of_its_own_and_no_yardstick(tmp_path: Path) -> None:
    root, base = broken_tree(tmp_path)
    opened = open_static_bench(root, tiny.SITE, tiny.SUITE, "sm_90", sys.executable, tmp_path / "scratch")
    try:
        own = opened.check(base)
        assert own.fault is not None and own.fault.kind == "import_failed"
        assert own.fault.detail == "OpMissing: expected one autograd.Function in tiny/ops/softmax.py, found none"
        assert "exactly one class" in own.fault.next_step
        with pytest.raises(OperatorError, match="the untouched softmax does not run here: import_failed"):
            opened.check(tiny.files())
    finally:
        opened.close()
    assert list((tmp_path / "scratch").iterdir()) == []


class Slow:
    """Stands for the compile worker: passports are more than it finishes."""

    def __init__(self, kind: str) -> None:
        self.kind, self.asked = kind, []  # type: ignore[var-annotated]

    def __call__(self, laid: object, name: str, *, passports: bool = False, settings: object = ()) -> object:
        self.asked.append((name, passports))
        return Fault(kind=self.kind, detail="for this reason") if passports else CompileAnswer((), (), ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "asked"),
    [("run_timeout", [("compile", True), ("compile-here", False)]), ("crashed", [("compile", True)])],
)
def test_passports_that_do_not_finish_are_given_up_and_nothing_else_is(
    kind: str, asked: list[object], bench: StaticBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(kind)
    monkeypatch.setattr(bench, "_compile_once", slow)
    found = bench._compile(None, passports=True)  # type: ignore[arg-type]
    assert slow.asked == asked
    assert isinstance(found, Fault) is (kind == "crashed")


def test_an_architecture_nobody_knows_is_refused(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="nothing is known of sm_75"):
        open_static_bench(tree, tiny.SITE, tiny.SUITE, "sm_75", sys.executable, tmp_path)


def test_a_kernel_without_a_recipe_is_refused(tree: Path, tmp_path: Path) -> None:
    site = tiny.SITE.model_copy(update={"kernel": "unheard_of"})
    with pytest.raises(OperatorError, match="no recipe for unheard_of"):
        open_static_bench(tree, site, tiny.SUITE, "sm_90", sys.executable, tmp_path)


def test_deadlines_are_generous_to_an_honest_worker() -> None:
    usual = dataclasses.asdict(Deadlines())
    assert usual["budget_s"] == 10.0
    assert usual["check_s"] >= 60


def test_a_survey_begins_nothing_after_its_time_and_what_must_compile_has_all_of_it(
    bench: StaticBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Any]()

    def answer(_cells: Any, _where: Any, request: Any, *_: Any) -> CompileAnswer:
        asked.append(request)
        return CompileAnswer((), (), ())

    monkeypatch.setattr(measure, "run_cell", answer)
    bench._compile_once(bench._lay(tiny.files()), "survey", settings=(Setting(kernel="k", num_warps=1),))
    bench._compile_once(bench._lay(tiny.files()), "plain")
    assert [one.within_s for one in asked] == [DEADLINES.surveying_s, compile_pool.NO_END_S]
    assert DEADLINES.surveying_s + 2 * compile_pool.SURVEY_BUDGET_S < DEADLINES.survey_s


def test_a_kernel_may_take_twice_what_the_slowest_of_v0_took(
    bench: StaticBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a variant leaves alone compiles as long as it did: group_norm's forward takes more than ten seconds."""
    answers, laid = iter([7.0, 90.0]), bench._lay(tiny.files())
    changed = tiny.files(tiny.SOURCE + "# another text")
    monkeypatch.setattr(measure, "run_cell", lambda *_: CompileAnswer((), (), (), slowest_s=next(answers)))
    assert bench._budget_s(changed, ()) == DEADLINES.budget_s
    assert bench._budget_s(tiny.files(), ()) == compile_pool.BASELINE_BUDGET_S
    bench._compile_once(laid, "first")
    assert bench._budget_s(changed, ()) == 14.0
    bench._compile_once(bench._lay(changed), "variant")
    assert bench._budget_s(changed, ()) == 14.0, "no variant makes room for the next"


@pytest.mark.parametrize(("stock", "allowed"), [(0.0, 60.0), (0.1, 20.0), (10.0, 20.0), (10.1, 20.2), (31.0, 60.0)])
def test_v0_is_not_waited_for_as_long_once_it_is_known_what_it_takes(stock: float, allowed: float) -> None:
    """group_norm's forward compiles in 14 s for an H200, and for gfx942 not in 60."""
    assert compile_pool.stock_budget_s(10.0, stock) == allowed


@pytest.mark.parametrize(("stock", "allowed"), [(0.0, 10.0), (5.0, 10.0), (5.1, 10.2), (30.0, 60.0), (50.0, 60.0)])
def test_no_kernel_may_take_longer_than_v0_may(stock: float, allowed: float) -> None:
    assert compile_pool.budget_s(10.0, stock) == allowed
