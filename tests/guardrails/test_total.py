"""judge() has an answer to everything, and never a yes to what failed: facts come from a job that ran hostile code."""

from __future__ import annotations

import ast
from typing import Any, get_args

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.guardrails import Hearing, judge
from bot.guardrails.correctness import is_right
from bot.model.commands import Goal, Scope
from bot.model.measurement import (
    CaseResult,
    CheckResult,
    Evidence,
    Fault,
    Measurement,
    Passport,
    Runner,
)
from bot.model.variant import SourceFile, sources_digest
from tests.examples import many
from tests.guardrails import hearings as h

PIECES = (
    *(
        "import torch",
        "import os",
        "def scale_forward(x, factor):",
        "    return x",
        "_C = {}",
        "class A:",
        "    a = []",
    ),
    *("    _C[id(x)] = x", "try:", "except E:", "    pass", "# a comment", '"""words"""', "x = [" * 40, "y = -" * 9),
    *("@functools.cache", "lambda: (yield)", "match x:", "    case A(b=c):", "\x00", "\ud7ff", "'\\ud800'", "\t", "\f"),
    *("getattr(torch, '__\\ud800__')", "def f(a=b'\\xff', *, c: d = e) -> g: ...", "del torch.x", "a: int", "b += 1"),
    *(
        "[(_C := {}) for _ in a]",
        "from . import *",
        "async def f(): await x",
        "global z",
        "f'{a!r:>{b}}'",
        "if x:",
        "  ",
    ),
)
texts = st.one_of(
    st.just(h.V0),
    st.just(h.FASTER),
    st.lists(st.sampled_from((*PIECES, *h.FASTER.splitlines())), max_size=12).map("\n".join),
    st.text(max_size=60),
)
numbers = st.one_of(
    st.floats(min_value=5e-324, allow_nan=False, allow_infinity=False), st.sampled_from((1e-300, 1.0, 90.0, 1e300))
)
counts = st.one_of(st.integers(-10, 2000), st.sampled_from((0, -1, h.BYTES, 2**44, 10**30, 10**400, -(10**400))))
names = st.one_of(st.sampled_from((*h.NAMES, *(case.id for case in h.CHECKS))), st.text(max_size=5))


@st.composite
def launches(draw: st.DrawFn, text: str) -> tuple[Any, ...]:
    odd = {"spill": draw(counts), "grid": (draw(counts), 1, draw(counts)), "tensor_bytes": draw(counts)}
    known = draw(st.sampled_from((h.text_digest(text), None, h.text_digest("else"))))
    usual = h.launch(text, binary=h.text_digest(h.V0))
    return draw(st.sampled_from(((usual,), (), (h.launch(text, **odd, source_digest=known),), (usual, usual))))


def results(name: str, text: str) -> st.SearchStrategy[CaseResult]:
    """Mostly as it should be but for its time, else with one more thing that is odd."""
    odd: list[st.SearchStrategy[dict[str, Any]]] = [
        st.just({}),
        launches(text).map(lambda found: {"launches": found}),
        counts.map(lambda count: {"minimum_bytes": count}),
        counts.map(lambda count: {"memory_bytes": count}),
        st.sampled_from((0.0, 0.9, 1e300)).map(lambda factor: {"traffic_factor": factor}),
        st.just({"timing": None}),
    ]
    times = st.one_of(st.sampled_from((80.0, 90.0, 98.99, 99.01, 105.0, 110.1)), numbers)
    one = st.one_of(st.just({}), st.just({}), st.just({}), *odd)
    return st.builds(lambda us, more: h.result(name, text, us, before=h.BEFORE_US).model_copy(update=more), times, one)


KINDS = get_args(Fault.model_fields["kind"].annotation)


def runners() -> st.SearchStrategy[Runner]:
    return st.builds(
        lambda evidence, arch, gpu: h.H200.model_copy(update={"evidence": evidence, "arch": arch, "gpu_name": gpu}),
        st.sampled_from(Evidence),
        st.sampled_from(("sm_90", "sm_90", "gfx942", "?")),
        st.sampled_from((h.H200.gpu_name, "")),
    )


def checks() -> st.SearchStrategy[tuple[CheckResult, ...]]:
    margins = st.one_of(st.just(0.4), st.none(), st.floats(0, 3), numbers)
    said = {"passed": st.booleans(), "margin": margins, "excused": st.sampled_from((None, False, True))}
    usual = st.tuples(*(st.builds(h.check, st.just(case.id), **said) for case in h.CHECKS))
    return st.one_of(usual, st.lists(st.builds(h.check, names, **said), max_size=5).map(tuple))


def cases(text: str) -> st.SearchStrategy[tuple[CaseResult, ...]]:
    usual = st.tuples(*(results(name, text) for name in h.NAMES))
    return st.one_of(usual, st.lists(names.flatmap(lambda name: results(name, text)), max_size=5).map(tuple))


def stamps() -> st.SearchStrategy[tuple[Passport, ...]]:
    one = st.builds(h.passport, st.sampled_from(("sm_80", "gfx942")), st.booleans(), counts)
    return st.lists(one, max_size=2).map(tuple)


@st.composite
def measurements(draw: st.DrawFn, text: str, files: tuple[SourceFile, ...]) -> Measurement:
    """A good one with some of its parts made odd."""
    odd: dict[str, st.SearchStrategy[Any]] = {
        "runner": runners(),
        "checks": checks(),
        "cases": cases(text),
        "passports": stamps(),
        "fault": st.sampled_from(KINDS).map(lambda kind: Fault(kind=kind)),
        "source": st.just("0" * 64),
    }
    kept = draw(st.one_of(st.sets(st.sampled_from(sorted(odd)), max_size=2), st.just({"cases"}), st.just({"checks"})))
    plain = h.measurement(text, draw(st.sampled_from((90.0, 100.0))), against=h.measurement(h.V0, h.BEFORE_US))
    update = {"source": sources_digest(files)} | {name: draw(odd[name]) for name in kept}
    return plain.model_copy(update=update)


@st.composite
def hearings(draw: st.DrawFn) -> Hearing:
    text = draw(st.one_of(st.just(h.FASTER), st.just(h.FASTER), st.just(h.FASTER), texts))
    other = SourceFile(path=draw(st.sampled_from((h.PATH, h.OTHER))), text=draw(texts))
    files = (*h.files(text), *draw(st.sampled_from(((), (), (), (other,)))))
    before = draw(st.sampled_from((h.V0, h.V0, h.V0, h.V0, h.V0, text, "def (:")))
    baseline = st.one_of(st.just(h.measurement(before, 100.0)), measurements(before, h.files(before)))
    return h.hearing(
        text=text,
        before=before,
        variant=h.variant(text).model_copy(update={"files": files}),
        baseline=draw(baseline),
        candidate=draw(measurements(text, files)),
        goal=draw(st.sampled_from(Goal)),
        scope=draw(st.sampled_from(Scope)),
        best=draw(st.sampled_from((1.0, 1.0, 0.0, -1.0, 1e300, 0.5))),
        earlier=(),
    )


@settings(max_examples=many(120))
@example(h.hearing())
@example(h.hearing(text=h.FASTER + "\ngetattr(torch, '__\\ud800__')\n"))
@example(h.hearing(text=h.FASTER + "\n" + "(" * 150 + "x" + ")" * 150 + "\n"))
@example(h.hearing(memory={h.SMALL_BACKWARD: 0}, text=":", before=":", earlier=()))
@given(hearings())
def test_judge_never_raises_and_never_says_yes_to_what_failed(heard: Hearing) -> None:
    verdict = judge(heard)
    if not verdict.decision.is_accepted:
        return
    assert verdict.score is not None and verdict.score.value >= 1.01 - 1e-9
    assert verdict.gain_over_best is not None and verdict.gain_over_best >= 0.01 - 1e-9
    failing = {check.case for check in heard.baseline.checks if not is_right(check)}
    checks = heard.candidate.checks
    told = [(check, check.case in failing if check.excused is None else check.excused) for check in checks]
    assert any(is_right(check) and not excused for check, excused in told)
    assert all(is_right(check) or excused for check, excused in told)
    assert heard.candidate.fault is None
    assert {case.case for case in heard.candidate.cases} == {case.id for case in heard.suite.cases}
    assert {file.path for file in heard.variant.files} <= set(heard.allowed)
    assert all(ast.parse(file.text) for file in heard.variant.files)
    assert not [finding for finding in verdict.findings if finding.severity == "reject"]


@settings(max_examples=many(120))
@given(texts)
def test_any_text_at_all_gets_a_verdict(text: str) -> None:
    verdict = judge(h.hearing(text=text))
    assert verdict.decision.is_accepted is (text == h.FASTER)
