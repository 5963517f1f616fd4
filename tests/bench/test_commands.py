"""A repository's own commands: run to their end, in a fence, with nothing of ours in reach."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bot.bench.commands import KEPT_OUTPUT, run_command
from bot.bench.gpu import parse
from bot.bench.sandbox import LIMITS_ONLY, Sandbox, find_sandbox
from bot.model.finalization import CommandRun

FENCES = [Sandbox(LIMITS_ONLY)] + ([find_sandbox()] if find_sandbox().is_strong else [])


@pytest.fixture(params=FENCES, ids=lambda fence: str(fence.name))
def fence(request: pytest.FixtureRequest) -> Sandbox:
    found: Sandbox = request.param
    return found


def run(code: str, folder: Path, fence: Sandbox, deadline_s: float = 60, **env: str) -> CommandRun:
    return run_command((sys.executable, "-c", code), folder, env, deadline_s, sandbox=fence)


def test_the_last_line_is_the_summary(tmp_path: Path, fence: Sandbox) -> None:
    found = run("print('collected 3 items'); print('3 passed in 0.1s'); print()", tmp_path, fence)
    assert found.passed
    assert (found.exit_code, found.summary) == (0, "3 passed in 0.1s")
    assert "collected 3 items" in found.output
    assert found.argv[0] == sys.executable


def test_of_many_failures_the_first_errors_are_kept_before_the_end(tmp_path: Path, fence: Sandbox) -> None:
    failures = [f"E   RuntimeError: {n % 7}\n{'x' * 200}" for n in range(50)]
    (tmp_path / "said").write_text("\n".join(["collected", *failures, "50 failed"]), encoding="utf-8")
    found = run("print(open('said').read())", tmp_path, fence)
    assert found.output.splitlines()[:6] == [f"E   RuntimeError: {n}" for n in range(5)] + ["..."]
    assert found.output.endswith("50 failed\n")
    assert len(found.output) < KEPT_OUTPUT + 200


def test_what_is_short_is_kept_as_it_is(tmp_path: Path, fence: Sandbox) -> None:
    assert run("print('E   no'); print('1 failed')", tmp_path, fence).output == "E   no\n1 failed\n"


def test_a_gpu_is_named_and_not_counted(tmp_path: Path, fence: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside there is one GPU alone: what is number 1 outside would be nobody."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    gpu = parse("GPU-d79bbc67, NVIDIA H200, 580.159.04, 9.0, 143771")
    ask = (sys.executable, "-c", "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))")
    seen = [run_command(ask, tmp_path, {}, 60, sandbox=fence, gpu=one).summary for one in (gpu, None)]
    assert seen == ["GPU-d79bbc67", "None"]


KEEPS = """
import os
place = os.environ["TRITON_CACHE_DIR"]
os.makedirs(place, exist_ok=True)
print(len(os.listdir(place)), os.environ.get("TRITON_CACHE_AUTOTUNING"))
open(os.path.join(place, "kernel"), "w").close()
"""


def test_what_is_compiled_goes_with_the_home_or_stays_where_it_is_shared(tmp_path: Path, fence: Sandbox) -> None:
    kernels, tree = tmp_path / "kernels", tmp_path / "tree"
    kernels.mkdir()
    tree.mkdir()
    ask = (sys.executable, "-c", KEEPS)
    alone = [run_command(ask, tree, {}, 60, sandbox=fence).summary for _ in range(2)]
    assert alone == ["0 None", "0 None"]
    together = [run_command(ask, tree, {}, 60, sandbox=fence, kernels=kernels).summary for _ in range(2)]
    assert together == ["0 1", "1 1"]
    assert [path.name for path in kernels.iterdir()] == ["kernel"]


def test_a_failure_is_its_own_exit_code(tmp_path: Path, fence: Sandbox) -> None:
    found = run("print('1 failed'); raise SystemExit(1)", tmp_path, fence)
    assert (found.passed, found.exit_code, found.summary) == (False, 1, "1 failed")


def test_nothing_printed_is_said(tmp_path: Path, fence: Sandbox) -> None:
    assert run("pass", tmp_path, fence).summary == "printed nothing"


def test_the_deadline_leaves_no_exit_code(tmp_path: Path, fence: Sandbox) -> None:
    started = time.monotonic()
    found = run("import time; print('1 passed', flush=True); time.sleep(600)", tmp_path, fence, deadline_s=0.8)
    assert time.monotonic() - started < 60
    assert (found.passed, found.exit_code) == (False, None)
    assert found.summary == "ended after 0.8 s, its deadline"


def test_it_gets_what_it_was_given_and_no_secret(
    tmp_path: Path, fence: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("HOME", "/somebody")
    found = run("import os; print(sorted(os.environ.items()))", tmp_path, fence, TRITON_INTERPRET="1")
    assert "secret" not in found.output
    assert "/somebody" not in found.output
    assert "('TRITON_INTERPRET', '1')" in found.output


def test_it_works_in_its_folder_and_may_write_there(tmp_path: Path, fence: Sandbox) -> None:
    found = run("import os; open('made', 'w').write('x'); print(os.getcwd())", tmp_path, fence)
    assert found.summary == str(tmp_path)
    assert (tmp_path / "made").exists()


def test_only_the_end_of_much_output_is_kept(tmp_path: Path, fence: Sandbox) -> None:
    found = run("print('x' * 100_000); print('done')", tmp_path, fence)
    assert found.passed
    assert len(found.output) <= KEPT_OUTPUT
    assert found.output.endswith("done\n")


def test_a_command_that_is_not_there_fails_and_is_named(tmp_path: Path) -> None:
    found = run_command(("no-such-tool", "x"), tmp_path, {}, 60, sandbox=Sandbox(LIMITS_ONLY))
    assert not found.passed
    assert "no-such-tool" in found.summary


def test_arguments_are_not_words_of_a_shell(tmp_path: Path, fence: Sandbox) -> None:
    found = run_command(("/bin/echo", "$(touch made); x"), tmp_path, {}, 60, sandbox=fence)
    assert found.summary == "$(touch made); x"
    assert not (tmp_path / "made").exists()


def test_the_rule_that_pytest_draws_is_no_part_of_it(tmp_path: Path, fence: Sandbox) -> None:
    assert run("print('=' * 90 + ' 3 passed in 0.1s ' + '=' * 90)", tmp_path, fence).summary == "3 passed in 0.1s"
    assert run("print('=' * 9)", tmp_path, fence).summary == "=" * 9, "all that there is"
