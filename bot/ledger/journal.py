"""A journal is text: one fact a line, numbered from 0, only ever longer."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from bot.errors import CorruptRecord
from bot.model.campaign import Zone
from bot.model.codec import MAX_LINE, read_line, to_json
from bot.model.facts import MEASURING_FACTS, Fact, JournalLine
from bot.model.ids import Digest

MAX_TEXT = 256 * 2**20
NO_JOURNAL = "name the journal.jsonl of a campaign, or the folder that holds it"
CUT = (
    "it was cut: take it again from where it was made; where it is no longer there, delete line {}, and the campaign "
    "is told as far as the one before"
)
CHANGED = "this journal was changed after it was written: take it from where it was made"


def what_next(number: int, last: int) -> str:
    """What to do about a file whose line of this number is no line of a journal."""
    if number == 1:
        return NO_JOURNAL
    return CUT.format(number) if number == last else CHANGED


def digest(text: str | bytes) -> Digest:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def parse(text: str, what: str) -> tuple[JournalLine, ...]:
    """Every line, or CorruptRecord with the number of the first that is broken, missing or out of order."""
    if len(text) > MAX_TEXT:
        raise CorruptRecord(f"{what} has {len(text)} characters, more than {MAX_TEXT}")
    *rows, rest = text.split("\n")
    last, found = len(rows) + bool(rest), []
    for number, row in enumerate(rows, start=1):
        try:
            line = read_line(row, what=f"{what}: line {number}")
        except CorruptRecord as error:
            raise CorruptRecord(str(error), hint=what_next(number, last)) from error
        if line.seq != number - 1:
            raise CorruptRecord(f"{what}: line {number} has seq {line.seq}, expected {number - 1}", hint=CHANGED)
        found.append(line)
    if rest:
        raise CorruptRecord(f"{what}: line {last} has no end", hint=what_next(last, last))
    return tuple(found)


def text_of(content: bytes, what: str) -> str:
    """We write nothing but ASCII, so anything else is not ours."""
    try:
        return content.decode("ascii")
    except UnicodeDecodeError as error:
        raise CorruptRecord(f"{what}: byte {error.start} is not ASCII", hint=NO_JOURNAL) from error


def number(facts: Iterable[Fact], *, zone: Zone, at: str, first: int) -> tuple[JournalLine, ...]:
    return tuple(JournalLine(seq=seq, at=at, zone=zone, fact=fact) for seq, fact in enumerate(facts, start=first))


def write(lines: Iterable[JournalLine]) -> str:
    """The text of lines. One that could not be read back is refused while it is still only in memory."""
    rows = [to_json(line) for line in lines]
    for row in rows:
        if len(row) > MAX_LINE:
            raise CorruptRecord(f"a fact of {len(row)} characters, more than {MAX_LINE}")
    return "".join(f"{row}\n" for row in rows)


class JournalFile:
    """A journal in a file of its own. A line that a killed process left unfinished does not count."""

    def __init__(self, path: Path, zone: Zone = Zone.DECIDE) -> None:
        self.path = path
        self._zone = zone
        self._lines: tuple[JournalLine, ...] | None = None
        self._size = 0
        """Bytes of the whole lines."""

    def _check(self, line: JournalLine) -> None:
        """Every fact is welcome here."""

    def lines(self) -> tuple[JournalLine, ...]:
        if self._lines is None:
            whole = self._whole_lines()
            lines = parse(text_of(whole, self.path.name), self.path.name)
            for line in lines:
                self._check(line)
            self._lines, self._size = lines, len(whole)
        return self._lines

    def facts(self) -> tuple[Fact, ...]:
        return tuple(line.fact for line in self.lines())

    def digest(self) -> Digest:
        return digest(self._whole_lines())

    def _whole_lines(self) -> bytes:
        """What is on disk up to the last line's end."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise CorruptRecord(f"{self.path.name} cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise CorruptRecord(f"{self.path.name} is not a plain file")
        with os.fdopen(handle, "rb") as file:
            content = file.read(MAX_TEXT + 1)
        if len(content) > MAX_TEXT:
            raise CorruptRecord(f"{self.path.name} has more than {MAX_TEXT} bytes")
        return content[: content.rfind(b"\n") + 1]

    def append(self, fact: Fact, at: str) -> None:
        """On disk when this returns: a kill right after loses nothing."""
        lines = self.lines()
        (line,) = number([fact], zone=self._zone, at=at, first=len(lines))
        self._check(line)
        content = write([line]).encode("ascii")
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "wb") as file:
            file.truncate(self._size)
            file.seek(self._size)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not lines:
            _sync_folder(self.path.parent)
        self._lines, self._size = (*lines, line), self._size + len(content)


class Segment(JournalFile):
    """The journal of one GPU job: measuring facts, and nothing else."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Zone.MEASURE)

    def _check(self, line: JournalLine) -> None:
        if line.zone is not Zone.MEASURE or not isinstance(line.fact, MEASURING_FACTS):
            where = f"{self.path.name}: line {line.seq + 1}"
            raise CorruptRecord(f"{where}: {line.fact.kind} by {line.zone} is not a GPU job's to say")


def _sync_folder(folder: Path) -> None:
    """A new file is there after a power cut only when its folder was written too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
