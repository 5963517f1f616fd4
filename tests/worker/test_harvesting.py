"""What a worker notes while a benchmark script runs, and what stands in for what is not there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from bot.worker import harvest_absent, harvesting
from bot.worker.contract.harvest import Given, Handed, Origin
from bot.worker.harvest_memory import peak_of
from bot.worker.harvesting import MOST_SIGHTINGS, MOST_TROUBLES, Notes

HERE = Origin("T", "tokens", "1024", "ours", "{}")
THERE = Origin("T", "tokens", "2048", "ours", "{}")
X = torch.empty(2, 8, dtype=torch.bfloat16, device="meta")


class Counted:
    """One mode of a benchmark, with how often it ran."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.run, self.times = run, 0

    def __call__(self) -> Any:
        self.times += 1
        return self.run()


def broken() -> None:
    raise ValueError("no such provider")


def lost(*arguments: Any) -> Any:
    raise RuntimeError("no values here")


@pytest.fixture
def notes() -> Notes:
    found = Notes(lost)
    found.has_runner = True
    return found


def test_a_call_is_noted_with_its_place_and_nothing_after_it_runs(notes: Notes) -> None:
    backward = Counted(broken)

    notes.point("norm", HERE, [lambda: notes.applied(X, 1e-6, None), backward])

    (seen,) = notes.sightings
    assert seen.origin == HERE
    assert seen.arguments == (Given(Handed("bfloat16", (2, 8), (8, 1))), Given(value=1e-6), Given())
    assert backward.times == 0
    assert notes.troubles == {}


def test_the_same_point_of_another_metric_is_not_run_again(notes: Notes) -> None:
    mode = Counted(lambda: notes.applied(X))

    for _ in ("speed", "memory"):
        notes.point("norm", HERE, [mode])

    assert mode.times == 1


def test_a_provider_that_never_comes_to_the_op_is_tried_at_one_size(notes: Notes) -> None:
    reference = Counted(lambda: None)

    notes.point("norm", HERE, [reference, reference])
    notes.point("norm", THERE, [reference])

    assert reference.times == 1
    assert notes.troubles == {}, "it is no trouble that a reference is one"


def test_of_another_benchmark_of_the_script_it_is_tried_again(notes: Notes) -> None:
    for benchmark in ("mhc_coeffs", "mhc_pre"):
        notes.point(benchmark, HERE, [lambda: None])
    notes.point("mhc_post", HERE, [lambda: notes.applied(X)])

    assert len(notes.sightings) == 1


def test_every_mode_has_its_chance_and_what_breaks_is_told(notes: Notes) -> None:
    notes.point("norm", HERE, [broken, lambda: notes.applied(X)])
    assert len(notes.sightings) == 1
    assert notes.troubles == {}

    notes.point("norm", THERE, [broken, broken])
    assert list(notes.troubles) == ["ours at T 2048: ValueError: no such provider"]


def test_a_script_that_ends_itself_ends_one_point(notes: Notes) -> None:
    def leaves() -> None:
        raise SystemExit(3)

    notes.point("norm", HERE, [leaves])

    assert list(notes.troubles) == ["ours at T 1024: SystemExit: 3"]


def test_a_point_that_takes_too_long_is_left(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harvesting, "LONGEST_S", 0.05)

    notes.point("attention", HERE, [lambda: time.sleep(60)])

    assert list(notes.troubles) == ["ours at T 1024: took more than 0.05 s"]


def test_a_warm_up_goes_on_with_what_the_op_returns() -> None:
    notes = Notes(lambda x: (x, x + 1))
    notes.has_runner = True

    assert len(notes.applied(X)) == 2
    assert notes.sightings == {}, "it is no point of a sweep"


def test_where_the_op_cannot_do_without_values_it_goes_on_with_something_that_has_a_gradient(notes: Notes) -> None:
    x = torch.ones(2, 2, requires_grad=True)

    notes.applied(torch.tensor([1]), x).sum().backward()

    assert x.grad is not None
    assert notes.sightings == {}, "it is no point of a sweep"


def test_without_a_runner_all_calls_count() -> None:
    notes = Notes(lost)

    notes.applied(X)

    assert [seen.origin for seen in notes.sightings] == [Origin()]


def test_neither_calls_nor_troubles_are_without_end() -> None:
    notes = Notes(lost)
    for number in range(MOST_SIGHTINGS + 1):
        notes.applied(X, number)
        notes.trouble(str(number))

    assert len(notes.sightings) == MOST_SIGHTINGS
    assert len(notes.troubles) == MOST_TROUBLES


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (True, Given(value=True)),
        ([16, 24, 24], Given(value=(16, 24, 24))),
        (float("inf"), Given(other="inf")),
        (torch.float32, Given(other="torch.float32")),
        ("x" * 201, Given(other="str")),
        ("x" * 200, Given(value="x" * 200)),
        (broken, Given(other="function")),
    ],
)
def test_only_plain_values_cross_the_border(value: object, told: Given) -> None:
    assert harvesting._given(value) == told


def test_the_peak_is_what_lives_at_once() -> None:
    mib = 2**20

    def probe() -> torch.Tensor:
        x = torch.empty(mib // 4, device="meta", requires_grad=True)
        torch.empty(3 * mib, dtype=torch.uint8, device="meta")  # gone at once
        return x * 2

    # x and the result, the gradient of the result, and what becomes of it.
    assert peak_of(probe) == 4 * mib


def test_a_missing_package_gives_names_and_says_no_to_the_rest() -> None:
    package = harvest_absent._Module("transformers.models.llama")

    config = package.LlamaConfig(hidden_size=64)
    assert config.hidden_size == 64
    assert getattr(config, "mlp_bias", False) is False
    assert package.LlamaConfig is package.LlamaConfig
    assert package.is_torch_npu_available() is False
    for asked in (lambda: package.LlamaMLP(config)(X), lambda: package.LlamaMLP(config).to("cuda")):
        with pytest.raises(harvest_absent.NotInstalled, match="LlamaMLP"):
            asked()


def test_a_rotary_embedding_that_is_not_there_has_tables_of_the_right_shape() -> None:
    package = harvest_absent._Module("transformers")
    keys, positions = X.new_empty(1, 8, 32, 128), torch.empty(3, 1, 32, dtype=torch.long, device="meta")

    cos, sin = package.Qwen2VLRotaryEmbedding(None)(keys, positions)
    factors = package.Llama4TextRotaryEmbedding(None)(keys, positions[0])

    assert cos.shape == sin.shape == (3, 1, 32, 128)
    assert cos.dtype == keys.dtype
    assert factors.shape == (1, 32, 64)
    assert factors.dtype == torch.complex64
