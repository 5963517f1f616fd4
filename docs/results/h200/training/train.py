"""Trains a small model for eight steps with the stock library and with every winner in it, and compares the losses.

    python docs/results/h200/training/train.py --stock liger-kernel-0.8.5 --winners liger-winners --size small

`winners.py` makes the second tree. Each tree runs twice, in fresh processes, in the order stock, winners, winners,
stock, from the same seed on the same data, and then stock once more, begun a rounding error away: how far that leads is
what any other rounding may lead to. It writes training.json, and training.md, which it prints with the verdict
last: exit status 0 if every loss of every step agrees within the library's own tolerance, 1 if one does not, 2 if
nothing can be said. On a CPU, with TRITON_INTERPRET=1 and --size tiny, nothing is timed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NUDGED = "nudged"
ORDER = ("stock", "winners", "winners", "stock", NUDGED)
MANIFEST = "winners.json"
ANSWER, PAGE = "training.json", "training.md"
RATES = {"tiny": 1e-3, "small": 1e-4, "real": 1e-4}
"""1e-4 is that of the two tests whose tolerance is taken, see TOLERANCES."""
LOSS = "loss"
"""The sum that is trained on; the others are its parts."""


@dataclass(frozen=True)
class Tolerance:
    """How far a loss may be from another: `absolute + relative * |the second|`, as test/utils.py:171 of liger-kernel
    0.8.5 has it."""

    absolute: float
    relative: float
    source: str

    def at(self, value: float) -> float:
        return self.absolute + self.relative * abs(value)


TOLERANCES = {
    "bfloat16": Tolerance(1e-3, 1e-2, "test/convergence/bf16/test_mini_models.py:2406 (mini_smollm3)"),
    "float32": Tolerance(1e-8, 1e-5, "test/convergence/fp32/test_mini_models.py:2010 (mini_qwen2)"),
}
"""Of the losses of the library's own convergence tests, stock transformers against liger-kernel over 32 steps. These
are the strictest that it has for the type: mini_llama3, whose model ours is most like, is allowed 1e-2 + 5e-2 of the
loss in bfloat16 (line 2019) and 1e-8 + 2e-5 in float32 (line 1951)."""


class Refused(Exception):
    """Nothing can be said, and why."""


# The trees


def hashes(tree: Path) -> dict[str, str]:
    """Every file below its src."""
    source = tree / "src"
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    if not files:
        raise Refused(f"{source} holds no files")
    return {path.relative_to(tree).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def manifest(tree: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((tree / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused(f"{tree} has no {MANIFEST}: make it with winners.py") from None
    return found


def same_trees(stock: Path, winners: Path) -> dict[str, Any]:
    """The trees differ in the winners' files and in nothing else."""
    told, before, after = manifest(winners), hashes(stock), hashes(winners)
    expected = {one["path"]: (one["stock"], one["winner"]) for one in told["files"]}
    differing = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    for path in sorted({*differing, *expected}):
        if path not in expected:
            raise Refused(f"{path} differs between the trees, and is of no winner")
        if (before.get(path), after.get(path)) != expected[path]:
            raise Refused(f"{path} is not what {MANIFEST} says: the trees were changed, or are of two libraries")
    return told


# The processes


def environment(scratch: Path, arm: str) -> dict[str, str]:
    """Without what would choose other kernels, and with a cache for each tree of what was compiled, and of what kernels
    that tune themselves chose."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LIGER_")}
    return {**kept, "TRITON_CACHE_DIR": str(scratch / f"triton-{arm}"), "TRITON_CACHE_AUTOTUNING": "1"}


def ran(asked: argparse.Namespace, scratch: Path, number: int, arm: str) -> dict[str, Any]:
    """One process of one tree."""
    which = "winners" if arm == "winners" else "stock"
    tree, answer = getattr(asked, which), scratch / f"{number}-{arm}.json"
    words = [sys.executable, str(HERE / "process.py"), str(tree), str(answer)]
    for name in ("size", "type", "steps", "warm", "rate", "seed"):
        words += [f"--{name}", str(getattr(asked, name))]
    words += ["--nudge"] if arm == NUDGED else []
    words += ["--dense"] if asked.dense else []
    done = subprocess.run(words, env=environment(scratch, which), check=False)
    if done.returncode != 0 or not answer.exists():
        raise Refused(f"process {number}, {arm}, ended with {done.returncode} and without an answer")
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return {"arm": arm, **found}


def same_start(runs: Sequence[Mapping[str, Any]], steps: int) -> None:
    """Else their losses cannot be compared."""
    for name in ("start", "data", "parameters", "gpu", "torch", "triton", "python"):
        if len({run[name] for run in runs}) != 1:
            raise Refused(f"the processes do not agree on {name}: {', '.join(str(run[name]) for run in runs)}")
    if any(len(run["steps"]) != steps for run in runs):
        raise Refused(f"a process took other than {steps} steps")


def came_from(runs: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> None:
    """Each process imported its own tree's text of every file that a winner changes and that it imported at all."""
    for run, one in product(runs, told["files"]):
        expected = one["winner" if run["arm"] == "winners" else "stock"]
        found = run["files"].get(one["path"].removeprefix("src/"))
        if found not in (None, expected):
            raise Refused(f"a process of {run['arm']} imported {one['path']} as {found}, not as {expected}")


# The comparison


@dataclass(frozen=True)
class Row:
    step: int
    name: str
    stock: float
    winners: float
    tolerance: float

    @property
    def difference(self) -> float:
        return abs(self.stock - self.winners)

    @property
    def share(self) -> float:
        """Of the tolerance; infinite where a loss is no number."""
        return self.difference / self.tolerance if math.isfinite(self.difference) else math.inf

    @property
    def agrees(self) -> bool:
        """Two losses that are no numbers do not, however alike they are."""
        return math.isfinite(self.difference) and self.difference <= self.tolerance


def rows(stock: Mapping[str, Any], winners: Mapping[str, Any], tolerance: Tolerance) -> Iterator[Row]:
    for step, (one, other) in enumerate(zip(stock["steps"], winners["steps"], strict=True), start=1):
        for name, value in one["losses"].items():
            yield Row(step, name, value, other["losses"][name], tolerance.at(other["losses"][name]))


def of_arm(runs: Sequence[Mapping[str, Any]], arm: str) -> list[Mapping[str, Any]]:
    return [run for run in runs if run["arm"] == arm]


def across(runs: Sequence[Mapping[str, Any]], tolerance: Tolerance, other: str = "winners") -> list[Row]:
    """Every process of the stock tree against every one of the other arm."""
    pairs = product(of_arm(runs, "stock"), of_arm(runs, other))
    return [row for one, another in pairs for row in rows(one, another, tolerance)]


def within(runs: Sequence[Mapping[str, Any]], arm: str, tolerance: Tolerance) -> Row:
    """How far two processes of one tree are apart: nobody's fault."""
    first, second = of_arm(runs, arm)
    return max(rows(first, second, tolerance), key=lambda row: row.share)


def gradients_apart(runs: Sequence[Mapping[str, Any]]) -> float:
    """The furthest that the gradients' norms are apart, of the stock's: the library has no tolerance for it."""
    pairs = product(of_arm(runs, "stock"), of_arm(runs, "winners"))
    steps = [step for one, other in pairs for step in zip(one["steps"], other["steps"], strict=True)]
    apart = [abs(one["gradient"] - other["gradient"]) / (one["gradient"] or math.nan) for one, other in steps]
    return max(share if math.isfinite(share) else math.inf for share in apart)


def launched(runs: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of each winner, the kernels of its changed files that its processes launched; of a file without any, its ops."""
    found: dict[str, list[str]] = {one["kernel"]: [] for one in told["winners"]}
    names = of_arm(runs, "winners")[0]["launched"]
    for one in told["files"]:
        for kernel in one["kernels"]:
            found[kernel] += names.get(one["path"].removeprefix("src/"), [])
    return found


# What is printed


def grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *lines))


def curve(runs: Sequence[Mapping[str, Any]], tolerance: Tolerance) -> str:
    """The sum that is trained on, of the first process of each tree."""
    first = [row for row in across(runs[:2], tolerance) if row.name == LOSS]
    head = ("Step", "Stock loss", "Winners' loss", "Difference", "Tolerance")
    lines = [
        (str(row.step), f"{row.stock:.6f}", f"{row.winners:.6f}", f"{row.difference:.2e}", f"{row.tolerance:.2e}")
        for row in first
    ]
    return grid(head, lines)


def parts(runs: Sequence[Mapping[str, Any]], tolerance: Tolerance) -> str:
    """Of each loss, where it uses up most of its tolerance; of the same tree twice, for scale."""
    found = across(runs, tolerance)
    furthest = [max((row for row in found if row.name == name), key=lambda row: row.share)
                for name in dict.fromkeys(row.name for row in found)]  # fmt: skip
    names = [f"{row.name}, any stock against any winners'" for row in furthest]
    alike = [within(runs, arm, tolerance) for arm in ("stock", "winners")]
    names += [f"{row.name}, {arm} against itself" for arm, row in zip(("stock", "winners"), alike, strict=True)]
    rounded = max(across(runs, tolerance, NUDGED), key=lambda row: row.share)
    names.append(f"{rounded.name}, stock against stock begun a rounding error away")
    head = ("Loss", "At step", "One", "The other", "Difference", "Tolerance")
    lines = [
        (name, str(row.step), f"{row.stock:.6f}", f"{row.winners:.6f}", f"{row.difference:.2e}", f"{row.tolerance:.2e}")
        for name, row in zip(names, [*furthest, *alike, rounded], strict=True)
    ]
    return grid(head, lines)


def files(runs: Sequence[Mapping[str, Any]]) -> str:
    """Where the kernels that were launched, or the ops that ran, came from, in either tree."""
    stock, winners = of_arm(runs, "stock")[0], of_arm(runs, "winners")[0]
    lines = []
    for path in sorted({*stock["launched"], *winners["launched"]}):
        one, other = stock["files"].get(path, "-"), winners["files"].get(path, "-")
        kernels = ", ".join(winners["launched"].get(path, []))
        lines.append((path, one[:12], "the same" if one == other else f"**{other[:12]}**", kernels))
    return grid(("File below src", "Stock sha256", "Winners'", "Kernels that it launched, or its ops"), lines)


def times(runs: Sequence[Mapping[str, Any]]) -> str:
    """Of each tree the median and the extremes of both its processes' steps."""
    found = {arm: [step["ms"] for run in of_arm(runs, arm) for step in run["steps"]] for arm in ("stock", "winners")}
    if None in found["stock"] + found["winners"]:
        return "Step time: none. Triton's interpreter on a CPU ran this, whose time says nothing of a GPU's.\n"
    lines = []
    for arm, taken in found.items():
        each = [f"{statistics.median(step['ms'] for step in run['steps']):.2f}" for run in of_arm(runs, arm)]
        lines.append((arm, f"{statistics.median(taken):.2f}", f"{min(taken):.2f} to {max(taken):.2f}", ", ".join(each)))
    faster = statistics.median(found["stock"]) / statistics.median(found["winners"])
    head = ("Step time, ms", "Median", "From, to", "Median of each process")
    said = f"Median of stock's steps over the winners': {faster:.3f}. Two processes each, no interval."
    return f"{grid(head, lines)}\n{said}\n"


def control(rounded: Sequence[Row]) -> str:
    """What a rounding error alone does, for whoever reads that the curves differ. It excuses nothing."""
    bad = [row for row in rounded if not row.agrees]
    if not bad:
        return "Stock begun a rounding error away stays within it everywhere"
    row = max(bad, key=lambda row: row.share)
    return (
        f"Stock begun a rounding error away leaves it as well, in {len({(r.step, r.name) for r in bad})} of "
        f"{len({(r.step, r.name) for r in rounded})} losses: {row.name} at step {row.step} by {row.difference:.2e}"
    )


def verdict(
    found: Sequence[Row], rounded: Sequence[Row], used: Mapping[str, list[str]], tolerance: Tolerance
) -> tuple[str, int]:
    """The last line, and the exit status."""
    idle = [kernel for kernel, names in used.items() if not names]
    there = f"{len(used) - len(idle)} of {len(used)} winners ran in it"
    there += f"; NOT IN THIS MODEL: {', '.join(idle)}" if idle else ""
    bad = [row for row in found if not row.agrees]
    if bad:
        row = max(bad, key=lambda row: row.share)
        return (
            f"DIFFERENT: {row.name} at step {row.step} is {row.stock:.6f} and {row.winners:.6f}, {row.difference:.2e} "
            f"apart where {row.tolerance:.2e} is allowed by {tolerance.source}. {control(rounded)}. {there}.",
            1,
        )
    steps = max(row.step for row in found)
    return f"SAME: every loss of {steps} steps is within the tolerance of {tolerance.source}. {there}.", 0


def page(runs: Sequence[Mapping[str, Any]], told: Mapping[str, Any], tolerance: Tolerance) -> tuple[str, int]:
    used, found = launched(runs, told), across(runs, tolerance)
    said, status = verdict(found, across(runs, tolerance, NUDGED), used, tolerance)
    winners = [
        (one["kernel"], f"v{one['variant']} of {one['folder']}", "passed" if one["tested"] else "**not run yet**",
         ", ".join(used[one["kernel"]]) or "**none**")
        for one in told["winners"]
    ]  # fmt: skip
    run = runs[0]
    where = run["gpu"] or "Triton's interpreter on a CPU"
    blocks = (
        f"{run['parameters']:,} parameters, on {where}; torch {run['torch']}, Triton {run['triton']}.\n",
        grid(("Winner", "Which", "Library's tests", "Kernels that it launched, or its ops"), winners),
        files(runs), curve(runs, tolerance), parts(runs, tolerance),
        f"Norms of the gradients are at most {gradients_apart(runs):.2e} of the stock's apart.\n",
        times(runs), f"{said}\n",
    )  # fmt: skip
    return "\n".join(blocks), status


# The whole


def asked_for(arguments: Sequence[str] | None) -> argparse.Namespace:
    asking = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asking.add_argument("--stock", type=Path, required=True, metavar="TREE")
    asking.add_argument("--winners", type=Path, required=True, metavar="TREE")
    asking.add_argument("--size", choices=RATES, default="small")
    asking.add_argument("--type", choices=TOLERANCES, help="default: bfloat16; float32 in the interpreter")
    asking.add_argument("--dense", action="store_true", help="without experts, whose router decides by the last digit")
    asking.add_argument("--steps", type=int, default=8)
    asking.add_argument("--warm", type=int, default=1, help="steps before those, from the same start: kernels compile")
    asking.add_argument("--rate", type=float, help="of AdamW; default: by size")
    asking.add_argument("--seed", type=int, default=0)
    asking.add_argument("--out", type=Path, default=Path("training-output"), metavar="DIR")
    asked = asking.parse_args(arguments)
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    asked.type = asked.type or ("float32" if interpreted else "bfloat16")
    asked.rate = asked.rate or RATES[asked.size]
    if interpreted and (asked.size, asked.type) != ("tiny", "float32"):
        asking.error("the interpreter takes --size tiny --type float32: it multiplies the bits of a bfloat16")
    if min(asked.steps, asked.warm) < 1:
        asking.error("at least one step of each is needed")
    return asked


def train(asked: argparse.Namespace) -> int:
    told, tolerance = same_trees(asked.stock, asked.winners), TOLERANCES[asked.type]
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        runs = [ran(asked, Path(scratch), number, arm) for number, arm in enumerate(ORDER, start=1)]
    same_start(runs, asked.steps)
    came_from(runs, told)
    kept = {name: getattr(asked, name) for name in ("size", "type", "dense", "steps", "warm", "rate", "seed")}
    raw = {"asked": kept, "tolerance": asdict(tolerance), "winners": told, "order": ORDER, "runs": runs}
    (asked.out / ANSWER).write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    said, status = page(runs, told, tolerance)
    (asked.out / PAGE).write_text(said, encoding="utf-8")
    print(said, end="")
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    asked = asked_for(arguments)
    try:
        return train(asked)
    except Refused as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
