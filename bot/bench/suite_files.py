"""Files that say of themselves what the judge should think of them: `DIR/<op>/<name>.py`, each a whole op file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from bot.errors import UserError
from bot.model.reasons import ReasonCode

EXPECT = re.compile(r"# expect: (?:(?P<passes>PASS)|REJECTED (?P<reasons>[a-z_]+(?:\|[a-z_]+)*))")
TIER = re.compile(r"# tier: (cpu|gpu|both)")
TIERS = ("cpu", "gpu")
MOST_SHOWN = 20
MAX_BYTES = 2**20


@dataclass(frozen=True)
class Exhibit:
    """One file with its declaration."""

    path: Path
    op: str
    text: str
    reasons: tuple[str, ...]
    """Guardrails that may reject it; empty where it must pass."""
    tier: str

    def is_for(self, tier: str) -> bool:
        return self.tier in (tier, "both")

    @property
    def expected(self) -> str:
        return f"REJECTED {'|'.join(self.reasons)}" if self.reasons else "PASS"


class _Unclear(Exception):
    """Why a file's declaration cannot be read."""


def _declared(text: str, known: Collection[str]) -> tuple[tuple[str, ...], str]:
    first, _, rest = text.partition("\n")
    expect = EXPECT.fullmatch(first.rstrip())
    if expect is None:
        raise _Unclear(
            f"the first line is {first[:60]!r}, not `# expect: REJECTED <reason>[|<reason>]` or `# expect: PASS`"
        )
    reasons = () if expect["passes"] else tuple(expect["reasons"].split("|"))
    strange = sorted(set(reasons) - set(known))
    if strange:
        raise _Unclear(f"{strange[0]!r} is no guardrail; there are {', '.join(known)}")
    second = rest.partition("\n")[0].rstrip()
    tier = TIER.fullmatch(second)
    if tier is None and second.startswith("# tier"):
        raise _Unclear(f"the second line is {second[:60]!r}, not `# tier: cpu`, `gpu` or `both`")
    return reasons, tier[1] if tier else "both"


def _exhibit(path: Path, known: Collection[str]) -> Exhibit:
    if path.stat().st_size > MAX_BYTES:
        raise _Unclear(f"it is larger than {MAX_BYTES // 2**10} KiB")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Unclear("it is not UTF-8") from error
    reasons, tier = _declared(text, known)
    return Exhibit(path, path.parent.name, text, reasons, tier)


def _python_files(folder: Path, ops: Collection[str], op: str | None) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if "__pycache__" in parts or parts[-1] == "__init__.py" or (op is not None and parts[0] != op):
            continue
        if len(parts) != 2 or parts[0] not in ops:
            raise UserError(
                f"{'/'.join(parts)} belongs to no op",
                hint=f"files lie in a folder named after their op, one of {', '.join(sorted(ops))}",
            )
        yield path


def read_suite(folder: Path, ops: Collection[str], known: Collection[str], op: str | None = None) -> list[Exhibit]:
    """Every file below the folder, in order; all that is wrong with any of them is said at once."""
    if op is not None and op not in ops:
        hint = f"ops here: {', '.join(sorted(ops))}"
        raise UserError(f"unknown op {op!r}", hint=hint, reason=ReasonCode.UNKNOWN_KERNEL)
    found: list[Exhibit] = []
    unclear: list[str] = []
    for path in _python_files(folder, ops, op):
        try:
            found.append(_exhibit(path, known))
        except _Unclear as error:
            unclear.append(f"{path.relative_to(folder)}: {error}")
    if unclear:
        shown = unclear[:MOST_SHOWN] + ([f"and {len(unclear) - MOST_SHOWN} more"] if len(unclear) > MOST_SHOWN else [])
        raise UserError("\n".join(shown), hint="mend these lines; nothing was run")
    if not found:
        where = f"{folder}/{op}" if op else f"{folder}"
        hint = "it holds <op>/<name>.py files"
        raise UserError(f"there is no file to judge in {where}", hint=hint, reason=ReasonCode.NOT_FOUND)
    return found
