"""The sample library is copied out to be a repository of its own: whole, clean, and with tests that catch errors."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "templates" / "sample"
KERNELS = ("cross_entropy", "geglu", "jsd", "layer_norm", "rms_norm", "softmax")

OPERATORS = {
    "cross_entropy": (
        "CrossEntropyFunction",
        [
            *("_input", "target", "weight=None", "ignore_index=-100", "lse_square_scale=0.0", "label_smoothing=0.0"),
            *("reduction='mean'", "softcap=None", "return_z_loss=False", "return_token_accuracy=False"),
            "return_predicted_tokens=False",
        ],
    ),
    "geglu": ("GELUMulFunction", ["a", "b"]),
    "jsd": ("JSDFunction", ["_input", "target", "shift_labels=None", "beta=0.5", "ignore_index=-100"]),
    "layer_norm": ("LayerNormFunction", ["X", "W", "B", "eps"]),
    "rms_norm": (
        "RMSNormFunction",
        ["X", "W", "eps", "offset=0.0", "casting_mode='llama'", "in_place=True", "row_mode=None"],
    ),
    "softmax": ("SoftmaxFunction", ["x"]),
}
"""Class of each op and what `apply` takes: what callers of Liger's 0.8.5 would write."""


def op_file(kernel: str, root: Path = SAMPLE) -> Path:
    return root / "src" / "sample_kernels" / "ops" / f"{kernel}.py"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(SAMPLE, tmp_path / "sample", ignore=shutil.ignore_patterns("__pycache__", ".*_cache", "data"))
    )


def run(argv: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "500",  # pytest cuts its summary to the width of the terminal
    }
    return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=110, check=False)


def pytest_of_sample(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], cwd)


def checkstyle(cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(["make", "checkstyle", f"PYTHON={sys.executable}"], cwd)


def autograd_functions(tree: ast.Module) -> list[ast.ClassDef]:
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [node for node in classes if [ast.unparse(base) for base in node.bases] == ["torch.autograd.Function"]]


def parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.strip() for argument in ast.unparse(function.args).split(", ")]


def test_it_has_these_kernels_and_each_has_an_op_a_module_a_test_and_a_benchmark() -> None:
    found = [path.stem.removeprefix("test_") for path in sorted((SAMPLE / "test" / "transformers").glob("test_*.py"))]
    assert found == list(KERNELS)
    for kernel in KERNELS:
        assert op_file(kernel).is_file()
        assert (SAMPLE / "src" / "sample_kernels" / "transformers" / f"{kernel}.py").is_file()
        assert (SAMPLE / "benchmark" / "scripts" / f"benchmark_{kernel}.py").is_file()


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_op_file_holds_one_autograd_function_with_the_known_signature(kernel: str) -> None:
    (operator,) = autograd_functions(ast.parse(op_file(kernel).read_text()))
    name, expected = OPERATORS[kernel]
    methods = {node.name: node for node in operator.body if isinstance(node, ast.FunctionDef)}
    assert operator.name == name
    assert parameters(methods["forward"]) == ["ctx", *expected]
    assert set(methods) == {"forward", "backward"}


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_op_file_has_a_forward_and_a_backward_kernel_launched_with_its_numbers(kernel: str) -> None:
    tree = ast.parse(op_file(kernel).read_text())
    launches = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)]
    assert {ast.unparse(launch.func.value) for launch in launches if isinstance(launch.func, ast.Subscript)} == {
        f"_{kernel}_forward_kernel",
        f"_{kernel}_backward_kernel",
    }
    for launch in launches:
        assert {"BLOCK_SIZE", "num_warps"} <= {keyword.arg for keyword in launch.keywords}


def test_its_policy_accepts_static_evidence_and_nothing_else() -> None:
    assert tomllib.loads((SAMPLE / "kernelwright.toml").read_text()) == {"policy": {"evidence": "static"}}


def test_it_brings_no_workflow_of_its_own() -> None:
    assert not (SAMPLE / ".github").exists()


@pytest.mark.long
def test_its_tests_pass_and_only_bfloat16_is_left_to_a_gpu(copy: Path) -> None:
    done = pytest_of_sample(copy, "-rs")
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = re.findall(r"^SKIPPED \[\d+\] (.*)$", done.stdout, re.MULTILINE)
    assert skipped and all("bfloat16" in line for line in skipped)


def test_checkstyle_passes(copy: Path) -> None:
    done = checkstyle(copy)
    assert done.returncode == 0, done.stdout + done.stderr


def test_checkstyle_mends_what_it_can_and_passes_the_second_time(copy: Path) -> None:
    file = op_file("softmax", copy)
    clean = file.read_text()
    file.write_text(clean.replace("import torch\n", "import os\nimport torch\n", 1).replace("X = X.view", "X=X.view"))
    first = checkstyle(copy)
    assert first.returncode != 0
    assert "run it again" in first.stdout
    assert file.read_text() == clean
    assert checkstyle(copy).returncode == 0


PLANTED = {
    "forward": {
        "cross_entropy": ("    counts = (label != ignore_index).to(tl.float32)", "    counts = 1.0"),
        "geglu": ("mask = col_offsets < n_cols\n", "mask = col_offsets < n_cols - 1\n"),
        "jsd": ("scale = 1.0 / max(n_counted, 1)", "scale = 1.0 / max(n_rows, 1)"),
        "layer_norm": ("X_centred = tl.where(mask, X_row - mean, 0.0)", "X_centred = X_row - mean"),
        "rms_norm": ("tl.rsqrt(mean_square + eps)", "tl.rsqrt(mean_square)"),
        "softmax": ("mask = cols < n_cols\n", "mask = cols < n_cols - 1\n"),
    },
    "backward": {
        "cross_entropy": ("- tl.where(cols == label, hard * scale, 0.0)", ""),
        "geglu": ("(gate + a_row * gate_slope)", "gate"),
        "jsd": ("(dX * grad).to(", "dX.to("),
        "layer_norm": ("rstd * (m - shift - X_hat * slope)", "rstd * (m - X_hat * slope)"),
        "rms_norm": ("rstd * (m - X_hat * projection)", "rstd * m"),
        "softmax": ("(dY_row - tl.sum(Y_row * dY_row, axis=0))", "dY_row"),
    },
}
"""What is right and what is put in its place: a wrong count, a forgotten eps, a mask off by one, a lost term.
(A mask one too long is caught as well, but it writes past the end of a tensor and may take pytest down with it.)"""


EARLY = """import pytest

failed = set()

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        failed.add(item.path)
    return report

def pytest_runtest_setup(item):
    if item.path in failed:
        pytest.skip("its file has failed already")
"""
"""A plugin: one failure of a file is all that is asked for, and the interpreter takes a quarter of a minute for all."""


def failures(output: str, kernel: str) -> list[str]:
    return re.findall(rf"^FAILED test/transformers/test_{kernel}\.py::(.*)$", output, re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("where", PLANTED)
def test_a_bug_planted_in_each_kernel_is_caught_by_that_kernels_tests(where: str, copy: Path) -> None:
    for kernel, (right, wrong) in PLANTED[where].items():
        file = op_file(kernel, copy)
        source = file.read_text()
        assert right in source
        file.write_text(source.replace(right, wrong))

    # One run for all of them: most of its seconds are the start of torch.
    (copy / "early.py").write_text(EARLY)
    done = pytest_of_sample(copy, "--tb=no", "-rf", "-p", "early")
    assert done.returncode == 1, done.stdout + done.stderr
    for kernel in KERNELS:
        assert any("AssertionError" in line for line in failures(done.stdout, kernel)), done.stdout
