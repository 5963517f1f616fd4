"""Has a variant's launches recorded and compiled, and turns what comes back into facts that can be checked.

The compiling itself happens in killable processes of the worker, each with a budget; this side decides what is
compiled, for how long, and whether what was compiled is the variant.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.bench.overlay import below, digest_of
from bot.model.measurement import Fault, Launch, Passport, Resources, Setting, Survey
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from bot.worker.contract import Binary, Call, Caught, CompileAnswer, CompileRequest, Override, Refusal, Stamp, Subject

PASSPORTS = ("sm_80", "sm_90", "sm_100", "gfx942")
"""Of each variant."""
ALL_PASSPORTS = ("sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950")
"""Of a kernel that is profiled by itself."""
BUDGET_S = 10.0
"""A candidate that compiles longer is killed: 16384 columns on one warp take 26 s and 32768 take 196 s, for a
hopeless kernel."""
SURVEY_BUDGET_S = 5.0
BASELINE_BUDGET_S = 60.0
"""v0 is not a candidate: a slow compile of it is part of what is wrong, and on a busy machine its 3 s became 12."""
NO_END_S = 86400.0
"""A day: a request cannot say infinity."""
MOST_PROCESSES = 8
LEFT_FREE = 4
"""Processors for the judge, its replayer and their drivers."""
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def budget_s(usual_s: float, stock_s: float) -> float:
    """What a kernel of a variant may take, where the slowest of v0 took so long: one that it left alone takes as long
    again, and group_norm's forward takes more than the usual ten seconds for its 65,536 columns."""
    return max(usual_s, min(2 * stock_s, BASELINE_BUDGET_S))


def stock_budget_s(usual_s: float, stock_s: float) -> float:
    """What a kernel of v0 may take: anything to begin with, and for another chip, once it is known what it takes for
    this one, twice what a variant's may. gfx942 was waited for in vain for a minute, while a GPU had nothing to do."""
    return budget_s(2 * usual_s, stock_s) if stock_s else BASELINE_BUDGET_S


def processes() -> int:
    return max(1, min(MOST_PROCESSES, len(os.sched_getaffinity(0))))


def leaves_room() -> bool:
    """Whether a clock may run beside it: whoever launches on the GPU is not to wait for a processor."""
    return processors() - processes() >= LEFT_FREE


def processors() -> int:
    """Those that may be kept busy."""
    return int(min(len(os.sched_getaffinity(0)), _quota()))


def _quota() -> float:
    """Processors that a container may keep busy; all there are where nobody set a limit."""
    try:
        quota, period = CPU_MAX.read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return math.inf


def request(
    subject: Subject,
    arch: str,
    calls: tuple[Call, ...],
    *,
    passports: tuple[str, ...] = (),
    settings: tuple[Setting, ...] = (),
    budget_s: float = BUDGET_S,
    within_s: float = NO_END_S,
) -> CompileRequest:
    return CompileRequest(
        job="compile",
        subject=subject,
        arch=arch,
        calls=calls,
        passports=passports,
        overrides=tuple(Override(s.kernel, s.num_warps, s.num_stages, s.constants) for s in settings),
        budget_s=budget_s,
        processes=processes(),
        within_s=within_s,
    )


def resources_of(binary: Binary, arch: str) -> Resources:
    return Resources(
        arch=arch,
        registers=binary.registers,
        spill_bytes=binary.spill_bytes,
        shared_bytes=binary.shared_bytes,
        load_bits=binary.load_bits,
        store_bits=binary.store_bits,
        instructions=binary.instructions,
        barriers=binary.barriers,
        uses_fp64=binary.uses_fp64,
    )


@dataclass(frozen=True)
class Ledger:
    """What the bench knows about the files a launch may come from."""

    site: KernelSite
    arch: str
    digests: Mapping[str, str]
    """Import path -> digest of the variant's text."""

    def launch(self, caught: Caught) -> Launch:
        inside = "/" in caught.file or caught.file in self.digests
        root = self.site.source_root
        path = f"{root}/{caught.file}" if inside and root not in ("", ".") else caught.file
        x, y, z = caught.grid
        return Launch(
            kernel=caught.kernel[:200],
            source_file=path,
            source_digest=caught.sha256 or None,
            grid=(x, y, z),
            num_warps=caught.num_warps,
            num_stages=caught.num_stages,
            constants=caught.constants,
            tensor_bytes=sum(nbytes for _, nbytes in caught.regions),
            resources=resources_of(caught.binary, self.arch) if caught.binary is not None else None,
            binary_digest=caught.binary.digest if caught.binary is not None else "",
        )

    def impostor(self, caught: Caught) -> str:
        """Why this launch is not the variant's; empty when it is, or when it comes from a file no variant may
        change."""
        expected = self.digests.get(caught.file)
        if expected is None or expected == caught.sha256:
            return ""
        return f"{caught.kernel} was launched from a {caught.file} that is not the variant's"


def ledger(site: KernelSite, files: tuple[SourceFile, ...], arch: str) -> Ledger:
    return Ledger(site, arch, {below(site, file.path): digest_of(file) for file in files})


def first_fault(answer: CompileAnswer, books: Ledger) -> Fault | None:
    """What the compiled cases show to be wrong with the variant itself."""
    for case in answer.cases:
        for caught in case.launches:
            if impostor := books.impostor(caught):
                return Fault(kind="protocol", detail=impostor)
            if caught.refusal is not None:
                kind = "compile_timeout" if caught.refusal.kind == "compile_timeout" else "compile_failed"
                return Fault(kind=kind, detail=f"{caught.kernel} for {case.case}: {caught.refusal.detail}")
    return None


def passports_of(answer: CompileAnswer) -> tuple[Passport, ...]:
    found = []
    for arch in dict.fromkeys(stamp.arch for stamp in answer.stamps):
        stamps = [stamp for stamp in answer.stamps if stamp.arch == arch]
        errors = [f"{s.kernel}: {s.refusal.detail}" for s in stamps if s.refusal is not None]
        kernels = tuple((s.kernel, resources_of(s.binary, arch)) for s in stamps if s.binary is not None)
        found.append(Passport(arch=arch, ok=not errors, kernels=kernels, error=errors[0] if errors else ""))
    return tuple(found)


def without_passports(answer: CompileAnswer, arches: Sequence[str], why: str) -> CompileAnswer:
    """One that was made without them, saying why of each."""
    kernels = dict.fromkeys(launch.kernel for case in answer.cases for launch in case.launches)
    refusal = Refusal("compile_timeout", f"all passports together: {why}")
    stamps = tuple(Stamp(arch, kernel, refusal=refusal) for arch in arches for kernel in kernels)
    return dataclasses.replace(answer, stamps=stamps)


def surveys_of(answer: CompileAnswer, settings: tuple[Setting, ...], books: Ledger) -> tuple[Survey, ...]:
    found = []
    for tried in answer.tried:
        if not 0 <= tried.override < len(settings):
            continue
        errors = [f"{c.refusal.kind}: {c.refusal.detail}" for c in tried.launches if c.refusal is not None]
        found.append(
            Survey(
                setting=settings[tried.override],
                case=tried.case,
                launches=tuple(books.launch(caught) for caught in tried.launches),
                error=errors[0] if errors else "",
            )
        )
    return tuple(found)
