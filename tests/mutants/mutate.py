"""Wrong kernels made from right ones, one small change each. The same text always gives the same mutants.

python -m tests.mutants.mutate [OP]     lists them, with those that are left out and why
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutants import arithmetic, launching
from tests.mutants.equivalent import why_equivalent
from tests.mutants.text import Text

SAMPLE = Path(__file__).parents[2] / "templates" / "sample"
OPS = ("geglu", "jsd", "rms_norm", "softmax")
MOST_OF_A_RULE = 8
"""Of one op. All of them would take an hour, and tell little more: most are sums with one term less."""
RULES = {**arithmetic.RULES, **launching.RULES}


@dataclass(frozen=True)
class Mutant:
    op: str
    rule: str
    line: int
    n: int
    what: str
    """What changed, in one line."""
    text: str
    """The whole file."""
    skipped: str = ""
    """Why it is no wrong kernel, and therefore not asked for; empty when it is."""

    @property
    def id(self) -> str:
        return f"{self.op}:{self.rule}:{self.line}:{self.n}"


def source_of(op: str) -> str:
    return (SAMPLE / "src" / "sample_kernels" / "ops" / f"{op}.py").read_text(encoding="utf-8")


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 100 else line[:97] + "..."


def _changes(text: Text) -> Iterator[tuple[str, ast.AST, str]]:
    """From top to bottom, so that a change further down leaves the ids above as they are."""
    nodes = [node for node in ast.walk(text.tree) if hasattr(node, "lineno")]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        for rule, changes in RULES.items():
            for where, new in changes(text, node):
                yield rule, where, new


def _statements(tree: ast.Module) -> list[str]:
    return [ast.dump(statement) for statement in tree.body]


def mutants_of(op: str, source: str) -> Iterator[Mutant]:
    """Every change of every rule that gives a program nobody made before, with those left out among them."""
    text = Text(source)
    # A change stays within one statement of the module, so that programs are told apart by it alone.
    seen = set(enumerate(_statements(text.tree)))
    places = {node: place for place, outer in enumerate(text.tree.body) for node in ast.walk(outer)}
    numbers: Counter[tuple[str, int]] = Counter()
    for rule, node, new in _changes(text):
        changed = text.changed(node, new)
        place = places[node]
        program = place, ast.dump(ast.parse(changed).body[place])
        if program in seen:
            continue
        seen.add(program)
        line: int = node.lineno  # type: ignore[attr-defined]
        function = text.function(node)
        where = function.name if function is not None else "the module"
        what = f"{where}: `{_short(text.of(node))}` becomes `{_short(new)}`"
        mutant = Mutant(op, rule, line, numbers[rule, line], what, changed, why_equivalent(op, rule, text, node, new))
        numbers[rule, line] += 1
        yield mutant


@cache
def all_mutants(op: str) -> tuple[Mutant, ...]:
    return tuple(mutants_of(op, source_of(op)))


def _spread(found: list[Mutant]) -> list[Mutant]:
    """As many as are asked for, evenly over the file."""
    count = min(MOST_OF_A_RULE, len(found))
    return [found[index * len(found) // count] for index in range(count)]


@cache
def mutants(op: str) -> tuple[Mutant, ...]:
    """The wrong kernels that the judge is held against."""
    wrong = [mutant for mutant in all_mutants(op) if not mutant.skipped]
    return tuple(chosen for rule in RULES for chosen in _spread([m for m in wrong if m.rule == rule]))


def main(ops: list[str]) -> None:
    for op in ops or OPS:
        for mutant in all_mutants(op):
            print(mutant.id, mutant.what, f"-- left out: {mutant.skipped}" if mutant.skipped else "")


if __name__ == "__main__":
    main(sys.argv[1:])
