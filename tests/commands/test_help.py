"""Help is made from the tables that parse and from the live configuration, so it cannot be out of date."""

from __future__ import annotations

import re

import pytest

from bot.commands import grammar
from bot.commands.help import page
from bot.commands.markdown import command_lines
from bot.commands.options import OPTIONS
from bot.model.commands import CommandError, Optimize
from bot.model.policy import RepoPolicy

KERNELS = ("rms_norm", "geglu", "softmax")


def test_every_verb_and_every_option_is_explained() -> None:
    text = page(KERNELS, RepoPolicy())
    assert all(f"`{verb.usage}`" in text and verb.summary in text for verb in grammar.VERBS)
    assert all(f"`{option.name}`" in text and option.summary in text for option in OPTIONS)


def test_every_example_on_the_page_is_understood() -> None:
    text = page(KERNELS, RepoPolicy())
    examples = [line for line in re.findall(r"`(/optimize [^`<\[]+)`", text) if "kernel=" not in line]
    assert len(examples) > len(grammar.VERBS)
    for example in examples:
        assert not isinstance(grammar.parse(example, KERNELS), CommandError), example


def test_the_kernels_this_pull_request_touches_come_first_and_ready_to_paste() -> None:
    text = page(KERNELS, RepoPolicy(), touched=("softmax", "unheard_of"))
    assert "touches `softmax`" in text and "unheard_of" not in text
    assert text.index("touches `softmax`") < text.index("`geglu`")
    block = re.search(r"```\n(.*)\n```", text)
    assert block and grammar.parse(block[1], KERNELS) == Optimize(kernel="softmax")


def test_without_touched_kernels_all_are_listed() -> None:
    assert "Kernels here: `geglu`, `rms_norm`, `softmax`." in page(KERNELS, RepoPolicy())


def test_a_library_of_hundreds_is_cut_and_says_so() -> None:
    text = page([f"kernel_{n:03}" for n in range(200)], RepoPolicy())
    assert "and 140 more" in text and "`kernel_199`" not in text


def test_a_repository_without_kernels_is_pointed_to_its_file() -> None:
    text = page((), RepoPolicy())
    assert "kernelwright.toml" in text and "```" not in text


def test_names_that_cannot_be_kernels_never_reach_the_page() -> None:
    text = page(["</details>", "@everyone", "geglu"], RepoPolicy(), touched=["@everyone"])
    assert "@everyone" not in text and "</details>" not in text


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (RepoPolicy(), "is timed on a GPU"),
        (RepoPolicy(evidence="static"), 'every number says "estimated"'),
        (RepoPolicy(), "may not be the one who approves"),
        (RepoPolicy(self_approval=True), "may be the one who approves"),
        (RepoPolicy(), "A person is always asked"),
        (RepoPolicy(final_approval="none"), "without a last question"),
        (RepoPolicy(), "Drafts are not taken"),
        (RepoPolicy(allow_drafts=True), "Drafts are taken"),
        (RepoPolicy(), "answers the last question too"),
        (RepoPolicy(review_answers="all"), "answers every question too"),
        (RepoPolicy(review_answers="none"), "Reviews answer no question"),
        (RepoPolicy(max_variants=4), "| 1 to 4 | 4 |"),
        (RepoPolicy(max_variants=50), "| 1 to 50 | 8 |"),
        (RepoPolicy(default_gpu="cdna3"), "or cdna3 where nothing is measured"),
    ],
)
def test_the_rules_are_those_of_this_repository(policy: RepoPolicy, words: str) -> None:
    assert words in page(KERNELS, policy)


def test_the_page_is_no_command_itself() -> None:
    assert command_lines(page(KERNELS, RepoPolicy(), touched=("geglu",))) == ()
