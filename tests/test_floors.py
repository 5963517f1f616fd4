"""Walks every import of bot/ and holds the house: floors, doors, walls, guests. The tables are the rules."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FLOOR = {
    **dict.fromkeys(("bot", "model", "errors"), 0),
    **dict.fromkeys(("commands", "campaign", "hardware", "analysis", "engine", "guardrails", "synthesis", "render"), 1),
    **dict.fromkeys(("forge", "git", "ledger", "bench", "proposers", "targets", "localhub", "settings"), 2),
    "zones": 3,
    "cli": 4,
    "__main__": 5,
}
NEIGHBOURS = {  # who may knock at a room of the same floor
    ("guardrails", "analysis"),
    ("engine", "analysis"),
    ("analysis", "hardware"),
    ("ledger", "git"),
    ("bench", "git"),
    ("localhub", "git"),
    ("proposers", "engine"),
}
GUESTS = {"worker": ("bot.worker",), "judge": ("bot.judge", "bot.worker.contract")}  # what each guest house may import
GUEST_LIBRARIES = {"torch", "triton", "numpy"}
WALLS = {  # zone -> what it may not reach, however long the chain
    "bot.zones.measure": ("bot.forge", "bot.ledger.branch"),
    **dict.fromkeys(
        ("bot.zones.decide", "bot.zones.publish", "bot.zones.push"), ("bot.bench", "bot.judge", "bot.worker")
    ),
}
HEAVY = {"torch", "triton", "pandas", "matplotlib"}
DOORS_ONLY = {"subprocess", "socket", "requests", "github", "torch", "triton", "time"}  # never on floors 0 and 1
NEWER_THAN_310 = {
    "tomllib",
    "StrEnum",
    "Self",
    "Never",
    "assert_never",
    "assert_type",
    "LiteralString",
    "UTC",
    "ExceptionGroup",
}
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc"}
LONGEST = 400
LONGEST_TEST = 600


def modules(root: Path) -> dict[str, Path]:
    named = {}
    for path in sorted((root / "bot").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "bot"


def inside(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def named_by(node: ast.AST, module: str, package: bool) -> Iterator[str]:
    """What one statement imports, as absolute dotted names; `from a import b` may mean a or a.b."""
    match node:
        case ast.Import(names=names):
            yield from (name.name for name in names)
        case ast.ImportFrom(module=source, names=names, level=level):
            above = module.split(".")[: len(module.split(".")) - level + package] if level else []
            start = ".".join([*above, *([source] if source else [])])
            yield from (f"{start}.{name.name}" for name in names)
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
            args=[ast.Constant(value=str(name))],
        ):
            yield name


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@dataclass(frozen=True)
class Place:
    """Where a statement stands: in a function, or where the type checker alone reads."""

    inner: bool = False
    typing: bool = False


def _below(node: ast.AST, place: Place) -> Iterator[tuple[ast.AST, Place]]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        yield from ((child, replace(place, typing=True)) for child in node.body)
        yield from ((child, place) for child in node.orelse)
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        place = replace(place, inner=True)
    yield from ((child, place) for child in ast.iter_child_nodes(node))


@cache
def naming(path: Path) -> tuple[tuple[ast.AST, Place], ...]:
    """What may import something, with its place. Expressions are looked through only where one of them imports."""
    tree, found = parsed(path), []
    in_expressions = "import_module" in path.read_text(encoding="utf-8")
    waiting: list[tuple[ast.AST, Place]] = [(tree, Place())]
    while waiting:
        node, place = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            found.append((node, place))
        if in_expressions or not isinstance(node, ast.expr):
            waiting.extend(_below(node, place))
    return tuple(found)


@cache
def imported(path: Path, module: str, *, inner: bool = True, typing: bool = True) -> frozenset[str]:
    """What a file imports; `inner`: inside functions too, `typing`: for the type checker alone too."""
    asked = [node for node, place in naming(path) if (inner or not place.inner) and (typing or not place.typing)]
    return frozenset(name for node in asked for name in named_by(node, module, path.name == "__init__.py"))


def resolved(name: str, known: Mapping[str, Path]) -> str | None:
    """bot.model.ids.KernelName -> bot.model.ids; None for what is not ours."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def edges(named: Mapping[str, Path], *, typing: bool = True) -> dict[str, set[str]]:
    found = {}
    for module, path in named.items():
        targets = {resolved(name, named) for name in imported(path, module, typing=typing)}
        found[module] = {target for target in targets if target and target != module}
    return found


def reached(start: str, graph: Mapping[str, set[str]]) -> dict[str, str]:
    """Everything importing `start` runs, packages above each module included -> who brought it."""
    seen, waiting = {start: ""}, [start]
    while waiting:
        module = waiting.pop()
        above = [module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1)]
        for target in [*sorted(graph.get(module, ())), *above]:
            if target not in seen:
                seen[target] = module
                waiting.append(target)
    return seen


def chain(target: str, seen: Mapping[str, str]) -> str:
    steps = [target]
    while seen[steps[-1]]:
        steps.append(seen[steps[-1]])
    return " <- ".join(steps)


def may_import(here: str, there: str) -> bool:
    below = FLOOR[there] < FLOOR[here] or FLOOR[there] == 0
    return here == there or below or (here, there) in NEIGHBOURS


def on_floors(graph: Mapping[str, set[str]]) -> Iterator[str]:
    for module, targets in graph.items():
        here = room(module)
        if here not in FLOOR and here not in GUESTS:
            yield f"{module}: no floor is known for room '{here}'; give it one in the table"
            continue
        for target in sorted(targets):
            there = room(target)
            if here in GUESTS:
                if not any(inside(target, allowed) for allowed in GUESTS[here]):
                    yield f"{module} imports {target}: a guest house imports only itself"
            elif there in GUESTS:
                if not (here == "bench" and inside(target, "bot.worker.contract")):
                    yield f"{module} imports {target}: nobody imports a guest house (bench may read worker.contract)"
            elif there in FLOOR and not may_import(here, there):
                yield f"{module} imports {target}: floor {FLOOR[here]} may not import {there} on floor {FLOOR[there]}"


def through_walls(graph: Mapping[str, set[str]]) -> Iterator[str]:
    for zone, forbidden in WALLS.items():
        seen = reached(zone, graph)
        for target in sorted(seen):
            if any(inside(target, wall) for wall in forbidden):
                yield f"{zone} reaches {chain(target, seen)}"


def knots(graph: Mapping[str, set[str]]) -> Iterator[str]:
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> Iterator[str]:
        if module in path:
            yield "import cycle: " + " -> ".join([*path[path.index(module) :], module])
        elif module not in done:
            for target in sorted(graph.get(module, ())):
                yield from walk(target, [*path, module])
            done.add(module)

    for module in graph:
        yield from walk(module, [])


def outside_libraries(named: Mapping[str, Path]) -> Iterator[str]:
    for module, path in named.items():
        tops = {name.split(".")[0] for name in imported(path, module)} - {"bot"}
        here = room(module)
        if here in GUESTS:
            for top in sorted(tops - GUEST_LIBRARIES - sys.stdlib_module_names):
                yield f"{module} imports {top}: a guest house has the standard library, torch, triton and numpy"
            continue
        if FLOOR.get(here, 9) <= 1:
            for top in sorted(tops & DOORS_ONLY):
                yield f"{module} imports {top}: floors 0 and 1 have no clock, network, process or GPU"
        if FLOOR.get(here, 9) == 0:
            for top in sorted(tops - sys.stdlib_module_names - {"pydantic", "pydantic_core", "typing_extensions"}):
                yield f"{module} imports {top}: the words know no library but the schema's"
        for top in sorted({name.split(".")[0] for name in imported(path, module, inner=False, typing=False)} & HEAVY):
            yield f"{module} imports {top} at its top: import it inside the function that needs it"


def old_enough(named: Mapping[str, Path]) -> Iterator[str]:
    for module, path in named.items():
        if room(module) not in GUESTS:
            continue
        try:
            ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))
        except SyntaxError as error:
            yield f"{module} line {error.lineno}: not Python 3.10: {error.msg}"
        for name in sorted(imported(path, module)):
            if name.rsplit(".")[-1] in NEWER_THAN_310:
                yield f"{module} imports {name}: Python 3.10 has no such name"


def shapes(root: Path) -> Iterator[str]:
    for folder in ("bot", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            shown = path.relative_to(root)
            if {path.stem, *path.relative_to(root).parts[:-1]} & VAGUE:
                yield f"{shown}: say what is in it instead"
            lines = path.read_text(encoding="utf-8").count("\n")
            most = LONGEST if folder == "bot" else LONGEST_TEST
            if lines > most:
                yield f"{shown}: {lines} lines, {most} are enough"


def broken(root: Path) -> list[str]:
    named = modules(root)
    written, run = edges(named), edges(named, typing=False)
    rules = (
        on_floors(written),
        through_walls(run),
        knots(run),
        outside_libraries(named),
        old_enough(named),
        shapes(root),
    )
    return [complaint for rule in rules for complaint in rule]


def test_the_house_stands() -> None:
    complaints = broken(ROOT)
    assert not complaints, "\n" + "\n".join(complaints)


def test_the_walk_sees_the_house() -> None:
    graph = edges(modules(ROOT))
    assert len(graph) > 40
    assert "bot.model.ids" in graph["bot.model.campaign"]


def test_help_is_light() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bot", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in ran.stderr.splitlines() if "|" in line}
    assert "click" in loaded
    assert loaded & HEAVY == set()
    assert "Usage" in ran.stdout


PLANTED = {
    "upward": ({"bot/model/a.py": "from bot.git import repo", "bot/git/repo.py": ""}, "floor 0 may not import git"),
    "sideways": ({"bot/render/a.py": "import bot.engine.space", "bot/engine/space.py": ""}, "may not import engine"),
    "a door to a door": (
        {"bot/forge/a.py": "from bot.git.repo import Repo", "bot/git/repo.py": ""},
        "may not import git",
    ),
    "in a function": (
        {"bot/model/a.py": "def f():\n    import bot.cli", "bot/cli/__init__.py": ""},
        "may not import cli",
    ),
    "relative": (
        {"bot/model/a.py": "from ..cli import demo", "bot/cli/demo.py": "", "bot/__init__.py": ""},
        "bot.cli.demo",
    ),
    "by name": (
        {"bot/model/a.py": "import importlib\nimportlib.import_module('bot.cli')", "bot/cli/__init__.py": ""},
        "may not import cli",
    ),
    "unknown room": ({"bot/attic/a.py": ""}, "no floor is known for room 'attic'"),
    "a curious guest": ({"bot/judge/a.py": "import bot.model.ids", "bot/model/ids.py": ""}, "imports only itself"),
    "a guest's friend": ({"bot/worker/a.py": "import pydantic"}, "a guest house has the standard library"),
    "a guest received": (
        {"bot/zones/measure.py": "import bot.judge", "bot/judge/__init__.py": ""},
        "nobody imports a guest",
    ),
    "bench looks too deep": (
        {"bot/bench/a.py": "import bot.worker.shim", "bot/worker/shim.py": ""},
        "nobody imports a guest",
    ),
    "a wall, by a detour": (
        {
            "bot/zones/measure.py": "import bot.targets.a",
            "bot/targets/a.py": "import bot.forge.b",
            "bot/forge/b.py": "",
        },
        "bot.zones.measure reaches bot.forge.b <- bot.targets.a <- bot.zones.measure",
    ),
    "a wall, by a package": (
        {
            "bot/zones/push.py": "import bot.git.repo",
            "bot/git/__init__.py": "import bot.bench",
            "bot/git/repo.py": "",
            "bot/bench/__init__.py": "",
        },
        "bot.zones.push reaches bot.bench",
    ),
    "a branch in measure": (
        {"bot/zones/measure.py": "from bot.ledger import branch", "bot/ledger/branch.py": ""},
        "bot.zones.measure reaches bot.ledger.branch",
    ),
    "a knot": (
        {"bot/git/a.py": "import bot.git.b", "bot/git/b.py": "from bot.git import a"},
        "import cycle: bot.git.a -> bot.git.b",
    ),
    "a clock": ({"bot/campaign/a.py": "import time"}, "floors 0 and 1 have no clock"),
    "a word with a library": ({"bot/model/a.py": "import jinja2"}, "no library but the schema's"),
    "heavy": ({"bot/bench/a.py": "try:\n    import torch\nexcept ImportError:\n    pass"}, "imports torch at its top"),
    "too new": ({"bot/worker/a.py": "from enum import StrEnum"}, "Python 3.10 has no such name"),
    "vague": ({"bot/git/utils.py": ""}, "say what is in it"),
    "long": ({"bot/git/a.py": "x = 1\n" * 401}, "401 lines"),
}

ALLOWED = {
    "bot/model/a.py": "import pydantic\nimport bot.errors",
    "bot/errors.py": "",
    "bot/guardrails/a.py": "import bot.analysis.b",
    "bot/analysis/b.py": "import bot.hardware.c\nfrom bot.model import a",
    "bot/hardware/c.py": "x = 1\n" * 400,
    "bot/bench/d.py": "from bot.worker.contract.frames import Frame\n\ndef f():\n    import torch",
    "bot/worker/contract/frames.py": "import torch, json",
    "bot/judge/e.py": "from bot.worker.contract import Frame\nimport numpy",
    "bot/zones/measure.py": "from bot.ledger import journal\nimport bot.bench.d",
    "bot/ledger/__init__.py": "",
    "bot/ledger/journal.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas",
    "bot/ledger/branch.py": "import bot.forge_like, time",
    "bot/zones/decide.py": "import bot.ledger.branch, bot.zones.push",
    "bot/zones/push.py": "",
    "bot/git/repo.py": "import bot.git.entries",
    "bot/git/entries.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import bot.git.repo",
}


def build(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    files, complaint = PLANTED[name]
    found = broken(build(tmp_path, files))
    assert any(complaint in line for line in found), found


def test_what_the_house_allows_is_left_alone(tmp_path: Path) -> None:
    assert broken(build(tmp_path, ALLOWED)) == []
