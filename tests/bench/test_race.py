"""A race: recorded side by side, timed one after another, and nobody waits for who cannot go on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bot.analysis.racing import GLANCE
from bot.bench import race
from bot.bench.bailiff import Objection
from bot.bench.checks import Laid
from bot.bench.race import LATE, NO_CHANGE, RACE_S, TWICE, WORKERS, Course, Entry, Ran
from bot.bench.side_by_side import AT_ONCE, BLOCKS
from bot.bench.take import Take
from bot.model.measurement import Block, Fault
from bot.model.variant import SourceFile

CASES = ("forward", "backward")
BLOCK = (2.0, 2.0, 1.0, 1.0)


class Wrong(Exception):
    pass


@dataclass
class Track:
    """Doors of a race without a GPU. What an entry does is written in its text."""

    folder: Path
    opened: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    asked: dict[str, tuple[str, ...]] = field(default_factory=dict)
    seconds: float = 0.0
    per_lap: float = 0.0
    read_of: dict[tuple[str, str], int] = field(default_factory=dict)
    fresh: int = 0
    broken: bool = False
    room: int = AT_ONCE
    """How many fit into a block that they share."""
    shared: list[tuple[str, tuple[str, ...], int]] = field(default_factory=list)
    spent_ms: float = 0.0
    per_recording: float = 0.0
    leads: bool = False
    alone: bool = False
    ended: list[str] = field(default_factory=list)
    """Who was recorded to its end, in that order."""
    known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Who had been when this one began."""
    by_one_worker: list[tuple[str, ...]] = field(default_factory=list)
    recorded_before: int = 0
    laps_within: int = 0
    """While nobody else was on the GPU."""
    _on: list[str] = field(default_factory=list)

    def lay(self, several: Sequence[tuple[SourceFile, ...]]) -> list[Laid]:
        return [self._laid(files) for files in several]

    def _laid(self, files: tuple[SourceFile, ...]) -> Laid:
        name = files[0].text.replace(" ", "-")
        place = self.folder / name
        place.mkdir(parents=True)
        return Laid(name, files, place, place / "source")

    def record(self, laid: Sequence[Laid], cases: Sequence[tuple[str, ...]]) -> list[Mapping[str, Take] | Fault]:
        self.by_one_worker.append(tuple(one.files[0].text for one in laid))
        return [self._recorded(one, some) for one, some in zip(laid, cases, strict=True)]

    def _recorded(self, laid: Laid, cases: tuple[str, ...]) -> Mapping[str, Take] | Fault:
        text = laid.files[0].text
        self.asked[text], self.known[text] = cases, tuple(self.ended)
        time.sleep(0.05 if "tunes" in text else 0.0)
        self.seconds += self.per_recording
        self.ended.append(text)
        if "crashes" in text:
            return Fault(kind="crashed", detail="signal 11")
        where = None if "reads the clock" in text else laid.folder
        return {case: Take(case, where, "" if where else "it reads the clock", 0, kernels=1) for case in cases}

    def open(self, case: str, takes: Sequence[Take], fresh: bool) -> None:
        assert fresh or not self.broken, "nothing plays on a replayer that is gone"
        self.fresh += fresh
        self.broken = False
        self._on = [take.folder.name for take in takes if take.folder is not None]
        self.opened.append((case, tuple(self._on)))
        self.seconds += self.per_lap
        if any("does-not-fit" in name for name in self._on):
            self.broken = True
            raise Objection("out of memory")

    def together(self, case: str, places: Sequence[int], blocks: int) -> tuple[tuple[Block, ...], ...]:
        names = tuple(self._on[place] for place in places)
        if len(places) > self.room:
            return ((),) * len(places)
        before, self.spent_ms = self.spent_ms, 0.0
        found = tuple(self.read(case, place, blocks) for place in places)
        self.shared.append((case, names, blocks))
        self.spent_ms = before + blocks * (1.0 + len(places))
        return found

    def read(self, case: str, place: int, blocks: int) -> tuple[Block, ...]:
        name = self._on[place]
        self.read_of[name, case] = self.read_of.get((name, case), 0) + blocks
        self.spent_ms += 2.0 * blocks
        if "wrong" in name and case == "backward":
            raise Wrong("the variant: y is off by 7")
        if "breaks-it" in name and case == "forward":
            self.broken = True
            raise Objection("the replayer is gone")
        if "disturbed" in name:
            return (BLOCK,) * (blocks // 2 - (blocks > GLANCE and "hardly" not in name))
        took = 1.0 + (0.1 if "slow" in name else 0.0) + (0.004 if "close" in name else 0.0)
        return ((2.0, 2.0, took, took), (2.002, 1.999, took + 0.001, took)) * (blocks // 2)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        self.recorded_before = len(self.ended)
        yield
        self.laps_within = len(self.opened)

    def plays(self, take: Take) -> str:
        """Whoever says so plays what another does, and nobody can tell of one that is sealed."""
        name = take.folder.name if take.folder is not None else ""
        return "" if "sealed" in name else f"{name.removesuffix('-again')} {take.case}"

    def run(self, *texts: str) -> dict[str, Ran]:
        entries = [Entry((SourceFile(path="k.py", text=text),), CASES) for text in texts]
        course = Course(
            *(self.lay, self.record, self.open, self.read, self.together, Wrong, self.plays),
            alone=self.alone,
            leads=self.leads,
            quiet=self.quiet,
            now=lambda: self.seconds,
            spent_ms=lambda: self.spent_ms,
        )
        self.result = race.run(course, entries)
        return dict(zip(texts, self.result.ran, strict=True))


def home(ran: Ran) -> bool:
    return not ran.left and {case: len(blocks) for case, blocks in ran.blocks.items()} == dict.fromkeys(CASES, BLOCKS)


def test_where_the_first_tunes_itself_the_others_wait_for_what_it_chooses(tmp_path: Path) -> None:
    others = ("one", "another", "a third")
    for leads in (True, False):
        track = Track(tmp_path / str(leads), leads=leads)
        assert all(map(home, track.run("it tunes itself", *others).values()))
        assert all("it tunes itself" in track.known[other] for other in others) is leads


def test_one_worker_records_several_where_there_are_more_than_workers(tmp_path: Path) -> None:
    """The source as it stands is by itself: it may be recorded already."""
    few = Track(tmp_path / "few")
    few.run("itself", *(f"n{number}" for number in range(WORKERS)))
    assert sorted(map(len, few.by_one_worker)) == [1] * (WORKERS + 1)
    many = Track(tmp_path / "many")
    names = [f"n{number}" for number in range(2 * WORKERS + 1)]
    found = many.run("itself", *names)
    assert sorted(map(len, many.by_one_worker)) == [1, *[2] * (WORKERS - 1), 3] and ("itself",) in many.by_one_worker
    assert all(home(ran) for ran in found.values()) and list(found) == ["itself", *names]


def test_whose_kernels_compile_for_long_have_a_worker_each(tmp_path: Path) -> None:
    track = Track(tmp_path, alone=True)
    track.run("itself", *(f"n{number}" for number in range(3 * WORKERS)))
    assert set(map(len, track.by_one_worker)) == {1}


def test_nobody_is_told_apart_when_the_time_is_over(tmp_path: Path) -> None:
    """What a recording holds may take long to read."""
    found = Track(tmp_path, per_recording=RACE_S / 3 + 1).run("itself", "one", "one again")
    assert {ran.left for ran in found.values()} == {LATE}


def test_who_crashes_among_several_leaves_alone(tmp_path: Path) -> None:
    names = [f"n{number}{' crashes' if number % 5 == 0 else ''}" for number in range(3 * WORKERS)]
    found = Track(tmp_path).run("itself", *names)
    assert {name for name, ran in found.items() if ran.left} == {name for name in names if "crashes" in name}


def test_everybody_who_can_runs_every_case(tmp_path: Path) -> None:
    track = Track(tmp_path)
    found = track.run("itself", "other")
    assert home(found["itself"]) and home(found["other"])
    assert track.opened == [("forward", ("itself", "other")), ("backward", ("itself", "other"))]


def test_from_the_first_lap_to_the_last_the_gpu_is_theirs_alone(tmp_path: Path) -> None:
    track = Track(tmp_path)
    track.run("one", "another")
    assert (track.recorded_before, track.laps_within) == (2, len(track.opened)) == (2, 2)


def test_so_many_stand_on_one_replayer_and_no_more(tmp_path: Path) -> None:
    track = Track(tmp_path)
    names = [f"n{number}" for number in range(AT_ONCE + 1)]
    assert all(home(ran) for ran in track.run(*names).values())
    assert [len(group) for case, group in track.opened if case == "forward"] == [AT_ONCE // 2 + 1, AT_ONCE // 2 + 1]


def test_who_does_not_run_is_never_timed(tmp_path: Path) -> None:
    track = Track(tmp_path)
    found = track.run("itself", "crashes", "reads the clock")
    assert home(found["itself"])
    assert (found["crashes"].left, found["crashes"].blocks) == ("crashed: signal 11", {})
    assert found["reads the clock"].left == "cannot be replayed: it reads the clock"
    assert {group for _, group in track.opened} == {("itself",)}


def test_a_wrong_result_ends_the_run_of_its_own_author_alone(tmp_path: Path) -> None:
    found = Track(tmp_path).run("itself", "wrong", "other")
    assert home(found["itself"]) and home(found["other"])
    assert found["wrong"].left == "the variant: y is off by 7"
    assert list(found["wrong"].blocks) == ["forward"]


def test_who_spoils_the_replayer_for_all_is_found_and_the_others_run(tmp_path: Path) -> None:
    track = Track(tmp_path)
    found = track.run("itself", "does not fit", "other")
    assert home(found["itself"]) and home(found["other"])
    assert found["does not fit"].left == "out of memory"
    assert ("forward", ("itself",)) in track.opened and ("forward", ("other",)) in track.opened


def test_who_breaks_the_replayer_while_it_plays_leaves_and_the_others_get_another_one(tmp_path: Path) -> None:
    track = Track(tmp_path)
    found = track.run("itself", "breaks it", "other")
    assert home(found["itself"]) and home(found["other"])
    assert found["breaks it"].left == "the replayer is gone"
    assert track.fresh == 3, "the first, one for who is looked at alone, and one after that"


def test_one_replayer_does_for_a_whole_race(tmp_path: Path) -> None:
    track = Track(tmp_path)
    track.run("itself", "other", "wrong")
    assert (track.fresh, len(track.opened)) == (1, 2)


def test_half_of_the_blocks_have_to_be_undisturbed(tmp_path: Path) -> None:
    found = Track(tmp_path).run("itself", "disturbed")
    assert found["disturbed"].left == f"only {BLOCKS // 2 - 1} of {BLOCKS} blocks of forward were undisturbed"
    assert not Track(tmp_path / "2").run("itself", "hardly disturbed")["hardly disturbed"].left


def test_who_is_far_behind_after_a_glance_is_not_read_any_longer(tmp_path: Path) -> None:
    track = Track(tmp_path)
    found = track.run("itself", "slow", "close", "other")
    assert {case: len(blocks) for case, blocks in found["slow"].blocks.items()} == dict.fromkeys(CASES, GLANCE)
    assert not found["slow"].left, "it came home, and its time is known"
    assert track.read_of["slow", "forward"] == GLANCE
    assert home(found["itself"]) and home(found["close"]) and home(found["other"])


def test_who_shares_blocks_is_held_against_all_who_do_whoever_is_read_first(tmp_path: Path) -> None:
    track = Track(tmp_path)
    found = track.run("slow", "other")
    assert {len(blocks) for blocks in found["slow"].blocks.values()} == {GLANCE} and home(found["other"])
    assert track.shared[:2] == [("forward", ("slow", "other"), GLANCE), ("forward", ("other",), BLOCKS - GLANCE)]


def test_where_they_do_not_fit_each_is_read_by_itself(tmp_path: Path) -> None:
    """The results of large cases leave room for one variant at a time. The first has nobody to be behind then."""
    track = Track(tmp_path, room=2)
    found = track.run("slow", "other", "close")
    assert home(found["slow"]) and home(found["other"]) and track.shared == []


def test_what_everybody_cost_is_told(tmp_path: Path) -> None:
    """A block of two and v0 takes three parts; by itself each takes two of its own and v0's two."""
    found = Track(tmp_path).run("slow", "other")
    glance, rest = len(CASES) * GLANCE, len(CASES) * (BLOCKS - GLANCE)
    assert found["slow"].gpu_ms == glance * 3.0 / 2
    assert found["other"].gpu_ms == glance * 3.0 / 2 + rest * 2.0
    alone = Track(tmp_path / "2").run("alone")["alone"]
    assert alone.gpu_ms == len(CASES) * BLOCKS * 2.0


def test_the_race_has_an_end(tmp_path: Path) -> None:
    """The first case is read, and the clock runs out in it."""
    found = Track(tmp_path, per_lap=RACE_S + 1).run("itself", "other")
    assert {ran.left for ran in found.values()} == {LATE}
    assert [list(ran.blocks) for ran in found.values()] == [["forward"], ["forward"]]


def test_to_the_last_second_it_goes_on(tmp_path: Path) -> None:
    assert all(home(ran) for ran in Track(tmp_path, per_lap=RACE_S / 2).run("itself", "other").values())


def test_an_entry_races_in_its_own_cases_alone(tmp_path: Path) -> None:
    track = Track(tmp_path)
    files = (SourceFile(path="k.py", text="backward only"),)
    course = Course(track.lay, track.record, track.open, track.read, track.together, Wrong)
    (ran,) = race.run(course, [Entry(files, ("backward",))]).ran
    assert (list(ran.blocks), track.asked) == (["backward"], {"backward only": ("backward",)})


def test_it_says_how_long_it_took_and_how_much_of_that_to_record(tmp_path: Path) -> None:
    track = Track(tmp_path, per_lap=2.0, per_recording=1.5)
    ran = track.run("itself")["itself"]
    assert (track.result.recording_seconds, track.result.seconds) == (1.5, 1.5 + 2.0 * len(CASES))
    assert track.result.gpu_ms == ran.gpu_ms > 0


def test_who_launches_what_another_does_need_not_run(tmp_path: Path) -> None:
    track = Track(tmp_path)
    found = track.run("itself", "itself again", "one", "one again", "two", "sealed", "sealed again")
    assert {text: ran.left for text, ran in found.items() if ran.left} == {
        "itself again": NO_CHANGE,
        "one again": TWICE,
    }
    assert all(home(found[text]) for text in ("itself", "one", "two", "sealed", "sealed again"))
    assert not any("again" in name for _, names in track.opened for name in names if "sealed" not in name)


def test_who_differs_in_one_case_runs_in_all_of_its_own(tmp_path: Path) -> None:
    track = Track(tmp_path)
    files = {text: (SourceFile(path="k.py", text=text),) for text in ("itself", "itself again", "other")}

    def plays(take: Take) -> str:
        assert take.folder is not None
        return f"{take.case} {'other' if take.folder.name == 'other' and take.case == 'backward' else 'itself'}"

    course = Course(track.lay, track.record, track.open, track.read, track.together, Wrong, plays)
    entries = [Entry(files["itself"], CASES), Entry(files["other"], CASES), Entry(files["itself again"], ("forward",))]
    _, other, again = race.run(course, entries).ran
    assert home(other) and again.left == NO_CHANGE


def test_where_the_source_as_it_stands_does_not_run_the_others_do(tmp_path: Path) -> None:
    found = Track(tmp_path).run("itself crashes", "one", "one again")
    assert (found["one"].left, found["one again"].left) == ("", TWICE)


def test_nothing_stays_on_the_disk(tmp_path: Path) -> None:
    Track(tmp_path).run("itself", "crashes", "wrong")
    assert list(tmp_path.iterdir()) == []


def test_what_each_case_allocates_and_spills_is_kept_of_everybody_who_was_recorded(tmp_path: Path) -> None:
    class Counting(Track):
        def _recorded(self, laid: Laid, cases: tuple[str, ...]) -> Mapping[str, Take] | Fault:
            found = super()._recorded(laid, cases)
            if isinstance(found, Fault):
                return found
            return {
                case: Take(case, take.folder, take.why_not, 7 * len(case), local_bytes=(("_k", len(case)),))
                for case, take in found.items()
            }

    found = Counting(tmp_path).run("itself", "crashes")
    assert found["itself"].local_bytes == {"forward": (("_k", 7),), "backward": (("_k", 8),)}
    assert found["itself"].peak_bytes == {"forward": 49, "backward": 56}
    assert found["crashes"].peak_bytes == {}
