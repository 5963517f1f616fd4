"""libdevice for the interpreter. Triton's own entries are stubs there that return None without a word."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _rint_away(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "div_rn": np.divide,
    "erf": _erf,
    "erfc": _erfc,
    "exp": np.exp,
    "exp10": lambda x: np.power(10.0, x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fast_cosf": np.cos,
    "fast_dividef": np.divide,
    "fast_exp10f": lambda x: np.power(10.0, x),
    "fast_expf": np.exp,
    "fast_log10f": np.log10,
    "fast_log2f": np.log2,
    "fast_logf": np.log,
    "fast_powf": np.power,
    "fast_sinf": np.sin,
    "fast_tanf": np.tan,
    "fast_tanhf": np.tanh,
    "floor": np.floor,
    "fma": lambda x, y, z: x * y + z,
    "fma_rn": lambda x, y, z: x * y + z,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "mul_rn": np.multiply,
    "nearbyint": np.rint,
    "pow": np.power,
    "rcp_rn": np.reciprocal,
    "rint": np.rint,
    "round": _rint_away,
    "rsqrt": _rsqrt,
    "rsqrt_rn": _rsqrt,
    "saturatef": lambda x: np.clip(x, 0.0, 1.0),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
TESTS = {"isnan": np.isnan, "isinf": np.isinf, "isinff": np.isinf, "finitef": np.isfinite, "isfinited": np.isfinite}
"""These answer int32, whatever they are asked about."""


def _result(data: Any, like: tl.tensor, dtype: tl.dtype) -> tl.tensor:
    kind = tl.block_type(dtype, like.shape) if like.type.is_block() else dtype
    return tl.tensor(TensorHandle(data, dtype), kind)


def _elementwise(function: Callable[..., Any]) -> Callable[..., tl.tensor]:
    def call(*arguments: Any, **_: Any) -> tl.tensor:
        like = next(a for a in arguments if isinstance(a, tl.tensor))
        data = [a.handle.data if isinstance(a, tl.tensor) else a for a in arguments]
        return _result(np.asarray(function(*data)).astype(like.handle.data.dtype), like, like.dtype)

    return call


def _test(function: Callable[..., Any]) -> Callable[..., tl.tensor]:
    def call(argument: tl.tensor, **_: Any) -> tl.tensor:
        return _result(function(argument.handle.data).astype(np.int32), argument, tl.int32)

    return call


def _unknown(name: str) -> Callable[..., tl.tensor]:
    def call(*_: Any, **__: Any) -> tl.tensor:
        raise NotImplementedError(f"the interpreter does not know libdevice.{name}")

    return call


def _stand_in(name: str) -> Callable[..., tl.tensor]:
    if name in FUNCTIONS:
        return _elementwise(FUNCTIONS[name])
    return _test(TESTS[name]) if name in TESTS else _unknown(name)


def install() -> None:
    """Replace every entry, before the kernel's module binds one by name."""
    for module_name in MODULES:
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        for name, member in list(vars(module).items()):
            if inspect.isroutine(member) and not name.startswith("_"):
                setattr(module, name, _stand_in(name))
