"""What every target answers."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Literal, Protocol

from bot.errors import UserError
from bot.model.measurement import Suite
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite

SuiteName = Literal["quick", "full"]

PYTEST = ("{python}", "-m", "pytest", "{test}", "-q", "-p", "no:cacheprovider")
"""`{python}` is the target's Python, `{test}` one test file. No cache: a check leaves the tree as it was."""


class Target(Protocol):
    preset: str

    def kernels(self) -> tuple[str, ...]:
        """Kernels that can be optimised here, sorted."""
        ...

    def files(self, kernel: str) -> tuple[str, ...]:
        """The files a variant of this kernel may change; the first holds the op."""
        ...

    def missing(self, kernel: str) -> tuple[str, ...]:
        """Files that must exist and do not."""
        ...

    def refused(self, kernel: str) -> UserError | None:
        """What a kernel that is here, or a part of it, lacks to be optimised; None for one that lacks nothing, and for
        one of which nothing is here."""
        ...

    def site(self, kernel: str, *, with_gpu: bool = False) -> KernelSite:
        """Where the kernel lives. Without a GPU its tests run under Triton's interpreter."""
        ...

    def suite(self, kernel: str, name: SuiteName = "full") -> Suite: ...


def nearest(name: str, names: Collection[str]) -> str:
    """ "did you mean ...? ", or nothing when nothing is near."""
    close = difflib.get_close_matches(name[:64], names, n=1)
    return f"did you mean `{close[0]}`? " if close else ""


def unknown_kernel(kernel: str, kernels: Collection[str]) -> UserError:
    listed = ", ".join(sorted(kernels)) or "none"
    return UserError(
        f"{kernel[:64]!a} is not a kernel that can be optimised here",
        hint=f"{nearest(kernel, kernels)}kernels here: {listed}",
        reason=ReasonCode.UNKNOWN_KERNEL,
    )


def without_recipe(kernel: str, why: str, kernels: Collection[str]) -> UserError:
    listed = ", ".join(sorted(kernels)) or "none"
    return UserError(
        f"`{kernel[:64]}` cannot be judged: {why}",
        hint=f"choose one of {listed}; docs/kernels.md says what each kernel needs and how a recipe is written",
        reason=ReasonCode.UNKNOWN_KERNEL,
    )


def incomplete(kernel: str, missing: tuple[str, ...], *, described: bool = False) -> UserError:
    """`described`: its paths are those of its section in kernelwright.toml, and may be what is wrong."""
    what = "that file" if len(missing) == 1 else "those files"
    ways = f", or correct the paths in [target.kernels.{kernel}]" if described else ""
    return UserError(
        f"`{kernel}` cannot be optimised: missing {', '.join(missing)}",
        hint=f"add and commit {what}{ways}: without its test and its benchmark nothing about it can be proved",
        reason=ReasonCode.PREFLIGHT_FAILED,
    )


def hindrance(target: Target, kernel: str) -> UserError | None:
    """Why this is nothing that can be optimised here, as comments and commands tell it; None for what can be."""
    kernels = target.kernels()
    return None if kernel in kernels else target.refused(kernel) or unknown_kernel(kernel, kernels)


def environment(source_root: str, with_gpu: bool) -> tuple[tuple[str, str], ...]:
    """An installed copy of the library must not be tested in place of the files that are here."""
    path = (("PYTHONPATH", source_root),)
    return path if with_gpu else (*path, ("TRITON_INTERPRET", "1"))
