"""A library with a dispatcher in the shape of liger-kernel 0.8.5's: softmax is there in Triton, and in plain torch by
the name of another language, which it prefers."""

from __future__ import annotations

from pathlib import Path

from bot.bench import overlay
from bot.worker.contract import Subject
from tests.bench import tiny

OP_NAME, PREFERRED = "softmax_forward", "nvidia-cutedsl"
BACKEND = "src/tiny/ops/backends/_triton/softmax.py"
DISPATCHER = f'''"""Which implementation of an op runs."""

_IMPLS, _PINNED, ASKED = {{}}, None, []


class OpImpl:
    def __init__(self, impl_name, forward, rank):
        self.impl_name, self.forward, self.rank = impl_name, forward, rank


def register_op(op, impl_name, preference_rank):
    def decorated(forward):
        _IMPLS.setdefault(op, []).append(OpImpl(impl_name, forward, preference_rank))
        return forward

    return decorated


def set_impl(name):
    global _PINNED
    _PINNED = name


def resolve_impl(op, requested=None, device=None):
    import tiny.ops.backends._triton.softmax

    ASKED.append(op)
    wanted = requested or _PINNED
    found = [one for one in _IMPLS.get(op, ()) if wanted in (None, one.impl_name)]
    if not found:
        raise RuntimeError(f"No '{{wanted}}' implementation registered for op '{{op}}'.")
    return min(found, key=lambda one: one.rank)


def dispatch(op, *args):
    return resolve_impl(op).forward(*args)


@register_op("{OP_NAME}", "{PREFERRED}", 10)
def _other(x):
    return x.softmax(-1)
'''
TRITON = f'''import torch

from tiny.backends import register_op
from tiny.ops.settings import block_of
from tiny.ops.softmax import _softmax_forward_kernel


@register_op("{OP_NAME}", "nvidia-triton", 50)
def softmax_triton(x):
    y = torch.empty_like(x)
    n_cols = x.shape[-1]
    _softmax_forward_kernel[(x.numel() // n_cols,)](y, x, n_cols, BLOCK_SIZE=block_of(n_cols), num_warps=4)
    return y
'''
_LAUNCHES = """        y = torch.empty_like(x)
        n_cols = x.shape[-1]
        rows = x.numel() // n_cols
        _softmax_forward_kernel[(rows,)](y, x, n_cols, BLOCK_SIZE=block_of(n_cols), num_warps=4)
"""
assert _LAUNCHES in tiny.SOURCE
SOURCE = tiny.SOURCE.replace(_LAUNCHES, f'        y = dispatch("{OP_NAME}", x)\n').replace(
    "from tiny.ops.settings", "from tiny.backends import dispatch\nfrom tiny.ops.settings"
)
SITE = tiny.SITE.model_copy(update={"files": (tiny.OP, BACKEND), "dispatches": (OP_NAME,)})


def write_tree(root: Path, dispatcher: str = DISPATCHER) -> Path:
    tiny.write_tree(root)
    for path, text in {
        "src/tiny/backends/__init__.py": dispatcher,
        "src/tiny/ops/backends/__init__.py": "",
        "src/tiny/ops/backends/_triton/__init__.py": "",
        BACKEND: TRITON,
        tiny.OP: SOURCE,
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def subject(root: Path) -> Subject:
    return overlay.subject(SITE, overlay.base_files(root, SITE), str(root / "src"))
