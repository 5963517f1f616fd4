"""Which files two workers begin with: the long ones, so that neither works alone at the end."""

from __future__ import annotations

import re
from typing import Any

FIRST = (
    "tests/scenarios/test_storm.py",
    "tests/scenarios/test_kill_others.py",
    "tests/scenarios/test_kill.py",
    "tests/suites/softmax",
    "tests/suites/geglu",
    "tests/suites/jsd",
    "tests/suites/rms_norm",
    "tests/scenarios/test_conversation.py",
    "tests/scenarios/test_moving_heads.py",
    "tests/engine/test_judged.py",
    "tests/proposers/test_engine.py",
    "tests/cli/test_local.py",
    "tests/workflows/test_night.py",
    "tests/workflows/test_heads.py",
    "tests/workflows/test_dead_jobs.py",
    "tests/workflows/test_campaign.py",
    "tests/zones/test_push.py",
    "tests/zones/test_oracle.py",
    "tests/bench/test_standby.py",
    "tests/zones/test_sweep.py",
    "tests/bench/test_nursery.py",
    "tests/render/test_hostile.py",
    "tests/scenarios/test_afterwards.py",
    "tests/bench/test_measure.py",
    "tests/render/test_plots.py",
    "tests/engine/test_transforms.py",
    "tests/sample/test_sample_library.py",
    "tests/scenarios/test_reconcile.py",
    "tests/worker/test_recorder.py",
    "tests/engine/test_drop_zero_fill.py",
    "tests/worker/test_resources.py",
    "tests/scenarios/test_reviews.py",
    "tests/zones/test_notice.py",
    "tests/bench/test_host.py",
    "tests/scenarios/test_bad_input.py",
    "tests/workflows/test_two_runs.py",
    "tests/contracts/test_bench_contract.py",
    "tests/bench/test_cell.py",
    "tests/zones/test_intake.py",
    "tests/zones/test_publish.py",
    "tests/cli/test_calibrate.py",
    "tests/engine/test_drop_detours.py",
)
"""By processor time, most first. What is new and takes more than ten seconds belongs here."""
HEARINGS = "tests/suites/"
"""What is heard of one op is heard by one worker, in the same courts: opening them is dear."""
RANKS = {path: rank for rank, path in enumerate(FIRST)}


def file_of(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


def group_of(nodeid: str) -> str:
    """What one worker does without a break: a file, or what is heard of an op."""
    heard = re.fullmatch(r".*\[(\w+)\]", nodeid) if nodeid.startswith(HEARINGS) else None
    return f"{HEARINGS}{heard[1]}" if heard else file_of(nodeid)


def long_ones_first(items: list[Any]) -> None:
    """The order within a file, and of all other files, stays. Hearings go op by op."""
    items.sort(key=lambda item: (RANKS.get(group_of(item.nodeid), len(FIRST)), group_of(item.nodeid)))


def scheduler(config: Any, log: Any) -> Any:
    """As `--dist loadfile`, in the order of collection."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByFile(config, log)
