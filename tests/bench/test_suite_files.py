"""What a file of a suite says of itself, and what is said to people whose files say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.bench.suite_files import Exhibit, read_suite
from bot.errors import UserError

OPS = ("rms_norm", "softmax")
KNOWN = ("honesty", "correctness", "fault")


def files(root: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def only(root: Path, text: str) -> Exhibit:
    (found,) = read_suite(files(root, softmax__one=text), OPS, KNOWN)
    return found


def refused(root: Path, op: str | None = None) -> str:
    with pytest.raises(UserError) as error:
        read_suite(root, OPS, KNOWN, op)
    assert error.value.hint
    return str(error.value)


def test_a_file_that_must_pass(tmp_path: Path) -> None:
    found = only(tmp_path, "# expect: PASS\nimport torch\n")
    assert (found.op, found.reasons, found.tier, found.expected) == ("softmax", (), "both", "PASS")
    assert found.text == "# expect: PASS\nimport torch\n", "it is judged with its declaration"


def test_a_file_that_must_not_and_why(tmp_path: Path) -> None:
    found = only(tmp_path, "# expect: REJECTED honesty|correctness\n# tier: gpu\n")
    assert (found.reasons, found.tier) == (("honesty", "correctness"), "gpu")
    assert found.expected == "REJECTED honesty|correctness"
    assert (found.is_for("gpu"), found.is_for("cpu")) == (True, False)


@pytest.mark.parametrize("tier", ["cpu", "gpu"])
def test_both_is_for_either(tier: str, tmp_path: Path) -> None:
    assert only(tmp_path, "# expect: PASS\n# tier: both\n").is_for(tier)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the first line is ''"),
        ("import torch\n", "the first line is 'import torch'"),
        ("# expect: MAYBE\n", "the first line is '# expect: MAYBE'"),
        ("# expect: REJECTED\n", "the first line"),
        ("# expect: REJECTED honesty|\n", "the first line"),
        ("# expect: REJECTED luck\n", "'luck' is no guardrail"),
        ("# expect: PASS\n# tier: tpu\n", "the second line is '# tier: tpu'"),
    ],
)
def test_a_line_that_says_nothing_is_named(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(files(tmp_path, softmax__one=text, softmax__two="# expect: PASS\n"))


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    root = files(tmp_path, softmax__one="x", rms_norm__two="y", rms_norm__fine="# expect: PASS\n")
    assert len(refused(root).splitlines()) == 2


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    files(tmp_path, softmax__one="# expect: PASS\n")
    (tmp_path / "softmax" / "raw.py").write_bytes(b"\xff\xfe")
    assert "softmax/raw.py: it is not UTF-8" in refused(tmp_path)


def test_no_file_is_left_out_in_silence(tmp_path: Path) -> None:
    assert "there is no file to judge" in refused(tmp_path)
    assert "relu/one.py belongs to no op" in refused(files(tmp_path / "a", relu__one="# expect: PASS\n"))
    assert "loose.py belongs to no op" in refused(files(tmp_path / "b", loose="# expect: PASS\n"))


def test_one_op_alone(tmp_path: Path) -> None:
    root = files(tmp_path, softmax__one="# expect: PASS\n", rms_norm__two="nonsense")
    assert [found.op for found in read_suite(root, OPS, KNOWN, "softmax")] == ["softmax"]
    assert "unknown op 'relu'" in refused(root, "relu")
    assert "there is no file" in refused(files(tmp_path / "c", rms_norm__two="# expect: PASS\n"), "softmax")
