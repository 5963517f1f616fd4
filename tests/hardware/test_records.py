"""The records of a whole campaign: every number of the hardware in them is registered there, with where it was read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache

import pytest

from bot.analysis.bottleneck import diagnose
from bot.hardware import catalog
from bot.hardware.catalog import Device
from bot.model.campaign import Campaign, Profile
from bot.model.hardware import UNKNOWN, HardwareNumber
from bot.model.measurement import Runner
from bot.render.records import records
from tests.render import builders as a

A_NUMBER = r"(?<![\w.,-])([0-9][0-9,]*(?:\.[0-9]+)?) ?"
SAID = {
    "memory bandwidth": (r"(GB/s|TB/s)\b",),
    "rate": (r"(TFLOPS|TFLOP/s|PFLOPS)\b",),
    "clock": (r"(MHz|GHz)\b",),
    "multiprocessors": (r"(multiprocessors|SMs|CUs|compute units)\b",),
    "L2 cache": (r"(MB|MiB) (?:of )?L2",),
    "warps": (r"(?:resident )?(warps) (?:busy|resident|on|per|a|at)\b", r"(warps) (?:of a|per) (?:multiprocessor|SM)"),
    "registers": (r"(registers) (?:of a|a|per|on a) (?:multiprocessor|SM)\b",),
    "shared memory": (r"(KiB|KB) of shared memory (?:of a|a|per|on a) (?:multiprocessor|SM)\b",),
}
"""How sentences speak of hardware: what is left beside it belongs to the kernel, like `168 registers a thread`."""
SCALE = {"TB/s": 1000.0, "PFLOPS": 1000.0, "GHz": 1000.0}
OWN = ("timed by the judge on this", "measured on this GPU")
"""A ceiling that this campaign measured itself says so where it stands."""


def hardware_numbers(line: str) -> Iterable[tuple[str, float, str]]:
    for what, forms in SAID.items():
        for found in (found for form in forms for found in re.finditer(A_NUMBER + form, line)):
            yield what, float(found[1].replace(",", "")) * SCALE.get(found[2], 1.0), found[0]


def unsourced(made: Mapping[str, bytes]) -> list[str]:
    """Each number of the hardware that stands in a record and not in the list of the campaign's README."""
    listed = re.findall(r"^- `([^`]+): ([0-9.]+)[^`]* <- (\S[^`]*)`$", made["README.md"].decode(), re.MULTILINE)
    registered = {(metric, float(value)) for metric, value, _ in listed}
    found = []
    for path, content in made.items():
        for number, line in enumerate(content.decode().splitlines(), start=1):
            if " <- " in line or any(own in line for own in OWN):
                continue
            found += [
                f"{path}:{number}: {said!r}"
                for what, value, said in hardware_numbers(line)
                if not any(what in metric and value == known for metric, known in registered)
            ]
    return found


def profile_of(runner: Runner, **fields: object) -> Profile:
    """The builders' profile as the measure zone makes one: diagnosed, and its numbers registered."""
    plain = a.profile(runner.evidence)
    sheet = catalog.for_runner(runner)
    baseline = plain.baseline.model_copy(update={"runner": runner})
    diagnosis = diagnose(baseline, plain.suite, sheet, ())
    made = {"baseline": baseline, "diagnosis": diagnosis, "hardware": catalog.registered(sheet)}
    return plain.model_copy(update=made | fields)


def campaign_of(runner: Runner = a.STATIC_RUNNER, **fields: object) -> Campaign:
    return a.pushed(profile=profile_of(runner, **fields), rounds=a.rounds(runner.evidence))


@cache
def made(runner: Runner = a.STATIC_RUNNER) -> dict[str, bytes]:
    return records(campaign_of(runner), a.lines())


@pytest.mark.parametrize("runner", [a.STATIC_RUNNER, a.GPU_RUNNER], ids=["estimated", "measured"])
def test_no_number_of_the_hardware_stands_in_a_record_without_its_source(runner: Runner) -> None:
    assert len(made(runner)) > 30, "the records of a whole campaign"
    assert unsourced(made(runner)) == []


def test_the_scan_reads_numbers_that_are_there() -> None:
    """An occupancy is given over what the architecture holds, so there is something to find a source for."""
    said = [found for text in made().values() for line in text.decode().splitlines()
            if " <- " not in line for found in hardware_numbers(line)]  # fmt: skip
    assert ("warps", 64.0, "64 warps busy") in said


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("it reads at most 4.8 TB/s", []),
        ("it reads at most 4,900 GB/s", ["4,900 GB/s"]),
        ("the peak is 1,979 TFLOPS", []),
        ("the peak is 2 PFLOPS", ["2 PFLOPS"]),
        ("at 1980 MHz", []),
        ("at 2.1 GHz", ["2.1 GHz"]),
        ("on 132 multiprocessors", []),
        ("on 144 SMs", ["144 SMs"]),
        ("one program on each of 78 compute units", ["78 compute units"]),
        ("the 50 MiB L2", ["50 MiB L2"]),
        ("60 MiB of L2", []),
        ("65536 registers of a multiprocessor", []),
        ("32768 registers per SM", ["32768 registers per SM"]),
        ("250 KiB of shared memory per SM", ["250 KiB of shared memory per SM"]),
        ("48 warps resident", ["48 warps resident"]),
        ("168 registers, 96 B of spills, 8 warps, 1.0 KiB of shared memory, 32.0 MiB", []),
        ("4276 GB/s: copy of the same bytes, timed by the judge on this NVIDIA H200 SXM", []),
    ],
)
def test_a_number_that_nobody_registered_is_found(sentence: str, found: list[str]) -> None:
    told = unsourced({**made(), "rounds/round-1/summary.md": f"# v0\n\n{sentence}.\n".encode()})
    assert told == [f"rounds/round-1/summary.md:3: {said!r}" for said in found]


def test_whatever_a_diagnosis_says_reaches_the_scan() -> None:
    diagnosis = profile_of(a.STATIC_RUNNER).diagnosis.model_copy(update={"sentence": "it could read 5.3 TB/s"})
    told = unsourced(records(campaign_of(diagnosis=diagnosis), a.lines()))
    assert told and {one.split(": ")[1] for one in told} == {"'5.3 TB/s'"}
    assert "profile.md" in {one.split(":")[0] for one in told}


def test_a_number_that_was_left_out_of_the_list_is_found() -> None:
    page = made()["README.md"].decode()
    (line,) = (line for line in page.splitlines() if "resident warps" in line)
    unlisted = unsourced({**made(), "README.md": page.replace(f"{line}\n", "").encode()})
    assert unlisted and all(told.endswith(": '64 warps busy'") for told in unlisted)
    bare = HardwareNumber(metric="NVIDIA H200 SXM resident warps", value=64, unit="per SM").says()
    assert unsourced({**made(), "README.md": page.replace(line, f"- `{bare}`").encode()}) == unlisted, "no source"


def test_the_readme_lists_each_number_in_the_form_it_is_cited_by() -> None:
    page = made()["README.md"].decode()
    for line in catalog.cited(catalog.for_arch("sm_90")):
        assert f"- `{line}`\n" in page


def test_without_a_bandwidth_there_is_no_share_of_a_roof_and_the_record_says_what_is_missing() -> None:
    shares = re.compile(r"^Share of the roof: [0-9]", re.MULTILINE)
    strange = a.GPU_RUNNER.model_copy(update={"gpu_name": "NVIDIA H300"})
    known, unknown = made(a.GPU_RUNNER), made(strange)
    assert shares.search(known["profile.md"].decode())
    assert f"NVIDIA H300 memory bandwidth: {UNKNOWN}" in unknown["README.md"].decode()
    assert not shares.search(unknown["profile.md"].decode())
    assert unsourced(unknown) == []
    told = [pitfall["error_message"] for pitfall in json.loads(unknown["memory/v0.json"])["pitfalls_and_fixes"]]
    assert f"NVIDIA H300 memory bandwidth: {UNKNOWN}" in told and all(line.endswith(UNKNOWN) for line in told)
    assert json.loads(unknown["memory/v1.json"])["pitfalls_and_fixes"] == []
    assert catalog.for_device(Device(name="NVIDIA H300", arch="sm_90")).number("warps") == 64
