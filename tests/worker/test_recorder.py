"""Launches are caught, not run, and compiled for chips that are not there."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.worker.scenes import ROOT, played

SCENE = ROOT / "tests/worker/scenes/recorded.py"
ELEMENTS = 64 * 4096


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    cache = tmp_path_factory.mktemp("triton")
    return played("recorded", told={"TRITON_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="module")
def cases(seen: dict[str, Any]) -> dict[str, Any]:
    return {case["case"]: case for case in seen["plain"]["cases"]}


def test_each_pass_shows_its_own_launches(cases: dict[str, Any]) -> None:
    kernels = {name: [launch["kernel"] for launch in case["launches"]] for name, case in cases.items()}
    assert kernels == {
        "forward": ["scale_kernel", "tuned_kernel"],
        "backward": ["partial_kernel"],
        "full": ["scale_kernel", "tuned_kernel", "partial_kernel"],
    }


def test_a_launch_is_told_with_its_numbers(cases: dict[str, Any]) -> None:
    launch = cases["forward"]["launches"][0]
    assert launch["grid"] == [ELEMENTS // 1024, 1, 1]
    assert launch["num_warps"] == 8
    assert launch["constants"] == [["BLOCK", "1024"]]
    assert launch["regions"] == [["y", 2 * ELEMENTS], ["x", 2 * ELEMENTS]]


def test_the_file_of_a_kernel_is_proved_by_its_digest(cases: dict[str, Any]) -> None:
    launch = cases["forward"]["launches"][0]
    assert launch["file"] == "scenes/recorded.py"
    assert launch["sha256"] == hashlib.sha256(SCENE.read_bytes()).hexdigest()


def test_an_autotuned_kernel_is_taken_with_its_first_configuration(cases: dict[str, Any]) -> None:
    launch = cases["forward"]["launches"][1]
    assert launch["num_warps"] == 2
    assert launch["constants"] == [["BLOCK", "512"]]
    assert launch["grid"] == [ELEMENTS // 512, 1, 1]


def test_a_grid_sized_by_the_chip_has_the_chips_size(cases: dict[str, Any]) -> None:
    assert cases["backward"]["launches"][0]["grid"] == [132, 1, 1]


def test_peak_memory_is_the_inputs_and_what_the_pass_allocates(cases: dict[str, Any]) -> None:
    half, single = 2 * ELEMENTS, 4 * ELEMENTS
    # the result, what x.sum() returned, and the zeroed float32 tensor
    allocated = cases["forward"]["peak_bytes"] - half
    assert half + single <= allocated <= half + single + 64
    # the partial sums are gone by the time the product of the gradient is there, or not: at most both
    parts = 132 * 256 * 4
    inputs, left_by_forward = 2 * half, half + 2 * single
    assert inputs + half <= cases["backward"]["peak_bytes"] <= inputs + left_by_forward + half + parts + 64


def test_what_torch_moves_is_counted(cases: dict[str, Any]) -> None:
    half, parts = 2 * ELEMENTS, 132 * 256 * 4
    # parts.sum() reads the parts; dy * sum reads and writes a half-precision tensor
    assert cases["backward"]["library_bytes"] == pytest.approx(parts + 2 * half, abs=64)


def test_every_launch_was_compiled_for_the_chip(cases: dict[str, Any]) -> None:
    for case in cases.values():
        for launch in case["launches"]:
            assert launch["refusal"] is None
            assert 0 < launch["binary"]["registers"] <= 255
            assert len(launch["binary"]["digest"]) == 64
    assert cases["forward"]["launches"][0]["binary"]["load_bits"] >= 64
    assert cases["forward"]["launches"][0]["binary"] == cases["full"]["launches"][0]["binary"]


def test_passports_cover_each_kernel_once_on_each_chip(seen: dict[str, Any]) -> None:
    stamps = [(stamp["arch"], stamp["kernel"]) for stamp in seen["plain"]["stamps"]]
    kernels = ["scale_kernel", "tuned_kernel", "partial_kernel"]
    assert stamps == [(arch, kernel) for arch in ("sm_80", "gfx942") for kernel in kernels]
    assert all(stamp["binary"]["registers"] > 0 for stamp in seen["plain"]["stamps"])


def test_a_passport_is_of_what_that_chip_would_launch(seen: dict[str, Any]) -> None:
    """Its host code may ask which one it has and remember it, as gated launch numbers do."""
    stamps = {stamp["arch"]: stamp for stamp in seen["choosing"]["stamps"]}
    assert {arch: stamp["kernel"] for arch, stamp in stamps.items()} == {
        "sm_80": "tuned_kernel",
        "gfx942": "scale_kernel",
        "sm_90": "scale_kernel",
    }
    assert stamps["sm_80"]["binary"]["registers"] > 0 and stamps["sm_90"]["binary"]["registers"] > 0


def test_a_passport_is_of_the_same_case_whatever_is_allocated_beside_it(seen: dict[str, Any]) -> None:
    """Of two as large as each other the first: v0's passport and a variant's are held against each other. Else of the
    largest, wherever it stands, and of its largest launch."""
    digests = {
        name: {stamp["arch"]: stamp["binary"]["digest"] for stamp in answer["stamps"]}
        for name, answer in seen["roomy"].items()
    }
    assert digests["stingy"] == digests["roomy"] == digests["later"] == digests["twice"]
    assert len(digests["stingy"]) == 3


def test_host_code_that_fails_on_another_chip_is_told_of_each_kernel(seen: dict[str, Any]) -> None:
    refused = next(stamp for stamp in seen["choosing"]["stamps"] if stamp["arch"] == "gfx942")
    assert refused["refusal"] == {"kind": "crashed", "detail": "ValueError: not for this one"}
    again = [launch["kernel"] for launch in seen["choosing_again"]["launches"]]
    assert again == ["scale_kernel"], "and what is recorded afterwards is of this chip again"


def test_an_override_changes_numbers_and_follows_the_grid(seen: dict[str, Any]) -> None:
    first = seen["survey"]["tried"][0]
    assert (first["override"], first["case"]) == (0, "forward")
    changed, untouched = first["launches"]
    assert changed["num_warps"] == 2
    assert changed["constants"] == [["BLOCK", "2048"]]
    assert changed["grid"] == [ELEMENTS // 2048, 1, 1]
    assert untouched["kernel"] == "tuned_kernel"
    assert untouched["binary"] == seen["plain"]["cases"][0]["launches"][1]["binary"]


def test_an_override_of_a_kernel_nobody_launches_is_no_answer(seen: dict[str, Any]) -> None:
    assert [tried["override"] for tried in seen["survey"]["tried"]] == [0, 1]
    assert seen["survey"]["tried"][1]["launches"][0]["num_stages"] == 5


def test_what_an_op_asserts_of_values_is_taken_to_hold(seen: dict[str, Any]) -> None:
    """Recorded without values: `assert labels.max() < classes` has to pass, `if x.isnan().any()` must not."""
    kernels = [launch["kernel"] for launch in seen["asserting"]["launches"]]
    assert kernels == [launch["kernel"] for launch in seen["plain"]["cases"][0]["launches"]]


def test_a_launch_number_that_is_a_parameter_counts_where_it_is_said_by_name(seen: dict[str, Any]) -> None:
    """As in Triton: 16 warps by name run; of 32 by position and 16 by default nothing comes, and four do."""
    by_name, by_position, by_default = seen["speaking"]["cases"][0]["launches"]
    assert [(one["num_warps"], one["num_stages"]) for one in (by_name, by_position, by_default)] == [
        (16, 2),
        (4, 3),
        (4, 3),
    ]
    assert seen["compiled"][:3] == [16, 4, 4], "and that is what Triton's compiler was told"


def test_another_one_is_both_the_option_and_the_parameter(seen: dict[str, Any]) -> None:
    first, _, last = seen["speaking"]["tried"]
    for launch in (*first["launches"][:2], last["launches"][2]):
        assert launch["refusal"] is None and launch["num_warps"] == 8
        assert ["num_warps", "8"] in launch["constants"]
    assert seen["compiled"][3:] == [8, 8, 8]


def test_one_that_would_make_another_count_is_refused_with_the_reason(seen: dict[str, Any]) -> None:
    by_name, by_position, _ = seen["speaking"]["tried"][1]["launches"]
    assert by_name["refusal"] is None and by_name["num_stages"] == 8
    assert "speaking_kernel is told num_warps by position" in by_position["refusal"]["detail"]
