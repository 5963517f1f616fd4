"""What a gated source launches: here what the rule says, on every other GPU what it launched before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.launch_numbers import Numbers, with_other_warps, write
from bot.engine.source import MEASURED, NotUnderstood
from bot.targets.liger import FILES
from bot.targets.liger import OPS as NAMES
from bot.targets.sizes import SIZES
from bot.worker.loading import op_name
from tests.engine.library import OPS

LIGER = os.environ.get("KERNELWRIGHT_LIGER", "")
ROOT = Path(__file__).parents[2]
WHY = f"16 elements a thread {MEASURED}sm_90)."
PER_THREAD = "min(max({block} // 512, 1), {most})"
Write = Callable[[str, str, str], str]


def rule(**told: Any) -> Write:
    return lambda text, kernel, arch: write(text, Numbers(kernel, why=WHY, arch=arch, **told))


def twice(*, more: bool, whole: bool = False) -> Write:
    return lambda text, kernel, arch: with_other_warps(text, kernel, more=more, why=WHY, arch=arch, whole=whole)


def then(first: Write, second: Write) -> Write:
    return lambda text, kernel, arch: second(first(text, kernel, arch), kernel, arch)


RULES: dict[str, Write] = {
    "count": rule(warps="16"),
    "each": rule(warps=PER_THREAD),
    "narrow": rule(warps=PER_THREAD, up_to=2048),
    "whole": rule(warps="2", whole=True),
    "capped": rule(warps=PER_THREAD, block="min({block}, 1024)"),
    "more": twice(more=True),
    "fewer": twice(more=False, whole=True),
}
RULES |= {
    f"{one}_{other}": then(RULES[one], RULES[other])
    for one, other in (("count", "each"), ("each", "narrow"), ("narrow", "each"), ("each", "more"), ("more", "fewer"))
}


def variants(text: str) -> Iterator[tuple[str, str, str]]:
    """A name with the text for everywhere and the one for sm_90, of each rule that can be written."""
    module = source.parse(text)
    launched = {source.code(call.func.value) for call in findall(module, source.LAUNCH)}  # type: ignore[attr-defined]
    for kernel in sorted(name for name in launched if source.kernel_named(module, name) is not None):
        for name, written in RULES.items():
            try:
                yield f"{name}_{kernel}", written(text, kernel, ""), written(text, kernel, "sm_90")
            except NotUnderstood:
                continue


def recorded(arch: str, folder: Path) -> dict[str, Any]:
    """Beside nothing else that torch knows of a GPU."""
    path = os.pathsep.join([str(ROOT), str(OPS.parents[1]), *([str(Path(LIGER, "src"))] if LIGER else [])])
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.gated", arch, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def holds(ops: Path, kernels: list[str], package: str, folder: Path) -> int:
    """How many gated sources launch what they should."""
    known, pairs = {}, []
    for kernel in kernels:
        text = (ops / f"{FILES.get(kernel, kernel)}.py").read_text(encoding="utf-8")
        told = (kernel, op_name(text, NAMES.get(kernel, "")), package)
        stock = f"{kernel}_v0.py"
        (folder / stock).write_text(text, encoding="utf-8")
        known[stock] = told
        for name, everywhere, there in variants(text):
            files = f"{kernel}_{name}_all.py", f"{kernel}_{name}.py"
            for file, made in zip(files, (everywhere, there), strict=True):
                (folder / file).write_text(made, encoding="utf-8")
                known[file] = told
            pairs.append((stock, *files))
    (folder / "ops.json").write_text(json.dumps(known))
    here, elsewhere = recorded("sm_90", folder), recorded("sm_80", folder)
    for stock, everywhere, there in pairs:
        assert here[there] == here[everywhere], there
        assert elsewhere[there] == elsewhere[stock], there
    return sum(here[there] != here[stock] for stock, _, there in pairs)


def test_the_sample_launches_there_what_the_rule_says_and_elsewhere_what_it_did(tmp_path: Path) -> None:
    kernels = sorted(file.stem for file in OPS.glob("*.py") if file.stem in SIZES)
    assert holds(OPS, kernels, "sample_kernels.ops", tmp_path) >= 1


@pytest.mark.skipif(not LIGER, reason="set KERNELWRIGHT_LIGER to an unpacked sdist of liger-kernel 0.8.5")
def test_and_so_does_liger_kernel_itself(tmp_path: Path) -> None:
    assert holds(Path(LIGER, "src/liger_kernel/ops"), sorted(SIZES), "liger_kernel.ops", tmp_path) >= 1
