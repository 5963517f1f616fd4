"""The engine's order: launch numbers first, then what promises most, and never the same source twice."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable
from functools import cache

import pytest

from bot.model.measurement import Evidence, Measurement, Survey
from bot.model.variant import Proposal, SourceFile, sources_digest
from bot.model.verdict import Decision
from bot.proposers import engine
from bot.proposers.brief import Brief
from bot.proposers.forecast import UNSEEN, Forecast
from tests.analysis import made
from tests.engine.library import sample
from tests.engine.test_drop_sort import OP as SORTING
from tests.engine.test_last_axis_first import CONSTANT
from tests.engine.test_partial_sums import GROUPS
from tests.proposers.scene import BWD, FWD, PATH, after, brief, launches_of

BACKWARD = "_rms_norm_backward_kernel"
LOSS = """

def loss_backward(grads, grad_output):
    if torch.equal(grad_output, torch.tensor(1.0, device=grad_output.device)):
        return grads

    return grads * grad_output
"""


def ideas(told: Brief, decision: Decision) -> list[Proposal]:
    """Every idea the engine has when all of them end alike."""
    found: list[Proposal] = []
    while (proposal := engine.propose(told)) is not None:
        found.append(proposal)
        told = after(told, proposal, decision)
    return found


@cache
def all_ideas(decision: Decision, kernel: str = "rms_norm", *, surveyed: bool = True) -> tuple[Proposal, ...]:
    """Those of a budget that nobody uses up. They take seconds to make, so several tests read the same ones."""
    return tuple(ideas(brief(kernel, budget=50, **({} if surveyed else {"surveys": ()})), decision))


def techniques(found: Iterable[Proposal]) -> list[str]:
    return [proposal.hypothesis.technique for proposal in found]


def test_the_first_idea_is_always_the_launch_numbers_of_every_kernel() -> None:
    first = engine.propose(brief())
    assert first is not None
    assert first.hypothesis.technique == "launch_parameters"
    text = first.files[0].text
    assert text.count("(estimated for sm_90)") == 2
    assert "_rms_norm_forward_kernel" in first.hypothesis.why and "_rms_norm_backward_kernel" in first.hypothesis.why


def test_the_expectation_is_a_number_with_a_case_and_says_that_it_is_estimated() -> None:
    for proposal in all_ideas(Decision.REJECTED):
        expected = proposal.hypothesis.expected
        assert any(character.isdigit() for character in expected)
        assert "stimated" in expected or "no forecast" in expected
        assert proposal.hypothesis.title and proposal.hypothesis.why and proposal.proposer == "engine"


def test_rms_norm_has_at_least_four_ideas_when_the_first_is_accepted() -> None:
    first = engine.propose(brief())
    assert first is not None
    rest = ideas(after(brief(), first, Decision.ACCEPTED), Decision.REJECTED)
    assert set(techniques(rest)) == {"more_programs", "pipeline_rows", "block_rows", "cache_hints"}


def test_no_source_is_proposed_twice_and_the_ideas_end() -> None:
    for decision in (Decision.REJECTED, Decision.ACCEPTED, Decision.INCONCLUSIVE):
        found = all_ideas(decision)
        digests = [sources_digest(proposal.files) for proposal in found]
        assert len(digests) == len(set(digests)) < 20
        assert sources_digest(brief().original) not in digests


def test_after_a_rejection_each_kernel_is_tried_on_its_own() -> None:
    found = techniques(all_ideas(Decision.REJECTED))
    assert found[:3] == [
        "launch_parameters",
        "launch_parameters:_rms_norm_backward_kernel",
        "launch_parameters:_rms_norm_forward_kernel",
    ]


def test_what_gained_too_little_as_a_whole_is_not_tried_in_parts() -> None:
    found = techniques(all_ideas(Decision.INCONCLUSIVE))
    assert [name for name in found if name.startswith("launch_parameters")] == ["launch_parameters"]


def test_every_idea_is_built_on_the_incumbent() -> None:
    first = engine.propose(brief())
    assert first is not None
    second = engine.propose(after(brief(), first, Decision.ACCEPTED))
    assert second is not None
    assert "(estimated for sm_90)" in second.files[0].text
    assert second.hypothesis.references == ("v1",)


def test_what_was_accepted_and_can_go_further_is_tried_again_once() -> None:
    found = [p for p in all_ideas(Decision.ACCEPTED) if p.hypothesis.technique == "more_programs"]
    assert ["2 * multiprocessor_count" in p.files[0].text for p in found] == [True, False]
    assert "4 * multiprocessor_count" in found[1].files[0].text


def test_the_idea_that_promises_most_comes_first() -> None:
    rest = all_ideas(Decision.REJECTED, surveyed=False)
    assert techniques(rest) == ["more_programs", "pipeline_rows", "block_rows", "cache_hints"]


def test_what_a_gpu_showed_elsewhere_is_said_where_the_model_sees_nothing() -> None:
    found = {proposal.hypothesis.technique: proposal for proposal in all_ideas(Decision.REJECTED, surveyed=False)}
    assert "2.1x" in found["pipeline_rows"].hypothesis.expected
    assert "there is no forecast" in found["pipeline_rows"].hypothesis.expected
    assert found["cache_hints"].hypothesis.expected.startswith("0 to 5 %")


def test_a_fill_that_is_dropped_is_expected_to_save_its_bytes() -> None:
    launches = [made.launch(f"_layer_norm_{way}_kernel", warps=4) for way in ("forward", "backward")]
    facts = made.measurement(
        *(made.result(case, one, traffic_factor=1.5) for case, one in zip((FWD, BWD), launches, strict=True))
    )
    told = brief("layer_norm", baseline=facts, facts=facts, surveys=())
    found = {proposal.hypothesis.technique: proposal for proposal in ideas(told, Decision.REJECTED)}
    gain = float(found["drop_zero_fill"].hypothesis.expected.split("x")[0])
    assert 1.2 < gain < 1.5
    assert "(estimated)" in found["drop_zero_fill"].hypothesis.expected


def test_rows_are_walked_only_where_a_scored_one_is_wide() -> None:
    def techniques_at(block: int) -> list[str]:
        wide = [made.launch(f"_softmax_{way}_kernel", block=block, warps=16) for way in ("forward", "backward")]
        spilling = made.resources(registers=64, spill_bytes=900, instructions=5000)
        launches = [one.model_copy(update={"resources": spilling}) for one in wide]
        facts = made.measurement(*(made.result(case, one) for case, one in zip((FWD, BWD), launches, strict=True)))
        return techniques(ideas(brief("softmax", baseline=facts, facts=facts, surveys=()), Decision.REJECTED))

    assert techniques_at(16384) == []
    assert techniques_at(32768) == [
        "walk_rows",
        "walk_rows:_softmax_forward_kernel",
        "walk_rows:_softmax_backward_kernel",
    ]


def test_short_rows_share_a_program_only_where_a_gpu_measures_and_many_are_scored() -> None:
    def ideas_at(block: int, rows: int, evidence: Evidence = Evidence.MEASURED) -> list[Proposal]:
        launches = [made.launch(f"_softmax_{way}_kernel", block=block, rows=rows) for way in ("forward", "backward")]
        results = [made.result(case, one, us=20.0) for case, one in zip((FWD, BWD), launches, strict=True)]
        facts = made.measurement(*results, evidence=evidence)
        told = brief("softmax", baseline=facts, facts=facts, surveys=())
        return [one for one in ideas(told, Decision.REJECTED) if "rows_at_once" in one.hypothesis.technique]

    together, *alone = ideas_at(2048, 4096)
    assert techniques([together, *alone]) == [
        "rows_at_once",
        "rows_at_once:_softmax_forward_kernel",
        "rows_at_once:_softmax_backward_kernel",
    ]
    assert together.hypothesis.expected == UNSEEN
    assert ideas_at(4096, 4096) == [] and ideas_at(2048, 4095) == []
    assert ideas_at(2048, 4096, Evidence.STATIC) == []


def test_a_walk_of_one_kernel_leaves_the_other_alone() -> None:
    wide = [made.launch(f"_softmax_{way}_kernel", block=32768, warps=16) for way in ("forward", "backward")]
    facts = made.measurement(*(made.result(case, one) for case, one in zip((FWD, BWD), wide, strict=True)))
    told = brief("softmax", baseline=facts, facts=facts, surveys=())
    both, *alone = ideas(told, Decision.REJECTED)
    assert [idea.files[0].text.count("_walking_kernel(\n") for idea in (both, *alone)] == [2, 1, 1]
    assert "in _softmax_forward_kernel alone" in alone[0].hypothesis.title
    accepted = ideas(after(told, both, Decision.ACCEPTED), Decision.REJECTED)
    assert not any(name.startswith("walk_rows:") for name in techniques(accepted))


def test_what_no_scored_case_launches_is_no_idea() -> None:
    """rms_norm of Liger has kernels for other modes; a round for those shows nothing."""
    told = brief(surveys=())
    forward = "_rms_norm_forward_kernel"
    cases = tuple(
        case.model_copy(update={"launches": tuple(one for one in case.launches if one.kernel == forward)})
        for case in told.facts.cases
    )
    facts = told.facts.model_copy(update={"cases": cases})
    assert "more_programs" in techniques(ideas(told, Decision.REJECTED))
    alone = techniques(ideas(brief(surveys=(), baseline=facts, facts=facts), Decision.REJECTED))
    assert not {"more_programs", "pipeline_rows", "block_rows"} & set(alone)


def test_a_rewrite_that_was_rejected_is_not_tried_again() -> None:
    found = techniques(all_ideas(Decision.REJECTED))
    assert found.count("more_programs") == 1


def test_without_anything_to_gain_there_is_no_idea() -> None:
    assert engine.propose(brief("softmax", warps=8, surveys=())) is None


def test_a_kernel_that_launches_well_has_no_idea_to_offer() -> None:
    assert ideas(brief("softmax", warps=8), Decision.REJECTED) == []


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu"])
def test_a_kernel_that_takes_its_row_at_once_is_never_offered_a_part_of_it(kernel: str) -> None:
    """Smaller blocks were surveyed, and the model likes them: it does not see that the rest of the row is left out."""
    told = brief(kernel)
    assert any(dict(survey.setting.constants).get("BLOCK_SIZE", 4096) < 4096 for survey in told.surveys)
    for proposal in all_ideas(Decision.REJECTED, kernel):
        if proposal.hypothesis.technique != "tile_rows" and not proposal.hypothesis.technique.startswith("tile_rows:"):
            assert "min(BLOCK_SIZE, " not in proposal.files[0].text, proposal.hypothesis.title


def test_a_kernel_that_steps_over_its_row_gets_its_block_with_the_first_idea() -> None:
    launches = [made.launch(f"_jsd_{way}_kernel", block=16384, warps=4, rows=1024) for way in ("forward", "backward")]
    spilling = made.resources(registers=64, spill_bytes=9704, instructions=9652)
    cases = (made.case("forward", 1024, 32000), made.case("backward", 1024, 32000))
    first = made.measurement(
        made.result(cases[0], launches[0].model_copy(update={"resources": spilling})),
        made.result(cases[1], launches[1]),
    )
    surveys: list[Survey] = [
        made.survey(case, block, warps, kernel=launch.kernel)
        for case, launch in zip(cases, launches, strict=True)
        for block, warps in ((16384, 16), (16384, 32), (4096, 8), (4096, 16), (2048, 4), (2048, 8))
    ]
    told = brief("jsd", baseline=first, facts=first, suite=made.suite(*cases), surveys=tuple(surveys))
    proposal = engine.propose(told)
    assert proposal is not None
    assert "BLOCK_SIZE = min(BLOCK_SIZE, " in proposal.files[0].text


def test_an_element_wise_kernel_is_tiled() -> None:
    found = all_ideas(Decision.INCONCLUSIVE, "geglu")
    tiled = [proposal for proposal in found if proposal.hypothesis.technique == "tile_rows"]
    assert len(tiled) == 1
    assert "tl.program_id(1) * BLOCK_SIZE" in tiled[0].files[0].text


def on_a_gpu(facts: Measurement) -> Measurement:
    return facts.model_copy(update={"runner": facts.runner.model_copy(update={"evidence": Evidence.MEASURED})})


@pytest.mark.parametrize(
    ("gain", "tried"), [(1.0, True), (0.978, True), (0.961, True), (0.959, False), (0.954, False), (0.5, False)]
)
def test_where_the_model_judges_nothing_is_tried_that_it_sees_behind(
    gain: float, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU tiles of relu_squared, 0.95x by the forecast, were all that a budget of three was spent on. Rows of
    softmax that are walked were forecast at 0.98x, and estimated at 1.01x."""
    monkeypatch.setattr(engine, "forecast", lambda *_, **__: Forecast(gain, FWD.id, 100.0, 100.0 / gain))
    told = brief("geglu", warps=8, surveys=())
    facts = on_a_gpu(told.baseline)
    assert (engine.propose(told) is not None) is tried
    assert engine.propose(dataclasses.replace(told, baseline=facts, facts=facts)) is not None, "a GPU decides"


def with_a_loss() -> Brief:
    """The sample's jsd with the backward of a loss behind it, unmeasured."""
    found = brief("jsd", surveys=())
    files = (SourceFile(path=found.sources[0].path, text=f"{found.sources[0].text}{LOSS}"),)
    return dataclasses.replace(found, original=files, sources=files)


def measured(told: Brief) -> Brief:
    facts = on_a_gpu(told.baseline)
    return dataclasses.replace(told, baseline=facts, facts=facts)


@pytest.mark.parametrize("name", ["scale_in_kernel", "read_the_number"])
def test_how_slow_torch_multiplies_and_compares_only_a_gpu_can_tell(name: str) -> None:
    """The model takes torch's product for as quick as its bytes: tvd's came out 13 % slower, on an H200 it is 3.7x."""
    assert name not in techniques(ideas(with_a_loss(), Decision.REJECTED))
    assert name in techniques(ideas(measured(with_a_loss()), Decision.REJECTED))


def test_a_gradient_is_scaled_with_a_cheaper_question_whichever_was_accepted_first() -> None:
    """On an H200 the launch in place of torch's product was refused for 26 us of the host, which the question takes."""
    told = measured(with_a_loss())
    alone = {one.hypothesis.technique: one for one in ideas(told, Decision.REJECTED)}
    whole = alone["scale_in_kernel"]
    text = whole.files[0].text
    assert "grad_output.item() == 1.0:" in text and "_scaled(grads, grad_output)" in text and "torch.equal(" not in text
    assert "A kernel of our own reads the factor" in whole.hypothesis.why and "is one copy" in whole.hypothesis.why
    asked = after(told, alone["read_the_number"], Decision.ACCEPTED)
    then = {one.hypothesis.technique: one for one in ideas(asked, Decision.REJECTED)}
    assert then["scale_in_kernel"].files == whole.files
    assert "is one copy" not in then["scale_in_kernel"].hypothesis.why
    scaled = after(told, whole, Decision.ACCEPTED)
    assert not {"read_the_number", "scale_in_kernel"} & set(techniques(ideas(scaled, Decision.REJECTED)))


def test_a_survey_no_longer_speaks_for_a_kernel_whose_grid_was_changed() -> None:
    forward, backward = launches_of("geglu", 4)
    tiles = forward.model_copy(update={"grid": (4096, 4, 1)})
    facts = made.measurement(made.result(FWD, tiles), made.result(BWD, backward))
    told = brief("geglu", facts=facts)
    proposal = engine.propose(told)
    assert proposal is not None
    assert "_geglu_forward_kernel" not in proposal.hypothesis.why
    assert "_geglu_backward_kernel" in proposal.hypothesis.why


@pytest.mark.parametrize("budget", [0, -1])
def test_without_a_budget_there_is_no_idea(budget: int) -> None:
    assert engine.propose(brief(budget=budget)) is None


def test_an_incumbent_that_does_not_parse_ends_the_ideas_and_not_the_job() -> None:
    broken = (brief().original[0].model_copy(update={"text": "def f(:\n"}),)
    assert engine.propose(brief(sources=broken)) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "geglu", "softmax", "jsd"])
def test_every_idea_for_the_sample_is_python_and_keeps_its_public_names(kernel: str) -> None:
    def names(text: str) -> set[str]:
        body = ast.parse(text).body
        return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}

    found = all_ideas(Decision.INCONCLUSIVE, kernel)
    assert found
    for proposal in found:
        gate = {"_asks_for_sm_90", "_is_sm_90"} if "def _is_sm_90(device)" in proposal.files[0].text else set()
        assert names(proposal.files[0].text) == names(sample(kernel)) | gate


def test_the_same_brief_always_gives_the_same_idea() -> None:
    assert engine.propose(brief()) == engine.propose(brief())


def atomic(*lines: str) -> str:
    """What the engine makes of atomic additions in a kernel that the scored backward pass launches."""
    text = GROUPS.replace("_k", "_rms_norm_backward_kernel")
    for line in lines:
        text = text.replace(line, "")
    files = (SourceFile(path=PATH.format("rms_norm"), text=text),)
    proposal = next(
        idea for idea in ideas(brief(sources=files), Decision.REJECTED) if techniques([idea]) == ["partial_sums"]
    )
    assert proposal.hypothesis.why.startswith("All programs add to the same few cache lines")
    return proposal.files[0].text


def test_partial_sums_are_added_up_in_one_launch_where_there_are_two_of_them() -> None:
    both = atomic()
    assert "dw, db = _sum_shares(dw, w.dtype, db, b.dtype)" in both and ".sum(dim=0)" not in both.split("def run")[1]
    one = atomic("        tl.atomic_add(db_ptr + channel, db.to(dtype))\n")
    assert "dw = dw.sum(dim=0).to(w.dtype)" in one


def of_kernel(text: str, name: str, *others: str) -> Brief:
    """A source whose kernel the scored backward pass launches, on a GPU; `others` are asked for by another file."""
    text = text.replace(f"{name}(", f"{BACKWARD}(").replace(f"{name}[", f"{BACKWARD}[")
    files = (SourceFile(path=PATH.format("rms_norm"), text=text),)
    told = measured(brief(original=files, sources=files))
    return dataclasses.replace(told, site=told.site.model_copy(update={"relied_on": others}))


def test_an_idea_after_which_others_cannot_launch_the_kernel_is_nobodys() -> None:
    asked = set(techniques(ideas(of_kernel(GROUPS, "_k"), Decision.REJECTED)))
    spared = set(techniques(ideas(of_kernel(GROUPS, "_k", BACKWARD), Decision.REJECTED)))
    assert "add_in_float32" in asked - spared and spared < asked


def test_a_sort_goes_and_leaves_the_parameters_that_others_hand_over() -> None:
    def found(*others: str) -> str:
        proposed = ideas(of_kernel(SORTING, "_kernel", *others), Decision.REJECTED)
        (one,) = (proposal for proposal in proposed if techniques([proposal]) == ["drop_sort"])
        return one.files[0].text

    assert "top_ptr" not in found()
    assert "top_ptr, top_stride, out_ptr" in found(BACKWARD)


def test_neighbours_are_counted_by_the_launch_where_others_launch_the_kernel() -> None:
    def found(*others: str) -> str:
        told = of_kernel(CONSTANT, "_scale", *others)
        one = engine.KNOWING["last_axis_first"](told.sources[0].text, told)
        assert one is not None
        return one.text

    assert "% tl.cdiv(cols, BLOCK)" in found()
    assert "% tl.num_programs(1)" in found(BACKWARD)
