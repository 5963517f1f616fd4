"""The benchmark script of the target's own, behind the tests, in real worktrees and a real sandbox."""

from __future__ import annotations

import csv
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.bench import own_script
from bot.bench.finish import finish
from bot.bench.gpu import Gpu
from bot.model.finalization import MOST_OF_TABLE, CommandRun, Finalization, ScriptRun
from bot.model.site import KernelSite
from tests.bench.test_finish import FAILS, RIGHT, SITE, STYLE, TEST, Place

H200 = Gpu(uuid="GPU-1", name="NVIDIA H200", driver="580.65", arch="sm_90", memory_mib=143771, nodes=())
SCRIPT = SITE.benchmark_file
LIGER = SITE.model_copy(update={"preset": "liger"})
OWN, SHARED = LIGER.benchmark_tables
WRITES = b"""import os, pathlib
op = open('src/op.py').read()
name = os.environ.get('LIGER_BENCH_TARGET', '')
place = pathlib.Path('benchmark/data', f'all_benchmark_data_{name}.csv')
place.parent.mkdir(parents=True, exist_ok=True)
place.write_text(f'kernel_name,y_value_50\\nsoftmax,{2.0 if "right" in op else 4.0}\\n')
print('one row')
"""
"""A script in the ways of the library's own, whose winner takes half the time."""
BREAKS = b"import sys\nsys.exit('out of memory' if 'right' in open('src/op.py').read() else 0)\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def done(place: Place, script: bytes, site: KernelSite = LIGER, **fields: Any) -> Finalization:
    head = place.head(**{SCRIPT: script, **fields.pop("tree", {})})
    asked = {"gpu": H200, "with_script": True, **fields}
    return finish(place.repo, head, site, 3, (RIGHT,), python=sys.executable, scratch=place.scratch, **asked)


def rows(table: str) -> list[list[str]]:
    return [*csv.reader(StringIO(table))]


def test_it_runs_on_v0_and_then_on_the_winner_and_keeps_what_each_wrote(place: Place) -> None:
    told = done(place, WRITES)
    assert told.passed and [(one.variant, one.run.summary) for one in told.scripts] == [(0, "one row"), (3, "one row")]
    head = ["kernel_name", "y_value_50"]
    assert [rows(one.table) for one in told.scripts] == [[head, ["softmax", "4.0"]], [head, ["softmax", "2.0"]]]
    assert told.scripts[0].run.argv == ("python", SCRIPT, "--overwrite"), "as people type it"


def test_a_script_that_does_not_run_on_v0_says_nothing_of_the_winner(place: Place) -> None:
    told = done(place, FAILS)
    assert told.passed and [(one.variant, one.run.passed) for one in told.scripts] == [(0, False)]


def test_a_winner_that_breaks_a_script_that_v0_plays_does_not_pass(place: Place) -> None:
    told = done(place, BREAKS)
    assert [(one.variant, one.run.passed) for one in told.scripts] == [(0, True), (3, False)]
    assert told.tests[0].passed and told.style[-1].passed and not told.script_passed and not told.passed
    assert told.scripts[1].run.summary == "out of memory"


@pytest.mark.parametrize(
    "fields",
    [{"gpu": None}, {"with_script": False}, {"tree": {TEST: FAILS}}, {"tree": {STYLE: FAILS}}],
    ids=["without a GPU", "not wanted", "tests fail", "style fails"],
)
def test_it_does_not_run_where_nothing_was_measured_or_something_failed(fields: dict[str, Any], place: Place) -> None:
    assert done(place, WRITES, **fields).scripts == ()


def test_what_a_test_left_behind_is_not_there(place: Place) -> None:
    litter = b"open('src/litter.py', 'w').write('')\n"
    sees = b"import os, sys\nsys.exit(os.path.exists('src/litter.py'))\n"
    assert [one.run.passed for one in done(place, sees, tree={TEST: litter}).scripts] == [True, True]


def test_of_the_table_that_all_share_only_new_rows_are_kept(place: Place) -> None:
    appends = f"""op = open('src/op.py').read()
with open('{SHARED}', 'a') as file:
    file.write('softmax,' + str(len(op)) + '\\n')
""".encode()
    before = b"kernel_name,y_value_50\nsoftmax,9.9\n"
    told = done(place, appends, tree={SHARED: before})
    assert [rows(one.table)[1:] for one in told.scripts] == [[["softmax", "7"]], [["softmax", "13"]]]


def test_a_script_of_a_library_with_other_ways_runs_and_no_table_is_read(place: Place) -> None:
    told = done(place, WRITES, SITE)
    assert [(one.run.argv, one.table) for one in told.scripts] == [(("python", SCRIPT), "")] * 2


WRITING = """import os, pathlib
place = pathlib.Path({place!r})
place.parent.mkdir(parents=True, exist_ok=True)
{then}
"""


@pytest.mark.parametrize(
    "then",
    [
        "os.symlink('/etc/passwd', place)",
        "os.mkfifo(place)",
        "place.mkdir()",
        "place.write_bytes(b'a,b\\n1,\\xff\\n')",
        "place.write_text('')",
        "place.write_text('a,b\\n')",
        "place.write_text('a,b\\n1\\n')",
        "place.write_text('a,b\\n1,' + 'x' * 200_000 + '\\n')",
        "place.parent.rmdir(); os.symlink('/etc', place.parent)",
    ],
    ids=[
        "link",
        "pipe",
        "folder",
        "no text",
        "empty",
        "no rows",
        "short rows",
        "endless field",
        "folder that leads out",
    ],
)
def test_what_is_no_table_of_the_tree_is_none(then: str, place: Place) -> None:
    told = done(place, WRITING.format(place=OWN, then=then).encode())
    assert [(one.run.passed, one.table) for one in told.scripts] == [(True, ""), (True, "")]


@pytest.mark.parametrize(("size", "kept"), [(own_script.MOST_BYTES, True), (own_script.MOST_BYTES + 1, False)])
def test_a_table_of_more_bytes_than_that_is_not_read(size: int, kept: bool, tmp_path: Path) -> None:
    place = tmp_path / "table.csv"
    place.write_text("a\nx\n" + "\n" * (size - 4), encoding="utf-8")
    assert bool(own_script._read(place)) is kept


def test_the_winner_has_twice_the_time_that_v0_has(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refused for a second that a busy machine took."""
    given = []

    def quick(argv: tuple[str, ...], cwd: Path, env: object, deadline_s: float, **_: object) -> CommandRun:
        given.append(deadline_s)
        return CommandRun(argv=argv, passed=True, exit_code=0, seconds=0.1, summary="ran")

    monkeypatch.setattr(own_script, "run_command", quick)
    assert done(place, WRITES).passed
    assert given == [own_script.DEADLINE, 2 * own_script.DEADLINE]


def table(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_rows_are_kept_the_last_ones(more: int) -> None:
    numbers = range(own_script.MOST_ROWS + more)
    kept = rows(own_script._rows(table("a,b", *(f"{number},1" for number in numbers)), ""))
    assert len(kept) - 1 == own_script.MOST_ROWS and kept[-1] == [str(numbers[-1]), "1"]


@pytest.mark.parametrize(("more", "kept"), [(0, True), (1, False)])
def test_a_run_may_write_so_much_and_no_more(more: int, kept: bool) -> None:
    """A journal takes a line of it."""
    half = "1," + "x" * (MOST_OF_TABLE // 2 - len("1,\n"))
    written = table("a,b", half, half[: -len("a,b\n")] + "y" * more)
    assert bool(own_script._rows(written, "")) is kept


@pytest.mark.parametrize(
    ("written", "before", "kept"),
    [
        (table("a,b", '1,"x\ny"'), "", [["a", "b"], ["1", "x\ny"]]),
        (table("a,b", '1,"open', "2,3"), "", []),
        (table("a,b", "1,2"), table("a,c", "9,9"), []),
        (table("a,b", "9,9", "1,2"), table("a,b", "9,9"), [["a", "b"], ["1", "2"]]),
        (table("a,b", "1,x\x01\x1b[2Jy"), "", [["a", "b"], ["1", "x[2Jy"]]),
    ],
    ids=["a line in a field", "a quote left open", "another head", "what was there", "what steers a terminal"],
)
def test_what_a_table_is_is_read_as_one(written: str, before: str, kept: list[list[str]]) -> None:
    assert rows(own_script._rows(written, before)) == kept


def test_a_mark_of_its_encoding_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert rows(own_script._rows(own_script._read(tmp_path / "table.csv"), ""))[0] == ["a", "b"]


def test_it_sees_the_gpu_and_what_a_failed_run_wrote_is_not_kept(place: Place) -> None:
    sees = WRITES.replace(b"print('one row')", b"import sys\nsys.exit(os.environ['CUDA_VISIBLE_DEVICES'])")
    told = done(place, sees)
    assert [(one.run.summary, one.run.passed, one.table) for one in told.scripts] == [("GPU-1", False, "")]


def test_a_folder_that_leads_out_of_the_tree_leads_to_no_table(place: Place, tmp_path: Path) -> None:
    """A table lies there: it is another's."""
    away = tmp_path / "away"
    away.mkdir()
    (away / Path(OWN).name).write_text("a,b\n1,2\n", encoding="utf-8")
    then = f"place.parent.rmdir(); os.symlink({str(away)!r}, place.parent)"
    assert [one.table for one in done(place, WRITING.format(place=OWN, then=then).encode()).scripts] == ["", ""]


def test_a_late_winner_is_not_called_broken(place: Place) -> None:
    found = done(place, WRITES)
    late = found.scripts[1].run.model_copy(update={"passed": False, "exit_code": None})
    told = found.model_copy(update={"scripts": (found.scripts[0], found.scripts[1].model_copy(update={"run": late}))})
    assert told.passed and not told.broken_scripts
    broken = late.model_copy(update={"exit_code": 1})
    told = found.model_copy(update={"scripts": (found.scripts[0], found.scripts[1].model_copy(update={"run": broken}))})
    assert not told.passed and told.broken_scripts


@pytest.mark.parametrize("text", ['1,"x', "a,\n" * (MOST_OF_TABLE // 3 + 1), "x" * 131073])
def test_what_is_no_table_is_none_at_the_door(text: str) -> None:
    run = CommandRun(argv=("x",), passed=True, exit_code=0, seconds=0.1, summary="ran")
    with pytest.raises(ValidationError):
        ScriptRun(variant=0, run=run, table=text)
