"""The tables of the campaigns on an H200: every figure is what the bot itself makes of the blocks in the journal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bot.analysis.measured import block_timed
from bot.analysis.roofline import roof_percent
from bot.analysis.stats import geometric_mean, primary_cases
from bot.errors import CorruptRecord
from bot.model.campaign import Campaign
from bot.model.commands import Scope
from bot.model.measurement import Reading
from bot.model.race import NO_CHANGE, TWICE
from bot.model.rivals import Rival
from bot.render import numbers, view
from bot.render.summary import summary
from bot.targets.sizes import SIZES
from tests.analysis import blocks
from tests.render.scripts import RESULTS, script

FOLDER, PASS, OF_H100 = RESULTS / "campaigns", RESULTS / "pass", RESULTS.parent / "h100/campaigns"
JOURNALS = [path for folder in (FOLDER, PASS, OF_H100) for path in sorted(folder.rglob("journal.jsonl"))]
FIRST, SECOND = "rms_norm", "rms_norm-b"
HEAD = (
    *("kernel", "ended", "of", "variants", "pace", "step", "forward", "backward", "full"),
    *("rivals", "slowest", "wrapper", "took", "read"),
)
SLOW = "backward-8192x1024-bfloat16"


TABLE = script("campaigns")
Facts = list[dict[str, Any]]


@cache
def text_of(name: str) -> str:
    return (FOLDER / name / "journal.jsonl").read_text(encoding="ascii")


def facts(name: str) -> Facts:
    return [json.loads(line) for line in text_of(name).splitlines()]


def journal(lines: Facts) -> str:
    return "".join(json.dumps({**line, "seq": seq}) + "\n" for seq, line in enumerate(lines))


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name / "journal.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="ascii")
    return path


def told(folder: Path, text: str, name: str = "one") -> Any:
    return TABLE.read(write(folder, name, text), folder)


def row(one: Any, folder: Path) -> dict[str, str]:
    return dict(zip(HEAD, map(str, TABLE.summary_row(one, folder)), strict=True))


def until(lines: Facts, kind: str, number: int | None = None) -> Facts:
    """The journal up to the first fact of a kind, that one included."""
    for i, line in enumerate(lines):
        if line["fact"]["kind"] == kind and number in (None, line["fact"].get("number")):
            return lines[: i + 1]
    raise AssertionError(f"no {kind}")


def of_kind(lines: Facts, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = until(lines, kind)[-1]["fact"]
    return found


def refused() -> Facts:
    """The first campaign as it would have ended after v2: nothing was better than v0."""
    found = facts(FIRST)
    start = until(found, "variant_judged", 2)
    end = until(found, "search_ended")[-1]
    closed = {**end, "fact": {"kind": "campaign_closed", "outcome": "nothing_to_do"}}
    return [*start, end, closed]


def renamed(lines: Facts, kernel: str) -> str:
    of_kind(lines, "campaign_requested")["command"]["kernel"] = kernel
    return journal(lines)


def named(path: Path) -> str:
    return f"{path.parents[2].name}-{path.parents[1].name}-{path.parent.name}"


@pytest.fixture(scope="module", params=JOURNALS, ids=map(named, JOURNALS))
def one(request: pytest.FixtureRequest) -> Any:
    return TABLE.read(request.param, request.param.parents[1])


# The journals that are there


@pytest.mark.parametrize("folder", [FOLDER, PASS, OF_H100], ids=["h200", "pass", "h100"])
def test_the_readme_says_what_lies_beside_it(folder: Path) -> None:
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert TABLE.written(readme, TABLE.page(folder)) == readme, "run docs/results/h200/campaigns/table.py"


@pytest.mark.parametrize(
    ("folder", "gpu"), [(FOLDER, "NVIDIA H200"), (PASS, "NVIDIA H200"), (OF_H100, "NVIDIA H100 80GB HBM3")]
)
def test_no_table_mixes_gpus(folder: Path, gpu: str) -> None:
    """A mean over two kinds would be of neither."""
    runners = [view.runner(one.campaign) for one in TABLE.read_all(folder)]
    assert {runner.gpu_name for runner in runners if runner is not None} == {gpu}


def test_another_folder_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, FIRST, text_of(FIRST))
    (tmp_path / "README.md").write_text(f"mine\n\n{TABLE.BEGIN}{TABLE.END}", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["table.py", str(tmp_path)])
    TABLE.main()
    assert TABLE.page(tmp_path) in (tmp_path / "README.md").read_text(encoding="utf-8")


SEARCHED_TWICE = {"rms_norm-f": 14}
"""Lines of a second search on another machine, whose own beginning was lost by a mistake that is mended: the README
beside it says so. The same sources were measured in both."""


def test_every_line_of_a_journal_fits(one: Any) -> None:
    assert len(one.campaign.ignored) == SEARCHED_TWICE.get(one.folder, 0)


def spoken_of(campaign: Campaign, number: int) -> dict[str, Any]:
    found: dict[str, Any] = next(v for v in summary(campaign)["variants"] if v["name"] == f"v{number}")
    return found


def test_every_row_agrees_with_the_summary(one: Any) -> None:
    if not one.number:
        assert row(one, FOLDER)["of"] == "no variant was timed"
        return
    said = spoken_of(one.campaign, one.number)
    speed = TABLE._speed(one.campaign, one.readings)
    assert one.campaign.winner in (None, one.number)
    assert speed.ratio == pytest.approx(said["speedup"], abs=1e-4)
    if said["speedup_low"] is not None:
        assert [math.exp(end) for end in speed.interval()] == pytest.approx(
            [said["speedup_low"], said["speedup_high"]], abs=1e-4
        )
    for case in said["cases"]:
        found = one.readings[case["case"]]
        assert found.before_us == pytest.approx(case["before_us"], abs=1e-4)
        assert found.after_us == pytest.approx(case["after_us"], abs=1e-4)
        assert found.estimate.ratio == pytest.approx(case["speedup"], abs=1e-4)
    assert {case["case"] for case in said["cases"]} == set(one.readings)


def test_a_winner_s_row_speaks_as_the_bot_does(one: Any) -> None:
    if one.campaign.winner is None:
        return
    score = view.score_of(one.campaign, one.campaign.winner)
    said = row(one, FOLDER)
    assert said["step"] == numbers.speed_alone(score)
    assert said["of"] == f"v{one.campaign.winner}, the winner"
    assert said["variants"].startswith(f"{len(summary(one.campaign)['variants'])} tried")


def test_the_shares_of_the_roof_are_those_that_a_score_is_given(one: Any) -> None:
    """Where every scored case has one, they are what the bot's own mean is made of."""
    if not one.number:
        return
    suite, measurement = one.campaign.profile.suite, view.measurement_of(one.campaign, one.number)
    primary = primary_cases(suite, Scope.GENERAL)
    found = roof_percent(block_timed(measurement), suite, primary)
    told = [(case, TABLE.roof(one, TABLE._results(one)[case.id])) for case in suite.cases if case.id in primary]
    weighed = [  # a loss whose own gradient is 1 need not move anything, and has no roof then
        (case.weight, share) for case, share in told if case.grad == "drawn" or not share.endswith(numbers.UNKNOWN)
    ]
    shares = [said.split(" to ")[1] for _, said in weighed]
    if found is None:
        assert numbers.UNKNOWN in shares
    else:
        mean = geometric_mean([float(share.split()[0]) for share in shares], [weight for weight, _ in weighed])
        assert mean == pytest.approx(found, abs=0.6)


def cells(page: str) -> list[list[str]]:
    return [re.split(r" \| ", line.strip("| \n")) for line in page.splitlines() if line.startswith("| ")]


def test_there_is_a_row_for_every_campaign_and_every_case() -> None:
    by_campaign, rest = TABLE.page(FOLDER).split("## What tools said")
    by_case = rest.split("## By case")[1]
    assert len(cells(by_campaign)) == 2 + len(list(FOLDER.rglob("journal.jsonl")))
    found = TABLE.read_all(FOLDER)
    scored = sum(len(one.campaign.profile.suite.cases) for one in found if one.campaign.profile)
    assert len(cells(by_case)) == 2 + scored
    assert {len(line) for line in cells(by_case)} == {len(TABLE.CASES)}


def test_a_case_s_row_is_the_summary_s_case(one: Any) -> None:
    if not one.number:
        return
    rows = {str(line[1]): [str(cell) for cell in line] for line in TABLE.case_rows(one)}
    for case in spoken_of(one.campaign, one.number)["cases"]:
        _, _, before, variant, after, speedup, *_ = rows[view.case_names(one.campaign)[case["case"]]]
        assert (float(before), float(after)) == pytest.approx((case["before_us"], case["after_us"]), abs=1e-3)
        assert variant == f"v{one.number}"
        assert float(speedup.split("x")[0]) == pytest.approx(case["speedup"], rel=0.004, abs=0.006)


# How it ended


CUTS: Sequence[tuple[Callable[[Facts], Facts], str, str]] = [
    (lambda lines: lines[:1], "profiling the untouched kernel", "no variant was timed"),
    (lambda lines: until(lines, "profiled"), "trying variants", "no variant was timed"),
    (lambda lines: until(lines, "variant_measured"), "trying variants", "no variant was timed"),
    (lambda lines: until(lines, "variant_judged", 2), "trying variants", "v2, rejected: the best of those timed"),
    (lambda lines: until(lines, "variant_judged", 3), "trying variants", "v3, accepted: the best so far"),
    (lambda lines: until(lines, "search_ended"), "running tests and style check", "v4, the winner"),
    (lambda lines: until(lines, "finalized"), "closing", "v4, the winner"),
    (lambda lines: lines[:-1], "closing", "v4, the winner"),
]


@pytest.mark.parametrize(("cut", "doing", "of"), CUTS)
def test_a_journal_that_ends_in_the_middle_says_so(
    tmp_path: Path, cut: Callable[[Facts], Facts], doing: str, of: str
) -> None:
    said = row(told(tmp_path, journal(cut(facts(SECOND)))), tmp_path)
    assert said["ended"].startswith(f"**not ended**: {doing}")
    assert said["of"].startswith(of)


def test_one_that_was_closed_does_not() -> None:
    said = row(TABLE.read(FOLDER / SECOND / "journal.jsonl", FOLDER), FOLDER)
    assert said["ended"].startswith("ended, nothing was applied; `tests_failed`; the library's tests failed;")


def test_a_line_that_was_not_finished_does_not_count(tmp_path: Path) -> None:
    lines = facts(SECOND)
    begun = len(journal(until(lines, "variant_judged", 3))) + 200
    said = row(told(tmp_path, journal(lines)[:begun]), tmp_path)
    assert "not ended" in said["ended"] and said["variants"] == "3 tried, 3 measured, 1 accepted"


def test_a_journal_in_which_nothing_was_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecord, match="no campaign was asked for"):
        told(tmp_path, "")


def test_a_broken_line_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecord, match=r"one/journal\.jsonl: line 2"):
        told(tmp_path, text_of(FIRST).split("\n")[0] + "\nnonsense\n")


def test_a_line_that_does_not_fit_is_seen(tmp_path: Path) -> None:
    lines = facts(FIRST)
    twice = until(lines, "variant_judged", 1)
    said = row(told(tmp_path, journal([*twice, twice[-1]])), tmp_path)
    assert said["ended"].endswith("1 line that did not fit")


def test_without_a_winner_it_is_the_best_of_what_was_timed_and_says_what_became_of_it(tmp_path: Path) -> None:
    """v1 was raced by one process and v2 confirmed by six; v2 was refused for one shape."""
    one = told(tmp_path, journal(refused()))
    said = row(one, tmp_path)
    assert said["ended"].startswith("ended, nothing to do; `no_improvement`; search: every idea that applies was tried")
    assert said["of"] == "v2, rejected: the best of those timed, not a winner"
    assert said["step"] == numbers.speed_alone(view.score_of(one.campaign, 2))


def test_what_fresh_processes_did_not_read_has_no_interval(tmp_path: Path) -> None:
    said = row(told(tmp_path, journal(until(facts(FIRST), "variant_judged", 1))), tmp_path)
    assert said["step"] == "1.001x (no interval: fewer than 3 fresh processes)"


def test_a_confirmed_variant_stands_before_a_faster_one_that_was_only_raced(tmp_path: Path) -> None:
    lines = refused()
    (measured,) = [line["fact"] for line in lines if line["fact"]["kind"] == "variant_measured"][:1]
    for case in measured["measurement"]["cases"]:
        search = case["paired"]["search"]
        search["blocks"] = [[a, b, c / 4, d / 4] for a, b, c, d in search["blocks"]]
    one = told(tmp_path, journal(lines))
    assert one.number == 2 and TABLE._speed(one.campaign, TABLE._timed(one.campaign)[1]).ratio > 3


def test_a_job_that_failed_says_what_failed(tmp_path: Path) -> None:
    lines = until(facts(FIRST), "variant_judged", 1)
    order = lines[-1]["fact"]["order"]
    fact = {"kind": "order_failed", "order": order, "reason": "compute_failed", "detail": "Xid 79 | lost"}
    closed = {"kind": "campaign_closed", "outcome": "failed"}
    said = row(told(tmp_path, journal([*lines, *({**lines[-1], "fact": one} for one in (fact, closed))])), tmp_path)
    assert said["ended"] == "ended, it could not be finished; `compute_failed`; Xid 79 \\| lost"


def test_what_no_gpu_timed_has_no_figures(tmp_path: Path) -> None:
    one = told(tmp_path, text_of(FIRST).replace('"evidence":"measured"', '"evidence":"static"'))
    said = row(one, tmp_path)
    assert said["of"] == "no variant was timed" and said["rivals"] == "not played"
    assert {said[name] for name in ("step", "forward", "backward", "full", "slowest")} == {"-"}
    assert {(str(line[2]), str(line[5])) for line in TABLE.case_rows(one)} == {("-", "-")}


# Single cells


def test_a_step_that_runs_as_one_has_a_column_of_its_own(tmp_path: Path) -> None:
    whole = row(told(tmp_path / "a", text_of(FIRST).replace('"direction":"backward"', '"direction":"full"')), tmp_path)
    usual = row(told(tmp_path / "b", text_of(FIRST)), tmp_path)
    assert (whole["backward"], whole["full"], usual["full"]) == ("-", usual["backward"], "-")
    assert whole["step"] == whole["full"] != usual["step"]


def with_host(blocks: dict[str, list[list[float]]]) -> str:
    lines = facts(FIRST)
    for line in lines:
        if line["fact"]["kind"] == "variant_measured" and line["fact"]["number"] == 3:
            for case in line["fact"]["measurement"]["cases"]:
                case["paired"]["host"] = blocks.get(case["case"], [])
    return journal(lines)


def test_the_wrapper_is_told_where_it_was_read_and_grew_most(tmp_path: Path) -> None:
    forward = "forward-8192x1024-bfloat16"
    one = told(tmp_path, with_host({forward: [[30.0, 30.0, 30.5, 30.5]], SLOW: [[60.0, 60.0, 62.0, 62.0]]}))
    assert row(one, tmp_path)["wrapper"] == "bwd 8192x1024 bf16: 60.0 us to 62.0 us"
    host = {str(line[1]): str(line[7]) for line in TABLE.case_rows(one)}
    assert host["fwd 8192x1024 bf16"] == "30.0 us to 30.5 us" and host["fwd 4096x4096 bf16"] == "-"
    assert row(told(tmp_path / "b", text_of(FIRST)), tmp_path)["wrapper"] == "not read"


def test_the_slowest_case_is_the_one_in_which_v0_takes_longest(tmp_path: Path) -> None:
    one = told(tmp_path, text_of(FIRST))
    slowest = max(one.readings, key=lambda name: one.readings[name].before_us)
    assert slowest == SLOW and row(one, tmp_path)["slowest"].startswith("bwd 8192x1024 bf16: ")
    bare = row(told(tmp_path / "b", journal(until(facts(FIRST), "profiled"))), tmp_path)
    assert re.fullmatch(r"bwd 8192x1024 bf16: \d+ %", bare["slowest"])


def test_the_time_it_took_is_from_the_first_line_to_the_last(tmp_path: Path) -> None:
    lines = facts(SECOND)
    assert lines[0]["at"] == "2026-11-22T21:12:11Z" and lines[-1]["at"] == "2026-11-22T21:18:54Z"
    said = row(told(tmp_path, journal(lines)), tmp_path)
    assert said["took"].startswith("6 min 43 s, of which races ") and said["read"] == "2026-11-22"
    assert row(told(tmp_path / "b", journal(lines[:1])), tmp_path)["took"] == "0.0 s"


def test_the_pace_counts_rounds_and_who_came_home_in_a_race(tmp_path: Path) -> None:
    """From 21:12:53 to 21:17:19: five rounds, and 21 sets of launch numbers in three races."""
    lines = facts(SECOND)
    assert row(told(tmp_path, journal(lines)), tmp_path)["pace"] == f"{26 / (266 / 60):.1f}"
    raced = of_kind(lines, "numbers_raced")["race"]["racers"]
    raced[-1]["left"] = "crashed"
    assert row(told(tmp_path / "b", journal(lines)), tmp_path / "b")["pace"] == f"{25 / (266 / 60):.1f}"
    assert row(told(tmp_path / "c", journal(until(lines, "profiled"))), tmp_path / "c")["pace"] == "-"


@pytest.mark.parametrize(("pause", "is_one"), [(600, False), (601, True)])
def test_a_campaign_that_went_on_later_says_how_long_it_lay(tmp_path: Path, pause: int, is_one: bool) -> None:
    lines = facts(SECOND)
    cut = len(until(lines, "variant_judged")) - 1
    gap = datetime.fromisoformat(lines[cut]["at"]) - datetime.fromisoformat(lines[cut - 1]["at"])
    for line in lines[cut:]:
        line["at"] = (datetime.fromisoformat(line["at"]) + timedelta(seconds=pause) - gap).isoformat()
    said = row(told(tmp_path, journal(lines)), tmp_path)
    assert ("of which pauses 10 min 1 s, races" in said["took"]) is is_one
    assert (said["pace"] == "-") is is_one


def test_what_the_campaigns_that_count_took_is_told_apart_from_the_librarys_tests(tmp_path: Path) -> None:
    """FIRST took 374 s from its first line to its last, of which 177 s were tests; whoever did not end counts not."""
    assert TABLE.cost([]) == ""
    first = told(tmp_path, text_of(FIRST))
    unended = replace(told(tmp_path / "b", renamed(until(facts(FIRST), "profiled"), "rope")))
    tested = sum(run.seconds for run in first.campaign.finalization.tests)
    whole = sum(TABLE.gaps(first.lines))
    said = TABLE.cost([first, unended])
    assert said.startswith(
        f"Profile, search and judging of the 1 that count took {(whole - tested) / 60:.0f} min of a GPU"
    )
    assert f"took {tested / 60:.0f} min beside" in said and tested > 60 < whole - tested
    paused = facts(FIRST)
    later = datetime.fromisoformat(paused[-1]["at"]) + timedelta(seconds=TABLE.PAUSE_S + 1)
    paused[-1]["at"] = later.isoformat()
    assert TABLE.cost([told(tmp_path / "c", journal(paused))]).split(";")[0] <= said.split(";")[0], "nobody worked then"


def test_the_median_of_all_races_and_of_all_searches_is_told(tmp_path: Path) -> None:
    assert TABLE.paces([]) == ""
    lines = facts("rms_norm-d")
    races = [line["fact"]["race"] for line in lines if line["fact"]["kind"] == "numbers_raced"]
    home = [sum(not racer["left"] for racer in race["racers"][1:]) for race in races]
    rates = sorted(60 * count / race["seconds"] for count, race in zip(home, races, strict=True))
    one = told(tmp_path, journal(lines))
    middle = (rates[(len(rates) - 1) // 2] + rates[len(rates) // 2]) / 2
    said = TABLE.paces([one])
    assert f"at the median: {middle:.0f} in {len(rates)} races (at most {rates[-1]:.0f}, rms_norm" in said
    assert f"and {float(TABLE.pace(one)):.1f} over 1 whole searches" in said


def test_who_did_not_come_home_is_counted_with_the_reason(tmp_path: Path) -> None:
    assert TABLE.left_out([]) == ""
    lines = facts("rms_norm-d")
    raced = [line["fact"]["race"]["racers"] for line in lines if line["fact"]["kind"] == "numbers_raced"]
    others = [racer for racers in raced for racer in racers[1:]]
    for racer in others:
        racer["left"] = ""
    others[0]["left"], others[1]["left"], others[2]["left"] = TWICE, NO_CHANGE, "crashed: CompilationError"
    said = TABLE.left_out([told(tmp_path, journal(lines))])
    assert f"Of {len(others)} versions that were to race 3 ({300 / len(others):.0f} %) did not come home: 2 " in said
    assert "1 failed, were wrong or were disturbed" in said


def test_a_pause_after_the_search_leaves_its_pace(tmp_path: Path) -> None:
    lines = facts(SECOND)
    before = row(told(tmp_path, journal(lines)), tmp_path)["pace"]
    lines[-1]["at"] = (datetime.fromisoformat(lines[-1]["at"]) + timedelta(hours=1)).isoformat()
    said = row(told(tmp_path / "b", journal(lines)), tmp_path / "b")
    assert said["pace"] == before and "pauses 60 min" in said["took"]


def test_rivals_are_held_against_the_variant_that_the_figures_are_of_or_against_v0(tmp_path: Path) -> None:
    def played(one: Any, name: str, percent: float) -> Any:
        """The campaign as if this rival had been so much faster than v0 in every case."""
        profile = one.campaign.profile
        reading = Reading(blocks=blocks.exact(percent, 20))
        rivals = tuple(
            Rival.model_validate({"name": name, "case": c.id, "reading": reading}) for c in profile.suite.cases
        )
        return replace(
            one, campaign=one.campaign.model_copy(update={"profile": profile.model_copy(update={"rivals": rivals})})
        )

    lines = facts(FIRST)
    won = told(tmp_path, journal(lines))
    shapes: dict[str, list[float]] = {}
    for case, read in won.readings.items():
        shapes.setdefault(case.partition("-")[2], []).append(1 / read.estimate.ratio)
    # every pass takes 100 us beside a rival that takes 50
    over_best = [100 * sum(after) / (50 * len(after)) for after in shapes.values()]
    ratio = numbers.ratio(math.prod(over_best) ** (1 / len(over_best)))
    assert row(won, tmp_path)["rivals"] == "not played"
    assert row(played(won, "compiled", 100.0), tmp_path)["rivals"] == f"torch.compile {ratio} as fast as v3"
    bare = told(tmp_path / "b", journal(until(lines, "profiled")))
    assert row(played(bare, "eager", -50.0), tmp_path)["rivals"] == "plain PyTorch 0.50x as fast as v0"


def test_a_test_on_the_untouched_kernel_is_told_and_counted(tmp_path: Path) -> None:
    lines = facts(SECOND)
    done = of_kind(lines, "finalized")["finalization"]
    done["tests"], done["untouched"] = [{**done["tests"][0], "seconds": 100.0}], {**done["tests"][0], "seconds": 20.0}
    said = row(told(tmp_path, journal(lines)), tmp_path)
    assert "the library's tests failed, as they do on the untouched kernel" in said["ended"]
    assert said["took"].endswith("the library's tests 2 min 0 s")


# Over all kernels


def mean(folder: Path) -> str:
    found = re.match(
        r".* over (.*) that can be scored: \*\*([^*]*)\*\*\.(?:.*\*\*\.)? (\d+) with .*, (\d+) with", line_of(folder)
    )
    assert found is not None
    return ", ".join(found.groups())


def line_of(folder: Path) -> str:
    said: str = TABLE.over_kernels(TABLE.read_all(folder))
    return said


OF = f"{len(SIZES)} ops"


def test_a_kernel_with_nothing_to_give_counts_as_one(tmp_path: Path) -> None:
    write(tmp_path, "rms_norm", text_of(FIRST))
    speed = TABLE.gave(TABLE.read_all(tmp_path))
    assert mean(tmp_path) == f"1 of the {OF}, {numbers.ratio(speed)}, 1, 0"
    write(tmp_path, "geglu", renamed(refused(), "geglu"))
    assert "1 without one as 1.00x. " in line_of(tmp_path)
    assert speed > 1.2 and mean(tmp_path) == f"2 of the {OF}, {numbers.ratio(math.sqrt(speed))}, 1, 1"
    write(tmp_path, "rope", renamed(until(facts(FIRST), "variant_judged", 3), "rope"))
    assert mean(tmp_path) == f"3 of the {OF}, {numbers.ratio(speed ** (1 / 3))}, 1, 2"
    assert "2 without one as 1.00x (no campaign of rope came to its end). " in line_of(tmp_path)


def test_kernels_whose_stock_times_were_known_before_have_a_mean_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "rms_norm", text_of(FIRST))
    known = line_of(tmp_path).partition("known before: ")[2].partition(". ")[0]
    assert known == f"**{numbers.ratio(TABLE.gave(TABLE.read_all(tmp_path)))}**"
    write(tmp_path, "sparsemax", renamed(refused(), "sparsemax"))
    assert f"Over 1 of the 15 whose stock times were known before: {known}. " in line_of(tmp_path), "not one of them"
    write(tmp_path, "rope", renamed(refused(), "rope"))
    assert "Over 2 of the 15" in line_of(tmp_path) and f"known before: {known}. " not in line_of(tmp_path)


def test_a_winner_whose_tests_were_all_skipped_is_told_apart(tmp_path: Path) -> None:
    found = facts(FIRST)
    tests = of_kind(found, "finalized")["finalization"]["tests"]
    tests[0]["summary"] = "3 passed, 16 skipped in 1.43s"
    write(tmp_path, "one", journal(found))
    assert "skipped" not in line_of(tmp_path)
    for run in tests:
        run["summary"] = "19 skipped, 57 deselected in 1.43s"
    one = told(tmp_path, journal(found), "two")
    assert "**all of the library's tests were skipped**" in row(one, tmp_path)["ended"]
    assert "0 with a winner that passed the library's own tests and style check, 1 whose tests were all skipped " in (
        line_of(tmp_path)
    )


def test_a_winner_that_failed_the_library_s_tests_gives_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(SECOND))
    assert mean(tmp_path) == f"1 of the {OF}, 1.00x, 0, 1"


def test_nor_does_one_that_failed_the_style_check(tmp_path: Path) -> None:
    lines = facts(FIRST)
    of_kind(lines, "finalized")["finalization"]["style"][-1]["passed"] = False
    write(tmp_path, "a", journal(until(lines, "finalized")))
    assert mean(tmp_path) == f"1 of the {OF}, 1.00x, 0, 1"


def test_of_several_campaigns_the_last_that_came_to_its_end_counts(tmp_path: Path) -> None:
    """Whatever their folders are called: what counts is when they were asked for."""
    write(tmp_path, "z", text_of(FIRST))
    later = write(tmp_path, "a", journal(until(facts(SECOND), "search_ended")))
    assert [one.folder for one in TABLE.read_all(tmp_path)] == ["z", "a"]
    assert mean(tmp_path).endswith("x, 1, 0")
    later.write_text(text_of(SECOND), encoding="ascii")
    assert mean(tmp_path) == f"1 of the {OF}, 1.00x, 0, 1"


def test_a_machine_that_broke_takes_nothing_from_an_earlier_winner(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(FIRST))
    lines = until(facts(SECOND), "variant_judged", 1)
    fact = {"kind": "order_failed", "order": lines[-1]["fact"]["order"], "reason": "compute_failed", "detail": ""}
    write(tmp_path, "b", journal([*lines, {**lines[-1], "fact": fact}]))
    assert mean(tmp_path).endswith("x, 1, 0")


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    assert line_of(tmp_path) == "No campaign was measured yet.\n"


def test_two_machines_are_two_lines(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(FIRST))
    write(tmp_path, "b", text_of(SECOND).replace('"driver":"580.159.04"', '"driver":"590.1"'))
    lines = TABLE.machines(TABLE.read_all(tmp_path)).splitlines()
    assert [line.rsplit(": ")[-1] for line in lines] == ["1 campaign"] * 2
    assert "driver 580.159.04," in lines[0] and "driver 590.1," in lines[1]


def test_a_row_leads_to_the_report_where_there_is_one(tmp_path: Path) -> None:
    one = told(tmp_path, text_of(FIRST), "rms_norm")
    assert row(one, tmp_path)["kernel"] == "[rms_norm](rms_norm/journal.jsonl)"
    (tmp_path / "rms_norm" / "report.md").write_text("# rms_norm\n", encoding="utf-8")
    assert row(one, tmp_path)["kernel"] == "[rms_norm](rms_norm/report.md)"


def test_what_stands_around_the_marks_stays() -> None:
    made = TABLE.written(f"before\n{TABLE.BEGIN}old\n{TABLE.END}after\n", "new\n")
    assert made == f"before\n{TABLE.BEGIN}\nnew\n\n{TABLE.END}after\n"
