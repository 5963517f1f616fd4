"""Stands in for `transformers` and its like where they are not installed, so that scripts that compare with them run.

Configurations keep what they are given, rotary embeddings hand out tensors of the right shape, and everything else is
a class with nothing in it: models to compare with cannot be called, and nobody needs them here.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from types import ModuleType
from typing import Any

import torch

ABSENT = ("transformers", "tokenizers")
VERSION = "4.57.0"
"""Late enough that libraries take their newest branch."""


class NotInstalled(AttributeError):
    """A missing package was asked for more than its name. A kind of AttributeError, for whoever asks with a default."""


class StandIn:
    """Any class. An object keeps what it was made with and has nothing else."""

    def __init__(self, *_: Any, **given: Any) -> None:
        self.__dict__.update(given)

    def _lacks(self, *_: Any, **__: Any) -> Any:
        raise NotInstalled(f"{type(self).__name__} is of a package that is not installed")

    __call__ = __getattr__ = __getitem__ = __iter__ = _lacks


class Rotary(StandIn):
    """cos and sin for each position, as wide as a head."""

    def __call__(self, x: torch.Tensor, positions: torch.Tensor) -> Any:
        shape = (*positions.shape, x.shape[-1])
        return x.new_empty(shape), x.new_empty(shape)


class ComplexRotary(StandIn):
    """One complex factor for each position and pair."""

    def __call__(self, x: torch.Tensor, positions: torch.Tensor) -> Any:
        return x.new_empty((*positions.shape, x.shape[-1] // 2), dtype=torch.complex64)


NAMED: dict[str, type[StandIn]] = {
    "LlamaRotaryEmbedding": Rotary,
    "Qwen2VLRotaryEmbedding": Rotary,
    "Llama4TextRotaryEmbedding": ComplexRotary,
}
"""What scripts call for the inputs of the op itself."""


def _no(*_: Any, **__: Any) -> bool:
    """The answer of `is_..._available()`: what a missing package could tell of others is not there either."""
    return False


class _Module(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__version__ = VERSION
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _no if name.startswith("is_") else NAMED.get(name) or type(name, (StandIn,), {})
        setattr(self, name, found)
        return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


def _versions() -> None:
    """A library that was not installed has no version, and a script that writes it down would end there."""
    known = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return known(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            return VERSION if distribution_name in ABSENT else "0"

    importlib.metadata.version = version


def install() -> None:
    """Packages that are there are left alone."""
    _versions()
    missing = frozenset(name for name in ABSENT if importlib.util.find_spec(name) is None)
    sys.meta_path.append(_Finder(missing))
