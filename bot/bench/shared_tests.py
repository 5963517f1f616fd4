"""The tests of a file, run by several processes side by side where a GPU is: most of what they take is compiling, one
kernel after another, and liger-kernel's 165 tests of rms_norm took three minutes on an H200 with 16 processors.

It is worth nothing but time: what did not go well in shares is run once more as the repository would, and that counts.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bot.bench.commands import KEPT_OUTPUT
from bot.bench.gpu import Gpu
from bot.bench.plugins import findable, is_pytest
from bot.model.finalization import CommandRun

MOST = 8
PROCESSORS_EACH = 2
MEMORY_EACH_MIB = 8192
"""Each has torch, a GPU context and what a test of the library holds at most: some gigabytes."""
OURS = ("-p", "kernelwright_share")
VARIABLE = "KERNELWRIGHT_SHARE"
PACK = re.compile(rf"^{VARIABLE} ([0-9a-f]{{16}}) of (\d+)$", re.MULTILINE)
NOBODY = 5
"""What pytest says where no test was left: of three tests the fourth hand has none."""
MOST_SUMMARY = 300
COUNTED = re.compile(r"\b(\d+) (passed|skipped|xfailed|xpassed)\b")
"""What pytest counts of a share; the tests of the other shares it calls deselected."""
Run = Callable[[Sequence[str], Mapping[str, str]], CommandRun]


def hands(command: Sequence[str], gpu: Gpu | None) -> int:
    """How many processes may share the tests of this command; 1 where it is no plain pytest."""
    if gpu is None or not _may_be_shared(command):
        return 1
    return max(1, min(MOST, (os.cpu_count() or 1) // PROCESSORS_EACH, gpu.memory_mib // MEMORY_EACH_MIB))


def _may_be_shared(command: Sequence[str]) -> bool:
    """`python -m pytest ...`, with nothing that shares by itself."""
    return is_pytest(command) and not any(w in ("-n", "--dist") or "xdist" in w for w in command)


def _environment(environment: Mapping[str, str], number: int, count: int) -> dict[str, str]:
    return {**findable(environment), VARIABLE: f"{number}/{count}"}


def _pack(run: CommandRun) -> str:
    found = PACK.search(run.output)
    return found[0] if found is not None else ""


def _summary(busy: Sequence[CommandRun]) -> str:
    """What their last lines come to: nobody adds up eight of them by eye. They stand in the output."""
    if len(busy) == 1:
        return busy[0].summary
    found = Counter[str]()
    for run in busy:
        found.update({word: int(count) for count, word in COUNTED.findall(run.summary)})
    counts = ", ".join(f"{count} {word}" for word, count in found.items())
    return f"{counts or 'they said no count'} in {len(busy)} processes"


def _as_one(runs: Sequence[CommandRun]) -> CommandRun | None:
    """What they came to together; None unless all went well, on shares of the same tests."""
    busy = [run for run in runs if run.exit_code != NOBODY]
    packs = {_pack(run) for run in runs}
    if not busy or not all(run.passed for run in busy) or len(packs) != 1 or "" in packs:
        return None
    return CommandRun(
        argv=runs[0].argv[: -len(OURS)],
        passed=True,
        exit_code=0,
        seconds=max(run.seconds for run in runs),
        summary=_summary(busy)[:MOST_SUMMARY],
        output="\n".join(run.output[-KEPT_OUTPUT // len(busy) :] for run in busy),
    )


def shared(run: Run, command: Sequence[str], environment: Mapping[str, str], count: int) -> CommandRun | None:
    """The command in so many processes; None where that says nothing of the tests."""
    with ThreadPoolExecutor(max_workers=count) as beside:
        asked = (partial(run, (*command, *OURS), _environment(environment, number, count)) for number in range(count))
        return _as_one([one.result() for one in [beside.submit(ask) for ask in asked]])
