from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import CorruptRecord
from bot.ledger import journal
from bot.ledger.journal import Segment
from bot.model import codec
from bot.model.campaign import StopReason, Zone
from bot.model.facts import EffectRequested, OrderFailed, SearchEnded
from bot.model.reasons import ReasonCode

AT = "2026-01-31T12:00:00Z"


def ended(note: str = "") -> SearchEnded:
    return SearchEnded(order="c1-optimize-1", why=StopReason.STAGNATION, note=note)


def text_of(*notes: str, first: int = 0) -> str:
    return journal.write(journal.number([ended(n) for n in notes], zone=Zone.MEASURE, at=AT, first=first))


# Parsing


def test_lines_come_back() -> None:
    lines = journal.parse(text_of("a", "b"), "j")
    assert [(line.seq, line.fact) for line in lines] == [(0, ended("a")), (1, ended("b"))]


def test_an_empty_journal_has_no_lines() -> None:
    assert journal.parse("", "j") == ()


@given(st.lists(st.text(), max_size=4))
def test_any_text_in_a_fact_stays_on_its_line(notes: list[str]) -> None:
    try:
        text = text_of(*notes)
    except UnicodeEncodeError:
        return
    assert text.isascii() and text.count("\n") == len(notes)
    assert journal.write(journal.parse(text, "j")) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (text_of("a")[:-1], "j: line 1 has no end"),
        (text_of("a") + text_of("b", first=1)[:20], "j: line 2 has no end"),
        (text_of("a") + "\n", "j: line 2"),
        ("\n", "j: line 1"),
        (text_of("a", first=1), "j: line 1 has seq 1, expected 0"),
        (text_of("a") + text_of("b"), "j: line 2 has seq 0, expected 1"),
        (text_of("a") + text_of("b", first=2), "j: line 2 has seq 2, expected 1"),
        (text_of("a") + "nonsense\n", "j: line 2"),
        (text_of("a").replace('"schema_version":1', '"schema_version":2'), "schema_version"),
        (text_of("a").replace('"kind":"search_ended"', '"kind":"pushed_anyway"'), "fact"),
        (text_of("a").replace('"note"', '"nota"'), "nota"),
        (text_of("a").replace("\n", "\r\n").replace("\r\n", "\r"), "no end"),
        ("[]\n", "line 1"),
        ("[" * 100_000 + "\n", "line 1"),
    ],
)
def test_a_broken_line_is_named(text: str, complaint: str) -> None:
    with pytest.raises(CorruptRecord) as broken:
        journal.parse(text, "j")
    assert complaint in str(broken.value)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_nonsense_is_corrupt_and_nothing_else(text: str) -> None:
    if text:
        with pytest.raises(CorruptRecord):
            journal.parse(text, "j")


def test_a_journal_too_long_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("a")
    monkeypatch.setattr(journal, "MAX_TEXT", len(text))
    assert journal.parse(text, "j")
    monkeypatch.setattr(journal, "MAX_TEXT", len(text) - 1)
    with pytest.raises(CorruptRecord, match="more than"):
        journal.parse(text, "j")


def test_a_fact_that_could_not_be_read_back_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(text_of("a")) - 1
    for module in (journal, codec):
        monkeypatch.setattr(module, "MAX_LINE", size)
    assert journal.parse(text_of("a"), "j")
    with pytest.raises(CorruptRecord, match=f"more than {size}"):
        text_of("ab")


# Segments


def test_a_segment_that_is_not_there_is_empty(tmp_path: Path) -> None:
    segment = Segment(tmp_path / "segment.jsonl")
    assert segment.facts() == () and segment.digest() == journal.digest("")


def test_a_segment_is_gone_on_with_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "segment.jsonl"
    Segment(path).append(ended("a"), AT)
    again = Segment(path)
    assert again.facts() == (ended("a"),)
    again.append(ended("b"), AT)
    assert path.read_text() == text_of("a", "b")
    assert again.facts() == Segment(path).facts() == (ended("a"), ended("b"))
    assert again.digest() == journal.digest(text_of("a", "b"))


@pytest.mark.parametrize("torn", [1, 30, -1])
def test_a_torn_last_line_does_not_count_and_is_cut_off(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "segment.jsonl"
    path.write_text(text_of("a") + text_of("a much longer second line", first=1)[:torn])
    segment = Segment(path)
    assert segment.facts() == (ended("a"),)
    assert segment.digest() == journal.digest(text_of("a"))
    segment.append(ended("b"), AT)
    assert path.read_text() == text_of("a", "b")


def test_every_cut_of_a_segment_is_read_without_guessing(tmp_path: Path) -> None:
    whole, path = text_of("a", "b"), tmp_path / "segment.jsonl"
    first = len(text_of("a"))
    for cut in range(len(whole) + 1):
        path.write_text(whole[:cut])
        assert len(Segment(path).facts()) == (cut >= first) + (cut >= len(whole))


def test_what_was_written_never_changes(tmp_path: Path) -> None:
    path, before = tmp_path / "segment.jsonl", b""
    segment = Segment(path)
    for note in "abc":
        segment.append(ended(note), AT)
        assert path.read_bytes().startswith(before) and len(path.read_bytes()) > len(before)
        before = path.read_bytes()


def test_an_append_is_on_disk_when_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def watch(handle: int) -> None:
        info = os.fstat(handle)
        synced.append(-1 if stat.S_ISDIR(info.st_mode) else info.st_size)
        real(handle)

    monkeypatch.setattr(os, "fsync", watch)
    path = tmp_path / "segment.jsonl"
    Segment(path).append(ended("a"), AT)
    assert synced == [len(text_of("a")), -1], "the whole line, then the folder that names the new file"


@pytest.mark.parametrize("content", [b"nonsense\n", b"\xff\xfe\n", "é\n".encode(), text_of("b", first=1).encode()])
def test_a_whole_line_that_is_broken_is_corrupt(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "segment.jsonl"
    path.write_bytes(content)
    segment = Segment(path)
    with pytest.raises(CorruptRecord, match=r"segment\.jsonl"):
        segment.facts()
    with pytest.raises(CorruptRecord):
        segment.append(ended(), AT)
    assert path.read_bytes() == content


def test_a_gpu_job_says_what_it_measured_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "segment.jsonl"
    forged = EffectRequested(key="push", zone=Zone.PUSH)
    with pytest.raises(CorruptRecord, match="effect_requested"):
        Segment(path).append(forged, AT)
    assert not path.exists()
    for zone, fact in ((Zone.MEASURE, forged), (Zone.PUSH, ended())):
        path.write_text(journal.write(journal.number([fact], zone=zone, at=AT, first=0)))
        with pytest.raises(CorruptRecord, match="not a GPU job's to say"):
            Segment(path).facts()
    failed = OrderFailed(order="c1", reason=ReasonCode.COMPUTE_FAILED, detail="no GPU")
    path.unlink()
    Segment(path).append(failed, AT)
    assert Segment(path).facts() == (failed,)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret, path = tmp_path / "secret", tmp_path / "segment.jsonl"
    secret.write_text(text_of("a"))
    path.symlink_to(secret)
    with pytest.raises(CorruptRecord, match="cannot be read"):
        Segment(path).facts()
    assert secret.read_text() == text_of("a")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_does_not_hang_the_reader(tmp_path: Path, make: object) -> None:
    path = tmp_path / "segment.jsonl"
    make(path)  # type: ignore[operator]
    with pytest.raises(CorruptRecord, match="not a plain file"):
        Segment(path).facts()


def test_a_segment_too_large_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "segment.jsonl"
    path.write_text(text_of("a"))
    monkeypatch.setattr(journal, "MAX_TEXT", path.stat().st_size - 1)
    with pytest.raises(CorruptRecord, match="more than"):
        Segment(path).facts()
