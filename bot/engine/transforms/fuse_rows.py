"""Work out on the GPU what torch does to rows in several launches in one: lines of a host function that stand together.

    student_logits_chunk = (dx - softmax * dx.sum(dim=-1, keepdim=True).broadcast_to(dx.shape)) / temperature
    student_logits_chunk = student_logits_chunk.to(dtype)

Each operator is a launch that reads whole tensors and writes one: five here, which move 9.5 times the bytes of `dx`
where 3.5 would do. In Liger's fused_linear_jsd such lines are 30 to 56 % of a forward pass on an H100 (torch's
profiler), behind wider chunks. A kernel of ours gives each row a program that walks over it once for what has to be
known of it first, and once more for what is stored.

Looked for are assignments of names that stand one below the other and hold only what `bot.engine.row_expressions`
reads; a last `.to(type)` is how a result is stored. Lines that have nothing to do with each other become kernels of
their own. What is not wanted below is not stored. Results are torch's but for the order in which a row is added up.

Nobody can tell from the text which tensors those are, so the lines stay as they are, in the function that launches the
kernel: for other types than float32, float16 and bfloat16, several of them at once, several shapes, gaps, gradients
that are to be recorded, autocast, numbers that are tensors, and wherever there is no CUDA.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import row_runs, source
from bot.engine.finding import findall
from bot.engine.row_expressions import FULL, NUMBER, ROUNDED
from bot.engine.row_runs import Group, Run, freed_after
from bot.engine.source import NotUnderstood
from bot.engine.transforms.own_kernel import IMPORTS
from bot.engine.transforms.rewrite import Rewrite, refuse_long_lines

TITLE = "One kernel for what torch does to rows in several launches"
WHY = (
    "Each operator of torch's is a launch that reads whole tensors and writes one. A program for each row reads it for "
    "what has to be known of it first, and once more for what is stored."
)
COMMENT = "In one kernel, where torch needs a launch for each operator."
FITS = "_fit_a_kernel"
GUARD = f'''@triton.jit
def {ROUNDED}(x, kind: tl.constexpr):
    return x.to(kind).to(tl.float32)


def {FITS}(tensors, numbers, types):
    """Whether a program a row can do what torch would: of tensors of one kind, without gaps, and plain numbers."""
    one = tensors[0]
    return (
        all(type(tensor) is torch.Tensor for tensor in tensors)
        and one.is_cuda
        and not torch.is_grad_enabled()
        and (one.dtype is torch.float32 or not torch.is_autocast_enabled())
        and all(kind in (torch.float32, torch.float16, torch.bfloat16) for kind in (one.dtype, *types))
        and all((other.shape, other.dtype, other.device) == (one.shape, one.dtype, one.device) for other in tensors)
        and all(tensor.is_contiguous() for tensor in tensors)
        and all(type(number) in (int, float) for number in numbers)
        and one.dim() > 0
        and 0 < one.numel() < 2**31 * one.shape[-1]
    )
'''


def _lines(groups: Sequence[Group], run: Run) -> list[cst.BaseStatement]:
    """The calls, below what was said of the lines."""
    kept = [one for one in run.lines if one not in run.freed]
    above = [line for one in kept for line in cst.ensure_type(one, cst.SimpleStatementLine).leading_lines]
    at = next((at for at, line in enumerate(above) if line.comment is not None), len(above))
    said = [line for number, line in enumerate(above) if number < at or line.comment is not None]
    freed = list(freed_after(groups, run))
    new: list[cst.BaseStatement] = []
    for at, group in enumerate(groups):
        call = source.assignment(
            f"{', '.join(group.wanted)} = {group.helper}({group.arguments})", "" if at else COMMENT
        )
        top = () if at else (*said, *call.leading_lines)
        new += [call.with_changes(leading_lines=top), *(line for place, line in freed if place == at)]
    return new


def _helper(group: Group) -> list[cst.BaseStatement]:
    """The kernel, and who launches it or does what was done before."""
    tensors, numbers, kernel = group.kernel.leaves(FULL), group.kernel.leaves(NUMBER), group.kernel
    first, results = tensors[0], ", ".join(group.wanted)
    made = [
        f"    new_{name} = torch.empty_like({first}{f', dtype={kind}' if (kind := group.last[name].kind) else ''})"
        for name in group.wanted
    ]
    handed = (*tensors, *(f"new_{name}" for name in group.wanted), *numbers, "n_cols", "BLOCK_SIZE=BLOCK_SIZE")
    text = [
        f"def {group.helper}({group.arguments}):",
        f"    if not {FITS}({_tuple(tensors)}, {_tuple(numbers)}, {_tuple(group.kinds)}):",
        "        pass",
        f"        return {results}",
        *made,
        f"    n_cols = {first}.shape[-1]",
        "    BLOCK_SIZE = min(4096, triton.next_power_of_2(n_cols))",
        f"    with torch.cuda.device({first}.device):",
        f"        {kernel.name}[({first}.numel() // n_cols,)](",
        *(f"            {one}," for one in (*handed, "num_warps=max(1, BLOCK_SIZE // 256)")),
        "        )",
        f"    return {', '.join(f'new_{name}' for name in group.wanted)}",
    ]
    module = cst.parse_module("\n".join(text) + "\n")
    (gap,) = findall(module, m.SimpleStatementLine(body=[m.Pass()]))
    old = [step.line.with_changes(leading_lines=()) for step in group.steps]
    return [*cst.parse_module(kernel.text()).body, *source.spliced(module, [(gap, old)]).body]


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _with_imports(text: str) -> str:
    """With the language of kernels, where kernels are launched that others wrote."""
    lines = text.splitlines()
    if IMPORTS[2] in lines or IMPORTS[1] not in lines:
        return text
    lines.insert(lines.index(IMPORTS[1]) + 1, IMPORTS[2])
    return "\n".join(lines) + "\n"


def rewrite(text: str) -> Rewrite | None:
    """Every run of such lines in the functions of a file."""
    try:
        module = source.parse(_with_imports(text))
    except NotUnderstood:
        return None
    said = module.code.splitlines()
    if any(one not in said for one in IMPORTS) or findall(module, m.Name(FITS) | m.Name(ROUNDED)):
        return None
    changes: list[tuple[cst.CSTNode, list[cst.BaseStatement]]] = []
    names: list[str] = []
    above: list[cst.BaseStatement] = []
    for place in module.body:
        helpers: list[cst.BaseStatement] = []
        for function in findall(place, m.FunctionDef()):
            for run, groups in row_runs.found(cst.ensure_type(function, cst.FunctionDef)):
                ours = [one.helper for one in groups] + [one.kernel.name for one in groups]
                if set(ours) & set(names) or len({*ours}) < len(ours) or any(findall(module, m.Name(n)) for n in ours):
                    continue
                names += ours
                helpers += [line for one in groups for line in _helper(one)]
                first, *others = run.lines
                changes += [(first, _lines(groups, run)), *((line, []) for line in others)]
        if helpers:
            guard = [] if above else list(cst.parse_module(GUARD).body)
            above += helpers
            lead = (cst.EmptyLine(indent=False), cst.EmptyLine(indent=False))
            new = [line.with_changes(leading_lines=lead) for line in (*guard, *helpers)]
            changes.append((place, [*new, place]))
    if not changes:
        return None
    return _written(module, changes)


def _written(module: cst.Module, changes: Sequence[tuple[cst.CSTNode, list[cst.BaseStatement]]]) -> Rewrite | None:
    """Lines first, as a function that they stand in has helpers put above it."""
    places = [(old, new) for old, new in changes if new and new[-1] is old]
    inner = [(old, new) for old, new in changes if not (new and new[-1] is old)]
    changed = source.spliced(module, inner)
    moved = {id(old): after for old, after in zip(module.body, changed.body, strict=True)}
    whole = source.spliced(changed, [(moved[id(old)], [*new[:-1], moved[id(old)]]) for old, new in places])
    try:
        refuse_long_lines(module, whole)
    except NotUnderstood:
        return None
    return Rewrite(text=str(whole.code), kernels=(), title=TITLE, why=WHY)


def applies(text: str) -> bool:
    return rewrite(text) is not None
