"""A kernel that tunes itself, compiled ahead for a chip that is not there. Prints what was seen as JSON."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import triton
import triton.language as tl
from triton.runtime.jit import MockTensor

from bot.worker import device
from bot.worker.compiling_ahead import compile_ahead
from bot.worker.contract import ARCHES

SIZES = (256, 512, 1024)
UNFIT = triton.Config({"BLOCK": 96})
"""No power of two."""
HOOKED = triton.Config({"BLOCK": 2048}, pre_hook=lambda arguments: HEARD.append(arguments))
HEARD: list[dict[str, Any]] = []

ALIKE = triton.Config({"BLOCK": 512}, num_stages=1)
"""As the one with three stages, for a kernel without matrix products."""


@triton.autotune(configs=[*(triton.Config({"BLOCK": size}) for size in SIZES), ALIKE, UNFIT, HOOKED], key=["n"])
@triton.jit
def tuned_kernel(y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, i, mask=i < n)


def main() -> None:
    arch = ARCHES["sm_90"]
    device.install(arch, arch.processors)
    kernel: Any = tuned_kernel.fn
    kernel.device_caches[0]  # it has a compiler from here on
    compiled: list[tuple[int, bool]] = []
    plain = kernel.compile

    def heard(source: Any, **words: Any) -> Any:
        beside = threading.current_thread() is not threading.main_thread()
        compiled.append((next(value for value in source.constants.values() if isinstance(value, int)), beside))
        return plain(source, **words)

    kernel.compile = heard
    y, words = MockTensor("fp32"), {"grid": (1,), "warmup": False}
    codes = compile_ahead(tuned_kernel, tuned_kernel.configs, (y, 4096), words)
    ahead = list(compiled)
    for config in (*tuned_kernel.configs[: len(SIZES) + 1], HOOKED):
        kernel.run(y, 4096, **{**words, "warmup": True}, **config.all_kwargs())
    known = [codes.get(config, "") for config in tuned_kernel.configs]
    heard_of = [{name: one[name] for name in ("n", "BLOCK")} for one in HEARD]
    told = {"ahead": sorted(ahead), "again": compiled[len(ahead) :], "codes": known, "hooked": heard_of}
    json.dump(told, sys.stdout)
    print()


if __name__ == "__main__":
    sys.exit(main())
