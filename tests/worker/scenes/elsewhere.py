"""Host code that asks which chip it has, in the ways that people write it. Prints what it heard as JSON."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import torch

from bot.worker import device
from bot.worker.contract import ARCHES

ROOT = Path(__file__).parents[1]
own = device.install(ARCHES["sm_90"], 132)

from torch.cuda import get_device_capability, get_device_properties  # noqa: E402  # as an op's file is: afterwards


class Chip:
    @staticmethod
    @functools.cache
    def major() -> int:
        return get_device_capability()[0]

    @classmethod
    @functools.cache
    def chip(cls) -> str:
        return torch.cuda.get_device_name()


ask = functools.cache(torch.cuda.get_device_name)


def heard() -> list[object]:
    found = [get_device_capability(), get_device_properties(0).multi_processor_count, Chip.major(), Chip.chip(), ask()]
    return [*found, torch.version.hip is not None, torch.version.cuda is not None, own.arch.name, own.processors]


def main() -> None:
    sys.modules["of_no_use"] = None  # type: ignore[assignment]  # so people say that it cannot be imported
    sys.modules["of_slots"] = object()  # type: ignore[assignment]
    seen = {"before": heard()}
    for name in ("sm_80", "gfx942"):
        with device.as_if(own, ARCHES[name], ROOT):
            seen[name] = heard()
    try:
        with device.as_if(own, ARCHES["sm_80"], ROOT):
            heard()
            raise ValueError("half-way")
    except ValueError:
        seen["after"] = heard()
    print(json.dumps(seen))


if __name__ == "__main__":
    sys.exit(main())
