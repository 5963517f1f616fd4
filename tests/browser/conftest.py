"""A Chromium, and the page with the bot behind it. The bench is a fake; test_by_hand.py has the real one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from bot.cli import sample_world
from bot.cli.session import Session
from bot.localhub import browser
from bot.localhub.server import Hub
from bot.localhub.steps import LOG
from tests.browser.staged import GpuRunner
from tests.workflows.stage import WarmPython
from tests.zones.places import at, pictures

__all__ = ["at", "pictures"]

PATIENCE_MS = 60_000
"""A busy machine takes its time; what is there is seen at once."""
PHONE = {"width": 375, "height": 740}
DESK = {"width": 1100, "height": 900}
Look = Literal["light", "dark"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    found = browser.found()
    if found is None:
        pytest.skip("no Chromium; `make browser` installs one")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


@dataclass
class Reader:
    """Somebody at a browser. What goes wrong in the page is kept, and no test may leave any."""

    page: Any
    wrong: list[str]

    def goes_to(self, address: str) -> Reader:
        self.page.goto(address)
        return self

    def is_now(self, login: str) -> Reader:
        self.page.get_by_role("radio", name=login).check(force=True)
        return self

    def writes(self, text: str) -> Reader:
        self.page.get_by_label("Comment, in Markdown").fill(text)
        return self

    def says(self, text: str) -> Reader:
        self.writes(text).presses("Comment")
        return self.sees_comment(text)

    def presses(self, name: str) -> Reader:
        self.page.get_by_role("button", name=name, exact=True).click()
        return self

    def sees_comment(self, text: str) -> Reader:
        return self.sees(text, within="#timeline")

    def sees(self, text: str, within: str = "main", patience_ms: float = PATIENCE_MS) -> Reader:
        try:
            self.page.locator(within).get_by_text(text).last.wait_for(state="visible", timeout=patience_ms)
        except Exception as error:
            raise AssertionError(f"{text!r} is not there. The page says:\n{self.says_all()}") from error
        return self

    def says_all(self) -> str:
        return str(self.page.locator("body").inner_text())

    def does_not_see(self, text: str, within: str = "main") -> Reader:
        assert self.page.locator(within).get_by_text(text).count() == 0
        return self

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())

    def sideways(self) -> int:
        """Pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


NewReader = Callable[..., Reader]


@pytest.fixture
def reader(chromium: Any) -> Iterator[NewReader]:
    opened: list[tuple[Any, Reader]] = []

    def made(size: dict[str, int] = DESK, look: Look = "light", script: bool = True) -> Reader:
        context = chromium.new_context(viewport=size, color_scheme=look, java_script_enabled=script)
        context.set_default_timeout(PATIENCE_MS)
        page, wrong = context.new_page(), []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        opened.append((context, Reader(page, wrong)))
        return opened[-1][1]

    yield made
    for context, one in opened:
        context.close()
        # A refused form is a 422, and at the end the hub is gone, maybe while the page asks it something. Whatever else
        # a browser notes is the page's mistake.
        known = r"status of 422|ERR_CONNECTION_(REFUSED|RESET)"
        assert [said for said in one.wrong if not re.search(known, said)] == []


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Iterator[Path]:
    warm = WarmPython(tmp_path_factory.mktemp("python"), pictures)
    yield warm.path
    warm.close()


@dataclass
class Place:
    """A running page: two pull requests of dana's and one of mira's."""

    hub: Hub
    gpu: GpuRunner

    def page(self, number: int = 1) -> str:
        return self.hub.page_url(number)

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.hub.comments(1)]


@pytest.fixture(scope="session")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("founded") / "world"
    (out / "work").mkdir(parents=True)
    repo = sample_world.found(out, ["rms_norm", "geglu", "softmax"])
    hub = Hub(out / "work" / "hub", sample_world.REPOSITORY, bare=repo.path)
    sample_world.populate(hub)
    for kernel, author in (("rms_norm", "dana"), ("geglu", "dana"), ("softmax", "mira")):
        sample_world.open_pull(hub, kernel, author)
    return out


@pytest.fixture
def place(founded: Path, python: Path, tmp_path: Path) -> Iterator[Place]:
    out = Path(shutil.copytree(founded, tmp_path / "world"))
    with Hub(out / "work" / "hub", sample_world.REPOSITORY, bare=out / "repo.git") as hub:
        hub.invite(*sample_world.PEOPLE)
        gpu = GpuRunner(tmp_path)
        kernels = {1: "rms_norm", 2: "geglu", 3: "softmax"}
        runner = gpu.machine(hub, out / "work" / "jobs", python)
        with Session(hub, runner, kernels, tell=print):
            yield Place(hub, gpu)
        for failed in (ran for ran in runner.jobs if ran.result == "failure"):
            print(f"{failed.folder.name}\n{(failed.folder / LOG).read_text(encoding='utf-8')}")
