"""Hidden shapes: others each time, of the same names, and for each kernel of the sizes that it has."""

from __future__ import annotations

import math

import pytest

from bot.judge import hidden as hidden_shapes
from bot.judge.hidden import KINDS, MOST, MOST_NUMBERS, TILE, Sizes, hidden, numbers, unseen_sizes
from bot.judge.inputs import fill
from bot.judge.oracle import truth
from bot.judge.plan import minimum_bytes, probes_of
from bot.judge.recipes import RECIPES
from bot.targets.sizes import SIZES
from bot.targets.suites import suite_of
from bot.worker.contract import MAX_BLOB, Shape

CHECKS = tuple(
    Shape(f"{direction}-4x256-float32", direction, (("rows", 4), ("cols", 256)), "float32")
    for direction in ("forward", "backward")
)
SOFTMAX = RECIPES["softmax"]


def drawn(kernel: str, seed: int) -> tuple[Shape, ...]:
    suite = suite_of(kernel)
    cases, checks = (
        tuple(Shape(case.id, case.direction, case.shape, case.dtype) for case in some)
        for some in (suite.cases, suite.checks)
    )
    return hidden(RECIPES[kernel], cases, checks, seed)


def test_each_pass_meets_every_kind_and_every_type() -> None:
    found = hidden(SOFTMAX, (), CHECKS, 1)
    assert len(found) == 2 * len(KINDS)
    for direction in ("forward", "backward"):
        mine = [shape for shape in found if shape.direction == direction]
        assert {shape.dtype for shape in mine} == {"float16", "bfloat16", "float32"}
        assert max(dict(shape.sizes)["rows"] for shape in mine) > 64 * 132
        assert max(dict(shape.sizes)["cols"] for shape in mine) > 65536


@pytest.mark.parametrize("kernel", sorted(k for k, of in SIZES.items() if of.names != ("rows", "cols")))
def test_the_truth_can_be_told_of_whatever_is_drawn(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head of 33 that is cut in half ended the judge, and the campaign with it."""
    monkeypatch.setattr(hidden_shapes, "MOST", 2**9)  # the same odd sizes, few enough to be quick
    recipe = RECIPES[kernel]
    for seed in range(6):
        for shape in drawn(kernel, seed):
            (probe, *_) = probes_of(recipe, (shape,), seed)
            assert truth(recipe, probe, fill(recipe, probe))


@pytest.mark.parametrize("kernel", sorted(SIZES))
def test_whatever_is_drawn_fits_into_a_check(kernel: str) -> None:
    """Few sizes can be many numbers: heads of groups of units were 284 MB, and the campaign ended with a crash."""
    recipe = RECIPES[kernel]
    for seed in range(12):
        for shape in drawn(kernel, seed):
            (probe, *_) = probes_of(recipe, (shape,), seed)
            tensors = [a.tensor for a in probe.call.arguments if a.tensor is not None] + list(probe.call.grads)
            assert sum(math.prod(one.shape) for one in tensors) <= MOST_NUMBERS
            assert 8 * numbers(recipe, dict(shape.sizes)) <= MAX_BLOB


def test_of_too_many_numbers_the_largest_size_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = RECIPES["qwen2vl_mrope"]
    whole = [dict(shape.sizes) for shape in drawn("qwen2vl_mrope", 3)]
    most = max(numbers(recipe, sizes) for sizes in whole)
    monkeypatch.setattr(hidden_shapes, "MOST_NUMBERS", most)
    assert [dict(shape.sizes) for shape in drawn("qwen2vl_mrope", 3)] == whole
    monkeypatch.setattr(hidden_shapes, "MOST_NUMBERS", most - 1)
    less = [dict(shape.sizes) for shape in drawn("qwen2vl_mrope", 3)]
    changed = [(one, other) for one, other in zip(whole, less, strict=True) if one != other]
    assert changed and all(numbers(recipe, one) == most for one, _ in changed)
    for one, other in changed:
        (name,) = (name for name in one if one[name] != other[name])
        assert one[name] == max(one.values()) and other[name] == one[name] // 2 | 1


def test_what_the_reference_makes_on_the_way_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of 15 heads and 2003 positions took the judge 45 s of a processor, where all else took it 15."""
    sizes = {"batch": 5, "heads": 3, "length": 2003, "head": 63}
    recipe, alone = RECIPES["fused_neighborhood_attention"], 4 * 5 * 3 * 2003 * 63
    assert numbers(recipe, sizes) == alone + 5 * 3 * 2003**2 > MOST_NUMBERS > alone
    for seed in range(12):
        for drawn_ in (dict(shape.sizes) for shape in drawn("fused_neighborhood_attention", seed)):
            assert drawn_["batch"] * drawn_["heads"] * drawn_["length"] ** 2 <= MOST_NUMBERS


def test_a_power_of_two_stays_one_and_a_draw_that_cannot_be_less_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_shapes, "MOST_NUMBERS", 2**8)
    streams = {dict(shape.sizes)["streams"] for seed in range(6) for shape in drawn("mhc_pre", seed)}
    assert streams and all(size & (size - 1) == 0 for size in streams)
    monkeypatch.setattr(hidden_shapes, "MOST_NUMBERS", 0)
    assert {size for shape in drawn("mhc_pre", 1) for _, size in shape.sizes} == {1}


def test_what_is_cut_in_half_is_even_and_else_as_odd_as_any() -> None:
    heads = [dict(shape.sizes)["head"] for seed in range(20) for shape in drawn("rope", seed)]
    assert all(head % 2 == 0 for head in heads)
    assert any(head > 16 and head % 16 for head in heads)


def test_a_size_that_would_keep_a_compiler_busy_for_minutes_goes_no_further_than_what_is_scored() -> None:
    """A square of 512 columns took 45 s, and a whole campaign ended before it began."""
    most = max(length for _, _, length in SIZES["multi_token_attention"].scored)
    drawn_ = [dict(shape.sizes) for seed in range(40) for shape in drawn("multi_token_attention", seed)]
    assert {one["length"] for one in drawn_} >= {most, most - 1} and max(one["length"] for one in drawn_) == most
    assert max(one["batch"] for one in drawn_) > 32, "others go as far as they did"


def test_names_stay_and_sizes_do_not() -> None:
    one, other = hidden(SOFTMAX, (), CHECKS, 1), hidden(SOFTMAX, (), CHECKS, 2)
    assert [shape.id for shape in one] == [shape.id for shape in other]
    assert [shape.sizes for shape in one] != [shape.sizes for shape in other]
    assert one == hidden(SOFTMAX, (), CHECKS, 1)
    assert hidden(SOFTMAX, (), (), 1) == ()


def test_a_type_in_which_the_op_is_no_good_is_not_asked_for() -> None:
    assert {shape.dtype for shape in drawn("poly_norm", 1)} == {"bfloat16", "float32"}


@pytest.mark.parametrize("kernel", sorted(k for k, of in SIZES.items() if of.names != ("rows", "cols")))
def test_other_sizes_lie_between_half_the_least_and_twice_the_most(kernel: str) -> None:
    scored = [dict(zip(SIZES[kernel].names, size, strict=True)) for size in SIZES[kernel].scored]
    strange = 0
    for seed in range(8):
        for shape in drawn(kernel, seed):
            sizes = dict(shape.sizes)
            assert math.prod(sizes.values()) <= MOST
            assert minimum_bytes(RECIPES[kernel], shape) > 0, "the recipe knows these sizes"
            for name, size in sizes.items():
                assert 1 <= size <= 2 * max(one[name] for one in scored)
            strange += any(size > 16 and size % 16 for size in sizes.values())
    assert strange > 40, "half of them and more have a size that no tile divides"


def told(kernel: str, seed: int, count: int = 4) -> tuple[Sizes, ...]:
    cases = tuple(Shape(case.id, case.direction, case.shape, case.dtype) for case in suite_of(kernel).cases)
    return unseen_sizes(RECIPES[kernel], cases, seed, count)


@pytest.mark.parametrize("kernel", sorted(SIZES))
def test_what_a_clock_is_given_is_no_more_work_than_what_is_scored(kernel: str) -> None:
    recipe, names = RECIPES[kernel], SIZES[kernel].names
    scored = [dict(zip(names, size, strict=True)) for size in SIZES[kernel].scored]
    strange = [0, 0]
    for seed in range(6):
        for number, sizes in enumerate(map(dict, told(kernel, seed))):
            assert math.prod(sizes.values()) <= max(math.prod(one.values()) for one in scored)
            assert numbers(recipe, sizes) <= max(numbers(recipe, one) for one in scored)
            assert all(1 <= size <= 2 * max(one[name] for one in scored) for name, size in sizes.items())
            assert minimum_bytes(recipe, Shape("x", "forward", tuple(sizes.items()), "bfloat16")) > 0
            strange[number % 2] += any(size > 16 and size % 16 for size in sizes.values())
    assert strange[0] > 6, "half of those and more have a size that no tile divides"


@pytest.mark.parametrize("kernel", sorted(SIZES))
def test_every_other_one_is_of_whole_tiles_where_it_is_long_enough_for_any(kernel: str) -> None:
    """Most sizes that people use are, and a gain on odd ones alone says little of them."""
    scored = [dict(zip(SIZES[kernel].names, size, strict=True)) for size in SIZES[kernel].scored]
    long = [name for name in SIZES[kernel].names if min(one[name] for one in scored) >= 4 * TILE]
    assert long
    for seed in range(6):
        for sizes in map(dict, told(kernel, seed)[1::2]):
            assert [sizes[name] % TILE for name in long] == [0] * len(long), sizes


def test_another_seed_is_other_sizes_and_the_same_one_the_same() -> None:
    assert told("softmax", 1) == told("softmax", 1) != told("softmax", 2)
    assert told("softmax", 1, 2) == told("softmax", 1)[:2]
