"""A kernel that passes none of its own checks is no yardstick, and costs nobody a profiler's minute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.bench.gpu import Gpu
from bot.cli import analysing
from bot.cli.judge_suite import sample
from bot.model.campaign import Campaign
from bot.model.measurement import Measurement
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile
from bot.zones.first_look import FirstLook
from bot.zones.workshop import Preflight, Workshop
from tests.fakes.bench import FakeBench

H200 = Gpu(uuid="GPU-1", name="NVIDIA H200", driver="580.159", arch="sm_90", memory_mib=143771, nodes=())


class Lame(FakeBench):
    """So many checks of the untouched kernel are right."""

    right = 0
    asked = 0
    expected = 0

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        found = super().measure(files, passports=passports)
        checks = tuple(row.model_copy(update={"passed": n < self.right}) for n, row in enumerate(found.checks))
        return found.model_copy(update={"checks": checks})

    def expect_look(self, kernels: Sequence[str]) -> None:
        type(self).expected += 1

    def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Any) -> Any:
        type(self).asked += 1
        raise RuntimeError("a profiler was asked")


@pytest.mark.parametrize("right", [0, 1])
def test_profilers_are_asked_only_of_a_kernel_that_can_be_held_against_itself(right: int, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    subject = analysing._subject(analysing.Asked("rms_norm", sample(), "", None, "sm_90"))
    shop = Workshop(repo=None, python="", scratch=tmp_path, gpu=H200)  # type: ignore[arg-type]
    look = FirstLook(Campaign(id="c"), shop, tmp_path, "sm_90")
    Lame.right, Lame.asked, Lame.expected = right, 0, 0
    bench: Any = Lame(sample(), *subject[:2], "sm_90", "", tmp_path)
    if right:
        with pytest.raises(RuntimeError, match="a profiler was asked"):
            look.of(bench, subject)
    else:
        with pytest.raises(Preflight, match="cannot be held against itself: it passes none of its checks") as found:
            look.of(bench, subject)
        assert found.value.reason is ReasonCode.PREFLIGHT_FAILED
    assert Lame.asked == Lame.expected == right
