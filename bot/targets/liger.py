"""The built-in preset: Liger-Kernel, its forks, and the sample. Nothing has to be configured."""

from __future__ import annotations

import ast
import re
from collections import Counter

from bot.errors import UserError
from bot.model.measurement import Suite
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite
from bot.targets.base import (
    PYTEST,
    SuiteName,
    Target,
    environment,
    hindrance,
    incomplete,
    unknown_kernel,
    without_recipe,
)
from bot.targets.contract import CONFIG, RepoConfig
from bot.targets.dependents import dependent_tests, recipe_of
from bot.targets.described import DescribedTarget
from bot.targets.dispatching import dispatched, forced
from bot.targets.imports import relied_on
from bot.targets.sizes import SIZES
from bot.targets.suites import suite_of
from bot.targets.tree import TreeReader, read_text

ROOT = "src"
TESTS = "test"
BACKENDS = "backends/_triton"
"""Below the ops: where a library with several backends launches the kernels that stand in the ops."""
OP = re.compile(r"src/([A-Za-z_]\w*)/ops/([a-z][a-z0-9_]*)\.py", re.ASCII)
KERNEL = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)


OPS = {
    "mhc_coeffs": "LigerMHCCoeffsFunction",
    "mhc_post_res": "LigerMHCPostResFunction",
    "mhc_pre": "LigerMHCPreFunction",
    "swiglu": "LigerSiLUMulFunction",
}
"""The autograd function that is optimised, where the file of the op holds several in liger-kernel 0.8.5."""

FILES = dict.fromkeys(("mhc_coeffs", "mhc_post_res", "mhc_pre"), "mhc")
"""Where op, test and benchmark of a kernel stand, if not in files of its own name."""

NO_RECIPE = {
    "mhc": "its file holds three ops, each of which is a kernel here: mhc_coeffs, mhc_post_res and mhc_pre",
    "tiled_mlp": "it launches no kernel of its own: it takes a function and a module, whose kernels are others",
    "vocab_parallel_cross_entropy": "it needs several GPUs: a vocabulary is spread over the ranks of a process group, "
    "and one campaign has one GPU",
}
"""What stands in the way, where a kernel of liger-kernel 0.8.5 cannot be judged."""
PLAIN = "there is no recipe for it yet: what it computes, on which inputs and how exactly is known to nobody here"


def stem(kernel: str) -> str:
    return FILES.get(kernel, kernel)


def test_path(kernel: str) -> str:
    return f"test/transformers/test_{stem(kernel)}.py"


def benchmark_path(kernel: str) -> str:
    return f"benchmark/scripts/benchmark_{stem(kernel)}.py"


LIGER = "liger_kernel"
"""The library itself, whose stock kernels were measured; others are laid out like it."""


def find_package(tree: TreeReader) -> str | None:
    """The package below `src` whose `ops` hold kernels with a test or a benchmark; of several, the one with most."""
    found = Counter(
        match.group(1)
        for path in tree.list(ROOT)
        if (match := OP.fullmatch(path))
        and (tree.exists(test_path(match.group(2))) or tree.exists(benchmark_path(match.group(2))))
    )
    return min(found, key=lambda name: (-found[name], name)) if found else None


def _launches(text: str | None, module: str) -> bool:
    """Whether a source launches, as `kernel[grid](...)`, a name that it imports from the module."""
    try:
        code = ast.parse(text or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    imports = (node for node in ast.walk(code) if isinstance(node, ast.ImportFrom) and node.module == module)
    names = {name.asname or name.name for node in imports for name in node.names}
    calls = (node.func for node in ast.walk(code) if isinstance(node, ast.Call))
    launched = (call.value for call in calls if isinstance(call, ast.Subscript))
    return any(isinstance(kernel, ast.Name) and kernel.id in names for kernel in launched)


class LigerTarget:
    preset = "liger"

    def __init__(self, tree: TreeReader, package: str) -> None:
        self._tree, self._package = tree, package
        self._ops = f"{ROOT}/{package}/ops"
        self._module = f"{package}.ops"

    def _needed(self, kernel: str) -> tuple[str, ...]:
        """The op, its benchmark, its test."""
        return f"{self._ops}/{stem(kernel)}.py", benchmark_path(kernel), test_path(kernel)

    def missing(self, kernel: str) -> tuple[str, ...]:
        if not KERNEL.fullmatch(kernel):
            raise unknown_kernel(kernel, self.kernels())
        return tuple(path for path in self._needed(kernel) if not self._tree.exists(path))

    def kernels(self) -> tuple[str, ...]:
        return tuple(kernel for kernel in sorted(SIZES) if not self.missing(kernel))

    def refused(self, kernel: str) -> UserError | None:
        """One that nobody can judge is told why; one of which a part is there, what is missing."""
        if not KERNEL.fullmatch(kernel):
            return None
        missing, needed = self.missing(kernel), self._needed(kernel)
        if kernel not in SIZES and needed[0] not in missing:
            return without_recipe(kernel, NO_RECIPE.get(kernel, PLAIN), self.kernels())
        is_part = kernel in SIZES and 0 < len(missing) < len(needed)
        return incomplete(kernel, missing) if is_part else None

    def _known(self, kernel: str) -> str:
        if why := hindrance(self, kernel):
            raise why
        return kernel

    def _backends(self, name: str) -> tuple[str, ...]:
        """Those that launch its kernel, whatever they are called: fused_linear_kl_div's is launched in kl_div's."""
        paths = sorted(path for path in self._tree.list(f"{self._ops}/{BACKENDS}") if path.endswith(".py"))
        return tuple(path for path in paths if _launches(read_text(self._tree, path), f"{self._module}.{name}"))

    def files(self, kernel: str) -> tuple[str, ...]:
        """The op, and what else is its own: the backend that launches its kernel, or the file of the kernels that it
        launches. In liger-kernel 0.8.5 cross_entropy, jsd, fused_linear_kl_div and fused_moe are two files."""
        name = stem(self._known(kernel))
        op, kernels = f"{self._ops}/{name}.py", f"{self._ops}/{name}_kernels.py"
        found = [op, *self._backends(name)]
        if self._tree.exists(kernels) and _launches(read_text(self._tree, op), f"{self._module}.{name}_kernels"):
            found.append(kernels)
        return tuple(found)

    def _asking(self, kernel: str, files: tuple[str, ...]) -> tuple[str, ...]:
        """Its files, and the module that people have it from, which its own test goes through: in liger-kernel 0.8.5
        those of cross_entropy and rope ask the dispatcher."""
        return (*files, f"{ROOT}/{self._package}/transformers/{stem(kernel)}.py")

    def site(self, kernel: str, *, with_gpu: bool = False) -> KernelSite:
        files = self.files(kernel)
        asking = self._asking(kernel, files)
        test = test_path(kernel)
        checkstyle = recipe_of(self._tree, "checkstyle")
        return KernelSite(
            kernel=kernel,
            preset=self.preset,
            source_root=ROOT,
            module=f"{self._module}.{stem(kernel)}",
            op=OPS.get(kernel, ""),
            files=files,
            test_file=test,
            benchmark_file=benchmark_path(kernel),
            test_command=PYTEST,
            style_command=("{python}", "-m", "ruff", "check", *files) if checkstyle is None else ("make", "checkstyle"),
            dependent_tests=dependent_tests(self._tree, files, root=ROOT, tests=TESTS, own=test),
            relied_on=relied_on(self._tree, files, root=ROOT, under=(ROOT, TESTS, "benchmark")),
            dispatches=dispatched(self._tree, asking, f"{self._package}.functional"),
            environment=(*environment(ROOT, with_gpu), *forced(self._tree, asking)),
        )

    def suite(self, kernel: str, name: SuiteName = "full") -> Suite:
        return suite_of(self._known(kernel), name, in_liger=self._module == f"{LIGER}.ops")


def open_target(tree: TreeReader, config: RepoConfig) -> Target:
    """The repository as its kernelwright.toml describes it, else as what it looks like."""
    if config.target.kernels:
        return DescribedTarget(tree, config.target.kernels)
    package = find_package(tree)
    if package is not None:
        return LigerTarget(tree, package)
    raise UserError(
        "this repository is not laid out like Liger-Kernel: no src/<package>/ops/<kernel>.py with a "
        "test/transformers/test_<kernel>.py or a benchmark/scripts/benchmark_<kernel>.py",
        hint=f"describe its kernels in {CONFIG} on the default branch, one [target.kernels.<name>] each, with source, "
        "module, source_root, test and benchmark",
        reason=ReasonCode.TARGET_NOT_RECOGNISED,
    )
