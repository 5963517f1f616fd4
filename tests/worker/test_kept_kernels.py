"""What a worker compiled is found by the next one of the same source, and by nobody else; with Triton itself, for a
chip that is not there."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bot.worker import __main__ as worker
from bot.worker import hosting, kept_kernels, loading, shares, warming
from bot.worker.contract import Call, Subject
from bot.worker.contract.door import KERNELS
from bot.worker.contract.gpu import GpuRequest
from bot.worker.contract.hosting import ARMS, HostRequest
from bot.worker.contract.looking import LookRequest
from tests.patience import is_there
from tests.worker.scenes import played

TINY, OTHER_CONSTANT = "compile=:128", "compile=:256"
KERNEL = """
import triton
import triton.language as tl


@triton.jit
def kernel(pointer, size, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.store(pointer + columns, tl.load(pointer + columns, mask=columns < size) + 1, mask=columns < size)
"""


class Workers:
    """Two of one source, one after the other, each with a cache of its own."""

    def __init__(self, scratch: Path) -> None:
        self.before, self._scratch, self._numbers = str(scratch / "before"), scratch, itertools.count()
        self.answer, self.request = scratch / "answer", scratch / "request"
        self.op, self.changed = scratch / "op.py", scratch / "changed.py"
        self.op.write_text(KERNEL)
        self.changed.write_text(KERNEL.replace("+ 1", "+ 2"))
        early, late = (TINY, "build=early.so"), (OTHER_CONSTANT, f"compile={self.op}:128", "build=late.so")
        words = (*early, f"keep={self.answer}", *late, TINY, "find=early.so", "find=late.so")
        self.first = played("kept", *words, told={"TRITON_CACHE_DIR": self.before})["told"]
        self.request.mkdir()
        (self.answer / KERNELS).rename(self.request / KERNELS)

    def next(self, *words: str) -> dict[str, Any]:
        self.own = str(self._scratch / f"own-{next(self._numbers)}")
        return played("kept", *words, told={"TRITON_CACHE_DIR": self.own})


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Workers:
    return Workers(tmp_path_factory.mktemp("kept"))


def test_what_is_compiled_from_then_on_lies_beside_the_answer(workers: Workers) -> None:
    beside = str(workers.answer / KERNELS)
    assert workers.first[:3] == [[workers.before], [beside], [beside]]


def test_what_was_compiled_before_is_found_and_not_compiled_again(workers: Workers) -> None:
    assert workers.first[3:5] == [[workers.before]] * 2
    kept = {path.name for path in (workers.request / KERNELS).rglob("*.cubin")}
    assert kept == {"_tiny_kernel.cubin", "kernel.cubin"}


def test_the_next_worker_finds_them_where_they_lie_now(workers: Workers) -> None:
    """They are listed as they lay beside the answer, which is gone."""
    found = workers.next(f"beside={workers.request}", OTHER_CONSTANT, f"compile={workers.op}:128")
    assert found["told"] == [[str(workers.request / KERNELS)]] * 2
    assert not (workers.answer / KERNELS).exists()


def test_what_a_c_compiler_built_is_found_as_well(workers: Workers) -> None:
    """Without it a launch would wait for that compiler."""
    assert workers.first[5] == [str(workers.answer / KERNELS)]
    found = workers.next(f"beside={workers.request}", "find=late.so", "find=early.so", "find=nobody.so")
    assert found["told"] == [[str(workers.request / KERNELS)], [], []]


def test_another_text_and_another_constant_are_compiled_anew(workers: Workers) -> None:
    found = workers.next(f"beside={workers.request}", f"compile={workers.changed}:128", f"compile={workers.op}:64")
    assert found["told"] == [[workers.own]] * 2


def test_what_a_worker_compiled_itself_it_finds_first(workers: Workers) -> None:
    found = workers.next(OTHER_CONSTANT, f"beside={workers.request}", OTHER_CONSTANT, "build=late.so", "find=late.so")
    assert found["told"] == [[workers.own]] * 3


def test_what_was_handed_on_is_only_read(workers: Workers) -> None:
    before = sorted((workers.request / KERNELS).rglob("*"))
    workers.next(f"beside={workers.request}", OTHER_CONSTANT, "compile=:512")
    assert sorted((workers.request / KERNELS).rglob("*")) == before


def test_where_a_part_is_missing_all_of_it_is_compiled_anew(workers: Workers, tmp_path: Path) -> None:
    (key,) = {path.parent.name for path in (workers.request / KERNELS).rglob("kernel.cubin")}
    (tmp_path / KERNELS / key).mkdir(parents=True)
    (tmp_path / KERNELS / key / "kernel.cubin").write_bytes(b"of whom?")
    found = workers.next(f"beside={tmp_path}", f"compile={workers.op}:128")
    assert found["told"] == [[workers.own]]


@pytest.mark.parametrize("beside", ["nothing", "file"])
def test_with_nothing_beside_the_request_triton_looks_where_it_always_does(
    beside: str, workers: Workers, tmp_path: Path
) -> None:
    if beside == "file":
        (tmp_path / KERNELS).write_text("")
    found = workers.next(f"beside={tmp_path}", OTHER_CONSTANT)
    assert found == {"told": [[workers.own]], "manager": None}


# -- who keeps, and who finds -----------------------------------------------------------------------------------------

CALL = Call("forward", "forward", "forward", (), ())
SUBJECT = Subject("/cell/source", "pkg.ops.k", "k.py", ())


@pytest.mark.parametrize(
    ("cases", "brief", "keeps"), [((CALL,), False, True), ((CALL,), True, False), ((), False, False)]
)
def test_who_records_for_good_keeps_what_it_compiles(
    cases: tuple[Call, ...], brief: bool, keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a race nothing is kept, and v0's checks are made beside its recordings."""
    happened: list[Any] = []
    monkeypatch.setattr(kept_kernels, "keep", happened.append)
    monkeypatch.setattr(shares, "carry_out", lambda *_: happened.append("carried out") or ("answer", 0))
    request = GpuRequest("gpu", SUBJECT, (CALL,), cases, (), brief)
    assert worker._all_of(request, tmp_path / "in", tmp_path / "out") == ("answer", 0)
    assert happened == ([tmp_path / "out"] if keeps else []) + ["carried out"], "before anything is compiled"


def test_who_is_looked_at_and_each_arm_find_their_own_before_the_op_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[Any] = []

    def found(request: Path, name: str = KERNELS) -> None:
        happened.append(request / name)

    monkeypatch.setattr(kept_kernels, "find_beside", found)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(loading, "load_and_ask", lambda *_: (happened.append("imported"), ()))
    monkeypatch.setattr(hosting, "Line", lambda *_: SimpleNamespace())
    monkeypatch.setattr(hosting, "wait_to_begin", lambda _: True)
    worker._job(LookRequest("look", SUBJECT, (), (), "counters"), tmp_path, tmp_path / "out")
    for arm in ARMS:
        worker._job(HostRequest("host", SUBJECT, SUBJECT, (), (), 1, arm), tmp_path, tmp_path / "out")
    folders = [tmp_path / "kernels", tmp_path / "kernels-v0", tmp_path / "kernels-variant"]
    assert happened == [step for folder in folders for step in (folder, "imported")]


# -- who stands ready -------------------------------------------------------------------------------------------------


def test_on_a_machine_without_a_gpu_a_kernel_is_compiled_all_the_same(tmp_path: Path) -> None:
    """What asks the driver cannot be built there."""
    found = played("kept", "warm_up", TINY, told={"TRITON_CACHE_DIR": str(tmp_path)})
    assert found["told"] == [["_tiny_kernel.cubin"], [str(tmp_path)]]


def test_who_hangs_over_it_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fork, made = os.fork, list[int]()

    def noted() -> int:
        made.append(fork())
        return made[-1]

    monkeypatch.setattr(os, "fork", noted)
    monkeypatch.setattr(warming, "warm_up", lambda target: None)
    monkeypatch.setattr(warming, "_built", lambda: time.sleep(600))
    monkeypatch.setattr(warming, "BUILT_S", 0.1)
    warming.warm_up_for(90)
    (child,) = made
    assert not is_there(child)
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


@pytest.mark.parametrize("error", [None, OSError("no libcuda"), AssertionError(), KeyboardInterrupt()])
def test_what_asks_the_driver_is_built_by_another_process_that_is_gone_then(
    error: BaseException | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()

    def built() -> None:
        (tmp_path / str(os.getpid())).touch()
        if error is not None:
            raise error

    monkeypatch.setattr(warming, "warm_up", lambda target: (tmp_path / f"{target.backend}-{target.arch}").touch())
    monkeypatch.setattr(warming, "_built", built)
    try:
        warming.warm_up_for(90)
    finally:
        if os.getpid() != here:
            (tmp_path / "came back").touch()
            os._exit(1)
    child, compiled = sorted(path.name for path in tmp_path.iterdir())
    assert compiled == "cuda-90"
    assert int(child) != here and not is_there(int(child))
    with pytest.raises(ChildProcessError):
        os.waitpid(int(child), os.WNOHANG)
