"""Which files judge a kernel: tests with their helpers, the benchmark, what steers them; never the kernel itself."""

from __future__ import annotations

import pytest

from bot.model.site import KernelSite
from bot.targets.judges import STEERING, judging

LIGER = KernelSite(
    kernel="rms_norm",
    preset="liger",
    source_root="src",
    module="pkg.ops.rms_norm",
    files=("src/pkg/ops/rms_norm.py",),
    test_file="test/transformers/test_rms_norm.py",
    benchmark_file="benchmark/scripts/benchmark_rms_norm.py",
    test_command=("pytest", "{test}"),
    style_command=("ruff", "check"),
    dependent_tests=("test/chunked/test_layer.py",),
)
BESIDE = LIGER.model_copy(
    update={
        "source_root": "lib",
        "files": ("lib/pkg/rms/op.py", "lib/pkg/rms/backend.py"),
        "test_file": "lib/pkg/tests/test_op.py",
        "benchmark_file": "bench_rms.py",
        "dependent_tests": (),
    }
)
"""Tests beside the sources, and a benchmark at the top."""


@pytest.mark.parametrize(
    "path",
    [
        "test/transformers/test_rms_norm.py",
        "test/chunked/test_layer.py",
        "test/utils.py",
        "test/data/expected.bin",
        "benchmark/scripts/benchmark_rms_norm.py",
        "benchmark/scripts/utils.py",
        "conftest.py",
        "src/pkg/conftest.py",
        "pyproject.toml",
        "Makefile",
        "src/sitecustomize.py",
    ],
)
def test_what_judges_in_a_library_like_liger(path: str) -> None:
    assert judging([path], LIGER) == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "src/pkg/ops/rms_norm.py",
        "src/pkg/ops/softmax.py",
        "src/pkg/test_like_name.py",
        "README.md",
        "tests/test_other.py",
        "testing.py",
        "docs/conftest.py.md",
        "kernelwright.toml",
    ],
)
def test_what_does_not(path: str) -> None:
    assert judging([path], LIGER) == ()


def test_tests_beside_the_sources_are_a_folder_of_their_own() -> None:
    paths = ["bench_rms.py", "lib/pkg/rms/op.py", "lib/pkg/rms/other.py", "lib/pkg/tests/helper.py", "other.py"]
    assert judging(paths, BESIDE) == ("bench_rms.py", "lib/pkg/tests/helper.py")


def test_a_test_in_the_kernel_s_own_folder_judges_alone() -> None:
    site = BESIDE.model_copy(update={"test_file": "lib/pkg/rms/test_op.py"})
    paths = ["lib/pkg/rms/helper.py", "lib/pkg/rms/op.py", "lib/pkg/rms/test_op.py"]
    assert judging(paths, site) == ("lib/pkg/rms/test_op.py",)


def test_a_file_that_a_variant_may_change_never_judges() -> None:
    site = LIGER.model_copy(update={"files": ("src/pkg/ops/rms_norm.py", "test/transformers/test_rms_norm.py")})
    assert judging(site.files, site) == ()


def test_everything_that_steers_does_so_in_any_folder_and_the_order_is_kept() -> None:
    paths = sorted(f"{folder}{name}" for folder in ("", "a/b/") for name in STEERING)
    assert judging(paths, LIGER) == tuple(paths)
    assert judging(reversed(paths), LIGER) == tuple(reversed(paths))
