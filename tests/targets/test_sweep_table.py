"""The [sweep] table of kernelwright.toml: off by default, and never half understood."""

from __future__ import annotations

import pytest

from bot.errors import UserError
from bot.model.sweep import SweepPolicy
from bot.targets.contract import read_config

POOL = '[sweep.pools]\nhopper = ["self-hosted", "gpu"]\n'


def test_without_a_table_there_is_no_sweep() -> None:
    assert read_config("").sweep == SweepPolicy()
    assert not read_config(POOL).sweep.enabled, "pools alone allow nothing"


def test_an_enabled_one_is_read_whole() -> None:
    text = (
        "[sweep]\nenabled = true\nmax_gpu_minutes = 60\nminutes_per_kernel = 5\nmax_variants = 3\nmax_campaigns = 4\n"
    )
    found = read_config(text + POOL).sweep
    assert found == SweepPolicy(
        enabled=True,
        max_gpu_minutes=60,
        minutes_per_kernel=5,
        max_variants=3,
        max_campaigns=4,
        pools={"hopper": ("self-hosted", "gpu")},
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[sweep]\nenabled = true\n", "needs a pool"),
        ("[sweep]\nenable = true\n", "did you mean `enabled`"),
        ('[sweep]\nenabled = "yes"\n', "enabled"),
        ("[sweep]\nmax_gpu_minutes = 0\n", "max_gpu_minutes"),
        ("[sweep]\nmax_campaigns = 257\n", "max_campaigns"),
        ("[sweep]\nmax_variants = 120\n", "max_variants"),
        ('[sweep.pools]\nvolta = ["gpu"]\n', "sweep.pools.volta"),
        ("[sweep.pools]\nhopper = []\n", "sweep.pools.hopper"),
        ('[sweep.pools]\nhopper = ["gpu,linux"]\n', "sweep.pools.hopper"),
        ('[sweep.pools]\nhopper = ["${{ github }}"]\n', "sweep.pools.hopper"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_config(text)
    assert words in f"{caught.value} {caught.value.hint}"
