"""The mutator makes what it says, the same each time, and leaves out nothing without a reason."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

import pytest

from tests.mutants.equivalent import EXCUSES
from tests.mutants.mutate import MOST_OF_A_RULE, OPS, RULES, Mutant, all_mutants, mutants, mutants_of, source_of


@cache
def every() -> list[Mutant]:
    """Made when the first test asks, not while tests are collected."""
    return [mutant for op in OPS for mutant in mutants(op)]


KERNEL = """
@triton.jit
def _kernel(X, Y, stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(X + row * stride + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    total = tl.sum(x, axis=0)
    y = x / total
    tl.store(Y + row * stride + cols, y, mask=cols < n_cols)
"""


def made(rule: str, source: str = KERNEL) -> list[str]:
    """The lines that a rule puts in place of others."""
    before = source.splitlines()
    found = []
    for mutant in mutants_of("softmax", source):
        if mutant.rule == rule:
            lines = [now.strip() for was, now in zip(before, mutant.text.splitlines(), strict=True) if was != now]
            found += lines
    return found


def test_there_are_two_hundred_of_every_op_and_of_every_rule() -> None:
    assert len(every()) >= 200
    assert {mutant.op for mutant in every()} == set(OPS)
    assert {mutant.rule for mutant in every()} == set(RULES)
    assert min(Counter(mutant.op for mutant in every()).values()) >= 50


@pytest.mark.parametrize("op", [pytest.param(op, marks=[pytest.mark.judge] if op != "softmax" else []) for op in OPS])
def test_no_two_are_the_same_program_and_none_is_the_kernel(op: str) -> None:
    """One op in `make test`: whole files are compared here, where the mutator looks at one statement."""
    programs = [ast.dump(ast.parse(mutant.text)) for mutant in all_mutants(op)]
    assert len(programs) == len(set(programs))
    assert ast.dump(ast.parse(source_of(op))) not in programs


def test_ids_are_one_of_a_kind_and_the_same_each_time() -> None:
    assert len({mutant.id for mutant in every()}) == len(every())
    again = list(mutants_of("jsd", source_of("jsd")))
    assert [(m.id, m.text) for m in again] == [(m.id, m.text) for m in all_mutants("jsd")]


def test_one_place_changes_and_every_comment_stays() -> None:
    for mutant in every():
        source = source_of(mutant.op)
        head, tail = _common(source, mutant.text), _common(source[::-1], mutant.text[::-1])
        assert head + tail > len(source) - 600, mutant.id
        assert source.count("#") == mutant.text.count("#"), mutant.id
        assert "\n" not in mutant.what and "becomes" in mutant.what


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_no_rule_takes_more_than_its_share_of_an_op() -> None:
    assert max(Counter((m.op, m.rule) for m in every()).values()) == MOST_OF_A_RULE


@pytest.mark.parametrize("reason", sorted(EXCUSES))
def test_every_reason_to_leave_one_out_is_used(reason: str) -> None:
    skipped = [mutant for op in OPS for mutant in all_mutants(op) if mutant.skipped == reason]
    assert skipped
    assert not {mutant.id for mutant in skipped} & {mutant.id for mutant in every()}


def test_only_a_tenth_is_left_out() -> None:
    everything = [mutant for op in OPS for mutant in all_mutants(op)]
    assert sum(bool(mutant.skipped) for mutant in everything) < len(everything) / 10


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("mask_off", "tl.store(Y + row * stride + cols, y)"),
        ("mask_edge", "tl.store(Y + row * stride + cols, y, mask=(cols <= n_cols))"),
        ("drop_operand", "y = total"),
        ("swap_operands", "y = (total / x)"),
        ("wrong_operator", "y = (x * total)"),
        ("wrong_function", "total = tl.max(x, axis=0)"),
        ("wrong_address", "tl.store((Y + row * stride + cols) + 1, y, mask=cols < n_cols)"),
        ("wrong_stride", "tl.store(Y + row * BLOCK_SIZE + cols, y, mask=cols < n_cols)"),
        ("wrong_sign", "tl.store(((Y + row * stride) - cols), y, mask=cols < n_cols)"),
        ("narrow_index", "row = tl.program_id(0).to(tl.int32)"),
        ("drop_statement", "pass"),
        ("rounded_intermediate", "y = (x / total).to(tl.float16).to(tl.float32)"),
        (
            "low_precision",
            "x = tl.load(X + row * stride + cols, mask=cols < n_cols, other=0.0).to(tl.bfloat16)",
        ),
        (
            "wrong_fill",
            'x = tl.load(X + row * stride + cols, mask=cols < n_cols, other=float("nan")).to(tl.float32)',
        ),
    ],
)
def test_a_rule_changes_what_it_is_named_after(rule: str, line: str) -> None:
    assert line in made(rule)


LOOP = """
@triton.jit
def _kernel(X, n_cols, BLOCK_SIZE: tl.constexpr):
    s = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        s += tl.load(X + start)
"""


def test_a_loop_ends_early_begins_late_or_makes_other_steps() -> None:
    ranges = {line.removeprefix("for start in range").rstrip(":") for line in made("loop", LOOP)}
    assert ranges == {
        "(0, n_cols - 1, BLOCK_SIZE)",
        "(0 + 1, n_cols, BLOCK_SIZE)",
        "(0, BLOCK_SIZE, BLOCK_SIZE)",
        "(0, n_cols, BLOCK_SIZE + 1)",
        "(0, n_cols, 2 * BLOCK_SIZE)",
    }
    assert made("overwrite", LOOP) == ["s = tl.load(X + start)"]


HOST = """
def forward(ctx, X, W, eps):
    Y = torch.empty_like(X)
    kernel[(X.shape[0],)](Y, X, X.stride(0), eps=eps)
    ctx.save_for_backward(X, W)
    return Y.sum(dim=0) if W is None else Y
"""


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("grid", "kernel[(X.shape[0] + 1,)](Y, X, X.stride(0), eps=eps)"),
        ("swap_tensors", "kernel[(X.shape[0],)](X, Y, X.stride(0), eps=eps)"),
        ("swap_tensors", "ctx.save_for_backward(W, X)"),
        ("wrong_stride", "kernel[(X.shape[0],)](Y, X, X.stride(-1), eps=eps)"),
        ("ignored_argument", "kernel[(X.shape[0],)](Y, X, X.stride(0), eps=1e-6)"),
        ("buffer", "Y = X"),
        ("condition", "return Y.sum(dim=0) if (not (W is None)) else Y"),
        ("wrong_dim", "return Y.sum(dim=1) if W is None else Y"),
        ("wrong_function", "return Y.mean(dim=0) if W is None else Y"),
    ],
)
def test_a_rule_changes_what_the_host_does(rule: str, line: str) -> None:
    assert line in made(rule, HOST)
