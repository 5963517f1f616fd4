"""What is said how loudly, what is known of the time left, and what the gauges show."""

from __future__ import annotations

import io
import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from bot.cli import gauges, screen
from bot.cli.gauges import Gauges, Use
from bot.cli.screen import Pace, Screen, Voice, paint_of, voice_of
from bot.model.campaign import Campaign, Round, Stage
from bot.model.facts import RoundOpened, VariantJudged
from bot.render.terminal import ansi, no_paint
from tests.fakes.tty import Sheet
from tests.render import builders as a


class Stream(io.StringIO):
    def __init__(self, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("quiet", "as_json", "tty", "term", "voice"),
    [
        (False, False, True, "xterm", Voice.LIVE),
        (False, False, False, "xterm", Voice.LINES),
        (False, False, True, "dumb", Voice.LINES),
        (False, False, True, "", Voice.LINES),
        (True, False, True, "xterm", Voice.QUIET),
        (True, True, True, "xterm", Voice.JSON),
    ],
)
def test_it_speaks_as_it_was_asked_to_and_draws_where_somebody_sees(
    quiet: bool, as_json: bool, tty: bool, term: str, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    assert voice_of(quiet, as_json, Stream(tty)) is voice


@pytest.mark.parametrize(("tty", "no_color", "paint"), [(True, "", ansi), (True, "1", no_paint), (False, "", no_paint)])
def test_colours_are_for_terminals_and_can_be_turned_off(
    tty: bool, no_color: str, paint: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    assert paint_of(Stream(tty)) is paint


def searching(judged: int) -> Campaign:
    """So many rounds judged of a budget of eight, one under way."""
    played = a.rounds()[1]
    rounds = [played.model_copy(update={"variant": played.variant.model_copy(update={"number": n + 1})})
              for n in range(judged)]  # fmt: skip
    return a.profiled(stage=Stage.OPTIMIZING, rounds=(*rounds, Round(variant=a.rounds()[4].variant)))


def lasted(*seconds: float) -> tuple[Pace, float]:
    pace, now = Pace(), 100.0
    played = a.rounds()[1]
    assert played.verdict is not None
    for number, took in enumerate(seconds, start=1):
        variant = played.variant.model_copy(update={"number": number})
        pace.heard(RoundOpened(order="o", variant=variant), now)
        now += took
        pace.heard(VariantJudged(order="o", number=number, verdict=played.verdict), now)
    return pace, now


def test_time_left_is_known_once_two_rounds_were_seen() -> None:
    pace, now = lasted(10.0)
    assert pace.left(searching(1), now) is None
    pace, now = lasted(10.0, 20.0)
    assert pace.left(searching(2), now) == pytest.approx(6 * 15.0)


def test_the_round_under_way_counts_and_nothing_is_promised_below_zero() -> None:
    pace, now = lasted(10.0, 10.0)
    variant = a.rounds()[4].variant
    pace.heard(RoundOpened(order="o", variant=variant), now)
    assert pace.left(searching(7), now + 4) == pytest.approx(6.0)
    assert pace.left(searching(7), now + 10) is None


def test_nothing_is_known_of_other_phases() -> None:
    pace, now = lasted(10.0, 10.0, 10.0)
    assert pace.left(a.finalized(stage=Stage.FINALIZING), now) is None


def test_a_round_of_an_earlier_command_is_not_timed() -> None:
    pace = Pace()
    played = a.rounds()[0]
    assert played.verdict is not None
    for number in (1, 2, 3):
        pace.heard(VariantJudged(order="o", number=number, verdict=played.verdict), 5.0)
    assert pace.left(searching(3), 6.0) is None


# The live picture


def live(monkeypatch: pytest.MonkeyPatch, columns: int = 80, lines: int = 24) -> tuple[Screen, Stream]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setattr(screen, "REDRAW_S", 0.01)
    stream = Stream(tty=True)
    return Screen(Voice.LIVE, lambda: "now", out=stream, err=stream), stream


def redrawn(stream: Stream, words: str, times: int = 2) -> None:
    """Waits for so many pictures that say this: whoever draws them may be kept waiting."""
    until = time.monotonic() + 60
    while stream.getvalue().count(words) < times:
        assert time.monotonic() < until, stream.getvalue()
        time.sleep(0.01)


def test_the_picture_is_redrawn_in_place_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, stream = live(monkeypatch)
    stream.write("before\n")
    with shown.working(searching(2)):
        redrawn(stream, "round 3 of at most 8")
        shown.heard(searching(3), RoundOpened(order="o", variant=a.rounds()[4].variant))
    shown.result(a.pushed())
    sheet = Sheet(80, 24)
    sheet.feed(stream.getvalue().replace("\n", "\r\n"))
    assert sheet.text.splitlines()[:2] == ["before", "rms_norm: committed (pushed)"]
    assert "round" not in sheet.text
    assert (sheet.hidden, sheet.clipped) == (False, 0)


def test_a_low_window_is_never_left_upwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the picture is higher than the window, the cursor could not come back to its beginning."""
    shown, stream = live(monkeypatch, columns=60, lines=8)
    with shown.working(searching(7)):
        redrawn(stream, "round 8 of at most 8")
    sheet = Sheet(60, 8)
    sheet.feed(stream.getvalue().replace("\n", "\r\n"))
    assert sheet.clipped == 0
    assert sheet.text.strip() == ""


def test_an_error_gives_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, stream = live(monkeypatch)
    with pytest.raises(RuntimeError), shown.working(searching(1)):
        raise RuntimeError
    assert stream.getvalue().endswith("\x1b[?25h")


@pytest.mark.parametrize("voice", [Voice.LINES, Voice.QUIET, Voice.JSON])
def test_other_voices_draw_nothing(voice: Voice) -> None:
    stream = Stream(tty=True)
    shown = Screen(voice, lambda: "now", out=stream, err=stream)
    with shown.working(searching(2)):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize("voice", list(Voice))
def test_a_step_on_the_way_is_a_line_for_who_reads_lines(voice: Voice) -> None:
    out, err = Stream(tty=True), Stream(tty=True)
    Screen(voice, lambda: "now", out=out, err=err).passed("v0 checked and measured, 62 s")
    told = "  v0 checked and measured, 62 s\n" if voice is Voice.LINES else ""
    assert (out.getvalue(), err.getvalue()) == ("", told)


# Gauges


def test_cores_busy_are_those_between_two_readings() -> None:
    tick = os.sysconf("SC_CLK_TCK")
    seen = iter([{5: 10 * tick}, {5: 11 * tick, 6: 2 * tick}, {6: 2 * tick}])
    clock = iter([0.0, 2.0, 4.0])
    found = Gauges(None, look=lambda _: next(seen), clock=lambda: next(clock))
    assert found.read() == Use(processes=1)
    assert found.read() == Use(processes=2, cores_busy=1.5)
    assert found.read() == Use(processes=1, cores_busy=0.0)


def test_the_driver_is_asked_every_other_second_and_only_about_our_gpu() -> None:
    asked: list[str] = []
    clock = iter([0.0, 1.0, 2.0])

    def ask(uuid: str) -> tuple[int, int]:
        asked.append(uuid)
        return 80 + len(asked), 1024

    found = Gauges("GPU-1", ask=ask, look=lambda _: None, clock=lambda: next(clock))
    assert [found.read().gpu_percent for _ in range(3)] == [81, 81, 82]
    assert asked == ["GPU-1", "GPU-1"]
    assert Gauges(None, ask=ask, look=lambda _: None).read() == Use()


def test_a_driver_that_does_not_answer_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", fails)
    assert Gauges("GPU-1", look=lambda _: {}).read().gpu_percent is None


@pytest.fixture
def child() -> Iterator[int]:
    """A worker that keeps one core busy."""
    started = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    yield started.pid
    started.kill()
    started.wait()


def test_a_real_worker_is_seen_at_work(child: int) -> None:
    begun = gauges.workers(os.getpid())
    assert begun is not None and child in begun
    end = time.monotonic() + 60
    while (now := gauges.workers(os.getpid()) or {}).get(child, 0) <= begun[child]:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert os.getpid() not in now
