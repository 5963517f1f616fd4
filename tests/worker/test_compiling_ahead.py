"""What a kernel that tunes itself will time is compiled before, side by side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import triton

from bot.worker.compiling_ahead import compile_ahead, timed_once
from tests.worker.scenes import played


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return played("ahead", told={"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))})


def test_each_configuration_is_compiled_beside_and_found_by_the_launch_that_follows(seen: dict[str, Any]) -> None:
    """Also where one of them does not compile."""
    assert seen["ahead"] == [[96, True], [256, True], [512, True], [512, True], [1024, True], [2048, True]]
    assert seen["again"] == []


def test_a_hook_is_heard_before_its_configuration_is_compiled(seen: dict[str, Any]) -> None:
    """With what Triton hands to it: the arguments of the launch and the numbers of the configuration."""
    assert seen["hooked"] == [{"n": 4096, "BLOCK": 2048}]


def test_what_comes_to_the_same_code_is_known_by_it(seen: dict[str, Any]) -> None:
    small, middle, large, alike, unfit, hooked = seen["codes"]
    assert middle == alike and len({small, middle, large, hooked}) == 4 and all((small, middle, large, hooked))
    assert unfit == ""


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return played("described", told={"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))})


def test_a_descriptor_has_the_blocks_of_the_configuration_that_is_compiled(described: dict[str, Any]) -> None:
    """Its blocks are part of the code, and a hook sets them."""
    kinds = ["tensordesc<fp32[8, 128]>", "tensordesc<fp32[8, 64]>"]
    assert described["ahead"]["beside"] == kinds
    assert (described["ahead"]["again"], described["ahead"]["codes"]) == ([], 2)


def test_what_a_hook_changes_is_as_it_was_when_the_tuning_begins(described: dict[str, Any]) -> None:
    """A configuration without a hook is timed with the blocks that the caller wrote down."""
    assert described["ahead"]["blocks"] == [[1, 1], [1, 1]]


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


class Tuner:
    """As Triton's: a time for each configuration, another one each time that it is read."""

    def __init__(self) -> None:
        self.timed: list[int] = []

    def _bench(self, *args: Any, config: triton.Config, **meta: Any) -> list[float]:
        self.timed.append(config.kwargs["BLOCK"])
        return [float(len(self.timed))]


def test_what_comes_to_the_same_code_is_timed_once_and_what_nobody_knows_each_time() -> None:
    tuner, configs = Tuner(), [triton.Config({"BLOCK": size}) for size in (64, 128, 256, 512, 64)]
    codes = {configs[0]: "a", configs[1]: "b", configs[2]: "a"}
    with timed_once(tuner, codes):
        found = [tuner._bench(config=config, n=7)[0] for config in configs]
    assert (tuner.timed, found) == ([64, 128, 512], [1.0, 2.0, 1.0, 3.0, 1.0])
    assert tuner._bench(config=configs[0]) == [4.0]


def test_triton_times_as_ever_where_something_is_raised() -> None:
    tuner = Tuner()
    with pytest.raises(KeyError), timed_once(tuner, {}):
        raise KeyError
    assert "_bench" not in vars(tuner)
