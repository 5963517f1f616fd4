"""What may be measured next, checked and compiled while nothing is timed."""

from __future__ import annotations

from collections.abc import Callable

from bot.bench.checks import Checked
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
        run: Callable[[Files], tuple[Checked, CompileAnswer | Fault]],
        fit: Callable[[Checked], bool],
        forget: Callable[[str], None],
    ) -> None:
        """`run`: checks and compiles."""
        self._run, self._fit, self._forget = run, fit, forget
        self._ready: dict[str, Ready] = {}

    def make(self, files: Files) -> None:
        self._drop()
        if not files:
            return
        checked, compiled = self._run(files)
        if self._fit(checked) and not isinstance(compiled, Fault) and _is_whole(compiled):
            self._ready[sources_digest(files)] = checked, compiled
        else:
            self._forget(sources_digest(files))

    def take(self, files: Files) -> Ready | None:
        """Once. Of other files whatever was made ready is dropped: the search went another way."""
        found = self._ready.pop(sources_digest(files), None)
        self._drop()
        return found

    def _drop(self) -> None:
        while self._ready:
            self._forget(self._ready.popitem()[0])
