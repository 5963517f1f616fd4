"""What the repository's own benchmark script said, in a record, a comment, and on a terminal."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from bot.model.campaign import Campaign
from bot.model.finalization import ScriptRun
from bot.render import script_rows, view
from bot.render.comments import checkpoint_final
from bot.render.records import records
from bot.render.terminal import checkpoint_text
from tests.render import builders as a

HEAD = (*script_rows.KEYS, script_rows.CONFIG, script_rows.MEDIAN)
WHOLE, BROKEN = a.SCRIPT, a.BAD_SCRIPT
Rows = tuple[tuple[str, str, str, str, str], ...]
"""Provider, mode, metric, size, median."""
OF_V0: Rows = (
    ("liger", "forward", "speed", "1024", "2.0"),
    ("liger", "forward", "speed", "2048", "4.0"),
    ("liger", "full", "memory", "1024", "100"),
    ("huggingface", "forward", "speed", "1024", "9.0"),
)
OF_V3: Rows = (
    ("liger", "forward", "speed", "1024", "1.0"),
    ("liger", "forward", "speed", "2048", "0.5"),
    ("liger", "full", "memory", "1024", "100"),
    ("huggingface", "forward", "speed", "1024", "10.0"),
)


def table(rows: Rows) -> str:
    buffer = StringIO()
    writer = csv.writer(buffer)
    writer.writerow(HEAD)
    for provider, mode, metric, size, median in rows:
        writer.writerow(("rms_norm", provider, mode, metric, "T", size, "{}", median))
    return buffer.getvalue()


def played(*scripts: ScriptRun, base: Campaign | None = None) -> Campaign:
    done = a.finalization().model_copy(update={"scripts": scripts})
    return (base or a.finalized()).model_copy(update={"finalization": done})


def both(before: Rows = OF_V0, after: Rows = OF_V3) -> Campaign:
    v0, v3 = (ScriptRun(variant=of, run=WHOLE, table=table(rows)) for of, rows in ((0, before), (3, after)))
    return played(v0, v3)


def test_a_mode_is_the_mean_over_its_sizes_and_what_nobody_touched_stands_behind() -> None:
    said = str(script_rows.table(both())).splitlines()
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in (said[0], *said[2:])] == [
        ["What it read", "Of whom", "Mode", "Sizes", "v0 / v3", "Least", "Most"],
        ["memory", "the library", "full", "1", "1.00x", "1.00x", "1.00x"],
        ["speed", "the library", "forward", "2", "4.00x", "2.00x", "8.00x"],
        ["speed", "the others (untouched)", "forward", "1", "0.90x", "0.90x", "0.90x"],
    ]


def test_the_sentence_tells_of_the_library_alone() -> None:
    assert script_rows.sentence(both()) == (
        "The repository's own benchmark script on v0 and then on v3, v0 over v3: memory, full 1.00x over 1 size; "
        "speed, forward 4.00x over 2 sizes"
    )


@pytest.mark.parametrize(
    ("scripts", "said"),
    [
        ((), ""),
        (
            (ScriptRun(variant=0, run=BROKEN),),
            "The repository's own benchmark script does not run here on v0: OutOfResources: shared memory",
        ),
        (
            (ScriptRun(variant=0, run=WHOLE), ScriptRun(variant=3, run=BROKEN)),
            "The repository's own benchmark script runs on v0 and not on v3: OutOfResources: shared memory",
        ),
        (
            (ScriptRun(variant=0, run=WHOLE), ScriptRun(variant=3, run=WHOLE)),
            "The repository's own benchmark script ran on v0 and on v3; no figures of it can be read",
        ),
    ],
)
def test_how_it_went_is_said_whatever_it_read(scripts: tuple[ScriptRun, ...], said: str) -> None:
    campaign = played(*scripts)
    assert script_rows.sentence(campaign) == said
    assert script_rows.table(campaign) == ""
    assert said in checkpoint_text(campaign, 400) and (said in checkpoint_final(campaign))


@pytest.mark.parametrize("median", ["", "nan", "inf", "-1", "0", "fast", "1e999"])
def test_what_is_no_number_is_not_there(median: str) -> None:
    rest = OF_V3[1:]
    found = script_rows.read_lines(both(after=(("liger", "forward", "speed", "1024", median), *rest)))
    assert [len(line.ratios) for line in found if line.metric == "speed" and line.is_ours] == [1]


@pytest.mark.parametrize(("was", "now"), [("1e-320", "1e308"), ("1e308", "1e-320")])
def test_what_has_no_ratio_is_not_compared(was: str, now: str) -> None:
    """Each is a number, and one over the other is none."""
    ours = ("liger", "forward", "speed", "1024")
    edge = both(((*ours, was), *OF_V0[1:]), ((*ours, now), *OF_V3[1:]))
    assert [len(line.ratios) for line in script_rows.read_lines(edge) if line.metric == "speed" and line.is_ours] == [1]
    assert "forward 8.00x over 1 size" in script_rows.sentence(edge) and records(edge, ())


@pytest.mark.parametrize("text", ["a\rb,c\n1,2\n", "\n\n", ",,,\n", "kernel_name\n"])
def test_a_table_of_another_shape_is_shown_as_nothing(text: str) -> None:
    told = played(*(ScriptRun(variant=of, run=WHOLE, table=text) for of in (0, 3)))
    assert script_rows.read_lines(told) == () and records(told, ())
    assert "no figures of it can be read" in checkpoint_final(told)


@pytest.mark.parametrize("more", [0, 1])
def test_a_script_of_many_figures_does_not_fill_the_last_question(more: int) -> None:
    many: Rows = tuple(("liger", f"mode {n:03}", "speed", "1", "2") for n in range(script_rows.MOST_LINES + more))
    said = script_rows.sentence(both(many, many))
    assert said.count("over 1 size") == script_rows.MOST_LINES and said.endswith("and 1 more") is bool(more)
    most: Rows = tuple(("liger", f"mode {n:03}", "speed", "1", "2") for n in range(2 * script_rows.MOST_LINES + more))
    shown = str(script_rows.table(both(most, most)))
    assert shown.count("| speed") == 2 * script_rows.MOST_LINES and ("1 more line" in shown) is bool(more)


def test_a_late_winner_is_told_as_late() -> None:
    late = WHOLE.model_copy(update={"passed": False, "exit_code": None, "summary": "ended after 600 s"})
    told = played(ScriptRun(variant=0, run=WHOLE), ScriptRun(variant=3, run=late))
    assert script_rows.sentence(told) == (
        "The repository's own benchmark script was not through on v3 in twice v0's time: ended after 600 s"
    )
    assert view.failed_run(told) is None


def test_a_run_that_wrote_no_rows_has_no_file() -> None:
    told = played(ScriptRun(variant=0, run=WHOLE, table=table(OF_V0)), ScriptRun(variant=3, run=WHOLE))
    assert [path for path in records(told, ()) if path.endswith("_script.csv")] == ["benchmarks/v0_script.csv"]


def test_only_the_same_size_of_the_same_provider_is_compared() -> None:
    other = (("liger", "forward", "speed", "8192", "1.0"), ("liger-fp32", "forward", "speed", "1024", "1.0"))
    assert script_rows.read_lines(both(after=other)) == ()


def test_names_of_the_script_s_own_call_nobody_and_break_no_table() -> None:
    evil: Rows = (("liger", "@octocat | #12", "<img src=x>", "1024", "2.0"),)
    shown = str(script_rows.table(both(evil, evil)))
    assert "@octocat" not in shown and "<img" not in shown and "#12" not in shown
    assert len(shown.splitlines()) == 3


def test_the_record_holds_the_rows_and_a_spreadsheet_runs_none_of_them() -> None:
    formula: Rows = (("=HYPERLINK(1)", "forward", "speed", "1024", "2.0"), *OF_V0)
    made = records(both(formula), ())
    kept = [*csv.reader(StringIO(made["benchmarks/v0_script.csv"].decode()))]
    assert kept[0] == [*HEAD] and kept[1][1] == "'=HYPERLINK(1)" and len(kept) == 6
    assert "benchmarks/v3_script.csv" in made
    report = made["report.md"].decode()
    assert "### The repository's own benchmark script" in report and "speed, forward 4.00x over 2 sizes." in report
    assert "It decides nothing." in report


def test_a_record_without_a_script_says_nothing_of_one() -> None:
    made = records(a.finalized(), ())
    assert not [path for path in made if path.endswith("_script.csv")]
    assert "benchmark script" not in made["report.md"].decode()
