"""How wrong a variant may be: measured by the untouched kernel's own error against float64, never by a global constant.

Errors are taken relative to the largest value of their row, so that one large row cannot hide a wrong small one. With b
the baseline's error and v the variant's: the largest v may be 2 b + 2 ulp, the typical (median over rows of the root
mean square) 1.5 b + 0.1 ulp. Where float32 rounding alone moves the result further than b, that is the yardstick
instead, for both (see noise.py): the interpreter's exp is rounded far better than a GPU's, and exp2 of a product is
not. Rounding goes both ways, so all values together may lean hardly at all: a softmax of a long row that is one
percent too large everywhere hides in bfloat16's last place, but not in its sum. Right variants that add in blocks or
trees or use exp2 pass; sums in half precision, sums rounded to bfloat16 and a lost column fail (tests/honest and
tests/cheats).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

MAX_FACTOR = 2.0
MAX_ULPS = 2.0
NOISE_FACTOR = 1.5
"""The largest of six samples is not the largest there is."""
RMS_FACTOR = 1.5
RMS_ULPS = 0.1
ROWS_FOR_RMS = 64
"""Below this the median of row errors of two equally good kernels differs by more than the rule allows, by chance
alone."""
ROWS_FOR_LARGEST = 32
"""Of fewer rows the largest error is a few draws of luck, and another equally good kernel has other luck. Where it is
one rounding, the larger of two rows is beyond twice the larger of two others in 12 of 100 cases, where it is the sum of
four in 19, and of a gradient of three rows through the mean of squares less the square of the mean in 13. So v0 is
asked for 15 further draws of the check. Held against all of them, of the first two fewer than 1 in 1000 are refused, of
such gradients of one to sixteen rows 0 to 2. The price: of a kernel whose own error is multiplied by ten, 17 of 100
such probes pass in place of 3; it has to pass all.

How far all of them lean is luck as well, however many rows there are: what is kept of a group in half precision, as
group_norm's mean and 1/std, leans all of its gradient, and by luck the groups lean against each other. A change that
added up in float32, and was right where v0 was off, was refused for that. So for their lean all rows have draws, those
of many rows nine and on a GPU alone. Of two equally good kernels, whose leans go as normal numbers do, the one is then
refused in 2 of 100 cases, where one sample alone would refuse it in 37."""
LEAN_ULPS = 0.05
"""Approximate transcendentals lean by a twentieth of a last place of bfloat16, rounding to it by far less."""
LEAN_ULPS_OF_FLOAT32 = 8.0
"""What every kernel computes in."""
GRAINS = 2.0
"""Who rounds twice may lean twice."""
CROWD_FOR_LEAN = 1024.0
"""Of fewer values the chance of their roundings leans as much as the rule allows."""
FLOAT32_ULP = float(torch.finfo(torch.float32).eps)
LOST = 2.0**20 * float(torch.finfo(torch.float32).tiny)
"""Below 1.2e-38, where float32 has no more digits, a GPU's exponential to the base of two is zero, and all that is made
of it by whatever factor. Of attn_res' rows of gradients a quarter are made of such shares, and each counted as much as
any other: `base_two` was refused for a gradient that was 3.9 % too small everywhere."""
GROSS = {"float32": 1e-3, "float16": 5e-2, "bfloat16": 1e-1, "float64": 1e-6}
"""An untouched kernel further off than this is not fit to be a yardstick."""


@dataclass(frozen=True)
class Errors:
    """Errors of one tensor, by row, as shares of the row's largest value."""

    worst: torch.Tensor
    rms: torch.Tensor
    lean: float = 0.0
    """Of all values together: the share by which they are too large (above 0) or too small."""
    crowd: float = 0.0
    """How many values of one size would tell it as well."""
    grain: float = 0.0
    """By how much the truth itself leans once it is rounded to the type: a gradient of one value alone is rounded one
    way everywhere."""


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    """Two dimensions: rows to judge by themselves. The entries of a vector are sums of their own, each a row."""
    if tensor.dim() <= 1:
        return tensor.reshape(-1, 1)
    return tensor.reshape(-1, tensor.shape[-1])


def _scale(truth: torch.Tensor, floor: float) -> torch.Tensor:
    smallest = max(floor, LOST)
    if truth.dim() <= 1:
        return truth.abs().max().clamp(min=smallest).expand(truth.numel())
    return _rows(truth).abs().amax(dim=1).clamp(min=smallest)


def largest_of(samples: Sequence[Errors]) -> Errors:
    """Of several samples of the same error: the largest there was, and how large it typically is, by row."""
    worst = torch.stack([sample.worst for sample in samples]).amax(dim=0)
    rms = torch.stack([sample.rms for sample in samples]).square().mean(dim=0).sqrt()
    furthest = max(samples, key=lambda sample: abs(sample.lean))
    return Errors(worst, rms, furthest.lean, furthest.crowd, furthest.grain)


def _lean(difference: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """Of rows that are shares of their largest value, so that each of them counts."""
    squares = truth.square()
    total, fourth = float(squares.sum()), float(squares.square().sum())
    if fourth == 0.0:  # nothing but zeros, or nothing above the floor
        return 0.0, 0.0
    return float((difference * truth).sum()) / total, total**2 / fourth


def errors(found: torch.Tensor, truth: torch.Tensor, floor: float = 0.0, kind: torch.dtype | None = None) -> Errors:
    """`kind` is the type of what was found, if that was made wider since.

    Where the found value is not finite the error is NaN, which no limit accepts. Where the truth is not, there is
    nothing to be near to, and no error.
    """
    if truth.numel() == 0:
        return Errors(torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64))
    there, kind = truth.isfinite(), kind or found.dtype
    truth, found = torch.where(there, truth, 0.0), torch.where(there, found.double(), 0.0)
    scale = _scale(truth, floor)[:, None]
    difference = _rows(found - truth) / scale
    shares = _rows(truth) / scale
    lean, crowd = _lean(difference, shares)
    grain, _ = _lean(_rows(truth.to(kind).double() - truth) / scale, shares)
    return Errors(difference.abs().amax(dim=1), difference.square().mean(dim=1).sqrt(), lean, crowd, grain)


@dataclass(frozen=True)
class Entry:
    """One tensor of one probe: how wrong the untouched kernel was and how wrong the variant is."""

    case: str
    label: str
    dtype: str
    baseline: Errors
    variant: Errors
    noise: Errors
    """The errors that float32 rounding alone makes on these inputs."""
    drawn: float = 0.0
    """How far the untouched kernel strayed in further draws of the same, see `strayed`."""
    drawn_lean: float = 0.0
    """How far its values leaned together there, see `leaned`."""
    unheard: tuple[str, ...] = ()
    """Further draws of the same that it was not heard on yet."""
    values: str = ""
    """What it was asked with, for people."""

    @property
    def rows(self) -> int:
        return int(self.baseline.worst.numel())

    @property
    def ulp(self) -> float:
        return float(torch.finfo(getattr(torch, self.dtype)).eps)


def strayed(draws: Sequence[tuple[Errors, Errors]], noise: Errors) -> float:
    """How far an equally good kernel may stray on inputs of this noise, as far as several draws tell, each beside its
    own noise.

    The share of rounding is taken out of each draw and that of these inputs put in: a sum that is small by chance, as
    compared with its error, would loosen all others. What is beyond is the kernel's own.
    """
    beyond = [float(off.worst.max()) - NOISE_FACTOR * float(beside.worst.max()) for off, beside in draws]
    largest = max((one for one in beyond if math.isfinite(one)), default=0.0)
    return NOISE_FACTOR * float(noise.worst.max()) + largest if largest > 0 else 0.0


def leaned(draws: Sequence[tuple[Errors, Errors]]) -> float:
    """How far the values of an equally good kernel may lean, as far as several draws tell: whatever rounding alone made
    of them is taken out, for that of these inputs has a limit of its own."""
    beyond = [abs(off.lean) - NOISE_FACTOR * abs(beside.lean) for off, beside in draws]
    return max((0.0, *(one for one in beyond if math.isfinite(one))))


@dataclass(frozen=True)
class Mark:
    """The closest a case came to a limit, or how far it went beyond."""

    label: str
    rule: str
    ratio: float
    """error / limit; may be NaN, so ask `not ratio <= 1`."""
    said: str = ""
    """The error, that of the untouched kernel and what both were asked with, for people."""
    unheard: tuple[str, ...] = ()
    """Draws of the untouched kernel that may raise the limit."""


def _over(error: float, limit: float) -> float:
    return error / limit if limit > 0 else (0.0 if error == 0 else float("inf"))


def worse(one: Mark | None, other: Mark) -> Mark:
    """The larger ratio; NaN is worse than anything."""
    if one is None or (one.ratio == one.ratio and not other.ratio <= one.ratio):
        return other
    return one


def _said(error: float, own: float, values: str = "") -> str:
    return f"{error:.2g} of the largest value, its own {own:.2g}" + (f"; {values}" if values else "")


def _largest(entries: Sequence[Entry]) -> Iterator[tuple[str, Mark]]:
    for entry in entries:
        yardstick = max(float(entry.baseline.worst.max()), NOISE_FACTOR * float(entry.noise.worst.max()))
        few = entry.rows < ROWS_FOR_LARGEST
        if few:
            yardstick = max(yardstick, entry.drawn)
        error, limit = float(entry.variant.worst.max()), MAX_FACTOR * yardstick + MAX_ULPS * entry.ulp
        said = _said(error, float(entry.baseline.worst.max()), entry.values)
        yield entry.case, Mark(entry.label, "largest", _over(error, limit), said, entry.unheard if few else ())


def _median(found: Sequence[Errors]) -> float:
    return float(torch.cat([errors.rms for errors in found]).median())


def _typical(entries: Sequence[Entry]) -> Iterator[tuple[str, Mark]]:
    """Medians over all cases of one type; told of the case that has most rows."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.label, entry.dtype), []).append(entry)
    for (label, _), group in groups.items():
        if sum(entry.rows for entry in group) < ROWS_FOR_RMS:
            continue
        base = _median([entry.baseline for entry in group])
        noise = _median([entry.noise for entry in group])
        mine = _median([entry.variant for entry in group])
        ratio = _over(mine, RMS_FACTOR * max(base, noise) + RMS_ULPS * group[0].ulp)
        yield max(group, key=lambda entry: entry.rows).case, Mark(label, "typical", ratio, _said(mine, base))


def _leaning(entries: Sequence[Entry]) -> Iterator[tuple[str, Mark]]:
    for entry in entries:
        if entry.variant.crowd < CROWD_FOR_LEAN:
            continue
        rounded, noise = GRAINS * abs(entry.variant.grain), NOISE_FACTOR * abs(entry.noise.lean)
        yardstick = max(abs(entry.baseline.lean), noise, rounded, entry.drawn_lean)
        limit = RMS_FACTOR * yardstick + LEAN_ULPS * entry.ulp + LEAN_ULPS_OF_FLOAT32 * FLOAT32_ULP
        said = _said(entry.variant.lean, entry.baseline.lean, entry.values)
        yield entry.case, Mark(entry.label, "common", _over(abs(entry.variant.lean), limit), said, entry.unheard)


def unfit(entries: Sequence[Entry]) -> str:
    """Why the untouched kernel is no yardstick at all: its typical error is gross. Empty when it is one."""
    groups: dict[tuple[str, str], list[torch.Tensor]] = {}
    for entry in entries:
        groups.setdefault((entry.label, entry.dtype), []).append(entry.baseline.rms)
    for (label, dtype), rms in groups.items():
        if not float(torch.cat(rms).median()) <= GROSS[dtype]:
            return f"{label} of the untouched kernel is typically further than {GROSS[dtype]:g} from the reference"
    return ""


def _all(entries: Sequence[Entry]) -> Iterator[tuple[str, Mark]]:
    yield from (*_largest(entries), *_typical(entries), *_leaning(entries))


def marks(entries: Sequence[Entry]) -> dict[str, Mark]:
    """The worst mark of each case."""
    worst: dict[str, Mark] = {}
    for case, mark in _all(entries):
        worst[case] = worse(worst.get(case), mark)
    return worst


def beyond(entries: Sequence[Entry]) -> Iterator[tuple[str, Mark]]:
    """Each mark beyond its limit, with its case."""
    return ((case, mark) for case, mark in _all(entries) if not mark.ratio <= 1)
