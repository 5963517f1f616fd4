"""Inputs are drawn from the seed alone and are never kinder than they have to be."""

from __future__ import annotations

import pytest
import torch

from bot.judge import scored
from bot.judge.inputs import DTYPES, HUGE, LARGEST, STRANGER, _gradient, fill, to_blob
from bot.judge.layout import BANKS
from bot.judge.plan import KINDS, Probe, probes_of
from bot.judge.recipes import RECIPES
from bot.targets.sizes import SIZES
from bot.worker.contract import Shape, TensorSpec, offsets
from bot.worker.device import PretendCuda

CHECKS = tuple(
    Shape(f"full-{rows}x{cols}-{dtype}", "full", (("rows", rows), ("cols", cols)), dtype)
    for rows, cols in ((1, 1), (4, 33), (0, 8))
    for dtype in ("float32", "float16")
)


def checks_of(kernel: str) -> tuple[Shape, ...]:
    of = SIZES.get(kernel)
    if of is None or of.names == ("rows", "cols"):
        return CHECKS
    sizes = (tuple(zip(of.names, size, strict=True)) for size in of.quick)
    return tuple(Shape(f"full-{place}", "full", found, "float32") for place, found in enumerate(sizes))


def probes(kernel: str, seed: int = 5) -> tuple[Probe, ...]:
    return probes_of(RECIPES[kernel], checks_of(kernel), seed)


@pytest.mark.parametrize("kernel", sorted(RECIPES))
def test_every_tensor_has_its_type_and_shape_and_is_finite(kernel: str) -> None:
    for probe in probes(kernel):
        filled = fill(RECIPES[kernel], probe)
        for spec in probe.call.tensors:
            tensor = filled[spec.name]
            assert tuple(tensor.shape) == spec.shape
            assert str(tensor.dtype) == f"torch.{spec.dtype}"
            strange = probe.kind == "strange" and spec.name not in {grad.name for grad in probe.call.grads}
            assert strange or torch.isfinite(tensor.double()).all()


def test_the_same_seed_draws_the_same_values() -> None:
    one, other, different = probes("rms_norm"), probes("rms_norm"), probes("rms_norm", seed=6)
    recipe = RECIPES["rms_norm"]
    assert torch.equal(fill(recipe, one[3])["X"], fill(recipe, other[3])["X"])
    assert not torch.equal(fill(recipe, one[3])["X"], fill(recipe, different[3])["X"])


@pytest.mark.parametrize("kernel", sorted(RECIPES))
def test_gradients_are_never_all_ones(kernel: str) -> None:
    for probe in probes(kernel):
        filled = fill(RECIPES[kernel], probe)
        for spec in probe.call.grads:
            assert spec.nbytes == 0 or not (filled[spec.name] == 1).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_gradient_of_a_loss_is_not_rounded_to_one_nor_to_zero(dtype: str) -> None:
    rng = torch.Generator().manual_seed(5)
    spec = TensorSpec("dloss", dtype, ())  # type: ignore[arg-type]
    drawn = torch.stack([_gradient(spec, rng) for _ in range(3000)]).to(DTYPES[dtype])
    assert not (drawn == 1).any() and not (drawn == 0).any()
    assert 0.25 <= drawn.min() < 0.26 and 1.74 < drawn.max() <= 1.75
    assert (drawn < 1).any() and (drawn > 1).any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_no_bank_of_a_scored_case_has_a_gradient_of_one_unless_all_have(dtype: str) -> None:
    rng = torch.Generator().manual_seed(5)
    drawn, ones = (TensorSpec("dloss", dtype, (), ones=one) for one in (False, True))  # type: ignore[arg-type]
    with PretendCuda("cpu"):
        assert not {0.0, 1.0} & {float(scored._gradient(drawn, bank, rng)) for bank in range(BANKS)}
        assert {float(scored._gradient(ones, bank, rng)) for bank in range(BANKS)} == {1.0}


def of_kind(kernel: str, kind: str) -> dict[str, torch.Tensor]:
    checks = (Shape("full", "full", (("rows", 8), ("cols", 256)), "float32"),)
    probe = next(p for p in probes_of(RECIPES[kernel], checks, 3) if p.kind == kind)
    return fill(RECIPES[kernel], probe)


def test_each_kind_is_what_it_says() -> None:
    assert set(KINDS) == {"normal", "scaled_rows", "spikes", "offset", "tails"}
    rows = of_kind("softmax", "scaled_rows")["x"].abs().amax(dim=1)
    assert rows.max() / rows.min() > 16
    spikes = of_kind("softmax", "spikes")["x"]
    assert (spikes[::2].argmax(dim=1) == 255).all()
    highest = spikes.amax(dim=1)
    assert (highest > 9.5).all() and (highest < 14.5).all()
    offset = of_kind("softmax", "offset")["x"]
    assert offset.mean() > 5 and offset.std() < 0.5
    tails = of_kind("softmax", "tails")["x"]
    assert tails.abs().max() > 20


def test_no_two_rows_with_spikes_round_alike() -> None:
    """All rows had one 1/std, and in bfloat16 one error of it: group_norm's winner was refused on another machine for
    the 0.14 % that all of its gradient leaned then, as v0 may anywhere else."""
    spikes = of_kind("softmax", "spikes")["x"].double()
    kept = (1 / spikes.std(dim=1)).bfloat16()
    assert len(kept.unique()) > len(kept) // 2


def test_each_extreme_is_what_it_says() -> None:
    peaks = of_kind("softmax", "peaks")["x"]
    assert (peaks.argmax(dim=1) == 191).all() and (peaks.amax(dim=1) == LARGEST).all()
    huge = of_kind("softmax", "huge")["x"].abs()
    assert HUGE[0] < huge.amax() <= HUGE[1]
    assert 0 < (huge > HUGE[0] / 2).double().mean() < 0.5
    strange = of_kind("softmax", "strange")["x"]
    assert strange[0].isnan().sum() == 1 and strange[1].isposinf().sum() == 1 and strange[2].isneginf().sum() == 1
    assert strange[3:].isfinite().all()


def test_a_scaled_loss_goes_with_the_input_beyond_the_sums_of_half_precision() -> None:
    checks = (Shape("half", "backward", (("rows", 2), ("cols", 2049)), "float16"),)
    recipe = RECIPES["softmax"]
    filled = fill(recipe, next(p for p in probes_of(recipe, checks, 3) if p.kind == "loss_scaled"))
    assert filled["dy"].isfinite().all()
    assert ((filled["x"].double() * filled["dy"].double()).sum(dim=1) > 65504).all()


def test_some_weights_are_zero_and_never_the_first() -> None:
    weights = of_kind("rms_norm", "normal")["W"]
    assert (weights == 0).any() and weights[0] != 0


def test_labels_that_are_no_class_are_met_only_where_nobody_looks_them_up() -> None:
    checks = (Shape("full", "full", (("rows", 40), ("cols", 4)), "float32"),)
    for kernel, met in (("jsd", {True}), ("cross_entropy", {False})):
        recipe = RECIPES[kernel]
        filled = [fill(recipe, probe) for probe in probes_of(recipe, checks, 3)]
        labels = [tensor for one in filled for name, tensor in one.items() if name in ("target", "shift_labels")]
        assert {bool((each == STRANGER).any()) for each in labels if each.dtype == torch.int64} == met


def test_log_probabilities_sum_to_one() -> None:
    filled = of_kind("jsd", "tails")
    torch.testing.assert_close(
        filled["_input"].double().exp().sum(-1), torch.ones(8, dtype=torch.float64), rtol=1e-4, atol=0
    )


def test_labels_leave_some_rows_out_and_never_all() -> None:
    recipe = RECIPES["jsd"]
    checks = (
        Shape("full", "full", (("rows", 40), ("cols", 4)), "float32"),
        Shape("one", "full", (("rows", 1), ("cols", 4)), "float32"),
    )
    labelled = [p for p in probes_of(recipe, checks, 3) if "shift_labels" not in p.constants]
    assert labelled
    for probe in labelled:
        labels = fill(recipe, probe)["shift_labels"]
        counted = (labels != probe.constants["ignore_index"]).sum()
        assert counted > 0
        assert len(labels) == 1 or counted < len(labels)
        assert labels[0] != probe.constants["ignore_index"]


def test_labels_are_classes() -> None:
    recipe = RECIPES["cross_entropy"]
    checks = (Shape("full", "full", (("rows", 40), ("cols", 4)), "float32"),)
    for probe in probes_of(recipe, checks, 3):
        labels = fill(recipe, probe)["target"]
        assert set(labels.tolist()) <= {0, 1, 2, 3, probe.constants["ignore_index"]}
        assert len(set(labels.tolist())) > 3


def test_a_blob_holds_the_tensors_where_the_contract_says() -> None:
    probe = probes("rms_norm")[2]
    filled = fill(RECIPES["rms_norm"], probe)
    blob = to_blob(probe.call, filled)
    starts, size = offsets(probe.call.tensors)
    assert len(blob) == size
    for spec, start in zip(probe.call.tensors, starts, strict=True):
        back = torch.frombuffer(
            bytearray(blob), dtype=filled[spec.name].dtype, count=filled[spec.name].numel(), offset=start
        )
        assert torch.equal(back.reshape(spec.shape), filled[spec.name])
