"""Which files two workers begin with: the long ones, so that neither works alone at the end."""

from __future__ import annotations

from typing import Any

FIRST = (
    "tests/scenarios/test_kill.py",
    "tests/suites/test_cheats.py",
    "tests/suites/test_honest.py",
    "tests/mutants/test_mutants.py",
    "tests/scenarios/test_kill_others.py",
    "tests/bench/test_measure.py",
    "tests/scenarios/test_conversation.py",
    "tests/sample/test_sample_library.py",
    "tests/contracts/test_bench_contract.py",
    "tests/scenarios/test_bad_input.py",
    "tests/zones/test_push.py",
    "tests/zones/test_intake.py",
    "tests/scenarios/test_deliveries.py",
    "tests/scenarios/test_reviews.py",
    "tests/engine/test_transforms.py",
    "tests/render/test_hostile.py",
    "tests/bench/test_cell.py",
    "tests/render/test_plots.py",
    "tests/commands/test_markdown.py",
    "tests/localhub/test_markdown.py",
)
"""By processor time, most first. What is new and takes more than ten seconds belongs here."""
APART = frozenset({"tests/suites/test_cheats.py", "tests/suites/test_honest.py", "tests/mutants/test_mutants.py"})
"""Files whose tests share nothing that costs much: both workers may take of them."""
RANKS = {path: rank for rank, path in enumerate(FIRST)}


def file_of(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


def long_ones_first(items: list[Any]) -> None:
    """The order within a file, and of all other files, stays."""
    items.sort(key=lambda item: RANKS.get(file_of(item.nodeid), len(FIRST)))


def scheduler(config: Any, log: Any) -> Any:
    """As `--dist loadfile`, in the order of collection."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if file_of(nodeid) in APART else file_of(nodeid)

    config.option.loadscopereorder = False
    return ByFile(config, log)
