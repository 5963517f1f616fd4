"""A case in which the judge has no room for v0 and its truths is named, so that it can be left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.bench.bailiff import Objection
from bot.bench.take import Take
from bot.model.measurement import CaseResult
from bot.model.variant import SourceFile
from bot.worker.contract.timing import OpenRequest
from tests.bench import tiny
from tests.bench.test_measured import Judge, bench


class Full(Judge):
    """It cannot open this case, and says why."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why

    def ask(self, request: Any, kind: Any) -> Any:
        if isinstance(request, OpenRequest) and request.case == "slow":
            raise Objection(self._why)
        return super().ask(request, kind)


def timed(why: str, files: tuple[SourceFile, ...]) -> Any:
    made: Any = bench(Full(why))
    made._roofs, made._took_us = {}, {}
    takes = {"slow": Take("slow", Path("takes"), "", 0, kernels=1)}
    made._takes.takes = lambda digest: takes
    made._takes.forget = lambda digest: None
    return made._timed(files, (CaseResult(case="slow"),), (), lambda: None).fault


@pytest.mark.parametrize(
    "why",
    ["OutOfMemoryError: CUDA out of memory. Tried to allocate 8 GiB", "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)"],
)
def test_no_room_for_v0_is_no_crash(why: str) -> None:
    fault = timed(why, tiny.files())
    assert (fault.kind, fault.unfit, fault.detail) == ("memory", ("slow",), f"slow: {why}")


def test_any_other_objection_is() -> None:
    fault = timed("Unplayable: v0: y is wrong by 3", tiny.files())
    assert (fault.kind, fault.unfit) == ("crashed", ())


def test_for_a_variant_nothing_is_left_out() -> None:
    other = tuple(file.model_copy(update={"text": f"{file.text}\n# v1\n"}) for file in tiny.files())
    fault = timed("OutOfMemoryError: CUDA out of memory", other)
    assert fault.unfit == ()
