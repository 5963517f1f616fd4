"""Take tanh without a branch: a polynomial near zero and a power of two elsewhere, both for each element.

libdevice's tanh has the same two sides behind a branch at 0.6. Nearly every warp has elements on both, so it goes
through both, for one element after another, and nothing of one element overlaps with the next: compiled for sm_90 with
eight elements a thread dyt's backward has 19 branches and 467 instructions, and 5 and 423 without. On an H200 a sketch
of that backward took 57 us in place of 67 with another tanh by exp2, which has one side alone and is for half precision
(8192 x 4096, rows under way, docs/results/h200/sketches); what is made here gave dyt 1.07x on an H100.

The polynomial is a fit of our own for |x| below 0.55, within two units of float32's last place; the other side is
within about three, as `1 - 2 / (exp2(x * 2 / ln 2) + 1)` has nothing to cancel there. NaNs stay, infinities become one.
One side alone was refused by the judge, in float32 and for rows of small numbers.

Looked for where `tanh` is imported from Triton's libdevice, by whatever conditions, or called as `libdevice.tanh`, and
a kernel takes it of a row. What is imported stays, for float64. Where every such call stands behind a condition, as a
softcap's does, most launches take none, and it is left alone.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import imports, kernels, own_function, source
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite

NAME = "tanh"
HOME, LIBRARY = "triton.language", "libdevice"
TEXT = """

@triton.jit
def _tanh_by_exp2(x):
    # libdevice's has a branch, which nearly every warp takes both ways, for one element after another.
    if x.dtype == tl.float64:
        y = {tanh}(x)
    else:
        square = x * x
        near = x * (1.0 + square * (-0.3333295 + square * (0.1332072 + square * (-0.0526718 + square * 0.0164376))))
        far = 1.0 - 2.0 / (tl.math.exp2(x * 2.8853900817779268) + 1.0)
        y = tl.where(square < 0.3, near, far)
    return y
"""


def _spelling(module: cst.Module) -> str:
    """How the module says libdevice's tanh. Raises NotUnderstood where it does not, or says something else so."""
    whole = [where for name, where in imports.brought(module) if name == NAME]
    library = [where for name, where in imports.brought(module) if name == LIBRARY]
    for said, brought in ((NAME, whole), (f"{LIBRARY}.{NAME}", library)):
        if brought:
            ours = all(where.startswith(f"{HOME}.") and where.endswith(f".{said.split('.')[0]}") for where in brought)
            if not ours or not any(LIBRARY in where for where in brought) or _is_bound(module, said.split(".")[0]):
                raise NotUnderstood(f"{said} may be something else")
            return said
    raise NotUnderstood("nobody imports a tanh of libdevice")


def _is_bound(module: cst.Module, name: str) -> bool:
    """Whether anything but an import gives the name a meaning."""
    targets = m.AssignTarget(target=m.Name(name)) | m.Param(name=m.Name(name)) | m.FunctionDef(name=m.Name(name))
    return bool(findall(module, targets))


def _calls(kernel: cst.FunctionDef, said: str) -> list[cst.Call]:
    return [call for call in kernels.calls(kernel.body, NAME) if source.code(call.func) == said]


def _of_rows(kernel: cst.FunctionDef, said: str) -> list[cst.Call]:
    """All calls of a kernel that takes it of a row in every launch, else none."""
    calls = _calls(kernel, said)
    hidden = {node for branch in findall(kernel.body, m.If()) for node in nodes(branch)}
    return calls if any(call not in hidden for call in own_function.of_rows(kernel, calls)) else []


def _rewritten(module: cst.Module) -> tuple[cst.Module, tuple[str, ...]]:
    said = _spelling(module)
    found = {one: calls for one in own_function.jitted(module) if (calls := _of_rows(one, said))}
    if not found:
        raise NotUnderstood("no kernel takes the tanh of a row, whatever the launch")
    return own_function.brought(module, (kernels.TANH,), TEXT.format(tanh=said), found)


def rewrite(text: str) -> Rewrite | None:
    """A file whose kernels take the tanh of libdevice of a row."""
    if NAME not in text or any(line not in text.splitlines() for line in own_function.LINES):
        return None
    try:
        module, takers = _rewritten(source.parse(text))
    except NotUnderstood:
        return None
    return Rewrite(
        text=source.written(module),
        kernels=takers,
        title="Take tanh without a branch",
        why="libdevice's tanh is a polynomial below 0.6 and an exponential above, behind a branch that nearly every "
        "warp takes both ways, for one element after another. Both sides without a branch, and elements overlap.",
        seen="A sketch of dyt's backward took 57 us in place of 67 with another tanh by exp2 on an H200 (8192 x 4096).",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
