"""Where a demo or a rehearsal leaves its results: emptied of an earlier one and of nothing else, one run at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bot.errors import UserError
from bot.model.reasons import ReasonCode


def _hold(folder: Path, what: str) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UserError(
            f"another {what} is writing into {folder}",
            hint="end it, or name another folder with --out",
            reason=ReasonCode.ALREADY_RUNNING,
        ) from None
    return handle


@contextmanager
def emptied(out: Path, what: str, is_earlier: Callable[[Path], bool]) -> Iterator[Path]:
    """`is_earlier` tells the results of an earlier one from a folder that is somebody's."""
    if out.exists():
        if not out.is_dir() or (any(out.iterdir()) and not is_earlier(out)):
            raise UserError(f"{out} is not empty and holds no earlier {what}", hint="name another folder with --out")
        os.close(_hold(out, what))
        shutil.rmtree(out)
    out.mkdir(parents=True)
    handle = _hold(out, what)
    try:
        yield out
    finally:
        os.close(handle)
