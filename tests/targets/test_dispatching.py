"""What a kernel asks its library's dispatcher for, and how the library's own tests are told to take its Triton."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bot.targets.contract import read_config
from bot.targets.dispatching import MOST, dispatched, forced
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree
from tests.targets.shelf import kernel_files, lay_out

LIGER = os.environ.get("KERNELWRIGHT_LIGER", "")
OP, BACKEND, MODULE = "src/pkg/ops/jsd.py", "src/pkg/ops/backends/_triton/jsd.py", "src/pkg/transformers/jsd.py"
FILES = {
    **kernel_files("jsd"),
    OP: "from pkg.backends import dispatch\n\ndef forward(x):\n    return dispatch('jsd_loss', x, impl=None)\n",
    BACKEND: "from pkg.ops.jsd import _k\n\n@register_op('jsd', impl_name='nvidia-triton')\n"
    "def f(x):\n    _k[(1,)](x)\n",
}


def asked(root: Path, text: str) -> tuple[str, ...]:
    return dispatched(lay_out(root, {"op.py": text}), ["op.py", "gone.py"], "pkg.functional")


def test_ops_are_asked_for_by_name(tmp_path: Path) -> None:
    text = "dispatch('one', x)\nbackends.dispatch('two')\ndispatch('one')\ndispatch(name)\nask('three')\ndispatch(4)\n"
    assert asked(tmp_path, text) == ("one", "two")


def test_or_by_the_function_that_asks_for_them(tmp_path: Path) -> None:
    text = "from pkg.functional import layer_norm as _norm\nfrom .functional import here\nfrom other import rope\n"
    assert asked(tmp_path, text) == ("layer_norm",)


@pytest.mark.parametrize("text", ["def (", "", "dispatch('@all')", "dispatch('a b')", f"dispatch('{61 * 'x'}')", "\0"])
def test_what_cannot_be_read_or_is_no_name_asks_for_nothing(text: str, tmp_path: Path) -> None:
    assert asked(tmp_path, text) == ()


def test_names_are_few_and_short(tmp_path: Path) -> None:
    assert asked(tmp_path / "long", f"dispatch('{60 * 'x'}')") == (60 * "x",)
    many = asked(tmp_path / "many", "".join(f"dispatch('op_{n}')\n" for n in range(MOST + 1)))
    assert many == tuple(f"op_{n}" for n in range(MOST))


def test_a_kernel_knows_its_ops_and_its_tests_take_the_triton_of_them(tmp_path: Path) -> None:
    site = open_target(lay_out(tmp_path, FILES), read_config(None)).site("jsd", with_gpu=True)
    assert site.files == (OP, BACKEND) and site.dispatches == ("jsd_loss",)
    assert site.environment == (
        ("PYTHONPATH", "src"),
        ("LIGER_KERNEL_IMPL_JSD_LOSS", "nvidia-triton"),
        ("LIGER_KERNEL_IMPL_JSD", "nvidia-triton"),
    )


def test_so_it_does_where_the_module_asks_that_people_have_it_from(tmp_path: Path) -> None:
    files = {**kernel_files("jsd"), MODULE: "def jsd(x):\n    return dispatch('jsd', x)\n"}
    site = open_target(lay_out(tmp_path, files), read_config(None)).site("jsd", with_gpu=True)
    assert site.dispatches == ("jsd",)
    assert dict(site.environment)["LIGER_KERNEL_IMPL_JSD"] == "nvidia-triton"


def test_by_a_function_it_is_only_reported(tmp_path: Path) -> None:
    """liger-kernel's tests of layer_norm pin one language after the other, which a variable would overrule."""
    files = {**kernel_files("jsd"), MODULE: "from pkg.functional import jsd\n"}
    site = open_target(lay_out(tmp_path, files), read_config(None)).site("jsd", with_gpu=True)
    assert (site.dispatches, site.environment) == (("jsd",), (("PYTHONPATH", "src"),))


def test_a_library_without_a_dispatcher_is_run_as_ever(tmp_path: Path) -> None:
    site = open_target(lay_out(tmp_path, kernel_files("jsd")), read_config(None)).site("jsd", with_gpu=True)
    assert (site.dispatches, site.environment) == ((), (("PYTHONPATH", "src"),))
    assert forced(lay_out(tmp_path / "odd", {OP: "def ("}), [OP]) == ()


@pytest.mark.skipif(not LIGER, reason="set KERNELWRIGHT_LIGER to an unpacked sdist of liger-kernel 0.8.5")
def test_which_kernels_of_liger_kernel_ask() -> None:
    target = open_target(DirectoryTree(Path(LIGER)), read_config(None))
    sites = {kernel: target.site(kernel, with_gpu=True) for kernel in target.kernels()}
    assert {kernel: site.dispatches for kernel, site in sites.items() if site.dispatches} == {
        "cross_entropy": ("cross_entropy",),
        "fused_linear_cross_entropy": ("cross_entropy_loss_and_grad",),
        "fused_linear_jsd": ("jsd_loss_and_grad",),
        "fused_linear_kl_div": ("kl_loss_and_grad",),
        "jsd": ("jsd_loss_and_grad",),
        "layer_norm": ("layer_norm",),
        "rope": ("rope",),
    }
    told = {kernel for kernel, site in sites.items() if len(site.environment) > 1}
    assert told == {kernel for kernel, site in sites.items() if site.dispatches} - {"layer_norm"}
