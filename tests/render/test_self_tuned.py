"""Whoever reads that there was nothing to do also reads which kernels choose their launch numbers themselves."""

from __future__ import annotations

import pytest

from bot.model.campaign import Campaign, Outcome, Profile
from bot.model.measurement import Evidence
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile
from bot.render import comments, mind, profile_text, self_tuned, terminal, view
from bot.render.escape import SENTENCE_LIMIT
from bot.render.records import records
from tests.render import builders as a

KERNEL = "_rms_norm_forward_kernel"
SAID = f"{KERNEL} tunes itself (triton.autotune), which takes a GPU"
NOT_RACED = "no launch numbers were raced against it"
LIST = "@triton.autotune(configs=[triton.Config({})], key=[])\n@triton.jit\n"


def tuned(text: str = f"{LIST}def {KERNEL}(x): ...\n", evidence: Evidence = Evidence.STATIC) -> Profile:
    profile = a.profile(evidence)
    return profile.model_copy(update={"sources": (SourceFile(path=a.OP_PATH, text=text),)})


def test_the_profile_says_so_below_what_to_try() -> None:
    words = " ".join(profile_text.profile_text(tuned()).split())
    assert SAID in words and NOT_RACED in words
    assert "triton.autotune" not in profile_text.profile_text(a.profile())


def test_the_record_the_report_and_the_last_word_say_so() -> None:
    campaign = a.ended(Outcome.NOTHING_TO_DO, ReasonCode.NO_IMPROVEMENT, profile=tuned())
    pages = records(campaign, ())
    for page in ("profile.md", "report.md"):
        assert NOT_RACED in pages[page].decode(), page
    assert NOT_RACED in comments.result(campaign)
    assert NOT_RACED in terminal.result_text(campaign)
    plain = campaign.model_copy(update={"profile": a.profile()})
    assert "autotune" not in comments.result(plain) + terminal.result_text(plain)


def test_with_a_gpu_it_was_tuned() -> None:
    assert self_tuned.said(tuned(evidence=Evidence.MEASURED)) == ""


@pytest.mark.parametrize(
    "text",
    [
        f"@triton.jit\ndef {KERNEL}(x): ...\n",
        f"{LIST}def _another(x): ...\n\n@triton.jit\ndef {KERNEL}(x): ...\n",
        f"{LIST}def {KERNEL}(x: ...\n",
        "(" * 100_000,
    ],
)
def test_nothing_is_said_of_what_is_not_launched_or_cannot_be_read(text: str) -> None:
    assert self_tuned.said(tuned(text)) == ""


@pytest.mark.parametrize(
    "decorator", ["@autotune(configs=[])", "@triton.autotune(configs=LIST, key=['n'])", "@autotune"]
)
def test_however_it_is_imported(decorator: str) -> None:
    assert self_tuned.kernels(tuned(f"{decorator}\n@triton.jit\ndef {KERNEL}(x): ...\n")) == (KERNEL,)


@pytest.mark.parametrize(
    ("number", "said"), [(1, "k0 tunes itself"), (3, "k0, k1, k2 tune"), (4, "k0, k1, k2, others")]
)
def test_of_many_a_few_are_named(number: int, said: str) -> None:
    names = [f"k{i}" for i in range(number)]
    profile = tuned("".join(f"{LIST}def {name}(x): ...\n\n" for name in names))
    case, *_ = profile.baseline.cases
    launches = tuple(case.launches[0].model_copy(update={"kernel": name}) for name in names)
    baseline = profile.baseline.model_copy(update={"cases": (case.model_copy(update={"launches": launches}),)})
    found = self_tuned.said(profile.model_copy(update={"baseline": baseline}))
    assert found.startswith(said) and len(found) < SENTENCE_LIMIT


# of a variant, where a GPU timed it


def changing(text: str, evidence: Evidence = Evidence.MEASURED) -> Campaign:
    """A winner that brings this text, of an op whose kernel tunes itself."""
    campaign = a.pushed(rounds=a.rounds(evidence))
    best = view.best(campaign)
    files = (SourceFile(path=a.OP_PATH, text=text),)
    rounds = tuple(
        one.model_copy(update={"variant": one.variant.model_copy(update={"files": files})})
        if one.variant.number == best
        else one
        for one in campaign.rounds
    )
    return campaign.model_copy(update={"rounds": rounds, "profile": tuned(evidence=evidence)})


LONGER = f"{LIST.replace('[triton', '[triton.Config({}, num_stages=4), triton')}def {KERNEL}(x): ...\n"
OTHERS = f"{LIST}def {KERNEL}(x): ...\n\n\ndef calculate_settings(n): return 1\n"
ONE_CHOICE = f"{KERNEL} tunes itself (triton.autotune), and v3 changes its list or lines: it was tuned once for v3"


def test_an_interval_is_of_one_choice_where_a_variant_changes_the_list() -> None:
    campaign = changing(LONGER)
    assert view.best(campaign) == 3
    (said,) = mind.of_kernel(campaign)
    assert said.startswith(ONE_CHOICE) and said.endswith("says nothing of what another tuning would choose")
    assert ONE_CHOICE in comments.result(campaign) and f"mind: {ONE_CHOICE}" in terminal.result_text(campaign)
    assert ONE_CHOICE in records(campaign, ())["report.md"].decode()
    for asked in (comments.checkpoint_winner, comments.checkpoint_final):
        assert f"**Mind:** \\{ONE_CHOICE}" in asked(campaign), asked.__name__


def test_whoever_launches_it_as_it_was_takes_what_was_chosen_for_v0() -> None:
    assert mind.of_kernel(changing(OTHERS)) == ()
    assert mind.of_kernel(changing(f"def {KERNEL}(x): ...\n")) == (), "it tunes itself no more"
    assert mind.of_kernel(changing("(")) == (), "nobody can read it"


def test_without_a_gpu_nobody_tuned_it() -> None:
    assert mind.of_kernel(changing(LONGER, Evidence.STATIC)) == ()
