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

A logarithm of one number a row costs nothing and stays.
"""

from __future__ import annotations

import libcst as cst

from bot.engine import kernels, own_function, source
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite

SPELLED = ("tl.log", "tl.math.log")
LIBRARY = "_libdevice"
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
    return [call for call in kernels.calls(kernel.body, "log") if source.code(call.func) in SPELLED]


def _rewritten(module: cst.Module) -> tuple[cst.Module, tuple[str, ...]]:
    taking = ((one, _calls(one)) for one in own_function.jitted(module))
    found = {one: rows for one, calls in taking if calls and (rows := own_function.of_rows(one, calls))}
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
