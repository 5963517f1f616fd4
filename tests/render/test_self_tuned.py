"""Whoever reads that there was nothing to do also reads which kernels choose their launch numbers themselves."""

from __future__ import annotations

import pytest

from bot.model.campaign import Outcome, Profile
from bot.model.measurement import Evidence
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile
from bot.render import comments, profile_text, self_tuned, terminal
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
