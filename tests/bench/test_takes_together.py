"""Several sources are recorded by one worker for a race; what is wrong with one is wrong with that one."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from pathlib import Path
from typing import Any

import pytest

from bot.bench import takes
from bot.bench.cell import Cells, Places
from bot.bench.checks import Laid
from bot.bench.launcher import Limits
from bot.bench.race import RACE_S
from bot.bench.take import MOST_BINARIES, Take, plays
from bot.bench.takes import ALL_S, EACH_S, LONG_S, SAY_S
from bot.model.measurement import Fault
from bot.worker.contract import Refusal, render
from bot.worker.contract.gpu import GpuAnswer, Recording
from bot.worker.contract.several import RecordAnswer, RecordRequest, place_of
from bot.worker.contract.tape import TAPE
from tests.bench.test_takes import CHOICE, Bench
from tests.worker.tapes import kernel, operation, tape

FORWARD, WIDE = "forward-4x8", "forward-8x8"
LIMITS = Limits(20.0, memory_bytes=1000)


@dataclasses.dataclass
class Together:
    """A checker whose worker gives these answers, and leaves these tapes."""

    bench: Bench
    scratch: Path
    answer: RecordAnswer | Fault = dataclasses.field(default_factory=lambda: RecordAnswer(()))
    asked: list[tuple[RecordRequest, Limits]] = dataclasses.field(default_factory=list)

    def run(self, _: Cells, where: Places, request: RecordRequest, kind: Any, limits: Limits, *__: Any) -> Any:
        self.asked.append((request, limits))
        for number in range(len(request.subjects)):
            place = where.answer.host / place_of(number) / "tape-a"
            place.mkdir(parents=True)
            (place / TAPE).write_text(render(dataclasses.replace(tape(kernel()), case=FORWARD)))
        return self.answer

    def laid(self, count: int) -> list[Laid]:
        room = self.scratch / "together-1"
        for number in range(count):
            (room / "source" / str(number)).mkdir(parents=True)
        return [
            Laid(room.name, (self.bench.file(f"v{number}"),), room, room / "source" / str(number))
            for number in range(count)
        ]

    def recorded(self, count: int, *cases: tuple[str, ...], at_once: int = 2) -> list[dict[str, Take] | Fault]:
        wanted = cases or ((FORWARD,),) * count
        return self.bench.checker.several(self.laid(count), wanted, LIMITS, at_once=at_once)


@pytest.fixture
def together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Together:
    bench = Bench(tmp_path, monkeypatch, FORWARD, WIDE)
    bench.tuned = False
    bench.checker._plan = dataclasses.replace(bench.checker._plan, fills=(("x", "normal"),))
    found = Together(bench, tmp_path)
    monkeypatch.setattr(takes, "run_cell", found.run)
    return found


def one(case: str = FORWARD) -> GpuAnswer:
    return GpuAnswer((), (Recording(case, "tape-a", "", 5, (), ()),))


def test_each_is_asked_below_a_root_of_its_own_and_about_its_cases_alone(together: Together) -> None:
    together.answer = RecordAnswer((one(), one()))
    together.recorded(2, (FORWARD,), (WIDE, FORWARD))
    (request, _), *_ = together.asked
    assert [Path(subject.root).name for subject in request.subjects] == ["0", "1"]
    assert request.wanted == ((FORWARD,), (FORWARD, WIDE)), "in the order of the plan"
    assert [call.case for call in request.cases] == [FORWARD, WIDE]
    assert len({proof.sha256 for subject in request.subjects for proof in subject.files}) == 2


def test_each_has_its_recordings_where_it_left_them(together: Together) -> None:
    together.answer = RecordAnswer((one(), one()))
    first, second = together.recorded(2)
    assert not isinstance(first, Fault) and not isinstance(second, Fault)
    folders = [found[FORWARD].folder for found in (first, second)]
    assert [folder.parent.name for folder in folders if folder is not None] == [place_of(0), place_of(1)]


def test_what_is_wrong_with_one_is_told_of_that_one(together: Together) -> None:
    late = GpuAnswer((), (), Refusal("run_timeout", "was not recorded within 20 s"))
    failed = GpuAnswer((), (Recording(FORWARD, "", "", 0, (), (), Refusal("crashed", "ZeroDivisionError")),))
    together.answer = RecordAnswer((late, one(), failed, one(WIDE)))
    first, second, third, fourth = together.recorded(4)
    assert isinstance(first, Fault) and (first.kind, first.detail) == ("run_timeout", "was not recorded within 20 s")
    assert not isinstance(second, Fault)
    assert isinstance(third, Fault) and "ZeroDivisionError" in third.detail
    assert isinstance(fourth, Fault) and fourth.kind == "protocol"


@pytest.mark.parametrize("answer", [Fault(kind="crashed", detail="signal 9"), RecordAnswer((one(),))])
def test_a_worker_that_says_nothing_of_them_is_nobodys_recording(together: Together, answer: Any) -> None:
    together.answer = answer
    found = together.recorded(3)
    assert len(found) == 3 and all(isinstance(told, Fault) for told in found)


@pytest.mark.parametrize("at_once", [1, 2])
def test_their_worker_has_time_to_say_who_had_none(together: Together, at_once: int) -> None:
    """Who hangs is ended by it, and not with it."""
    together.answer = RecordAnswer((one(),) * 5)
    together.recorded(5, at_once=at_once)
    (request, limits), *_ = together.asked
    assert (request.seconds, request.within, request.at_once) == (EACH_S, ALL_S, at_once)
    assert limits.seconds == ALL_S + SAY_S < RACE_S and EACH_S < ALL_S
    assert (limits.memory_bytes, limits.processes) == (1000 * at_once, 48 * at_once)


def test_what_v0_chose_is_handed_on_to_all_of_them(together: Together) -> None:
    together.bench.checker._pins = {FORWARD: (CHOICE,)}
    together.answer = RecordAnswer((one(), one()))
    together.recorded(2)
    (request, _), *_ = together.asked
    assert request.pins == (CHOICE,) and request.fills == together.bench.checker._plan.fills == (("x", "normal"),)


@pytest.mark.parametrize(("seconds", "alone"), [(LONG_S, True), (LONG_S - 0.1, False)])
def test_whose_kernels_compile_for_long_is_recorded_alone(together: Together, seconds: float, alone: bool) -> None:
    together.bench.checker._took_s = seconds
    assert together.bench.checker.compiles_long is alone


def elf(code: bytes, lines: bytes = b"", constants: bytes = b"") -> bytes:
    """The least that a cubin is: a program, and what is not of it."""
    names = b"\0.text._k\0.debug_line\0.nv.constant2._k\0.names\0"
    own = [(b".text._k", code), (b".debug_line", lines), (b".nv.constant2._k", constants)]
    parts = [(b"", b""), *own, (b".names", names)]
    head, body, headers = 0x40, b"", b""
    for name, content in parts:
        headers += struct.pack(
            "<IIQQQQ", names.index(b"\0" + name + b"\0") + 1 if name else 0, 0, 0, 0, head + len(body), len(content)
        )
        body += content
    size = len(headers) // len(parts)
    first = bytearray(head)
    struct.pack_into("<Q", first, 0x28, head + len(body))
    struct.pack_into("<HHH", first, 0x3A, size, len(parts), len(parts) - 1)
    return bytes(first) + body + headers


def test_two_play_the_same_where_their_programs_and_all_that_these_are_given_are(tmp_path: Path) -> None:
    def recorded(cubin: bytes, *, grid: int = 4, others: tuple[Any, ...] = ()) -> Take:
        binary = hashlib.sha256(cubin).hexdigest()
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / f"{binary}.cubin").write_bytes(cubin)
        steps = (kernel(binary=binary, grid=(grid, 1, 1)), *others)
        (folder / TAPE).write_text(render(tape(*steps)))
        return Take(FORWARD, folder, "", 0)

    first = plays(recorded(elf(b"code", b"line 7 of a.py")))
    assert first and first == plays(recorded(elf(b"code", b"line 9 of b.py")))
    different = {
        first,
        plays(recorded(elf(b"edoc", b"line 7 of a.py"))),
        plays(recorded(elf(b"code", constants=b"1.5"))),
        plays(recorded(elf(b"code"), grid=5)),
        plays(recorded(elf(b"code"), others=(operation(),))),
    }
    assert len(different) == 5 and "" not in different
    assert plays(recorded(b"no cubin")) == plays(Take(FORWARD, None, "it sorts", 0)) == ""
    less = recorded(elf(b"code", b"line 7 of a.py"))
    assert plays(dataclasses.replace(less, peak_bytes=1)) != first, "to need less memory is a change"
    kernels = tuple(kernel(binary=f"{number:064x}") for number in range(MOST_BINARIES))
    assert plays(recorded(elf(b"code"), others=kernels)) == "", "so many are not gone through"
