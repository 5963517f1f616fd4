"""Carries out a GPU request in several forked processes, so that the kernels of one variant are compiled side by side.

Most of a check is compiling: every type and width of a probe is a kernel of its own. The parent runs no variant code
and holds no GPU context; each child has its own, and how a child ends is how the worker ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bot.worker.contract import MAX_MANIFEST, Call, ContractError, Exit, parse, read_bytes, render, write_text
from bot.worker.contract.gpu import GpuAnswer, GpuRequest
from bot.worker.nursery import leave

MOST = 8
"""Recordings are a share where there are any, checks the others. Each takes a GPU context, about half a GiB of the
GPU's memory."""
FEWEST_CHECKS = 8
"""As many are not worth a second context."""
Work = Callable[[GpuRequest], tuple[GpuAnswer, int]]


def _recordings(request: GpuRequest, processors: int) -> tuple[GpuRequest, ...]:
    """Neighbours stay together: forward and backward of a shape launch some of the same kernels."""
    count = len(request.cases)
    hands = max(1, min(request.recorders, processors, count))
    ends = [count * n // hands for n in range(hands + 1)]
    alone = dataclasses.replace(request, checks=())
    shares = [dataclasses.replace(alone, cases=request.cases[a:b]) for a, b in itertools.pairwise(ends)]
    return (shares[0], *(dataclasses.replace(share, recorders=0) for share in shares[1:]))


def _compiled_alike(call: Call) -> tuple[object, ...]:
    """Forward and backward of a shape launch some of the same kernels, whatever values they are given."""
    return tuple((argument.tensor.shape, argument.tensor.dtype) for argument in call.arguments if argument.tensor)


def _dealt(checks: tuple[Call, ...], hands: int) -> list[tuple[Call, ...]]:
    """Who compiles a kernel has all the checks of it, unless those would be more than anybody's part. Each in the order
    of the request. Dealt out one by one, group_norm's were 105 kernels where 38 are enough, fused_neighborhood_
    attention's 340 for 223."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for place, call in enumerate(checks):
        alike.setdefault(_compiled_alike(call), []).append(place)
    most = -(-len(checks) // hands)
    piles = [some[at : at + most] for some in alike.values() for at in range(0, len(some), most)]
    found: list[list[int]] = [[] for _ in range(hands)]
    for pile in sorted(piles, key=len, reverse=True):
        min(found, key=len).extend(pile)
    return [tuple(checks[place] for place in sorted(places)) for places in found]


def shares_of(request: GpuRequest, processors: int) -> tuple[GpuRequest, ...]:
    """The recordings, in a share or several, and the checks, about as many to each hand."""
    hands = min(MOST, processors) - bool(request.cases)
    first, *others = _recordings(request, processors)
    if hands < 1 or len(request.checks) <= FEWEST_CHECKS:
        return (dataclasses.replace(first, checks=request.checks), *others)
    dealt = tuple(dataclasses.replace(request, checks=some, cases=()) for some in _dealt(request.checks, hands))
    return (first, *others, *dealt) if request.cases else dealt


def warm() -> None:
    """What every child would import again."""
    import triton.backends.nvidia.compiler  # noqa: F401

    try:
        import torch._higher_order_ops.triton_kernel_wrap  # noqa: F401
    except ImportError:  # a private name of torch's: where it is gone, nothing needs it
        return


def _start(share: GpuRequest, work: Work, place: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        leave(lambda: told_to(place, *work(share)))
    return child


def told_to(place: Path, answer: GpuAnswer, code: int) -> int:
    write_text(place, render(answer))
    return code


def _end(child: int) -> int:
    """Its exit code; who was ended by a signal ends us by the same one."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        with contextlib.suppress(OSError):  # nobody may change what SIGKILL does
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def _told(place: Path, code: int) -> GpuAnswer:
    try:
        return parse(GpuAnswer, read_bytes(place, MAX_MANIFEST))
    except (ContractError, OSError):
        raise SystemExit(code or Exit.BAD_REQUEST) from None
    finally:
        place.unlink(missing_ok=True)


def _together(request: GpuRequest, answers: list[GpuAnswer]) -> GpuAnswer:
    """As if one process had answered: in the order of the request, with the first refusal."""
    calls = {call.id: call for answer in answers for call in answer.calls}
    return GpuAnswer(
        calls=tuple(calls[call.id] for call in request.checks if call.id in calls),
        recordings=tuple(recording for answer in answers for recording in answer.recordings),
        refusal=next((answer.refusal for answer in answers if answer.refusal is not None), None),
        marks=tuple(mark for answer in answers for mark in answer.marks),
    )


def carry_out(request: GpuRequest, work: Work, outputs: Path, processors: int | None = None) -> tuple[GpuAnswer, int]:
    shares = shares_of(request, processors or os.cpu_count() or 1)
    if len(shares) == 1:
        return work(request)
    warm()
    places = [outputs / f"share-{number}.json" for number in range(len(shares))]
    children = [_start(share, work, place) for share, place in zip(shares, places, strict=True)]
    codes = [_end(child) for child in children]
    answers = [_told(place, code) for place, code in zip(places, codes, strict=True)]
    return _together(request, answers), next((code for code in codes if code), Exit.OK)
