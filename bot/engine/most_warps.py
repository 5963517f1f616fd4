"""The most warps that a launch may have, in the words of the module that it stands in.

A program has at most 1024 threads: 32 warps of NVIDIA's, and 16 of AMD's, which have 64 lanes each. More do not launch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

MOST_WARPS = 32
ANYWHERE = 16
"""So many launch on every GPU."""


@dataclass(frozen=True, slots=True)
class Most:
    """How a module says the most warps of a launch."""

    text: str
    name: m.Name
    made: m.BaseMatcherNode
    """What makes the name known in a line of the module."""
    stands: m.BaseMatcherNode
    """Where the name may stand: anywhere else, and it may mean something else."""


IS_HIP, TORCH = m.Name("is_hip"), m.Name("torch")
MOST = (
    Most(
        f"{MOST_WARPS} if not is_hip() else {ANYWHERE}",
        IS_HIP,
        m.FunctionDef(name=IS_HIP) | m.ImportFrom(names=[m.ZeroOrMore(), m.ImportAlias(IS_HIP, None), m.ZeroOrMore()]),
        m.FunctionDef(name=IS_HIP) | m.ImportAlias(name=IS_HIP) | m.Call(func=IS_HIP, args=[]),
    ),
    Most(
        f"{ANYWHERE} if torch.version.hip else {MOST_WARPS}",
        TORCH,
        m.Import(names=[m.ZeroOrMore(), m.ImportAlias(TORCH, None), m.ZeroOrMore()]),
        m.ImportAlias(name=TORCH) | m.ImportFrom(module=TORCH) | m.Attribute(value=TORCH) | m.Arg(value=TORCH),
    ),
)
"""Best first."""
OF_ITS_OWN = re.compile(r"(?<![a-z])hip(?![a-z])", re.IGNORECASE)
SAID = (*(most.text for most in MOST), str(MOST_WARPS))
"""All that may stand for it."""


def with_most(text: str, module: cst.Module) -> str:
    """The text with the most warps where it says `{most}`."""
    return text.replace("{most}", _most(module)) if "{most}" in text else text


@lru_cache(maxsize=16)
def _most(module: cst.Module) -> str:
    """The most warps that a launch may have, as the module would say it: with its `is_hip`, else with its `torch`. One
    that has neither at hand is told 32, and then a launch of more than 16 fails on AMD, as a plain 32 always did.

    Raises NotUnderstood where it speaks of HIP in another way: what it did for AMD would be lost.
    """
    for most in MOST:
        made = any(_makes(line, most) for line in module.body)
        if made and len(findall(module, most.name)) == len(findall(module, most.stands)):
            return most.text
    if OF_ITS_OWN.search(module.code):
        raise NotUnderstood("it tells AMD apart in words of its own")
    return str(MOST_WARPS)


def _makes(line: cst.CSTNode, most: Most) -> bool:
    """Whether a line of the module itself makes the name known: not one in a branch, which may be left out."""
    parts = line.body if isinstance(line, cst.SimpleStatementLine) else (line,)
    return any(m.matches(part, most.made) for part in parts)
