"""`Correct` says where, and in which types: an interpreter that has no bfloat16 has proved nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.model.campaign import Campaign
from bot.model.measurement import CheckResult, Evidence
from bot.render import comments, commit, labels, numbers, view
from tests.render import builders as a

ROOT = Path(__file__).parents[2]


def checked(*cases: str, evidence: Evidence = Evidence.STATIC) -> Campaign:
    """v3 passed these checks and no others."""
    campaign = a.pushed(rounds=a.rounds(evidence), profile=a.profile(evidence))
    rows = tuple(CheckResult(case=case, passed=True, margin=2.0) for case in cases)
    changed = []
    for played in campaign.rounds:
        assert played.measurement is not None
        told = played.measurement.model_copy(update={"checks": rows})
        changed.append(played.model_copy(update={"measurement": told}))
    return campaign.model_copy(update={"rounds": tuple(changed)})


def test_an_interpreter_says_what_it_is_and_which_scored_type_it_never_ran() -> None:
    said = view.tried(checked("hidden-1-forward-float16", "hidden-2-backward-float32"), 3)
    assert said == "in Triton's interpreter, in fp32 and fp16; not in bf16, in which it is scored"


def test_on_a_gpu_it_is_that_gpu_and_every_type_that_ran() -> None:
    every = [f"hidden-{n}-forward-{dtype}" for n, dtype in enumerate(labels.DTYPES)]
    assert view.tried(checked(*every, evidence=Evidence.MEASURED), 3) == "on NVIDIA H200, in fp32, fp16 and bf16"


def test_a_name_that_tells_no_type_is_none() -> None:
    assert view.tried(checked("hidden-1-forward-<b>", evidence=Evidence.MEASURED), 3) == "on NVIDIA H200"


def test_nothing_is_said_of_what_was_not_checked() -> None:
    assert view.tried(checked(), 3) == "" and "; v3 checked" not in comments.result(checked())


def test_the_commit_and_the_comment_say_so() -> None:
    campaign = checked("hidden-1-forward-float16")
    flat = " ".join(commit.winner_message(campaign).split())
    assert "Correct on 1 of 1 case against the fp64 oracle, in Triton's interpreter, in fp16; not in bf16" in flat
    assert "; v3 checked in Triton's interpreter, in fp16; not in bf16, in which it is scored)" in comments.result(
        campaign
    )


def test_an_estimate_has_the_error_that_the_model_was_found_to_have() -> None:
    told = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    row = next(line for line in told.splitlines() if "it was fitted to" in line)
    assert f"median error {row.split('|')[2].strip()}" == labels.MODEL_ERROR
    assert labels.MODEL_ERROR in comments.result(a.pushed())
    assert labels.MODEL_ERROR not in comments.result(checked("hidden-1-forward-float16", evidence=Evidence.MEASURED))


@pytest.mark.parametrize(
    ("names", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_names_are_listed_as_people_list_them(names: list[str], said: str) -> None:
    assert numbers.listed(names) == said
