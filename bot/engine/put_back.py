"""A campaign is about one op. What an idea changed of others that stand in the same file is put back: nobody measures
them here, and a maintainer who merges the winners of both would find two versions of every line.

A rewrite sees kernels, and takes all that it knows a better way for: that of mhc_pre changed mhc_post_res as well.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from bot.analysis.callers import decorators
from bot.model.variant import SourceFile

Key = tuple[str, frozenset[str]]
"""Where a piece stands, and the names that it gives."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The files with the op's own changes alone, and the names of what is as it was again."""

    files: tuple[SourceFile, ...]
    put_back: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A statement of a module with the comments above it."""

    path: str
    text: str
    binds: frozenset[str]
    """Empty where it is no definition, import or assignment: such lines stay whatever they say."""
    uses: frozenset[str]
    is_kernel: bool = False


def _is_kernel(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(name.split(".")[-1] == "jit" for name in decorators(node))


def _binds(node: ast.stmt) -> frozenset[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return frozenset({name})
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return frozenset(one.asname or one.name.split(".")[0] for one in names)
        case ast.Assign(targets=targets):
            return frozenset(n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            return frozenset({name})
    return frozenset()


@lru_cache(maxsize=64)
def _pieces(path: str, text: str) -> tuple[tuple[_Piece, ...], str]:
    """And what follows the last of them."""
    # As Python counts lines: to str.splitlines a form feed in a comment ends one.
    lines, found, done = io.StringIO(text, newline="").readlines(), [], 0
    for node in ast.parse(text).body:
        end = node.end_lineno or node.lineno
        binds = _binds(node)
        uses = frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)) - binds
        found.append(_Piece(path, "".join(lines[done:end]), binds, uses, _is_kernel(node)))
        done = end
    return tuple(found), "".join(lines[done:])


def _key(piece: _Piece) -> Key:
    return piece.path, piece.binds


def _by_names(pieces: Iterable[_Piece]) -> Mapping[Key, _Piece] | None:
    """None where a name is given twice: what stood where cannot be told then."""
    found: dict[Key, _Piece] = {}
    for piece in pieces:
        if piece.binds and found.setdefault(_key(piece), piece) is not piece:
            return None
    return found


def _names(pieces: Iterable[_Piece]) -> frozenset[str]:
    return frozenset(name for piece in pieces for name in piece.binds)


def _who_uses(pieces: Collection[_Piece], of: frozenset[str]) -> frozenset[str]:
    """These names, and all that leads to them."""
    while more := _names(piece for piece in pieces if piece.uses & of) - of:
        of |= more
    return of


def _what_it_uses(pieces: Collection[_Piece], of: frozenset[str]) -> frozenset[str]:
    """These names, and all that they lead to."""
    while more := frozenset(name for piece in pieces if piece.binds & of for name in piece.uses) - of:
        of |= more
    return of


def _of_others(pieces: Collection[_Piece], launched: frozenset[str]) -> frozenset[str]:
    """Kernels that the op's own part does not lead to, and whatever leads to them."""
    own = _what_it_uses(pieces, _who_uses(pieces, launched))
    kernels = frozenset(name for piece in pieces if piece.is_kernel for name in piece.binds)
    return _who_uses(pieces, kernels - own) - own


def _go_together(kept: frozenset[_Piece], changed: Collection[_Piece]) -> frozenset[_Piece]:
    """With what was changed for their sake, and what was changed because of them."""
    while True:
        names, used = _names(kept), frozenset(name for piece in kept for name in piece.uses)
        more = frozenset(piece for piece in changed if piece.uses & names or piece.binds & used) - kept
        if not more:
            return kept
        kept |= more


def _back(
    were: Mapping[Key, _Piece], now: Mapping[Key, _Piece], launched: frozenset[str], loose: Collection[_Piece]
) -> set[Key]:
    """What is another op's alone. `loose` gives no name, and stays."""
    others = _of_others(list(were.values()), launched)
    changed = [piece for key, piece in now.items() if key not in were or were[key].text != piece.text]
    asked_for = _what_it_uses(changed, others)  # a new function that others use comes and goes with them
    own = frozenset(one for one in changed if not one.binds & (others if _key(one) in were else asked_for))
    kept = _go_together(own | frozenset(loose), changed)
    back = {_key(piece) for piece in changed if piece not in kept}
    gone = _names(were[key] for key in were.keys() - now.keys())
    return set() if any(were[key].uses & gone for key in back & were.keys()) else back


@lru_cache(maxsize=128)
def put_back(before: tuple[SourceFile, ...], after: tuple[SourceFile, ...], launched: frozenset[str]) -> Kept:
    """`launched`: the kernels that the op's passes launch. Where it cannot be told what is whose, all stays."""
    try:
        old = [piece for file in before for piece in _pieces(file.path, file.text)[0]]
        split = {file.path: _pieces(file.path, file.text) for file in after}
    except (SyntaxError, ValueError, RecursionError):
        return Kept(after)
    new = [piece for pieces, _ in split.values() for piece in pieces]
    were, now = _by_names(old), _by_names(new)
    if were is None or now is None or not any((piece.binds | piece.uses) & launched for piece in old):
        return Kept(after)
    back = _back(were, now, launched, [piece for piece in new if not piece.binds])

    def text(piece: _Piece) -> str:
        key = _key(piece)
        return piece.text if key not in back else were[key].text if key in were else ""

    texts = {path: "".join(map(text, pieces)) + rest for path, (pieces, rest) in split.items()}
    files = tuple(SourceFile(path=file.path, text=texts[file.path]) for file in after)
    return Kept(files, frozenset(name for _, binds in back for name in binds)) if back else Kept(after)
