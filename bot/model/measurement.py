"""Cases, launches, and everything that was read off one variant."""

from __future__ import annotations

from enum import StrEnum
from statistics import median, quantiles
from typing import Literal, TypeAlias

from pydantic import Field

from bot.model.hardware import Learned
from bot.model.ids import Digest
from bot.model.word import Word

Direction: TypeAlias = Literal["forward", "backward", "full"]
TimerKind: TypeAlias = Literal["model", "events", "graph", "kernel_busy", "replay"]


class Evidence(StrEnum):
    MEASURED = "measured"
    """A GPU timed it."""
    STATIC = "static"
    """Compiled and modelled; every such number is called an estimate."""


class Case(Word):
    """One pass x shape x dtype."""

    id: str
    direction: Direction
    shape: tuple[tuple[str, int], ...]
    dtype: Literal["float32", "float16", "bfloat16"]
    in_place: tuple[str, ...] = ()
    """Inputs the stock op writes into; restored before every replay."""
    hidden: bool = False
    grad: Literal["drawn", "one"] = "drawn"
    """Of a scalar loss: a gradient that is not 1, or the 1 of a loss that nothing is done to, where libraries take
    short cuts."""
    weight: float = 1.0

    def size(self, name: str) -> int:
        return dict(self.shape)[name]


class Suite(Word):
    """`cases` are scored; `checks` are the smaller ones on which correctness is decided."""

    name: Literal["quick", "full"]
    cases: tuple[Case, ...]
    checks: tuple[Case, ...]


class Resources(Word):
    """What one compiled kernel needs, read from its binary."""

    arch: str
    registers: int
    spill_bytes: int
    """Bytes of spill stores plus spill loads a thread."""
    shared_bytes: int
    load_bits: int = 0
    """Widest global load instruction in bits; 0 when none was found."""
    store_bits: int = 0
    instructions: int = 0
    barriers: int = 0
    uses_fp64: bool = False


class Launch(Word):
    """One kernel launch the recorder saw."""

    kernel: str
    source_file: str
    source_digest: Digest | None = None
    """Digest of the file the kernel's source came from: the proof of what was launched."""
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    constants: tuple[tuple[str, str], ...] = ()
    """constexpr arguments, as text."""
    tensor_bytes: int
    """Sum of the sizes of the distinct tensors it was handed."""
    resources: Resources | None = None
    binary_digest: str = ""
    """Hash of the disassembly: the same hash means the same program."""


class CheckResult(Word):
    """One correctness case: the variant against the fp64 oracle, next to the baseline's own error."""

    case: str
    passed: bool
    worst: str = ""
    """The output that came closest to its limit or broke it."""
    margin: float | None = None
    """error / limit of `worst`; above 1 is wrong. None when it is not a number (NaN, wrong shape)."""
    detail: str = ""
    excused: bool | None = None
    """v0 fails in it too, on the same machine and with the same inputs. None in a journal of before this was told."""


class Timing(Word):
    """A case's distribution. For STATIC evidence there is one modelled value and no spread."""

    median_us: float = Field(gt=0)
    low_us: float | None = None
    high_us: float | None = None
    samples: int = 0
    timer: TimerKind


Block: TypeAlias = tuple[float, float, float, float]
"""One interleaved reading in microseconds: v0, v0, variant, variant. The order they ran in was drawn at random."""


class Reading(Word):
    """What one fresh process read of one case."""

    blocks: tuple[Block, ...]
    voided: int = Field(default=0, ge=0)
    """Blocks thrown away because something disturbed them: throttling, a foreign process, a slot that was wrong."""


class Unseen(Word):
    """A variant beside v0 on a size that nobody named. No score comes of it, and it may cost one."""

    case: Case
    confirm: tuple[Reading, ...]
    """One a fresh process, as of what is scored."""


class Paired(Word):
    """A variant timed against v0 on one GPU, block by block. Verdicts are computed from this and nothing else."""

    tier: Literal["replay", "worker"]
    """Who launched: the replayer, with no variant code alive, or the isolated worker."""
    search: Reading
    """Of the process that raced it; decides who goes on, never what is published."""
    confirm: tuple[Reading, ...] = ()
    """One a fresh process; the only numbers that are published."""
    control: tuple[Reading, ...] = ()
    """v0 against a copy of itself, in the same processes."""
    host: tuple[Block, ...] = ()
    """Wall time of the wrapper in microseconds a pass, by a clock outside of the process that runs it. What runs there
    can tell that it is done before it is, so this may count against a variant and never for it."""
    burst: tuple[float, float] | None = None
    """Variant over v0 in the same long uninterrupted runs: by the judge's own clock, and by events on the GPU. Their
    caches are warm, so they are held against each other and not against the blocks."""

    @property
    def host_us(self) -> tuple[float, float] | None:
        """What v0's wrapper takes, and what the variant's takes more: medians over blocks, so that drift cancels."""
        if not self.host:
            return None
        return median((first + second) / 2 for first, second, _, _ in self.host), median(self._host_more)

    @property
    def host_surely_us(self) -> float:
        """What it takes more in three of four blocks: a microsecond is near what the host's own unrest makes of a
        median."""
        more = self._host_more
        return quantiles(more, n=4, method="inclusive")[0] if len(more) > 1 else more[0] if more else 0.0

    @property
    def _host_more(self) -> list[float]:
        return [(third + fourth - first - second) / 2 for first, second, third, fourth in self.host]


class CaseResult(Word):
    """What one scored case showed. Bytes and launches are facts; `timing` may be a model's."""

    case: str
    launches: tuple[Launch, ...] = ()
    minimum_bytes: int = 0
    """Each distinct input read once, each output written once."""
    flops: int = Field(default=0, ge=0)
    """Operations of the reference, the judge's count; 0 where it could not be counted."""
    matrix_flops: int = Field(default=0, ge=0)
    """Those of them that are matrix products."""
    traffic_factor: float = Field(default=1.0, ge=0)
    """Bytes moved over minimum bytes, counted by the interpreter on a small case."""
    memory_bytes: int = 0
    """Peak of the pass: its inputs and all it allocates."""
    host_waits: int = Field(default=0, ge=0)
    """How often its host code waits for a value of the GPU. The timing is of the GPU's work without these gaps."""
    timing: Timing | None = None
    paired: Paired | None = None
    """Raw readings against v0; only where a GPU timed it, and never for v0 itself."""
    roof_us: float | None = Field(default=None, gt=0)
    """The least time a copy of the minimum bytes takes on this very GPU, measured."""


class Passport(Word):
    """Whether a variant compiles for an architecture, and what it costs there."""

    arch: str
    ok: bool
    kernels: tuple[tuple[str, Resources], ...] = ()
    error: str = ""


DOCTOR = "mend what the message names; `kernelwright doctor` looks at the machine"
MENDS = {
    "SyntaxError": "mend that line",
    "IndentationError": "mend that line",
    "TabError": "mend that line",
    "ModuleNotFoundError": "install that module for the target's Python, or mend the import",
    "OpMissing": "that file needs exactly one class that derives from torch.autograd.Function: it is what is optimised",
}
"""What an import raised -> what its owner can do about it."""


class Fault(Word):
    """Why a variant could not be measured. News about the variant, not a failure of the machine."""

    kind: Literal["import_failed", "crashed", "compile_failed", "compile_timeout", "run_timeout", "memory", "protocol"]
    detail: str = ""
    unfit: tuple[str, ...] = ()
    """Of v0: scored cases that do not fit into the GPU's memory."""

    def of_untouched(self, kernel: str) -> str:
        """As a sentence, where it is v0 that cannot be measured. Late is not wrong: a busy machine is slow."""
        said = f"{self.kind}: {self.detail}"
        if self.kind not in ("compile_timeout", "run_timeout"):
            return f"the untouched {kernel} does not run here: {said}"
        return f"the untouched {kernel} took longer than its deadline: {said}; a machine that is busy may need longer"

    @property
    def next_step(self) -> str:
        """Where it is v0 that cannot be measured."""
        raised = self.detail.partition(":")[0] if self.kind == "import_failed" else ""
        return MENDS.get(raised, DOCTOR)


class Sanitized(Word):
    """What compute-sanitizer's memcheck saw in small passes of a variant that could win."""

    status: Literal["clean", "found", "absent", "failed"]
    detail: str = ""
    version: str = ""

    @property
    def said(self) -> str:
        """In a line of a report. Where nothing was looked at, it says so."""
        words = {"clean": "clean", "found": "found", "absent": "not present", "failed": "did not work"}[self.status]
        return ", ".join(part for part in (words, self.detail, self.version) if part)


class UnderCompile(Word):
    """What torch.compile made of a variant that could win, in a few of the checks, where it takes the untouched
    kernel."""

    status: Literal["right", "breaks", "wrong", "v0_fails", "unknown"]
    detail: str = ""

    @property
    def said(self) -> str:
        """In a line of a report."""
        words = {"wrong": "fails", "v0_fails": "not asked", "unknown": "not known"}.get(self.status, "right")
        return ", ".join(part for part in (words, self.detail) if part)


MACHINE = ("evidence", "arch", "gpu_name", "gpu_uuid", "driver", "torch", "triton")
"""What two runners must have in common before their numbers may meet in one ratio."""
LEAST_OF_SAME_MEMORY = 0.95


class Runner(Word):
    """The machine a measurement was made on; numbers of two runners never meet in one ratio."""

    evidence: Evidence
    arch: str
    """What was compiled for, e.g. sm_90."""
    gpu_name: str = ""
    gpu_memory_mib: int = 0
    """As the driver shows it: a GPU of the same name with other memory is another product."""
    gpu_uuid: str = ""
    driver: str = ""
    python: str = ""
    torch: str = ""
    triton: str = ""
    sandbox: str = ""
    """Which isolation held the variant's code: bubblewrap, or a weaker one by name."""
    learned: tuple[Learned, ...] = ()
    """What a local knowledge base adds of this GPU. Never taken from a job."""

    def differs_in(self, other: Runner) -> tuple[str, ...]:
        """What makes the other one another machine; empty where numbers of the two may meet."""
        return tuple(name for name in MACHINE if getattr(self, name) != getattr(other, name))

    def is_kind_of(self, other: Runner) -> bool:
        """Whether what is known of the one's GPU holds for the other's. Earlier journals do not tell its memory, and
        drivers tell a few MiB more or less of the same."""
        least, most = sorted((self.gpu_memory_mib, other.gpu_memory_mib))
        one, two = ((runner.evidence, runner.arch, runner.gpu_name) for runner in (self, other))
        return one == two and (not least or least >= LEAST_OF_SAME_MEMORY * most)


class Measurement(Word):
    """All that one variant showed on one runner."""

    runner: Runner
    source: Digest
    checks: tuple[CheckResult, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    """Where it was confirmed on a GPU, and v0 can do such sizes."""
    unread: str = ""
    """Why there is none of a variant that was confirmed."""
    passports: tuple[Passport, ...] = ()
    fault: Fault | None = None
    sanitized: Sanitized | None = None
    """None where nothing that could win was confirmed, and nobody asked."""
    under_compile: UnderCompile | None = None
    """None where the same is true, or what came before was enough."""
    seconds: float = 0.0
    checked_seconds: float = 0.0
    """Of these, until it was known whether it is right."""


class Setting(Word):
    """Launch numbers tried at one launch site without touching the source. None leaves a number as it was."""

    kernel: str
    num_warps: int | None = None
    num_stages: int | None = None
    constants: tuple[tuple[str, int], ...] = ()


class Survey(Word):
    """One candidate setting compiled for one scored case: the raw facts a ranking needs."""

    setting: Setting
    case: str
    launches: tuple[Launch, ...] = ()
    error: str = ""
