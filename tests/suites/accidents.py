"""All that can happen to a worker, planted in an honest op: it crashes, hangs, floods or tears its house down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bot.bench.suite_files import Exhibit
from bot.bench.suite_run import Court, Outcome, Steps
from tests.suites.rooms import HONEST, ROOT, TARGET, complaint, exhibits

OP = "softmax"
CHECKS = Steps(static=False, timing=False)
HANGS = ("sleeps", "spins", "stops", "keeps_the_gpu_busy")
HARMLESS = ("closes_every_door",)
"""A worker needs none of the doors that were open before: it may be judged as if nothing had happened."""
ACCIDENTS = {
    "aborts": "os.abort()",
    "reads_address_zero": "ctypes.string_at(0)",
    "leaves_as_if_done": "os._exit(0)",
    "leaves_with_a_code": "os._exit(77)",
    "asks_to_leave": "raise SystemExit",
    "is_interrupted": "raise KeyboardInterrupt",
    "raises": "raise RuntimeError('no')",
    "raises_with_unspeakable_words": "raise RuntimeError('\\x00\\ud800</details>' * 10000)",
    "raises_what_cannot_be_printed": "raise type('Odd', (BaseException,), {'__str__': lambda self: 1 / 0})",
    "asserts": "assert False",
    "asks_for_too_much": "bytearray(2**46)",
    "asks_torch_for_too_much": "torch.empty(2**46)",
    "never_comes_back_up": "(lambda f: f(f))(lambda f: f(f))",
    "kills_itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "ends_itself": "os.kill(os.getpid(), signal.SIGTERM)",
    "closes_every_door": "os.closerange(0, 4096)",
    "tears_down_its_home": "shutil.rmtree(os.getcwd()); os._exit(1)",
    "talks_without_end": "[print('x' * 4096) for _ in range(10000)]",
    "multiplies": "[os.fork() or time.sleep(600) for _ in range(80)]",
    "breaks_its_tools": "import pathlib; pathlib.Path.write_text = pathlib.Path.open = None; os.write = os.open = None",
    "loses_its_words": "import builtins; [delattr(builtins, n) for n in ('len', 'isinstance', 'open', 'tuple')]",
    "wants_what_is_not_there": "import nothing_of_this_name",
    "sleeps": "time.sleep(600)",
    "spins": "[None for _ in iter(int, 1)]",
    "stops": "os.kill(os.getpid(), signal.SIGSTOP)",
}
"""What it does, as one line of Python."""
ON_A_GPU = {
    "writes_where_nothing_is": "_astray_kernel[(1,)](torch.zeros(4, device='cuda'), 2**45)",
    "writes_between_two_numbers": "_crooked_kernel[(1,)](torch.zeros(4, device='cuda'))",
    "traps": "_trap_kernel[(1,)](torch.zeros(4, device='cuda', dtype=torch.int32))",
    "leaves_a_kernel_running": "_busy_kernel[(1,)](torch.zeros(4, device='cuda'), 4_000_000_000); os._exit(0)",
    "keeps_the_gpu_busy": "_busy_kernel[(1,)](torch.zeros(4, device='cuda'), 4_000_000_000)",
}
"""What a kernel does to its own context, which no interpreter has."""
PLACES = {
    "at import": ("", "\n{line}\n"),
    "in the forward pass": ("def softmax_forward(X):\n", "    {line}\n"),
    "in the backward pass": ("def softmax_backward(dY, Y):\n", "    {line}\n"),
    "later on": ("def softmax_forward(X):\n", "    CALLS.append(0)\n    if len(CALLS) > 7: {line}\n"),
}
"""Behind which text it stands, and how; behind the whole file where there is none."""
TOOLS = "import ctypes, os, shutil, signal, time\nimport torch\n\nCALLS = []\n"
KERNELS = """import triton
import triton.language as tl


@triton.jit
def _astray_kernel(X_ptr, away):
    tl.store(X_ptr + away, 0.0)


@triton.jit
def _crooked_kernel(X_ptr):
    tl.store((X_ptr.to(tl.int64) + 1).to(tl.pointer_type(tl.float32)), 0.0)


@triton.jit
def _trap_kernel(X_ptr):
    told = tl.inline_asm_elementwise("trap; mov.b32 $0, $1;", "=r,r", [tl.load(X_ptr)], tl.int32, False, 1)
    tl.store(X_ptr, told)


@triton.jit
def _busy_kernel(X_ptr, nanoseconds):
    began = tl.extra.cuda.globaltimer()
    now = began
    while now - began < nanoseconds:
        now = tl.extra.cuda.globaltimer()
    tl.store(X_ptr, 0.0)

"""
DOCSTRING_END = '"""\n\n'


@cache
def _original() -> str:
    return (ROOT / TARGET.site(OP).files[0]).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Accident:
    name: str
    place: str

    @property
    def hangs(self) -> bool:
        return self.name in HANGS

    @property
    def exhibit(self) -> Exhibit:
        path = Path(f"{self.name}_{self.place.replace(' ', '_')}.py")
        return Exhibit(path, OP, self._text(), ("fault", "correctness"), "cpu")

    def _text(self) -> str:
        head, body = _original().split(DOCSTRING_END, 1)
        behind, how = PLACES[self.place]
        line = how.format(line=ACCIDENTS.get(self.name) or ON_A_GPU[self.name])
        assert body.count(behind) == 1 or not behind, f"{self.place} is nowhere in {OP}"
        planted = body.replace(behind, behind + line) if behind else body + line
        kernels = KERNELS if self.name in ON_A_GPU else ""
        return f"{head}{DOCSTRING_END}{TOOLS}{kernels}{planted}"


def accidents(kinds: Iterable[str] = ACCIDENTS) -> list[Accident]:
    return [Accident(name, place) for name in kinds for place in PLACES]


def heard(court: Court, asked: Sequence[Accident], at_once: int = 1) -> Iterator[tuple[Accident | None, Outcome]]:
    """Each with what became of it, and behind every ten an honest file, with nobody's name."""
    honest = exhibits(HONEST, OP)[0]
    for ten in (asked[start : start + 10] for start in range(0, len(asked), 10)):
        court.check_ahead([accident.exhibit for accident in ten], CHECKS, at_once)
        for accident in ten:
            yield accident, court.hear(accident.exhibit, CHECKS)
        yield None, court.hear(honest, CHECKS)


def complaints(found: Iterable[tuple[Accident | None, Outcome]]) -> list[str]:
    """Accidents after which the campaign does not go on as if nothing had happened."""
    return [complaint(outcome) for accident, outcome in found if not _as_it_should(accident, outcome)]


def _as_it_should(accident: Accident | None, outcome: Outcome) -> bool:
    if accident is None:
        return outcome.match
    refused = outcome.verdict == "REJECTED" and set(outcome.reasons) <= {"fault", "correctness"}
    return refused or accident.name in HARMLESS


def lost(court: Court, asked: Sequence[Accident]) -> list[str]:
    return complaints(heard(court, asked))
