"""Holds a worker's results against the oracle and against what the untouched kernel did with the same inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from bot.judge.answer import Found, Returned
from bot.judge.hands import hands
from bot.judge.known import Known, excuse_of, label_of
from bot.judge.plan import Probe
from bot.judge.restless import RESULTS, Kind, Restless, is_same, kind_of, restless_of, shaken_here, shaken_of
from bot.judge.tolerance import NOISE_FACTOR, Entry, Errors, Mark, beyond, errors, leaned, marks, strayed, unfit, worse
from bot.worker.contract import Row, Rows, clip

MOST_HANDS = 8


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
    for key in known.truth:
        off, gross = _own(known, key, known.baseline.runs[0][key])
        own[key] = None if gross else off
        why = why or gross
    return own, why


def _own(known: Known, key: tuple[str, str], found: Found) -> tuple[Errors, str]:
    """Errors of the untouched kernel in one run, and why they are gross, if they are."""
    truth, old = known.truth[key], found.values()
    off = errors(_hide_strange(old, truth, old), truth, known.floors[key])
    entry = Entry(known.probe.call.case, label_of(key, known), found.record.dtype, off, off, known.noise[key])
    typical = float(off.rms.median())
    gross = unfit([entry]) if not typical <= NOISE_FACTOR * float(known.noise[key].rms.median()) else ""
    return off, f"{gross}, namely {typical:.3g}" if gross else ""


def _largest_of_runs(known: Known, base: Returned, key: tuple[str, str], own: Errors) -> Errors:
    """A run that is gross, or of another form, says nothing of what another order may do."""
    others = [run[key] for run in base.runs[1:] if key in run]
    alike = [_own(known, key, found) for found in others if found.form == base.runs[0][key].form]
    worst = torch.stack([own.worst, *(off.worst for off, gross in alike if not gross)]).amax(dim=0)
    return dataclasses.replace(own, worst=worst)


def _strays_no_further(known: Known, key: tuple[str, str], base: Returned, mine: Returned) -> bool:
    """Whether every run of a variant is at least as right as the untouched kernel, which is far off."""
    first = base.runs[0][key]
    own, _ = _own(known, key, first)
    truth, old = known.truth[key], first.values()
    for found in (run[key] for run in mine.runs):
        new = found.values() if found.form == first.form else None
        if new is None or _invented(old, new, truth):
            return False
        off = errors(_hide_strange(old, truth, new), truth, known.floors[key], new.dtype)
        if not (off.worst.max() <= own.worst.max() and off.rms.median() <= own.rms.median()):
            return False
    return True


def folded(known: Sequence[Known], unheard: Sequence[Probe] = ()) -> list[Known]:
    """The probes that everybody is asked for, each with what the untouched kernel did in its further draws, and with
    those that it was not heard on yet."""
    draws: dict[str, list[Known]] = {}
    for one in known:
        if one.probe.again and not excuse_of(one):
            draws.setdefault(one.probe.again, []).append(one)
    left: dict[str, list[Probe]] = {}
    for probe in unheard:
        left.setdefault(probe.again, []).append(probe)
    drawn = (_with_draws(one, draws.get(one.probe.call.id, ())) for one in known if not one.probe.again)
    return [dataclasses.replace(one, unheard=tuple(left.get(one.probe.call.id, ()))) for one in drawn]


def _with_draws(known: Known, draws: Sequence[Known]) -> Known:
    """What is gross in a draw says nothing of luck."""
    found: dict[tuple[str, str], list[tuple[Errors, Errors]]] = {}
    restless = set()
    for draw in draws:
        assert draw.baseline is not None
        for key, own in yardsticks_of(draw)[0].items():
            found.setdefault(key, []).extend([(own, draw.noise[key])] if own is not None else [])
            restless |= set() if is_same(draw.baseline, key) else {key}
    drawn = {key: strayed(those, known.noise[key]) for key, those in found.items()}
    leans = {key: leaned(those) for key, those in found.items()}
    return dataclasses.replace(known, drawn=drawn, drawn_lean=leans, restless=frozenset(restless))


class Case:
    """Everything that one case's probes showed."""

    def __init__(self, name: str, restless: Restless, shaken: Mapping[Kind, tuple[str, ...]]) -> None:
        self.name = name
        self._restless, self._shaken = restless, shaken
        self.entries: list[list[Entry]] = []
        """Of each result its first run, or all its runs where they need not be the same."""
        self._faults: list[str] = []
        self.again: set[str] = set()
        """Draws of the untouched kernel that may mend what it failed for."""
        self.is_settled = False
        """It failed for something that none of them can mend."""
        self.probes = 0
        self.excuse = ""
        """Why the untouched kernel is no yardstick for some of the probes."""
        self.fit: set[tuple[str, str]] = set()
        self.gross: set[tuple[str, str]] = set()
        """(label, type) of the results that are held against something in some probe, and of those that are not."""

    def _fault(self, known: Known, text: str, draws: Collection[str] = ()) -> None:
        self._faults.append(f"{text} ({known.describes})")
        self.fails(draws)

    def fails(self, draws: Collection[str]) -> None:
        self.again |= set(draws)
        self.is_settled = self.is_settled or not draws

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
            kind = (label_of(key, known), base.runs[0][key].record.dtype)
            (self.fit if own is not None else self.gross).add(kind)
        if mine is None:
            self._fault(known, "the worker returned nothing for it")
        elif mine.error:
            self._fault(known, mine.error)
        elif len(mine.runs) != known.probe.call.turns:
            self._fault(known, "one of its runs is missing")
        elif missing := sorted(set().union(*(set(base.runs[0]) ^ set(run) for run in mine.runs))):
            self._fault(known, f"{label_of(missing[0], known)} is missing or was not asked for")
        else:
            self._results(known, base, mine, yardsticks)

    def _results(self, known: Known, base: Returned, mine: Returned, yardsticks: Yardsticks) -> None:
        """Where the runs of a variant may differ, none speaks for the others, and memory that nobody wrote may lie in
        any of them: each is looked at, and all are held against all runs of the untouched kernel."""
        free = {
            key: own for key, own in yardsticks.items() if own is not None and kind_of(known, key) in self._restless
        }
        self._orderly(known, base, mine, yardsticks, free)
        held = {**yardsticks, **{key: _largest_of_runs(known, base, key, own) for key, own in free.items()}}
        for key, old in base.runs[0].items():
            runs = mine.runs if key in free else mine.runs[:1]
            seen = [self._tensor(known, key, old, run[key], held) for run in runs]
            self.entries.append([entry for entry in seen if entry is not None])

    def _orderly(
        self, known: Known, base: Returned, mine: Returned, yardsticks: Yardsticks, free: Collection[tuple[str, str]]
    ) -> None:
        """Neither memory that nobody wrote nor the order of the programs may show in the results that are not free.
        Where the untouched kernel is far off by its own doing an order may show too, but not take a run further off:
        memory that nobody wrote would."""
        if mine.races and not base.races:
            self._fault(known, mine.races[0])
        for oddity in mine.oddities:
            if oddity not in base.oddities:
                self._fault(known, oddity)
        if base.launches and not mine.launches:
            self._fault(known, "none of its kernels was launched, so something else made the result")
        for key in mine.runs[0]:
            if key in free or not is_same(base, key) or is_same(mine, key):
                continue
            said, kind = "depends on uninitialised memory or on the order in which programs run", kind_of(known, key)
            is_held = key in yardsticks and (yardsticks[key] is not None or _strays_no_further(known, key, base, mine))
            if is_held and kind in self._restless:
                continue
            draws = (*self._shaken.get(kind, ()), *shaken_here(known)) if is_held else ()
            self._fault(known, f"{label_of(key, known)} {said if key[0] in RESULTS else 'was overwritten'}", draws)

    def _tensor(
        self, known: Known, key: tuple[str, str], base: Found, mine: Found, yardsticks: Yardsticks
    ) -> Entry | None:
        label = label_of(key, known)
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
                return self._values(known, key, base, mine, own)
        return None

    def _values(self, known: Known, key: tuple[str, str], base: Found, mine: Found, own: Errors) -> Entry | None:
        label, truth = label_of(key, known), known.truth[key]
        old, new = base.values(), mine.values()
        if _invented(old, new, truth):
            self._fault(known, f"{label} has an infinity or NaN where the untouched kernel has none")
            return None
        if _swallowed(old, new, truth):
            self._fault(known, f"{label} has a number where its inputs allow none")
            return None
        return Entry(
            case=self.name,
            label=label,
            dtype=mine.record.dtype,
            baseline=own,
            variant=errors(_hide_strange(old, truth, new), truth, known.floors[key], new.dtype),
            noise=known.noise[key],
            drawn=known.drawn.get(key, 0.0),
            drawn_lean=known.drawn_lean.get(key, 0.0),
            unheard=tuple(draw.call.id for draw in known.unheard),
            values=known.describes,
        )

    def row(self, mark: Mark | None, *, baseline: bool) -> Row:
        label, ratio = (mark.label, mark.ratio) if mark is not None else ("", 0.0)
        number = ratio if ratio == ratio and ratio != float("inf") else None
        if self._faults:
            return Row(self.name, False, label, number, clip(self._faults[0]))
        if not self.probes:
            asked = "not required of a variant, as the untouched kernel fails here: "
            why = self.excuse if baseline else f"{asked}{self.excuse}"
            return Row(self.name, not baseline, "", None, clip(why))
        if mark is not None and not ratio <= 1:
            times = f"{ratio:.3g} times" if number is not None else "beyond"
            why = f"its {mark.rule} error is {times} what the untouched kernel's own error allows ({mark.said})"
            return Row(self.name, False, label, number, clip(f"{label}: {why}"))
        excused = f"; not required, as the untouched kernel fails: {self.excuse}" if self.excuse else ""
        return Row(self.name, True, label, number, clip(f"{self.probes} sets of inputs{excused}"))


def _form(found: Found) -> str:
    r = found.record
    return "None" if r.absent else f"{r.dtype[:40]} {list(r.shape)} with strides {list(r.stride)} on {r.device[:20]}"


def compared(known: list[Known], mine: dict[str, Returned], *, baseline: bool) -> Rows:
    """One row a case. A probe on which the untouched kernel itself fails asks nothing of a variant, as long as it
    passes others: without any yardstick nothing passes.
    """
    restless, shaken = (frozenset(), {}) if baseline else (restless_of(known), shaken_of(known))
    cases = {name: Case(name, restless, shaken) for name in dict.fromkeys(one.probe.call.case for one in known)}

    def look(case: Case) -> None:
        for one in known:
            if one.probe.call.case != case.name:
                continue
            if excuse := excuse_of(one):
                case.excused(one, excuse)
            else:
                case.look(one, mine.get(one.probe.call.id))

    with ThreadPoolExecutor(
        max_workers=hands(MOST_HANDS)
    ) as threads:  # a large case keeps a processor busy for a second
        list(threads.map(look, cases.values()))
    fit = set().union(*(case.fit for case in cases.values()))
    for case in cases.values():
        if case.gross - fit:  # what is right nowhere is not even partly a yardstick
            case.probes = 0
    if not any(case.probes for case in cases.values()):
        why = next((f"the untouched kernel fails: {case.excuse}" for case in cases.values()), "")
        return Rows(tuple(Row(name, False, "", None, clip(why)) for name in cases))
    worst: dict[str, Mark] = {}
    for run in _runs([entries for case in cases.values() for entries in case.entries if entries]):
        for name, mark in marks(run).items():
            worst[name] = worse(worst.get(name), mark)
        for name, mark in beyond(run):
            cases[name].fails(mark.unheard)
    told = tuple(case.row(worst.get(case.name), baseline=baseline) for case in cases.values())
    if baseline:
        with ThreadPoolExecutor(max_workers=hands(MOST_HANDS)) as threads:
            far_off = list(threads.map(_is_far_off, known))
        return Rows(told, unheld=tuple(one.probe.call.id for one, far in zip(known, far_off, strict=True) if far))
    return Rows(told, _again([case for case in cases.values() if case.probes]))


def _is_far_off(known: Known) -> bool:
    return bool(excuse_of(known)) or None in yardsticks_of(known)[0].values()


def _runs(found: Sequence[Sequence[Entry]]) -> Iterator[list[Entry]]:
    """Each has to be right by itself. What has one run alone stands beside all the others', so that what is told of
    many rows together is told of the same rows each time."""
    for run in range(max(map(len, found), default=0)):
        yield [entries[min(run, len(entries) - 1)] for entries in found]


def _again(cases: Sequence[Case]) -> tuple[str, ...]:
    """Nothing where the variant is refused whatever the untouched kernel does in its draws."""
    settled = any(case.is_settled for case in cases)
    return () if settled else tuple(sorted(set().union(*(case.again for case in cases))))


def _of_one_run(known: Known) -> Known:
    probe, base = known.probe, known.baseline
    if base is not None and len(base.runs) == probe.call.turns:
        base = dataclasses.replace(base, runs=base.runs[:1], launches=0)
    call = dataclasses.replace(probe.call, turns=1)
    return dataclasses.replace(known, probe=dataclasses.replace(probe, call=call), baseline=base, unheard=())


def once(known: list[Known], ids: Collection[str]) -> list[Known]:
    """Of these calls alone, for who ran each of them once."""
    return [_of_one_run(one) for one in known if one.probe.call.id in ids]
