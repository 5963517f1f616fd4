"""Take the logarithm that a GPU has an instruction for, where one is taken of each element of a row.

`tl.log` is libdevice's: a polynomial with what belongs to zero, infinity and numbers that are none, some twenty-five
instructions an element as compiled for sm_90, and `tl.math.log2` is no shorter. NVIDIA's GPUs have an instruction for
it, within 2^-22, and libdevice a function that is this instruction and one product. jsd's kernel has 52 instructions an
element with it in place of 75 (blocks of 4096, 8 warps), and at 8192 x 32000 it takes as long on an H100 as on an H200,
whose memory is nearly half as fast again: most likely it waits for its arithmetic. On an H200 jsd is 1.26x as fast so.

Where libdevice has no such function, as AMD's, whose `tl.log` is short already, and for float64, it stays `tl.log`:
that is decided when the kernel is compiled, for the GPU that it is compiled for. How far off an element may be the
judge tells, as of every change; near one the instruction is as good as a sum with a number of that size, not as a
logarithm that is close to zero.

Below 1.2e-38, where float32 has fewer digits and tl.log still gives -87 to -103, it is minus infinity.

Refused where a root or a logarithm is taken of a logarithm, or something is divided by it. Close to one the instruction
may be off by more than the logarithm is, and on the other side of zero: `tl.sqrt(tl.log(1.0 + tl.exp(x)))` may be none.

A logarithm of one number a row costs nothing and stays, also where a program has a tile of rows: `d` is one where the
kernel also says `d[:, None]`.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, columns, kernels, own_function, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite

SPELLED = ("tl.log", "tl.math.log")
LIBRARY = "_libdevice"
ROOTS = ("sqrt", "sqrt_rn", "rsqrt")
LOGARITHMS = ("log", "log2", "log1p", kernels.LOG)
ONE_A_ROW = m.Subscript(value=m.Name(), slice=[m.AtLeastN(n=1), kernels.NEW_AXIS])
DIVISION = m.BinaryOperation(operator=m.Divide()) | m.AugAssign(operator=m.DivideAssign())
TEXT = """

if tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 1):
    from triton.language.extra import libdevice as _libdevice
else:
    _libdevice = tl.math


@triton.jit
def _quick_log(x):
    # One instruction where the GPU has it, and libdevice a name for it; tl.log is a polynomial on NVIDIA's.
    if x.dtype == tl.float32:
        y = getattr(_libdevice, "fast_logf", tl.log)(x)
    else:
        y = tl.log(x)
    return y
"""


def _calls(kernel: cst.FunctionDef) -> list[cst.Call]:
    of_rows = {source.code(cst.ensure_type(one, cst.Subscript).value) for one in findall(kernel, ONE_A_ROW)}
    found = [call for call in kernels.calls(kernel.body, "log") if source.code(call.func) in SPELLED]
    return [call for call in found if not of_rows.intersection(source.code(arg.value) for arg in call.args)]


def _is_near_zero_seen(kernel: cst.FunctionDef, calls: list[cst.Call]) -> bool:
    """Whether it matters how close to zero one of these logarithms is, and on which side."""

    def is_one(node: cst.CSTNode, known: set[str]) -> bool:
        return columns.holds(node, lambda call: any(call is one for one in calls), known)

    made = columns.spread(kernel, is_one)
    once = made & addresses.names_of(kernel).made.keys()  # `x = tl.log(x)` is no logarithm of one
    roots = [arg for call in kernels.calls(kernel) if kernels.called_name(call) in ROOTS for arg in call.args]
    again = [arg for call in kernels.calls(kernel) if kernels.called_name(call) in LOGARITHMS for arg in call.args]
    divisors = [one.right if isinstance(one, cst.BinaryOperation) else one.value for one in findall(kernel, DIVISION)]
    return any(is_one(node, made) for node in (*roots, *divisors)) or any(is_one(node, once) for node in again)


def _rewritten(module: cst.Module) -> tuple[cst.Module, tuple[str, ...]]:
    taking = ((one, _calls(one)) for one in own_function.jitted(module))
    rows = {one: own_function.of_rows(one, calls) for one, calls in taking if calls}
    found = {one: calls for one, calls in rows.items() if calls and not _is_near_zero_seen(one, calls)}
    if not found:
        raise NotUnderstood("no kernel takes the logarithm of a row")
    return own_function.brought(module, (LIBRARY, kernels.LOG), TEXT, found)


def rewrite(text: str) -> Rewrite | None:
    """A file whose kernels take the logarithm of each element of a row."""
    if "log" not in text or any(line not in text.splitlines() for line in own_function.LINES):
        return None
    try:
        module, takers = _rewritten(source.parse(text))
    except NotUnderstood:
        return None
    return Rewrite(
        text=source.written(module),
        kernels=takers,
        title="Take the logarithm that the GPU has an instruction for",
        why="tl.log is a polynomial of some twenty-five instructions an element, and no shorter to the base of two. "
        "NVIDIA's GPUs have an instruction for it, within 2^-22, and libdevice a name for that.",
        seen="Compiled for sm_90, jsd's kernel has 52 instructions an element in place of 75.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
