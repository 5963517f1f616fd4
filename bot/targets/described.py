"""A repository that describes its kernels in its own kernelwright.toml."""

from __future__ import annotations

from collections.abc import Mapping

from bot.errors import UserError
from bot.model.measurement import Suite
from bot.model.site import KernelSite
from bot.targets.base import SuiteName, environment, hindrance, incomplete, unknown_kernel
from bot.targets.contract import KernelTable
from bot.targets.dependents import dependent_tests
from bot.targets.dispatching import dispatched
from bot.targets.imports import relied_on
from bot.targets.suites import suite_of
from bot.targets.tree import TreeReader


class DescribedTarget:
    preset = "toml"

    def __init__(self, tree: TreeReader, kernels: Mapping[str, KernelTable]) -> None:
        self._tree = tree
        self._kernels = kernels

    def _table(self, kernel: str) -> KernelTable:
        if kernel not in self._kernels:
            raise unknown_kernel(kernel, self.kernels())
        return self._kernels[kernel]

    def missing(self, kernel: str) -> tuple[str, ...]:
        table = self._table(kernel)
        needed = (table.source, table.benchmark, table.test, *table.files)
        return tuple(path for path in needed if not self._tree.exists(path))

    def kernels(self) -> tuple[str, ...]:
        return tuple(kernel for kernel in sorted(self._kernels) if not self.missing(kernel))

    def refused(self, kernel: str) -> UserError | None:
        """One without a recipe cannot be described, so that files are all that may be missing."""
        missing = self.missing(kernel) if kernel in self._kernels else ()
        return incomplete(kernel, missing, described=True) if missing else None

    def files(self, kernel: str) -> tuple[str, ...]:
        if why := hindrance(self, kernel):
            raise why
        table = self._table(kernel)
        return (table.source, *table.files)

    def site(self, kernel: str, *, with_gpu: bool = False) -> KernelSite:
        table, files = self._table(kernel), self.files(kernel)
        root = table.source_root
        under = (root, *(path.partition("/")[0] for path in (table.test, table.benchmark)))
        return KernelSite(
            kernel=kernel,
            preset=self.preset,
            source_root=root,
            module=table.module,
            files=files,
            test_file=table.test,
            benchmark_file=table.benchmark,
            test_command=table.test_command,
            style_command=table.style_command or ("{python}", "-m", "ruff", "check", *files),
            dependent_tests=dependent_tests(
                self._tree, files, root=root, tests=table.test.partition("/")[0], own=table.test
            ),
            relied_on=relied_on(self._tree, files, root=root, under=under),
            dispatches=dispatched(self._tree, files),
            environment=environment(root, with_gpu),
        )

    def suite(self, kernel: str, name: SuiteName = "full") -> Suite:
        self.files(kernel)
        return suite_of(kernel, name)
