"""One training run with the ops of one tree, in a process of its own: train.py starts it five times.

It imports liger_kernel from TREE/src and from nowhere else, and writes down which file every module of it was, which
kernels were launched from which file (of a file that has none, which autograd functions ran), and of every step its
losses and its time. With TRITON_INTERPRET=1 it runs on a CPU, in Triton's interpreter as the bot checks variants in it,
and times nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

LIBRARY = "liger_kernel"
PROCESSORS = 5
"""Of the chip that the interpreter pretends: few, so that it is quick."""


def asked() -> argparse.Namespace:
    asking = argparse.ArgumentParser(description=__doc__)
    asking.add_argument("tree", type=Path)
    asking.add_argument("answer", type=Path)
    asking.add_argument("--size", required=True)
    asking.add_argument("--type", required=True)
    asking.add_argument("--steps", type=int, required=True)
    asking.add_argument("--warm", type=int, required=True)
    asking.add_argument("--rate", type=float, required=True)
    asking.add_argument("--seed", type=int, required=True)
    asking.add_argument("--dense", action="store_true", help="without a mixture of experts")
    asking.add_argument("--nudge", action="store_true", help="begin a rounding error away")
    return asking.parse_args()


def pretend() -> contextlib.AbstractContextManager[Any]:
    """Triton's interpreter, mended, and torch.cuda answering for a chip that is not there."""
    from bot.worker import device, interpreter
    from bot.worker.contract.arches import ARCHES

    os.environ["LIGER_FUSED_MOE_AUTOTUNE"] = "0"  # nothing can be timed here
    device.install(ARCHES["sm_90"], PROCESSORS)
    interpreter.install()
    return device.PretendCuda("cpu")


def tuning_side_by_side() -> contextlib.AbstractContextManager[Any]:
    """fused_moe times 240 configurations, and compiles each right before: here as the bot's workers do, all of a kernel
    side by side. Which is the fastest Triton still finds by itself."""
    from bot.worker.tuning import pinned

    return pinned(())


def choose(source: Path) -> None:
    """The library comes from this folder, as text: bytecode that lies about may be of another text."""
    if any(name.split(".")[0] == LIBRARY for name in sys.modules):
        raise SystemExit(f"{LIBRARY} was imported before its tree was chosen")
    sys.dont_write_bytecode, sys.pycache_prefix = True, str(source / "no-bytecode-here")
    sys.path.insert(0, str(source))


def loaded(source: Path) -> dict[str, str]:
    """Every module of the library by its file below `source`, with its hash."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] == LIBRARY and (origin := getattr(module, "__file__", None)) is not None:
            path = Path(origin).resolve()
            if not path.is_relative_to(source):
                raise SystemExit(f"{name} was loaded from {path}, which is not in {source}")
            found[path.relative_to(source).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@contextlib.contextmanager
def watching(source: Path, launched: dict[str, set[str]]) -> Iterator[None]:
    """Notes which kernels are launched from which file; not while anything is timed."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **named: Any) -> Any:
            path = Path(inspect.unwrap(self.fn).__code__.co_filename).resolve()
            if path.is_relative_to(source):
                launched.setdefault(path.relative_to(source).as_posix(), set()).add(self.fn.__name__)
            return original(self, *args, **named)

        return run

    kept = [(owner, owner.run) for owner in (JITFunction, InterpretedFunction)]
    for owner, original in kept:
        owner.run = noting(original)
    try:
        yield
    finally:
        for owner, original in kept:
            owner.run = original


@contextlib.contextmanager
def noticing(source: Path, ran: dict[str, set[str]]) -> Iterator[None]:
    """Notes which autograd functions run their forward pass, by the file that says it: an op may launch the kernels of
    other files alone."""
    import torch

    def noting(path: str, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **named: Any) -> Any:
            ran.setdefault(path, set()).add(name)
            return original(*args, **named)

        return forward

    kept = []
    for one in torch.autograd.Function.__subclasses__():
        path = Path(getattr(sys.modules.get(one.__module__), "__file__", None) or "").resolve()
        if path.is_relative_to(source) and "forward" in vars(one):
            kept.append((one, vars(one)["forward"]))
            where = path.relative_to(source).as_posix()
            one.forward = staticmethod(noting(where, one.__name__, one.forward))
    try:
        yield
    finally:
        for one, original in kept:
            one.forward = original


BITS = {2: "int16", 4: "int32"}
"""What the numbers of a parameter are as bits, by their size in bytes."""


def nudge(parameters: Iterable[Any]) -> None:
    """The first number of each becomes its neighbour, the one further from zero."""
    import torch

    with torch.no_grad():
        for one in parameters:
            one.detach().view(-1).view(getattr(torch, BITS[one.element_size()]))[0] += 1


class Training:
    def __init__(self, asked: argparse.Namespace, home: str, timed: bool) -> None:
        self.asked, self.home, self.timed = asked, home, timed

    def _data(self, size: Any) -> Any:
        """Rare words are rare: of the first n words each decade is as frequent as the next."""
        import torch

        torch.manual_seed(self.asked.seed)
        shape = (max(self.asked.steps, self.asked.warm), size.batch, size.tokens)
        return (float(size.vocabulary) ** torch.rand(shape, dtype=torch.float64)).long() - 1

    def run(self, count: int) -> dict[str, Any]:
        """From the same start, whatever ran before."""
        import model
        import torch

        size = dataclasses.replace(model.SIZES[self.asked.size], dense=self.asked.dense)
        data = self._data(size)
        with torch.device(self.home):
            torch.manual_seed(self.asked.seed)
            learner, teacher = (of(size).to(getattr(torch, self.asked.type)) for of in (model.Decoder, model.Teacher))
        drawn = [one.detach() for one in (*learner.parameters(), *teacher.parameters())]
        bits = [one.view(getattr(torch, BITS[one.element_size()])) for one in drawn]
        start = sum(int(one.sum(dtype=torch.int64)) for one in bits)
        if self.asked.nudge:
            nudge(learner.parameters())
        optimizer = torch.optim.AdamW(learner.parameters(), lr=self.asked.rate)
        steps = [self._step(learner, teacher, optimizer, words.to(self.home)) for words in data[:count]]
        parameters = sum(one.numel() for one in learner.parameters())
        digest = hashlib.sha256(data.numpy().tobytes()).hexdigest()
        return {"parameters": parameters, "start": start, "data": digest, "steps": steps}

    def _step(self, learner: Any, teacher: Any, optimizer: Any, words: Any) -> dict[str, Any]:
        import model
        import torch

        torch.cuda.synchronize()
        began = time.perf_counter()
        optimizer.zero_grad()
        found = model.losses(learner, teacher, words)
        loss = model.total(found)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        took = time.perf_counter() - began
        gradients = [one.grad.float().norm() for one in learner.parameters()]
        return {
            "losses": {"loss": loss.item(), **{name: one.item() for name, one in found.items()}},
            "gradient": torch.stack(gradients).norm().item(),
            "ms": took * 1000 if self.timed else None,
        }


def main() -> None:
    asking, interpreted = asked(), os.environ.get("TRITON_INTERPRET") == "1"
    source = (asking.tree / "src").resolve()
    if not source.is_dir():
        raise SystemExit(f"{source} is no folder")
    import torch
    import triton

    pretending = pretend() if interpreted else contextlib.nullcontext()
    tuning = contextlib.nullcontext() if interpreted else tuning_side_by_side()
    choose(source)
    import liger_kernel

    liger_kernel.set_impl("nvidia-triton")  # else its dispatcher may take kernels in another language
    import model  # noqa: F401  of this folder: its ops are the tree's

    training = Training(asking, "cpu" if interpreted else "cuda", timed=not interpreted)
    launched: dict[str, set[str]] = {}
    ran: dict[str, set[str]] = {}
    with pretending:
        with watching(source, launched), noticing(source, ran), tuning:
            training.run(asking.warm)
        told = training.run(asking.steps)
    told |= {
        "gpu": None if interpreted else torch.cuda.get_device_name(),
        "peak_bytes": None if interpreted else torch.cuda.max_memory_allocated(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
        "files": loaded(source),
        "launched": {path: sorted(names) for path, names in sorted({**ran, **launched}.items())},
    }
    asking.answer.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
