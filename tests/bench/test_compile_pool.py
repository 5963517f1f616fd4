"""What the compile worker says becomes facts of ours, once it was checked."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from bot.bench import compile_pool
from bot.model.measurement import Setting
from bot.worker.contract import Binary, Caught, CaughtCase, CompileAnswer, Refusal, Stamp, Subject, Tried
from tests.bench import tiny

DIGEST = hashlib.sha256(tiny.SOURCE.encode()).hexdigest()
BINARY = Binary(40, 16, 2048, 128, 64, 300, 2, False, "a" * 64)
CAUGHT = Caught("k", "tiny/ops/softmax.py", DIGEST, (512, 1, 1), 4, 3, (("B", "64"),), (("y", 100), ("x", 50)), BINARY)
BOOKS = compile_pool.ledger(tiny.SITE, tiny.files(), "sm_90")


def answer(*launches: Caught, stamps: tuple[Stamp, ...] = (), tried: tuple[Tried, ...] = ()) -> CompileAnswer:
    return CompileAnswer((CaughtCase("c", launches, 0, 0),), stamps, tried)


def test_a_launch_is_told_in_our_words() -> None:
    launch = BOOKS.launch(CAUGHT)
    assert launch.source_file == tiny.OP
    assert launch.source_digest == DIGEST
    assert launch.tensor_bytes == 150
    assert launch.resources is not None
    assert (launch.resources.arch, launch.resources.registers, launch.resources.spill_bytes) == ("sm_90", 40, 16)
    assert launch.binary_digest == "a" * 64


def test_a_launch_from_outside_of_the_library_keeps_its_bare_name() -> None:
    assert BOOKS.launch(dataclasses.replace(CAUGHT, file="installed.py")).source_file == "installed.py"


def test_a_launch_of_the_stock_file_under_a_variant_is_an_impostor() -> None:
    stock = dataclasses.replace(CAUGHT, sha256="b" * 64)
    fault = compile_pool.first_fault(answer(CAUGHT, stock), BOOKS)
    assert fault is not None
    assert fault.kind == "protocol"
    assert fault.detail == "k was launched from a tiny/ops/softmax.py that is not the variant's"


def test_a_helper_from_a_file_no_variant_may_change_is_none() -> None:
    helper = dataclasses.replace(CAUGHT, file="tiny/ops/settings.py", sha256="c" * 64)
    assert compile_pool.first_fault(answer(CAUGHT, helper), BOOKS) is None


@pytest.mark.parametrize(
    ("kind", "told"),
    [("compile_timeout", "compile_timeout"), ("compile_failed", "compile_failed"), ("memory", "compile_failed")],
)
def test_a_launch_that_does_not_compile_is_a_fault(kind: str, told: str) -> None:
    bad = dataclasses.replace(CAUGHT, binary=None, refusal=Refusal(kind, "why"))
    fault = compile_pool.first_fault(answer(bad), BOOKS)
    assert fault is not None
    assert fault.kind == told
    assert fault.detail == "k for c: why"
    assert BOOKS.launch(bad).resources is None


def test_a_passport_is_good_when_every_kernel_compiles() -> None:
    stamps = (
        Stamp("sm_80", "k", BINARY),
        Stamp("sm_80", "l", BINARY),
        Stamp("gfx942", "k", BINARY),
        Stamp("gfx942", "l", None, Refusal("compile_failed", "no such instruction")),
    )
    good, bad = compile_pool.passports_of(answer(stamps=stamps))
    assert (good.arch, good.ok, [name for name, _ in good.kernels]) == ("sm_80", True, ["k", "l"])
    assert (bad.arch, bad.ok, bad.error) == ("gfx942", False, "l: no such instruction")
    assert bad.kernels[0][1].arch == "gfx942"


def test_a_survey_names_its_setting_and_its_first_error() -> None:
    settings = (Setting(kernel="k", num_warps=1), Setting(kernel="k", num_warps=8))
    slow = dataclasses.replace(CAUGHT, binary=None, refusal=Refusal("compile_timeout", "did not compile within 5 s"))
    tried = (Tried(0, "c", (CAUGHT, slow)), Tried(1, "c", (CAUGHT,)), Tried(9, "c", ()), Tried(-1, "c", ()))
    one, eight = compile_pool.surveys_of(answer(tried=tried), settings, BOOKS)
    assert one.error == "compile_timeout: did not compile within 5 s"
    assert (eight.setting.num_warps, eight.error, len(eight.launches)) == (8, "", 1)


def test_a_request_carries_settings_as_overrides_and_passports_when_asked() -> None:
    subject = Subject("/cell/source", "m", "m.py", ())
    settings = (Setting(kernel="k", num_warps=2, constants=(("BLOCK", 64),)),)
    chips = compile_pool.PASSPORTS
    request = compile_pool.request(subject, "sm_90", (), passports=chips, settings=settings, budget_s=3.0)
    assert request.passports == ("sm_80", "sm_90", "sm_100", "gfx942")
    assert request.overrides[0].num_warps == 2
    assert request.overrides[0].constants == (("BLOCK", 64),)
    assert request.budget_s == 3.0
    assert 1 <= request.processes <= compile_pool.MOST_PROCESSES


def test_passports_that_take_too_long_are_refused_one_by_one_and_the_rest_stands() -> None:
    """An answer that was made without them: the kernel is not lost for other chips' compilers."""
    found = compile_pool.without_passports(answer(CAUGHT, CAUGHT), ("sm_80", "gfx942"), "did not finish within 90 s")
    assert (found.cases, compile_pool.first_fault(found, BOOKS)) == (answer(CAUGHT, CAUGHT).cases, None)
    stamps = compile_pool.passports_of(found)
    assert [(stamp.arch, stamp.ok, stamp.kernels) for stamp in stamps] == [("sm_80", False, ()), ("gfx942", False, ())]
    assert {stamp.error for stamp in stamps} == {"k: all passports together: did not finish within 90 s"}
