"""What a kernel that tunes itself will time is compiled before, side by side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import triton

from bot.worker.compiling_ahead import compile_ahead
from tests.worker.scenes import played


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return played("ahead", told={"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))})


def test_each_configuration_is_compiled_beside_and_found_by_the_launch_that_follows(seen: dict[str, Any]) -> None:
    """Also where one of them does not compile; and one whose hook may change the arguments waits for its turn."""
    assert seen["ahead"] == [[96, True], [256, True], [512, True], [1024, True]]
    assert seen["again"] == []


class Kernel:
    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def run(self, *args: Any, **kwargs: Any) -> None:
        self.asked.append(kwargs)
        raise RuntimeError("whatever it says, the launch says it again")


def asked(*configs: triton.Config) -> list[dict[str, Any]]:
    kernel = Kernel()
    compile_ahead(SimpleNamespace(fn=kernel), configs, (), {"grid": (1,), "warmup": False})
    return kernel.asked


def test_nothing_that_it_raises_is_heard_here() -> None:
    configs = [triton.Config({"BLOCK": size}) for size in (64, 128)]
    assert [one["BLOCK"] for one in asked(*configs)] == [64, 128]
    assert all(one["warmup"] for one in asked(*configs))


def test_one_alone_is_compiled_as_ever() -> None:
    assert asked(triton.Config({"BLOCK": 64})) == []


def test_an_older_triton_compiles_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(triton, "AsyncCompileMode")
    assert asked(triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})) == []
