"""Work out on the GPU what torch does to rows in several launches in one: lines of a host function that stand together.

    student_logits_chunk = (dx - softmax * dx.sum(dim=-1, keepdim=True).broadcast_to(dx.shape)) / temperature
    student_logits_chunk = student_logits_chunk.to(dtype)

Each operator is a launch that reads whole tensors and writes one: five here, which move 9.5 times the bytes of `dx`
where 3.5 would do. In Liger's fused_linear_jsd such lines are 21 to 56 % of a forward pass on an H100 (torch's
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

import itertools
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import row_lines, source
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.row_expressions import FULL, NUMBER, ROUNDED
from bot.engine.row_lines import Group, Run, freed_after
from bot.engine.source import NotUnderstood
from bot.engine.transforms.own_kernel import IMPORTS
from bot.engine.transforms.rewrite import Rewrite, refuse_long_lines

TITLE = "One kernel for what torch does to rows in several launches"
WHY = (
    "Each operator of torch's is a launch that reads whole tensors and writes one. A program for each row reads it for "
    "what has to be known of it first, and once more for what is stored."
)
COMMENT = "In one kernel, where torch needs a launch for each operator."
IMPORT = m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()])
MEANT = ("torch", "triton", "tl")
LAUNCHED = ("num_warps=max(1, BLOCK_SIZE // 256),", "enable_fp_fusion=False,  # rounded where torch rounds")
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
    first = next((at for at, line in enumerate(above) if line.comment is not None), len(above))
    said = [line for at, line in enumerate(above) if at < first or line.comment is not None]
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
        *(f"            {one}" for one in (*(f"{name}," for name in handed), *LAUNCHED)),
        "        )",
        f"    return {', '.join(f'new_{name}' for name in group.wanted)}",
    ]
    module = cst.parse_module("\n".join(text) + "\n")
    (gap,) = findall(module, m.SimpleStatementLine(body=[m.Pass()]))
    old = [step.line.with_changes(leading_lines=()) for step in group.steps]
    return [*cst.parse_module(kernel.text()).body, *source.spliced(module, [(gap, old)]).body]


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _imports(module: cst.Module) -> dict[str, cst.BaseStatement]:
    """The lines of a module that import something, by their text."""
    lines = [line for line in module.body if isinstance(line, cst.SimpleStatementLine) and m.matches(line, IMPORT)]
    return {source.code(line.with_changes(leading_lines=())).strip(): line for line in lines}


def _imports_late(module: cst.Module) -> bool:
    """Whether anything is imported below a function or a class, above which a kernel may come to stand."""
    below = itertools.dropwhile(lambda line: not isinstance(line, cst.FunctionDef | cst.ClassDef), module.body)
    return any(findall(line, IMPORT) for line in below)


def _with_room(text: str) -> cst.Module | None:
    """The module, with the language of kernels where it launches those of others. None where it lacks what a kernel is
    written with, or where that may be something else."""
    module = source.parse(text)
    said = _imports(module)
    if any(line not in said for line in IMPORTS[:2]) or _imports_late(module):
        return None
    if IMPORTS[2] not in said:
        triton, language = said[IMPORTS[1]], cst.ensure_type(cst.parse_statement(IMPORTS[2]), cst.SimpleStatementLine)
        module = source.spliced(module, [(triton, [triton, language])])
    bound, given = bound_in(module), findall(module, m.Param(name=m.OneOf(*map(m.Name, MEANT))))
    others = given or findall(module, m.Name(FITS) | m.Name(ROUNDED)) or bound["type"] or bound["all"]
    return None if others or any(bound[name] != 1 for name in MEANT) else module


def _added(place: cst.CSTNode, module: cst.Module, taken: set[str]) -> list[tuple[Run, list[Group]]]:
    """Of a function or a class: the runs that become kernels, whose names are those of nothing else."""
    found = []
    for function in findall(place, m.FunctionDef()):
        for run, groups in row_lines.found(cst.ensure_type(function, cst.FunctionDef)):
            ours = [name for one in groups for name in (one.helper, one.kernel.name)]
            is_free = len({*ours} - taken) == len(ours) and not any(findall(module, m.Name(name)) for name in ours)
            if is_free:
                taken |= {*ours}
                found.append((run, groups))
    return found


def _made(module: cst.Module) -> cst.Module | None:
    """The module with calls in place of the lines, and kernels above the functions and classes that they stand in."""
    taken = set[str]()
    added = {at: runs for at, place in enumerate(module.body) if (runs := _added(place, module, taken))}
    calls = [(run, groups) for runs in added.values() for run, groups in runs]
    if not calls:
        return None
    changes = [(run.lines[0], _lines(groups, run)) for run, groups in calls]
    changes += [(line, []) for run, _ in calls for line in run.lines[1:]]
    changed = source.spliced(module, changes)
    guard, above = list(cst.parse_module(GUARD).body), []
    for at, runs in added.items():
        new = [*guard, *(line for _, groups in runs for one in groups for line in _helper(one))]
        guard = []  # once
        lead = (cst.EmptyLine(indent=False), cst.EmptyLine(indent=False))
        above.append((changed.body[at], [*(line.with_changes(leading_lines=lead) for line in new), changed.body[at]]))
    whole = source.spliced(changed, above)
    refuse_long_lines(module, whole)
    return whole


def rewrite(text: str) -> Rewrite | None:
    """Every run of such lines in the functions of a file."""
    if "keepdim=True" not in text and "softmax(" not in text:
        return None
    try:
        module = _with_room(text)
        made = _made(module) if module is not None else None
    except (NotUnderstood, RecursionError):
        return None
    return Rewrite(text=source.written(made), kernels=(), title=TITLE, why=WHY) if made is not None else None


def applies(text: str) -> bool:
    return rewrite(text) is not None
