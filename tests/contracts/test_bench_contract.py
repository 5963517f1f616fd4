"""What every bench keeps to: the static one with a tiny library, and the fake that stands in for it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

import pytest

from bot.bench.measure import Bench, open_static_bench
from bot.bench.race import Entry
from bot.model.measurement import Evidence, Measurement, Setting
from bot.model.variant import sources_digest
from tests.bench import tiny
from tests.fakes.bench import FakeBench

WRONG = tiny.changed("y = e / tl.sum(e, axis=0)", "y = e  # forgot to divide\n    # fake: wrong")
BROKEN = tiny.hostile("raise RuntimeError('no')  \n# fake: fault import_failed")


@pytest.fixture(scope="module", params=["fake", pytest.param("static", marks=pytest.mark.slow)])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    tree = tiny.write_tree(tmp_path_factory.mktemp("tree"))
    scratch = tmp_path_factory.mktemp("scratch") / "new"
    opener = FakeBench if request.param == "fake" else open_static_bench
    opened: Bench = opener(tree, tiny.SITE, tiny.SUITE, "sm_90", sys.executable, scratch)
    yield opened
    opened.close()
    opened.close()


@pytest.fixture(scope="module")
def untouched(bench: Bench) -> Measurement:
    return bench.measure(tiny.files(), passports=True)


def test_the_runner_says_that_nothing_was_timed(bench: Bench, untouched: Measurement) -> None:
    assert bench.runner.evidence is Evidence.STATIC
    assert bench.runner.arch == "sm_90"
    assert bench.runner.gpu_uuid == ""
    assert untouched.runner == bench.runner
    assert all(case.timing is None for case in untouched.cases)


def test_the_untouched_kernel_has_no_fault(untouched: Measurement) -> None:
    assert untouched.fault is None
    assert untouched.source == sources_digest(tiny.files())


def test_nobody_races_where_there_is_no_clock(bench: Bench) -> None:
    assert bench.race((Entry(tiny.files(), tuple(case.id for case in tiny.SUITE.cases)),)).ran == ()


def test_every_check_has_its_row_and_passes(untouched: Measurement) -> None:
    assert sorted(row.case for row in untouched.checks) == sorted(case.id for case in tiny.SUITE.checks)
    assert [row for row in untouched.checks if not row.passed] == []


def test_every_scored_case_is_there_in_order(untouched: Measurement) -> None:
    assert [case.case for case in untouched.cases] == [case.id for case in tiny.SUITE.cases]
    for case in untouched.cases:
        assert case.minimum_bytes > 0
        assert case.traffic_factor > 0
        assert case.memory_bytes >= 0


def test_launches_prove_where_they_came_from(untouched: Measurement) -> None:
    launches = [launch for case in untouched.cases for launch in case.launches]
    assert len(launches) == 2
    for launch in launches:
        assert launch.source_file == tiny.OP
        assert launch.source_digest == hashlib.sha256(tiny.SOURCE.encode()).hexdigest()
        assert launch.resources is not None
        assert launch.resources.arch == "sm_90"
        assert launch.tensor_bytes > 0
        assert launch.binary_digest


def test_what_does_not_compile_has_no_passports(bench: Bench) -> None:
    assert bench.stamped(BROKEN) == ()


def test_passports_are_made_when_asked_for_also_later(bench: Bench, untouched: Measurement) -> None:
    assert [passport.arch for passport in untouched.passports] == ["sm_80", "sm_90", "sm_100", "gfx942"]
    assert bench.stamped(tiny.files()) == untouched.passports
    for passport in untouched.passports:
        assert passport.ok
        assert {name for name, _ in passport.kernels} == {"_softmax_forward_kernel", "_softmax_backward_kernel"}


def test_a_broken_variant_is_a_fault(bench: Bench, untouched: Measurement) -> None:
    found = bench.measure(BROKEN, passports=False)
    assert found.fault is not None
    assert found.fault.kind == "import_failed"
    assert found.source == sources_digest(BROKEN)


def test_the_bench_goes_on_and_finds_a_wrong_variant_wrong(bench: Bench, untouched: Measurement) -> None:
    found = bench.measure(WRONG, passports=False)
    assert found.fault is None
    assert found.passports == ()
    failed = [row for row in found.checks if not row.passed]
    assert failed
    assert failed[0].detail


def test_a_survey_answers_each_setting_where_its_kernel_is_launched(bench: Bench) -> None:
    settings = tuple(Setting(kernel="_softmax_forward_kernel", num_warps=warps) for warps in (1, 8))
    surveys = bench.survey(tiny.files(), settings)
    assert [(s.setting.num_warps, s.case) for s in surveys] == [
        (1, tiny.SUITE.cases[0].id),
        (8, tiny.SUITE.cases[0].id),
    ]
    for survey in surveys:
        assert survey.error == ""
        assert [launch.num_warps for launch in survey.launches] == [survey.setting.num_warps]
    one, eight = (survey.launches[0].resources for survey in surveys)
    assert one is not None and eight is not None
    assert one.registers > eight.registers
    assert bench.survey(tiny.files(), ()) == ()
