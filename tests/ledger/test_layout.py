from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import CorruptRecord, UserError
from bot.ledger.layout import campaign_dir, check_record, is_campaign, journal_path, plot_path, tips_path


def test_where_things_stand() -> None:
    assert campaign_dir("123-1") == "campaigns/123-1"
    assert journal_path("123-1") == "campaigns/123-1/journal.jsonl"
    assert plot_path("123-1", "speedup") == "campaigns/123-1/plots/speedup-light.png"
    assert plot_path("123-1", "speedup", dark=True) == "campaigns/123-1/plots/speedup-dark.png"


def test_tips_are_filed_by_gpu() -> None:
    assert tips_path("NVIDIA H200", "rms_norm", "triton") == "tips/nvidia-h200/rms_norm/triton/tips.md"
    assert tips_path("../../etc", "", "..") == "tips/etc/unknown/unknown/tips.md"


@given(st.tuples(st.text(), st.text(), st.text()))
def test_any_words_make_a_path_that_tips_may_have(words: tuple[str, str, str]) -> None:
    path = tips_path(*words)
    if len(path) <= 255:
        assert check_record("c1", path) == path


@pytest.mark.parametrize(
    ("name", "fits"), [("a", True), ("a" * 96, True), ("a" * 97, False), ("", False), ("-a", False), ("A", False)]
)
def test_names_of_campaigns(name: str, fits: bool) -> None:
    assert is_campaign(name) is fits
    if not fits:
        with pytest.raises(UserError, match="not a campaign's name"):
            campaign_dir(name)


def test_a_hostile_name_is_quoted() -> None:
    with pytest.raises(UserError) as refused:
        campaign_dir("@everyone\n<script>" + "x" * 5000)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 200


def test_the_journal_is_nobodys_record() -> None:
    assert check_record("c1", "campaigns/c1/report.md")
    with pytest.raises(CorruptRecord, match="may not write"):
        check_record("c1", "campaigns/c1/journal.jsonl")
