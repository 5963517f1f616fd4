"""Imports the op from the overlay and proves that what was imported is the variant."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bot.worker.contract import Proof, Subject
from bot.worker.contract.dispatching import Dispatched
from bot.worker.dispatching import force


class NotTheVariant(Exception):
    """What was imported, or what was launched, is not the text the bench handed over."""


class OpMissing(Exception):
    """The op's file does not hold exactly one autograd function, nor the one that was asked for."""


def file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _named_bases(node: ast.ClassDef) -> set[str]:
    return {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases}


def op_name(source: str, wanted: str = "", file: str = "the op's file") -> str:
    """The class of the file that derives from torch.autograd.Function: the wanted one, else the only one."""
    classes = [node for node in ast.parse(source, file).body if isinstance(node, ast.ClassDef)]
    found = [node.name for node in classes if "Function" in _named_bases(node)]
    if wanted in found:
        return wanted
    if len(found) != 1:
        raise OpMissing(f"expected one autograd.Function in {file}, found {', '.join(found) or 'none'}")
    return found[0]


def prove(root: Path, files: tuple[Proof, ...]) -> None:
    """Every file of the variant lies on disk as it was handed over, and no loaded module came from elsewhere."""
    for file in files:
        path = root / file.path
        if file_digest(path) != file.sha256:
            raise NotTheVariant(f"{file.path} is not the variant's text")
        name = file.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        module = sys.modules.get(name)
        origin = getattr(module, "__file__", None)
        if module is not None and (origin is None or Path(origin).resolve() != path.resolve()):
            raise NotTheVariant(f"{name} was loaded from {origin}, not from the variant")


def load_and_ask(
    subject: Subject, dispatches: Sequence[str] = ()
) -> tuple[type[torch.autograd.Function], tuple[Dispatched, ...]]:
    """The op of the variant, with what the library's own dispatcher would have taken for these. Its import root comes
    first on the path, but late: it can shadow nothing of ours."""
    root = Path(subject.root)
    source = (root / subject.op_file).read_text(encoding="utf-8")
    name = op_name(source, subject.op, subject.op_file)
    sys.path.insert(0, str(root))
    module = importlib.import_module(subject.module)
    dispatched = force(subject.module.partition(".")[0], dispatches)
    prove(root, subject.files)
    op = getattr(module, name, None)
    if not (inspect.isclass(op) and issubclass(op, torch.autograd.Function)):
        raise OpMissing(f"{subject.module}.{name} is not an autograd.Function after import")
    return op, dispatched


def load_op(subject: Subject) -> type[torch.autograd.Function]:
    return load_and_ask(subject)[0]


def origin_of(function: Any, root: Path) -> tuple[str, str]:
    """(path below the root, digest) of the file a kernel's source came from; a bare name when it lies outside."""
    path = Path(inspect.unwrap(function).__code__.co_filename).resolve()
    if not path.is_file():
        return path.name, ""
    text = path.read_bytes()
    lines = inspect.getsource(function).encode()
    digest = hashlib.sha256(text).hexdigest() if lines in text else ""
    root = root.resolve()
    return (path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name), digest
