"""The demo's world, and what keeps it from beginning."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli import sample_world
from bot.cli.demo import demo
from bot.errors import UserError
from bot.localhub.server import Hub
from bot.localhub.workflow_files import FOLDER
from bot.render import workflows


def test_every_op_of_the_sample_library_has_a_pull_request_to_be() -> None:
    kernels = sample_world.sample_kernels()
    assert {"rms_norm", "softmax", "geglu", "jsd"} <= set(kernels)
    assert not {"settings", "__init__"} & set(kernels)


def test_each_branch_touches_its_kernel_alone(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    repo = sample_world.found(tmp_path, ["rms_norm", "softmax"])
    hub = Hub(tmp_path / "work" / "hub", sample_world.REPOSITORY, bare=repo.path)
    sample_world.populate(hub)
    for number, kernel in enumerate(("rms_norm", "softmax"), start=1):
        assert sample_world.open_pull(hub, kernel) == number
        changed = repo.changed("refs/heads/main", f"refs/heads/{sample_world.branch_of(kernel)}")
        assert changed == (f"src/sample_kernels/ops/{kernel}.py",)
    assert hub.world.accounts["lee"].role.may_write is False


def test_it_plays_the_files_that_init_writes(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    repo = sample_world.found(tmp_path, [])
    pages = {f"{FOLDER}/{name}": workflows.page(name, sample_world.ACTION).encode() for name in workflows.names()}
    assert {path: repo.read("refs/heads/main", path) for path in repo.list("refs/heads/main", FOLDER)} == pages


@pytest.mark.parametrize("policy_line", [True, False])
def test_the_policy_line_can_be_left_out(tmp_path: Path, policy_line: bool) -> None:
    (tmp_path / "work").mkdir()
    repo = sample_world.found(tmp_path, [], policy_line)
    config = repo.read("refs/heads/main", "kernelwright.toml") or b""
    assert (b"evidence" in config) is policy_line and b"[" in config


def test_a_port_that_is_taken_is_said_plainly(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["--interactive", "--port", port, "--out", str(tmp_path / "out")]
        found = CliRunner().invoke(demo, words).exception
    assert isinstance(found, UserError)
    assert "cannot be used" in str(found) and "--port" in found.hint
