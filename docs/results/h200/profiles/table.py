"""Writes the tables of the README beside it, from each profile.json below it and the journals of the campaigns.

Run it from the root of the repository, after a profile or a campaign was added:

    python docs/results/h200/profiles/table.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from bot.model.measurement import MACHINE

Machine: TypeAlias = tuple[Any, ...]
HERE = Path(__file__).resolve().parent
CAMPAIGNS = HERE.parent / "campaigns"
KERNELS = (
    *("rms_norm", "layer_norm", "geglu", "jsd", "group_norm", "cross_entropy", "rope"),
    *("fused_linear_cross_entropy", "softmax", "poly_norm", "dyt", "tvd", "kl_div", "swiglu"),
    *("fused_add_rms_norm", "relu_squared", "llama4_rope", "qwen2vl_mrope", "sparsemax", "attn_res"),
    *("modulated_rms_norm", "grpo_loss", "mhc_post_res"),
)
BEGIN, END = "<!-- made by table.py -->\n", "<!-- end -->\n"
WON = ("accepted", "accepted_with_note")
UNKNOWN = "unknown"
MOST_APART = 0.10


def grid(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def megabytes(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value / 1e6:.1f} MB"


def times(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}x"


def asked(one: dict[str, Any]) -> float | None:
    """Of L2: what is moved at least, what is read again and spilled. Unknown where nobody counted it."""
    again, spilled = one.get("again"), one.get("spilled_asked")
    if again is None or spilled is None:
        return None
    counted: float = one["counted_read"] + one["counted_written"]
    return counted + again + spilled


def agreement(one: dict[str, Any]) -> str:
    """Spilled registers go through L2 and are in no tensor; profiles from before they were counted have none."""
    if one["ratio"] is None:
        return UNKNOWN
    said = f"{one['ratio']:.3f}{', **more than 10 % apart**' if one['agrees'] is False else ''}"
    if one["level"] != "l2" or not one.get("spilled", 0):
        return said
    if one.get("spilled_asked") is not None:
        return f"{said}, {megabytes(one['spilled_asked'])} of spilled registers counted"
    most = f", with up to {megabytes(one['spilled'])} of spilled registers"
    return said if 1 - one["ratio"] <= MOST_APART else said + most


def profiles(folder: Path) -> dict[str, dict[str, Any]]:
    found = {kernel: folder / kernel / "profile.json" for kernel in KERNELS}
    return {kernel: json.loads(path.read_text(encoding="utf-8")) for kernel, path in found.items() if path.is_file()}


def only_tried(facts: list[dict[str, Any]]) -> bool:
    """Whether it has nothing but versions that somebody brought: of these nobody foretells anything."""
    return {fact["variant"]["hypothesis"]["technique"] for fact in facts if fact["kind"] == "round_opened"} == {"try"}


def journals(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The facts of each kernel's last campaign with an idea of its own: of `rms_norm` and `rms_norm-b` the second."""
    found = {}
    for kernel in KERNELS:
        for path in sorted((*folder.glob(f"{kernel}/journal.jsonl"), *folder.glob(f"{kernel}-?/journal.jsonl"))):
            lines = path.read_text(encoding="utf-8").splitlines()
            facts: list[dict[str, Any]] = [json.loads(line)["fact"] for line in lines]
            if kernel not in found or not only_tried(facts):
                found[kernel] = facts
    return found


def seen(profile: dict[str, Any]) -> list[object]:
    """Class and evidence of one profile, and what the profiler said or why it said nothing."""
    diagnosis, counters = profile["diagnosis"], profile["counters"] or {"status": "not_asked", "version": ""}
    clues = [clue["evidence"] for clue in diagnosis["clues"] if clue["basis"] == "counters"]
    letters = sorted({clue.rsplit("symptom ", 1)[1].rstrip(")") for clue in clues if "symptom " in clue})
    share = profile["roof_percent"]
    return [
        profile["gpu"] or f"no GPU, {profile['arch']}",
        "measured" if profile["evidence"] == "measured" else "estimated",
        UNKNOWN if share is None else f"{share:.0f} %",
        diagnosis["bottleneck"],
        "counters" if diagnosis["confidence"] == "measured" else "heuristic",
        f"{counters['status']} {counters['version']}".strip(),
        ", ".join(letters) or "none",
    ]


def profiled(made: dict[str, dict[str, Any]]) -> str:
    head = ("Kernel", "On", "Times", "Of the roof", "Held back by", "Told from", "Nsight Compute", "Symptoms")
    rows = [[k, *(seen(made[k]) if k in made else ["not profiled yet", *[""] * 6])] for k in KERNELS]
    return grid(head, rows)


def bytes_of(made: dict[str, dict[str, Any]]) -> str:
    head = (
        *("Kernel", "Case", "Launch", "Launches", "Moves at least", "Asks of L2", "DRAM", "L2"),
        *("Held against", "Counted over read"),
    )
    rows, unread = [], 0
    for kernel, profile in made.items():
        for one in profile["traffic"]:
            dram = (one["dram_read"], one["dram_written"])
            if None in dram and one["l2"] is None:
                unread += 1
                continue
            rows.append([
                kernel, one["case"], one["kernel"], one["launches"],
                megabytes(one["counted_read"] + one["counted_written"]), megabytes(asked(one)),
                megabytes(None if None in dram else sum(dram)), megabytes(one["l2"]),
                {"dram": "DRAM", "l2": "L2"}.get(one["level"], UNKNOWN), agreement(one),
            ])  # fmt: skip
    others = f"\nCounted and not read: {unread} more. The profiler runs the largest case of each pass.\n"
    return grid(head, rows) + (others if unread else "") if rows else "No profile says it yet.\n"


def place(name: str, diagnosis: dict[str, Any]) -> str:
    names = diagnosis["strategies"]
    return f"{names.index(name) + 1} of {len(names)}" if name in names else "not in the plan"


def limit(name: str, diagnosis: dict[str, Any]) -> float | None:
    return next((one["at_most"] for one in diagnosis.get("plan", []) if one["name"] == name), None)


def held(at_most: float | None, gave: float | None) -> str:
    if at_most is None or gave is None:
        return "says nothing"
    return "holds" if gave <= at_most else "**wrong: it gave more**"


def gain(number: int, parent: int, verdicts: dict[int, dict[str, Any]]) -> float | None:
    """Of this change alone, over the variant it was made of. None where no GPU timed both."""
    scores = [verdicts.get(n, {}).get("score") for n in (number, parent) if n]
    if not all(score and score["evidence"] == "measured" for score in scores):
        return None
    mine, *before = [score["speed"] for score in scores]
    return mine / before[0] if before else mine


def _by_machine(facts: list[dict[str, Any]]) -> tuple[dict[int, Machine], dict[tuple[int, Machine], dict[str, Any]]]:
    """Where each variant was measured last, and what was said of it on each machine: the best is measured again where
    a campaign goes on elsewhere."""
    where: dict[int, Machine] = {}
    said = {}
    for fact in facts:
        if fact["kind"] == "variant_measured":
            where[fact["number"]] = tuple(fact["measurement"]["runner"].get(name) for name in MACHINE)
        if fact["kind"] == "variant_judged":
            said[fact["number"], where.get(fact["number"], ())] = fact["verdict"]
    return where, said


def of_campaign(kernel: str, facts: list[dict[str, Any]]) -> list[list[object]]:
    """A line a variant: what was written down before it, and what came. The journal's own order is the proof."""
    number, diagnosis = next((i, f["profile"]["diagnosis"]) for i, f in enumerate(facts) if f["kind"] == "profiled")
    variants = {f["variant"]["number"]: (i, f["variant"]) for i, f in enumerate(facts) if f["kind"] == "round_opened"}
    where, said = _by_machine(facts)
    verdicts = {f["number"]: f["verdict"] for f in facts if f["kind"] == "variant_judged"}
    winner = max((n for n, verdict in verdicts.items() if verdict["decision"] in WON), default=None)
    rows: list[list[object]] = []
    for n, (line, variant) in sorted(variants.items()):
        name, _, kernel_alone = variant["hypothesis"]["technique"].partition(
            ":"
        )  # the plan does not tell kernels apart
        verdict = verdicts.get(n)
        here = {number: verdict for (number, machine), verdict in said.items() if machine == where.get(n, ())}
        gave = gain(n, variant["parent"], here)
        at_most = limit(name, diagnosis)
        order = f"{number} before {line}" if number < line else f"**{number} after {line}**"
        rows.append([
            kernel, diagnosis["bottleneck"], f"v{n}{', the winner' if n == winner else ''}",
            f"{name} in {kernel_alone}" if kernel_alone else name, order,
            place(name, diagnosis), times(at_most), times(gave), held(at_most, gave),
            verdict["decision"].replace("_", " ") if verdict else "not judged",
        ])  # fmt: skip
    return rows or [[kernel, diagnosis["bottleneck"], "no variant", *[""] * 7]]


def forecasts(made: dict[str, list[dict[str, Any]]]) -> str:
    head = (
        *("Kernel", "Diagnosis", "Variant", "Removes", "Lines of the journal", "Place in the plan"),
        *("At most (estimated)", "Gave (measured)", "The limit", "Decision"),
    )
    rows: list[list[object]] = []
    for kernel in KERNELS:
        rows += of_campaign(kernel, made[kernel]) if kernel in made else [[kernel, "no campaign yet", *[""] * 8]]
    return grid(head, rows)


def page(folder: Path, campaigns: Path) -> str:
    """A variant's gain is of its own change, over the variant it was made of."""
    made = profiles(folder)
    return "\n".join((
        "## What was seen", "", profiled(made),
        "## Bytes, counted and read", "", bytes_of(made),
        "## What was foretold, and what came", "", forecasts(journals(campaigns)),
    ))  # fmt: skip


def written(text: str, made: str) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def main() -> None:
    readme = HERE / "README.md"
    readme.write_text(written(readme.read_text(encoding="utf-8"), page(HERE, CAMPAIGNS)), encoding="utf-8")


if __name__ == "__main__":
    main()
