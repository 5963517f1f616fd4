"""What keeps a winner from its roof, in the words of every page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.model.rivals import BelowRoof, NearRoof, Rivalry
from bot.render import comments, from_roof, report_html, view
from bot.render.records import records
from tests.render.test_rivals import held, pushed

NAME = "fwd 512x1024 bf16"
FAR = BelowRoof(
    "forward-512x1024-bfloat16", 23.4, 62.6, ("it moves 1.20x the least bytes", "of its time | <b>most</b>")
)
OTHER = BelowRoof("backward-512x1024-bfloat16", 50.0, 80.0)


def told(*below: BelowRoof, cases: int = 8) -> Rivalry:
    return replace(held(pushed()), roof=NearRoof(85.0, cases, below))


def test_a_line_for_each_case_below_a_sentence_for_all() -> None:
    found, names = told(FAR, OTHER), view.case_names(pushed())
    assert from_roof.headline(found) == "v3 stays below 85 % of the roof in 2 of 8 cases that memory limits"
    assert from_roof.lines(found, names, 9) == [
        f"{NAME}: 63 % of the roof, v0 23 %; it moves 1.20x the least bytes; of its time | <b>most</b>",
        "bwd 512x1024 bf16: 80 % of the roof, v0 50 %; nothing is known of why",
    ]
    assert from_roof.lines(found, names, 1)[1:] == ["1 more case"]
    assert from_roof.lines(found, names, 2)[2:] == []


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        (8, "v3 reaches 85 % of the roof in all 8 cases that memory limits"),
        (1, "v3 reaches 85 % of the roof in the 1 case that memory limits"),
        (0, ""),
    ],
)
def test_where_all_are_near_that_is_said(cases: int, said: str) -> None:
    assert from_roof.headline(told(cases=cases)) == said
    assert from_roof.lines(told(cases=cases), {}, 9) == []


def test_without_a_winner_there_is_nothing_to_say() -> None:
    assert from_roof.headline(None) == "" and from_roof.headline(held(pushed())) == ""
    assert not from_roof.of_report(None, {}, 9)


def test_it_stands_in_the_report_the_comment_and_the_page_and_nothing_in_it_is_markup() -> None:
    campaign, found = pushed(), told(FAR)
    report = records(campaign, (), found)["report.md"].decode()
    comment = comments.result(campaign, rivals=found)
    page = report_html.page(campaign, (), {}, rivals=found)
    head = "v3 stays below 85 % of the roof in 1 of 8 cases that memory limits"
    assert f"{head}.\n\n- {NAME}: 63 % of the roof" in report
    assert f"<summary>{head}</summary>" in comment
    assert head in page and "&lt;b&gt;most" in page
    assert not any("<b>most" in told for told in (report, comment, page))


def test_that_all_is_well_takes_no_place_in_a_comment() -> None:
    found = told()
    assert "reaches 85 %" in records(pushed(), (), found)["report.md"].decode()
    assert "reaches 85 %" not in comments.result(pushed(), rivals=found)
