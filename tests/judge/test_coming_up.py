"""Who is on the way up or down takes the GPU from who is timed: before a case is opened everybody who was started is
up, and who has played is at rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.judge import handle, timekeeper
from bot.judge.handle import Replayer, Unplayable
from bot.judge.timekeeper import TOGETHER, Timekeeper
from bot.worker.contract import Call, ContractError

CHILD = """
import json, socket, sys, time
sys.path[:] = json.loads(sys.argv[1])
from bot.judge.frames import FINE, BrokenFrame, Tell, read_ask
channel = socket.socket(fileno=int(sys.argv[2]))
{first}
try:
    while True:
        read_ask(channel)
        {ends}
        channel.sendall(Tell(FINE, 0).pack())
except BrokenFrame:
    time.sleep({lingers})
"""
GREETS = "channel.sendall(Tell(FINE, 0).pack())"
LATE = 0.4

Makes = Callable[..., Replayer]


@pytest.fixture
def makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Makes:
    """A replayer of these first words."""

    def made(first: str = GREETS, ends: str = "pass", lingers: float = 0.0) -> Replayer:
        monkeypatch.setattr(handle, "_START", CHILD.format(first=first, ends=ends, lingers=lingers))
        return Replayer(tmp_path / "replayer.log")

    return made


def test_a_replayer_is_waited_for_once(makes: Makes) -> None:
    started = time.monotonic()
    one = makes(f"time.sleep({LATE}); {GREETS}")
    one.come_up()
    assert time.monotonic() - started >= LATE
    one.come_up()
    one.close()


def test_who_ends_on_the_way_up_says_why(makes: Makes) -> None:
    one = makes("raise RuntimeError('CUDA error: out of memory')")
    with pytest.raises(Unplayable, match="out of memory"):
        one.come_up()
    one.close()


def keeper(*waiting: Replayer) -> Any:
    made: Any = object.__new__(Timekeeper)
    made._has_rivals, made._waiting, made._retired = False, list(waiting), []
    made._playing = SimpleNamespace(end_case=lambda: None, hang_up=lambda: None, close=lambda: None)
    return made


def opens(made: Any) -> None:
    with pytest.raises(ContractError):  # there is no tape at "nowhere": nothing is played
        made.open(Call("c", "c", "forward", (), ()), "nowhere", (), 1, fresh=False)


def test_no_case_is_opened_beside_one_on_the_way_up(makes: Makes) -> None:
    """It may have been called for the next variant: who plays now does not wait for its own sake."""
    made, started = keeper(makes(f"time.sleep({LATE}); {GREETS}"), makes(GREETS)), time.monotonic()
    opens(made)
    assert time.monotonic() - started >= LATE
    again = time.monotonic()
    opens(made)
    assert time.monotonic() - again < LATE, "everybody was up"
    assert len(made._waiting) == 2
    made._playing = None
    made.end()


def test_who_does_not_come_up_is_left_and_blames_nobody_who_plays(makes: Makes) -> None:
    made = keeper(makes("raise RuntimeError('CUDA error: out of memory')"), makes(GREETS))
    opens(made)
    assert len(made._waiting) == 1
    made.end()


def test_who_did_not_come_up_is_not_who_plays(makes: Makes) -> None:
    good = makes()
    made = keeper(makes("raise RuntimeError('CUDA error: out of memory')"), good)
    with pytest.raises(ContractError):
        made.open(Call("c", "c", "forward", (), ()), "nowhere", (), 1, fresh=True)
    assert made._playing is good
    made.end()


@pytest.mark.parametrize(
    ("waiting", "asked", "come"), [(0, 1, TOGETHER), (1, 1, 0), (1, 7, TOGETHER - 1), (0, 9, 9), (8, 7, 0)]
)
def test_who_has_to_be_waited_for_comes_up_together_with_others(
    waiting: int, asked: int, come: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []
    monkeypatch.setattr(timekeeper, "Replayer", lambda log: begun.append(log) or SimpleNamespace())
    made: Any = keeper(*[SimpleNamespace() for _ in range(waiting)])  # type: ignore[arg-type]
    made._count, made._folder = 0, tmp_path
    assert made.start(asked) == waiting + come
    assert len(set(begun)) == come


@pytest.mark.parametrize(("waiting", "asked", "come"), [(0, 3, 3), (2, 3, 1), (3, 3, 0), (8, 3, 0)])
def test_or_alone_where_there_is_nothing_to_do_meanwhile(
    waiting: int, asked: int, come: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timekeeper, "Replayer", lambda log: SimpleNamespace())
    made: Any = keeper(*[SimpleNamespace() for _ in range(waiting)])  # type: ignore[arg-type]
    made._count, made._folder = 0, tmp_path
    assert made.start(asked, alone=True) == waiting + come


# -- and down ---------------------------------------------------------------------------------------------------------


def test_who_has_played_is_at_rest_before_the_next_plays(makes: Makes) -> None:
    """It gives its memory back, says so, and is not ended: that would take half a second of every process."""
    made = keeper(makes())
    made._playing, started = makes(ends=f"time.sleep({LATE})"), time.monotonic()
    made._playing.come_up()
    with pytest.raises(ContractError):
        made.open(Call("c", "c", "forward", (), ()), "nowhere", (), 1, fresh=True)
    assert time.monotonic() - started >= LATE
    (resting,) = made._retired
    assert resting._process.poll() is None
    made.end()
    assert resting._process.poll() == 0 and made._retired == []


def test_all_who_rest_are_ended_together(makes: Makes) -> None:
    made = keeper()
    made._retired, made._playing = [makes(lingers=LATE) for _ in range(4)], None
    for one in made._retired:
        one.come_up()
    ending, started = tuple(made._retired), time.monotonic()
    made.close()
    assert time.monotonic() - started < 3 * LATE
    assert [one._process.poll() for one in ending] == [0] * 4


def test_no_more_rest_than_wait(tmp_path: Path) -> None:
    """A calibration says of no variant that it is done."""
    ended: list[int] = []
    made = keeper()
    for number in range(TOGETHER + 2):
        made._playing = SimpleNamespace(
            end_case=lambda: None, hang_up=lambda: None, close=lambda number=number: ended.append(number)
        )
        made._retire()
    assert sorted(ended) == list(range(TOGETHER + 1))
    assert len(made._retired) == 1


def test_who_was_not_heard_is_not_waited_for_twice(makes: Makes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "ANSWER_SECONDS", LATE)
    one = makes(ends="time.sleep(60)")
    one.come_up()
    started = time.monotonic()
    one.end_case()
    assert time.monotonic() - started >= LATE, "it is asked, and says nothing"
    again = time.monotonic()
    one.end_case()
    assert time.monotonic() - again < LATE
    monkeypatch.setattr(handle, "END_SECONDS", LATE)
    one.close()
    assert one._process.poll() is not None
