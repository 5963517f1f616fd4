"""What is made of group_norm's backward, one rewrite on the other: each passes the gradients on, in float16 as well."""

from __future__ import annotations

from pathlib import Path

from bot.engine import rewriting
from bot.engine.launch_numbers import Numbers, write
from bot.model.variant import SourceFile
from tests.engine.test_rewritten_sums import said_by

GROUPED = '''"""An op in the shape that group_norm of Liger has."""

import torch
import triton
import triton.language as tl


@triton.jit
def _group_backward_kernel(
    x_ptr,
    w_ptr,
    dx_ptr,
    dw_ptr,
    db_ptr,
    g_ptr,
    width: tl.constexpr,
    each: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    dtype: tl.constexpr,
):
    batch = tl.program_id(0)
    group = tl.program_id(1)
    row = batch * tl.num_programs(1) * each * width
    c1 = 0.0
    c2 = 0.0
    cols = tl.arange(0, BLOCK_SIZE)
    for channel in range(group * each, (group + 1) * each):
        dw = 0.0
        db = 0.0
        w = tl.load(w_ptr + channel)
        for start in tl.range(0, width, BLOCK_SIZE):
            offsets = start + cols
            mask = offsets < width
            x = tl.load(x_ptr + row + channel * width + offsets, mask=mask, other=0.0)
            g = tl.load(g_ptr + row + channel * width + offsets, mask=mask, other=0.0)
            dw += tl.sum(g * x)
            db += tl.sum(g)

            wg = w * g
            c1 += tl.sum(x * wg)
            c2 += tl.sum(wg)

        # These must be atomic
        tl.atomic_add(dw_ptr + channel, dw.to(dtype))
        tl.atomic_add(db_ptr + channel, db.to(dtype))

    c1 = c1 / (width * each)
    c2 = c2 / (width * each)
    for channel in range(group * each, (group + 1) * each):
        w = tl.load(w_ptr + channel)
        for start in range(0, width, BLOCK_SIZE):
            offsets = start + cols
            mask = offsets < width
            x = tl.load(x_ptr + row + channel * width + offsets, mask=mask, other=0.0)
            g = tl.load(g_ptr + row + channel * width + offsets, mask=mask, other=0.0)
            tl.store(dx_ptr + row + channel * width + offsets, w * g - (x * c1 + c2), mask=mask)


def backward(x, w, b, g, groups):
    shape = x.shape
    batches, channels = shape[0], shape[1]
    each = channels // groups
    g = g.view(batches, groups, -1)
    width = g.shape[-1] // each
    dx = torch.empty(shape, dtype=x.dtype, device=x.device)
    dw = torch.zeros(channels, dtype=w.dtype, device=w.device)
    db = torch.zeros(channels, dtype=b.dtype, device=b.device)
    BLOCK_SIZE = triton.next_power_of_2(width)
    _group_backward_kernel[(batches, groups)](
        x, w, dx, dw, db, g, width, each, BLOCK_SIZE=BLOCK_SIZE, dtype=tl.float32
    )
    return dx, dw, db
'''
KERNEL, PATH = "_group_backward_kernel", "src/group.py"


def files(text: str) -> tuple[SourceFile, ...]:
    return (SourceFile(path=PATH, text=text),)


def along(before: str, after: str) -> str:
    """With what every idea brings along."""
    return rewriting.in_float32(files(before), files(after)).files[0].text


def built(*names: str, text: str = GROUPED) -> str:
    for name in names:
        found = rewriting.of_file(name, text)
        assert found is not None, name
        text = along(text, found.text)
    return text


def stages() -> dict[str, str]:
    """In the order in which the engine comes to them; launch numbers make the steps small, as a race may."""
    rounded, scaled = built("add_in_float32"), built("add_in_float32", "scale_sum")
    raced = along(scaled, write(scaled, Numbers(KERNEL, block="min({block}, 16)", warps="1")))
    behind = built("sum_behind_loop", text=raced)
    return {"rounded": rounded, "scaled": scaled, "raced": raced, "behind": behind}


def test_each_builds_on_the_one_before() -> None:
    found = stages()
    last = found["behind"]
    assert last.count("tl.sum(") == 2 and "dw = tl.sum(dw, axis=0)" in last and "c1 += w * dw" in last
    assert 'tl.atomic_add(sums_ptr + n_sums + channel, db, sem="relaxed")' in last
    assert last.count(".to(tl.float32)") == 3 and "num_warps=1" in last and "min(BLOCK_SIZE, 16)" in last
    assert len(set(found.values())) == 4


def test_before_half_of_the_sums_are_gone_none_waits_for_its_loop() -> None:
    small = GROUPED.replace("BLOCK_SIZE = triton.next_power_of_2(width)", "BLOCK_SIZE = 16")
    assert rewriting.of_file("sum_behind_loop", small) is None
    assert rewriting.of_file("sum_behind_loop", built("scale_sum", text=small)) is not None


SCRIPT = """
import torch
import stock, rounded, scaled, raced, behind

torch.manual_seed(5)


def exact(x, w, g, groups):
    x, w, g = x.double(), w.double(), g.double()
    batches, channels, width = x.shape
    wg = w[:, None] * g
    each = (batches, groups, -1)
    c1, c2 = ((wg * x).view(each).mean(-1), wg.view(each).mean(-1))
    spread = lambda c: c[..., None].expand(batches, groups, channels // groups * width).reshape(x.shape)
    return wg - (x * spread(c1) + spread(c2)), (g * x).sum((0, 2)), g.sum((0, 2))


for shape, groups in (((6, 8, 40), 4), ((1, 3, 5), 1), ((5, 40, 3), 20)):
    for dtype in (torch.float32, torch.float16):
        x, g = (torch.randn(shape).to(dtype) for _ in range(2))
        w = torch.randn(shape[1]).to(dtype)
        truth = exact(x, w, g, groups)
        before = stock.backward(x, w, w, g, groups)
        for module in (rounded, scaled, raced, behind):
            for was, now, right in zip(before, module.backward(x, w, w, g, groups), truth):
                assert (now.dtype, now.shape, now.stride()) == (was.dtype, was.shape, was.stride())
                off, mine = ((one.double() - right).abs().max() for one in (was, now))
                last_place = torch.finfo(dtype).eps * float(right.abs().max())
                assert mine <= off + max(last_place, 1e-5), (module.__name__, shape, dtype, off, mine)
print("no stage is further off")
"""


def test_every_stage_makes_the_gradients(tmp_path: Path) -> None:
    for name, text in {"stock": GROUPED, **stages()}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert said_by(SCRIPT, tmp_path) == ["no stage is further off"]
