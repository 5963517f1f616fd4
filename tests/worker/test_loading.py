"""What is imported is the variant, or it is not used."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from bot.worker.__main__ import told
from bot.worker.contract import Proof, Subject
from bot.worker.loading import NotTheVariant, OpMissing, load_op, op_name, origin_of, prove

OP = "import torch\n\nclass Op(torch.autograd.Function):\n    pass\n"


@pytest.mark.parametrize(
    "source",
    [
        OP,
        "from torch.autograd import Function\nclass Op(Function):\n    pass\n",
        OP + "class Helper:\n    pass\n\nclass Error(ValueError):\n    pass\n",
    ],
)
def test_the_one_autograd_function_is_the_op(source: str) -> None:
    assert op_name(source) == "Op"


@pytest.mark.parametrize("source", ["", "x = 1\n", OP + "class Two(torch.autograd.Function):\n    pass\n"])
def test_none_or_two_are_refused(source: str) -> None:
    with pytest.raises(OpMissing, match=r"expected one autograd\.Function"):
        op_name(source)


def library(root: Path, name: str, text: str = OP) -> Subject:
    (root / name).mkdir()
    (root / name / "__init__.py").write_text("")
    (root / name / "op.py").write_text(text)
    proof = Proof(f"{name}/op.py", hashlib.sha256(text.encode()).hexdigest())
    return Subject(str(root), f"{name}.op", f"{name}/op.py", (proof,))


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_the_op_is_loaded_from_the_overlay(tmp_path: Path) -> None:
    op = load_op(library(tmp_path, "lib_loaded"))
    assert op.__name__ == "Op"
    assert sys.path[0] == str(tmp_path)


def test_a_file_that_changed_on_disk_is_not_the_variant(tmp_path: Path) -> None:
    subject = library(tmp_path, "lib_changed")
    (tmp_path / "lib_changed/op.py").write_text(OP + "# later\n")
    with pytest.raises(NotTheVariant, match=r"lib_changed/op\.py is not the variant's text"):
        load_op(subject)


def test_a_module_that_came_from_elsewhere_is_not_the_variant(tmp_path: Path) -> None:
    """The false pass of an overlay behind an installed copy: the stock file is tested and nobody notices."""
    installed, overlay = tmp_path / "installed", tmp_path / "overlay"
    installed.mkdir()
    overlay.mkdir()
    load_op(library(installed, "lib_twice"))
    with pytest.raises(NotTheVariant, match=r"lib_twice\.op was loaded from .*installed"):
        load_op(library(overlay, "lib_twice"))


def test_a_file_nobody_imported_yet_is_proved_by_its_text_alone(tmp_path: Path) -> None:
    subject = library(tmp_path, "lib_later")
    prove(tmp_path, subject.files)


def test_a_name_that_is_no_function_after_import_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OpMissing, match="is not an autograd"):
        load_op(library(tmp_path, "lib_rebound", OP + "Op = 3\n"))


def test_the_origin_of_a_function_is_its_file_below_the_root(tmp_path: Path) -> None:
    subject = library(tmp_path, "lib_origin", OP + "\ndef kernel(x):\n    return x\n")
    load_op(subject)
    kernel = sys.modules["lib_origin.op"].kernel
    assert origin_of(kernel, tmp_path) == ("lib_origin/op.py", subject.files[0].sha256)
    assert origin_of(kernel, tmp_path / "elsewhere") == ("op.py", subject.files[0].sha256)


def test_a_function_whose_text_is_in_no_file_has_no_digest(tmp_path: Path) -> None:
    space: dict[str, object] = {}
    exec(compile("def kernel(x):\n    return x\n", "<made up>", "exec"), space)
    assert origin_of(space["kernel"], tmp_path) == ("<made up>", "")


def test_of_two_functions_the_one_that_is_asked_for_is_the_op() -> None:
    two = "".join(f"class {name}(torch.autograd.Function): ...\n" for name in ("One", "Other"))
    assert op_name(two, "Other") == "Other"
    assert op_name("class One(torch.autograd.Function): ...\n", "Other") == "One", "a fork may have another name for it"
    with pytest.raises(OpMissing):
        op_name(two, "Third")


def raised(subject: Subject) -> str:
    """What an answer tells of the error."""
    try:
        load_op(subject)
    except Exception as error:
        return told(error, Path(subject.root))
    raise AssertionError("it was loaded")


def test_an_error_names_the_line_of_the_library_and_no_file_of_ours(tmp_path: Path) -> None:
    broken = raised(library(tmp_path, "lib_broken", OP + "def broken(:\n"))
    assert broken == "SyntaxError: invalid syntax (lib_broken/op.py:5)"
    missing = raised(library(tmp_path, "lib_missing", "import nowhere_at_all\n" + OP))
    assert missing == "ModuleNotFoundError: No module named 'nowhere_at_all' (lib_missing/op.py:1)"
    nothing = raised(library(tmp_path, "lib_nothing", "x = 1\n"))
    assert nothing == "OpMissing: expected one autograd.Function in lib_nothing/op.py, found none"
    deep = raised(library(tmp_path, "lib_deep", "import json\njson.loads('(')\n" + OP))
    assert deep.startswith("JSONDecodeError: ") and deep.endswith(" (lib_deep/op.py:2)")


def test_an_error_of_grammar_in_another_file_is_told_by_that_file(tmp_path: Path) -> None:
    subject = library(tmp_path, "lib_beside", "import lib_beside.more\n" + OP)
    (tmp_path / "lib_beside/more.py").write_text("x = 1\n  y = 2\n")
    assert raised(subject) == "IndentationError: unexpected indent (lib_beside/more.py:2)"


def test_what_nothing_of_the_library_led_to_names_a_file_that_is_not_ours(tmp_path: Path) -> None:
    try:
        json.loads("(")
    except ValueError as error:
        assert re.search(r"\(decoder\.py:\d+\)$", told(error, tmp_path))
    hostile = SyntaxError("no", ("<made up>", None, 0, ""))
    assert told(hostile, tmp_path) == "SyntaxError: no (<made up>)"
    hostile.filename = 3  # type: ignore[assignment]
    assert told(hostile, tmp_path).startswith("SyntaxError: no")
    assert told(ValueError("alone"), tmp_path) == "ValueError: alone"
