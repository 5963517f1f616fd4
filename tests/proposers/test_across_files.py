"""An idea about several files is one like any other: a forecast, a place among the others, and one proposal."""

from __future__ import annotations

from typing import Any

import pytest

from bot.model.measurement import Evidence, Measurement, Suite
from bot.model.race import Lap, Numbers, Race, Racer
from bot.model.variant import SourceFile
from bot.model.verdict import Decision
from bot.proposers import engine
from bot.proposers.brief import Brief
from bot.proposers.forecast import as_it_was, forecast
from tests.analysis import made
from tests.engine import test_drop_clone
from tests.engine.library import sample
from tests.proposers.scene import after, brief

KERNEL, HOST, OTHER = "src/lib/ops/jsd.py", "src/lib/ops/backends/jsd.py", "src/lib/ops/other.py"
FORWARD = "_jsd_forward_kernel"
ELEMENTS = 1024 * 32000
FWD, BWD = made.case("forward", 1024, 32000), made.case("backward", 1024, 32000)


def split() -> tuple[SourceFile, ...]:
    """The sample's jsd with its kernels in one file and who launches them in another."""
    kernels, host = sample("jsd").split("def jsd_forward(")
    imports = f"import torch\nimport triton\n\nfrom lib.ops.jsd import _jsd_backward_kernel, {FORWARD}\n\n\n"
    texts = {OTHER: "ANSWER = 42\n", HOST: f"{imports}def jsd_forward({host}", KERNEL: kernels}
    return tuple(SourceFile(path=path, text=text) for path, text in texts.items())


def facts(*, kernel: str = FORWARD, moved: float = 14 / 6, evidence: Evidence = Evidence.STATIC) -> Measurement:
    """The backward pass is torch's own: nothing is known of it."""
    forward = made.launch(kernel, rows=1024, block=4096, warps=4, tensor_bytes=8 * ELEMENTS)
    return made.measurement(
        made.result(FWD, forward, us=200.0, minimum_bytes=6 * ELEMENTS, traffic_factor=moved),
        made.result(BWD, us=80.0, minimum_bytes=4 * ELEMENTS),
        evidence=evidence,
    )


def told(known: Measurement | None = None, **fields: Any) -> Brief:
    known, files = known or facts(), split()
    plain: dict[str, Any] = {
        "baseline": known,
        "facts": known,
        "suite": made.suite(FWD, BWD),
        "original": files,
        "sources": files,
        "surveys": (),
    }
    return brief("jsd", **{**plain, **fields})


def techniques(known: Brief) -> list[str]:
    found = []
    while (proposal := engine.propose(known)) is not None:
        found.append(proposal.hypothesis.technique)
        known = after(known, proposal, Decision.REJECTED)
    return found


def test_one_proposal_holds_every_file_that_changes_and_those_that_do_not() -> None:
    proposal = engine.propose(told())
    assert proposal is not None and proposal.hypothesis.technique == "reduce_loss"
    before, now = ({file.path: file.text for file in files} for files in (split(), proposal.files))
    assert list(now) == list(before)
    assert now[OTHER] == before[OTHER]
    assert "tl.store(loss_ptr, loss_sum)" in now[KERNEL] and "torch.empty((n_rows, 1)" in now[HOST]


def test_it_is_not_tried_again_after_a_no() -> None:
    assert techniques(told()) == ["reduce_loss"]


def test_what_is_no_longer_moved_is_forecast_though_nothing_is_known_of_another_pass() -> None:
    proposal = engine.propose(told())
    assert proposal is not None
    expected = proposal.hypothesis.expected
    assert "(estimated)" in expected and FWD.id in expected
    before, now = (float(word) for word in expected.split("from ")[1].replace(" us to", "").split(" us")[0].split())
    assert 1.5 < before / now < 14 / 6
    both = float(expected.split("x")[0])
    assert both == pytest.approx((before / now) ** 0.5, rel=0.02), "the other of two passes stays as it is"


def test_a_forecast_never_saves_more_than_was_moved_beyond_the_least() -> None:
    gains = {}
    for moved in (1.0, 1.5, 14 / 6, 4.0):
        found = forecast(told(facts(moved=moved)), (FORWARD,), as_it_was, spared=2)
        assert found is not None
        gains[moved] = found.gain
    assert gains[1.0] == 1
    assert 1 < gains[1.5] < gains[14 / 6]
    assert 1 < gains[4.0] < gains[14 / 6], "the rest is still moved"


def test_a_launch_cannot_be_spared_more_than_it_was_handed() -> None:
    one = facts().cases[0]
    small = one.launches[0].model_copy(update={"tensor_bytes": 600})
    known = facts().model_copy(update={"cases": (one.model_copy(update={"launches": (small,)}), facts().cases[1])})
    found = forecast(told(known), (FORWARD,), as_it_was, spared=2)
    assert found is not None and found.gain == pytest.approx(1, abs=1e-4)


def test_it_is_not_tried_where_no_scored_case_launches_the_kernel() -> None:
    assert techniques(told(facts(kernel="_somebody_elses_kernel"))) == []


NUMBERS = Numbers(kernel=FORWARD, block_name="BLOCK_SIZE", each=16)
ITSELF, FASTER = (
    Racer(numbers=numbers, laps=(Lap(case=FWD.id, speedup=speedup, low=speedup, high=speedup, blocks=12),))
    for numbers, speedup in (((), 1.0), ((NUMBERS,), 1.5))
)


def test_on_a_gpu_it_comes_first_and_launch_numbers_that_were_raced_after_every_rewrite() -> None:
    race = Race(of=0, racers=(ITSELF, FASTER))
    tried = techniques(told(facts(evidence=Evidence.MEASURED), race=race))
    assert tried[0] == "reduce_loss" and tried[-1] == "launch_parameters"


def test_on_a_gpu_a_clone_goes_before_anything_races() -> None:
    both = tuple(SourceFile(path=path, text=text) for path, text in test_drop_clone.files().items())
    known = told(facts(kernel="_loss_kernel", evidence=Evidence.MEASURED), original=both, sources=both)
    assert techniques(known)[:2] == ["reduce_loss", "drop_clone"]


def test_without_a_gpu_launch_numbers_come_first() -> None:
    spilling = made.resources(registers=64, spill_bytes=9704, instructions=9652)
    slow = made.launch(FORWARD, rows=1024, block=16384, warps=4, tensor_bytes=8 * ELEMENTS, resources=spilling)
    known = made.measurement(made.result(FWD, slow, minimum_bytes=6 * ELEMENTS, traffic_factor=14 / 6))
    surveys = tuple(made.survey(FWD, block, warps, kernel=FORWARD) for block, warps in ((16384, 32), (4096, 16)))
    suite = Suite(name="quick", cases=(FWD,), checks=())
    assert techniques(told(known, suite=suite, surveys=surveys))[:2] == ["launch_parameters", "reduce_loss"]
