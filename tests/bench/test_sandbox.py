"""What code inside can and cannot reach."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from bot.bench.interpreter import look_at
from bot.bench.launcher import Ended, Limits, run_process
from bot.bench.sandbox import LIMITS_ONLY, Mount, Sandbox, confined, find_sandbox, overlooking

STRONG = find_sandbox()
needs_bubblewrap = pytest.mark.skipif(not STRONG.is_strong, reason="bubblewrap does not work on this machine")


DIAL = """
import socket
try:
    socket.create_connection(("1.1.1.1", 53), 3)
    print("out")
except OSError:
    print("none")
"""
WRITE = """
open("/cell/taken/answer", "w").write("yes")
try:
    open("/cell/given/x", "w")
except OSError as error:
    print(error.strerror)
"""
KILL = """
import os
print(len([pid for pid in os.listdir("/proc") if pid.isdigit()]) < 5)
try:
    os.kill({pid}, 9)
except OSError as error:
    print(type(error).__name__, flush=True)
os.killpg(0, 9)
"""


def inside(code: str, *mounts: Mount, folder: Path) -> Ended:
    python = look_at(sys.executable)
    shown = tuple(Mount(root, str(root)) for root in python.roots if str(root) != "/usr")
    argv = [str(python.executable), "-I", "-S", "-c", code]
    argv = confined(STRONG, argv, (*shown, *mounts), {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}, "/tmp")
    return run_process(argv, environment={"PATH": "/usr/bin:/bin"}, directory=folder, limits=Limits(60))


@needs_bubblewrap
def test_the_environment_holds_only_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    ended = inside("import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))", folder=tmp_path)
    assert ended.output.strip() == "['HOME', 'PATH', 'PWD']"


@needs_bubblewrap
def test_there_is_no_network(tmp_path: Path) -> None:
    assert inside(DIAL, folder=tmp_path).output.strip() == "none"


@needs_bubblewrap
def test_nothing_of_the_machine_is_there_but_the_mounts(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    code = f"import os; print([os.path.exists(p) for p in ({str(tmp_path)!r}, '/etc/passwd', '/home', '/var')])"
    assert inside(code, folder=tmp_path).output.strip() == "[False, False, False, False]"


@needs_bubblewrap
def test_a_mount_is_read_only_unless_it_is_writable(tmp_path: Path) -> None:
    for name in ("given", "taken"):
        (tmp_path / name).mkdir()
    mounts = (Mount(tmp_path / "given", "/cell/given"), Mount(tmp_path / "taken", "/cell/taken", writable=True))
    assert inside(WRITE, *mounts, folder=tmp_path).output.strip() == "Read-only file system"
    assert (tmp_path / "taken/answer").read_text() == "yes"


@needs_bubblewrap
def test_other_processes_are_neither_seen_nor_killed(tmp_path: Path) -> None:
    ended = inside(KILL.format(pid=os.getpid()), folder=tmp_path)
    assert ended.output.split() == ["True", "ProcessLookupError"]
    assert ended.code == 128 + 9


@needs_bubblewrap
def test_a_repositorys_command_sees_the_machine_and_writes_its_folders_alone(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    script = f"touch {mine}/yes; touch {other}/no; test -r /etc/passwd && echo readable"
    argv = overlooking(STRONG, ["/bin/sh", "-c", script], (mine,), {"PATH": "/usr/bin:/bin"}, mine)
    ended = run_process(argv, environment={}, directory=tmp_path, limits=Limits(60))
    assert "readable" in ended.output
    assert (mine / "yes").exists()
    assert not (other / "no").exists()


def test_a_command_that_overlooks_the_machine_sees_the_devices_it_is_given_alone(tmp_path: Path) -> None:
    strong, node = Sandbox("bubblewrap", "/usr/bin/bwrap"), Path("/dev/nvidia0")
    given = overlooking(strong, ["true"], (), {}, tmp_path, (node,))
    at = given.index("--dev-bind")
    assert given[at : at + 3] == ["--dev-bind", "/dev/nvidia0", "/dev/nvidia0"]
    assert at > given.index("--dev"), "an empty /dev laid over it afterwards would hide it"
    assert "--dev-bind" not in overlooking(strong, ["true"], (), {}, tmp_path)


def test_the_weaker_fence_says_its_name_and_leaves_the_command_alone(tmp_path: Path) -> None:
    weak = Sandbox(LIMITS_ONLY)
    assert weak.name == "process limits only"
    assert not weak.is_strong
    mount = Mount(tmp_path, "/cell/x")
    assert confined(weak, ["a", "b"], (mount,), {}, "/tmp") == ["a", "b"]
    assert overlooking(weak, ["a", "b"], (), {}, tmp_path) == ["a", "b"]
    assert weak.path_of(mount) == str(tmp_path)
    assert Sandbox("bubblewrap", "/usr/bin/bwrap").path_of(mount) == "/cell/x"


def test_without_bubblewrap_the_weaker_fence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert find_sandbox.__wrapped__().name == LIMITS_ONLY


@pytest.mark.parametrize("program", ["/bin/false", "/nonexistent/bwrap"])
def test_bubblewrap_that_does_not_work_is_not_chosen(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: program)
    assert find_sandbox.__wrapped__().name == LIMITS_ONLY
