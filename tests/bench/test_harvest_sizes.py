"""From shapes back to sizes: what the recipe has words for is read, and nothing is guessed."""

from __future__ import annotations

import math

import pytest

from bot.bench.harvest_sizes import MOST, PRIMES, Arguments, Planned, Read, Sizes, Unreadable, fingerprint, read_call
from bot.worker.contract import Argument, Layout, TensorSpec
from bot.worker.contract.harvest import Given, Handed

TYPES = ("bfloat16", "float32")
Dims = tuple[str, ...]


def extent(sizes: Sizes, dim: str) -> int:
    """As in a recipe: a name, a number, a product of these, or one more."""
    known = dict(sizes)
    names, _, more = dim.partition("+")
    return math.prod(known.get(part) or int(part) for part in names.split("*")) + int(more or 0)


def tensor(name: str, *dims: str, dtype: str = "", layout: Layout = "dense") -> tuple[str, Dims, str, Layout]:
    return name, dims, dtype, layout


def judge(*operands: tuple[str, Dims, str, Layout] | tuple[str, object]) -> Planned:
    """What a judge with such a recipe would hand to the op."""

    def planned(sizes: Sizes, dtype: str) -> Arguments:
        found = []
        for operand in operands:
            if len(operand) == 2:
                value = operand[1]
                told = extent(sizes, value[1:]) if isinstance(value, str) and value.startswith("=") else value
                found.append(Argument(operand[0], value=told))  # type: ignore[arg-type]
            else:
                name, dims, own, layout = operand
                shape = tuple(extent(sizes, dim) for dim in dims)
                found.append(Argument(name, TensorSpec(name, own or dtype, shape, layout=layout)))
        return tuple(found)

    return planned


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


def given(*shape: int, dtype: str = "bfloat16", stride: tuple[int, ...] | None = None) -> Given:
    return Given(Handed(dtype, shape, stride if stride is not None else dense(shape)))


def read(planned: Planned, names: str, *arguments: Given) -> Read:
    return read_call(arguments, names.split(), planned, TYPES)


NORM = judge(tensor("X", "rows", "cols"), tensor("W", "cols"), ("eps", 1e-6))
ROPE = judge(
    tensor("q", "batch", "kv*group", "length", "2*half", layout="swapped"),
    tensor("k", "batch", "kv", "length", "2*half", layout="swapped"),
    tensor("factors", "length", "half", "2", dtype="float32"),
)


def test_sizes_are_read_off_the_operands() -> None:
    found = read(NORM, "rows cols", given(1024, 4096), given(4096), Given(value=1e-6))

    assert found == Read((("rows", 1024), ("cols", 4096)), "bfloat16", ())


def test_rows_in_several_dimensions_are_rows() -> None:
    found = read(NORM, "rows cols", given(2, 512, 4096), given(4096), Given(value=1e-6))

    assert dict(found.sizes) == {"rows": 1024, "cols": 4096}


def test_rows_are_folded_where_the_recipe_has_them() -> None:
    blocks = judge(tensor("V", "blocks", "rows", "cols"))

    assert dict(read(blocks, "blocks rows cols", given(8, 2, 512, 64)).sizes) == {"blocks": 8, "rows": 1024, "cols": 64}


def test_products_heads_that_lie_as_they_left_a_projection_and_complex_factors() -> None:
    q, k = (1, 32, 1024, 128), (1, 8, 1024, 128)
    strides = (32 * 1024 * 128, 128, 32 * 128, 1), (8 * 1024 * 128, 128, 8 * 128, 1)
    factors = Given(Handed("complex64", (1, 1024, 64), (1024 * 64, 64, 1)))

    found = read(
        ROPE, "batch length kv group half", given(*q, stride=strides[0]), given(*k, stride=strides[1]), factors
    )

    assert dict(found.sizes) == {"batch": 1, "length": 1024, "kv": 8, "group": 4, "half": 64}
    assert found.differs == ()


def test_heads_that_lie_otherwise_are_told() -> None:
    factors = Given(Handed("complex64", (1024, 64), (64, 1)))

    found = read(ROPE, "batch length kv group half", given(1, 32, 1024, 128), given(1, 8, 1024, 128), factors)

    assert found.differs == ("q dense", "k dense")


def test_a_plain_argument_can_say_what_no_shape_does() -> None:
    groups = judge(tensor("X", "batch", "groups*each", "length"), ("channels", "=groups*each"), ("groups", "=groups"))
    names = "batch groups each length"

    found = read(groups, names, given(2, 4096, 512), Given(value=4096), Given(value=1024))

    assert dict(found.sizes) == {"batch": 2, "groups": 1024, "each": 4, "length": 512}
    with pytest.raises(Unreadable):
        read(groups, names, given(2, 4096, 512), Given(value=4096), Given(value=1000))


def test_a_dimension_of_one_more() -> None:
    logits = judge(tensor("logits", "batch", "length+1", "cols"))

    assert dict(read(logits, "batch length cols", given(4, 513, 32000)).sizes)["length"] == 512


def test_a_dimension_that_is_left_out_is_one() -> None:
    modulated = judge(tensor("X", "batch", "length", "cols"), tensor("scale", "batch", "cols"))

    found = read(modulated, "batch length cols", given(1024, 4096), given(1024, 4096))

    assert dict(found.sizes) == {"batch": 1024, "length": 1, "cols": 4096}


def test_what_is_handed_over_otherwise_is_told() -> None:
    op = judge(tensor("X", "rows", "cols"), tensor("W", "cols"), tensor("B", "cols"), ("eps", 1e-6), ("row_mode", None))
    ids = Given(Handed("int64", (7,), (1,)))

    found = read(op, "rows cols", given(8, 64), given(64, dtype="float32"), Given(), Given(value=1e-5), ids)

    assert found.differs == ("W in float32", "no B", "eps 1e-05", "a tensor as row_mode")
    apart = read(
        op, "rows cols", given(8, 64, stride=(100, 1)), given(64), given(64), Given(value=1e-6), Given(other="f")
    )
    assert apart.differs == ("X not dense", "row_mode f")


def test_a_number_for_each_dimension_is_one_for_all() -> None:
    window = judge(tensor("X", "rows", "cols"), ("stride", 1))

    assert read(window, "rows cols", given(8, 64), Given(value=(1, 1))).differs == ()
    assert read(window, "rows cols", given(8, 64), Given(value=(1, 2))).differs == ("stride (1, 2)",)


def test_the_type_is_that_of_the_first_operand_without_one_of_its_own() -> None:
    labelled = judge(tensor("labels", "rows", dtype="int64"), tensor("X", "rows", "cols"))

    assert read(labelled, "rows cols", given(8, dtype="int64"), given(8, 64, dtype="float32")).dtype == "float32"
    with pytest.raises(Unreadable, match="float64"):
        read(labelled, "rows cols", given(8, dtype="int64"), given(8, 64, dtype="float64"))


def test_a_row_by_itself_is_one_row() -> None:
    assert dict(read(NORM, "rows cols", given(64), given(64)).sizes) == {"rows": 1, "cols": 64}


@pytest.mark.parametrize(
    "shapes",
    [((8, 64), (63,)), ((8, 64), (64, 1, 2)), ((0, 64), (64,)), ((-8, 64), (64,))],
    ids=["contradiction", "more dimensions", "nothing", "less than nothing"],
)
def test_what_fits_no_sizes_is_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(Unreadable):
        read(NORM, "rows cols", *(given(*shape) for shape in shapes))


def test_too_few_arguments_are_refused() -> None:
    with pytest.raises(Unreadable, match="1 arguments"):
        read(NORM, "rows cols", given(8, 64))


def test_sizes_that_no_gpu_takes_are_refused_before_the_judge_is_asked() -> None:
    one = judge(tensor("X", "rows", "cols"))

    assert dict(read(one, "rows cols", given(MOST, 2**21)).sizes)["rows"] == MOST
    for shape in ((MOST + 1, 1), (MOST, 2**21 + 1)):
        with pytest.raises(Unreadable, match="no GPU"):
            read(one, "rows cols", given(*shape))


def test_a_dimension_of_one_more_is_never_taken_for_a_product() -> None:
    for prime in PRIMES:
        for times in (1, 2, 3, 4, 8, 16):
            assert not any((prime * times + 1) % other == 0 for other in PRIMES)
    assert len(set(PRIMES)) == len(PRIMES) == len(fingerprint(["a", "b", "c", "d", "e", "f", "g", "h"]))
