"""A library's own benchmark scripts, run where no GPU is: honest ones are understood, others end in a reason."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from bot.bench.harvest import BROKEN, MISSING, NEVER, Harvest, _laid, harvest, read
from bot.bench.harvest_sizes import Arguments, Sizes
from bot.model.site import KernelSite
from bot.targets.contract import RepoConfig
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree
from bot.worker.contract import Argument, TensorSpec
from bot.worker.contract.harvest import Given, Handed, HarvestAnswer, Origin, Sighting

SAMPLE = Path(__file__).parents[2] / "templates" / "sample"
SCRIPT = "benchmark/scripts/benchmark_rms_norm.py"
GPU = "a GPU"

UTILS = """
from dataclasses import dataclass
from importlib.metadata import version
import torch

VERSION = version("a-library-that-is-not-installed")

@dataclass
class SingleBenchmarkRunInput:
    x: object
    kernel_provider: str
    kernel_operation_mode: str = ""
    extra_benchmark_config: dict = None

def run_benchmarks(**_):
    raise SystemExit("a benchmark needs a GPU")
"""
MODELS = """
import torch

def estimate_kernel_peak_memory(probe_fn):
    raise SystemExit("a probe needs a GPU")

def longest(probe_fn, tokens):
    peak = estimate_kernel_peak_memory(probe_fn)
    return int(torch.cuda.get_device_properties(0).total_memory * 0.4 / (peak / tokens))
"""
LIGER_LIKE = """
import torch
from benchmark_model_configs import longest
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from utils import SingleBenchmarkRunInput, run_benchmarks

from sample_kernels.transformers.rms_norm import RMSNorm

def setup(input):
    config = LlamaConfig(**input.extra_benchmark_config)
    x = torch.randn(1, input.x, config.hidden_size, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    if input.kernel_provider == "huggingface":
        return x, LlamaRMSNorm(config.hidden_size)
    return x, RMSNorm(config.hidden_size).to("cuda").to(torch.bfloat16)

def bench(input):
    x, layer = setup(input)
    layer(x).sum().backward()
    raise AssertionError("nothing after the op is of use")

def probe():
    x = torch.randn(2**20, device="cuda", dtype=torch.float32, requires_grad=True)
    return x * 2

if __name__ == "__main__":
    torch.randn(2**40, device="cuda")  # 4 TiB, if anything were computed
    run_benchmarks(
        bench_test_fn=bench,
        kernel_name="rms_norm",
        x_name="T",
        x_label="tokens",
        x_values=[2**10, longest(probe, 2**20)],
        kernel_providers=["huggingface", "ours"],
        kernel_operation_modes=["forward", "full"],
        extra_benchmark_configs=[{"hidden_size": 4096}],
    )
"""
FORGES = """
import os
arguments = open("/proc/self/cmdline").read().split("\\0")
with open(os.path.join(arguments[-2], "answer.json"), "w") as file:
    file.write('{"sightings": [], "troubles": [], "approve": true}')
os._exit(0)
"""


def planned(sizes: Sizes, dtype: str) -> Arguments:
    """A judge who knows of one operand."""
    shape = tuple(size for _, size in sizes)
    return (Argument("X", TensorSpec("X", dtype, shape)),)


def sighting(*shape: int, provider: str = "ours", dtype: str = "bfloat16") -> Sighting:
    stride = (shape[-1], 1) if len(shape) == 2 else (1,)
    return Sighting(Origin("T", "tokens", "7", provider, ""), (Given(Handed(dtype, shape, stride)),))


def understood(*sightings: Sighting, troubles: tuple[str, ...] = ()) -> Harvest:
    return read(HarvestAnswer(sightings, troubles), ("rows", "cols"), planned, GPU)


def site_of(root: Path) -> KernelSite:
    return open_target(DirectoryTree(root), RepoConfig()).site("rms_norm")


def library(folder: Path, script: str) -> Path:
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    scripts = folder / "benchmark" / "scripts"
    (scripts / "utils.py").write_text(UTILS, encoding="utf-8")
    (scripts / "benchmark_model_configs.py").write_text(MODELS, encoding="utf-8")
    (folder / SCRIPT).write_text(script, encoding="utf-8")
    return folder


def harvested(folder: Path, script: str) -> Harvest:
    root = library(folder / "library", script)
    return harvest(root, site_of(root), ("rows", "cols"), sys.executable, folder / "scratch")


def test_calls_that_come_to_the_same_are_one_point() -> None:
    found = understood(sighting(8, 64), sighting(8, 64, provider="ours-twice"), sighting(8, 64, dtype="float32"))

    assert [(point.sizes, point.dtype) for point in found.points] == [
        ((("rows", 8), ("cols", 64)), "bfloat16"),
        ((("rows", 8), ("cols", 64)), "float32"),
    ]
    assert [origin.provider for origin in found.points[0].origins] == ["ours", "ours-twice"]
    assert found.why_not == ""


def test_a_call_without_words_is_told_and_the_others_stand() -> None:
    found = understood(sighting(8, 64), sighting(0, 64))

    assert len(found.points) == 1
    assert found.unread == ("ours at T 7: a tensor of a size that no GPU takes",)
    assert found.why_not == ""


def test_what_a_script_calls_things_moves_no_cursor() -> None:
    found = understood(sighting(8, 64, provider="\x1b[2J\x1b]0;owned\x07\nliger\u202e" + "!" * 5000))

    (point,) = found.points
    assert point.origins[0].provider.startswith("[2J ]0;owned liger !!!")
    assert point.origins[0].provider.isprintable()
    assert len(point.origins[0].provider) == 160


@pytest.mark.parametrize(
    ("found", "why", "next_step"),
    [
        (understood(), NEVER, "measure the op itself"),
        (understood(troubles=("ModuleNotFoundError: No module named 'trl'",)), "No module named 'trl'", MISSING),
        (understood(troubles=("TypeError: too many arguments",)), "TypeError: too many", BROKEN),
        (understood(sighting(8, 64, dtype="int64")), "no words in the recipe: ours at T 7: its tensors", "widen"),
    ],
    ids=["never", "a module", "broken", "no words"],
)
def test_nothing_harvested_says_why_and_what_next(found: Harvest, why: str, next_step: str) -> None:
    assert why in found.why_not
    assert found.what_next.startswith(next_step)


def test_a_script_is_shown_sources_benchmarks_and_tests_alone(tmp_path: Path) -> None:
    tree = tmp_path / "checkout"
    for name in ("src/pkg/op.py", "src/.git/config", "test/test_op.py", ".git/config", "secrets/key", "bench.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name, encoding="utf-8")
    (tree / "src" / "link.py").symlink_to(tree / "secrets" / "key")
    site = site_of(SAMPLE).model_copy(update={"benchmark_file": "bench.py", "test_file": "test/test_op.py"})

    laid = _laid(tree, site, tmp_path / "laid")

    seen = sorted(path.relative_to(laid).as_posix() for path in laid.rglob("*") if path.is_file())
    assert seen == ["bench.py", "src/pkg/op.py", "test/test_op.py"]


def test_a_script_in_the_shape_of_ligers_is_followed(tmp_path: Path) -> None:
    found = harvested(tmp_path, LIGER_LIKE)

    assert found.why_not == ""
    # The probe lives with 4 MiB four times a million tokens: 16 bytes each, of 40 % of the memory of an H100.
    assert [dict(point.sizes) for point in found.points] == [
        {"rows": 1024, "cols": 4096},
        {"rows": int(80 * 2**30 * 0.4 / 16), "cols": 4096},
    ]
    (origin,) = found.points[0].origins
    assert (origin.x_name, origin.x, origin.provider) == ("T", "1024", "ours")
    assert found.gpu == "NVIDIA H100 80GB HBM3"
    assert "LlamaRMSNorm" in found.troubles[0]
    assert found.unbounded == ""


def test_an_answer_that_a_script_writes_itself_is_no_answer(tmp_path: Path) -> None:
    found = harvested(tmp_path, FORGES)

    assert found.points == ()
    assert "protocol: HarvestAnswer: unknown field 'approve'" in found.why_not
    assert found.what_next
