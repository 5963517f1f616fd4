"""The profile comment, profile.md and the terminal say the same, each number with its source, and hide nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.analysis.bottleneck import Evidence as Known
from bot.analysis.bottleneck import diagnose
from bot.bench import ncu
from bot.bench.ncu_export import parse
from bot.hardware.catalog import for_runner, registered
from bot.model.campaign import Campaign, Profile
from bot.model.measurement import Evidence, Timing
from bot.model.profiling import Busy, Counters, Dispatch, Timeline, Traffic
from bot.render import comments, profile_rows
from bot.render.profile_text import profile_json, profile_text
from bot.render.records import records
from tests.render import builders as a

FLOPS = {"forward": 4, "backward": 11, "full": 15}
FORWARD, BACKWARD = "forward-8192x8192-bfloat16", "backward-8192x8192-bfloat16"
RAW = Path(__file__).parents[1] / "bench" / "ncu" / "raw.csv"


def counters() -> Counters:
    read = parse(RAW.read_text(encoding="utf-8"), ncu.WANTED)
    kernels = tuple(one.model_copy(update={"case": case}) for one, case in zip(read, (FORWARD, BACKWARD), strict=True))
    return Counters(status="read", version="2025.3", detail="2 launches, clocks as they were", kernels=kernels)


def timelines() -> tuple[Timeline, ...]:
    forward = (Busy(kernel="_rms_norm_forward_kernel", launches=1, us=118.0),)
    backward = (
        Busy(kernel="_rms_norm_backward_kernel", launches=1, us=320.0),
        Busy(kernel="reduce_kernel", launches=1, us=19.5),
    )
    return (
        Timeline(case=FORWARD, passes=5, wall_us=171.0, busy_us=118.0, gap_us=0.0, kernels=forward),
        Timeline(case=BACKWARD, passes=5, wall_us=420.0, busy_us=339.5, gap_us=2.5, waits=1, kernels=backward),
    )


def watched(**fields: Any) -> Profile:
    """A GPU timed it and profilers saw it."""
    plain = a.profile(Evidence.MEASURED)
    cases = []
    for one in plain.baseline.cases:
        assert one.timing is not None
        flops = FLOPS[one.case.partition("-")[0]] * one.minimum_bytes // 4
        roof_us = one.minimum_bytes / 4_200_000 + 0.5
        cases.append(one.model_copy(update={"flops": flops, "roof_us": round(roof_us, 3)}))
    baseline = plain.baseline.model_copy(update={"cases": tuple(cases)})
    sheet = for_runner(baseline.runner)
    known = Known((), plain.sources, "rms_norm", counters(), timelines())
    return plain.model_copy(
        update={
            "baseline": baseline,
            "diagnosis": diagnose(baseline, plain.suite, sheet, known=known),
            "counters": counters(),
            "timelines": timelines(),
            "hardware": registered(sheet),
        }
        | fields
    )


def campaign(profile: Profile, **fields: Any) -> Campaign:
    return a.profiled(profile=profile, **fields)


def without_lines(body: str) -> str:
    """Where in its file a number of the hardware stands is not what these pages are about."""
    return re.sub(r"\.toml:L\d+", ".toml:L", body)


def test_the_comment_of_a_profiled_gpu(golden: Callable[[str, str], None]) -> None:
    golden("comments/checkpoint_profile_measured.md", without_lines(comments.checkpoint_profile(campaign(watched()))))


def test_the_record_holds_it_against_what_came(golden: Callable[[str, str], None]) -> None:
    found = campaign(watched(), rounds=a.rounds(Evidence.MEASURED), lineage=(0, 1, 3))
    golden("records/profile_measured.md", without_lines(records(found, ())["profile.md"].decode()))


def test_the_terminal_says_the_same(golden: Callable[[str, str], None]) -> None:
    golden("terminal/profile.txt", without_lines(profile_text(watched(), 1000)) + "\n")


OTHER = Dispatch(op="rms_norm", by_itself="nvidia-cutedsl", judged="nvidia-triton")
SAID = "rms_norm would run nvidia-cutedsl here; judged is nvidia-triton"


def everywhere(profile: Profile) -> tuple[str, str, str]:
    """The comment, the record and the terminal."""
    found = campaign(profile)
    record = records(found, ())["profile.md"].decode()
    return comments.checkpoint_profile(found), record, profile_text(profile, 1000)


def test_that_the_library_would_run_another_language_is_said_in_a_line() -> None:
    comment, record, shown = everywhere(watched(dispatch=(OTHER,)))
    assert f"**Mind:** {SAID}.\n" in comment
    assert f"\n- implementation: {SAID}\n" in record
    assert f"\n  {SAID}\n" in shown


def test_of_several_ops_each_name_is_said_once() -> None:
    again, tile = OTHER.model_copy(update={"op": "loss"}), OTHER.model_copy(update={"by_itself": "nvidia-cutile"})
    said = profile_rows.dispatch(watched(dispatch=(OTHER, again, tile)))
    assert said == "rms_norm would run nvidia-cutedsl and nvidia-cutile here; judged is nvidia-triton"


def test_where_it_runs_what_is_judged_only_programs_hear_of_it() -> None:
    same = OTHER.model_copy(update={"by_itself": "nvidia-triton"})
    profile = watched(dispatch=(same,))
    assert everywhere(profile) == everywhere(watched()), "as of a library that has no dispatcher"
    assert profile_rows.dispatch(profile) == ""
    said = {"op": "rms_norm", "by_itself": "nvidia-triton", "judged": "nvidia-triton"}
    assert profile_json(profile)["dispatch"] == [said]
    assert profile_json(watched())["dispatch"] == []


@pytest.mark.parametrize("field", ["op", "by_itself", "judged"])
def test_a_journal_holds_names_of_implementations_and_no_other_text(field: str) -> None:
    """Its page is made where a token is, of what a job with foreign code wrote."""
    told = OTHER.model_dump()
    assert Dispatch.model_validate(told | {field: 60 * "x"})
    for name in (61 * "x", "", "@everyone", "a b", "nvidia-triton\n", "<b>"):
        with pytest.raises(ValidationError):
            Dispatch.model_validate(told | {field: name})


def test_a_profile_of_before_it_was_asked_is_read_as_one_without() -> None:
    told = watched(dispatch=(OTHER,)).model_dump(mode="json")
    assert Profile.model_validate_json(json.dumps(told)).dispatch == (OTHER,)
    del told["dispatch"], told["site"]["dispatches"]
    found = Profile.model_validate_json(json.dumps(told))
    assert (found.dispatch, found.site.dispatches) == ((), ())


AGREES = Traffic(case=FORWARD, kernel="_rms_norm_forward_kernel", launches=1, counted_read=134e6, counted_written=134e6,
                 dram_read=135e6, dram_written=100e6, l2=270e6, level="l2", ratio=0.9926, agrees=True)  # fmt: skip
APART = AGREES.model_copy(update={"case": BACKWARD, "level": "dram", "l2": None, "ratio": 1.2, "agrees": False})
ALONE = AGREES.model_copy(update={"dram_read": None, "dram_written": None, "l2": None, "level": None, "ratio": None,
                                  "agrees": None})  # fmt: skip


def test_counted_bytes_stand_beside_those_that_were_read_and_what_disagrees_is_said() -> None:
    profile = watched(traffic=(AGREES, APART, ALONE))
    page, shown = records(campaign(profile), ())["profile.md"].decode(), profile_text(profile, 1000)
    for text in (page, shown):
        _, table = text.split("Bytes, counted and read")
        assert "0.993, agrees" in table and "1.200, more than 10 % apart" in table
        assert table.index("L2") < table.index("0.993") < table.index("DRAM", table.index("0.993"))
    assert len(profile_rows.moves(profile)) == 2, "what nobody read has nothing to stand beside"
    assert "Bytes, counted and read" not in records(campaign(watched(traffic=(ALONE,))), ())["profile.md"].decode()


SPILLED = AGREES.model_copy(update={"ratio": 0.852, "spilled": 192 * 2**20})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "0.852, agrees with up to 192.0 MiB of spilled registers"),
        ({"agrees": False}, "0.852, more than 10 % apart, with up to 192.0 MiB of spilled registers"),
        ({"spilled": 0, "agrees": False}, "0.852, more than 10 % apart"),
        ({"ratio": 0.9, "agrees": True}, "0.900, agrees"),
        ({"ratio": 1.2, "agrees": False}, "1.200, more than 10 % apart"),
        ({"level": "dram", "agrees": False}, "0.852, more than 10 % apart"),
        ({"ratio": None, "agrees": None}, "unknown"),
    ],
)
def test_spilled_registers_are_named_where_they_are_needed_to_agree(changes: dict[str, Any], said: str) -> None:
    profile = watched(traffic=(SPILLED.model_copy(update=changes),))
    assert [row[-1] for row in profile_rows.moves(profile)] == [said]
    assert said in records(campaign(profile), ())["profile.md"].decode()
    assert said[:59] in profile_text(profile, 1000)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "0.998, agrees, 96.0 MiB of spilled registers counted"),
        ({"ratio": 0.85, "agrees": False}, "0.850, more than 10 % apart, 96.0 MiB of spilled registers counted"),
        ({"level": "dram"}, "0.998, agrees"),
        ({"spilled": 0.0, "spilled_asked": 0.0}, "0.998, agrees"),
    ],
)
def test_spilled_registers_that_are_counted_are_named(changes: dict[str, Any], said: str) -> None:
    counted = {"ratio": 0.998, "again": 0.0, "spilled": 192 * 2**20, "spilled_asked": 96 * 2**20}
    profile = watched(traffic=(AGREES.model_copy(update={**counted, **changes}),))
    assert [row[-1] for row in profile_rows.moves(profile)] == [said]


@pytest.mark.parametrize(("again", "said"), [(0.0, "255.6 MiB"), (2.0**20, "256.6 MiB"), (None, "unknown")])
def test_what_l2_is_asked_for_stands_beside_what_has_to_be_moved(again: float | None, said: str) -> None:
    profile = watched(traffic=(AGREES.model_copy(update={"again": again, "spilled_asked": 0.0}),))
    (row,) = profile_rows.moves(profile)
    told = dict(zip(profile_rows.MOVES, row, strict=True))
    assert (told["Moves at least"], told["Asks of L2"]) == ("255.6 MiB", said)


def of_a_loss(us: float = 3.05, **fields: Any) -> Profile:
    """The largest backward pass is of a loss whose gradient is 1, and takes next to nothing."""
    plain = watched()
    cases = (case.model_copy(update={"grad": "one"}) if case.id == BACKWARD else case for case in plain.suite.cases)
    suite = plain.suite.model_copy(update={"cases": tuple(cases)})
    timing = Timing(median_us=us, timer="replay")
    results = tuple(
        one.model_copy(update={"timing": timing, "launches": (), **fields}) if one.case == BACKWARD else one
        for one in plain.baseline.cases
    )
    baseline = plain.baseline.model_copy(update={"cases": results})
    diagnosis = diagnose(baseline, suite, for_runner(baseline.runner), known=Known((), plain.sources, "rms_norm"))
    return plain.model_copy(update={"baseline": baseline, "suite": suite, "diagnosis": diagnosis})


@pytest.mark.parametrize("fields", [{"minimum_bytes": 0, "roof_us": None}, {}])
def test_a_case_that_has_nothing_to_move_has_no_share_and_no_error(fields: dict[str, Any]) -> None:
    """Also as it was written down before: with bytes, and a v0 far above the roof that they would make."""
    profile = of_a_loss(**fields)
    row = next(row for row in profile_rows.rooflines(profile) if "dL=1" in str(row[0]))
    assert list(row[1:]) == ["", "nothing", "", "", "none", "3.05 us", "nothing to move"]
    assert profile_rows.errors(profile) == [] and profile.diagnosis.roof_percent is not None
    pages = (
        records(campaign(profile), ())["profile.md"].decode(),
        profile_text(profile, 1000),
        comments.checkpoint_profile(campaign(profile)),
    )
    for page in pages:
        assert "nothing to move" in page and "above_the_roof" not in page and "no share is given" not in page
    assert len([row for row in profile_rows.rooflines(profile) if "nothing to move" in row]) == 1


def test_a_pass_that_makes_its_gradient_itself_keeps_its_share() -> None:
    profile = of_a_loss(us=342.0)
    row = next(row for row in profile_rows.rooflines(profile) if "dL=1" in str(row[0]))
    assert row[4] == "memory" and str(row[7]).endswith(" %")


def test_a_share_that_cannot_be_stays_an_error_where_the_gradient_is_drawn() -> None:
    profile = of_a_loss()
    drawn = profile.model_copy(update={"suite": watched().suite})
    assert len(profile_rows.errors(drawn)) == 1 and BACKWARD in profile_rows.errors(drawn)[0]
    assert BACKWARD in profile_rows.clues(drawn)[0].evidence
    assert len(profile_rows.clues(drawn)) == len(profile_rows.clues(profile)) + 1


def test_the_smallest_case_is_one_that_has_bytes_to_move() -> None:
    said = profile_rows.observations(of_a_loss(minimum_bytes=0))
    assert len(said) == 3 and said[2].startswith("from the smallest to the largest")
    assert said[2].split(":")[1] == profile_rows.observations(watched())[2].split(":")[1]


def test_a_wrong_forecast_stands_in_the_record_as_well() -> None:
    rounds = a.rounds(Evidence.MEASURED)
    named = rounds[0].variant.hypothesis.model_copy(update={"technique": "launch_parameters"})
    first = rounds[0].model_copy(update={"variant": rounds[0].variant.model_copy(update={"hypothesis": named})})
    rows = profile_rows.came_of(campaign(watched(), rounds=(first, *rounds[1:])))
    assert rows[0][1] == "launch_parameters" and str(rows[0][2]).endswith("x")
    assert [row[2] for row in rows if row[1] == "rows_per_program"] == ["not planned"]
    assert len(rows) == len(rounds), "those that failed as well"


@pytest.mark.parametrize(
    ("status", "said"),
    [("absent", "unavailable"), ("no_permission", "no permission"), ("mig", "MIG"), ("too_old", "too old"),
     ("nothing_launched", "nothing was launched"), ("failed", "it failed")],
)  # fmt: skip
def test_a_profiler_that_could_not_read_is_named_and_the_rest_stands(status: str, said: str) -> None:
    silent = Counters.model_validate({"status": status, "detail": "for this reason"})
    body = comments.checkpoint_profile(campaign(watched(counters=silent)))
    assert f"unavailable: {said}" in body or said == "unavailable"
    assert "for this reason" in body
    assert "Every case against its roof" in body


def test_names_of_kernels_are_strangers_words() -> None:
    evil = Busy(kernel="</details><script>@everyone `x` |", launches=1, us=1.0)
    timeline = timelines()[0].model_copy(update={"kernels": (evil,)})
    body = comments.checkpoint_profile(campaign(watched(timelines=(timeline,))))
    assert "<script>" not in body and "@everyone" not in body.replace("@\u200beveryone", "")
    assert body.count("<details>") == body.count("</details>")


def test_no_number_of_the_hardware_stands_without_its_source() -> None:
    body = comments.checkpoint_profile(campaign(watched()))
    lines = [line for line in body.splitlines() if "GB/s" in line or "TFLOP/s" in line]
    assert lines and all(" <- " in line for line in lines), lines


def test_products_and_the_rest_have_a_peak_and_a_ridge_each() -> None:
    """One number alone would be the ridge of neither: tensor cores do fifteen times what the vector units do."""
    plain = watched()
    first, *others = plain.baseline.cases
    cases = (first.model_copy(update={"flops": 10**12, "matrix_flops": 10**12}), *others)
    baseline = plain.baseline.model_copy(update={"cases": cases})
    roofs = diagnose(baseline, plain.suite, for_runner(baseline.runner)).roofs
    both = plain.model_copy(update={"diagnosis": plain.diagnosis.model_copy(update={"roofs": roofs})})
    assert re.fullmatch(
        r"ridge: [\d.]+ FLOP a byte at 67 TFLOP/s, [\d.]+ FLOP a byte at 989 TFLOP/s; below it memory is the limit",
        profile_rows.ridge(both),
    )
    arithmetic = [line for line in profile_rows.ceilings(both) if line.startswith("arithmetic")]
    assert len(arithmetic) == 2 and "989" in arithmetic[0] and "67" in arithmetic[1]
    assert profile_rows.ridge(plain).count("FLOP a byte") == 1


def test_a_plan_names_what_does_not_fit_and_says_so_when_nothing_does() -> None:
    plain = watched()

    def told(**fields: Any) -> str:
        return profile_text(plain.model_copy(update={"diagnosis": plain.diagnosis.model_copy(update=fields)}))

    assert "Nothing to change in this source for tile_rows, walk_rows." in told(unfit=("tile_rows", "walk_rows"))
    assert "Nothing to change" not in told()
    nothing = told(unfit=("tile_rows",), strategies=(), plan=())
    assert "What to try, in this order\n  No idea that is known here finds anything to change" in nothing


def test_an_idea_that_came_to_fit_later_is_not_called_unplanned() -> None:
    plain = watched()
    first = a.rounds()[0]
    hypothesis = first.variant.hypothesis.model_copy(update={"technique": "tile_rows"})
    played = first.model_copy(update={"variant": first.variant.model_copy(update={"hypothesis": hypothesis})})
    for unfit, said in ((("tile_rows",), "fits since another"), ((), "not planned")):
        diagnosis = plain.diagnosis.model_copy(update={"plan": (), "unfit": unfit})
        found = campaign(plain.model_copy(update={"diagnosis": diagnosis}), rounds=(played,))
        assert [row[2] for row in profile_rows.came_of(found)] == [said]


@pytest.mark.parametrize("technique", ["pipeline_rows", "pipeline_rows:_rms_norm_backward_kernel"])
def test_an_idea_of_one_kernel_is_held_against_what_was_planned_for_all(technique: str) -> None:
    first = a.rounds()[0]
    hypothesis = first.variant.hypothesis.model_copy(update={"technique": technique})
    played = first.model_copy(update={"variant": first.variant.model_copy(update={"hypothesis": hypothesis})})
    ((_, name, planned, *_),) = profile_rows.came_of(campaign(watched(), rounds=(played,)))
    assert name == technique
    assert str(planned).endswith("x")


WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (WARPS, {24.9: "low", 25: "in between", 50: "in between", 50.1: "high"}),
        (DRAM, {29.9: "low", 30: "in between", 60: "in between", 60.1: "high"}),
        ("l1tex__throughput.avg.pct_of_peak_sustained_active", {29.9: "low", 60.1: "high"}),
        ("lts__t_sector_hit_rate.pct", {10.0: "", 90.0: ""}),
    ],
)
def test_a_counter_is_high_or_low_beyond_its_threshold(name: str, told: dict[float, str]) -> None:
    """T-07: a share of the warps that fit is good from another share on than one of a peak."""
    assert name in profile_rows.SHOWN
    assert {value: profile_rows._assessed(name, value) for value in told} == told
