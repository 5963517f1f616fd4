"""A worker's answer folder is a stranger's: every claim in it is checked before a byte is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.judge.answer import read_answer
from bot.worker.contract import ANSWER, ContractError
from tests.judge.returned import PROBES, rewrite, write_answer


def test_an_honest_answer_is_read(tmp_path: Path) -> None:
    write_answer(tmp_path)
    found = read_answer(tmp_path)
    assert list(found) == [probe.call.id for probe in PROBES]
    first = found[PROBES[0].call.id].runs[0]
    assert set(first) == {("output", "0"), ("input", "x"), ("grad_output", "dy")}
    assert tuple(first[("output", "0")].values().shape) == (20, 64)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"offset": -64}, "outside of its file"),
        ({"offset": 2**40}, "outside of its file"),
        ({"nbytes": 8}, "do not make"),
        ({"shape": (2**40, 2**40)}, "do not make"),
        ({"shape": (-20, -64)}, "a negative size"),
        ({"dtype": "object"}, "is not a type that may come back"),
        ({"dtype": "torch.complex64"}, "is not a type that may come back"),
    ],
)
def test_claims_that_cannot_be_are_refused(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    rewrite(tmp_path, write_answer(tmp_path), **changes)
    with pytest.raises(ContractError, match=told):
        read_answer(tmp_path)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "..", ""])
def test_a_file_outside_of_the_folder_is_not_opened(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "answer"
    write_answer(folder)
    (tmp_path / "secret").write_bytes(bytes(20000))
    text = (folder / ANSWER).read_text().replace(f"{PROBES[0].call.id}-0.bin", name)
    (folder / ANSWER).write_text(text)
    with pytest.raises(ContractError):
        read_answer(folder)


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "answer"
    write_answer(folder)
    blob = folder / f"{PROBES[0].call.id}-0.bin"
    blob.rename(tmp_path / "elsewhere")
    blob.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ContractError):
        read_answer(folder)


@pytest.mark.parametrize("content", ["", "[]", "null", '{"calls": 3}', "\0\0"])
def test_garbage_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / ANSWER).write_text(content)
    with pytest.raises(ContractError):
        read_answer(tmp_path)
