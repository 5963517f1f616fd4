"""Who imports a file, read from the sources alone: no code of the target runs."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from bot.targets.tree import TreeReader, read_text

Asked = tuple[str, str]
"""(module, name) of `from module import name`; the name is empty for `import module`."""

ANY = ("",)
REGISTRY = "dispatch()"
"""Stands for a module: what liger-kernel registers with `@register_op("name")` and calls with `dispatch("name")`."""


def module_name(path: str, root: str) -> str:
    """`src/pkg/ops/__init__.py` below `src` is `pkg.ops`; a file outside has its whole path for a name."""
    inner = PurePosixPath(path.removeprefix(f"{root}/") if root else path)
    parts = inner.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True, slots=True)
class Source:
    module: str
    is_package: bool
    code: ast.Module


def _is_init(path: str) -> bool:
    return PurePosixPath(path).name == "__init__.py"


def _source(tree: TreeReader, path: str, root: str, words: Collection[str]) -> Source | None:
    """A file that has one of the words in it; most have none, and are not parsed."""
    text = read_text(tree, path)
    if text is None or not any(word in text for word in words):
        return None
    try:
        return Source(module_name(path, root), _is_init(path), ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _base(node: ast.ImportFrom, source: Source) -> str:
    """The absolute name that a `from` import starts at."""
    if not node.level:
        return node.module or ""
    parts = source.module.split(".")
    kept = parts[: len(parts) - node.level + (1 if source.is_package else 0)]
    return ".".join([*kept, node.module] if node.module else kept)


def called_with(node: ast.AST, function: str) -> str | None:
    """The text that a call of this function begins with."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0]
    text = first.value if isinstance(first, ast.Constant) else None
    return text if called == function and isinstance(text, str) else None


def _registered(source: Source) -> set[str]:
    return {text for node in ast.walk(source.code) if (text := called_with(node, "register_op"))}


def _asked(source: Source) -> Iterator[tuple[Asked, str]]:
    """Everything a file imports, anywhere in it, and the name it gets there."""
    for node in ast.walk(source.code):
        if isinstance(node, ast.Import):
            yield from (((name.name, ""), name.asname or name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (((_base(node, source), name.name), name.asname or name.name) for name in node.names)
        elif text := called_with(node, "dispatch"):
            yield (REGISTRY, text), text


def _defined(source: Source) -> Iterator[str]:
    """Names that `import *` would bring."""
    for node in source.code.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _reaches(asked: Asked, names: Mapping[str, Collection[str]]) -> bool:
    """`names` holds, per module, what comes from a changed file; `*` stands for the file itself."""
    module, name = asked
    known = names.get(module, ())
    return "*" in known or name in known or (name == "*" and bool(known)) or "*" in names.get(f"{module}.{name}", ())


def _passed_on(source: Source, names: Mapping[str, Collection[str]]) -> set[str]:
    """What a package hands on from the changed files, as `from .jsd import JSD` in an `__init__` does."""
    found: set[str] = set()
    for asked, called in _asked(source):
        if asked[1] == "*":
            found |= {name for name in names.get(asked[0], ()) if name != "*" and not name.startswith("_")}
        elif asked[1] and _reaches(asked, names):
            found.add(called)
    return found


def _hand_on(packages: Collection[Source], names: dict[str, set[str]]) -> None:
    """Add what each package hands on, until no package adds anything."""
    grown = True
    while grown:
        grown = False
        for package in packages:
            known = names.setdefault(package.module, set())
            more = _passed_on(package, names) - known
            known |= more
            grown = grown or bool(more)


def importers(tree: TreeReader, changed: Collection[str], *, root: str, among: Collection[str]) -> tuple[str, ...]:
    """Which of the files import a changed one: directly, or by a name that packages hand on, through any number."""
    names: dict[str, set[str]] = {REGISTRY: set()}
    for path in changed:
        source = _source(tree, path, root, ANY)
        names[module_name(path, root)] = {"*", *(_defined(source) if source else ())}
        names[REGISTRY] |= _registered(source) if source else set()
    modules = [path for path in among if path not in changed and not _is_init(path)]
    words = {module.rsplit(".", 1)[-1] for module in names} | {"import *"}
    _hand_on([s for path in among if _is_init(path) and (s := _source(tree, path, root, ANY))], names)
    words = words.union(*names.values()) - {"*"}
    found = ((path, _source(tree, path, root, words)) for path in modules)
    return tuple(path for path, s in found if s and any(_reaches(asked, names) for asked, _ in _asked(s)))


def _private(source: Source) -> Iterator[str]:
    """Functions that are a file's own business, unless somebody imports them."""
    for node in source.code.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (node.name,) if node.name.startswith("_") and not node.name.startswith("__") else ()


def _names_asked(source: Source, modules: Collection[str]) -> set[str]:
    """What a file imports from these modules by name, or asks of one that it imports whole."""
    asked = dict(_asked(source))
    found = {name for module, name in asked if module in modules}
    if any((module in modules and not name) or f"{module}.{name}" in modules for module, name in asked):
        found |= {node.attr for node in ast.walk(source.code) if isinstance(node, ast.Attribute)}
    return found


def relied_on(tree: TreeReader, files: Collection[str], *, root: str, under: Collection[str]) -> tuple[str, ...]:
    """Private functions of these files that another Python file below these folders imports: whoever launches a kernel
    himself, as a test of rows beyond 2^31 elements does, hands over its arguments as they are today."""
    own = [source for path in files if (source := _source(tree, path, root, ANY))]
    private = {name for source in own for name in _private(source)}
    modules = {module_name(path, root) for path in files}
    others = {path for folder in under for path in tree.list(folder) if path.endswith(".py")} - set(files)
    sources = (_source(tree, path, root, private) for path in (others if private else ()))
    asked = (name for source in sources if source for name in _names_asked(source, modules))
    return tuple(sorted(private.intersection(asked)))
