"""What may be measured next, checked and compiled while nothing is timed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bot.bench.checks import Checked, Laid
from bot.model.measurement import Fault
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import CompileAnswer

Files = tuple[SourceFile, ...]
Ready = tuple[Checked, CompileAnswer]


def _is_whole(compiled: CompileAnswer) -> bool:
    """Whether every kernel was done in its time, for every chip."""
    launched = (launch.refusal for case in compiled.cases for launch in case.launches)
    return not any(refusal is not None for refusal in (*launched, *(stamp.refusal for stamp in compiled.stamps)))


class Ahead:
    """One source at a time. What did not go well is forgotten, and done anew when its turn comes: it had to share the
    machine, and nobody is refused for that."""

    def __init__(
        self,
        lay: Callable[[Files], Laid],
        checks: Callable[[Laid], Checked],
        compiles: Callable[[Laid], CompileAnswer | Fault],
        fit: Callable[[Checked], bool],
        forget: Callable[[str], None],
    ) -> None:
        self._lay, self._checks, self._compile, self._fit, self._forget = lay, checks, compiles, fit, forget
        self._ready: dict[str, Ready] = {}

    def make(self, files: Files) -> None:
        self._drop()
        if not files:
            return
        digest, laid = sources_digest(files), self._lay(files)
        try:
            with ThreadPoolExecutor(max_workers=1) as beside:
                compiling = beside.submit(self._compile, laid)
                checked = self._checks(laid)
                compiled = compiling.result()
        finally:
            shutil.rmtree(laid.folder, ignore_errors=True)
        if self._fit(checked) and not isinstance(compiled, Fault) and _is_whole(compiled):
            self._ready[digest] = checked, compiled
        else:
            self._forget(digest)

    def take(self, files: Files) -> Ready | None:
        """Once. Of other files whatever was made ready is dropped: the search went another way."""
        found = self._ready.pop(sources_digest(files), None)
        self._drop()
        return found

    def _drop(self) -> None:
        while self._ready:
            self._forget(self._ready.popitem()[0])
