from __future__ import annotations

import os
from pathlib import Path

import pytest

from bot.errors import UserError
from bot.model.reasons import ReasonCode
from bot.targets.base import hindrance
from bot.targets.contract import read_config
from bot.targets.liger import FILES, NO_RECIPE, OPS, LigerTarget, open_target
from bot.targets.sizes import SIZES
from bot.targets.tree import DirectoryTree
from tests.targets.shelf import MAKEFILE, kernel_files, lay_out

SAMPLE = Path(__file__).parents[2] / "templates" / "sample"
LIGER = os.environ.get("KERNELWRIGHT_LIGER", "")
"""An unpacked source distribution of liger-kernel 0.8.5."""
TWO = {**kernel_files("rms_norm"), **kernel_files("softmax")}
DEFAULT = read_config(None)


def refused(code: ReasonCode, act: object) -> UserError:
    with pytest.raises(UserError) as error:
        act()  # type: ignore[operator]
    assert error.value.reason is code and error.value.hint
    return error.value


def target(root: Path, files: dict[str, str]) -> LigerTarget:
    found = open_target(lay_out(root, files), DEFAULT)
    assert isinstance(found, LigerTarget)
    return found


def test_kernels_have_an_op_a_test_a_benchmark_and_a_recipe(tmp_path: Path) -> None:
    files = {**TWO, **kernel_files("tiled_mlp"), "src/pkg/ops/geglu.py": "", "src/pkg/ops/utils.py": ""}
    assert target(tmp_path, files).kernels() == ("rms_norm", "softmax")


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_exactly_what_is_missing_is_named(tmp_path: Path, gone: int) -> None:
    path = list(kernel_files("rms_norm"))[gone]
    files = {**TWO}
    del files[path]
    found = target(tmp_path, files)
    assert found.missing("rms_norm") == (path,)
    assert found.kernels() == ("softmax",)
    for act in (lambda: found.site("rms_norm"), lambda: found.suite("rms_norm"), lambda: found.files("rms_norm")):
        assert path in str(refused(ReasonCode.PREFLIGHT_FAILED, act))
    why = found.refused("rms_norm")
    assert why is not None and path in str(why) and "that file" in why.hint and "can be proved" in why.hint


def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    assert target(tmp_path, {**TWO}).missing("jsd") == (
        "src/pkg/ops/jsd.py",
        "benchmark/scripts/benchmark_jsd.py",
        "test/transformers/test_jsd.py",
    )


def test_two_files_are_asked_for_and_of_a_kernel_without_any_nothing_is(tmp_path: Path) -> None:
    found = target(tmp_path, {**TWO, "src/pkg/ops/jsd.py": ""})
    why = found.refused("jsd")
    assert why is not None and "those files" in why.hint
    assert found.refused("geglu") is None and str(hindrance(found, "geglu")).startswith("'geglu' is not a kernel")
    assert hindrance(found, "rms_norm") is None


def test_an_unknown_kernel_is_answered_with_the_nearest(tmp_path: Path) -> None:
    found = target(tmp_path, TWO)
    error = refused(ReasonCode.UNKNOWN_KERNEL, lambda: found.site("rms_nrm"))
    assert "did you mean `rms_norm`?" in error.hint and "rms_norm, softmax" in error.hint
    refused(ReasonCode.UNKNOWN_KERNEL, lambda: found.suite("jsd"))


def test_a_kernel_without_a_recipe_cannot_be_judged(tmp_path: Path) -> None:
    found = target(tmp_path, {**TWO, **kernel_files("mhc"), **kernel_files("newest")})
    assert found.missing("mhc") == ()
    for kernel, why in (("mhc", "mhc_coeffs, mhc_post_res and mhc_pre"), ("newest", "no recipe for it yet")):
        for act in (found.site, found.suite, found.files):
            error = refused(ReasonCode.UNKNOWN_KERNEL, lambda act=act, kernel=kernel: act(kernel))
            assert kernel in str(error) and why in str(error)
            assert "rms_norm, softmax" in error.hint and "docs/kernels.md" in error.hint


def test_a_kernel_that_needs_more_than_one_gpu_is_refused_with_that_reason(tmp_path: Path) -> None:
    found = target(tmp_path, {**TWO, "src/pkg/ops/vocab_parallel_cross_entropy.py": ""})
    assert found.refused("softmax") is None and found.refused("nothing") is None and found.refused("../x") is None
    error = refused(ReasonCode.UNKNOWN_KERNEL, lambda: found.site("vocab_parallel_cross_entropy"))
    assert "several GPUs" in str(error) and "softmax" in error.hint


def test_every_reason_is_of_a_kernel_without_a_recipe() -> None:
    assert not set(NO_RECIPE) & set(SIZES)


def test_of_several_functions_in_a_file_the_one_that_is_meant_is_named(tmp_path: Path) -> None:
    found = target(tmp_path, {**TWO, **kernel_files("swiglu")})
    assert found.site("swiglu").op == "LigerSiLUMulFunction" and found.site("softmax").op == ""


def test_several_kernels_may_stand_in_the_files_of_another_name(tmp_path: Path) -> None:
    found = target(tmp_path, {**TWO, **kernel_files("mhc")})
    assert found.kernels() == ("mhc_coeffs", "mhc_post_res", "mhc_pre", "rms_norm", "softmax")
    site = found.site("mhc_pre")
    assert site.kernel == "mhc_pre" and site.op == "LigerMHCPreFunction" and site.module == "pkg.ops.mhc"
    assert site.files == ("src/pkg/ops/mhc.py",)
    assert (site.test_file, site.benchmark_file) == (
        "test/transformers/test_mhc.py",
        "benchmark/scripts/benchmark_mhc.py",
    )
    assert {found.site(kernel).op for kernel in FILES} == {OPS[kernel] for kernel in FILES}


def test_the_kernels_that_an_op_launches_from_a_file_of_their_own_belong_to_it(tmp_path: Path) -> None:
    op, own = "src/pkg/ops/fused_moe.py", "src/pkg/ops/fused_moe_kernels.py"
    launches = "from pkg.ops.fused_moe_kernels import _up\ndef run(x):\n    _up[(1,)](x)\n"
    both = {**TWO, **kernel_files("fused_moe"), op: launches, own: ""}
    assert target(tmp_path / "both", both).files("fused_moe") == (op, own)
    assert target(tmp_path / "unused", {**both, op: "def run(x): ...\n"}).files("fused_moe") == (op,)
    gone = {path: text for path, text in both.items() if path != own}
    assert target(tmp_path / "gone", gone).files("fused_moe") == (op,)


@pytest.mark.parametrize(
    "name", ["../rms_norm", "rms_norm/../x", "", "RMS", "rms norm", "@everyone", "x" * 65, "rms_norm\n", "è"]
)
def test_a_hostile_name_is_no_kernel(tmp_path: Path, name: str) -> None:
    found = target(tmp_path, TWO)
    for act in (lambda: found.missing(name), lambda: found.site(name)):
        error = refused(ReasonCode.UNKNOWN_KERNEL, act)
        assert "\n" not in str(error) and len(str(error)) < 200


def test_where_a_kernel_lives(tmp_path: Path) -> None:
    site = target(tmp_path, {**TWO, "Makefile": MAKEFILE}).site("rms_norm")
    assert site.preset == "liger" and site.source_root == "src" and site.module == "pkg.ops.rms_norm"
    assert site.files == ("src/pkg/ops/rms_norm.py",)
    assert site.test_file == "test/transformers/test_rms_norm.py"
    assert site.benchmark_file == "benchmark/scripts/benchmark_rms_norm.py"
    assert site.test_command[0] == "{python}" and "{test}" in site.test_command
    assert site.style_command == ("make", "checkstyle") and site.dependent_tests == ()


@pytest.mark.parametrize("makefile", ["", "lint:\n\truff check\n"])
def test_without_checkstyle_ruff_looks_at_the_files(tmp_path: Path, makefile: str) -> None:
    site = target(tmp_path, {**TWO, "Makefile": makefile}).site("rms_norm")
    assert site.style_command == ("{python}", "-m", "ruff", "check", "src/pkg/ops/rms_norm.py")


def test_tests_are_interpreted_only_where_there_is_no_gpu(tmp_path: Path) -> None:
    found = target(tmp_path, TWO)
    assert dict(found.site("softmax", with_gpu=False).environment) == {"PYTHONPATH": "src", "TRITON_INTERPRET": "1"}
    assert dict(found.site("softmax", with_gpu=True).environment) == {"PYTHONPATH": "src"}


def test_who_builds_on_a_kernel_is_tested_with_it(tmp_path: Path) -> None:
    files = {
        **TWO,
        "src/pkg/ops/attention.py": "from pkg.ops.softmax import f",
        "test/transformers/test_attention.py": "",
    }
    assert target(tmp_path, files).site("softmax").dependent_tests == ("test/transformers/test_attention.py",)


def test_a_test_or_a_benchmark_that_launches_a_kernel_itself_relies_on_it(tmp_path: Path) -> None:
    op, asks = "def _one(x): ...\ndef _two(x): ...\ndef _three(x): ...\n", "from pkg.ops.softmax import "
    files = {
        **TWO,
        "src/pkg/ops/softmax.py": op,
        "test/transformers/test_softmax.py": f"{asks}_one",
        "benchmark/scripts/benchmark_softmax.py": f"{asks}_two",
    }
    assert target(tmp_path, files).site("softmax").relied_on == ("_one", "_two")


LAUNCHER = "from pkg.ops.rms_norm import _kernel\ndef run(x):\n    _kernel[(1,)](x, BLOCK=2)\n"


@pytest.mark.parametrize(
    ("backend", "counts"),
    [
        (LAUNCHER, True),
        (LAUNCHER.replace("_kernel\n", "_kernel as k\n").replace("_kernel[", "k["), True),
        (LAUNCHER.replace("_kernel[(1,)]", "_kernel"), False),
        (LAUNCHER.replace("pkg.ops.rms_norm", "pkg.ops.softmax"), False),
        ("from pkg.ops.rms_norm import RMSNorm\nRMSNorm.apply(1)\n", False),
        ("def broken(:\n", False),
    ],
)
def test_a_backend_that_launches_the_kernel_belongs_to_it(tmp_path: Path, backend: str, counts: bool) -> None:
    path = "src/pkg/ops/backends/_triton/rms_norm.py"
    op = "src/pkg/ops/rms_norm.py"
    assert target(tmp_path, {**TWO, path: backend}).files("rms_norm") == ((op, path) if counts else (op,))


def test_a_backend_of_another_name_that_launches_the_kernel_belongs_to_it(tmp_path: Path) -> None:
    """fused_linear_kl_div's only kernel is launched in the backend of kl_div: nobody could write its launch numbers."""
    backend = "src/pkg/ops/backends/_triton/norms.py"
    unlike = {
        "src/pkg/ops/backends/_triton/__init__.py": "",
        "src/pkg/ops/backends/_triton/notes.md": LAUNCHER,
        "src/pkg/ops/backends/_ascend/norms.py": LAUNCHER,
    }
    found = target(tmp_path, {**TWO, **unlike, backend: LAUNCHER})
    assert found.files("rms_norm") == ("src/pkg/ops/rms_norm.py", backend)
    assert found.files("softmax") == ("src/pkg/ops/softmax.py",)


def test_of_two_packages_the_one_with_tests_counts(tmp_path: Path) -> None:
    files = {**TWO, "src/aaa/ops/other.py": "", "src/aaa/ops/more.py": ""}
    assert target(tmp_path, files).site("softmax").module == "pkg.ops.softmax"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": ""},
        {"kernels/rms_norm.py": "", "tests/test_rms_norm.py": ""},
        {"src/pkg/ops/rms_norm.py": ""},
        {"src/pkg/ops/deep/rms_norm.py": "", "test/transformers/test_rms_norm.py": ""},
        {"test/transformers/test_rms_norm.py": "", "benchmark/scripts/benchmark_rms_norm.py": ""},
    ],
)
def test_an_unknown_layout_is_pointed_to_the_description(tmp_path: Path, files: dict[str, str]) -> None:
    error = refused(ReasonCode.TARGET_NOT_RECOGNISED, lambda: open_target(lay_out(tmp_path, files), DEFAULT))
    assert "kernelwright.toml" in error.hint and "[target.kernels.<name>]" in error.hint


def test_a_link_is_no_kernel(tmp_path: Path) -> None:
    files = dict(TWO)
    del files["src/pkg/ops/rms_norm.py"]
    (tmp_path / "evil.py").write_text("")
    tree = lay_out(tmp_path / "tree", files)
    (tmp_path / "tree/src/pkg/ops/rms_norm.py").symlink_to(tmp_path / "evil.py")
    assert open_target(tree, DEFAULT).missing("rms_norm") == ("src/pkg/ops/rms_norm.py",)


def test_the_library_that_stock_numbers_are_of_is_known_by_its_package(tmp_path: Path) -> None:
    renamed = {path.replace("src/pkg/", "src/liger_kernel/"): text for path, text in TWO.items()}
    stock, other = target(tmp_path / "stock", renamed), target(tmp_path / "other", TWO)
    assert stock.site("softmax").module == "liger_kernel.ops.softmax"
    assert len(stock.suite("softmax").cases) > len(other.suite("softmax").cases)
    assert stock.suite("softmax", "quick") == other.suite("softmax", "quick")


def test_the_sample() -> None:
    tree = DirectoryTree(SAMPLE)
    sample = open_target(tree, read_config(tree.read("kernelwright.toml")))
    assert sample.preset == "liger"
    assert sample.kernels() == ("cross_entropy", "geglu", "jsd", "layer_norm", "rms_norm", "softmax")
    for kernel in sample.kernels():
        site = sample.site(kernel)
        assert site.module == f"sample_kernels.ops.{kernel}" and site.files == (f"src/sample_kernels/ops/{kernel}.py",)
        assert site.style_command == ("make", "checkstyle") and site.dependent_tests == ()


@pytest.mark.skipif(not LIGER, reason="set KERNELWRIGHT_LIGER to an unpacked sdist of liger-kernel 0.8.5")
def test_liger_kernel_itself() -> None:
    liger = open_target(DirectoryTree(Path(LIGER)), DEFAULT)
    assert liger.kernels() == tuple(sorted(SIZES))
    sites = {kernel: liger.site(kernel) for kernel in ("geglu", "jsd", "rms_norm", "softmax")}
    kl_div = liger.site("fused_linear_kl_div")
    assert kl_div.files[1:] == ("src/liger_kernel/ops/backends/_triton/kl_div.py",)
    assert "test/transformers/test_kl_div.py" in kl_div.dependent_tests, "its backend is loaded with the other's"
    assert sites["jsd"].files == ("src/liger_kernel/ops/jsd.py", "src/liger_kernel/ops/backends/_triton/jsd.py")
    assert sites["rms_norm"].files == ("src/liger_kernel/ops/rms_norm.py",)
    assert liger.site("sparsemax").relied_on == (
        *("_sparsemax_backward", "_sparsemax_backward_kernel", "_sparsemax_forward", "_sparsemax_forward_kernel"),
    )
    assert {kernel: site.relied_on for kernel, site in sites.items() if site.relied_on} == {
        "softmax": ("_softmax_backward", "_softmax_forward")
    }
    assert {kernel: site.dependent_tests for kernel, site in sites.items()} == {
        "geglu": ("test/ops/test_geglu.py", "test/transformers/test_tiled_mlp.py"),
        "jsd": (
            "test/ops/test_fused_linear_jsd.py",
            "test/ops/test_jsd.py",
            "test/transformers/test_fused_linear_jsd.py",
        ),
        "rms_norm": (
            "test/megatron/test_rms_norm.py",
            "test/ops/test_norm_lora_parity.py",
            "test/ops/test_rms_norm.py",
        ),
        "softmax": (
            "test/ops/test_softmax.py",
            "test/transformers/test_fused_neighborhood_attention.py",
            "test/transformers/test_multi_token_attention.py",
        ),
    }
    assert all(site.style_command == ("make", "checkstyle") for site in sites.values())
