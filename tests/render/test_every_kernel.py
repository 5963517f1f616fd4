"""The table of all kernels over both GPUs: of each the last campaign that came to its end."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bot.render import numbers
from bot.targets.sizes import SIZES
from tests.render.scripts import RESULTS, script
from tests.render.test_campaigns_table import FIRST, OF_H100, SECOND, TABLE, facts, journal, text_of, until, write

EVERY = script("..", "every_kernel")
README = RESULTS.parent / "README.md"


def test_the_readme_says_what_lies_beside_it() -> None:
    said = README.read_text(encoding="utf-8")
    assert EVERY.TABLE.written(said, EVERY.page()) == said, "run docs/results/every_kernel.py"


def test_every_kernel_has_a_row_that_leads_to_its_journal() -> None:
    found = {one.kernel: EVERY.row(one, folder) for one, folder in EVERY.last_ones(EVERY.FOLDERS).values()}
    assert set(found) == set(SIZES)
    for kernel, (link, *_) in found.items():
        assert link.startswith(f"[{kernel}](") and (README.parent / link.partition("(")[2].rstrip(")")).is_file()


def of(*folders: Path) -> dict[str, str]:
    return {kernel: f"{folder.name}/{one.folder}" for kernel, (one, folder) in EVERY.last_ones(folders).items()}


def test_of_two_gpus_the_later_one_counts_and_what_did_not_end_does_not(tmp_path: Path) -> None:
    write(tmp_path / "older", "a", text_of(FIRST))
    assert of(tmp_path / "older", tmp_path / "newer") == {"rms_norm": "older/a"}
    later = write(tmp_path / "newer", "b", journal(until(facts(SECOND), "variant_judged", 2)))
    assert of(tmp_path / "older", tmp_path / "newer") == {"rms_norm": "older/a"}
    later.write_text(text_of(SECOND), encoding="ascii")
    assert (
        of(tmp_path / "older", tmp_path / "newer")
        == of(tmp_path / "newer", tmp_path / "older")
        == {"rms_norm": "newer/b"}
    )


def test_a_winner_whose_tests_failed_is_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(SECOND))
    ((one, folder),) = EVERY.last_ones([tmp_path]).values()
    assert EVERY.row(one, folder)[1] == "1.00x, as it was" and "tests failed" in EVERY.row(one, folder)[4]
    assert f"over 1 of the {len(SIZES)} kernels: **1.00x**" in EVERY.means([one])


def test_the_mean_is_of_what_each_campaign_gave(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(FIRST))
    (first,) = TABLE.read_all(tmp_path)
    second = next(one for one in TABLE.read_all(OF_H100) if one.kernel == "sparsemax" and TABLE.gave([one]))
    both = numbers.ratio(math.sqrt(TABLE.gave([first]) * TABLE.gave([second])))
    said = EVERY.means([first, second])
    assert f"over 2 of the {len(SIZES)} kernels: **{both}**" in said
    assert f"over 1 of the 15 whose stock times were known before: **{numbers.ratio(TABLE.gave([first]))}**" in said


def test_the_roof_is_held_against_v0_and_no_winner_is_beyond_it() -> None:
    """A winner that saves its op a pass over memory may come near; what is known of every case says how near."""
    for kernel, (one, _) in EVERY.last_ones(EVERY.FOLDERS).items():
        assert EVERY.at_roof(one) >= (TABLE.gave([one]) or 1.0), kernel


def test_a_case_without_a_roof_counts_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(FIRST))
    (one,) = TABLE.read_all(tmp_path)
    assert EVERY.at_roof(one) > 1.5
    monkeypatch.setattr(EVERY, "case_percent", lambda *_: None)
    assert EVERY.at_roof(one) == 1.0
    monkeypatch.setattr(EVERY, "case_percent", lambda *_: 50.0)
    assert EVERY.at_roof(one) == pytest.approx(2.0)
    monkeypatch.setattr(EVERY, "case_percent", lambda *_: 120.0)
    assert EVERY.at_roof(one) == 1.0


def test_nothing_that_ended_is_said(tmp_path: Path) -> None:
    assert EVERY.page([tmp_path]) == "No campaign came to its end yet.\n"
