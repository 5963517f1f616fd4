"""A library may have an op in several languages, and a dispatcher that takes one by what is installed (Liger-Kernel:
Triton, cuTile, the CuTe DSL). Judged are its Triton kernels, so it is told to take those, wherever an op is loaded."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from bot.worker.contract.dispatching import TRITON, Dispatched, is_name

PLACE = "backends"
"""Where a package has it, as Liger-Kernel does. Its environment variable would not do: liger-kernel 0.8.5 reads
`LIGER_KERNEL_IMPL` in a second place, which refuses the name."""
NEEDED = ("resolve_impl", "set_impl")


def _dispatcher(package: str) -> Any:
    """None where the package has none, or something else by these names."""
    with contextlib.suppress(Exception, SystemExit):  # a module may answer for its attributes, and raise
        found = sys.modules.get(f"{package}.{PLACE}")
        if all(callable(getattr(found, name, None)) for name in NEEDED):
            return found
    return None


def _taken(dispatcher: Any, op: str) -> str:
    """Empty where it cannot say, or says what is no name."""
    with contextlib.suppress(Exception, SystemExit):
        name = dispatcher.resolve_impl(op).impl_name
        return name if is_name(name) else ""
    return ""


def force(package: str, ops: Sequence[str] = ()) -> tuple[Dispatched, ...]:
    """From now on this process takes the Triton implementation of every op of an imported package; what it would have
    taken of these by itself is asked first, which imports the other languages. What goes wrong in there is no news of
    ours: a pass that runs something else holds no launch that can be recorded."""
    dispatcher = _dispatcher(package)
    if dispatcher is None:
        return ()
    before = {op: _taken(dispatcher, op) for op in ops}
    with contextlib.suppress(Exception, SystemExit):
        dispatcher.set_impl(TRITON)
    told = (Dispatched(op, by_itself, _taken(dispatcher, op)) for op, by_itself in before.items() if by_itself)
    return tuple(one for one in told if one.judged)
