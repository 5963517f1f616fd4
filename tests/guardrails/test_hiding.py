"""hiding: a failure that is covered up, and objects that are not what they look like."""

from __future__ import annotations

import pytest

from bot.guardrails.hiding import hiding
from bot.guardrails.source import Source

TOP = "import torch\nimport triton\nimport triton.language as tl\n"


def found(text: str) -> str:
    return "\n".join(sign.why for sign in hiding(Source(TOP + text)))


CHEATS = {
    "a silent fallback": (
        "try:\n    y = mine(x)\nexcept Exception:\n    y = torch.softmax(x, -1)",
        "replaced in silence",
    ),
    "a fallback for one error": ("try:\n    y = mine(x)\nexcept ImportError:\n    y = x", "replaced in silence"),
    "a failure that is skipped": ("try:\n    y = mine(x)\nexcept ImportError:\n    pass", "replaced in silence"),
    "an import with a guest": (
        "try:\n    import a\n    y = mine(x)\nexcept ImportError:\n    y = x",
        "replaced in silence",
    ),
    "an import with a busy handler": (
        "try:\n    import a\nexcept ImportError:\n    y = patch()",
        "replaced in silence",
    ),
    "an import with a busy else": (
        "try:\n    import a\nexcept ImportError:\n    pass\nelse:\n    patch()",
        "replaced in silence",
    ),
    "anything caught": ("try:\n    import a\nexcept:\n    pass", "replaced in silence"),
    "one of two caught": ("try:\n    import a\nexcept (ImportError, Exception):\n    pass", "replaced in silence"),
    "a group of errors": ("try:\n    f()\nexcept* ValueError:\n    pass", "replaced in silence"),
    "a tensor of one's own": ("class L(torch.Tensor):\n    pass", "put the work off"),
    "a parameter of one's own": ("class L(torch.nn.Parameter):\n    pass", "put the work off"),
    "a metaclass": ("class A(metaclass=M):\n    pass", "has a metaclass"),
    "a class of classes": ("class M(type):\n    pass", "put the work off"),
    "a class at run time": ("L = type('L', (torch.Tensor,), {})", "builds a class at run time"),
    "another comparison": ("class A:\n    def __eq__(self, o):\n        return True", "defines __eq__"),
    "torch's own hook": (
        "class A:\n    @classmethod\n    def __torch_function__(cls): ...",
        "defines __torch_function__",
    ),
    "a module's __getattr__": ("def __getattr__(name):\n    return patch(name)", "defines __getattr__"),
    "tuning at run time": ("@triton.autotune(configs=[], key=[])\n@triton.jit\ndef k(): ...", "tunes itself"),
    "tuning under another name": (
        "from triton import autotune as a\n@a(configs=[], key=[])\ndef k(): ...",
        "tunes itself",
    ),
    "assembly that stores": (
        "tl.inline_asm_elementwise('st.global.b32 [$1], $2;', '', [], 1, True, 1)",
        "its assembly",
    ),
    "assembly that looks at the clock": ("tl.inline_asm_elementwise(asm='mov.u64 $0, %clock64;')", "its assembly"),
    "assembly from somewhere": ("tl.inline_asm_elementwise(code, '', [], 1, True, 1)", "its assembly"),
    "the device without memory": ("def f(x):\n    return x.device.type == 'meta'", "the device without memory"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_what_covers_something_up_is_seen(name: str) -> None:
    text, words = CHEATS[name]
    assert words in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from a import f\nexcept ImportError:\n    from b import f",
        "try:\n    import a\nexcept (ImportError, ModuleNotFoundError):\n    a = None",
        "try:\n    from torch import D\nexcept ImportError:\n    D = ()",
        "try:\n    f()\nfinally:\n    g()",
        "class A(torch.autograd.Function):\n    def __init__(self): ...\n    def __repr__(self):\n        return ''",
        "class A(typing.NamedTuple):\n    a: int",
        "x = type(y)",
        "tl.inline_asm_elementwise('tanh.approx.f32 $0, $1;', '=r,r', [x], tl.float32, True, 1)",
        "@triton.heuristics({'E': lambda a: a['N'] % a['B'] == 0})\n@triton.jit\ndef k(): ...",
        "grid = lambda meta: (triton.cdiv(n, meta['BLOCK_SIZE']),)",
    ],
)
def test_plain_dealing_is_not_remarked_on(text: str) -> None:
    assert found(text) == ""


def test_a_fallback_is_known_by_what_it_falls_back_to() -> None:
    """The kernel inside of v0's own try may change; the way out of it may not."""
    before, tried, out = (
        {s.about for s in hiding(Source(text))}
        for text in (
            "try:\n    a()\nexcept ValueError:\n    b()",
            "try:\n    c()\nexcept ValueError:\n    b()",
            "try:\n    a()\nexcept ValueError:\n    d()",
        )
    )
    assert before == tried != out
