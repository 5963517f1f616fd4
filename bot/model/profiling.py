"""What profilers said of the untouched kernel: the GPU's counters, and a timeline of a few passes."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from bot.model.word import Word

Status: TypeAlias = Literal[
    "read", "absent", "too_old", "no_permission", "mig", "nothing_launched", "not_asked", "failed"
]
ImplName: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z0-9_.+-]{1,60}\Z")]
"""Of an op or of an implementation of it, as a library gave it."""


class Counter(Word):
    name: str
    value: float = Field(allow_inf_nan=False)
    unit: str = ""


class KernelCounters(Word):
    """One profiled launch, in base units: bytes, nanoseconds, percent."""

    kernel: str
    case: str = ""
    grid: str = ""
    counters: tuple[Counter, ...] = ()

    def get(self, name: str) -> float | None:
        return next((one.value for one in self.counters if one.name == name), None)


class Counters(Word):
    """What Nsight Compute said, or why it said nothing. A campaign goes on either way."""

    status: Status
    tool: str = "Nsight Compute"
    version: str = ""
    detail: str = ""
    kernels: tuple[KernelCounters, ...] = ()


class ReadAgain(Word):
    """What programs of a launch read of one tensor and had read before."""

    nbytes: float = Field(ge=0, allow_inf_nan=False)
    between: float = Field(ge=0, allow_inf_nan=False)
    """Bytes that a program moves from one read of a place to the next, on the average."""


class Moved(Word):
    """What one launch moves by the traffic count: the share of each tensor that the interpreter saw touched on a small
    case, at the sizes of this one. A byte counts once a launch; what is read again stands apart."""

    case: str
    kernel: str
    read_bytes: float = Field(ge=0, allow_inf_nan=False)
    written_bytes: float = Field(ge=0, allow_inf_nan=False)
    again: tuple[ReadAgain, ...] = ()


class Traffic(Word):
    """The traffic count of one kernel in one case beside the profiler's, over the same launches."""

    case: str
    kernel: str
    launches: int = Field(ge=1)
    counted_read: float = Field(ge=0, allow_inf_nan=False)
    counted_written: float = Field(ge=0, allow_inf_nan=False)
    """What it has to move at least: each byte once a launch."""
    again: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """What programs ask L2 for once more, as L1 does not hold it from their first read to the next. None where nobody
    counted it, as before 2026-11-23, or where the size of L1 is not known."""
    dram_read: float | None = None
    dram_written: float | None = None
    l2: float | None = None
    """Between the multiprocessors and the L2 cache; without what its two halves hand each other."""
    level: Literal["dram", "l2"] | None = None
    """Which of both the count is held against."""
    ratio: float | None = None
    """Counted over read: of DRAM what has to be moved, of L2 what is asked of it."""
    spilled: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """The most that spilled registers add on the way to L2: what a thread stores and loads of them, by the compiler's
    count, times all threads. A loop that spills may do so more than once."""
    spilled_asked: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Of it, what L2 is asked for: without what is loaded where L1 holds it. None as `again`."""
    agrees: bool | None = None
    """With the level that it is held against. Where `asked` is not known, as in old journals, with anything up to
    `spilled` more on L2."""

    @property
    def compulsory(self) -> float:
        return self.counted_read + self.counted_written

    @property
    def asked(self) -> float | None:
        """Of L2."""
        if self.again is None or self.spilled_asked is None:
            return None
        return self.compulsory + self.again + self.spilled_asked


class Dispatch(Word):
    """What a library with several implementations of an op takes on this machine by itself, and what was judged."""

    op: ImplName
    by_itself: ImplName
    judged: ImplName


class Busy(Word):
    """One kernel of a timeline."""

    kernel: str
    launches: int = Field(ge=0)
    us: float = Field(ge=0, allow_inf_nan=False)
    """Of one pass."""


class Timeline(Word):
    """One pass of a case as CUPTI saw it, the mean of several in a row."""

    case: str
    passes: int = Field(ge=1)
    wall_us: float = Field(gt=0, allow_inf_nan=False)
    """From the end of one pass to the end of the next, when they are asked for one right after another and nobody
    watches."""
    busy_us: float = Field(ge=0, allow_inf_nan=False)
    gap_us: float = Field(ge=0, allow_inf_nan=False)
    """Between the kernels of a pass that is watched, and at most what is left of `wall_us`."""
    waits: int = Field(default=0, ge=0)
    """How often the host waits for the GPU in one pass."""
    kernels: tuple[Busy, ...] = ()
