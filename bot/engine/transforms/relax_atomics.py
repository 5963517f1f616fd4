"""Say of atomic additions that nobody waits for them.

An addition that says nothing of its order gets the strictest one: compiled for sm_90 all memory of the program is
waited for in front of it (`MEMBAR`) and its cache is emptied behind it (`CCTL.IVALL`), once for each addition. A sum
that is read when the launch is over needs none of that, as the end of a launch is waited for anyway. What is added, and
where, stays as it is, and so does the order in which programs come, which is left to chance.

Asks for a kernel whose every atomic is an addition that stands for itself: who looks at what one returns counts
programs or has them wait for each other. What is added to has to be a parameter that the kernel names nowhere else, so
that nobody reads it meanwhile, and what it calls of its own file or of Triton's, without atomics or waiting. Where one
of them says an order already, its author has thought about it, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst
import libcst.matchers as m

from bot.engine import imports, kernels, source
from bot.engine.atomics import ADDITION
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, in_place, only_these

ORDER, RELAXED = "sem", cst.SimpleString('"relaxed"')
TITLE = "Nobody waits for atomic additions"
WHY = "An addition that says nothing of its order waits for all memory of its program and empties its cache."
WAITS = m.While() | m.Name(m.MatchIfTrue(lambda name: name.startswith(("atomic_", "inline_asm"))))
COMMENT = "Relaxed, as the sums are read when all programs are done."


def _additions(kernel: cst.FunctionDef) -> list[cst.Call]:
    atomics = [call for call in kernels.calls(kernel) if kernels.called_name(call).startswith("atomic_")]
    alone = [cst.ensure_type(cst.ensure_type(one, cst.Expr).value, cst.Call) for one in findall(kernel, ADDITION)]
    if not atomics or len(atomics) != len(alone):
        raise NotUnderstood("there is no atomic addition, or somebody looks at what one returns")
    if any(arg.star or (arg.keyword is not None and arg.keyword.value == ORDER) for call in alone for arg in call.args):
        raise NotUnderstood("an order is said already, or nobody knows what is handed over")
    return alone


def _pointer(call: cst.Call) -> str:
    """What an address begins with: `pointer + this + that`."""
    address = kernels.argument(call, 0, "pointer")
    while isinstance(address, cst.BinaryOperation) and isinstance(address.operator, cst.Add):
        address = address.left
    if not isinstance(address, cst.Name):
        raise NotUnderstood("an address does not begin with a pointer")
    return str(address.value)


def _refuse_readers(kernel: cst.FunctionDef, additions: list[cst.Call]) -> None:
    pointers = [_pointer(call) for call in additions]
    for name in set(pointers):
        if name not in source.parameters(kernel) or source.loads(kernel.body, name) != pointers.count(name):
            raise NotUnderstood(f"{name} is more than what is added to")


def _refuse_waiting(module: cst.Module, kernel: cst.FunctionDef) -> None:
    """Of what it calls nothing may say to other programs that its sums are there, or wait for theirs."""
    helpers = source.named_by(module, kernel)
    if any(imports.calls_others(module, one) for one in (kernel, *helpers)):
        raise NotUnderstood("what it calls is of another file")
    if any(findall(one, WAITS) for one in helpers):
        raise NotUnderstood("what it calls may wait for other programs")


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    additions = _additions(kernel)
    _refuse_readers(kernel, additions)
    _refuse_waiting(module, kernel)

    def relaxed(node: cst.CSTNode) -> cst.CSTNode:
        return source.with_argument(cst.ensure_type(node, cst.Call), ORDER, RELAXED)

    return in_place(module, kernel, additions, relaxed, COMMENT)


def rewrite(text: str, only: str = "") -> Rewrite | None:
    return each_kernel(text, _change, title=TITLE, why=WHY, tuned=True, only=only)


def of_kernels(text: str, names: Collection[str]) -> Rewrite | None:
    return only_these(rewrite, text, names)


def applies(text: str) -> bool:
    return rewrite(text) is not None
