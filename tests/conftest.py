"""Shared by every test: pages are compared with the ones people have read."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import examples, order

GOLDEN = Path(__file__).parent / "golden"
collect_ignore = ["cheats", "honest"]
"""Whole op files, heard by tests/suites: none is a test of ours, whatever it is called."""


examples.register()  # before pytest loads the profile it was asked for


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the pages in tests/golden anew, to be read as a diff"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order.long_ones_first(items)


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: no sweep has to go through them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return order.scheduler(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden("comments/status.md", body): the page is as it was when somebody last read it."""

    def same(name: str, body: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        assert path.is_file(), f"no golden page {name}; write it with --update-golden and read it"
        assert body == path.read_text(encoding="utf-8"), f"{name} changed; --update-golden if that is wanted"

    return same
