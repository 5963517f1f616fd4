"""Artifacts that are made to hurt whoever opens them: huge, endless, deep, or reaching out of their folder."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.errors import CorruptRecord
from bot.ledger import journal
from bot.model.campaign import Outcome, Stage, StopReason, Zone
from bot.model.facts import RoundOpened, SearchEnded
from bot.model.reasons import ReasonCode
from bot.zones.intake import MAX_FACTS, MAX_SEGMENT, SEGMENT, read_segment
from tests.campaign import story
from tests.zones import gpu
from tests.zones.conversation import AT, Conversation
from tests.zones.places import At

QUICK_S = 5.0
"""CPU seconds in which anything must be refused."""
ENDED = SearchEnded(order="c1-2-optimize", why=StopReason.IDEAS_EXHAUSTED)


def line(fact: Any = ENDED) -> str:
    return journal.write(journal.number([fact], zone=Zone.MEASURE, at=AT, first=0))


def numbered(count: int) -> str:
    """Lines that are each in order, and far too many."""
    one = line()
    return "".join(one.replace('"seq":0', f'"seq":{number}') for number in range(count))


def declared(path: Path) -> None:
    """Ten gigabytes that take no room on disk."""
    os.truncate(path, 10 * 2**30)


HURTFUL: dict[str, tuple[Callable[[Path], object], str]] = {
    "10 GB of JSON": (declared, f"at most {MAX_SEGMENT}"),
    "one line of 30 MB": (lambda path: path.write_text('{"a":"' + "x" * (30 * 2**20) + '"}\n'), "line 1"),
    "a million variants": (lambda path: path.write_text(numbered(50_000)), f"at most {MAX_FACTS}"),
    "a million empty lines": (lambda path: path.write_bytes(b"\n" * 1_000_000), "line 1|at most"),
    "a hundred thousand brackets": (lambda path: path.write_text("[" * 100_000 + "\n"), "line 1"),
    "a hundred thousand objects in one another": (lambda path: path.write_text('{"a":' * 100_000 + "\n"), "line 1"),
    "the same name twice": (lambda path: path.write_text(line().replace('"note":""', '"note":"","why":"x"')), "why"),
    "a device": (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "not a plain file"),
}


@pytest.mark.parametrize("what", HURTFUL)
def test_it_is_refused_before_it_hurts(tmp_path: Path, what: str) -> None:
    hurt, words = HURTFUL[what]
    (tmp_path / SEGMENT).write_text(line())
    assert read_segment(tmp_path)[0] == (ENDED,)
    hurt(tmp_path / SEGMENT)
    began = time.process_time()
    with pytest.raises(CorruptRecord, match=words):
        read_segment(tmp_path)
    assert time.process_time() - began < QUICK_S


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "/etc/passwd", "src/../../x.py", "src\\..\\x.py", "a\0b.py"],
)
def test_a_variant_s_file_lies_inside_the_repository(tmp_path: Path, path: str) -> None:
    opened = line(RoundOpened(order="c1-2-optimize", variant=story.variant(1)))
    known = story.variant(1).files[0].path
    spoiled = opened.replace(f'"{known}"', '"' + path.replace("\\", "\\\\").replace("\0", "\\u0000") + '"')
    assert spoiled != opened
    (tmp_path / SEGMENT).write_text(spoiled)
    with pytest.raises(CorruptRecord, match="path"):
        read_segment(tmp_path)


def test_what_lies_beside_the_segment_is_not_looked_at(at: At) -> None:
    """A zip may unpack to anything; only the one file that has a name here is ever opened."""
    talk = at("profiling")
    out = talk.leaves(gpu.profiled(talk.campaign, talk.repo))
    (out / "event.json").write_text("{}")
    (out / ".git").mkdir()
    (out / ".git" / "config").write_text("[core]\n\tfsmonitor = touch /tmp/owned\n")
    (out / "secrets").symlink_to("/etc")
    assert talk.publishes(out).stage is Stage.AWAIT_PROFILE
    stored = talk.git("ls-tree", "-r", "--name-only", "kernelwright/ledger").splitlines()
    assert not [path for path in stored if "event.json" in path or "config" in path or "secrets" in path]


WORDS = "</details> @everyone <script>alert(1)</script> ![x](http://evil.example/x.png) #1 | `` ``` \u202e"


def test_hostile_words_of_a_variant_stay_words(at: At) -> None:
    """A proposer's title is shown in tables and in a summary line."""
    talk = at("searching")
    facts = [_spoken(fact) for fact in gpu.searched(talk.campaign)]
    assert talk.publishes(talk.leaves(facts)).stage is Stage.AWAIT_WINNER
    _harmless(talk)


def _spoken(fact: Any) -> Any:
    if not isinstance(fact, RoundOpened):
        return fact
    said = fact.variant.hypothesis.model_copy(update={"title": WORDS[:120], "why": WORDS})
    return fact.model_copy(update={"variant": fact.variant.model_copy(update={"hypothesis": said})})


def _harmless(talk: Conversation) -> None:
    for body in talk.answers():
        shown = re.sub(r"(?s)(`{3,})[^\n]*\n.*?\n\1|`[^`\n]+`", "", body)
        assert "<script" not in shown
        assert "![x](http://evil" not in shown
        assert "@everyone" not in shown
        assert shown.count("<details>") == shown.count("</details>")


def test_a_huge_artifact_ends_the_campaign_with_the_reason(at: At) -> None:
    talk = at("profiling")
    out = talk.leaves([])
    (out / SEGMENT).write_text(line())
    declared(out / SEGMENT)
    assert talk.publishes(out).reason_code == ReasonCode.ARTIFACT_REJECTED
    assert talk.ended == (Stage.ENDED, Outcome.FAILED, ReasonCode.ARTIFACT_REJECTED)
    assert talk.is_untouched
