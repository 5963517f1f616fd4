"""A terminal for a real process: what it writes is understood as a terminal would, and shown as rows of cells.

It knows what Kernelwright writes and no more: text, newlines, the cursor up, clearing to the end, colours, hiding the
cursor. Anything else is a fault of ours and raises.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SEQUENCE = re.compile(r"\x1b\[(\?25[hl]|\d*A|J|[\d;]*m)")
Cell = tuple[str, str]
"""A character and its colour, as in the last `\\x1b[...m`."""


@dataclass
class Sheet:
    """Every row there ever was; those above the window have scrolled away and cannot be written to again."""

    columns: int = 100
    height: int = 40
    rows: list[list[Cell]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: str = ""
    hidden: bool = False
    clipped: int = 0
    """Times the cursor was sent above the window, where a real one stops."""

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if found:
                self._obey(found[1])
                at = found.end()
                continue
            self._put(text[at])
            at += 1

    def _obey(self, word: str) -> None:
        if word.endswith("m"):
            self.style = "" if word in ("m", "0m") else word[:-1]
        elif word.endswith("A"):
            top = max(0, len(self.rows) - self.height)
            wanted = self.row - int(word[:-1] or 1)
            self.clipped += wanted < top
            self.row = max(top, wanted)
        elif word == "J":
            self.rows = self.rows[: self.row + 1]
            self.rows[self.row] = self.rows[self.row][: self.column]
        else:
            self.hidden = word == "?25l"

    def _put(self, char: str) -> None:
        assert char != "\x1b", "an escape sequence that no test terminal knows"
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row += 1
            if self.row == len(self.rows):
                self.rows.append([])
        elif char == "\b":
            self.column = max(self.column - 1, 0)
        else:
            if self.column == self.columns:
                self._put("\r")
                self._put("\n")
            row = self.rows[self.row]
            row += [(" ", "")] * (self.column - len(row))
            row[self.column : self.column + 1] = [(char, self.style)]
            self.column += 1

    @property
    def text(self) -> str:
        return "\n".join("".join(char for char, _ in row).rstrip() for row in self.rows)


class Terminal:
    """A process with a terminal of its own, in a group of its own."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        *,
        columns: int = 100,
        height: int = 40,
    ) -> None:
        self.sheet, self.raw = Sheet(columns, height), ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, columns, 0, 0))
        self.process = subprocess.Popen(
            command, cwd=cwd, env=dict(environment), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self._rest = b""

    def _read(self, seconds: float) -> bool:
        """False when there will be nothing more."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            got = os.read(self._master, 65536)
        except OSError:
            return False
        whole = self._rest + got
        text = whole.decode("utf-8", "ignore") if _is_whole(whole) else ""
        self._rest = b"" if text else whole
        self.raw += text
        self.sheet.feed(text)
        return bool(got)

    def until(self, seen: Callable[[Sheet], bool], seconds: float = 60.0) -> Sheet:
        """The sheet as it stands when this is seen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if seen(self.sheet):
                return self.sheet
            if not self._read(0.1):
                break
        assert seen(self.sheet), f"never seen; the terminal shows:\n{self.sheet.text}"
        return self.sheet

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Ctrl-C, as the terminal itself makes it: every process of the foreground group is told."""
        os.write(self._master, b"\x03")

    def end(self, seconds: float = 60.0) -> int:
        """Its exit code, once it has said everything."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._read(0.1):
            if self.process.poll() is not None and not select.select([self._master], [], [], 0.2)[0]:
                break
        try:
            return self.process.wait(timeout=max(end - time.monotonic(), 1))
        finally:
            self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1


def _is_whole(data: bytes) -> bool:
    """Whether it ends between two characters and between two sequences."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not re.search(r"\x1b(\[[\d;?]*)?\Z", text)
