"""Holds kernels against copies of themselves: whatever is not 1.000 is the error of the judge.

    python -m tests.gpu.itself --repo LIGER --out FOLDER rms_norm geglu ...

One JSON file a kernel, with every block that was read; the table is printed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path

from bot.analysis.paired import estimate, usable
from bot.bench.choosing import open_measured_bench
from bot.bench.effort import Effort
from bot.bench.gpu import the_gpu
from bot.bench.measured import MeasuredBench
from bot.bench.overlay import base_files
from bot.cli.judge_suite import target_of
from bot.errors import OperatorError
from bot.model.measurement import CaseResult, Measurement
from bot.model.variant import SourceFile

COPY = "# a copy of the file, to be held against itself\n"


def copied(sources: tuple[SourceFile, ...]) -> tuple[SourceFile, ...]:
    first, *rest = sources
    return (SourceFile(path=first.path, text=first.text + COPY), *rest)


def held(bench: MeasuredBench, sources: tuple[SourceFile, ...]) -> Measurement:
    bench.measure(sources, passports=False)
    return bench.measure(copied(sources), passports=False)


def row(case: CaseResult) -> dict[str, object]:
    """v0 over copy, minus one, in percent: of each fresh process, and of all."""
    if case.paired is None or not usable(case.paired.confirm):
        return {"case": case.case, "why_not": "not timed"}
    found = estimate(case.paired.confirm)
    error = 100 * math.expm1(found.mean)
    processes = [round(100 * math.expm1(p.mean), 4) for p in found.processes]
    return {
        "case": case.case,
        "tier": case.paired.tier,
        "host_waits": case.host_waits,
        "median_us": case.timing.median_us if case.timing is not None else None,
        "off_by_percent": round(error, 4),
        "processes_percent": processes,
        "voided_blocks": sum(reading.voided for reading in case.paired.confirm),
    }


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--repo", type=Path, required=True)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--processes", type=int, default=6)
    words.add_argument("kernels", nargs="+")
    given = words.parse_args()
    root, gpu = given.repo.resolve(), the_gpu()
    target = target_of(root)
    given.out.mkdir(parents=True, exist_ok=True)
    for kernel in given.kernels:
        started, site = time.monotonic(), target.site(kernel)
        sources = base_files(root, site)
        with tempfile.TemporaryDirectory() as scratch:
            suite, effort = target.suite(kernel), Effort(processes=given.processes, losers=True)
            bench = open_measured_bench(
                root, site, suite, gpu.arch, sys.executable, Path(scratch), gpu=gpu, effort=effort
            )
            try:
                found = held(bench, sources)
            except OperatorError as error:  # the others are asked all the same
                print(kernel, f"not read: {error}", flush=True)
                continue
            finally:
                bench.close()
        rows = [row(case) for case in found.cases]
        told = {"kernel": kernel, "seconds": round(time.monotonic() - started, 1), "cases": rows}
        told["raw"] = found.model_dump(mode="json")
        (given.out / f"{kernel}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        print(kernel, f"{told['seconds']} s", found.fault or "", flush=True)
        for line in rows:
            print("  ", *(f"{name}={value}" for name, value in line.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
