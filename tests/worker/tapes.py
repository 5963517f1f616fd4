"""Small tapes to hold against the rules."""

from __future__ import annotations

from typing import Any

from bot.worker.contract.tape import Item, Kernel, Left, Operation, Pointer, Region, Scalar, Tape, View

HASH = "ab" * 32
X = View(0, 0, "float32", (4, 8), (8, 1))
Y = View(1, 0, "float32", (4, 8), (8, 1))


def kernel(**changes: Any) -> Kernel:
    given: dict[str, Any] = {
        "binary": HASH,
        "symbol": "_twice_kernel",
        "grid": (4, 1, 1),
        "threads": 128,
        "shared": 0,
        "arguments": (Pointer(1, 0), Pointer(0, 0), Scalar("i32", 8)),
    }
    return Kernel(**{**given, **changes})


def operation(op: str = "aten::mul.Tensor", *items: Item, result: View | None = Y) -> Operation:
    return Operation(op, items or (Item("view", view=X), Item("float", number=2.0)), result)


def tape(*steps: Kernel | Operation, **changes: Any) -> Tape:
    given: dict[str, Any] = {
        "case": "forward-4x8",
        "regions": (Region(128, "x"), Region(128)),
        "before": (),
        "steps": steps or (kernel(),),
        "left": (Left("output", "0", Y),),
    }
    return Tape(**{**given, **changes})
