"""What a GPU job leaves is hostile until it was checked: forged segments, one lie each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.errors import CorruptRecord
from bot.ledger import journal
from bot.model.campaign import Outcome, Stage, StopReason, Zone
from bot.model.facts import (
    Answered,
    CampaignClosed,
    EffectDone,
    Fact,
    FilePassed,
    Finalized,
    Profiled,
    Pushed,
    RoundOpened,
    SearchEnded,
    VariantJudged,
    VariantMeasured,
)
from bot.model.measurement import Evidence
from bot.model.reasons import ReasonCode
from bot.zones import intake
from bot.zones.intake import MAX_FACTS, MAX_SEGMENT, MAX_SOURCE, SEGMENT, read_segment
from tests.campaign import story
from tests.zones import gpu
from tests.zones.conversation import AT, PATH, Conversation
from tests.zones.places import At

Facts = list[Fact]
Lie = Callable[[Facts], Facts]
WORKFLOW = ".github/workflows/ci.yml"


def honest(talk: Conversation) -> Facts:
    """What an honest job would leave for the open order."""
    campaign = talk.campaign
    assert campaign.order is not None
    match campaign.order.phase:
        case "profile":
            return gpu.profiled(campaign, talk.repo)
        case "optimize":
            return gpu.searched(campaign)
        case _:
            return gpu.finished(campaign)


def script(*variants: int) -> list[dict[str, Any]]:
    run = {"argv": ["x"], "passed": True, "exit_code": 0, "seconds": 1.0, "summary": "ran"}
    return [{"variant": variant, "run": run} for variant in variants]


def put(fact: Any, value: object, *path: str | int) -> Any:
    """The fact with one value inside it replaced; a function is given the value that was there."""
    found = part = fact.model_dump(mode="json")
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value(part[path[-1]]) if callable(value) else value
    return type(fact).model_validate(found)


def in_every(kind: type[Any], value: object, *path: str | int) -> Lie:
    return lambda facts: [put(fact, value, *path) if isinstance(fact, kind) else fact for fact in facts]


def in_one(index: int, value: object, *path: str | int) -> Lie:
    return lambda facts: [*facts[:index], put(facts[index], value, *path), *facts[index + 1 :]]


def without(kind: type[Any]) -> Lie:
    return lambda facts: [fact for fact in facts if not isinstance(fact, kind)]


def first_round_twice(facts: Facts) -> Facts:
    return [*facts[:3], *facts]


def other_order(order: str) -> Lie:
    return lambda facts: [put(fact, order, "order") for fact in facts]


def a_round(facts: Facts) -> Facts:
    """A round of a search, written for the order of a profile."""
    return [RoundOpened(order=facts[0].order, variant=story.variant(1))]  # type: ignore[union-attr]


def verdict_alone(facts: Facts) -> Facts:
    return [VariantJudged(order=facts[0].order, number=7, verdict=story.ACCEPTED)]  # type: ignore[union-attr]


def another_file(files: list[Any]) -> list[Any]:
    return [*files, {"path": "Makefile", "text": "all:\n"}]


def breaks_the_parser(files: list[Any]) -> list[Any]:
    return [{"path": PATH, "text": "x = " + "+".join("1" for _ in range(9000))}]


def longer(files: list[Any]) -> list[Any]:
    return [{**files[0], "text": files[0]["text"] + "x = 1\n"}]


LEARNED = [{"name": "memory_bandwidth", "value": 9000.0, "source": "<gpu-wiki>/docs/x.md:L1", "read": "2026-11-22"}]

LIES: dict[str, dict[str, tuple[Lie, str]]] = {
    "profiling": {
        "an op that nobody asks a dispatcher for": (
            in_every(Profiled, [{"op": "jsd", "by_itself": "cute", "judged": "triton"}], "profile", "dispatch"),
            "ops that its kernel does not ask a dispatcher for",
        ),
        "an order nobody placed": (other_order("c1-9-profile"), "not the open one"),
        "another kernel": (
            in_every(Profiled, "softmax", "profile", "site", "kernel"),
            "is of softmax, not of rms_norm",
        ),
        "a source that was changed": (in_every(Profiled, longer, "profile", "sources"), "differs from the pinned"),
        "one more file": (in_every(Profiled, another_file, "profile", "sources"), "of other files"),
        "one more file in the site": (
            in_every(Profiled, lambda files: [*files, WORKFLOW], "profile", "site", "files"),
            "of other files",
        ),
        "no file": (in_every(Profiled, [], "profile", "sources"), "of other files"),
        "an easier suite": (in_every(Profiled, lambda c: c[:1], "profile", "suite", "cases"), "another suite"),
        "a baseline of another source": (
            in_every(Profiled, "0" * 64, "profile", "baseline", "source"),
            "measured on another source",
        ),
        "a judging file that differs, kept quiet or made up": (
            in_every(Profiled, ["Makefile"], "profile", "oracle_differs"),
            "other judging files",
        ),
        "a machine nobody knows": (
            in_every(Profiled, "sm_999", "profile", "baseline", "runner", "arch"),
            "nobody can estimate",
        ),
        "a slower baseline": (
            in_every(Profiled, 1e6, "profile", "baseline", "cases", 0, "timing", "median_us"),
            "do not follow from the raw facts",
        ),
        "a bandwidth out of a wiki": (
            in_every(Profiled, LEARNED, "profile", "baseline", "runner", "learned"),
            "from a knowledge base",
        ),
        "a bandwidth that nobody published": (
            in_every(Profiled, 9000.0, "profile", "hardware", 0, "value"),
            "no datasheet of ours",
        ),
        "a number beyond numbers": (
            in_every(Profiled, 10**400, "profile", "baseline", "cases", 0, "memory_bytes"),
            "larger than any",
        ),
        "the profile twice": (lambda facts: facts * 2, "not the open one"),
        "a round before there is a profile": (a_round, "is not for optimize"),
    },
    "searching": {
        "a file outside the target": (
            in_every(RoundOpened, WORKFLOW, "variant", "files", 0, "path"),
            "and nothing else",
        ),
        "one more file": (in_every(RoundOpened, another_file, "variant", "files"), "and nothing else"),
        "a file twice": (in_every(RoundOpened, lambda files: files * 2, "variant", "files"), "and nothing else"),
        "too much source": (
            in_every(RoundOpened, "#" * (MAX_SOURCE + 1), "variant", "files", 0, "text"),
            f"more than {MAX_SOURCE}",
        ),
        "a source that breaks the parser": (in_every(RoundOpened, breaks_the_parser, "variant", "files"), "v1|another"),
        "a number too far": (in_every(RoundOpened, 5, "variant", "number"), "the next variant is v1"),
        "a parent that was refused": (in_every(RoundOpened, 2, "variant", "parent"), "its parent was not accepted"),
        "another source measured": (
            in_every(VariantMeasured, "0" * 64, "measurement", "source"),
            "another source was measured",
        ),
        "a bandwidth out of a wiki": (
            in_every(VariantMeasured, LEARNED, "measurement", "runner", "learned"),
            "from a knowledge base",
        ),
        "nothing measured": (without(VariantMeasured), "was not measured"),
        "an estimate improved": (
            in_one(1, 0.1, "measurement", "cases", 0, "timing", "median_us"),
            "do not follow from the raw facts",
        ),
        "a verdict that says accepted": (in_every(VariantJudged, "accepted", "verdict", "decision"), "verdict on v2"),
        "a verdict without its findings": (in_every(VariantJudged, [], "verdict", "findings"), "verdict on v2"),
        "a score improved": (in_one(2, 9.9, "verdict", "score", "value"), "verdict on v1 does not follow"),
        "a verdict on nothing": (verdict_alone, "v7 is not being judged"),
        "a round twice": (first_round_twice, "the next variant is v2"),
        "an end before the verdict": (lambda facts: [*facts[:2], facts[-1]], "a round has no verdict yet"),
        "an order that is done": (lambda facts: [put(f, "c1-1-profile", "order") for f in facts], "not the open one"),
    },
    "finishing": {
        "a test of another's": (in_every(FilePassed, "test/other.py", "file", "test"), "is no test of"),
        "a test that failed": (in_every(FilePassed, False, "file", "run", "passed"), "it did not pass"),
        "a test of another variant": (in_every(FilePassed, 1, "file", "variant"), "another variant was tested"),
        "another program": (in_every(Finalized, longer, "finalization", "files"), "not the source that was judged"),
        "no program": (
            in_every(Finalized, "def (", "finalization", "files", 0, "text"),
            "a finished source does not parse",
        ),
        "a source that breaks the parser": (
            in_every(Finalized, breaks_the_parser, "finalization", "files"),
            "does not parse",
        ),
        "no file": (in_every(Finalized, [], "finalization", "files"), "other files were finished"),
        "a file outside the target": (
            in_every(Finalized, WORKFLOW, "finalization", "files", 0, "path"),
            "and nothing else",
        ),
        "another variant": (in_every(Finalized, 1, "finalization", "variant"), "another variant was finished"),
        "a script where no clock was": (
            in_every(Finalized, script(0), "finalization", "scripts"),
            "a benchmark script ran that nobody asked for",
        ),
    },
}


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ((), ""),
        ((0,), ""),
        ((0, 3), ""),
        ((0, 99), r"a benchmark script ran on \[0, 99\]"),
        ((3,), r"ran on \[3\]"),
        ((3, 0), r"ran on \[3, 0\]"),
        ((0, 3, 3), r"ran on \[0, 3, 3\]"),
    ],
)
@pytest.mark.parametrize("asked", [True, False])
def test_a_script_is_believed_of_v0_and_then_of_the_winner(
    at: At, of: tuple[int, ...], words: str, asked: bool
) -> None:
    talk = at("finishing")
    (*_, whole) = honest(talk)
    assert isinstance(whole, Finalized) and talk.campaign.profile is not None
    assert talk.campaign.winner == 3
    profile = talk.campaign.profile
    runner = profile.baseline.runner.model_copy(update={"evidence": Evidence.MEASURED})
    baseline = profile.baseline.model_copy(update={"runner": runner})
    campaign = talk.campaign.model_copy(
        update={
            "profile": profile.model_copy(update={"baseline": baseline}),
            "policy": talk.campaign.policy.model_copy(update={"benchmark_script": asked}),
        }
    )
    done = put(whole, script(*of), "finalization", "scripts").finalization
    if not words and (asked or not of):
        intake._check_scripts(done, campaign)
        return
    with pytest.raises(CorruptRecord, match=words if asked else "that nobody asked for"):
        intake._check_scripts(done, campaign)


@pytest.mark.parametrize("place", LIES)
def test_a_segment_with_one_lie_is_not_believed(at: At, place: str) -> None:
    talk = at(place)
    campaign, facts = talk.campaign, honest(talk)
    assert intake.accept(tuple(facts), campaign, talk.repo).order is None, "the honest one is"
    for what, (lie, words) in LIES[place].items():
        with pytest.raises(CorruptRecord, match=words):
            intake.accept(tuple(lie(facts)), campaign, talk.repo)
            pytest.fail(f"{place}: {what} was believed")


def test_a_reformatted_winner_is_the_same_program(at: At) -> None:
    talk = at("finishing")
    lie = in_every(Finalized, lambda text: text.replace("    ", "     "), "finalization", "files", 0, "text")
    with pytest.raises(CorruptRecord, match="not the source"):
        intake.accept(tuple(lie(honest(talk))), talk.campaign, talk.repo)
    fine = in_every(Finalized, lambda text: text.replace("\n# v3", "\n\n\n#  v3"), "finalization", "files", 0, "text")
    report = talk.publishes(talk.leaves(fine(honest(talk))))
    assert report.stage is Stage.AWAIT_FINAL
    assert talk.campaign.finalization is not None
    assert "\n\n\n#  v3" in talk.campaign.finalization.files[0].text


# Files


def ended() -> Fact:
    return SearchEnded(order="c1-2-optimize", why=StopReason.IDEAS_EXHAUSTED)


def written(folder: Path, *facts: Fact, zone: Zone = Zone.MEASURE) -> Path:
    """A segment that no Segment would write."""
    lines = journal.number(facts, zone=zone, at=AT, first=0)
    (folder / SEGMENT).write_text(journal.write(lines), encoding="ascii")
    return folder


NOT_MEASURED: tuple[Fact, ...] = (
    Answered(answer=story.answered(story.Checkpoint.FINAL).answer),
    Pushed(commit="c" * 40),
    CampaignClosed(outcome=Outcome.PUSHED),
    EffectDone(key="push", zone=Zone.PUSH, ref="c" * 40),
    story.requested(),
)


@pytest.mark.parametrize("fact", NOT_MEASURED, ids=lambda fact: fact.kind)
def test_a_gpu_job_may_only_say_what_it_measured(tmp_path: Path, fact: Fact) -> None:
    with pytest.raises(CorruptRecord, match="not a GPU job's to say"):
        read_segment(written(tmp_path, fact))


def test_nor_may_it_speak_for_another_zone(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecord, match="by push is not a GPU job's to say"):
        read_segment(written(tmp_path, ended(), zone=Zone.PUSH))


def spoiled(old: str, new: str) -> Callable[[Path], object]:
    def spoil(path: Path) -> None:
        path.write_text(path.read_text().replace(old, new))

    return spoil


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (linked, "not a plain file"),
    "a pipe": (a_pipe, "not a plain file"),
    "a folder": (a_folder, "not a plain file"),
    "too large": (lambda path: os.truncate(path, MAX_SEGMENT + 1), "at most"),
    "garbage": (lambda path: path.write_bytes(b"\x00\x01garbage\n"), "line 1"),
    "not ASCII": (lambda path: path.write_bytes(b'{"schema_version":"\xff"}\n'), "not ASCII"),
    "not a number": (spoiled('"at":"2026', '"seconds":NaN,"at":"2026'), "line 1"),
    "another schema": (spoiled('"schema_version":1', '"schema_version":2'), "schema_version"),
    "a field nobody declared": (spoiled('"note":""', '"note":"","sudo":true'), "sudo"),
    "a reason nobody knows": (spoiled("ideas_exhausted", "bored"), "why"),
    "numbered wrongly": (spoiled('"seq":0', '"seq":3'), "seq 3, expected 0"),
    "an empty line": (lambda path: path.write_text("\n" + path.read_text()), "line 1"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_segment_that_cannot_be_read_is_refused(tmp_path: Path, what: str) -> None:
    spoil, words = BROKEN[what]
    folder = written(tmp_path, ended())
    assert read_segment(folder)[0] == (ended(),)
    spoil(folder / SEGMENT)
    with pytest.raises(CorruptRecord, match=words):
        read_segment(folder)


def test_not_a_number_is_refused_where_a_number_stands(tmp_path: Path) -> None:
    measured = VariantMeasured(order="c1-2-optimize", number=1, measurement=story.measurement())
    path = written(tmp_path, measured) / SEGMENT
    for wrong in ("NaN", "Infinity", "-Infinity", "1e999"):
        folder = tmp_path / wrong
        folder.mkdir()
        (folder / SEGMENT).write_text(path.read_text().replace('"seconds":0.0', f'"seconds":{wrong}'))
        with pytest.raises(CorruptRecord, match="seconds"):
            read_segment(folder)


def test_as_many_facts_as_a_campaign_can_have_are_read_and_no_more(tmp_path: Path) -> None:
    facts = [ended()] * MAX_FACTS
    assert len(read_segment(written(tmp_path, *facts))[0]) == MAX_FACTS
    with pytest.raises(CorruptRecord, match=f"{MAX_FACTS + 1} facts"):
        read_segment(written(tmp_path, *facts, ended()))


# What becomes of the campaign


def reject(talk: Conversation, segment: Path, reason: ReasonCode, words: str) -> None:
    """The campaign fails with the reason, people are told, nothing is pushed; a second publish finds nothing to do."""
    head, lineage = talk.head, talk.branches.get(f"optimize/{talk.campaign.id}")
    report = talk.publishes(segment)
    campaign = talk.campaign
    assert (report.reason_code, report.next) == (reason, "none")
    assert (campaign.stage, campaign.outcome, campaign.reason) == (Stage.ENDED, Outcome.FAILED, reason)
    assert words in campaign.detail
    assert f"`{reason}`" in talk.answers()[-1] and words in talk.answers()[-1]
    assert talk.status()[0] == "error"
    assert talk.reactions(campaign.comment_id) == ["confused"]
    assert (talk.head, talk.branches.get(f"optimize/{campaign.id}")) == (head, lineage)
    before = talk.branches, talk.answers()
    assert talk.publishes(segment).next == "none"
    assert (talk.branches, talk.answers()) == before


@pytest.mark.parametrize(
    ("place", "what"),
    [("profiling", "one more file in the site"), ("searching", "a score improved"), ("finishing", "another program")],
)
def test_a_lie_ends_the_campaign(at: At, place: str, what: str) -> None:
    talk = at(place)
    lie, words = LIES[place][what]
    reject(talk, talk.leaves(lie(honest(talk))), ReasonCode.ARTIFACT_REJECTED, words)


def test_a_link_to_somebody_else_s_file_ends_the_campaign(at: At) -> None:
    talk = at("profiling")
    segment = talk.leaves(honest(talk))
    linked(segment / SEGMENT)
    reject(talk, segment, ReasonCode.ARTIFACT_REJECTED, "not a plain file")


def test_hostile_words_in_a_segment_come_back_harmless(at: At) -> None:
    talk = at("profiling")
    segment = talk.leaves([])
    (segment / SEGMENT).write_text('{"@everyone</details>```": 1}\n')
    reject(talk, segment, ReasonCode.ARTIFACT_REJECTED, "line 1")
    assert "</details>`" not in talk.answers()[-1].replace("```text", "")


def test_without_a_segment_the_campaign_ends_as_missing(at: At) -> None:
    talk = at("profiling")
    reject(talk, talk.leaves([]), ReasonCode.ARTIFACT_MISSING, f"left no {SEGMENT}")


def test_a_job_that_died_halfway_ends_the_campaign_as_missing(at: At) -> None:
    talk = at("searching")
    reject(talk, talk.leaves(honest(talk)[:4]), ReasonCode.ARTIFACT_MISSING, "ended before its work was done")


def test_a_torn_last_line_does_not_count(at: At) -> None:
    talk = at("profiling")
    segment = talk.leaves(honest(talk))
    with (segment / SEGMENT).open("a") as file:
        file.write('{"schema_version":1,"seq":1,"at":"2026-01')
    assert talk.publishes(segment).stage is Stage.AWAIT_PROFILE
