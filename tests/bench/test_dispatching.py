"""A library that prefers another language is judged by its Triton kernels, v0 and variants alike."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.bench import overlay
from bot.bench.measure import Deadlines, StaticBench, open_static_bench
from bot.bench.sandbox import LIMITS_ONLY, Sandbox
from bot.model.measurement import Case, Measurement, Suite
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from bot.targets.contract import read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree
from tests.bench import tiny
from tests.worker import languages

LIGER = os.environ.get("KERNELWRIGHT_LIGER", "")
DEADLINES = Deadlines(check_s=90, compile_s=90, budget_s=6)


def opened(tree: Path, site: KernelSite, suite: Suite, scratch: Path) -> StaticBench:
    return open_static_bench(
        tree, site, suite, "sm_90", sys.executable, scratch, deadlines=DEADLINES, seed=5, sandbox=Sandbox(LIMITS_ONLY)
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return languages.write_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def bench(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaticBench]:
    bench = opened(tree, languages.SITE, tiny.SUITE, tmp_path_factory.mktemp("scratch"))
    yield bench
    bench.close()


def launched(found: Measurement) -> list[list[str]]:
    assert found.fault is None, found.fault
    assert [(row.case, row.detail) for row in found.checks if not row.passed] == []
    return [[launch.kernel for launch in case.launches] for case in found.cases]


@pytest.mark.slow
def test_v0_and_a_variant_launch_the_kernels_of_their_files(tree: Path, bench: StaticBench) -> None:
    """Without being told to, its forward pass runs the other language: nothing is recorded, nothing counted."""
    v0 = overlay.base_files(tree, languages.SITE)
    both = [["_softmax_forward_kernel"], ["_softmax_backward_kernel"]]
    untouched = bench.measure(v0, passports=False)
    assert launched(untouched) == both
    assert untouched.cases[0].traffic_factor == pytest.approx(1.0), "the interpreter saw it read and written once"
    fewer = SourceFile(path=v0[1].path, text=v0[1].text.replace("num_warps=4", "num_warps=2"))
    variant = bench.measure((v0[0], fewer), passports=False)
    assert launched(variant) == both
    assert [launch.num_warps for launch in variant.cases[0].launches] == [2]


@pytest.mark.slow
def test_a_variant_that_is_wrong_is_found_in_the_language_that_was_changed(tree: Path, bench: StaticBench) -> None:
    v0 = overlay.base_files(tree, languages.SITE)
    wrong = SourceFile(path=v0[0].path, text=v0[0].text.replace("y = e / tl.sum(e, axis=0)", "y = e"))
    failed = {row.case for row in bench.check((wrong, v0[1])).rows if not row.passed}
    assert "forward-7x100-float32" in failed


def _case(direction: str, dtype: str, rows: int, cols: int) -> Case:
    shape = (("rows", rows), ("cols", cols))
    return Case.model_validate({"id": f"{direction}-{dtype}", "direction": direction, "shape": shape, "dtype": dtype})


@pytest.mark.slow
@pytest.mark.skipif(not LIGER, reason="set KERNELWRIGHT_LIGER to an unpacked sdist of liger-kernel 0.8.5")
def test_jsd_of_liger_kernel_itself_launches_its_triton_kernel(tmp_path: Path) -> None:
    """An implementation that it prefers is registered beside its own, as no CuTe DSL is installed where tests run."""
    place = tmp_path / "tree"
    source = Path(LIGER, "src/liger_kernel")
    for path in source.rglob("*.py"):
        (place / "src/liger_kernel" / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
        (place / "src/liger_kernel" / path.relative_to(source)).write_bytes(path.read_bytes())
    with (place / "src/liger_kernel/ops/backends/_cutedsl/__init__.py").open("a") as file:
        file.write(OTHER)
    for path in ("test/transformers/test_jsd.py", "benchmark/scripts/benchmark_jsd.py"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text("")
    site = open_target(DirectoryTree(place), read_config(None)).site("jsd")
    assert site.dispatches == ("jsd_loss_and_grad",)
    suite = Suite(
        name="quick",
        cases=(_case("forward", "bfloat16", 64, 4096),),
        checks=(_case("forward", "float32", 4, 100),),
    )
    bench = opened(place, site, suite, tmp_path / "scratch")
    try:
        found = bench.measure(overlay.base_files(place, site), passports=False)
    finally:
        bench.close()
    assert launched(found) == [["_jsd_kernel"]]


OTHER = """

from liger_kernel.backends import Capability as _Capability, register_impl as _register


@_register("jsd_loss_and_grad", impl_name="nvidia-preferred", capability=_Capability(), preference_rank=0)
def _preferred(*args, mode=None):
    raise AssertionError("the one that was not to run")
"""
