"""Rivals wherever a gain is told: a table with its origin, and on the first line who is faster than the winner."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from io import StringIO
from typing import Any

import pytest

from bot.analysis import rivals
from bot.model.campaign import Campaign, Outcome, Stage
from bot.model.reasons import ReasonCode
from bot.model.rivals import Rival, Rivalry
from bot.render import comments, report_html, rival_rows, terminal, view
from bot.render.profile_text import profile_json, profile_text
from bot.render.records import records
from bot.render.summary import summary
from tests.analysis import blocks
from tests.render import builders as a

NAME = "fwd 512x1024 bf16"


def pushed(**fields: Any) -> Campaign:
    """v3 is 1.42x, on the GPU; plain PyTorch is slower than it everywhere."""
    over = {
        "stage": Stage.CLOSING,
        "outcome": Outcome.PUSHED,
        "reason": ReasonCode.PUSHED,
        "winner": 3,
        "pushed": a.PUSHED,
        "finalization": a.finalization(),
    }
    return a.rivalled(a.measured(), **fields).model_copy(update=over)


def nothing(**fields: Any) -> Campaign:
    over = {"lineage": (0,), "stage": Stage.CLOSING, "outcome": Outcome.NOTHING_TO_DO, "reason": "no_improvement"}
    return a.rivalled(a.measured(), **fields).model_copy(update=over)


def held(campaign: Campaign) -> Rivalry:
    found = rivals.of_campaign(campaign)
    assert found is not None
    return found


def said(campaign: Campaign) -> str:
    return rival_rows.beaten(held(campaign), view.case_names(campaign))


def first_line(body: str) -> str:
    return body.partition("\n")[0]


def test_the_first_line_says_that_the_winner_is_beaten(golden: Callable[[str, str], None]) -> None:
    body = comments.result(pushed(), rivals=held(pushed()))
    assert "torch.compile is faster than v3 on 3 of 8 cases" in first_line(body)
    assert f"(most on {NAME}: 1.45x)" in first_line(body)
    assert "measured on NVIDIA H200, each rival by one process" in first_line(body)
    assert "plain PyTorch" not in first_line(body), "which is slower"
    golden("comments/result_measured_rivals.md", body)


def test_where_nobody_is_faster_the_first_line_is_as_it_was() -> None:
    campaign = pushed(compiled=-10.0)
    body = comments.result(campaign, rivals=held(campaign))
    assert first_line(body) == first_line(comments.result(campaign))
    assert "<summary>Rivals:" in body, "the table stands there all the same"


def test_both_may_be_faster_and_the_mean_is_told_where_it_is_lost() -> None:
    told = said(pushed(compiled=100.0, eager=60.0))
    compiled, eager, _ = told.split("; ")
    assert compiled.startswith("torch.compile is 1.41x faster than v3 (geomean over 3 shapes), faster on all 8 cases")
    assert eager.startswith("plain PyTorch is 1.13x faster than v3 (geomean over 3 shapes), faster on all 9 cases")


def test_without_a_winner_the_untouched_kernel_is_what_is_beaten() -> None:
    campaign = nothing(compiled=30.0)
    line = first_line(comments.result(campaign, rivals=held(campaign)))
    assert line.startswith("⏹️") and "torch.compile is 1.30x faster than the untouched kernel" in line
    assert "v0 over" not in said(campaign) and "v3" not in said(campaign)


@pytest.mark.parametrize(("percent", "spoken"), [(-0.05, ""), (0, ""), (0.03, "less than 1.001x"), (0.2, "1.002x")])
def test_exactly_as_fast_is_not_spoken_of(percent: float, spoken: str) -> None:
    reading = blocks.reading(percent)
    one = Rival(name="compiled", case=a.SUITE.cases[0].id, reading=reading)
    found = rivals.rivalry(a.profile(a.Evidence.MEASURED, rivals=(one,)))
    told = rival_rows.beaten(found, {})
    assert (f"is {spoken} faster than the untouched kernel" in told) if spoken else not told
    assert "1.000x" not in told


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REJECTED, Outcome.CANCELLED, Outcome.REVERTED])
def test_every_end_says_so(outcome: Outcome) -> None:
    reason = {
        Outcome.FAILED: "compute_failed",
        Outcome.REJECTED: "rejected_by_user",
        Outcome.CANCELLED: "cancelled_by_user",
        Outcome.REVERTED: "suggestion_posted",
    }[outcome]
    campaign = pushed().model_copy(update={"outcome": outcome, "reason": ReasonCode(reason), "pushed": None})
    assert "torch.compile is faster than v3" in first_line(comments.result(campaign, rivals=held(campaign)))


def test_the_table_holds_the_winner_against_each_of_them() -> None:
    campaign = pushed()
    head, rows = rival_rows.rows(held(campaign), view.case_names(campaign))
    assert head == ["Case", "v3 over v0", "eager over v0", "v3 over eager", "compiled over v0", "v3 over compiled"]
    assert len(rows) == len(a.SUITE.cases) + 1
    assert rows[0][0] == NAME and rows[0][5] == "0.69x", "0.984 over 1.43"
    assert rows[5][4:] == ["not played", "not played"], "where torch.compile gave up"
    assert rows[-1][0] == "geomean" and rows[-1][4] == "1.25x (3 shapes)"
    assert all("(" in row[2] and "[" in row[1] for row in rows[:-1]), "no figure of a case goes without its spread"


def test_single_passes_have_no_mean() -> None:
    """Of a loss torch does in the backward pass what the kernel did in the forward pass."""
    one = Rival(name="compiled", case=a.SUITE.cases[0].id, reading=blocks.reading(30.0))
    found = rivals.rivalry(a.profile(a.Evidence.MEASURED, rivals=(one,)))
    assert found is not None
    assert rival_rows.beside_v0(found, {})[1][-1] == ["geomean", "", "", "single passes"]
    assert not any("geomean" in line for line in rival_rows.notes(found, {}, best=False))
    assert "geomean" not in rival_rows.beaten(found, {}) and "the only case they both have" in rival_rows.beaten(
        found, {}
    )


def test_a_profile_shows_v0_and_its_rivals_in_time() -> None:
    campaign = pushed()
    head, rows = rival_rows.beside_v0(held(campaign), view.case_names(campaign))
    assert head == ["Case", "v0", "eager", "eager over v0", "compiled", "compiled over v0"]
    assert rows[0] == [NAME, "2.61 us", "4.02 us", "0.65x (0.64x to 0.66x)", "1.83 us", "1.43x (1.42x to 1.44x)"]
    page = records(campaign, (), held(campaign))["profile.md"].decode()
    assert re.search(r"## Rivals\n\n\| Case +\| v0 ", page) and "the quotient" not in page


def test_who_could_not_be_played_is_named_with_the_reason_and_escaped() -> None:
    campaign = pushed()
    notes = rival_rows.notes(held(campaign), view.case_names(campaign), best=True)
    assert notes[-1] == "compiled counts nowhere on bwd 8192x8192 bf16: torch.compile: <b>out</b> of | memory"
    body = comments.result(campaign, rivals=held(campaign))
    assert "&lt;b&gt;out&lt;/b&gt; of \\| memory" in body and "<b>out" not in body


def test_a_rival_that_could_be_played_nowhere_is_one_line() -> None:
    absent = tuple(Rival(name="compiled", case=one.id, why_not="no inductor") for one in a.SUITE.cases)
    profile = a.profile(a.Evidence.MEASURED, rivals=absent)
    found = rivals.rivalry(profile)
    campaign = a.profiled(profile=profile)
    body = comments.checkpoint_profile(campaign, rivals=found)
    assert "compiled counts nowhere on any case: no inductor" in body
    assert "| geomean" not in body and "Mind" not in body
    assert rival_rows.profile_lines(found, {}, 100) == ["  compiled counts nowhere on any case: no inductor"]


def tuned(percent: float, campaign: Campaign | None = None) -> Campaign:
    """With what torch.compile made of the three longest cases when it took its time; it gave one up."""
    campaign = campaign or pushed()
    assert campaign.profile is not None
    *others, last = rivals.longest(campaign.profile.baseline)
    played = [Rival(name="max-autotune", case=case, reading=blocks.reading(percent)) for case in others]
    missing = Rival(name="max-autotune", case=last, why_not="the 60 s for rivals were over")
    return campaign.model_copy(update={"rivals": (*played, missing)})


def test_the_first_line_says_it_of_what_torch_compile_makes_when_it_takes_its_time() -> None:
    campaign = tuned(100.0, pushed(compiled=-10.0))
    body = comments.result(campaign, rivals=held(campaign))
    told = "torch.compile with max-autotune is 1.41x faster than v3 (geomean over 1 shape), faster on both cases"
    assert told in first_line(body) and "torch.compile is " not in first_line(body)
    assert told in terminal.result_text(campaign, rivals=held(campaign)).partition("\n")[0]
    assert told in records(campaign, (), held(campaign))["report.md"].decode().split("\n")[2]
    assert told in Words(report_html.page(campaign, a.lines(), {}, rivals=held(campaign))).first


def test_where_both_of_torch_compile_are_faster_both_are_told() -> None:
    plain, took_its_time, _ = said(tuned(100.0, pushed(compiled=60.0))).split("; ")
    assert plain.startswith("torch.compile is 1.13x faster than v3 (geomean over 3 shapes)")
    assert took_its_time.startswith("torch.compile with max-autotune is 1.41x faster than v3 (geomean over 1 shape)")
    assert "max-autotune" not in said(tuned(10.0))


def test_it_stands_beside_the_others_and_a_case_it_was_not_asked_for_has_a_dash() -> None:
    campaign = tuned(100.0)
    names = view.case_names(campaign)
    head, rows = rival_rows.rows(held(campaign), names)
    assert head[-2:] == ["max-autotune over v0", "v3 over max-autotune"]
    assert [row[-1] for row in rows] == [
        "-",
        "-",
        "not played",
        "-",
        "-",
        "0.78x",
        "-",
        "-",
        "0.71x",
        "0.71x (1 shape)",
    ]
    assert [row[-2:] for row in rows if "not played" in row[-2:]] == [["not played", "not played"]]
    *_, mode, _, late = rival_rows.notes(held(campaign), names, best=True)
    assert mode.startswith(
        "max-autotune is torch.compile in its mode max-autotune-no-cudagraphs, played in the cases in"
    )
    assert late == "max-autotune counts nowhere on fwd 8192x8192 bf16: the 60 s for rivals were over"
    content = records(campaign, (), held(campaign))["benchmarks/rivals.csv"].decode()
    rows_of = [row for row in csv.DictReader(StringIO(content)) if row["rival"] == "max-autotune"]
    assert [(row["case"].split("-")[0], bool(row["why_not"])) for row in rows_of] == [
        ("forward", True),
        ("backward", False),
        ("full", False),
    ]


def test_the_questions_before_show_them_as_well() -> None:
    asked = a.rivalled(a.measured(), compiled=60.0)
    body = comments.checkpoint_winner(asked, rivals=held(asked))
    assert "**Mind:** torch.compile is 1.13x faster than v3" in body and "| v3 over compiled " in body
    profiled = asked.model_copy(update={"stage": Stage.AWAIT_PROFILE, "rounds": (), "lineage": (0,)})
    body = comments.checkpoint_profile(profiled, rivals=held(profiled))
    assert "**Mind:** torch.compile is 1.60x faster than the untouched kernel" in body
    assert "| compiled over v0 " in body


def test_the_terminal_says_the_same() -> None:
    campaign = pushed()
    found = held(campaign)
    assert said(campaign) in first_line(terminal.result_text(campaign, rivals=found))
    story = terminal.story_text(campaign, (), 120, rivals=found)
    assert "\nRivals\n  Case " in story and "v3 over compiled" in story
    assert campaign.profile is not None
    shown = profile_text(campaign.profile, 120, rivals=rivals.rivalry(campaign.profile))
    assert "\nRivals\n  Case " in shown and "eager over v0" in shown and "v3" not in shown


def test_programs_read_every_rival_and_case() -> None:
    campaign = pushed()
    content = records(campaign, (), held(campaign))["benchmarks/rivals.csv"].decode()
    rows = list(csv.DictReader(StringIO(content)))
    assert [row["rival"] for row in rows] == ["eager"] * 9 + ["compiled"] * 9
    gave_up = next(row for row in rows if row["why_not"])
    assert gave_up["rival_median_us"] == gave_up["best_over_rival"] == "", "no number, never a guess"
    best = next(row for row in rows if row["rival"] == "compiled")
    quotient = float(best["best_over_v0"]) / float(best["rival_over_v0"])
    assert quotient == pytest.approx(float(best["best_over_rival"]))
    assert {(row["processes"], row["gpu_name"]) for row in rows if not row["why_not"]} == {("1", "NVIDIA H200")}
    told = summary(campaign, held(campaign))["rivals"]
    assert [one["rival"] for one in told] == ["eager", "compiled"] and told[1]["against"] == "v3"
    assert [one["case"] for one in told[1]["not_played"]] == ["backward-8192x8192-bfloat16"]
    assert campaign.profile is not None
    assert json.dumps(profile_json(campaign.profile, held(campaign)), allow_nan=False)


def test_the_records_hold_them() -> None:
    files = {path: body.decode() for path, body in records(pushed(), (), held(pushed())).items()}
    beaten = "torch.compile is faster than v3 on 3 of 8 cases"
    assert files["report.md"].split("\n")[2].startswith(f"**{beaten}"), "the first line below the title"
    assert beaten in files["README.md"] and "| `benchmarks/rivals.csv` |" in files["README.md"]
    assert beaten in files["comparison.md"] and "| v3 over compiled |" in files["comparison.md"]


class Words(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.inside, self.first = "", ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag

    def handle_data(self, data: str) -> None:
        self.first += data if self.inside == "h1" else ""


def test_the_page_to_be_mailed_says_it_in_its_first_line() -> None:
    page = report_html.page(pushed(), a.lines(), {}, rivals=held(pushed()))
    assert "torch.compile is faster than v3 on 3 of 8 cases" in Words(page).first
    assert '<section id="rivals">' in page and "v3 over compiled" in page
    assert "&lt;b&gt;out&lt;/b&gt; of | memory" in page and "<b>out" not in page


def test_nothing_is_shown_where_nobody_was_played() -> None:
    campaign = pushed()
    assert campaign.profile is not None
    silent = campaign.model_copy(update={"profile": campaign.profile.model_copy(update={"rivals": ()})})
    assert rivals.of_campaign(silent) is None
    made = records(silent, (), rivals.of_campaign(silent))
    assert "benchmarks/rivals.csv" not in made
    pages = [comments.result(silent), comments.checkpoint_winner(silent), terminal.result_text(silent)]
    pages += [report_html.page(silent, a.lines(), {}), *(body.decode() for body in made.values())]
    assert not any(re.search("rival|torch.compile", page, re.I) for page in pages)


def test_the_table_of_a_crowded_comment_says_what_it_leaves_out() -> None:
    campaign = pushed()
    shown = rival_rows.of_report(held(campaign), view.case_names(campaign), 4)
    assert "_5 more cases in the record._" in shown and "| geomean " in shown
    assert rival_rows.of_report(held(campaign), {}, 0) == ""
