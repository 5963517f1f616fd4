"""The open table: few columns, few rows, the right ones."""

from __future__ import annotations

from typing import Any

import pytest

from bot.model.campaign import Campaign, Round
from bot.model.commands import Goal
from bot.model.measurement import Case, CheckResult, Paired, Passport, Reading, Sanitized, Suite, UnderCompile, Unseen
from bot.model.verdict import Decision, Finding, UnseenScore, Verdict
from bot.render import bars, folded, labels, report_rows, tables, times
from bot.render.escape import Trusted
from tests.render import builders as a


def numbered(count: int, accepted: tuple[int, ...] = ()) -> Campaign:
    """`count` rounds; the later an accepted one, the faster."""
    rounds = []
    for number in range(1, count + 1):
        found = a.variant(number, 0, f"idea {number}", "why", "num_warps", "more", str(number))
        yes = number in accepted
        verdict = Verdict(
            decision=Decision.ACCEPTED if yes else Decision.REJECTED,
            score=a.score(1 + number / 100 if yes else 0.5 + number / 1000),
            findings=() if yes else (a.reject("regression", f"slow {number}"),),
        )
        rounds.append(Round(variant=found, measurement=a.measurement(found.files), verdict=verdict))
    return a.searched(rounds=tuple(rounds), lineage=(0, *accepted))


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.split("\n") if "---" not in line]


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ({"passed": True, "margin": 0.4, "excused": False}, "3/3"),
        ({"passed": False, "margin": 7.5, "excused": False}, "2/3"),
        ({"passed": True, "excused": True}, "2/2"),
        ({"passed": False, "margin": 7.5, "excused": True}, "2/2"),
        ({"passed": True}, "2/2"),
        ({"passed": False}, "2/3"),
    ],
    ids=[
        "right",
        "wrong",
        "v0 fails too",
        "both are wrong",
        "an old journal, v0 fails",
        "an old journal, it cannot be compared",
    ],
)
def test_a_check_that_v0_fails_too_is_not_counted_as_passed(first: dict[str, Any], said: str) -> None:
    others = tuple(CheckResult(case=name, passed=True, margin=0.4, excused=False) for name in ("b", "c"))
    found = a.measurement(()).model_copy(update={"checks": (CheckResult(case="a", **first), *others)})
    assert tables.correct(found) == said


def test_v0_comes_first_and_the_winner_is_marked() -> None:
    rows = cells(tables.variants(a.searched(), (0, 1, 2, 3, 4, 5)))
    assert [row[0] for row in rows] == ["#", "v0", "v1", "v2", "**v3**", "v4", "v5"]
    assert {len(row) for row in rows} == {6}
    assert rows[4][1:3] == ["**1.42x (estimated)**", "**recommended**"]
    assert rows[3][2] == "rejected: forward 512x1024 is 8.1 % slower than v0 (limit 5 %)"


def test_a_mixed_score_is_not_called_a_speed_up() -> None:
    played = a.rounds()[0]
    assert played.verdict is not None and played.verdict.score is not None
    mixed = played.verdict.score.model_copy(update={"speed": None})
    rounds = (played.model_copy(update={"verdict": played.verdict.model_copy(update={"score": mixed})}),)
    speed = a.COMMAND.model_copy(update={"goal": Goal.SPEED})
    assert tables.score_head(a.searched(rounds=rounds)) == "Score (balanced)"
    assert tables.score_head(a.searched(rounds=rounds, command=speed)) == "Speed-up"
    assert tables.score_head(a.searched()) == "Speed-up"


def test_a_fast_wrong_variant_is_never_the_best() -> None:
    cheat = a.rounds()[3].model_copy(
        update={
            "verdict": Verdict(
                decision=Decision.REJECTED, score=a.score(9.0), findings=(a.reject("honesty", "caches"),)
            )
        }
    )
    shown = tables.variants(a.searched(rounds=(*a.rounds()[:3], cheat, a.rounds()[4])), (0, 3, 4))
    assert "| **v3** |" in shown
    assert "| v4     |" in shown


@pytest.mark.parametrize(("count", "expected"), [(7, 8), (8, 8), (119, 8)])
def test_at_most_eight_rows_are_open(count: int, expected: int) -> None:
    shown = tables.shown(numbered(count, (2, 5)), 8)
    assert len(shown) == expected
    assert shown[0] == 0
    assert {2, 5} <= set(shown)
    assert list(shown) == sorted(shown)


def test_one_rejected_row_stays_when_all_others_were_accepted() -> None:
    shown = tables.shown(numbered(12, tuple(range(2, 13))), 8)
    assert 1 in shown
    assert 12 in shown
    assert len(shown) == 8


def test_a_round_without_a_verdict_is_being_judged() -> None:
    opened = Round(variant=a.rounds()[0].variant)
    rows = cells(tables.variants(a.searched(rounds=(opened,), lineage=(0,)), (0, 1)))
    assert rows[2] == [
        "v1",
        "not scored",
        "being judged",
        "8 warps for rows of 4096 columns and more",
        "not checked",
        "-",
    ]


def test_cells_are_escaped_unless_trusted() -> None:
    assert tables.grid(["a"], [["x|y"], [Trusted("**z**")]]).endswith("| x\\|y  |\n| **z** |")


def test_fold_of_nothing_is_nothing() -> None:
    assert tables.fold("x", "") == ""
    assert tables.fold("<b>", Trusted("y")) == "<details><summary>&lt;b&gt;</summary>\n\ny\n\n</details>"


def test_passports_say_where_it_does_not_compile() -> None:
    stamps = (Passport(arch="sm_80", ok=True), Passport(arch="gfx942", ok=False, error="no | such op"))
    base = a.measurement(a.sources()).model_copy(update={"passports": stamps})
    rows = cells(folded.passports(a.profiled(profile=a.profile(baseline=base)), (0,)))
    assert rows == [["#", "Ampere sm_80", "CDNA3 gfx942"], ["v0", "compiles", "**does not compile**: no \\| such op"]]


def test_without_passports_there_is_no_table() -> None:
    base = a.measurement(a.sources()).model_copy(update={"passports": ()})
    assert folded.passports(a.profiled(profile=a.profile(baseline=base)), (0,)) == ""


def test_when_cases_must_go_the_slowest_stay() -> None:
    shown = folded.cases(a.searched(), 3, 2)
    assert "0.984x" in shown
    assert "_7 more cases in the record._" in shown


def test_findings_beyond_the_limit_are_counted() -> None:
    shown = folded.findings(a.searched(), (0, 2, 3, 4, 5), 2)
    assert "_3 more findings in the record._" in shown
    assert folded.findings(a.searched(), (1,), 9) == ""


def test_inconclusive_is_shown_with_its_reason() -> None:
    unsure = a.rounds()[1].model_copy(
        update={
            "verdict": Verdict(
                decision=Decision.INCONCLUSIVE,
                findings=(Finding(guardrail="noise", severity="note", message="the gain is inside the noise"),),
                score=a.score(1.01),
            )
        }
    )
    shown = tables.variants(a.searched(rounds=(a.rounds()[0], unsure), lineage=(0, 1)), (0, 1, 2))
    assert "inconclusive: the gain is inside the noise" in shown


@pytest.mark.parametrize(
    ("value", "drawn"),
    [
        (0, ""),
        (1, "█" * 12),
        (0.5, "█" * 6),
        (0.004, ""),
        (1 / 96, "▏"),
        (1 / 12, "█"),
        (95 / 96, "█" * 11 + "▉"),
        (2, "█" * 12),
    ],
)
def test_bars_are_drawn_in_eighths(value: float, drawn: str) -> None:
    assert bars.bar(value, 1) == drawn.ljust(12)


def test_the_bars_say_what_the_table_says() -> None:
    shown = bars.variants(a.searched(), (0, 2, 3, 4))
    assert shown.split("\n")[1:-1] == [
        "v0 ████████▌    1.00x untouched",
        "v2 ░░░░░░░░     0.910x (estimated) rejected",
        "v3 ████████████ 1.42x (estimated) best",
        "v4              not scored rejected",
    ]


def test_cases_that_would_read_alike_keep_their_ids() -> None:
    twin = a.case("forward", 8, 8).model_copy(update={"id": "twin"})
    suite = a.SUITE.model_copy(update={"cases": (a.case("forward", 8, 8), twin), "checks": ()})
    assert labels.case_names(suite) == {"forward-8x8-bfloat16": "forward-8x8-bfloat16", "twin": "twin"}
    assert labels.legend(suite) == "pass, rows x cols, type"


def test_the_two_backward_passes_of_a_loss_are_told_apart() -> None:
    drawn = Case(id="b", direction="backward", shape=(("rows", 8), ("cols", 8)), dtype="bfloat16")
    suite = Suite(name="full", cases=(drawn, drawn.model_copy(update={"id": "b-one", "grad": "one"})), checks=())
    assert labels.case_names(suite) == {"b": "bwd 8x8 bf16", "b-one": "bwd dL=1 8x8 bf16"}
    assert labels.legend(suite) == "pass (dL=1: the gradient of the loss is 1), rows x cols, type"


def test_what_the_wrapper_costs_is_shown_of_the_cases_in_which_it_was_read() -> None:
    (first, *others) = a.rounds()
    assert first.measurement is not None
    one, *rest = first.measurement.cases
    paired = Paired(tier="replay", search=Reading(blocks=()), host=((100.0, 110.0, 123.0, 129.0),) * 3)
    read = first.measurement.model_copy(update={"cases": (one.model_copy(update={"paired": paired}), *rest)})
    campaign = a.searched(rounds=(first.model_copy(update={"measurement": read}), *others))
    number = first.variant.number
    (head, shown, other, *_), page = cells(folded.cases(campaign, number, 99)), report_rows.cases(campaign, number)
    assert (head[-1], shown[-1], other[-1]) == (times.HOST_HEAD, "105 us to 126 us", tables.NONE)
    assert page is not None
    assert (page.head[-1], page.rows[0][-1], page.rows[1][-1]) == (times.HOST_HEAD, "105 us to 126 us", "-")


def test_where_no_wrapper_was_read_no_column_says_so() -> None:
    page = report_rows.cases(a.searched(), 3)
    assert page is not None
    assert times.HOST_HEAD not in page.head
    assert times.HOST_HEAD not in folded.cases(a.searched(), 3, 99)


@pytest.mark.parametrize(
    ("status", "told"),
    [("clean", "clean, memcheck of c, 2025.3"), ("absent", "not present"), ("failed", "did not work, memcheck of c")],
)
def test_of_a_finalist_it_says_what_the_sanitizer_did(status: str, told: str) -> None:
    (first, *others) = a.rounds()
    assert first.measurement is not None
    words = {} if status == "absent" else {"detail": "memcheck of c", "version": "2025.3" if status == "clean" else ""}
    found = Sanitized.model_validate({"status": status, **words})
    played = first.model_copy(update={"measurement": first.measurement.model_copy(update={"sanitized": found})})
    campaign = a.searched(rounds=(played, *others))
    assert folded.cases(campaign, played.variant.number, 99).endswith(f"\n\ncompute-sanitizer: {told}")
    assert ("compute-sanitizer", told) in report_rows.idea(campaign, played).rows
    assert "compute-sanitizer" not in folded.cases(a.searched(), 3, 99)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("right", "right, a as one graph"),
        ("breaks", "right, a as one graph"),
        ("wrong", "fails, a as one graph"),
        ("v0_fails", "not asked, a as one graph"),
        ("unknown", "not known, a as one graph"),
    ],
)
def test_of_a_finalist_it_says_how_it_went_under_torch_compile(status: str, told: str) -> None:
    (first, *others) = a.rounds()
    assert first.measurement is not None
    looked = {
        "sanitized": Sanitized(status="clean"),
        "under_compile": UnderCompile.model_validate({"status": status, "detail": "a as one graph"}),
    }
    played = first.model_copy(update={"measurement": first.measurement.model_copy(update=looked)})
    campaign = a.searched(rounds=(played, *others))
    shown = folded.cases(campaign, played.variant.number, 99)
    assert shown.endswith(f"\n\ncompute-sanitizer: clean\n\ntorch.compile: {told}")
    assert ("torch.compile", told) in report_rows.idea(campaign, played).rows
    assert "torch.compile" not in folded.cases(a.searched(), 3, 99)
    silent = report_rows.idea(a.searched(), a.searched().rounds[0])
    assert "torch.compile" not in [row[0] for row in silent.rows]


def on_sizes(read: Round) -> Round:
    """Read on two sizes that nobody named, of which too few processes read the second."""
    assert read.measurement is not None and read.verdict is not None and read.verdict.score is not None
    cases = [
        Case(id=f"unseen-{rows}", direction=way, shape=(("rows", rows), ("cols", 7)), dtype="bfloat16", hidden=True)
        for rows, way in ((33, "forward"), (65, "backward"))
    ]
    found = read.measurement.model_copy(update={"unseen": tuple(Unseen(case=case, confirm=()) for case in cases)})
    scores = (
        UnseenScore(case="unseen-33", before_us=30.0, after_us=20.0, speedup=1.5, low=1.4, high=1.6),
        UnseenScore(case="unseen-65", before_us=30.0, after_us=30.0, speedup=1.0),
    )
    score = read.verdict.score.model_copy(update={"unseen": scores})
    verdict = read.verdict.model_copy(update={"score": score})
    return read.model_copy(update={"measurement": found, "verdict": verdict})


def test_of_a_finalist_it_says_how_fast_it_is_on_sizes_that_nobody_named() -> None:
    (first, *others) = a.rounds()
    played = on_sizes(first)
    campaign = a.searched(rounds=(played, *others))
    told = "fwd 33x7 bf16 1.50x [1.40x, 1.60x]; bwd 65x7 bf16 1.00x"
    shown = folded.cases(campaign, played.variant.number, 99)
    assert shown.endswith(f"\n\n{tables.UNSEEN}: {told}".replace("[", r"\[").replace("]", r"\]"))
    assert (tables.UNSEEN, told) in report_rows.idea(campaign, played).rows
    assert tables.UNSEEN not in folded.cases(a.searched(), 3, 99)


def test_of_a_finalist_that_was_read_on_none_it_says_why() -> None:
    assert tables.of_finalist(a.measurement(a.sources()).model_copy(update={"unread": "it tunes itself"})) == [
        (tables.UNSEEN, "not read: it tunes itself")
    ]
