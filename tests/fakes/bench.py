"""A bench that answers at once. What it answers follows from the text of the source alone, and is always the same.

Facts follow `num_warps = N` in the source (few warps spill). A line `# fake: WORD [VALUE]` asks for something special:

    # fake: wrong               one check fails
    # fake: fault crashed       no facts at all, but this fault
    # fake: traffic 1.5         bytes moved over the minimum
    # fake: spills 400          spilled bytes of every launch
    # fake: memory 123456       bytes the pass allocates
    # fake: passport gfx942     does not compile there
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from bot.bench.race import Entry, Result
from bot.model.hardware import Learned
from bot.model.measurement import (
    Case,
    CaseResult,
    CheckResult,
    Evidence,
    Fault,
    Launch,
    Measurement,
    Passport,
    Resources,
    Runner,
    Setting,
    Suite,
    Survey,
)
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, sources_digest

PASSPORTS = ("sm_80", "sm_90", "sm_100", "gfx942")
USUAL_WARPS = 2
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_MARK = re.compile(r"^\s*# fake: (\w+) ?(.*)$", re.MULTILINE)
_WARPS = re.compile(r"\bnum_warps\s*=\s*(\d+)")
_KERNEL = re.compile(r"^def (_?\w*_kernel)\(", re.MULTILINE)


def _text(files: tuple[SourceFile, ...]) -> str:
    return "\n".join(file.text for file in files)


@lru_cache(maxsize=64)
def _marked(text: str) -> dict[str, str]:
    return {name: value.strip() for name, value in _MARK.findall(text)}


def _marks(files: tuple[SourceFile, ...]) -> dict[str, str]:
    return _marked(_text(files))


@lru_cache(maxsize=64)
def _kernels(text: str) -> list[str]:
    return _KERNEL.findall(text) or ["_kernel"]


def _warps(files: tuple[SourceFile, ...]) -> int:
    found = [int(number) for number in _WARPS.findall(_text(files)) if int(number) > 0]
    return min(found[-1], 32) if found else USUAL_WARPS


def _resources(arch: str, warps: int, marks: dict[str, str]) -> Resources:
    """A row of 4096 elements: what does not fit into 255 registers a thread is spilled."""
    wanted = 24 + 768 // warps
    spills = int(marks.get("spills", max(0, wanted - 255) * 4))
    return Resources(
        arch=arch,
        registers=min(wanted, 255),
        spill_bytes=spills,
        shared_bytes=32 * warps,
        load_bits=128 if warps <= 16 else 64,
        store_bits=128 if warps <= 16 else 64,
        instructions=200 + 4096 // warps,
        barriers=2 if warps > 1 else 0,
    )


def _kernel_of(files: tuple[SourceFile, ...], case: Case) -> str:
    """The last kernel of the pass in the file, which is where a rewritten one is written."""
    names = _kernels(_text(files))
    fitting = [name for name in names if case.direction in name] or names
    return fitting[-1]


def _elements(case: Case) -> int:
    total = 1
    for _, size in case.shape:
        total *= max(1, size)
    return total


class FakeBench:
    """Opened like the static bench, at no cost: none of its arguments is looked into."""

    def __init__(
        self,
        tree: Path,
        site: KernelSite,
        suite: Suite,
        arch: str = "sm_90",
        python: str = "python",
        scratch: Path = Path(),
        **_: object,
    ) -> None:
        self._site, self._suite, self._arch = site, suite, arch
        self.measured: list[str] = []
        """Digests in the order they were asked for."""
        self.closed = False
        self.learned: tuple[Learned, ...] = ()

    @property
    def runner(self) -> Runner:
        return Runner(
            evidence=Evidence.STATIC,
            arch=self._arch,
            python="3.11.0",
            torch="2.13.0",
            triton="3.6.0",
            sandbox="none, nothing is run",
            learned=self.learned,
        )

    def close(self) -> None:
        self.closed = True

    def _launch(self, files: tuple[SourceFile, ...], case: Case, warps: int, stages: int) -> Launch:
        marks = _marks(files)
        op = next((file for file in files if file.path == self._site.files[0]), files[0])
        resources = _resources(self._arch, warps, marks)
        kernel = _kernel_of(files, case)
        return Launch(
            kernel=kernel,
            source_file=op.path,
            source_digest=hashlib.sha256(op.text.encode()).hexdigest(),
            grid=(max(1, dict(case.shape).get("rows", 1)), 1, 1),
            num_warps=warps,
            num_stages=stages,
            constants=(("BLOCK_SIZE", "4096"),),
            tensor_bytes=2 * _elements(case) * ITEM_BYTES[case.dtype],
            resources=resources,
            binary_digest=hashlib.sha256(f"{kernel}{resources}".encode()).hexdigest(),
        )

    def _case(self, files: tuple[SourceFile, ...], case: Case) -> CaseResult:
        marks = _marks(files)
        return CaseResult(
            case=case.id,
            launches=(self._launch(files, case, _warps(files), 3),),
            minimum_bytes=2 * _elements(case) * ITEM_BYTES[case.dtype],
            traffic_factor=float(marks.get("traffic", 1.0)),
            memory_bytes=int(marks.get("memory", _elements(case) * ITEM_BYTES[case.dtype])),
        )

    def _checks(self, marks: dict[str, str]) -> tuple[CheckResult, ...]:
        rows = [
            CheckResult(case=case.id, passed=True, worst="output y", margin=0.25, detail="2 sets of inputs")
            for case in self._suite.checks
        ]
        if "wrong" in marks and rows:
            why = "output y: its largest error is 7 times what the untouched kernel's own error allows"
            rows[0] = CheckResult(case=rows[0].case, passed=False, worst="output y", margin=7.0, detail=why)
        return tuple(rows)

    def _passport(self, files: tuple[SourceFile, ...], arch: str, marks: dict[str, str]) -> Passport:
        if marks.get("passport") == arch:
            return Passport(arch=arch, ok=False, error="the fake compiler refuses")
        names = dict.fromkeys(_kernel_of(files, case) for case in self._suite.cases)
        resources = _resources(arch, _warps(files), marks)
        return Passport(arch=arch, ok=True, kernels=tuple((name, resources) for name in names))

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        self.measured.append(sources_digest(files))
        marks = _marks(files)
        if "fault" in marks:
            fault = Fault.model_validate({"kind": marks["fault"] or "crashed", "detail": "asked for by the source"})
            return Measurement(runner=self.runner, source=sources_digest(files), fault=fault)
        return Measurement(
            runner=self.runner,
            source=sources_digest(files),
            checks=self._checks(marks),
            cases=tuple(self._case(files, case) for case in self._suite.cases),
            passports=self.stamped(files) if passports else (),
        )

    def stamped(self, files: tuple[SourceFile, ...]) -> tuple[Passport, ...]:
        marks = _marks(files)
        return () if "fault" in marks else tuple(self._passport(files, arch, marks) for arch in PASSPORTS)

    def race(self, entries: tuple[Entry, ...]) -> Result:
        return Result()

    def survey(self, files: tuple[SourceFile, ...], settings: tuple[Setting, ...]) -> tuple[Survey, ...]:
        return tuple(
            Survey(
                setting=setting,
                case=case.id,
                launches=(self._launch(files, case, setting.num_warps or _warps(files), setting.num_stages or 3),),
            )
            for setting in settings
            for case in self._suite.cases
            if _kernel_of(files, case) == setting.kernel
        )
