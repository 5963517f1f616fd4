"""A race in words, in the log, and in the lines for programs."""

from __future__ import annotations

import json

from bot.model.campaign import Campaign, Zone
from bot.model.facts import JournalLine, NumbersRaced
from bot.model.race import Lap, Numbers, Race, Racer
from bot.render import json_lines, races, record_logs, story, terminal
from tests.campaign.story import ACCEPTED, CASE, O2
from tests.campaign.test_races import played, searching
from tests.cli.test_local import documented

HOSTILE = Numbers(kernel="_k|@everyone", block_name="BLOCK_SIZE", warps=1)


def lap(speedup: float) -> tuple[Lap, ...]:
    return (Lap(case=CASE.id, speedup=speedup, low=speedup, high=speedup, blocks=12),)


def numbers(**fields: int) -> tuple[Numbers, ...]:
    return (Numbers(kernel="_k", block_name="BLOCK_SIZE", **fields),)


RACE = Race(
    of=0,
    racers=(
        Racer(laps=lap(1.25)),
        Racer(numbers=numbers(each=16), laps=lap(1.5)),
        Racer(numbers=numbers(each=8, cap=2048), laps=lap(2.0), left="y was wrong"),
        Racer(numbers=numbers(warps=1), left="crashed: signal 11"),
    ),
    seconds=21.34,
    gpu_ms=1512.0,
)


def line(race: Race) -> JournalLine:
    fact = NumbersRaced(order=O2, race=race)
    return JournalLine(seq=7, at="2026-01-02T03:04:05Z", zone=Zone.MEASURE, fact=fact)


def test_it_says_who_ran_what_it_took_who_left_and_who_was_first() -> None:
    assert races.sentence(RACE) == (
        "3 sets of launch numbers raced beside v0 in 21.3 s, 1.5 s of GPU time, 2 left; first home at 1.20x (measured,"
        " a dozen blocks a case): _k: 16 elements a thread"
    )


def test_it_says_how_much_of_that_to_record_where_it_is_known() -> None:
    known = RACE.model_copy(update={"recording_seconds": 12.4})
    assert "in 21.3 s, 12.4 s of them to record, 1.5 s of GPU time, 2 left;" in races.sentence(known)


IDEAS = RACE.model_copy(
    update={
        "opening": True,
        "racers": (
            RACE.racers[0],
            Racer(idea="tile_rows", title="Tile a row|<b>", laps=lap(1.5)),
            Racer(idea="block_rows", laps=lap(1.0)),
        ),
    }
)


def test_ideas_are_called_what_people_call_them() -> None:
    assert races.sentence(IDEAS).startswith("2 ideas raced beside v0 in 21.3 s")
    assert races.sentence(IDEAS).endswith("1.20x (measured, a dozen blocks a case): Tile a row|<b>")
    head, _, *rows = races.table(IDEAS).splitlines()
    assert head.startswith("| Idea ")
    assert "<b>" not in rows[0] and rows[0].replace("\\|", "").count("|") == 4
    assert rows[1].startswith("| block_rows ")


def test_ideas_and_launch_numbers_in_one_race_are_counted_apart() -> None:
    both = RACE.model_copy(update={"racers": (*RACE.racers, *IDEAS.others)})
    assert races.sentence(both).startswith("2 ideas and 3 sets of launch numbers raced beside v0")
    assert races.table(both).splitlines()[0].startswith("| Idea or numbers ")


def test_numbers_that_a_rewrite_brought_along_are_no_ideas() -> None:
    near = Racer(idea="nearby_numbers:n3", title="Rows a turn of f: 8 in place of 16", laps=lap(1.2))
    of_three = RACE.model_copy(update={"racers": (*RACE.racers, *IDEAS.others, near)})
    assert races.sentence(of_three).startswith("2 ideas, 3 sets of launch numbers and 1 number nearby raced beside v0")
    alone = RACE.model_copy(update={"racers": (RACE.racers[0], near)})
    assert races.sentence(alone).startswith("1 number nearby raced beside v0")
    assert "| Rows a turn of f: 8 in place of 16 " in races.table(alone)


def test_an_opening_that_nobody_began() -> None:
    assert races.sentence(Race(of=0, opening=True, note="no clock")) == "no ideas raced beside v0: no clock"


def test_a_race_that_nobody_finished_and_one_that_nobody_began() -> None:
    fallen = RACE.model_copy(update={"racers": (RACE.racers[0], *RACE.racers[2:])})
    assert races.sentence(fallen).endswith("2 left; nobody came home")
    assert races.sentence(Race(of=3, note="no clock")) == "no launch numbers raced beside v3: no clock"


def test_the_table_has_everybody_and_who_left_last() -> None:
    rows = races.table(RACE).splitlines()[2:]
    assert [row.split(" | ")[1].strip() for row in rows] == ["1.200x", "1.600x", "—"]
    assert "steps of at most 2048 columns" in rows[1] and "y was wrong" in rows[1]
    assert "1 warp" in rows[2] and "crashed: signal 11" in rows[2]


def test_what_one_cost_the_gpu_stands_beside_it_where_that_was_counted() -> None:
    counted = RACE.racers[1].model_copy(update={"gpu_ms": 131.6})
    row = races.table(RACE.model_copy(update={"racers": (RACE.racers[0], counted)})).splitlines()[-1]
    assert "came home, 132 ms of the GPU" in row
    assert "of the GPU" not in races.table(RACE)


def test_who_spills_came_home_and_it_is_told() -> None:
    (lap, *laps) = RACE.racers[1].laps
    wet = RACE.racers[1].model_copy(update={"laps": (lap.model_copy(update={"spills": 24}), *laps)})
    found = RACE.model_copy(update={"racers": (RACE.racers[0], wet)})
    assert "came home, spills 24 bytes a thread |" in races.table(found)
    assert races.sentence(found).endswith("nobody came home to be chosen")


def test_hostile_names_come_out_harmless() -> None:
    found = races.table(Race(of=0, racers=(RACE.racers[0], Racer(numbers=(HOSTILE,), left="<img src=x>"))))
    row = found.splitlines()[-1]
    assert "<img" not in row and row.replace("\\|", "").count("|") == 4, "three cells, whatever a kernel is called"


def test_the_story_tells_it_where_it_was_run() -> None:
    first = NumbersRaced(order=O2, race=RACE)
    second = NumbersRaced(order=O2, race=RACE.model_copy(update={"of": 1}))
    told = story.story(searching(first, *played(1, ACCEPTED), second)).splitlines()
    kinds = [row.split("**")[1] for row in told if "**" in row]
    assert kinds[2:] == ["A race", "v1", "A race"]


def test_the_log_says_which_race_it_was() -> None:
    piece = record_logs._log_piece(record_logs.So(kernel="rms_norm"), line(IDEAS))
    assert "### Race of ideas beside v0" in piece


def test_the_log_keeps_the_table() -> None:
    piece = record_logs._log_piece(record_logs.So(kernel="rms_norm"), line(RACE))
    assert "### Race of launch numbers beside v0" in piece
    assert races.sentence(RACE).split(";")[0] in piece and "| 1.600x " in piece


def test_the_log_of_a_race_without_racers_says_why() -> None:
    piece = record_logs._log_piece(record_logs.So(kernel="rms_norm"), line(Race(of=2, note="no clock")))
    assert "no launch numbers raced beside v2: no clock" in piece and "|" not in piece


def test_programs_get_counts() -> None:
    campaign: Campaign = searching(NumbersRaced(order=O2, race=RACE))
    found = json_lines._told(NumbersRaced(order=O2, race=RACE))
    assert found == ("numbers_raced", {"of": "v0", "racers": 3, "left": 2, "seconds": 21.34, "note": None})
    assert found is not None and set(found[1]) == documented()["numbers_raced"]
    assert json.dumps(found) and campaign.races == (RACE,)


def test_the_terminal_says_it_in_one_line_and_what_is_done_before() -> None:
    assert terminal.told(line(RACE)) == races.sentence(RACE)
    assert terminal.doing(searching()) == "looking for the next idea or racing launch numbers"
    assert terminal.doing(searching(NumbersRaced(order=O2, race=RACE))) == "looking for the next idea"
