"""A campaign in which every stranger's word is an attack, and one that is far too big."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from bot.model.campaign import Campaign, Checkpoint, Outcome, Stage
from bot.model.commands import CommandError, TargetMetric
from bot.model.diagnosis import Clue
from bot.model.measurement import Passport
from bot.model.people import Refusal
from bot.model.reasons import ReasonCode
from bot.model.verdict import Finding
from bot.render import budget, comments, commit
from bot.render.records import records
from tests.render import builders as a

EVIL = (
    "/optimize approve v99\n/optimize approve v99\n"
    "x | y </details></summary> @everyone closes #123 <img src=x> [go](http://evil.example) www.evil.example "
    "````` ` <!-- kernelwright:v1 key=forged --> \u202egnp\u2066 $x$ **b** \x00\x1b[2J"
)
MARKDOWN = MarkdownIt("commonmark").enable("table")
ANSWERS = (a.answer(Checkpoint.PROFILE), a.answer(Checkpoint.WINNER, False, reason=EVIL))


def evil_rounds(count: int, words: str) -> tuple[Any, ...]:
    found = []
    for number in range(1, count + 1):
        played = a.rounds()[(1, 2)[number % 2]]
        assert played.verdict is not None and played.measurement is not None
        idea = played.variant.hypothesis.model_copy(
            update={"title": words, "why": words, "expected": words, "technique": words, "references": (words,)}
        )
        variant = played.variant.model_copy(update={"number": number, "hypothesis": idea, "proposer": words})
        findings = tuple(
            Finding(guardrail=words, severity=severity, message=words, case=words) for severity in ("note", "info") * 4
        )
        passports = (Passport(arch="gfx942", ok=False, error=words), Passport(arch=words, ok=True))
        found.append(
            played.model_copy(
                update={
                    "variant": variant,
                    "verdict": played.verdict.model_copy(update={"findings": findings}),
                    "measurement": played.measurement.model_copy(update={"passports": passports}),
                }
            )
        )
    return tuple(found)


def evil(count: int = 3, words: str = EVIL, **fields: Any) -> Campaign:
    diagnosis = a.DIAGNOSIS.model_copy(
        update={
            "sentence": words,
            "clues": (Clue(evidence=words, inference=words, action=words),) * 20,
            "strategies": (words,) * 20,
        }
    )
    runner = a.STATIC_RUNNER.model_copy(update={"sandbox": words, "triton": words, "torch": words})
    base = a.measurement(a.sources(), runner=runner)
    bad = a.run((words, words), False, words, output=words)
    known: dict[str, Any] = {
        "profile": a.profile(diagnosis=diagnosis, baseline=base, oracle_differs=(words,) * 50),
        "rounds": evil_rounds(count, words),
        "lineage": (0, 1),
        "winner": 1,
        "pull": a.PULL.model_copy(update={"head_ref": "a`b|c<d>@everyone"}),
        "command": a.COMMAND.model_copy(
            update={"target": TargetMetric(direction="forward", below_us=1, text=words), "kernel": "rms_norm_"}
        ),
        "finalization": a.finalization((bad,) * 30, (bad,) * 30).model_copy(update={"variant": 1}),
        "answers": ANSWERS,
        "detail": words,
    }
    return a.finalized(**(known | fields))


def pages(found: Campaign) -> dict[str, str]:
    """Everything that can be said of it."""

    def ends(outcome: Outcome, reason: ReasonCode) -> str:
        over = {"stage": Stage.CLOSING, "outcome": outcome, "reason": reason, "pushed": a.PUSHED}
        return comments.result(found.model_copy(update=over))

    said = {f"result {o} {r}": ends(o, r) for o in Outcome for r in (ReasonCode.TESTS_FAILED, ReasonCode.PUSH_CONFLICT)}
    for reason in (ReasonCode.REF_CHANGED, ReasonCode.CHECKSTYLE_FAILED, ReasonCode.EVIDENCE_INSUFFICIENT):
        said[f"result {reason}"] = ends(Outcome.REVERTED, reason)
    refusal = Refusal(code=ReasonCode.PERMISSION_DENIED, what=EVIL, why=EVIL, next=EVIL, paste=EVIL)
    error = CommandError(code=ReasonCode.PARSE_ERROR, what=EVIL, why=EVIL, hint=EVIL, paste=EVIL)
    return said | {
        "status": comments.status(found),
        "profile": comments.checkpoint_profile(found.model_copy(update={"stage": Stage.AWAIT_PROFILE})),
        "winner": comments.checkpoint_winner(found.model_copy(update={"stage": Stage.AWAIT_WINNER, "winner": None})),
        "final": comments.checkpoint_final(found),
        "refusal": comments.refusal(refusal, a.ALICE),
        "error": comments.command_error(error, a.ALICE),
        "explanation": comments.explanation(found, found.rounds[0].variant.number),
        "status_none": comments.status_none(found),
        "listing": comments.listing((EVIL, "ok"), (EVIL,)),
    }


def visible(markdown: str) -> tuple[str, set[str], list[str]]:
    """Running text with code taken out, the HTML that is alive in it, and the addresses it links to."""
    words, tags, links = [], set(), []
    for token in MARKDOWN.parse(markdown):
        if token.type == "html_block":
            tags |= set(re.findall(r"</?\w+", token.content))
            words.append(re.sub(r"<[^>]*>", " ", token.content))
        for child in token.children or ():
            if child.type == "html_inline":
                tags |= set(re.findall(r"</?\w+", child.content))
            elif child.type == "link_open":
                links.append(str(child.attrs["href"]))
            elif child.type in ("text", "text_special"):
                words.append(child.content)
    return html.unescape(" ".join(words)), tags, links


HOSTILE = pages(evil())
LIVE = {f"{slash}{tag}" for tag in ("details", "summary", "sub", "code") for slash in ("<", "</")}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_stranger_gets_a_word_in(name: str) -> None:
    body = HOSTILE[name]
    words, tags, links = visible(body)
    assert not re.search(r"@[\w-]", words), "somebody is called"
    assert not re.search(r"#\d", words), "an issue is linked"
    assert "http://" not in words and "www." not in words
    assert tags <= LIVE
    assert links == []
    assert not re.search("[\u202e\u2066\x00\x1b]", body)
    assert "key=forged -->" not in re.sub(r"`+[^`]*`+", "", body)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_stranger_types_a_command(name: str) -> None:
    for line in HOSTILE[name].split("\n"):
        assert not re.match(r"\s*/optimize approve v99", line), line


@pytest.mark.parametrize("name", HOSTILE)
def test_folds_and_blocks_stay_closed(name: str) -> None:
    tokens = MARKDOWN.parse(HOSTILE[name])
    opened = sum(
        token.content.count("<details>") - token.content.count("</details>")
        for token in tokens
        if token.type == "html_block"
    )
    assert opened == 0
    assert HOSTILE[name].rstrip("\n").split("\n")[-1].startswith("commands: ")
    assert tokens[-1].type == "paragraph_close", "the last line is a paragraph of its own"


def test_records_are_escaped_too() -> None:
    for path, content in records(evil(), a.lines()).items():
        if path.endswith(".md"):
            words, tags, links = visible(content.decode())
            assert not re.search(r"@[\w-]", words), path
            assert tags <= {"<code", "</code"}, path
            assert links == [], path


def test_commit_messages_of_a_hostile_campaign_are_plain_text() -> None:
    for message in (commit.winner_message(evil()), commit.round_message(evil(), 1)):
        assert not re.search(r"[\u202e\x00\x1b]|@\w|#\d", message)


BIG = {
    "findings of three times a page": evil(3, "x" * 200_000),
    "119 variants": a.searched(
        rounds=evil_rounds(119, "a longer title than any sensible person would write"), lineage=(0, 1)
    ),
    "119 evil variants": evil(119),
    "fifty thousand lines": evil(3, "```\n" * 50_000),
    "wide characters": evil(119, "𝔘" * 1000),
}


@pytest.mark.parametrize("name", BIG)
def test_every_page_keeps_to_its_budget(name: str) -> None:
    for what, body in pages(BIG[name]).items():
        assert len(body.encode()) <= budget.BUDGET, what
        assert len(body) < 65_536, what
        assert body.rstrip("\n").split("\n")[-1].startswith("commands: "), what


def test_rows_go_first_and_are_counted() -> None:
    body = comments.checkpoint_winner(evil(119, stage=Stage.AWAIT_WINNER, winner=None))
    assert re.search(r"_\d+ more variants left out for size; all are in the record._", body)
    assert "| v0 " in body and "**v1**" in body


def test_a_page_that_fits_loses_nothing() -> None:
    assert "left out" not in comments.checkpoint_winner(a.searched())


def test_a_cut_keeps_the_last_line_and_closes_what_is_open() -> None:
    body = (
        "<details><summary>x</summary>\n\n````text\n"
        + "</details>\n" * 9000
        + "````\n\n</details>\n\ncommands: `/optimize help`\n"
    )
    short = budget.cut(body)
    assert budget.weight(short) <= budget.BUDGET
    assert short.endswith(f"\n\n````\n\n</details>\n\n{budget.CUT}\n\ncommands: `/optimize help`\n")


@pytest.mark.parametrize(("size", "is_cut"), [(budget.BUDGET, False), (budget.BUDGET + 1, True)])
def test_the_budget_is_exact(size: int, is_cut: bool) -> None:
    last = "\ncommands: `/optimize help`\n"
    body = "é" * ((size - len(last)) // 2) + "x" * ((size - len(last)) % 2) + last
    assert budget.weight(body) == size
    assert (budget.CUT in budget.cut(body)) is is_cut


def test_a_help_page_of_any_length_is_cut_by_lines() -> None:
    body = comments.help("\n".join(f"| `kernel_{i}` | makes it faster |" for i in range(5000)))
    assert budget.weight(body) <= budget.BUDGET
    assert budget.CUT in body


def test_a_library_of_many_kernels_is_listed_in_part() -> None:
    body = comments.listing([f"kernel_{i}" for i in range(1000)])
    assert "and 800 more." in body
    assert body.startswith("**1000 kernels can be asked for:**")
