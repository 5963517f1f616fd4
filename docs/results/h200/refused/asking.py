"""How long torch takes to say which GPU a tensor is on, each time or once, as launch numbers for one architecture ask.

python docs/results/h200/refused/asking.py
"""

import functools
import timeit

import torch

X = torch.ones(4, device="cuda")
NUMBER, TIMES = 2000, 5


def each_time(device: torch.device) -> bool:
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    known = torch.cuda.get_device_properties(device)
    return (known.major, known.minor) == (9, 0)


@functools.cache
def asks(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) == (9, 0)


@torch.compiler.assume_constant_result
def once(device: torch.device) -> bool:
    return asks(device)


DEVICE = X.device
PROPERTIES = torch.cuda.get_device_properties(DEVICE)
ASKED = {
    "get_device_properties": lambda: torch.cuda.get_device_properties(DEVICE),
    "device_count": torch.cuda.device_count,
    "properties.major": lambda: PROPERTIES.major,
    "ungated x.device": lambda: X.device,
    "asked each time": lambda: each_time(X.device),
    "asked once": lambda: once(X.device),
}

if __name__ == "__main__":
    for name, ask in ASKED.items():
        ask()
        best = min(timeit.repeat(ask, number=NUMBER, repeat=TIMES)) / NUMBER
        print(f"{name}: {best * 1e6:.2f} us")
