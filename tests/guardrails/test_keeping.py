"""keeping: nothing is carried from one call to the next, however it is packed (BC-16)."""

from __future__ import annotations

import pytest

from bot.engine import gates
from bot.guardrails.keeping import keeping
from bot.guardrails.source import Source

TOP = "import functools\nimport torch\nimport triton\nimport triton.language as tl\n"


def found(text: str) -> str:
    return "\n".join(sign.why for sign in keeping(Source(TOP + text)))


CHEATS = {
    # In the module.
    "a dictionary": ("_C = {}\ndef f(x):\n    _C[x.shape] = x", "fills _C, which outlives the call"),
    "an ordered one": (
        "from collections import OrderedDict\n_C = OrderedDict()\ndef f(x):\n    _C[x.shape] = x",
        "fills _C",
    ),
    "a default in it": ("_C = {}\ndef f(x):\n    return _C.setdefault(x.shape, x)", "changes _C"),
    "a list": ("_C = []\ndef f(x):\n    _C.append(x)", "changes _C"),
    "an entry taken out": ("_C = {}\ndef f(x):\n    del _C[x]", "fills _C"),
    "under another name": ("_C = {}\ndef f(x):\n    c = _C\n    c[x.shape] = x", "keeps _C in the module"),
    "handed on": ("_C = {}\ndef f(x):\n    _remember(_C, x)", "keeps _C in the module"),
    "returned": ("_C = {}\ndef f():\n    return _C\ndef g(x):\n    f()[x.shape] = x", "keeps _C in the module"),
    "renamed in the module": ("_C = {}\n_D = _C\ndef f(x):\n    g(_D)", "keeps _D in the module"),
    "told to a decorator": ("_C = {}\n@remember(_C)\ndef f(_C):\n    return _C", "keeps _C in the module"),
    "or nothing": ("_C = {}\ndef f(x):\n    c = _C or None\n    c[x] = x", "keeps _C in the module"),
    "one or the other": ("_C = {}\ndef f(x):\n    c = _C if x is None else _C\n    c[x] = x", "keeps _C in the module"),
    "a part of it": ("_C = {'a': {}}\ndef f(x):\n    c = _C['a']\n    c[x.shape] = x", "fills c, which outlives"),
    "a part of it by call": (
        "_C = {'a': []}\ndef f(x):\n    c = _C.get('a')\n    c.append(x)",
        "changes c, which outlives",
    ),
    "bound by a walrus": ("[(_C := {}) for _ in (0,)]\ndef f(x):\n    g(_C)", "keeps _C in the module"),
    "bound in a condition": ("[0 for _ in (0,) if (_C := {}) == {}]\ndef f(x):\n    g(_C)", "keeps _C in the module"),
    "bound by a loop": ("for _C in [{}]:\n    pass\ndef f(x):\n    g(_C)", "keeps _C in the module"),
    "bound in a branch": ("if True:\n    _C = {}\ndef f(x):\n    _C[x.shape] = x", "fills _C"),
    "bound in a pair": ("_A, _C = 1, {}\ndef f(x):\n    g(_C)", "keeps _C in the module"),
    "a buffer": ("_Y = torch.empty(4096)\ndef f(x):\n    _Y.copy_(x)\n    return _Y", "changes _Y"),
    "a buffer returned": ("_Y = torch.empty(4096)\ndef f(x):\n    return _Y", "keeps _Y in the module"),
    "an object": ("class _S: ...\n_S0 = _S()\ndef f(x):\n    _S0.y = x", "hangs a value on _S0.y"),
    "a counter": ("def _g():\n    yield 1\n_N = _g()\ndef f(x):\n    return next(_N)", "keeps _N in the module"),
    "a partial with a cache": (
        "_F = functools.partial(g, cache={})\ndef f(x):\n    return _F(x)",
        "keeps _F in the module",
    ),
    "a global": ("_LAST = None\ndef f(x):\n    global _LAST\n    _LAST = x", "sets _LAST outside of its function"),
    "a package's own store": (
        "from sample_kernels.ops.settings import CACHE\ndef f(x):\n    CACHE.append(x)",
        "changes CACHE",
    ),
    "a package's own store, by index": ("from .settings import CACHE\ndef f(x):\n    CACHE[0] = x", "fills CACHE"),
    # In a function.
    "a default argument": ("def f(x, _c={}):\n    _c[x.shape] = x", "a default argument holds {}"),
    "a default that is called": ("def f(x, *, _c=dict()):\n    return _c", "a default argument holds dict()"),
    "a default in a lambda": ("f = lambda x, c=[]: c", "a default argument holds []"),
    "the module's as a default": ("_C = {}\ndef f(x, c=_C):\n    c[x] = x", "a default argument holds _C"),
    "a function's attribute": ("def f(x):\n    f.cache[x.shape] = x\nf.cache = {}", "hangs a value on f.cache"),
    "a closure": (
        "def make():\n    c = {}\n    def f(x):\n        c[x.shape] = x\n    return f",
        "fills c, which outlives",
    ),
    "a closure's list": ("def make():\n    c = []\n    return lambda x: c.append(x)", "changes c, which outlives"),
    "a nonlocal": ("def make():\n    n = 0\n    def f():\n        nonlocal n\n        n = 1", "sets n outside"),
    # In a class.
    "a class's dictionary": ("class A:\n    cache = {}", "A holds cache = {}"),
    "a class's dictionary, filled": ("class A:\n    pass\ndef f(x):\n    A.cache[x] = x", "fills A.cache"),
    "the class of a method": ("class A:\n    @classmethod\n    def f(cls, x):\n        cls.c[x] = x", "fills cls.c"),
    "the class's attribute": (
        "class A:\n    @classmethod\n    def f(cls, x):\n        cls.c = x",
        "hangs a value on cls.c",
    ),
    "an object that remembers": ("class A:\n    def __call__(self, x):\n        self.c[x] = x", "fills self.c"),
    "a class by its object": ("def f(x):\n    type(x).cache = x", "hangs a value on type(x).cache"),
    # On somebody else.
    "on a tensor": ("def f(w):\n    w.packed = g(w)", "hangs a value on w.packed"),
    "on torch": ("torch.empty = torch.zeros", "hangs a value on torch.empty"),
    "on torch under another name": ("import torch as t\nt.empty = f", "hangs a value on t.empty"),
    "on torch in a pair": ("(torch.empty, x) = f, 1", "hangs a value on torch.empty"),
    "on torch by a loop": ("for torch.empty in (f,):\n    pass", "hangs a value on torch.empty"),
    "on torch by with": ("with f() as torch.empty:\n    pass", "hangs a value on torch.empty"),
    "off torch": ("del torch.cuda.synchronize", "hangs a value on torch.cuda.synchronize"),
    "on the context of somebody": ("def helper(ctx):\n    ctx.cache = {}", "hangs a value on ctx.cache"),
    "on a switch": ("torch.backends.cudnn.benchmark = True", "hangs a value on torch.backends.cudnn.benchmark"),
    # By library.
    "lru_cache": ("@functools.lru_cache\ndef f(x):\n    return g(x)", "remembers answers with functools.lru_cache"),
    "lru_cache of a size": ("@functools.lru_cache(maxsize=2)\ndef f(x):\n    return x", "functools.lru_cache"),
    "cache under another name": (
        "from functools import cache as keep\n@keep\ndef f(x):\n    return x",
        "functools.cache",
    ),
    "cache by call": ("def f(x):\n    return x\ng = functools.cache(f)", "functools.cache"),
    "cache of what says it is a number": ("@functools.cache\ndef f(x: int):\n    return kernel(x)", "functools.cache"),
    "cache of a store": ("@functools.cache\ndef f():\n    return {}", "functools.cache"),
    "cache of a buffer": ("@functools.cache\ndef f(n: int):\n    return torch.empty(n)", "functools.cache"),
    "cache of a launch": ("@functools.cache\ndef f(n: int):\n    kernel[(1,)](n)", "functools.cache"),
    "cache of anything": ("@functools.cache\ndef f(*a):\n    return 1", "functools.cache"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_bc_16_what_outlives_a_call_is_seen(name: str) -> None:
    text, words = CHEATS[name]
    assert words in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    c = {}\n    c[x.shape] = x\n    c.setdefault(1, x)\n    return c",
        "def f(out, x):\n    out[:, 0] = x\n    out.view(-1)[0] = 1\n    out.zero_()",
        "class A:\n    def forward(ctx, x):\n        ctx.n = []\n        ctx.n.append(x)\n        ctx.n[0] = x",
        "class A:\n    def __init__(self, n):\n        self.n = n\n        self.c = {}",
        "class A:\n    a: int = 1\n    b = staticmethod(f)\n    __slots__ = ('a', 'b')",
        "_T = {1: 2}\ndef f(n):\n    return _T[n] + _T.get(n, 0) + len(_T) + sum(v for k, v in _T.items() if k in _T)",
        "_T = {1: 2}\ndef f(n):\n    return f\"{', '.join(_T)} {_T} {sorted(_T)}\"",
        "_T = [1]\n_T.append(2)\n_T[0] = 3\ndef f():\n    for t in _T:\n        return t",
        "_A = {1: 2}\n_B = dict(_A)\ndef f(n):\n    return _B[n]",
        "def f(x):\n    y = torch.add(x, 1)\n    return y",
        "_N = 2\n_N = _N * 2\n_N += 1\ndef f(x):\n    return x * _N",
        "def f(x, n=1, s='a', t=(1, 2), u=None, b: tl.constexpr = tl.constexpr(4), inf=float('inf')):\n    return x",
        "@functools.cache\ndef f(device: torch.device) -> int:\n    return torch.cuda.get_device_properties(device).L2",
        "@functools.lru_cache(maxsize=None)\ndef f(n: int, w: bool = True):\n    return max(n, 1) + triton.cdiv(n, 2)",
        "_T = {1: 2}\ndef f(n):\n    if _T and n:\n        return 1\n    return 2 if (_T or n) else (*_T,)",
        "_A, _B = 1, -2.0\ndef f(x):\n    return g(_A, _B)",
        "def f(x, _T=1):\n    _T = {}\n    g(_T)\n_T = {}",
    ],
)
def test_what_ends_with_the_call_or_is_only_read_is_nobodys_business(text: str) -> None:
    assert found(text) == ""


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_what_launch_numbers_ask_for_an_architecture_is_a_fact_of_the_device(arch: str) -> None:
    assert found(gates.functions(arch)) == ""


def test_a_chain_of_names_is_followed_to_its_end() -> None:
    names = "".join(f"_A{i} = _A{i + 1}\n" for i in range(200))
    assert "keeps _A0 in the module" in found(f"{names}_A200 = {{}}\ndef f(x):\n    g(_A0)")


def test_names_that_are_set_to_themselves_end_nobody() -> None:
    assert found("_A = _B\n_B = _A\ndef f(x):\n    return x + _A") == ""
