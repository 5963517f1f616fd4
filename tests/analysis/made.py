"""Launches, cases and measurements made to measure, with the numbers that a test speaks of and plain ones otherwise."""

from __future__ import annotations

from typing import Any

from bot.model.measurement import (
    Case,
    CaseResult,
    CheckResult,
    Direction,
    Evidence,
    Launch,
    Measurement,
    Resources,
    Runner,
    Setting,
    Suite,
    Survey,
    Timing,
)

DIGEST = "0" * 64


def resources(**fields: Any) -> Resources:
    plain: dict[str, Any] = {
        "arch": "sm_90",
        "registers": 32,
        "spill_bytes": 0,
        "shared_bytes": 0,
        "load_bits": 128,
        "store_bits": 128,
        "instructions": 200,
    }
    return Resources(**{**plain, **fields})


def launch(kernel: str = "_k", *, rows: int = 4096, block: int = 4096, warps: int = 8, **fields: Any) -> Launch:
    plain: dict[str, Any] = {
        "source_file": "src/k.py",
        "grid": (rows, 1, 1),
        "num_stages": 3,
        "constants": (("BLOCK_SIZE", str(block)),),
        "tensor_bytes": 64 * 2**20,
        "resources": resources(),
    }
    return Launch(kernel=kernel, num_warps=warps, **{**plain, **fields})


def case(direction: Direction = "forward", rows: int = 4096, cols: int = 4096, **fields: Any) -> Case:
    shape = (("rows", rows), ("cols", cols))
    return Case(id=f"{direction}-{rows}x{cols}", direction=direction, shape=shape, dtype="bfloat16", **fields)


def result(of: Case, *launches: Launch, us: float | None = None, **fields: Any) -> CaseResult:
    plain: dict[str, Any] = {"minimum_bytes": 64 * 2**20, "memory_bytes": 32 * 2**20}
    timing = Timing(median_us=us, timer="graph") if us is not None else None
    return CaseResult(case=of.id, launches=launches, timing=timing, **{**plain, **fields})


def measurement(*results: CaseResult, evidence: Evidence = Evidence.STATIC, **fields: Any) -> Measurement:
    gpu = "NVIDIA H200" if evidence is Evidence.MEASURED else ""
    runner = Runner(evidence=evidence, arch="sm_90", gpu_name=gpu)
    return Measurement(runner=runner, source=DIGEST, cases=results, **fields)


def measured(times: dict[Case, float], memory: dict[Case, int] | None = None) -> Measurement:
    """A GPU's own times, so that nothing is modelled."""
    found = [
        result(one, launch(), us=us, memory_bytes=(memory or {}).get(one, 1000), minimum_bytes=1000)
        for one, us in times.items()
    ]
    return measurement(*found, evidence=Evidence.MEASURED)


def suite(*cases: Case) -> Suite:
    return Suite(name="quick", cases=cases, checks=())


def passed(name: str) -> CheckResult:
    return CheckResult(case=name, passed=True, margin=0.5)


def survey(of: Case, block: int, warps: int, *, kernel: str = "_k", **fields: Any) -> Survey:
    """A setting whose instructions shrink with the elements of a thread, as they do."""
    setting = Setting(kernel=kernel, num_warps=warps, constants=(("BLOCK_SIZE", block),))
    per_thread = block // (32 * warps)
    needs = resources(instructions=100 + 10 * per_thread, registers=16 + 2 * per_thread)
    rows = dict(of.shape)["rows"]
    tried = launch(kernel, rows=rows, block=block, warps=warps, resources=needs)
    return Survey(setting=setting, case=of.id, launches=(tried,), **fields)
