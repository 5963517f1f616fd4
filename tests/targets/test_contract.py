from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import UserError
from bot.model.commands import MOST_VARIANTS
from bot.model.policy import RepoPolicy
from bot.model.reasons import ReasonCode
from bot.render.escape import CELL_LIMIT
from bot.targets.contract import MAX_TEXT, TRUSTED, read_config
from bot.targets.sizes import SIZES

SAMPLE = Path(__file__).parents[2] / "templates" / "sample" / "kernelwright.toml"
KERNEL = """
[target.kernels.rms_norm]
source = "lib/mine/norms/rms.py"
module = "mine.norms.rms"
source_root = "lib"
test = "tests/test_rms.py"
benchmark = "bench/rms.py"
"""


def refused(text: str | bytes) -> UserError:
    with pytest.raises(UserError) as error:
        read_config(text)
    assert error.value.reason is ReasonCode.CONFIG_INVALID and error.value.hint
    assert str(error.value).startswith("kernelwright.toml: ")
    return error.value


@pytest.mark.parametrize("text", [None, "", b"", "# nothing\n", "[policy]\n", "[target]\n"])
def test_without_a_word_the_careful_defaults_hold(text: str | bytes | None) -> None:
    config = read_config(text)
    assert config.policy == RepoPolicy() and config.policy.evidence == "measured"
    assert config.target.preset == "auto" and not config.target.kernels


def test_the_sample_allows_static_evidence() -> None:
    assert read_config(SAMPLE.read_bytes()).policy == RepoPolicy(evidence="static")


def test_every_policy_can_be_set() -> None:
    text = """
    [policy]
    evidence = "static"
    oracle = "target"
    final_approval = "none"
    review_answers = "all"
    self_approval = true
    allow_drafts = true
    max_variants = 3
    default_gpu = "ampere"
    may_start = "maintain"
    may_approve = "admin"
    checkpoints = ["winner"]
    checkpoint_days = 2
    requester_approval = false
    push_to = "patch"
    signoff = true
    benchmark_script = false
    require_sandbox = false
    max_gpu_minutes = 30
    max_gpu_minutes_per_day = 90
    """
    policy = read_config(text).policy
    assert (policy.may_start, policy.may_approve, policy.checkpoints) == ("maintain", "admin", ("winner",))
    assert (policy.push_to, policy.max_gpu_minutes, policy.max_gpu_minutes_per_day) == ("patch", 30, 90)
    assert (
        policy.self_approval
        and not policy.require_sandbox
        and not policy.benchmark_script
        and policy.max_variants == 3
        and policy.default_gpu == "ampere"
    )
    assert policy.model_fields_set == set(RepoPolicy.model_fields), "a new field of the policy belongs in this test"


@pytest.mark.parametrize("number", [1, MOST_VARIANTS])
def test_bounds_of_the_budget(number: int) -> None:
    assert read_config(f"[policy]\nmax_variants = {number}").policy.max_variants == number


@pytest.mark.parametrize("value", ["0", str(MOST_VARIANTS + 1), "-1", "1.5", '"8"', "true", "nan", "1979-05-27", "[8]"])
def test_a_budget_that_is_none(value: str) -> None:
    assert "policy.max_variants" in str(refused(f"[policy]\nmax_variants = {value}"))


@pytest.mark.parametrize("value", ['"yes"', "1", '"true"', "0.0", "[]"])
def test_only_true_is_true(value: str) -> None:
    assert "policy.self_approval" in str(refused(f"[policy]\nself_approval = {value}"))


def test_an_unknown_key_is_named_with_the_nearest_one_and_all_others() -> None:
    error = refused('[policy]\nevidnce = "static"')
    assert "unknown key `policy.evidnce`" in str(error)
    assert "did you mean `evidence`?" in error.hint and "max_variants" in error.hint


@pytest.mark.parametrize(
    ("text", "key", "allowed"),
    [
        ("polcy = 1", "polcy", "policy, sweep, target"),
        ("[target]\npresets = 1", "target.presets", "kernels, preset"),
        (f"{KERNEL}tests = 'x'", "target.kernels.rms_norm.tests", "benchmark, files, module"),
        ("[policy]\n'@everyone <b>`' = 1", "policy.?everyone??b??", "allow_drafts"),
    ],
)
def test_unknown_keys_everywhere(text: str, key: str, allowed: str) -> None:
    error = refused(text)
    assert f"unknown key `{key}`" in str(error) and allowed in error.hint


def test_an_unknown_value_is_answered_with_the_known_ones() -> None:
    assert "'measured' or 'static'" in str(refused('[policy]\nevidence = "guessed"'))


@pytest.mark.parametrize("text", ["[policy", "a = ", "a = 1\na = 2", "\0", "x = " + "[" * 5000, "x = " + "9" * 5000])
def test_what_is_not_toml(text: str) -> None:
    refused(text)


def test_bytes_that_are_no_text() -> None:
    assert "UTF-8" in str(refused(b"a = '\xff'"))


def test_a_file_too_long() -> None:
    assert read_config("#" * MAX_TEXT)
    assert "more than" in str(refused("#" * (MAX_TEXT + 1)))


@given(st.text(max_size=120))
def test_any_text_is_a_configuration_or_a_refusal(text: str) -> None:
    try:
        read_config(text)
    except UserError as error:
        assert error.reason is ReasonCode.CONFIG_INVALID


# Kernels that a repository describes itself


def test_a_described_kernel() -> None:
    table = read_config(KERNEL).target.kernels["rms_norm"]
    assert (table.source, table.module, table.source_root) == ("lib/mine/norms/rms.py", "mine.norms.rms", "lib")
    assert "{test}" in table.test_command and table.style_command is None and table.files == ()


def test_commands_are_lists_of_words() -> None:
    text = (
        KERNEL
        + 'test_command = ["tox", "run", "--", "{test}"]\nstyle_command = ["make", "lint"]\nfiles = ["lib/mine/x.py"]'
    )
    table = read_config(text).target.kernels["rms_norm"]
    assert table.test_command == ("tox", "run", "--", "{test}")
    assert table.style_command == ("make", "lint") and table.files == ("lib/mine/x.py",)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('test_command = "pytest {test}"', "test_command"),
        ("test_command = []", "test_command"),
        ('test_command = ["pytest"]', "must hold {test}"),
        ('test_command = ["pytest", "{test}", ""]', "test_command"),
        ('test_command = ["pytest", "{test}", "a\\nb"]', "test_command"),
        ('files = ["../x.py"]', "files"),
        ('files = ["/etc/passwd"]', "files"),
    ],
)
def test_a_wrong_line_of_a_kernel(line: str, complaint: str) -> None:
    assert complaint in str(refused(KERNEL + line))


@pytest.mark.parametrize("key", ["source", "module", "source_root", "test", "benchmark"])
def test_what_a_kernel_must_say(key: str) -> None:
    lines = [line for line in KERNEL.splitlines() if not line.startswith(f"{key} ")]
    assert str(refused("\n".join(lines))) == f"kernelwright.toml: [target.kernels.rms_norm] lacks: {key}"


def test_all_that_a_section_lacks_is_told_at_once() -> None:
    error = refused('[target.kernels.rms_norm]\nsource = "lib/rms.py"\n[target.kernels.softmax]\n')
    assert str(error).endswith("[target.kernels.rms_norm] lacks: module, source_root, test, benchmark")
    assert "docs/install.md" in error.hint


@pytest.mark.parametrize("key", ["source", "source_root", "test", "benchmark"])
@pytest.mark.parametrize("value", [".", "./lib", "lib/..", "/lib", "a b", ""])
def test_which_paths_there_are_is_said_in_words(key: str, value: str) -> None:
    lines = [f'{key} = "{value}"' if line.startswith(f"{key} ") else line for line in KERNEL.splitlines()]
    error = refused("\n".join(lines))
    assert f"`target.kernels.rms_norm.{key}` takes a path below the top of the repository" in str(error)
    assert "\\A" not in str(error) and "default" not in error.hint


@pytest.mark.parametrize("name", ["scale", "my_norm", "RMS_norm", "'../x'", "'a b'"])
def test_a_section_is_named_after_an_operator_and_where_all_of_them_are_listed_is_said(name: str) -> None:
    error = refused(f'[target.kernels.{name}]\nsource = "x.py"')
    assert str(error).endswith("' is not an operator that can be judged")
    assert error.hint.startswith(f"name the section after one of the {len(SIZES)} kernels that have a recipe, such as ")
    assert error.hint.endswith("; docs/kernels.md lists them all") and {"rms_norm", "softmax"} < set(SIZES)
    assert "rms_norm, softmax or swiglu" in error.hint
    assert len(error.hint) <= CELL_LIMIT, "a comment would cut it"


def test_it_is_said_which_branch_s_copy_is_wrong() -> None:
    with pytest.raises(UserError, match=r"^kernelwright\.toml of the default branch: unknown key `polcy`"):
        read_config("polcy = 1", of=TRUSTED)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"lib/mine/norms/rms.py"', '"lib/mine/other.py"', "source_root and then module"),
        ('"lib"', '"src"', "source_root and then module"),
        ('"mine.norms.rms"', '"mine.norms.rms; import os"', "module` takes a module's dotted name"),
        ('"tests/test_rms.py"', '"../test_rms.py"', "test"),
    ],
)
def test_a_kernel_that_does_not_add_up(old: str, new: str, complaint: str) -> None:
    assert complaint in str(refused(KERNEL.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[target]\npreset = "toml"', "needs at least one"),
        ('[target]\npreset = "liger"' + KERNEL, "finds its kernels by itself"),
        ('[target]\npreset = "cuda"', "'auto', 'liger' or 'toml'"),
    ],
)
def test_a_preset_that_does_not_fit(text: str, complaint: str) -> None:
    assert complaint in str(refused(text))


def test_a_config_is_a_value() -> None:
    first: Any = read_config(KERNEL)
    assert first == read_config(KERNEL)
    with pytest.raises(Exception, match="frozen"):
        first.policy = None


PLACES = (
    (
        'source = "lib/mine/norms/rms.py"',
        'source = "lib/rms.py"',
        "these two say lib/mine/norms/rms.py, and source says",
    ),
    ('source_root = "lib"', 'source_root = "src"', "these two say src/mine/norms/rms.py, and source says lib/mine"),
)


@pytest.mark.parametrize(("was", "now", "said"), PLACES)
def test_a_source_in_another_place_hears_which_one_was_expected(was: str, now: str, said: str) -> None:
    error = refused(KERNEL.replace(was, now))
    assert said in str(error) and error.hint == "correct the key that is wrong"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (KERNEL.replace('"tests/test_rms.py"', "3"), "correct the value"),
        (KERNEL.replace('"tests/test_rms.py"', '"."'), "correct the value"),
        (KERNEL + "files = 3\n", "correct the value, or remove the line to get the default"),
        (KERNEL + 'files = ["."]\n', "correct the value, or remove the line to get the default"),
        ('[policy]\nevidence = "mine"\n', "correct the value, or remove the line to get the default"),
        ('[target]\npreset = "toml"\n', "correct the key that is wrong"),
        ("policy = 3\n", "begin it with [policy]"),
        ("[target]\nkernels = 3\n", "begin it with [target.kernels]"),
    ],
)
def test_only_what_has_a_default_may_be_left_out(text: str, hint: str) -> None:
    assert refused(text).hint == hint
