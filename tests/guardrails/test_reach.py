"""reach: clocks, addresses, the environment, other people's objects, and every way around the plain word for them."""

from __future__ import annotations

import pytest

from bot.guardrails.reach import reach
from bot.guardrails.source import Source

TOP = "import torch\nimport triton\nimport triton.language as tl\n"


def found(text: str) -> str:
    return "\n".join(sign.why for sign in reach(Source(TOP + text), {"src", "sample_kernels", "ops"}))


CHEATS = {
    # The plain words.
    "an event": ("e = torch.cuda.Event()", "uses .Event: the clock"),
    "a side stream": ("with torch.cuda.stream(s):\n    pass", "torch.cuda.stream: work on a stream"),
    "a stream": ("s = torch.cuda.Stream()", "uses .Stream: work on a stream"),
    "a graph": ("g = torch.cuda.CUDAGraph()", "uses .CUDAGraph: work on a stream or graph"),
    "a captured graph": ("with torch.cuda.graph(g):\n    pass", "torch.cuda.graph"),
    "capturing or not": ("if torch.cuda.is_current_stream_capturing():\n    pass", "whether it is being watched"),
    "on meta or not": ("def f(x):\n    return x.is_meta", "whether it is being watched"),
    "interpreted or not": ("t = triton.runtime.interpreter.InterpretedFunction", "whether it is being watched"),
    "an address": ("def f(x):\n    return x.data_ptr()", "data_ptr: an identity"),
    "an address and more": ("def f(x):\n    return x.data_ptr() % 1000003", "data_ptr: an identity"),
    "an identity": ("def f(x):\n    return id(x)", "uses id: an identity"),
    "a hash of a tensor": ("def f(x):\n    return hash(x)", "uses hash: an identity"),
    "a version": ("def f(x):\n    return x._version", "uses ._version: an identity"),
    "a seed": ("torch.manual_seed(42)", "a global switch"),
    "tf32": ("torch.backends.cuda.matmul.allow_tf32 = True", "a global switch"),
    "the default type": ("torch.set_default_dtype(torch.float16)", "a global switch"),
    "matmul precision": ("torch.set_float32_matmul_precision('medium')", "a global switch"),
    "deterministic or not": ("torch.use_deterministic_algorithms(False)", "a global switch"),
    "autocast": ("with torch.autocast('cuda'):\n    pass", "a global switch"),
    "autocast of old": ("from torch.cuda.amp import autocast", "a global switch"),
    "the environment": ("import os\nos.environ['A'] = 'b'", "imports os"),
    "the environment through torch": ("torch.os.environ['A'] = 'b'", "depends on the environment"),
    "a compiler switch": ("triton.knobs.runtime.interpret = True", "depends on the environment"),
    "an imported switch": ("from triton import knobs", "depends on the environment"),
    "torch.compile": ("f = torch.compile(g)", "put together at run time"),
    "a C++ extension": ("from torch.utils.cpp_extension import load", "reaches into objects"),
    "a weak dictionary": ("c = torch.utils.weak.WeakIdKeyDictionary()", "torch.utils.weak"),
    "private parts": ("torch._C._cuda_setStream(0)", "reaches into objects"),
    "waiting": ("torch.cuda._sleep(1000)", "the clock"),
    "a timer in the kernel": ("@triton.jit\ndef k():\n    t = tl.extra.cuda.globaltimer()", "the clock"),
    "the benchmark's own clock": ("triton.testing.do_bench = None", "triton.testing"),
    "the caller's frame": ("f = g._getframe(1)", "reaches into objects"),
    "a hook": ("def f(x):\n    x.register_hook(print)", "reaches into objects"),
    "a file": ("x = open('/proc/self/maps')", "no business with files"),
    "an early end": ("raise SystemExit(0)", "does not end the process"),
    # Imports.
    "ctypes": ("import ctypes", "imports ctypes, which a kernel has no need of"),
    "threading": ("import threading as t", "imports threading"),
    "importlib": ("from importlib import import_module", "imports importlib"),
    "weakref": ("from weakref import ref", "imports weakref"),
    "time": ("import time", "imports time"),
    "numpy": ("import numpy", "imports numpy"),
    "inside a function": ("def f():\n    import gc", "imports gc"),
    "a builtin under another name": ("from builtins import id as f", "imports builtins"),
    "an event under another name": ("from torch.cuda import Event as E", "imports torch.cuda.Event: the clock"),
    "everything": ("from torch.cuda import *", "imports everything"),
    "a module out of one's own package": ("from sample_kernels.ops.settings import os", "os: whoever reaches"),
    "a relative one": ("from .settings import sys", "sys: whoever reaches"),
    "a look-up out of operator": ("from operator import attrgetter", "put together at run time"),
    # Ways around.
    "a module under another name": ("from torch import cuda as c\nc.Event()", "uses .Event"),
    "a part under another name": ("from torch import cuda as c\nc.stream(0)", "torch.cuda.stream"),
    "torch under another name": ("import torch as t\nt.compile(f)", "torch.compile"),
    "a variable for a module": ("c = torch.cuda\nc.stream(0)", "torch.cuda.stream"),
    "a variable for a variable": ("a = torch\nb = a.cuda\nb.stream(0)", "torch.cuda.stream"),
    "a walrus": ("(c := torch.cuda).stream(0)\nc.graph(0)", "torch.cuda.graph"),
    "a module handed on": ("f(torch)", "hands the module torch around"),
    "a module returned": ("def f():\n    return torch", "hands the module torch around"),
    "a module in a list": ("for m in [torch, triton]:\n    m.compile(0)", "hands the module torch around"),
    "an attribute by its name": ("e = getattr(torch.cuda, 'Event')", "looks up 'Event': the clock"),
    "a place by its name": ("e = getattr(torch, 'compile')", "looks up 'compile': code that is put together"),
    "two names after each other": ("e = getattr(torch, 'cuda').stream(0)", "torch.cuda.stream"),
    "two strings that are one": ("e = getattr(torch.cuda, 'Ev' 'ent')", "looks up 'Event'"),
    "a name in parts": ("e = getattr(torch.cuda, 'Ev' + 'ent')", "by a name that is computed"),
    "a name in a variable": ("e = getattr(torch.cuda, n)", "by a name that is computed"),
    "a name in stars": ("e = getattr(*a)", "by a name that is computed"),
    "getattr under another name": ("g = getattr\ng(torch.cuda, n)", "by a name that is computed"),
    "getattr as an argument": ("reduce(getattr, ['cuda', 'Event'], x)", "by a name that is computed"),
    "a pattern": ("match x:\n    case object(Event=e):\n        pass", "looks up 'Event': the clock"),
    "the builtins": ("__builtins__['id']", "uses __builtins__"),
    "a builtin as an argument": ("k = list(map(id, [x]))", "uses id: an identity"),
    "exec": ("exec('x = 1')", "put together at run time"),
    "eval under another name": ("e = eval\ne('1')", "put together at run time"),
    "an import that is a call": ("__import__('ctypes')", "put together at run time"),
    "letters that look alike": ("\N{FULLWIDTH LATIN SMALL LETTER E}val('1')", "put together at run time"),
    "a module's dictionary": ("torch.__dict__['cuda']", "uses .__dict__"),
    "a module's dictionary by call": ("vars(torch)", "uses vars"),
    "the globals of a function": ("def f(): ...\nf.__globals__['x'] = 1", "uses .__globals__"),
    "another comparison": ("type(x).__eq__ = f", "uses .__eq__"),
    "another attribute by the back door": ("object.__setattr__(torch, 'empty', f)", "uses .__setattr__"),
    "a patch by call": ("setattr(torch, 'empty', f)", "uses setattr"),
    "a name that is shadowed elsewhere": ("def f(id):\n    return id\ndef g(x):\n    return id(x)", "uses id"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_what_a_kernel_has_no_business_with_is_seen(name: str) -> None:
    text, words = CHEATS[name]
    assert words in found(text)


def test_the_same_attribute_is_read_by_its_whole_expression() -> None:
    text = "import os\nos.environ.get('A')\nos.environ.clear()\n"
    about = [sign.about for sign in reach(Source(text), set()) if "environ" in sign.why]
    assert about == ["os.environ.get('A')", "os.environ.clear()"]


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.empty(1)",
        "def open(x):\n    return x\ny = open(1)",
        "n = getattr(x, 'device', None)",
        "if hasattr(torch, 'xpu'):\n    pass",
        "def f(operator):\n    return g(operator)\nimport operator",
        "print(__name__)",
        "v = torch.__version__",
        "class A:\n    def __init__(self):\n        super().__init__()",
        "aligned = x.data_ptr() % 16 == 0",
        "with torch.cuda.device(x.device):\n    pass",
        "n = torch.cuda.get_device_properties(0).multi_processor_count",
        "from triton.tools.tensor_descriptor import TensorDescriptor",
        "from triton.language.extra.cuda.libdevice import rsqrt",
        "from sample_kernels.ops.settings import calculate_settings",
        "f = torch.amp.custom_fwd",
    ],
)
def test_what_kernels_do_every_day_is_not_remarked_on(text: str) -> None:
    assert found(text) == ""


def test_a_folder_that_is_called_like_a_module_of_python_is_not_ones_own_package() -> None:
    assert [sign.about for sign in reach(Source("import time\nimport kernels"), {"time", "kernels"})] == ["time"]


@pytest.mark.parametrize("text", ["\n".join(f"a = a.x{i}" for i in range(100)), "a = a.x\n" * 40])
def test_nobody_is_followed_through_endless_renamings(text: str) -> None:
    with pytest.raises(ValueError, match="follow"):
        Source("import torch as a\n" + text)
