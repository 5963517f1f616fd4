"""Chunks may be wider in several ways; a race tells which of them is worth a round."""

from __future__ import annotations

from bot.engine.transforms.wider_chunks import WAYS
from bot.model.race import Racer
from bot.model.variant import SourceFile
from bot.model.verdict import Decision
from bot.proposers import engine
from bot.proposers.brief import Brief
from tests.engine.test_wider_chunks import LOSS
from tests.proposers.scene import PATH, after
from tests.proposers.test_promise import racer, told
from tests.proposers.test_roomier import next_of, racing

PLAIN, OTHERS = "wider_chunks", [f"wider_chunks:{way}" for way in WAYS if way]
FREED = "wider_chunks:freed_by_a_48th"


def loss(*racers: Racer, **fields: object) -> Brief:
    sources = (SourceFile(path=PATH.format("rms_norm"), text=LOSS),)
    return told(*racers, original=sources, sources=sources, surveys=(), **fields)


def test_all_ways_race_side_by_side() -> None:
    assert racing(loss(has_opening_ahead=True)) == [PLAIN, "free_early", "fuse_rows", *OTHERS]


def test_the_one_that_promised_most_has_a_round() -> None:
    hungry = racer(PLAIN, 1.9, 1.0).model_copy(
        update={"laps": tuple(lap.model_copy(update={"peak_bytes": 2**40}) for lap in racer(PLAIN, 1.9, 1.0).laps)}
    )
    assert next_of(loss(hungry, racer("free_early", 1.0, 1.0), racer(FREED, 1.6, 1.0))) == FREED
    assert next_of(loss(racer(PLAIN, 1.9, 1.0), racer(FREED, 1.6, 1.0))) == PLAIN


def test_without_a_race_only_the_plain_way_has_a_round() -> None:
    known, tried = loss(), []
    while (idea := engine.propose(known)) is not None:
        tried.append(idea.hypothesis.technique)
        known = after(known, idea, Decision.REJECTED)
    assert PLAIN in tried and not set(OTHERS) & set(tried)


def test_a_way_that_had_its_round_has_no_other() -> None:
    others = [racer(one, 0.9, 0.9) for one in (PLAIN, "free_early", "fuse_rows")]
    known = loss(*others, racer(FREED, 1.6, 1.0))
    idea = engine.propose(known)
    assert idea is not None and idea.hypothesis.technique == FREED
    assert engine.propose(after(known, idea, Decision.REJECTED)) is None


def test_nobody_widens_chunks_where_no_gpu_measures() -> None:
    known = loss(racer(FREED, 1.6, 1.0))
    static = known.baseline.model_copy(
        update={"runner": known.baseline.runner.model_copy(update={"evidence": "static"})}
    )
    fields = {name: getattr(known, name) for name in Brief.__slots__} | {"baseline": static, "facts": static}
    assert not Brief(**fields).is_measured
    assert engine.propose(Brief(**fields)) is None
