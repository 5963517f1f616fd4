"""`kernelwright verify`, as someone who was handed a file uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli.entry import cli
from bot.errors import CorruptRecord, UserError
from bot.model.reasons import ReasonCode
from tests.analysis.test_calibration import GAIN, SAME, text, trial, truth
from tests.analysis.test_nulls import null


def written(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content, encoding="utf-8")
    return str(folder / name)


def run(*arguments: str) -> str:
    ran = CliRunner().invoke(cli, ["verify", *arguments], standalone_mode=False, catch_exceptions=False)
    return ran.output


def test_the_figures_of_several_files_add_up_in_one_plain_table(tmp_path: Path) -> None:
    first = written(tmp_path, "a.json", text(trial(0, *SAME), trial(2, *GAIN, truth="t"), truths={"t": truth(1.9)}))
    second = written(tmp_path, "b.json", text(trial(0, *SAME), trial(2, *SAME[:4])))
    lines = run(first, second).splitlines()
    assert lines[:3] == ["made by: made by hand", "made by: made by hand", ""]
    table = {line.split("  ")[0].strip() or line: line for line in lines}
    assert "A against A" in table
    counts = [line for line in lines if line.strip().startswith("all")]
    assert [row.split()[1:4] for row in counts[:1]] == [["0", "of", "2"]]
    assert counts[1].split()[1:6] == ["+2", "%", "1", "of", "1"]
    assert counts[2].split()[1:3] == ["3", "0.000"]
    assert lines[-1].strip() == "file 2, trial 1 (k, +2 %): 4 processes read enough, not 5: no trial"


def test_null_campaigns_have_a_table_and_who_was_accepted_has_a_name(tmp_path: Path) -> None:
    lucky, false = null(*SAME, looks={40: 0.5}), null(*(1.5,) * 6, looks={7: 2.5}, size="<20us")
    first = written(tmp_path, "a.json", text(nulls=[lucky]))
    second = written(tmp_path, "b.json", text(trial(0, *SAME), nulls=[lucky, false]))
    assert run(first, second).split("\n\n")[-1].splitlines() == [
        "Null campaigns: accepted 1 of 3",
        "(the best of 64 that are v0 in other words; medians of how much faster it was)",
        " class  accepted  at most (95 %)  in the search  in fresh processes  min_gain",
        " <20us    1 of 1        100.00 %       +2.500 %            +1.500 %   1.000 %",
        "~100us    0 of 2         77.64 %       +0.500 %            +0.000 %   1.000 %",
        "   all    1 of 3         86.46 %       +0.500 %            +0.000 %   1.000 %",
        "  accepted: file 2, null campaign 1 (rows), kernel 7",
    ]


def test_every_figure_as_json(tmp_path: Path) -> None:
    found = json.loads(run("--json", written(tmp_path, "a.json", text(trial(0, *SAME)))))
    assert [group["name"] for group in found["groups"]] == ["~100us", ">=20us", "all"]
    assert found["groups"][0]["planted"][0]["accepted"]["at_most"] == 0.95
    assert found["machines"] == [{"gpu": "G"}]


def test_a_file_of_trials_that_do_not_count_says_so(tmp_path: Path) -> None:
    out = run(written(tmp_path, "a.json", text(trial(0, *SAME[:4]))))
    assert "A against A: no trials" in out
    assert "Set aside:" in out


def test_a_file_that_is_not_there_and_one_that_is_something_else(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "gone.json", ReasonCode.NOT_FOUND), (tmp_path, ReasonCode.BAD_VALUE)):
        with pytest.raises(UserError, match="cannot read") as found:
            run(str(path))
        assert found.value.reason is reason
    with pytest.raises(CorruptRecord, match=r"b\.json is no calibration: machine: Field required"):
        run(written(tmp_path, "a.json", text(trial(0, *SAME))), written(tmp_path, "b.json", "{}"))
