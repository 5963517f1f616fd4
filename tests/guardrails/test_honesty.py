"""honesty: only what a variant adds counts, and honest work that looks alike passes."""

from __future__ import annotations

import pytest

from bot.guardrails import judge
from bot.guardrails.honesty import honesty
from bot.model.verdict import Decision
from tests.guardrails import hearings as h


def findings(text: str, before: str = h.V0) -> list[str]:
    return [finding.message for finding in honesty(h.hearing(text=text, before=before))]


def edited(old: str, new: str) -> str:
    assert h.FASTER.count(old) >= 1, old
    return h.FASTER.replace(old, new)


WARPS = "    num_warps = 8\n"
END = "\n\n"
HONEST = {
    "more warps": h.FASTER,
    "more stages": edited("num_warps=num_warps", "num_warps=num_warps, num_stages=4"),
    "a settings function": h.FASTER
    + "\n\ndef _settings(n_cols):\n    if n_cols > 2048:\n        return 2048, 8\n"
    + "    return triton.next_power_of_2(n_cols), 4\n",
    "a table that is read": edited("MAX_BLOCK = 4096", "MAX_BLOCK = 4096\n_WARPS = {1024: 4, 4096: 8}").replace(
        WARPS, "    num_warps = _WARPS.get(x.shape[1], 8) if x.shape[1] in _WARPS else 8\n"
    ),
    "a table of rules walked through": edited(
        "MAX_BLOCK = 4096", "MAX_BLOCK = 4096\n_RULES = [(1024, 4), (4096, 8)]"
    ).replace(WARPS, "    num_warps = next(w for limit, w in _RULES if x.shape[1] <= limit)\n"),
    "a table built in a loop": h.FASTER + "\n_SIZES = {}\nfor _n in (1, 2):\n    _SIZES[_n] = 2 * _n\n",
    "a table made of another": h.FASTER
    + "\n_SIZES = {n: 2 * n for n in (1, 2)}\n_BY_SIZE = dict(sorted(_SIZES.items()))\n",
    "constants of the module": h.FASTER
    + "\n_LOG2E = tl.constexpr(1.44)\n_LOW, _HIGH = -1.0, float('inf')\n_IS_HIP = torch.version.hip is not None\n"
    + "_WARPS = 16 if _IS_HIP else 32\n_DTYPES = (torch.float16, torch.bfloat16)\n"
    + "_SQRT = math.sqrt(2.0)\nimport math\n",
    "what the device is asked once": h.FASTER
    + "\n_IS_HIP = is_hip()\ndef _warps():\n    return 16 if _IS_HIP else 32\n",
    "a partial": edited("import torch\n", "import functools\n\nimport torch\n")
    + "\n_cdiv = functools.partial(triton.cdiv, 128)\ndef _g(n):\n    return _cdiv(n)\n",
    "a persistent grid": edited(
        WARPS, WARPS + "    programs = torch.cuda.get_device_properties(x.device).multi_processor_count\n"
    ),
    "a persistent grid the other way": edited(
        WARPS, WARPS + "    device = triton.runtime.driver.active.get_current_device()\n"
    ),
    "a device fact that is remembered": edited("import torch\n", "import functools\n\nimport torch\n")
    + "\n\n@functools.lru_cache(maxsize=None)\ndef _is_hopper(index: int) -> bool:\n"
    + "    return torch.cuda.get_device_capability(index) == (9, 0)\n",
    "a number that is remembered": edited("import torch\n", "from functools import cache\n\nimport torch\n")
    + "\n\n@cache\ndef _block(n_cols: int):\n    return min(triton.next_power_of_2(n_cols), 4096)\n",
    "outputs nobody zeroed": edited(
        WARPS, WARPS + "    z = torch.empty(x.shape, dtype=torch.float32, device=x.device)\n"
    ),
    "workspace that is filled inside the call": edited(
        WARPS,
        WARPS + "    parts = []\n    parts.append(torch.empty_like(x))\n    parts[0][:] = 0\n    parts[0].zero_()\n",
    ),
    "an output argument": h.FASTER + "\n\ndef _into(out, x):\n    out[:] = x\n    out.copy_(x)\n    return out\n",
    "more on the context": edited("ctx.factor = factor", "ctx.factor = factor\n        ctx.num_warps = 8"),
    "recomputing": edited("ctx.factor = factor", "ctx.factor = factor\n        ctx.save_for_backward(x)"),
    "a new private kernel": h.FASTER
    + "\n\n@triton.jit\ndef _tile(X, n, BLOCK: tl.constexpr = 128):\n"
    + "    x = tl.load(X, eviction_policy='evict_first')\n"
    + "    X += n\n    tl.atomic_add(X, x)\n",
    "dispatch with an honest fallback": edited(
        WARPS, WARPS + "    if x.shape[1] > 65536:\n        return x * factor\n"
    ),
    "an import that moved": edited(
        "import torch\n",
        "try:\n    from triton.language.extra.libdevice import rsqrt\n"
        "except ModuleNotFoundError:\n    from triton.language.extra.cuda.libdevice import rsqrt\n\nimport torch\n",
    ),
    "an import of one's own package": edited(
        "import torch\n", "import torch\nfrom sample_kernels.ops.settings import cdiv\n"
    ),
    "a relative import": edited("import torch\n", "import torch\nfrom .settings import cdiv\n"),
    "asking how memory is aligned": edited(WARPS, WARPS + "    aligned = x.data_ptr() % 16 == 0\n"),
    "fast approximate assembly": h.FASTER + "\n@triton.jit\ndef _tanh(x):\n    return tl.inline_asm_elementwise("
    "'tanh.approx.f32 $0, $1;', '=r,r', [x], dtype=tl.float32, is_pure=True, pack=1)\n",
    "a plain word that a builtin has too": h.FASTER
    + "\n\ndef _f(id, input):\n    hash = id + 1\n    return hash, input\n",
    "a small record": h.FASTER
    + "\n\nclass _Settings(typing.NamedTuple):\n    block: int = 1024\n    warps: int = 4\nimport typing\n",
    "a word of its own for a type": h.FASTER
    + "\n_Sizes = dict[int, tuple[int, int]]\n_Maybe = Optional[int]\ndef _f(a: _Sizes): ...\n",
    "gradient mode": edited(WARPS, WARPS + "    with torch.enable_grad():\n        pass\n"),
    "an assert and a raise": edited(
        WARPS, WARPS + "    assert x.shape[1] > 0\n    if x.dim() != 2:\n        raise ValueError(x.shape)\n"
    ),
    "slower": h.V0.replace("num_warps = 4", "num_warps = 1"),
    "lines that moved": h.V0.replace("import os\n", "\n\nimport os\n"),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_work_passes(name: str) -> None:
    assert findings(HONEST[name]) == []


def test_a_kernel_that_is_tuned_at_run_time_may_be_tuned_otherwise() -> None:
    """C-24: banned where there is none, allowed where there is one; a frozen list is a list."""
    tuned = "@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=['n_cols'])\n@triton.jit\ndef _scale"
    before = h.V0.replace("@triton.jit\ndef _scale", tuned)
    after = before.replace("configs=[triton.Config({}, num_warps=4)]", "configs=_CONFIGS").replace(
        "MAX_BLOCK = 4096", "MAX_BLOCK = 4096\n_CONFIGS = [triton.Config({'BLOCK_SIZE': 1024}, num_warps=8)]"
    )
    assert findings(after, before) == []
    assert "tunes itself at the first call" in findings(before.replace("_CONFIGS", ""))[0]


@pytest.mark.parametrize(
    "old",
    [
        '    debug = os.environ.get("SCALE_DEBUG")\n',
        "    try:\n        y = x\n    except RuntimeError:\n        y = None\n",
        "    key = id(x)\n",
        "    global _LAST\n    _LAST = x\n",
    ],
)
def test_what_v0_does_already_it_may_go_on_doing_and_not_do_twice(old: str) -> None:
    before = h.V0.replace("    num_warps = 4\n", old + "    num_warps = 4\n")
    after = before.replace("num_warps = 4", "num_warps = 8")
    assert findings(after, before) == []
    assert findings(after.replace(old, old + old, 1), before)
    assert (
        findings(
            after.replace(old, "").replace("def scale_forward(x, factor):\n", f"def scale_forward(x, factor):\n{old}"),
            before,
        )
        == []
    )


def test_another_use_of_what_v0_uses_is_another_use() -> None:
    assert findings(h.FASTER.replace('environ.get("SCALE_DEBUG")', "environ.clear()"))
    assert findings(h.FASTER.replace('environ.get("SCALE_DEBUG")', 'environ.get("TRITON_INTERPRET")'))
    assert findings(h.FASTER.replace("import os\n", "import os, sys\n"))


def test_a_finding_says_where_and_why() -> None:
    text = edited(WARPS, WARPS + "    key = id(x)\n")
    line = text.splitlines().index("    key = id(x)") + 1
    why = "it uses id: an identity as the key of a cache repeats in the benchmark and never in training"
    assert findings(text) == [f"{h.PATH}, line {line}: {why}"]


def test_many_findings_do_not_fill_a_page() -> None:
    found = findings(edited(WARPS, WARPS + "    id(x)\n" * 40))
    assert len(found) == 6
    assert found[-1] == f"{h.PATH}: 35 more of the kind"


@pytest.mark.parametrize("text", ["def (:", "x = " + "-" * 20_000 + "1", "\x00", "a = b\n" * 60_000])
def test_what_cannot_be_read_is_not_taken_for_honest(text: str) -> None:
    assert findings(text) == [f"{h.PATH} cannot be read, so nothing says that it is honest"]
    assert judge(h.hearing(text=text)).decision is Decision.REJECTED


def test_every_file_is_looked_at() -> None:
    heard = h.hearing(allowed=(h.PATH, h.OTHER))
    files = (*h.files(h.FASTER), *h.files("import ctypes\n", h.OTHER))
    heard = heard.model_copy(update={"variant": heard.variant.model_copy(update={"files": files})})
    assert "imports ctypes" in h.said(honesty(heard))
