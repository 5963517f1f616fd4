"""Every reason code has a page that was read: what happened, why, and what to type next."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bot.commands.grammar import parse
from bot.model.commands import CommandError, Help
from bot.model.reasons import ReasonCode
from bot.render import comments
from bot.render.budget import BUDGET, weight
from bot.render.meanings import MEANINGS
from tests.render.situations import KERNELS, LOG_ONLY, SITUATIONS, page

NEXT = re.compile(r"(?m)^Next: \S|Next, in a new comment, write|Nothing (more )?is needed|Your answer|Start with:")
WORDS_ENOUGH = 60
"""Characters a page spends beside its headline and the line of commands: less cannot say why and what next."""
COMMAND = re.compile(r"/optimize(?: [^`\n]*)?")
FORMS = re.compile(r"<[a-z]+>|\[[a-z]+\]|\bvN\b|=$")


def outside_blocks(body: str) -> str:
    """What is read as prose: no code, folds, addresses or small print. Tables have their units in the head or the cell,
    and are looked at by tests/render/test_tables.py."""
    body = re.sub(r"(?ms)^\s*(`{3,}).*?^\s*\1\s*$", "", body)
    body = re.sub(r"(?s)<details>.*</details>", "", body)
    body = re.sub(r"(?s)<(sub|picture)>.*?</\1>", "", body)
    body = re.sub(r"`[^`]*`|<code>.*?</code>|\]\([^)]*\)", "", body)
    return "\n".join(line for line in body.split("\n") if not line.startswith(("|", "commands:")))


@pytest.mark.parametrize("reason", list(ReasonCode))
def test_every_reason_code_has_a_page(reason: ReasonCode, golden: Callable[[str, str], None]) -> None:
    golden(f"reasons/{reason}.md", page(reason))
    if reason not in LOG_ONLY:
        golden(f"reasons/{reason}.help.md", comments.meaning(reason))


def test_a_code_is_said_in_a_comment_or_in_the_log_and_has_a_meaning() -> None:
    assert SITUATIONS.keys() | set(LOG_ONLY) == set(ReasonCode)
    assert not SITUATIONS.keys() & set(LOG_ONLY)
    assert MEANINGS.keys() == set(ReasonCode)


@pytest.mark.parametrize("reason", list(ReasonCode))
def test_a_page_says_what_why_and_what_next(reason: ReasonCode) -> None:
    body = page(reason)
    assert weight(body) <= BUDGET
    head, _, rest = body.partition("\n\n")
    assert "**" in head, "what happened, in bold, first"
    prose = outside_blocks(rest)
    assert len(prose) >= WORDS_ENOUGH, prose
    assert NEXT.search(body), body


QUIET = ("help_completed", "list_completed", "status_completed", "explain_completed", "accepted", "approved")
"""Codes of pages that answer or go on; every other page names its code, so that it can be looked up."""


@pytest.mark.parametrize("reason", [r for r in ReasonCode if r not in QUIET and r is not ReasonCode.AWAITING_APPROVAL])
def test_a_page_that_refuses_or_ends_names_its_code(reason: ReasonCode) -> None:
    assert f"`{reason}`" in page(reason).partition("\n\n")[0]


@pytest.mark.parametrize("reason", list(ReasonCode))
def test_every_command_a_page_offers_is_one(reason: ReasonCode) -> None:
    """In backticks or ready to paste. Forms with a blank to fill in are no lines; they are skipped."""
    for body in (page(reason), comments.meaning(reason)):
        lines = [*re.findall(r"`(/optimize[^`\n]*)`", body), *re.findall(r"(?m)^(/optimize.*)$", body)]
        for line in lines:
            if not FORMS.search(line) and line != "/optimize":
                assert not isinstance(parse(line, KERNELS), CommandError), line


NOUNS = (
    *(
        "bytes?",
        "case",
        "cases",
        "characters",
        "columns",
        "accepted steps",
        "commands",
        "correctness cases?",
        "days?",
        "digits",
        "failed",
    ),
    *("GPU minutes?", "hexadecimal", "hours?", "kernels?", "minutes?", "or more", "passed", "registers?", "times?"),
    *("shapes?", "values?", "variants?", "warps?"),
)
UNITS = rf"(?:x\b| ?%| (?:us|ms|s|min|KiB|MiB|GiB|B)\b| (?:{'|'.join(NOUNS)})\b)"
"""What may stand behind a number: a unit, or the noun that is counted."""
EXCEPTIONS = (
    (r"\bv\d+\b", "the name of a variant"),
    (r"\b\d+\.\d+s\b", "the tests' own runner, in its own words"),
    (r"\b\d+x\d+(x\d+)?\b", "a shape"),
    (r"\bsm_\d+\b|\bgfx\d+\b|\bfp\d+\b|\bbf16\b", "an architecture or a type"),
    (r"(?m)^\s*\d+\. ", "the number of a list item"),
    (r"#\d+|#&#8203;\d+|pull request \d+", "the number of a pull request"),
    (r"\b[0-9a-f]{7,40}\b", "a commit"),
    (r"\b(?:triton|torch|Xid|id) [\w.]+", "a version, or an error's name"),
    (r"\b\d\d:\d\d\b", "a time of day"),
    (r"\b1 to \d+\b|v1, v2 and so on, v\d+", "a range of names or counts"),
    (r"\b\d+ of \d+ (?:correctness cases|cases|GPU minutes)", "a part of a count, with its noun"),
    (r"\b\d+ of at most \d+ variants", "a part of a count, with its noun"),
    (r"\b\d+/\d+ (?:cases|of my own cases)", "a part of a count, with its noun"),
    (r"\bat \d+ columns|\bnum_\w+", "a size or a parameter with its name"),
)


def bare_numbers(prose: str) -> list[str]:
    """Numbers in prose that carry no unit and no noun. What is named in EXCEPTIONS is a name, not a quantity."""
    for pattern, _ in EXCEPTIONS:
        prose = re.sub(pattern, " ", prose)
    found = []
    for number in re.finditer(r"(?<![\w.])[+-]?\d+(?:\.\d+)?", prose):
        if not re.match(UNITS, prose[number.end() :]):
            found.append(prose[max(0, number.start() - 30) : number.end() + 30])
    return found


def test_a_bare_number_is_seen() -> None:
    """The check itself: what it must find, and what it must let through."""
    for bad in ("it is 1.42 faster", "it took 31", "at 38 of the roof", "a factor of 3, measured"):
        assert bare_numbers(bad), bad
    for good in (
        "it is 1.42x faster",
        "it took 31.0 us",
        "at 38 % of the roof",
        "5 of at most 8 variants",
        "v3 of #12",
    ):
        assert not bare_numbers(good), good


@pytest.mark.parametrize("reason", list(ReasonCode))
def test_no_page_shows_a_number_without_its_unit(reason: ReasonCode) -> None:
    assert bare_numbers(outside_blocks(page(reason))) == []
    assert bare_numbers(outside_blocks(comments.meaning(reason))) == []


def test_what_a_code_means_can_be_asked_for() -> None:
    for reason in ReasonCode:
        assert parse(f"/optimize help {reason}", KERNELS) == Help(topic=reason)
    assert parse("/optimize help Ref-Changed?", KERNELS) == Help(topic=ReasonCode.REF_CHANGED)
    assert parse("/optimize help approve", KERNELS) == Help()
