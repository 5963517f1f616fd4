"""Records: the formats people know, the same bytes for the same journal, nothing invented."""

from __future__ import annotations

import csv
import json
from io import StringIO

import pytest

from bot.model.campaign import Campaign, Outcome, Stage, Zone
from bot.model.facts import (
    CampaignClosed,
    JournalLine,
    OrderFailed,
    Profiled,
    Retried,
    RoundOpened,
    VariantJudged,
)
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile
from bot.render.records import records
from tests.render import builders as a
from tests.render.test_comments import Golden

GOLDENS = [
    "README.md",
    "manifest.yaml",
    "profile.md",
    "comparison.md",
    "report.md",
    "rms_norm_v2_notes.md",
    "rms_norm_v4_notes.md",
    "benchmarks/v3_results.csv",
    "memory/v0.json",
    "memory/v3.json",
    "memory/v5.json",
    "plans/v3_plan.md",
    "rounds/round-1/summary.md",
    "rounds/round-3/summary.md",
    "logs/optimize.md",
    "logs/performance_trend.md",
]


def made(campaign: Campaign | None = None, lines: tuple[JournalLine, ...] | None = None) -> dict[str, bytes]:
    return records(campaign or a.pushed(), a.lines() if lines is None else lines)


@pytest.mark.parametrize("name", GOLDENS)
def test_pages(name: str, golden: Golden) -> None:
    golden(f"records/{name}", made()[name].decode())


def test_one_number_names_a_variant_everywhere() -> None:
    paths = set(made())
    for n in range(6):
        assert f"memory/v{n}.json" in paths
        assert f"rounds/round-{n + 1}/summary.md" in paths
        assert f"rounds/round-{n + 1}/kernel_snapshot/{a.OP_PATH}" in paths
    for n in range(1, 6):
        assert {f"rms_norm_v{n}.py", f"rms_norm_v{n}_notes.md", f"plans/v{n}_plan.md"} <= paths
        assert f"benchmarks/v{n}_results.csv" in paths


def test_sources_are_copied_byte_for_byte() -> None:
    odd = "# ünï\r\nx = 1  \n\n\n"
    campaign = a.pushed(profile=a.profile(sources=(SourceFile(path=a.OP_PATH, text=odd),)))
    assert made(campaign)["original_rms_norm.py"] == odd.encode()
    assert made()["rms_norm_v3.py"] == a.rounds()[2].variant.files[0].text.encode()


def test_a_kernel_of_two_files_keeps_both() -> None:
    second = SourceFile(path="src/sample_kernels/ops/backends/jsd.py", text="y = 2\n")
    found = made(a.pushed(profile=a.profile(sources=(*a.sources(), second))))
    assert found["original_rms_norm__src.sample_kernels.ops.backends.jsd.py"] == b"y = 2\n"
    assert found["original_rms_norm.py"] == a.SOURCE.encode()


def test_the_same_journal_gives_the_same_bytes() -> None:
    assert made() == made()
    assert list(made()) == sorted(made())


@pytest.mark.parametrize("name", ["optimize", "performance_trend"])
def test_logs_only_ever_grow(name: str) -> None:
    path = f"logs/{name}.md"
    before = b""
    for end in range(len(a.lines()) + 1):
        now = made(lines=a.lines()[:end]).get(path, b"")
        assert now.startswith(before), f"line {end} changed what was written before"
        before = now
    assert b"round-6" in before


def test_what_was_heard_before_is_not_told_twice() -> None:
    lines = a.lines()
    again = [line for line in lines if isinstance(line.fact, Profiled | RoundOpened | VariantJudged)]
    doubled = tuple(line for one in lines for line in ((one, one) if one in again else (one,)))
    for path in ("logs/optimize.md", "logs/performance_trend.md"):
        assert made(lines=doubled)[path] == made()[path]


def test_before_the_profile_there_is_only_the_log() -> None:
    assert list(made(a.requested(), a.lines()[:2])) == ["logs/optimize.md"]
    assert made(a.requested(), ())["logs/optimize.md"] == b""


def test_no_head_and_no_key_calls_an_estimate_a_time() -> None:
    found = made()
    for path, content in found.items():
        if path.endswith(".csv"):
            head = next(csv.reader(StringIO(content.decode())))
            assert not {"median_us", "speedup", "gpu_name", "timer"} & set(head), path
        if path.startswith("memory/"):
            performance = json.loads(content)["performance"]
            assert performance["latency_us"] is None
            assert performance["latency_us_by_shape"] is None
            assert "speedup_over_v0" not in performance
    memory = json.loads(found["memory/v3.json"])
    assert memory["performance"]["estimated_speedup_over_v0"] == 1.42


def test_measured_numbers_stand_under_measured_names() -> None:
    found = a.measured()
    made_now = made(a.pushed(profile=found.profile, rounds=found.rounds))
    rows = list(csv.DictReader(StringIO(made_now["benchmarks/v3_results.csv"].decode())))
    assert rows[0]["gpu_name"] == "NVIDIA H200"
    assert rows[0]["timer"] == "graph"
    assert float(rows[3]["speedup"]) == pytest.approx(1.562)
    assert json.loads(made_now["memory/v3.json"])["performance"]["latency_us_by_shape"]
    assert "estimated" not in made_now["report.md"].decode()


def test_what_is_unknown_is_null_or_empty() -> None:
    gone = json.loads(made()["memory/v5.json"])
    assert gone["correctness"] == {"rel_err": None, "worst_error_over_limit": None, "status": "TIMEOUT_FAIL"}
    assert gone["quality_gate"]["result"] == "TIMEOUT_FAIL"
    assert gone["pitfalls_and_fixes"][0]["error_type"] == "timeout"
    assert gone["git_commit_hash"] is None
    rows = list(csv.DictReader(StringIO(made()["benchmarks/v5_results.csv"].decode())))
    assert {row["estimated_us"] for row in rows} == {""}


def test_only_what_was_pushed_has_the_pushed_commit() -> None:
    assert json.loads(made()["memory/v3.json"])["git_commit_hash"] == a.PUSHED
    assert json.loads(made()["memory/v0.json"])["git_commit_hash"] == a.HEAD
    kept = a.pushed(done=(("lineage/v1", a.MOVED),))
    assert json.loads(made(kept)["memory/v1.json"])["git_commit_hash"] == a.MOVED


def test_a_manifest_is_json_line_by_line() -> None:
    for line in made()["manifest.yaml"].decode().splitlines():
        key, value = line.split(": ", 1)
        assert key.isidentifier()
        json.loads(value)


def test_a_case_named_like_a_formula_is_only_text() -> None:
    evil = a.case("forward", 8, 8).model_copy(update={"id": "=cmd|' /c calc'!A1"})
    suite = a.SUITE.model_copy(update={"cases": (evil,)})
    rows = list(
        csv.DictReader(StringIO(made(a.pushed(profile=a.profile(suite=suite)))["benchmarks/v0_baseline.csv"].decode()))
    )
    assert rows[0]["case"] == "'=cmd|' /c calc'!A1"


def test_a_plan_ends_its_sentences_once() -> None:
    first = a.rounds()[0]
    idea = first.variant.hypothesis.model_copy(update={"expected": "Nothing that the model counts changes."})
    told = first.model_copy(update={"variant": first.variant.model_copy(update={"hypothesis": idea})})
    plan = made(a.searched(rounds=(told, *a.rounds()[1:])))["plans/v1_plan.md"].decode()
    assert "Expected: Nothing that the model counts changes. Rollback: v0." in plan


def test_a_half_done_campaign_has_records_too() -> None:
    opened = a.rounds()[0].model_copy(update={"measurement": None, "verdict": None})
    found = made(a.searched(rounds=(opened,), lineage=(0,), stopped=None), a.lines()[:6])
    assert "unknown" in found["rms_norm_v1_notes.md"].decode()
    assert "benchmarks/v1_results.csv" not in found


def test_the_reverted_report_says_so_in_its_head() -> None:
    found = made(a.finalized(stage=Stage.CLOSING, outcome=Outcome.REVERTED, reason=ReasonCode.TESTS_FAILED))
    report = found["report.md"].decode()
    assert report.startswith("# rms_norm: report (not applied)\n")
    assert "- optimization applied: No: reverted, tests_failed" in report


def test_after_a_retry_the_log_goes_on_where_it_ended() -> None:
    before, rest = a.facts()[:5], a.facts()[5:]
    failed = OrderFailed(order="o-optimize", reason=ReasonCode.ARTIFACT_MISSING, detail="the job was lost")
    again = (failed, CampaignClosed(outcome=Outcome.FAILED), Retried(actor=a.BOB, comment_id=9))
    told = [
        JournalLine(seq=n, at="2026-11-20T09:00:00Z", zone=Zone.PUBLISH, fact=fact)
        for n, fact in enumerate((*before, *again, *rest))
    ]
    log = made(a.pushed(retries=1), tuple(told))["logs/optimize.md"].decode()
    assert "bob had the job that failed done again" in log
    assert log.index("the job was lost") < log.index("had the job that failed") < log.index("### round-2: v1")
