"""What judge and replayer say while a clock runs: frames of one size, so that nothing has to be parsed."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

MAGIC = b"KWREPLAY"
MOST_SLOTS = 16
"""Four blocks at a time: each answer costs the GPU a change from one process to the other and back."""
_ASK = struct.Struct(f"<8sBBBB{MOST_SLOTS}B{MOST_SLOTS}BIQ")
_TELL = struct.Struct(f"<8sIIQ{MOST_SLOTS}d")
BLOCK, BURST, END = 1, 2, 3
FINE, FAILED = 0, 1
MAX_MESSAGE = 16 * 2**20


class BrokenFrame(Exception):
    """The other side is gone, or says something that is no frame."""


@dataclass(frozen=True)
class Ask:
    kind: int
    poison: int
    arms: tuple[int, ...]
    banks: tuple[int, ...]
    count: int
    nonce: int

    def pack(self) -> bytes:
        rest = (0,) * (MOST_SLOTS - len(self.arms))
        head = (MAGIC, self.kind, self.poison, len(self.arms), 0)
        return _ASK.pack(*head, *self.arms, *rest, *self.banks, *rest, self.count, self.nonce)


@dataclass(frozen=True)
class Tell:
    status: int
    nonce: int
    microseconds: tuple[float, ...] = ()

    def pack(self) -> bytes:
        rest = (0.0,) * (MOST_SLOTS - len(self.microseconds))
        return _TELL.pack(MAGIC, self.status, len(self.microseconds), self.nonce, *self.microseconds, *rest)


def _exactly(channel: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = channel.recv(size - len(found))
        if not piece:
            raise BrokenFrame("the other side is gone")
        found += piece
    return found


def read_ask(channel: socket.socket) -> Ask:
    magic, kind, poison, slots, _, *rest = _ASK.unpack(_exactly(channel, _ASK.size))
    if magic != MAGIC or slots > MOST_SLOTS:
        raise BrokenFrame("not a frame")
    arms, banks = rest[:MOST_SLOTS], rest[MOST_SLOTS : 2 * MOST_SLOTS]
    return Ask(kind, poison, tuple(arms[:slots]), tuple(banks[:slots]), rest[-2], rest[-1])


def read_tell(channel: socket.socket) -> Tell:
    magic, status, slots, nonce, *times = _TELL.unpack(_exactly(channel, _TELL.size))
    if magic != MAGIC or slots > MOST_SLOTS:
        raise BrokenFrame("not a frame")
    return Tell(status, nonce, tuple(times[:slots]))


def send_message(channel: socket.socket, text: str, descriptors: tuple[int, ...] = ()) -> None:
    """One text, before any clock runs."""
    raw = text.encode()
    socket.send_fds(channel, [struct.pack("<I", len(raw))], list(descriptors))
    channel.sendall(raw)


def read_message(channel: socket.socket) -> tuple[str, list[int]]:
    head, descriptors, _, _ = socket.recv_fds(channel, 4, 4)
    if len(head) != 4:
        raise BrokenFrame("the other side is gone")
    (size,) = struct.unpack("<I", head)
    if size > MAX_MESSAGE:
        raise BrokenFrame("too long a message")
    return _exactly(channel, size).decode(), descriptors
