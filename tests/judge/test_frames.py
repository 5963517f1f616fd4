"""Frames between judge and replayer: of one size, and never half believed."""

from __future__ import annotations

import os
import socket

import pytest

from bot.judge.frames import (
    BLOCK,
    FINE,
    MOST_SLOTS,
    Ask,
    BrokenFrame,
    Tell,
    read_ask,
    read_message,
    read_tell,
    send_message,
)


@pytest.fixture
def ends():  # type: ignore[no-untyped-def]
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("slots", [1, 4, MOST_SLOTS])
def test_a_question_arrives_as_it_was_asked(ends, slots: int) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = ends
    ask = Ask(BLOCK, 3, tuple(range(slots)), tuple(range(slots)), 9, 2**64 - 1)
    ours.sendall(ask.pack())
    assert read_ask(theirs) == ask


def test_an_answer_arrives_as_it_was_told(ends) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = ends
    tell = Tell(FINE, 7, (1.5, 2.25, 0.0))
    theirs.sendall(tell.pack())
    assert read_tell(ours) == tell


def test_every_frame_is_as_long_as_any_other() -> None:
    short, long = Tell(FINE, 1), Tell(FINE, 1, (1.0,) * MOST_SLOTS)
    assert len(short.pack()) == len(long.pack())


def test_rubbish_is_no_answer(ends) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = ends
    theirs.sendall(b"\x80" * len(Tell(FINE, 1).pack()))
    with pytest.raises(BrokenFrame, match="not a frame"):
        read_tell(ours)


def test_more_slots_than_there_are_is_no_answer(ends) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = ends
    raw = bytearray(Tell(FINE, 1, (1.0,)).pack())
    raw[12:16] = (MOST_SLOTS + 1).to_bytes(4, "little")
    theirs.sendall(bytes(raw))
    with pytest.raises(BrokenFrame, match="not a frame"):
        read_tell(ours)


def test_half_an_answer_is_none(ends) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = ends
    theirs.sendall(Tell(FINE, 1).pack()[:20])
    theirs.close()
    with pytest.raises(BrokenFrame, match="gone"):
        read_tell(ours)


def test_a_message_brings_its_descriptor(ends) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = ends
    read, write = os.pipe()
    send_message(ours, '{"lanes": 1}', (write,))
    text, descriptors = read_message(theirs)
    assert text == '{"lanes": 1}'
    os.write(descriptors[0], b"through")
    assert os.read(read, 7) == b"through"
    for descriptor in (read, write, *descriptors):
        os.close(descriptor)
