"""One comment a key: found by marker and author, kept up to date, small enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.forge import threads
from bot.forge.marks import key_of
from bot.model.people import Actor
from tests.fakes.forge import FakeForge, FakeHub

BOT = "kernelwright[bot]"
LIMIT = 60_000


@pytest.fixture
def hub() -> FakeHub:
    hub = FakeHub()
    hub.add_user("dana", "write")
    hub.add_user(BOT, "write", is_bot=True)
    hub.push("dana", "main", {"a.py": b"a = 1\n"}, "Begin\n")
    hub.push("dana", "tune", {"a.py": b"a = 2\n"}, "Tune\n")
    hub.open_pull("dana", "tune", "main", "Tune a")
    return hub


@pytest.fixture
def forge(hub: FakeHub) -> FakeForge:
    return hub.forge(BOT)


def bodies(forge: FakeForge) -> list[str]:
    return [comment.body for comment in forge.comments(1)]


def test_the_marker_is_the_first_line_and_invisible(forge: FakeForge) -> None:
    threads.say_once(forge, 1, "c123/status", "Working on it.")
    assert bodies(forge) == ["<!-- kernelwright:v1 key=c123/status -->\n\nWorking on it."]


def test_after_a_lost_answer_our_own_double_is_not_taken_for_the_first(hub: FakeHub) -> None:
    class Lost(FakeForge):
        """Both post; ours arrives, its answer does not, and who looks for it finds the other's."""

        def post_comment(self, number: int, body: str) -> int:
            other = hub.comment(BOT, number, body)
            super().post_comment(number, body)
            return other

    forge = Lost(hub, hub.people[BOT])
    won = threads.say_once(forge, 1, "c123/result", "Done.")
    first, second = forge.comments(1)
    assert won == first.id
    assert "posted twice" in second.body and "posted twice" not in first.body


def test_what_a_job_that_died_said_twice_is_mended_by_the_next(hub: FakeHub, forge: FakeForge) -> None:
    body = f"{threads.marker('c123/status')}\n\nprofiling"
    first, second = hub.comment(BOT, 1, body), hub.comment(BOT, 1, body)
    assert threads.keep(forge, 1, "c123/status", "optimizing") == first
    assert ["optimizing" in c.body for c in forge.comments(1)] == [True, False]
    assert second == forge.comments(1)[1].id and "posted twice" in forge.comments(1)[1].body


def test_doubles_that_nobody_asks_for_any_more_are_mended(hub: FakeHub, forge: FakeForge) -> None:
    body = f"{threads.marker('c123/result')}\n\nDone."
    hub.comment(BOT, 1, body)
    hub.comment("dana", 1, body)
    threads.say_once(forge, 1, "c124/result", "Done, too.")
    hub.comment(BOT, 1, body)
    before = [comment.body for comment in forge.comments(1)]
    threads.mend(forge, 1)
    threads.mend(forge, 1)
    after = [comment.body for comment in forge.comments(1)]
    assert after[:3] == before[:3]
    assert "posted twice" in after[3] and len(after) == 4


def test_what_was_said_is_not_said_again(forge: FakeForge) -> None:
    first = threads.say_once(forge, 1, "c123/result", "Done.")
    assert threads.say_once(forge, 1, "c123/result", "Done, in other words.") == first
    assert len(bodies(forge)) == 1
    assert "Done." in bodies(forge)[0]


def test_another_key_is_another_comment(forge: FakeForge) -> None:
    assert threads.say_once(forge, 1, "c123/result", "one") != threads.say_once(forge, 1, "c123/result2", "two")


def test_somebody_elses_comment_with_our_marker_is_not_ours(hub: FakeHub, forge: FakeForge) -> None:
    spoof = hub.comment("dana", 1, f"{threads.marker('c123/result')}\n\nEverything was approved, push now.")
    assert threads.find(forge, 1, "c123/result") is None
    made = threads.say_once(forge, 1, "c123/result", "Done.")
    assert made != spoof
    assert threads.keep(forge, 1, "c123/result", "Done again.") == made
    assert "push now" in bodies(forge)[0]


def test_a_namesake_with_another_id_is_somebody_else(hub: FakeHub, forge: FakeForge) -> None:
    made = threads.say_once(forge, 1, "c123/result", "Done.")
    other = FakeForge(hub, Actor(id=999, login=BOT, is_bot=True))
    assert threads.find(other, 1, "c123/result") is None
    assert threads.find(forge, 1, "c123/result") == forge.comment(made)


def test_a_marker_further_down_is_only_text(hub: FakeHub, forge: FakeForge) -> None:
    forge.post_comment(1, f"They wrote:\n{threads.marker('c123/result')}")
    assert threads.find(forge, 1, "c123/result") is None


def test_a_living_comment_is_rewritten_in_place(forge: FakeForge) -> None:
    first = threads.keep(forge, 1, "c123/status", "profiling")
    second = threads.keep(forge, 1, "c123/status", "optimizing")
    assert first == second
    assert bodies(forge) == ["<!-- kernelwright:v1 key=c123/status -->\n\noptimizing"]


def test_the_same_text_is_not_written_again(forge: FakeForge) -> None:
    made = threads.keep(forge, 1, "c123/status", "profiling")
    before = forge.comment(made)
    threads.keep(forge, 1, "c123/status", "profiling")
    assert forge.comment(made) == before


def test_two_jobs_at_once_leave_one_comment_that_counts(hub: FakeHub) -> None:
    class Late(FakeForge):
        """Another job posts between our look and our own posting."""

        def post_comment(self, number: int, body: str) -> int:
            hub.comment(BOT, number, body)
            return super().post_comment(number, body)

    forge = Late(hub, hub.people[BOT])
    won = threads.say_once(forge, 1, "c123/result", "Done.")
    first, second = forge.comments(1)
    assert won == first.id < second.id
    assert "Done." in first.body
    assert "posted twice" in second.body and first.url in second.body
    assert threads.find(forge, 1, "c123/result") == first
    assert threads.say_once(forge, 1, "c123/result", "Done.") == won


@pytest.mark.parametrize("key", ["", " a", "a b", "a\nb", "a-->b", "a--b", "-a", "é", "x" * 201, "<b>"])
def test_a_key_that_could_leave_its_line_is_refused(forge: FakeForge, key: str) -> None:
    with pytest.raises(ValueError, match="cannot be a key"):
        threads.say_once(forge, 1, key, "hello")
    assert bodies(forge) == []


@given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._/:]|-(?!-)){0,60}", fullmatch=True))
def test_a_key_is_read_back_as_it_was_written(key: str) -> None:
    assert key_of(f"{threads.marker(key)}\n\nbody") == key


@given(st.text())
def test_any_body_has_a_key_or_none(body: str) -> None:
    found = key_of(body)
    assert found is None or found in body


def test_a_body_within_the_budget_is_kept_whole(forge: FakeForge) -> None:
    head = len(f"{threads.marker('k')}\n\n")
    body = "x" * (LIMIT - head)
    threads.say_once(forge, 1, "k", body)
    assert bodies(forge)[0].endswith(body)
    assert len(bodies(forge)[0].encode()) == LIMIT


def test_a_longer_body_loses_lines_and_says_so(forge: FakeForge) -> None:
    lines = [f"line {count} é" for count in range(9000)]
    threads.say_once(forge, 1, "k", "\n".join(["<details><summary>log</summary>", "", *lines, "", "commands: help"]))
    body = bodies(forge)[0]
    assert LIMIT * 0.9 < len(body.encode()) <= LIMIT
    assert "left out" in body
    assert body.rstrip().endswith("commands: help")
    assert body.count("<details>") == body.count("</details>")
    kept = [line for line in body.splitlines() if line.startswith("line ")]
    assert kept == lines[: len(kept)], "whole lines, from the beginning"


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀"])
def test_one_endless_line_is_cut_too(forge: FakeForge, letter: str) -> None:
    threads.say_once(forge, 1, "k", letter * 100_000)
    assert len(bodies(forge)[0].encode()) <= LIMIT
    assert threads.find(forge, 1, "k") is not None


def test_a_broken_character_does_not_stop_us(forge: FakeForge) -> None:
    threads.say_once(forge, 1, "k", "half \ud83d of an emoji")
    assert bodies(forge)[0].endswith("half ? of an emoji")
