"""The sweep's pages: figures with unit and origin, hostile words made harmless, too many rows cut with a note."""

from __future__ import annotations

import re

from bot.model.campaign import Outcome, Round, Stage
from bot.model.sweep import Cell
from bot.render.budget import BUDGET, weight
from bot.render.dashboard import (
    Commit,
    Row,
    dashboard,
    headline,
    pull_body,
    pull_title,
    regression,
    regression_title,
    table,
)
from tests.campaign.nights import HOPPER, NEWER, found, night, won
from tests.campaign.story import ACCEPTED, measurement, variant

SINCE = "a" * 40
HOSTILE = "</details>@everyone | `x` <img src=x> #1 /optimize rms_norm"


def cells(row: Row) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", table([row]).splitlines()[-1])[1:-1]]


def winner(**fields: object):  # type: ignore[no-untyped-def]
    played = Round(variant=variant(1), measurement=measurement(variant(1)), verdict=ACCEPTED)
    return won(8, "# v1\n", rounds=(played,), winner=1, **fields)  # type: ignore[arg-type]


def test_a_row_names_the_gpu_and_says_what_was_measured() -> None:
    row = Row(cell=HOPPER, last=winner(), days=2.04, pull=5, pull_url="https://hub/pull/5", record="https://hub/r")
    assert cells(row) == [
        "`rms_norm`",
        "hopper: NVIDIA H200",
        "40 %",
        "v1 is 1.20x (estimated) ([record](https://hub/r))",
        "2.0 days",
        "[#5](https://hub/pull/5)",
    ]


def test_what_was_only_modelled_says_estimated_and_an_unknown_roof_says_so() -> None:
    from tests.campaign.story import profile

    assert cells(Row(cell=HOPPER, last=night(8, profile=profile())))[2] == "40 % (estimated)"
    assert cells(Row(cell=HOPPER, last=night(8, profile=found(roof=None))))[2] == "unknown"
    assert cells(Row(cell=HOPPER))[1:5] == ["hopper", "not measured", "never swept", "-"]


def test_each_end_has_its_words() -> None:
    told = {
        Outcome.NOTHING_TO_DO: "nothing to do",
        Outcome.FAILED: "`compute_failed`: the GPU is gone",
        Outcome.REVERTED: "`push_forbidden`: theirs",
    }
    for outcome, words in told.items():
        code, _, detail = words.strip("`").partition("`: ")
        last = night(8, outcome=outcome, reason=code if detail else None, detail=detail)
        assert cells(Row(cell=HOPPER, last=last))[3] == words
    assert cells(Row(cell=HOPPER, last=night(8, outcome=None)))[3] == f"under way: {Stage.OPTIMIZING}"


def test_what_matters_most_stands_first() -> None:
    row = Row(
        cell=HOPPER, last=night(8), slower_since=SINCE, slower_by="1.20x", winner="its winner lost", waits="theirs"
    )
    assert (
        cells(row)[3] == "slower since `aaaaaaa`: the source of then is 1.20x; nothing to do; its winner lost; theirs"
    )


def test_the_headline_is_what_a_maintainer_has_to_do() -> None:
    fresh, open_one = Row(cell=HOPPER), Row(cell=HOPPER, last=night(8), pull=5)
    slow = Row(cell=HOPPER, last=night(8), slower_since=SINCE)
    assert headline([open_one, open_one]) == "1 pull request waits for a review", "two pools, one pull request"
    assert headline([slow, fresh, fresh]) == "1 kernel became slower; 2 kernels never swept"
    assert headline([Row(cell=HOPPER, last=night(8))]) == "nothing waits for anybody"


def test_hostile_words_do_no_harm_on_any_page() -> None:
    hostile = found(runner=NEWER.model_copy(update={"gpu_name": HOSTILE}))
    last = winner(profile=hostile).model_copy(update={"detail": HOSTILE})
    failed = night(8, outcome=Outcome.FAILED, reason="compute_failed", detail=HOSTILE, profile=hostile)
    pages = [
        dashboard([Row(cell=HOPPER, last=last), Row(cell=HOPPER, last=failed, waits=HOSTILE)], [HOSTILE]),
        pull_body(last, lost=HOSTILE),
        regression(
            last, HOPPER, since=SINCE, slower="1.20x", files=["src/a.py"], commits=[Commit(sha=SINCE, subject=HOSTILE)]
        ),
    ]
    for page in pages:
        outside = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", page)
        assert "@everyone" not in outside and "<img src=x>" not in outside and "#1 " not in outside
        assert outside.count("<details>") == outside.count("</details>")
        assert not re.search(r"(?m)^/optimize", page)
        assert "everyone" in page, "it is shown, and harmless"


def test_a_thousand_kernels_fit_and_the_note_says_how_many_are_missing() -> None:
    rows = [Row(cell=Cell(kernel=f"kernel_{i}", pool="hopper"), last=night(8), waits="w" * 90) for i in range(1000)]
    page = dashboard(rows, [f"{i}. kernel_{i}" for i in range(1000)])
    assert weight(page) <= BUDGET
    shown = len(re.findall(r"(?m)^\| `kernel_", page))
    assert 0 < shown < 1000 and f"{1000 - shown} more kernels" in page


def test_a_pull_request_explains_itself() -> None:
    body = pull_body(winner())
    assert body.startswith(
        "**`rms_norm`: v1 is 1.20x (estimated) over `aaaaaaa`.** Found by the sweep of 2026-01-08 on hopper."
    )
    assert "`kernelwright/sweep/rms_norm`" in body and "Close this to say no" in body
    assert "Approve and run" not in body
    assert "Approve and run" in pull_body(winner(), checks_start=False)
    assert pull_title(winner()).startswith("[Perf] Optimize rms_norm kernel: 1.20x (estimated)")


def test_a_regression_names_the_commits_and_what_else_changed() -> None:
    commits = [Commit(sha=f"{i:040x}", subject=f"change {i}", url=f"https://hub/{i}") for i in range(60)]
    page = regression(
        winner(),
        HOPPER,
        since=SINCE,
        slower="1.20x",
        files=["src/a.py"],
        commits=commits,
        software="torch 2.9, Triton 3.5",
    )
    assert "- [0000000](https://hub/0) change 0\n" in page and "change 49" in page and "change 50" not in page
    assert "and 10 more commits." in page
    assert "the earlier sweep ran under torch 2.9, Triton 3.5" in page
    assert "timed again beside one another" in page
    alone = regression(winner(), HOPPER, since=SINCE, slower="1.20x", files=["src/a.py"], commits=[])
    assert "Meanwhile" not in alone and "none: " in alone
    assert regression_title(HOPPER, SINCE) == "rms_norm became slower on hopper since aaaaaaa"
