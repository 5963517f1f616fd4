"""Add up the shares of a sum in one launch, and round as it is stored: `shares.sum(dim=0).to(type)` is two of torch's.

The backward of a norm leaves a share of the weight's gradient for each program. On an H200 torch's sum and cast took
5.7 us of rms_norm's backward of 102 us (8192 x 4096 in bfloat16), besides what lies between them; once the rest takes
60 us that is a tenth of all. One kernel adds up in float32 and rounds.

Looked for where a name is given the sum over the first axis of a tensor in float32 with two axes that the function
made itself.
Where two such sums stand side by side, `sum_together` is the better idea. What a launch of ours costs the host beside
two of torch's is for a campaign to find out: it may add 2 %.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms import own_kernel, sum_together
from bot.engine.transforms.rewrite import Rewrite

HELPER = '''@triton.jit
def _sum_shares_kernel(shares_ptr, sum_ptr, n_shares, n_cols, SHARES: tl.constexpr, COLUMNS: tl.constexpr):
    cols = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((SHARES, COLUMNS), dtype=tl.float32)
    for start in range(0, n_shares, SHARES):
        shares = start + tl.arange(0, SHARES)[:, None]
        total += tl.load(shares_ptr + shares * n_cols + cols, mask=(shares < n_shares) & (cols < n_cols), other=0.0)
    tl.store(sum_ptr + cols, tl.sum(total, axis=0), mask=cols < n_cols)


def _sum_shares(shares, dtype):
    """The sum over the first axis, rounded once: for torch a sum and a cast."""
    if shares.numel() >= 2**31:
        return shares.sum(dim=0).to(dtype)
    n_shares, n_cols = shares.shape
    total = torch.empty(n_cols, dtype=dtype, device=shares.device)
    SHARES, COLUMNS = min(1 << (n_shares - 1).bit_length(), 256), 32
    grid = ((n_cols + COLUMNS - 1) // COLUMNS,)
    _sum_shares_kernel[grid](shares, total, n_shares, n_cols, SHARES=SHARES, COLUMNS=COLUMNS, num_warps=8)
    return total
'''


def _is_made_here(function: cst.FunctionDef, name: str) -> bool:
    """Whether the function makes all that the name ever stands for, in float32 with two axes, or nothing at all."""
    targets = [t for t in findall(function, m.AssignTarget()) if findall(t, m.Name(name))]
    lines = [line for line in findall(function, m.SimpleStatementLine()) if source.is_plain(line, name)]
    if len(lines) != len(targets) or findall(function, m.AugAssign(target=m.Name(name))):
        return False
    if name in source.parameters(function):
        return False
    rows = []
    for line in lines:
        value = source.value(line)
        if m.matches(value, m.Name("None")) or _is_sum(value):
            continue
        if isinstance(value, cst.IfExp) and m.matches(value.orelse, m.Name("None")):
            value = value.body
        try:
            rows.append(sum_together.rows_made(value, axes=2))
        except NotUnderstood:
            return False
    return bool(rows)


def _is_sum(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and m.matches(value, sum_together.ROUNDED)


def _sums(function: cst.FunctionDef) -> list[tuple[cst.Call, str]]:
    """`name = shares.sum(dim=0).to(dtype)`, perhaps under a condition: the sum with the name of the shares."""
    found = []
    lines = findall(function, m.SimpleStatementLine(body=[m.Assign()]))
    for node in (node for line in lines for node in findall(line, sum_together.ROUNDED)):
        call = cst.ensure_type(node, cst.Call)
        inner = cst.ensure_type(cst.ensure_type(call.func, cst.Attribute).value, cst.Call)
        name = source.code(cst.ensure_type(inner.func, cst.Attribute).value)
        is_type = m.matches(call.args[0].value, sum_together.A_TYPE)
        if is_type and inner.args and _is_made_here(function, name) and not findall(call, m.Comment()):
            found.append((call, name))
    return found


def rewrite(text: str) -> Rewrite | None:
    """The one such sum of the file."""
    if ".sum(" not in text or sum_together.applies(text):
        return None
    module = own_kernel.module_with_room(text, sum_together.NAMES)
    if module is None:
        return None
    found = [(function, *one) for function in source.functions(module) for one in _sums(function)]
    if len(found) != 1:
        return None
    ((function, call, shares),) = found
    if not own_kernel.knows_the_device(function):
        return None
    new = source.expression(f"_sum_shares({shares}, {source.code(call.args[0].value)})")
    changed = cst.ensure_type(function.deep_replace(call, new), cst.FunctionDef)
    return Rewrite(
        text=own_kernel.placed_above(module, function, HELPER, [changed]),
        kernels=(),
        title="Add up the shares of a sum in one launch",
        why="torch adds up the shares of all programs in one kernel and rounds the sum in another: two launches of "
        "little work each. One kernel adds up and rounds.",
        seen="On an H200 torch's two kernels took 5.7 us of rms_norm's backward of 102 us (8192 x 4096 in bfloat16), "
        "besides what lies between them.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
