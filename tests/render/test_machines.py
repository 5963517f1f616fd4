"""A search that went on on another machine: every page names both, and no ratio is of two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bot.model.campaign import Campaign, Phase, Zone
from bot.model.commands import Mode
from bot.model.facts import Fact, JournalLine, Profiled
from bot.model.measurement import CaseResult, Evidence, Runner, Timing
from bot.model.verdict import Verdict
from bot.render import (
    folded,
    gains,
    json_lines,
    machines,
    record_logs,
    records,
    report_html,
    report_rows,
    story,
    terminal,
    times,
    view,
)
from tests.campaign.story import ACCEPTED, CASE, P1, WRONG, placed, profile, requested
from tests.campaign.test_elsewhere import (
    HERE,
    THERE,
    THIRD,
    a_round,
    began,
    found,
    judged,
    measured,
    moved,
    opened,
    searching,
)
from tests.cli.test_local import documented
from tests.render import test_profiles_table
from tests.render.test_campaigns_table import FIRST, TABLE, Facts, facts, journal, of_kind, row, told, until

BOTH = "Profiled on NVIDIA H200 (GPU-1); timed on NVIDIA H200 (GPU-2) from v3 on, v0 and the best so far once more"
TWICE = (*a_round(1), *a_round(2, parent=1))


def line(fact: Fact, seq: int = 0) -> JournalLine:
    return JournalLine(seq=seq, at="2026-01-02T03:04:05Z", zone=Zone.MEASURE, fact=fact)


def scored(after_us: float, before_us: float = 100.0) -> Verdict:
    assert ACCEPTED.score is not None
    (case,) = ACCEPTED.score.cases
    ratio = before_us / after_us
    cases = (case.model_copy(update={"before_us": before_us, "after_us": after_us, "speedup": ratio}),)
    score = ACCEPTED.score.model_copy(update={"cases": cases, "value": ratio, "speed": ratio})
    return ACCEPTED.model_copy(update={"score": score})


# In words


def test_both_machines_are_named_in_one_sentence() -> None:
    assert machines.sentence(searching(*TWICE)) == ""
    assert machines.sentence(searching(*TWICE, moved())) == BOTH
    third = machines.sentence(searching(*TWICE, moved(), measured(2, THERE), judged(2), moved(THIRD)))
    assert third == BOTH.replace(" v3 on,", " v3 on and on NVIDIA H200 (GPU-3) from v3 on,")


def test_a_machine_is_told_by_what_makes_it_another_one() -> None:
    newer = HERE.model_copy(update={"driver": "600", "triton": "3.7.0"})
    said = machines.sentence(searching(moved(newer)))
    assert said.startswith("Profiled on NVIDIA H200; timed on NVIDIA H200 (driver 600, Triton 3.7.0) from v1 on")


def test_where_nothing_is_timed_nothing_is_called_so() -> None:
    static = Runner(evidence=Evidence.STATIC, arch="sm_90", triton="3.6.0")
    newer = static.model_copy(update={"triton": "3.7.0"})
    said = machines.sentence(began(moved(newer), runner=static))
    assert "estimated for" in said and "timed" not in said and "measured" not in said
    assert "v0 was estimated again" in machines.told(moved(newer).baseline)


def test_every_page_says_it_where_it_names_the_machine() -> None:
    one, two = searching(*TWICE), searching(*TWICE, moved())
    for campaign, is_told in ((one, False), (two, True)):
        table = report_rows.machine(campaign)
        assert table is not None
        assert (BOTH in [str(cell) for cells in table.rows for cell in cells]) is is_told
        assert (BOTH in report_html.evidence(campaign)) is is_told
        assert (BOTH in folded.machine(view.runner(campaign), machines.sentence(campaign))) is is_told
        pages = {path: made.decode() for path, made in records.records(campaign, ()).items()}
        assert ("Profiled on NVIDIA H200" in pages["profile.md"]) is is_told
        assert ("Profiled on NVIDIA H200" in pages["report.md"]) is is_told
        assert ("**Another machine**" in story.story(campaign)) is is_told


def test_the_page_of_the_diagnosis_is_of_the_machine_that_was_profiled() -> None:
    then, now = timed_v0(searching(*TWICE), 70.0), timed_v0(searching(*TWICE, moved()), 50.0)
    assert then.profile is not None
    first = now.left[0].model_copy(update={"baseline": then.profile.baseline})
    now = now.model_copy(update={"left": (first,)})
    assert now.as_profiled == then.profile == then.as_profiled and now.profile != then.profile
    (page,) = (made.decode() for path, made in records.records(now, ()).items() if path == "profile.md")
    assert "70.0 us" in page and "50.0 us" not in page and "; this page is of the first" in page
    assert "50.0 us" in records.records(now, ())["report.md"].decode()


def test_the_story_tells_it_after_the_last_variant_of_the_first() -> None:
    campaign = searching(*TWICE, moved(), measured(2, THERE), judged(2), *a_round(3, WRONG, parent=2, runner=THERE))
    kinds = [told.split("**")[1] for told in story.story(campaign).splitlines() if "**" in told]
    assert kinds[2:] == ["v1", "v2", "Another machine", "v3"]


def test_the_terminal_says_what_is_done() -> None:
    assert terminal.told(line(moved())) == "another machine, NVIDIA H200 (GPU-2): v0 was measured again"
    again = searching(*TWICE, moved())
    assert terminal.doing(again) == "measuring v2 again, as this is another machine"
    assert terminal.doing(searching(*TWICE, moved(), measured(2, THERE))) == "judging it"
    assert terminal.doing(searching(*TWICE, opened(3, parent=2), moved())) == terminal.doing(again)


def test_programs_get_it_as_a_line_of_its_own() -> None:
    keys = {"gpu": "NVIDIA H200", "gpu_uuid": "GPU-2", "checks_passed": 0, "checks": 0, "seconds": 1.0}
    assert json_lines._told(moved()) == ("machine_changed", keys)
    assert set(keys) == documented()["machine_changed"]


# Figures


def timed_v0(campaign: Campaign, us: float) -> Campaign:
    """With a case of v0 that took so long on the machine it is of now."""
    assert campaign.profile is not None
    cases = (CaseResult(case=CASE.id, timing=Timing(median_us=us, timer="replay"), memory_bytes=1000),)
    baseline = campaign.profile.baseline.model_copy(update={"cases": cases})
    return campaign.model_copy(update={"profile": campaign.profile.model_copy(update={"baseline": baseline})})


def test_a_variant_of_the_first_machine_stands_beside_v0_of_the_first() -> None:
    campaign = timed_v0(searching(*a_round(1, scored(80.0)), moved()), 50.0)
    assert campaign.profile is not None
    (played,) = campaign.rounds
    assert times.v0_us(campaign.profile, played) == {CASE.id: 100.0}, "v0 there; 50 us are of another machine"
    table = records.records(campaign, ())["benchmarks/v1_results.csv"].decode().splitlines()
    cells = dict(zip(table[0].split(","), table[1].split(","), strict=True))
    assert (cells["v0_median_us"], cells["median_us"], cells["speedup"]) == ("100.0", "80.0", "1.25")
    here = timed_v0(searching(*a_round(1, scored(80.0))), 50.0)
    assert here.profile is not None and times.v0_us(here.profile, here.rounds[0]) == {CASE.id: 50.0}


def test_a_step_between_two_machines_has_no_share() -> None:
    both = searching(*a_round(1, scored(80.0)), *a_round(2, scored(50.0), parent=1))
    assert [one.share for one in gains.steps(both, 2)] == [1.25, 1.6]
    again = (moved(), measured(2, THERE), judged(2, scored(40.0)))
    apart = searching(*a_round(1, scored(80.0)), *a_round(2, scored(50.0), parent=1), *again)
    first, second = gains.steps(apart, 2)
    assert (first.share, second.share) == (1.25, None)
    assert gains.share_of(second) == "on another machine than v1"


def test_what_was_measured_again_was_held_against_v0() -> None:
    campaign = searching(*TWICE, moved(), measured(2, THERE), judged(2))
    assert gains.best_before(campaign, 2) == 0
    assert gains.best_before(searching(*TWICE), 2) == 1


def test_a_round_keeps_the_name_of_the_best_it_was_held_against_once_that_is_lost() -> None:
    campaign = searching(*TWICE, *a_round(3, WRONG, parent=2), moved(), measured(2, THERE), judged(2, WRONG))
    assert campaign.lineage == (0, 1) and gains.best_before(campaign, 3) == 2


# The logs, which only grow


def log_of(*told: Fact) -> tuple[str, str]:
    lines = tuple(line(fact, seq) for seq, fact in enumerate((*begun(), *told)))
    return record_logs.optimize_log(lines), record_logs.performance_trend(lines)


def begun() -> tuple[Fact, ...]:
    first = profile().model_copy(update={"baseline": found(0, HERE, 5.0)})
    asked = requested(mode=Mode.AUTONOMOUS)
    return (asked, placed(1, Phase.PROFILE), Profiled(order=P1, profile=first), placed(2, Phase.OPTIMIZE))


AGAIN = (*TWICE, moved(), measured(2, THERE), judged(2, scored(40.0)))


def test_the_logs_tell_of_the_machine_and_of_each_verdict() -> None:
    log, trend = log_of(*AGAIN)
    assert log.count("### Another machine") == 1 and log.count("- result of round-3") == 2
    rows = [told.split(" | ")[0].strip("| ") for told in trend.splitlines() if told.startswith("| round")]
    assert rows == ["round-1", "round-2", "round-3", "round-1", "round-3"]
    for count in range(len(AGAIN)):
        earlier, before = log_of(*AGAIN[:count])
        assert log.startswith(earlier) and trend.startswith(before)


@pytest.mark.parametrize(
    "stray", [moved(HERE), measured(2, HERE), judged(2), measured(1, THERE)], ids=["machine", "v2", "verdict", "v1"]
)
def test_what_does_not_fit_is_not_told(stray: Fact) -> None:
    assert log_of(*TWICE, stray) == log_of(*TWICE)


def test_one_that_is_lost_is_the_best_no_more() -> None:
    so = record_logs.So()
    for fact in (*begun(), *TWICE, moved(), measured(2, THERE), judged(2, WRONG)):
        so = record_logs._after(so, fact)
    assert so.best == 1


# The table of the campaigns


def gone_on(percent: float) -> Facts:
    """The first campaign up to its winner, which is then measured again where everything takes twice as long, and where
    it gains so much in every case."""
    lines = facts(FIRST)
    start = until(lines, "variant_judged", 3)
    profiled, timed = of_kind(lines, "profiled"), until(lines, "variant_measured", 3)[-1]["fact"]
    baseline, again = json.loads(json.dumps([profiled["profile"]["baseline"], timed["measurement"]]))
    for measurement in (baseline, again):
        measurement["runner"]["gpu_uuid"] = "GPU-2"
    for case in baseline["cases"]:
        case["timing"]["median_us"] *= 2
    for case in again["cases"]:
        for reading in case["paired"]["confirm"]:
            reading["blocks"] = [[200.0, 200.0] + [200.0 / (1 + percent / 100)] * 2] * len(reading["blocks"])
    order, at, zone = timed["order"], start[-1]["at"], "measure"
    verdict = start[-1]["fact"]["verdict"]
    more: list[dict[str, Any]] = [
        {"kind": "machine_changed", "order": order, "baseline": baseline},
        {"kind": "variant_measured", "order": order, "number": 3, "measurement": again},
        {"kind": "variant_judged", "order": order, "number": 3, "verdict": verdict},
    ]
    return [*start, *({"schema_version": 1, "at": at, "zone": zone, "fact": fact} for fact in more)]


def test_the_later_measurement_counts(tmp_path: Path) -> None:
    one = told(tmp_path, journal(gone_on(50.0)))
    assert one.campaign.ignored == () and one.number == 3
    assert row(one, tmp_path)["step"] == "1.50x [1.50x, 1.50x]"
    assert {str(cells[2]) for cells in TABLE.case_rows(one)} == {"200.000"}


def test_the_list_of_machines_says_where_it_went_on(tmp_path: Path) -> None:
    one, usual = told(tmp_path, journal(gone_on(50.0))), told(tmp_path / "b", journal(facts(FIRST)))
    said = TABLE.machines([one]).splitlines()
    assert len(said) == 2 and "Profiled on NVIDIA H200 (GPU-" in said[1] and "from v4 on" in said[1]
    assert len(TABLE.machines([usual]).splitlines()) == 1


def test_what_an_idea_gave_over_another_is_of_one_machine() -> None:
    """The parent's share of the machine that both were timed on; none where there is no such machine."""
    made = [line["fact"] for line in gone_on(50.0)]
    child = next(fact for fact in made if fact["kind"] == "round_opened" and fact["variant"]["number"] == 3)
    child["variant"]["parent"] = 1
    gave = test_profiles_table.TABLE.of_campaign("rms_norm", made)
    assert gave[2][2].startswith("v3") and gave[2][7] == "unknown", "v1 was never on the second machine"
    assert test_profiles_table.TABLE.of_campaign("rms_norm", made[:-3])[2][7] != "unknown"
