"""What may come next is made ready, handed out once, and forgotten where it did not go well."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from bot.bench.ahead import Ahead, Files
from bot.bench.checks import Checked, Laid
from bot.bench.measure import StaticBench
from bot.model.measurement import Fault
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import Caught, CaughtCase, CompileAnswer, Refusal, Stamp

ANSWER = CompileAnswer((), (), ())
LOOPS = Fault(kind="run_timeout", detail="it loops")


def files(text: str) -> Files:
    return (SourceFile(path="ops/k.py", text=text),)


class Shop:
    """Where files are laid out, checked and compiled, and what became of them."""

    def __init__(self, folder: Path) -> None:
        self.checked, self.compiled = Checked(), ANSWER
        self.fault: Fault | None = None
        self.fits = True
        self.forgotten: list[str] = []
        self._folder = folder
        run = partial(StaticBench._run, self, checked=None, passports=True)  # type: ignore[arg-type]
        self.ahead = Ahead(run, lambda _: self.fits, self._forget)

    def _checks(self, laid: Laid) -> Checked:
        return self.checked

    def _compile(self, laid: Laid, *, passports: bool) -> CompileAnswer | Fault:
        return self.fault or self.compiled

    def _lay(self, laid: Files) -> Laid:
        place = self._folder / sources_digest(laid)[:8]
        place.mkdir()
        return Laid("v", laid, place, place)

    def _forget(self, digest: str) -> None:
        self.forgotten.append(digest)

    def nothing_lies_there(self) -> bool:
        return list(self._folder.iterdir()) == []


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_what_was_made_ready_is_taken_once(shop: Shop) -> None:
    shop.ahead.make(files("a"))
    assert shop.ahead.take(files("a")) == (shop.checked, ANSWER)
    assert shop.ahead.take(files("a")) is None
    assert shop.forgotten == [] and shop.nothing_lies_there()


def test_where_the_search_goes_another_way_it_is_forgotten(shop: Shop) -> None:
    shop.ahead.make(files("a"))
    assert shop.ahead.take(files("b")) is None
    assert shop.forgotten == [sources_digest(files("a"))]
    shop.ahead.make(files("b"))
    shop.ahead.make(files("c"))
    assert shop.forgotten[1:] == [sources_digest(files("b"))]
    assert shop.ahead.take(files("c")) is not None


LATE = Refusal("compile_timeout", "took more than 10 s")
CAUGHT = Caught("_k", "ops/k.py", "ab", (1, 1, 1), 4, 2, (), (), refusal=LATE)


@pytest.mark.parametrize(
    ("fits", "fault", "compiled"),
    [
        (False, None, ANSWER),
        (True, LOOPS, ANSWER),
        (True, None, CompileAnswer((), (Stamp("sm_100", "_k", refusal=LATE),), ())),
        (True, None, CompileAnswer((CaughtCase("forward", (CAUGHT,), 0, 0),), (), ())),
    ],
    ids=["a check fails", "it loops", "late for another chip", "late"],
)
def test_who_did_not_go_well_beside_others_is_asked_anew(
    shop: Shop, fits: bool, fault: Fault | None, compiled: CompileAnswer
) -> None:
    """A kernel that takes longer than it may, while others keep the processors busy, might not alone."""
    shop.fits, shop.fault, shop.compiled = fits, fault, compiled
    shop.ahead.make(files("a"))
    assert shop.forgotten == [sources_digest(files("a"))] and shop.nothing_lies_there()
    assert shop.ahead.take(files("a")) is None


def test_nobody_may_be_known_to_follow(shop: Shop) -> None:
    shop.ahead.make(())
    assert shop.nothing_lies_there() and shop.forgotten == []
