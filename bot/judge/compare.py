"""Holds a worker's results against the oracle and against what the untouched kernel did with the same inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import torch

from bot.judge.answer import Found, Returned
from bot.judge.known import Known
from bot.judge.tolerance import NOISE_FACTOR, Entry, Errors, Mark, errors, marks, unfit
from bot.worker.contract import Row, clip

RESULTS = ("output", "gradient")


def _label(key: tuple[str, str], known: Known) -> str:
    role, name = key
    if role != "output":
        return f"{role.replace('_', ' ')} {name}"
    grads = known.probe.call.grads
    return f"output {grads[int(name)].name[1:] if int(name) < len(grads) else name}"


def _invented(base: torch.Tensor, mine: torch.Tensor, truth: torch.Tensor) -> bool:
    """An infinity or NaN where neither the baseline has it nor the truth."""
    same = (torch.isnan(mine) & torch.isnan(base)) | (mine == base)
    return bool((~torch.isfinite(mine) & torch.isfinite(truth) & ~same).any())


def _swallowed(base: torch.Tensor, mine: torch.Tensor, truth: torch.Tensor) -> bool:
    """A number where there is none: training is told by a NaN that it went wrong. An infinity that the baseline alone
    has may be mended."""
    return bool((torch.isfinite(mine) & ~torch.isfinite(truth) & ~torch.isfinite(base)).any())


def _hide_strange(base: torch.Tensor, truth: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Where the baseline itself overflows there is nothing to compare with."""
    return torch.where(torch.isfinite(base), values.double(), truth)


def excuse_of(known: Known) -> str:
    """Why the untouched kernel is no yardstick for this probe; empty when it is one."""
    returned = known.baseline
    if returned is None or returned.error or len(returned.runs) != known.probe.call.turns:
        return (returned.error if returned else "") or "it did not finish"
    for key, truth in known.truth.items():
        found = returned.runs[0].get(key)
        if found is None or found.record.absent or tuple(found.record.shape) != tuple(truth.shape):
            return f"{_label(key, known)} is missing or has another shape than the reference"
    return ""


Yardsticks = dict[tuple[str, str], Errors | None]
"""The untouched kernel's own errors, by result; None where they are gross and its own doing."""


def yardsticks_of(known: Known) -> tuple[Yardsticks, str]:
    """What the results of one probe are held against, and why some of them are held against nothing.

    Half precision cannot hold the mean of squares less the square of the mean where the values lie close together: what
    a kernel makes of them is chance, and a variant's chance is another. One such probe of a large shape has more rows
    than all others of its type, so each is weighed by itself, and says nothing of the type. Where rounding to float32
    moves a result as far, the inputs are to blame, and all are held against that.
    """
    assert known.baseline is not None
    own: Yardsticks = {}
    why = ""
    for key, truth in known.truth.items():
        found = known.baseline.runs[0][key]
        old = found.values()
        off = errors(_hide_strange(old, truth, old), truth, known.floors[key])
        entry = Entry(known.probe.call.case, _label(key, known), found.record.dtype, off, off, known.noise[key])
        typical = float(off.rms.median())
        gross = unfit([entry]) if not typical <= NOISE_FACTOR * float(known.noise[key].rms.median()) else ""
        own[key] = None if gross else off
        if gross:
            why = why or f"{gross}, namely {typical:.3g}"
    return own, why


class Case:
    """Everything that one case's probes showed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: list[Entry] = []
        self._faults: list[str] = []
        self.probes = 0
        self.excuse = ""
        """Why the untouched kernel is no yardstick for some of the probes."""
        self.fit: set[tuple[str, str]] = set()
        self.gross: set[tuple[str, str]] = set()
        """(label, type) of the results that are held against something in some probe, and of those that are not."""

    def _fault(self, known: Known, text: str) -> None:
        self._faults.append(f"{text} ({known.describes})")

    def excused(self, known: Known, why: str) -> None:
        self.excuse = self.excuse or f"{why} ({known.describes})"

    def look(self, known: Known, mine: Returned | None) -> None:
        base = known.baseline
        assert base is not None
        yardsticks, gross = yardsticks_of(known)
        if gross:
            self.excused(known, gross)
        self.probes += any(yardsticks.values())
        for key, own in yardsticks.items():
            kind = (_label(key, known), base.runs[0][key].record.dtype)
            (self.fit if own is not None else self.gross).add(kind)
        if mine is None:
            self._fault(known, "the worker returned nothing for it")
        elif mine.error:
            self._fault(known, mine.error)
        elif len(mine.runs) != known.probe.call.turns:
            self._fault(known, "one of its runs is missing")
        elif missing := sorted(set().union(*(set(base.runs[0]) ^ set(run) for run in mine.runs))):
            self._fault(known, f"{_label(missing[0], known)} is missing or was not asked for")
        else:
            self._orderly(known, base, mine)
            for key, found in mine.runs[0].items():
                self._tensor(known, key, base.runs[0][key], found, yardsticks)

    def _orderly(self, known: Known, base: Returned, mine: Returned) -> None:
        """Neither memory that nobody wrote nor the order of the programs may show in the results."""
        if mine.races and not base.races:
            self._fault(known, mine.races[0])
        for oddity in mine.oddities:
            if oddity not in base.oddities:
                self._fault(known, oddity)
        if base.launches and not mine.launches:
            self._fault(known, "none of its kernels was launched, so something else made the result")
        for key, found in mine.runs[0].items():
            if not _same(base, key) or all(found.raw == run[key].raw for run in mine.runs[1:]):
                continue
            said = "depends on uninitialised memory or on the order in which programs run"
            self._fault(known, f"{_label(key, known)} {said if key[0] in RESULTS else 'was overwritten'}")

    def _tensor(self, known: Known, key: tuple[str, str], base: Found, mine: Found, yardsticks: Yardsticks) -> None:
        label = _label(key, known)
        if base.form != mine.form:
            self._fault(known, f"{label} is {_form(mine)}, the untouched kernel returns {_form(base)}")
        elif key[0] not in RESULTS:
            before = known.inputs[key[1]]
            if base.raw == before and mine.raw != before:
                self._fault(known, f"{label} was overwritten")
        elif not mine.record.absent:
            if mine.record.shares and not base.record.shares:
                self._fault(known, f"{label} lies in the memory of input {mine.record.shares}")
            if (own := yardsticks[key]) is not None:
                self._values(known, key, base, mine, own)

    def _values(self, known: Known, key: tuple[str, str], base: Found, mine: Found, own: Errors) -> None:
        label, truth = _label(key, known), known.truth[key]
        old, new = base.values(), mine.values()
        if _invented(old, new, truth):
            self._fault(known, f"{label} has an infinity or NaN where the untouched kernel has none")
            return
        if _swallowed(old, new, truth):
            self._fault(known, f"{label} has a number where its inputs allow none")
            return
        self.entries.append(
            Entry(
                case=self.name,
                label=label,
                dtype=mine.record.dtype,
                baseline=own,
                variant=errors(_hide_strange(old, truth, new), truth, known.floors[key], new.dtype),
                noise=known.noise[key],
            )
        )

    def row(self, mark: Mark | None, *, baseline: bool) -> Row:
        label, ratio = (mark.label, mark.ratio) if mark is not None else ("", 0.0)
        number = ratio if ratio == ratio and ratio != float("inf") else None
        if self._faults:
            return Row(self.name, False, label, number, clip(self._faults[0]))
        if not self.probes:
            why = f"not required of a variant, as the untouched kernel fails here: {self.excuse}"
            return Row(self.name, not baseline, "", None, clip(why))
        if mark is not None and not ratio <= 1:
            times = f"{ratio:.3g} times" if number is not None else "beyond"
            why = f"{label}: its {mark.rule} error is {times} what the untouched kernel's own error allows"
            return Row(self.name, False, label, number, why)
        excused = f"; not required, as the untouched kernel fails: {self.excuse}" if self.excuse else ""
        return Row(self.name, True, label, number, clip(f"{self.probes} sets of inputs{excused}"))


def _same(returned: Returned, key: tuple[str, str]) -> bool:
    return len({run[key].raw for run in returned.runs if key in run}) == 1


def _form(found: Found) -> str:
    r = found.record
    return "None" if r.absent else f"{r.dtype[:40]} {list(r.shape)} with strides {list(r.stride)} on {r.device[:20]}"


def rows(known: list[Known], mine: dict[str, Returned], *, baseline: bool) -> tuple[Row, ...]:
    """One row a case. A probe on which the untouched kernel itself fails asks nothing of a variant, as long as it
    passes others: without any yardstick nothing passes.
    """
    cases: dict[str, Case] = {}
    for one in known:
        case = cases.setdefault(one.probe.call.case, Case(one.probe.call.case))
        if excuse := excuse_of(one):
            case.excused(one, excuse)
        else:
            case.look(one, mine.get(one.probe.call.id))
    fit = set().union(*(case.fit for case in cases.values()))
    for case in cases.values():
        if case.gross - fit:  # what is right nowhere is not even partly a yardstick
            case.probes = 0
    if not any(case.probes for case in cases.values()):
        why = next((f"the untouched kernel fails: {case.excuse}" for case in cases.values()), "")
        return tuple(Row(name, False, "", None, clip(why)) for name in cases)
    worst = marks([entry for case in cases.values() for entry in case.entries])
    return tuple(case.row(worst.get(case.name), baseline=baseline) for case in cases.values())


def _of_one_run(known: Known) -> Known:
    probe, base = known.probe, known.baseline
    if base is not None and len(base.runs) == probe.call.turns:
        base = dataclasses.replace(base, runs=base.runs[:1], launches=0)
    call = dataclasses.replace(probe.call, turns=1)
    return dataclasses.replace(known, probe=dataclasses.replace(probe, call=call), baseline=base)


def once(known: list[Known], ids: Collection[str]) -> list[Known]:
    """Of these calls alone, for who ran each of them once."""
    return [_of_one_run(one) for one in known if one.probe.call.id in ids]
