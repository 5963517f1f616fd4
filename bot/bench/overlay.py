"""Lays a variant's files over a copy of the target's sources. The rest of the package comes from the base tree."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from bot.errors import UserError
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from bot.worker.contract import Proof, Subject

MAX_BYTES = 256 * 2**20
MAX_FILES = 20_000
LEFT_OUT = {".git", "__pycache__", ".venv", "node_modules"}
"""Folders that are nobody's source."""


def _plain_files(root: Path) -> list[Path]:
    """Regular files alone: a link in a pull request could point at anything on this machine."""
    found: list[Path] = []
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not Path(folder, name).is_symlink())
        found += [path for name in sorted(names) if not (path := Path(folder, name)).is_symlink() and path.is_file()]
        if len(found) > MAX_FILES:
            raise UserError(
                f"{root.name} holds more than {MAX_FILES} files",
                hint="name the folder of the package as source_root, not the whole repository",
                reason=ReasonCode.CONFIG_INVALID,
            )
    return found


def _copy(source: Path, target: Path) -> None:
    copied = 0
    for path in _plain_files(source):
        copied += path.stat().st_size
        if copied > MAX_BYTES:
            raise UserError(
                f"{source.name} is larger than {MAX_BYTES // 2**20} MiB",
                hint="name the folder of the package as source_root, not the whole repository",
                reason=ReasonCode.CONFIG_INVALID,
            )
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())


def below(site: KernelSite, path: str) -> str:
    """A file of the target by the path it has on the import path."""
    prefix = "" if site.source_root in ("", ".") else f"{site.source_root}/"
    if not path.startswith(prefix):
        raise UserError(
            f"{path} is not below {site.source_root}", hint="a variant may change files of the package only"
        )
    return path.removeprefix(prefix)


def digest_of(file: SourceFile) -> str:
    return hashlib.sha256(file.text.encode()).hexdigest()


def _link(source: Path, target: Path) -> None:
    for path in _plain_files(source):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, place)


def lay(tree: Path, site: KernelSite, files: tuple[SourceFile, ...], folder: Path, beside: Path | None = None) -> Path:
    """The import root of the variant. What was laid `beside` it, for the same worker, shares all files but these: a
    copy of a package takes a tenth of a second."""
    if beside is None:
        _copy(tree / site.source_root, folder)
    else:
        _link(beside, folder)
    for file in files:
        place = folder / below(site, file.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)  # its other name keeps what it holds
        place.write_bytes(file.text.encode())
    return folder


def subject(site: KernelSite, files: tuple[SourceFile, ...], root: str) -> Subject:
    proofs = tuple(Proof(below(site, file.path), digest_of(file)) for file in files)
    return Subject(root, site.module, below(site, site.files[0]), proofs, site.op)


def base_files(tree: Path, site: KernelSite) -> tuple[SourceFile, ...]:
    """The untouched files of the kernel."""
    return tuple(SourceFile(path=path, text=(tree / path).read_text(encoding="utf-8")) for path in site.files)
