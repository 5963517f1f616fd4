"""`kernelwright judge-suite`: what is wrong with a folder is said before anything runs, and nothing judged is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bot.bench import gpu as gpus
from bot.bench.suite_files import Exhibit
from bot.bench.suite_run import Outcome, Steps
from bot.cli import judge_suite as verb
from bot.cli.judge_suite import open_court
from bot.errors import OperatorError, UserError


def outcome(exhibit: Exhibit, *, match: bool = True) -> Outcome:
    reasons = exhibit.reasons if match else ()
    verdict = "REJECTED" if reasons else "CHECKED"
    return Outcome(f"{exhibit.op}/{exhibit.path.name}", exhibit.op, verdict, reasons, exhibit.expected, match, "", 0.1)


class Room:
    """A court and its bench in one, which lets through what has `slips` in its name and breaks at `breaks`."""

    opened: tuple[str, ...] = ()
    steps: Steps | None = None

    def hear_all(self, exhibits: list[Exhibit], steps: Steps, at_once: int) -> list[Outcome]:
        Room.steps = steps
        return [self._hear(exhibit) for exhibit in exhibits]

    def _hear(self, exhibit: Exhibit) -> Outcome:
        if "breaks" in exhibit.path.stem:
            raise OperatorError("the judge is gone")
        return outcome(exhibit, match="slips" not in exhibit.path.stem)

    def close(self) -> None:
        Room.opened += ("closed",)


@pytest.fixture(autouse=True)
def no_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_court(root: Path, target: object, op: str, *rest: object) -> tuple[Room, Room]:
        Room.opened += (op,)
        room = Room()
        return room, room

    Room.opened, Room.steps = (), None
    monkeypatch.setattr(verb, "open_court", open_court)


def judged(folder: Path, *words: str) -> Result:
    command = verb.judge_suite
    return CliRunner().invoke(command, ["--path", str(folder), *words], standalone_mode=False)


def suite(root: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


CHEAT, HONEST = "# expect: REJECTED correctness\n", "# expect: PASS\n"


def test_all_as_expected_leaves_with_zero(tmp_path: Path) -> None:
    folder = suite(tmp_path / "s", softmax__a=CHEAT, geglu__b=HONEST)
    done = judged(folder, "--json", str(tmp_path / "out.json"))
    assert done.return_value == 0
    told = json.loads((tmp_path / "out.json").read_text())
    assert [(one["file"], one["verdict"], one["reasons"], one["match"]) for one in told] == [
        ("geglu/b.py", "CHECKED", [], True),
        ("softmax/a.py", "REJECTED", ["correctness"], True),
    ]
    assert Room.opened == ("geglu", "closed", "softmax", "closed"), "one bench an op"
    assert "2 files judged, 0 not as expected" in done.output


def test_one_that_gets_through_leaves_with_one(tmp_path: Path) -> None:
    done = judged(suite(tmp_path, softmax__a=CHEAT, softmax__slips=CHEAT))
    assert done.return_value == 1
    assert "MISS  softmax/slips.py" in done.output
    assert "expected REJECTED correctness; nothing was said against it" in done.output


def test_what_was_judged_before_an_accident_is_kept(tmp_path: Path) -> None:
    folder = suite(tmp_path / "s", geglu__a=CHEAT, softmax__breaks=CHEAT)
    done = judged(folder, "--json", str(tmp_path / "out.json"))
    assert isinstance(done.exception, OperatorError)
    assert [one["file"] for one in json.loads((tmp_path / "out.json").read_text())] == ["geglu/a.py"]
    assert Room.opened[-1] == "closed"


def test_files_of_another_tier_are_counted_not_judged(tmp_path: Path) -> None:
    done = judged(suite(tmp_path, softmax__a=CHEAT, softmax__b="# expect: PASS\n# tier: gpu\n"))
    assert "1 files are of another tier than cpu" in done.output
    assert "1 files judged" in done.output


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ((), Steps()),
        (("--without-static",), Steps(static=False)),
        (("--checks-only",), Steps(timing=False)),
    ],
)
def test_how_far_files_are_followed(words: tuple[str, ...], steps: Steps, tmp_path: Path) -> None:
    judged(suite(tmp_path, softmax__a=CHEAT), *words)
    assert Room.steps == steps


def test_a_folder_that_cannot_be_judged_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for folder in (tmp_path, suite(tmp_path / "op", relu__a=CHEAT), suite(tmp_path / "line", softmax__a="import os\n")):
        assert isinstance(judged(folder).exception, UserError)
    assert isinstance(judged(suite(tmp_path / "ok", softmax__a=CHEAT), "--op", "relu").exception, UserError)
    assert Room.opened == ()


def test_a_path_is_asked_for() -> None:
    assert CliRunner().invoke(verb.judge_suite, []).exit_code == 2


def test_the_gpu_tier_without_a_gpu_offers_the_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "find_gpus", lambda: ())
    root = verb.sample()
    with pytest.raises(OperatorError) as found:
        open_court(root, verb.target_of(root), "rms_norm", "python", tmp_path, "gpu")
    assert found.value.hint == "--tier cpu judges without one"
