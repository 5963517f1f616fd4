"""One scored case on the GPU: the contents of its banks, the truth in float64, and whether a slot's results are it."""

from __future__ import annotations

import os
from typing import Any

import torch

from bot.judge import oracle
from bot.judge.driver import Driver, Foreign
from bot.judge.inputs import DTYPES
from bot.judge.layout import BANKS, MOST_RIGHT, Layout
from bot.judge.plan import Probe
from bot.judge.recipe import Constants, Fill, Recipe
from bot.judge.tolerance import CROWD_FOR_LEAN, FLOAT32_ULP, LEAN_ULPS, ROWS_FOR_RMS, errors
from bot.worker.contract import Call, Shape, TensorSpec
from bot.worker.contract.routing import routed

TIMES, ULPS = 8.0, 8.0
"""A timed slot may err by this many times v0's largest error there, plus so many units in the last place: enough to see
whether the work was done. How exact it is was decided by the checks, on inputs that are chosen for it."""
LEAN_TIMES, LEAN_ULPS_OF_FLOAT32 = 8.0, 64.0
"""Of what all values together are too large or too small by."""
RMS_TIMES, RMS_ULPS = 1.5, 0.1
"""Of the typical error, the median over rows of their root mean square: with millions of elements that is known so well
that the rule of the checks holds (see tolerance.py). An activation that is nearly right fails here."""


def _values(what: Fill, spec: TensorSpec, rng: torch.Generator) -> torch.Tensor:
    if what == "labels":
        return torch.randint(0, max(1, spec.below), spec.shape, generator=rng, device="cuda")
    if what == "routing":
        chosen = torch.tensor(routed(*spec.shape, spec.below), device="cuda", dtype=DTYPES[spec.dtype])
        return chosen[torch.randperm(spec.shape[0], generator=rng, device="cuda")]
    values = torch.randn(spec.shape, generator=rng, device="cuda", dtype=torch.float32)
    if what == "weight":
        values = 1 + 0.3 * values
    elif what == "projection":
        values = values / max(1, spec.shape[-1]) ** 0.5
    elif what == "turned_projection":
        values = values / max(1, spec.shape[-2]) ** 0.5
    elif what == "probability":
        values = values.softmax(dim=-1)
    elif what == "log_probability":
        values = values.log_softmax(dim=-1)
    elif what == "halves":
        half = values[..., : spec.shape[-1] // 2].tanh()
        values = torch.cat([half, half], dim=-1)
    return values.to(DTYPES[spec.dtype])


def _gradient(spec: TensorSpec, bank: int, rng: torch.Generator) -> torch.Tensor:
    """A scalar loss gets 1 in every bank where the case is of such, and else never: an op may tell the two apart."""
    if spec.shape == ():
        return torch.tensor(1.0 if spec.ones else 0.5 + bank, device="cuda", dtype=DTYPES[spec.dtype])
    return torch.randn(spec.shape, generator=rng, device="cuda", dtype=torch.float32).to(DTYPES[spec.dtype])


def plain(call: Call) -> Constants:
    """Everything that the call says beside its tensors."""
    return {a.name: a.value for a in call.arguments if a.tensor is None}


def contents(recipe: Recipe, call: Call, bank: int, seed: int) -> dict[str, torch.Tensor]:
    rng = torch.Generator("cuda").manual_seed(seed + bank)
    operands = {operand.name: operand for operand in recipe.operands}
    constants = plain(call)
    found = {
        a.tensor.name: _values(operands[a.tensor.name].filled(constants), a.tensor, rng)
        for a in call.arguments
        if a.tensor is not None
    }
    return found | {spec.name: _gradient(spec, bank, rng) for spec in call.grads}


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def in_memory_order(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """As it lies where the op was recorded: scored cases are dense, but for heads as they leave a projection."""
    return tensor.transpose(1, 2) if layout == "swapped" and tensor.dim() == 4 else tensor


class Scored:
    """Lives as long as there is room for it; its memory is what replayers are handed."""

    def __init__(self, recipe: Recipe, call: Call, layout: Layout, seed: int, driver: Driver) -> None:
        self.call, self.layout = call, layout
        self._driver = driver
        self._address, self._size, self.descriptor = driver.share(layout.shared_bytes)
        self.shared_bytes = self._size
        self._shared: Any = torch.as_tensor(Foreign(self._address, self._size), device="cuda")
        self._shared.zero_()
        self._truth = [self._bank(recipe, bank, seed) for bank in range(BANKS)]
        self._limits: dict[tuple[str, int], tuple[float, float, float]] = {}
        """(largest, typical, common) error that a result may have, by its label and bank."""
        self._right: dict[int, list[torch.Tensor]] = {}
        """By bank, all that was found right so far, bit for bit: right is right whoever computed it."""
        torch.cuda.synchronize()

    def close(self) -> None:
        """Its memory goes back. Made again it is the same, for its contents are drawn from the same seed."""
        del self._shared, self._truth, self._right
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self._driver.unmap(self._address, self._size)
        os.close(self.descriptor)

    def _bank(self, recipe: Recipe, bank: int, seed: int) -> oracle.Truth:
        made = contents(recipe, self.call, bank, seed)
        layouts = {spec.name: spec.layout for spec in self.call.tensors}
        for name, offset, nbytes in self.layout.inputs:
            start = self.layout.bank(bank) + offset
            self._shared[start : start + nbytes].copy_(_bytes(in_memory_order(made[name], layouts[name])))
        shape = Shape(self.call.case, "full", (), "float32")
        probe = Probe(self.call, shape, "normal", {**recipe.stock, **plain(self.call)}, seed)
        truth = oracle.evaluate(recipe, probe, oracle.exact(made))
        torch.cuda.empty_cache()
        return truth

    def _lane(self, slot: int, lane: int) -> Any:
        start = self.layout.result(slot, lane)
        return self._shared[start : start + self.layout.lane_bytes]

    def _slot(self, slot: int) -> Any:
        """Eight bytes at a time: compared one by one they take several times as long."""
        start = self.layout.result(slot, 0)
        return self._shared[start : start + self.layout.lanes * self.layout.lane_bytes].view(torch.int64)

    def _lane_is_right(self, raw: Any, bank: int, *, is_baseline: bool) -> str:
        for (label, offset, nbytes), (key, truth) in zip(self.layout.outputs, self._ordered(bank), strict=True):
            found = raw[offset : offset + nbytes].view(self._dtype(key, nbytes, truth)).reshape(truth.shape)
            if not truth.numel():
                continue
            seen = errors(found, truth)
            worst, typical = float(seen.worst.max()), float(seen.rms.median())
            if is_baseline and (label, bank) not in self._limits:
                ulp = float(torch.finfo(found.dtype).eps)
                self._limits[label, bank] = (
                    TIMES * worst + ULPS * ulp,
                    RMS_TIMES * typical + RMS_ULPS * ulp,
                    LEAN_TIMES * max(abs(seen.lean), abs(seen.grain))
                    + LEAN_ULPS * ulp
                    + LEAN_ULPS_OF_FLOAT32 * FLOAT32_ULP,
                )
            most, usual, common = self._limits.get((label, bank), (0.0, 0.0, 0.0))
            if not worst <= most:
                return f"{label.replace(':', ' ')} is wrong by {worst:.3g} of its row's largest value"
            if seen.rms.numel() >= ROWS_FOR_RMS and not typical <= usual:
                return f"{label.replace(':', ' ')} is typically wrong by {typical:.3g} of its row's largest value"
            if seen.crowd >= CROWD_FOR_LEAN and not abs(seen.lean) <= common:
                return f"{label.replace(':', ' ')} is wrong by {seen.lean:.3g} of itself everywhere"
        return ""

    def _ordered(self, bank: int) -> list[tuple[tuple[str, str], torch.Tensor]]:
        truth = {f"{role}:{name}": ((role, name), value) for (role, name), value in self._truth[bank].items()}
        return [truth[label] for label, _, _ in self.layout.outputs]

    def _dtype(self, key: tuple[str, str], nbytes: int, truth: torch.Tensor) -> torch.dtype:
        """The type v0 leaves behind: told by its size and by the types of the call."""
        size = nbytes // max(1, truth.numel())
        specs = {spec.name: spec for spec in self.call.tensors}
        named = (
            specs.get(key[1]) if key[0] == "gradient" else (self.call.grads[int(key[1])] if key[1].isdigit() else None)
        )
        if named is not None and DTYPES[named.dtype].itemsize == size:
            return DTYPES[named.dtype]
        return {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[size]

    def verify(self, slot: int, bank: int, *, is_baseline: bool) -> str:
        """Empty when every lane's results are right; bit for bit those seen before, or within the limit."""
        torch.cuda.synchronize()
        known = self._right.setdefault(bank, [])
        likely = known if is_baseline else reversed(known)  # v0's own came first
        if any(torch.equal(self._slot(slot), right) for right in likely):
            return ""
        for lane in range(self.layout.lanes):
            twin = lane % BANKS
            if twin != lane and torch.equal(self._lane(slot, lane), self._lane(slot, twin)):
                continue
            why = self._lane_is_right(self._lane(slot, lane), self.layout.contents(bank, lane), is_baseline=is_baseline)
            if why:
                return why
        self._right[bank] = [*known, self._slot(slot).clone()][-MOST_RIGHT:]
        return ""

    def spoil(self) -> None:
        """Nothing of the last block is left for the next one to be taken for."""
        start = self.layout.result(0, 0)
        self._shared[start:].fill_(0x55)
        torch.cuda.synchronize()
