from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import UserError
from bot.model.reasons import ReasonCode
from bot.targets.base import Target
from bot.targets.contract import read_config
from bot.targets.liger import open_target
from tests.targets.shelf import kernel_files, lay_out

CONFIG = """
[target.kernels.rms_norm]
source = "lib/mine/rms.py"
module = "mine.rms"
source_root = "lib"
test = "tests/norms/test_rms.py"
benchmark = "bench/rms.py"
files = ["lib/mine/launch.py"]

[target.kernels.jsd]
source = "lib/mine/jsd.py"
module = "mine.jsd"
source_root = "lib"
test = "tests/test_jsd.py"
benchmark = "bench/jsd.py"
test_command = ["tox", "--", "{test}"]
style_command = ["pre-commit", "run", "-a"]
"""
FILES = {
    "lib/mine/__init__.py": "",
    "lib/mine/rms.py": "def f(): ...\n",
    "lib/mine/launch.py": "def launch(): ...\n",
    "lib/mine/jsd.py": "",
    "lib/mine/block.py": "from mine.launch import launch\n",
    "tests/norms/test_rms.py": "",
    "tests/test_block.py": "",
    "tests/test_jsd.py": "",
    "bench/rms.py": "",
    "bench/jsd.py": "",
}


def described(root: Path, gone: str = "") -> Target:
    files = {path: text for path, text in FILES.items() if path != gone}
    return open_target(lay_out(root, files), read_config(CONFIG))


def test_who_launches_a_kernel_itself_relies_on_it(tmp_path: Path) -> None:
    asks = {"lib/mine/rms.py": "def _one(x): ...\ndef _two(x): ...\n", "bench/rms.py": "from mine.rms import _two\n"}
    site = open_target(lay_out(tmp_path, {**FILES, **asks}), read_config(CONFIG)).site("rms_norm")
    assert site.relied_on == ("_two",)


def test_kernels_are_found_where_they_were_said_to_be(tmp_path: Path) -> None:
    target = described(tmp_path)
    assert target.preset == "toml" and target.kernels() == ("jsd", "rms_norm")
    site = target.site("rms_norm")
    assert site.files == ("lib/mine/rms.py", "lib/mine/launch.py") == target.files("rms_norm")
    assert (site.module, site.source_root) == ("mine.rms", "lib")
    assert (site.test_file, site.benchmark_file) == ("tests/norms/test_rms.py", "bench/rms.py")
    assert site.dependent_tests == ("tests/test_block.py",) and site.relied_on == ()
    assert site.style_command == ("{python}", "-m", "ruff", "check", *site.files)
    assert site.environment == (("PYTHONPATH", "lib"), ("TRITON_INTERPRET", "1"))
    assert {case.id for case in target.suite("rms_norm", "quick").cases} < {
        c.id for c in target.suite("rms_norm").cases
    }


def test_commands_are_the_repositorys_own(tmp_path: Path) -> None:
    site = described(tmp_path).site("jsd", with_gpu=True)
    assert site.test_command == ("tox", "--", "{test}")
    assert site.style_command == ("pre-commit", "run", "-a")
    assert site.environment == (("PYTHONPATH", "lib"),)


@pytest.mark.parametrize("gone", ["lib/mine/rms.py", "lib/mine/launch.py", "tests/norms/test_rms.py", "bench/rms.py"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, gone: str) -> None:
    target = described(tmp_path, gone)
    assert target.missing("rms_norm") == (gone,) and target.kernels() == ("jsd",)
    for act in (lambda: target.site("rms_norm"), lambda: target.suite("rms_norm")):
        with pytest.raises(UserError, match=gone) as refused:
            act()
        assert refused.value.reason is ReasonCode.PREFLIGHT_FAILED
        assert "correct the paths in [target.kernels.rms_norm]" in refused.value.hint


def test_a_kernel_nobody_described(tmp_path: Path) -> None:
    target = described(tmp_path)
    for act in (lambda: target.missing("softmax"), lambda: target.site("softmax"), lambda: target.files("../x")):
        with pytest.raises(UserError) as refused:
            act()
        assert refused.value.reason is ReasonCode.UNKNOWN_KERNEL and "jsd, rms_norm" in refused.value.hint


def test_a_description_goes_before_the_layout(tmp_path: Path) -> None:
    tree = lay_out(tmp_path, {**FILES, **kernel_files("softmax")})
    assert open_target(tree, read_config(CONFIG)).kernels() == ("jsd", "rms_norm")
    assert open_target(tree, read_config('[target]\npreset = "liger"')).kernels() == ("softmax",)
