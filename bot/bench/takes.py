"""A variant on the GPU: its checks, and the recordings that are kept so that they can be played against v0."""

from __future__ import annotations

import ast
import shutil
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from bot.bench import compile_pool, overlay
from bot.bench.cell import Places, fault_of, places, run_cell
from bot.bench.checks import Checked, Checker, Laid
from bot.bench.clearing import clear
from bot.bench.kept_kernels import KeptKernels
from bot.bench.launcher import Limits
from bot.bench.take import Take, refused, short_of_memory, take_of
from bot.model.measurement import Fault
from bot.model.variant import sources_digest
from bot.worker.contract import Call, CheckAnswer, ContractError
from bot.worker.contract.door import KERNELS
from bot.worker.contract.gpu import MAX_CHOICES, Choice, GpuAnswer, GpuRequest
from bot.worker.contract.several import RecordAnswer, RecordRequest, place_of

TUNING = "autotune"
"""Where a text of v0's speaks of it, v0 may be on a clock of its own while it is recorded."""
TUNES_FOR = 2.0
"""Times what everybody has, for v0 where its text speaks of tuning: fused_moe compiles and times 16 to 40 settings
of a kernel, and took 41 s on an H100 for the forward of one shape of three."""
MOST_RECORDERS = 4
"""Most of a recording is compiling, one kernel after the other: eight cases of rms_norm take a process 8 s."""
MOST_CONTEXTS = 10
"""Where that is not much: the driver makes one context after the other, in a quarter of a second each on an H200. Of
the 8.7 s in which ten processes recorded five variants of layer_norm those were 2.6."""
LONG_S = 30.0
"""Who takes v0 so long compiles for so long that contexts are cheap."""
EACH_MIB = 8192
"""Of the GPU's memory each is left as much: a context, and inputs and results several times."""
CHECKED_BESIDE = 5
"""Who is checked is recorded meanwhile, and checks keep four times as many processors busy."""
PATIENCE, AT_LEAST_S = 4.0, 30.0
"""A variant has so much of v0's own time for the same work, and this beyond it: its kernels may take twice as long to
compile. Whoever hangs is not waited for as if it were any kernel."""
EACH_S, ALL_S, SAY_S = 30.0, 60.0, 15.0
"""For one of several that one worker records, for all of them, and for it to say so: who hangs is news of that one
alone, and the others still have to run."""


def tunes_itself(text: str) -> bool:
    """Whether code of it does, whatever its comments speak of."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return TUNING in text
    names = (getattr(node, "attr", None) or getattr(node, "id", "") for node in ast.walk(tree))
    return any(name in ("autotune", "Autotuner") for name in names)


def _subject(choice: Choice) -> tuple[object, ...]:
    """What it is a choice for."""
    return choice.kernel, choice.key, choice.among, choice.source, choice.grid


class GpuChecker(Checker):
    """As the checker without a GPU, but what it runs is real, and it records beside."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._cases = tuple(case.call for case in self._plan.cases)
        self._unseen = tuple(one.call for one in self._plan.unseen)
        """Of sizes that nobody named; once v0 was recorded, those that v0 takes."""
        self._recorded: dict[str, tuple[GpuAnswer | Fault, Path]] = {}
        """What was recorded of who is being checked, and where it lies."""
        self._apart: set[str] = set()
        """Who is recorded by a worker of its own."""
        self._takes: dict[str, dict[str, Take]] = {}
        self._pins: dict[str, tuple[Choice, ...]] = {}
        """What v0's autotuned kernels chose, by case."""
        self._learnt: dict[str, tuple[Choice, ...]] = {}
        """And those of others since, where they are kernels that v0 has not."""
        self._took_s = 0.0
        """What v0 took for the longer of its checks and its recordings; 0 until that is known."""
        self._may_tune = False
        """Whether v0's text speaks of tuning."""
        self._telling = threading.Lock()
        self.kernels = KeptKernels(self._cells.scratch / "kernels")

    @property
    def tunes(self) -> bool:
        """Whether v0 tunes itself: then whoever may tune anew is recorded with nobody else on the GPU."""
        return any(self._pins.values())

    def pins(self, cases: Collection[str]) -> tuple[Choice, ...]:
        """For whatever is held against v0 in these cases, once v0 was recorded. One process chose all of v0's, so that
        what two cases share is the same. What others chose is for those that launch the same kernel on the same grid:
        whoever is built on it, and itself in another process."""
        known = (choice for held in (self._pins, self._learnt) for case in cases for choice in held.get(case, ()))
        return tuple(dict.fromkeys(known))

    @property
    def _everything(self) -> tuple[Call, ...]:
        """What is recorded of whoever may be accepted."""
        return (*self._cases, *self._unseen)

    def all_pins(self) -> tuple[Choice, ...]:
        return self.pins([call.case for call in self._cases])

    def _learn(self, takes: Mapping[str, Take]) -> None:
        """The first word on a kernel stands, and v0's before all others."""
        for case, take in takes.items():
            known = (*self._pins.get(case, ()), *self._learnt.get(case, ()))
            told = {_subject(choice) for choice in known}
            new = tuple(choice for choice in take.choices if _subject(choice) not in told)
            self._learnt[case] = (*self._learnt.get(case, ()), *new)[:MAX_CHOICES]

    @property
    def _memory_mib(self) -> int:
        return self._cells.gpu.memory_mib if self._cells.gpu is not None else 0

    def _recorders(self, laid: Laid, at_once: int) -> int:
        """How many processes record one of so many variants. One chooses for all cases where a kernel tunes itself."""
        if self.tunes or any(TUNING in file.text for file in laid.files):
            return 1
        room = [compile_pool.processors() // at_once, self._memory_mib // (EACH_MIB * at_once)]
        if not self.compiles_long:
            room.append(MOST_CONTEXTS // at_once)
        return max(1, min(MOST_RECORDERS, *room))

    @property
    def compiles_long(self) -> bool:
        """Whether what an op imports is little of what it takes to record it."""
        return self._took_s >= LONG_S

    def most_at_once(self) -> int:
        """Who may be recorded side by side in a race, briefly: each has half of that."""
        return max(1, min(compile_pool.processors(), self._memory_mib // (EACH_MIB // 2)))

    def _compute(self, laid: Laid, where: Places, calls: tuple[Call, ...], *, scored: bool) -> CheckAnswer | Fault:
        """`scored`: every scored case is recorded, unless that was done apart."""
        cases = self._everything if scored and laid.name not in self._apart else ()
        answer = self._carried_out(where, self._request(laid, where, calls, cases, at_once=CHECKED_BESIDE))
        if isinstance(answer, Fault):
            return answer
        if cases:
            self._recorded[laid.name] = answer, where.answer.host
        return CheckAnswer(answer.calls)

    def _carried_out(self, where: Places, request: GpuRequest) -> GpuAnswer | Fault:
        """v0 has all the time there is, and a variant what v0 took, several times."""
        if self.baseline is not None:
            seconds = min(self._limits.seconds, AT_LEAST_S + PATIENCE * self._took_s)
            return run_cell(self._cells, where, request, GpuAnswer, replace(self._limits, seconds=seconds), {})
        began, longest = time.monotonic(), self._limits.seconds * (TUNES_FOR if self._may_tune else 1)
        answer = run_cell(self._cells, where, request, GpuAnswer, replace(self._limits, seconds=longest), {})
        with self._telling:
            self._took_s = max(self._took_s, time.monotonic() - began)
        return answer

    def _request(
        self,
        laid: Laid,
        where: Places,
        checks: tuple[Call, ...],
        cases: tuple[Call, ...],
        *,
        at_once: int,
        brief: bool = False,
    ) -> GpuRequest:
        subject = overlay.subject(self._site, laid.files, self._cells.sandbox.path_of(where.source))
        pins, hands = self.pins([call.case for call in cases or self._cases]), self._recorders(laid, at_once)
        return GpuRequest("gpu", subject, checks, cases, self._plan.fills, brief, pins, hands)

    def _record(
        self,
        laid: Laid,
        calls: tuple[Call, ...],
        limits: Limits | None = None,
        *,
        at_once: int = CHECKED_BESIDE,
        brief: bool = False,
        name: str = "record",
    ) -> tuple[GpuAnswer | Fault, Path]:
        """And where the recordings lie, in `laid`."""
        folder = laid.folder / f"{name}-request"
        folder.mkdir()
        where = places(self._cells, f"{laid.name}/{name}", laid.source, folder)
        request = self._request(laid, where, (), calls, at_once=at_once, brief=brief)
        if limits is None:
            return self._carried_out(where, request), where.answer.host
        return run_cell(self._cells, where, request, GpuAnswer, limits, {}), where.answer.host

    def _check(self, laid: Laid, *, baseline: bool) -> Checked:
        """One worker checks and records, in shares of its own. Who may tune itself is recorded before, and has the GPU
        for itself. v0 is recorded by a worker of its own, while the judge makes its inputs; the checks wait for it
        where its text speaks of tuning."""
        speaks = any(TUNING in file.text for file in laid.files)
        if baseline:
            self._may_tune = speaks
        if not baseline and not self.tunes:
            return self._kept(laid, super()._check(laid, baseline=False), baseline=False)
        with ThreadPoolExecutor(max_workers=1) as beside:
            self._apart.add(laid.name)
            recording = beside.submit(self._record_all, laid, baseline=baseline)
            if self.tunes or speaks:
                recording.result()
            checked = super()._check(laid, baseline=baseline)
            self._recorded[laid.name] = self._room_made(laid, *recording.result(), baseline=baseline)
        return self._kept(laid, checked, baseline=baseline)

    def _record_all(self, laid: Laid, *, baseline: bool) -> tuple[GpuAnswer | Fault, Path]:
        """Of sizes that nobody named those are let go of that v0 does not take: it is not its fault. All of them where
        anything else goes wrong beside them."""
        answer, lies = self._record(laid, self._everything)
        if not baseline or not self._unseen:
            return answer, lies
        if not isinstance(answer, Fault):
            taken = {one.case for one in answer.recordings if one.refusal is None}
            self._unseen = tuple(call for call in self._unseen if call.case in taken)
            kept = {call.case for call in self._everything}
            answer = replace(answer, recordings=tuple(one for one in answer.recordings if one.case in kept))
            if self._is_believed(laid, answer, lies):
                return answer, lies
        self._unseen = ()
        return self._record(laid, self._cases, name="record-again")

    def _room_made(
        self, laid: Laid, answer: GpuAnswer | Fault, lies: Path, *, baseline: bool
    ) -> tuple[GpuAnswer | Fault, Path]:
        """v0 once more by one process, when nobody else of ours checks or records, where it found no memory beside
        others: that says what does not fit."""
        if not baseline or isinstance(answer, Fault) or not short_of_memory(answer):
            return answer, lies
        return self._record(laid, self._cases, at_once=compile_pool.processors(), name="record-alone")

    def _is_believed(self, laid: Laid, answer: GpuAnswer, lies: Path) -> bool:
        try:
            self._taken(laid, answer, lies, [call.case for call in self._everything])
        except ContractError:
            return False
        return refused(answer) is None

    def _kept(self, laid: Laid, checked: Checked, *, baseline: bool) -> Checked:
        """What the checks said, once the recordings lie where they are looked for, or why they do not."""
        answer, lies = self._recorded.pop(laid.name, (None, laid.folder))
        if answer is None or checked.fault is not None:
            return checked
        if isinstance(answer, Fault):
            return Checked(checked.rows, fault=answer)
        if (why := refused(answer)) is not None:
            unfit = short_of_memory(answer) if baseline else ()
            return Checked(checked.rows, fault=why.model_copy(update={"unfit": unfit}))
        kept = self._cells.scratch / "takes" / sources_digest(laid.files)
        clear(kept)
        kept.parent.mkdir(exist_ok=True)
        shutil.move(str(lies), str(kept))
        try:
            takes = self._taken(laid, answer, kept, [call.case for call in self._everything])
        except ContractError as error:
            return Checked(checked.rows, fault=Fault(kind="protocol", detail=str(error)))
        self._takes[kept.name] = takes
        self.kernels.keep(kept / KERNELS, kept.name, untouched=baseline)
        if baseline:
            self._pins = {case: take.choices for case, take in takes.items()}
        else:
            self._learn(takes)
        return checked

    def brief(
        self, laid: Laid, cases: Collection[str], limits: Limits, *, at_once: int, alone: bool = False
    ) -> dict[str, Take] | Fault:
        """Recordings alone, of some cases: for a race, from which no number is published. They lie in `laid`, and
        `at_once` are made. Who has the GPU for itself is believed in what it chose."""
        calls = tuple(call for call in self._cases if call.case in cases)
        answer, lies = self._record(laid, calls, limits, at_once=at_once, brief=True)
        if isinstance(answer, Fault):
            return answer
        takes = self._of_brief(laid, answer, lies, [call.case for call in calls])
        if alone and not isinstance(takes, Fault):
            self._learn(takes)
        return takes

    def several(
        self, all_laid: Sequence[Laid], cases: Sequence[Collection[str]], limits: Limits, *, at_once: int
    ) -> list[dict[str, Take] | Fault]:
        """As `brief`, by one worker that imports for all of them; they lie in one folder. `limits` are those of one of
        them, but for the time."""
        room = all_laid[0].folder
        folder = room / "record-request"
        folder.mkdir()
        where = places(self._cells, f"{room.name}/record", room / "source", folder)
        root = self._cells.sandbox.path_of(where.source)
        wanted = tuple(tuple(call.case for call in self._cases if call.case in some) for some in cases)
        calls = tuple(call for call in self._cases if any(call.case in some for some in wanted))
        subjects = tuple(overlay.subject(self._site, one.files, f"{root}/{one.source.name}") for one in all_laid)
        pins = self.pins([call.case for call in calls])
        request = RecordRequest("record", subjects, calls, wanted, self._plan.fills, pins, at_once, EACH_S, ALL_S)
        whole = replace(
            limits,
            seconds=ALL_S + SAY_S,
            memory_bytes=at_once * limits.memory_bytes,
            processes=at_once * limits.processes,
        )
        answer = run_cell(self._cells, where, request, RecordAnswer, whole, {})
        if not isinstance(answer, Fault) and len(answer.answers) != len(all_laid):
            answer = Fault(kind="protocol", detail="the recordings are of other sources than were asked for")
        if isinstance(answer, Fault):
            return [answer] * len(all_laid)
        of = zip(all_laid, answer.answers, wanted, strict=True)
        return [
            self._of_brief(laid, told, where.answer.host / place_of(number), list(some))
            for number, (laid, told, some) in enumerate(of)
        ]

    def _of_brief(self, laid: Laid, answer: GpuAnswer, lies: Path, wanted: list[str]) -> dict[str, Take] | Fault:
        if answer.refusal is not None:
            return fault_of(answer.refusal)
        if (why := refused(answer)) is not None:
            return why
        try:
            return self._taken(laid, answer, lies, wanted, brief=True)
        except ContractError as error:
            return Fault(kind="protocol", detail=str(error))

    def _taken(
        self, laid: Laid, answer: GpuAnswer, kept: Path, wanted: list[str], *, brief: bool = False
    ) -> dict[str, Take]:
        if [recording.case for recording in answer.recordings] != wanted:
            raise ContractError("the recordings are of other cases than were asked for")
        texts = {digest for _, _, digest in (k for r in answer.recordings for k in r.kernels)}
        if "" in texts:
            raise ContractError("a kernel was launched whose source is in no file")
        mine = {path: digest for r in answer.recordings for _, path, digest in r.kernels}
        for file in overlay.subject(self._site, laid.files, "").files:
            if mine.get(file.path, file.sha256) != file.sha256:
                raise ContractError(f"a kernel was launched from another {file.path} than the variant's")
        return {recording.case: take_of(recording, kept, brief=brief) for recording in answer.recordings}

    def takes(self, digest: str) -> dict[str, Take]:
        """By case; empty when the variant was never recorded."""
        return self._takes.get(digest, {})

    def forget(self, digest: str) -> None:
        self._takes.pop(digest, None)
        clear(self._cells.scratch / "takes" / digest)
