"""Which ideas belong into the plan of a source."""

from __future__ import annotations

from bot.engine.fitting import NUMBERS, fitting
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile
from tests.analysis import made
from tests.engine.library import op, sample

CASE = made.case("forward", cols=4096)


def files(text: str) -> tuple[SourceFile, ...]:
    return (SourceFile(path="src/k.py", text=text),)


def baseline(kernel: str = "_k", block: int = 4096) -> Measurement:
    return made.measurement(made.result(CASE, made.launch(kernel, block=block, warps=2), us=10.0))


ROW = op("""
n_rows, n_cols = x.shape
BLOCK_SIZE = triton.next_power_of_2(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=2)
""")


def test_a_row_that_each_element_of_stands_alone_can_be_tiled_and_given_other_warps() -> None:
    assert fitting(files(ROW), baseline()) == {"tile_rows", NUMBERS}


def test_rows_share_a_program_where_a_case_has_short_ones() -> None:
    assert "rows_at_once" in fitting(files(ROW), baseline(block=2048))
    assert "rows_at_once" not in fitting(files(ROW), baseline("_another", block=2048))


def test_launch_numbers_are_left_out_where_none_can_be_written() -> None:
    """The kernel is launched in a file that is not among these."""
    alone = ROW.split("def run")[0]
    assert fitting(files(alone), baseline()) == frozenset()


def test_launch_numbers_are_left_out_where_nothing_tells_one_gpu_from_another() -> None:
    """They would be for one architecture alone, and nothing here is surely a tensor whose device could be asked."""
    asking = ROW.replace("    n_rows, n_cols = x.shape\n", "")
    assert asking != ROW and fitting(files(asking), baseline()) == {"tile_rows"}


def test_an_idea_fits_as_soon_as_it_fits_one_of_the_files() -> None:
    both = (*files(ROW), SourceFile(path="src/rms_norm.py", text=sample("rms_norm")))
    found = fitting(both, baseline())
    assert found > {"tile_rows", "more_programs"}


def test_an_idea_about_all_files_together_is_asked_of_all_of_them() -> None:
    assert fitting((SourceFile(path="src/jsd.py", text=sample("jsd")),), baseline()) >= {"reduce_loss"}


def test_nothing_fits_what_cannot_be_read() -> None:
    assert fitting(files("def ("), baseline()) == frozenset()
