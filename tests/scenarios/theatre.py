"""A process that holds every zone ready and forks one actor a job, so that a job can be killed for real.

Started once a test module: `python -m tests.scenarios.theatre PICTURES`. It reads a request a line and answers each.
A request may say at which crossing (an outgoing write or a journal append) the actor kills itself, before or after it.
Before each crossing its label goes to the caller's pipe, so the list of crossings is known even when nothing survives.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from bot.cli.jobs import Bundle
from bot.git.repo import Repo
from bot.ledger import journal
from bot.ledger.journal import Segment
from bot.model.codec import from_json
from bot.model.finalization import CommandRun, Finalization
from bot.render import plots
from bot.render.environment import environment
from bot.settings import read_settings
from bot.zones import measure as zone
from bot.zones import profiling
from bot.zones.decide import decide
from bot.zones.measure import Workshop, measure
from bot.zones.publish import publish
from bot.zones.push import push
from tests.fakes import bench as fake
from tests.fakes.bench import FakeBench
from tests.fakes.kept import draw_once, fit_once, propose_once

for slow in ("github", "matplotlib.figure", "matplotlib.backends.backend_agg", "PIL.Image", "bot.forge.rest"):
    importlib.import_module(slow)  # once here, and no actor has to
# A source with a launch rule of the engine's gets eight warps and no spills, so that there is a winner to push.
fake._warps = lambda files: 8 if any("estimated for sm_90" in file.text for file in files) else fake.USUAL_WARPS
NUMBERS = re.compile(r"\b[0-9a-f]{7,40}\b|\d+")


class Crossings:
    """Counts the actor's writes and kills it where it was told to."""

    def __init__(self, pipe: int, kill: tuple[int, str] | None) -> None:
        self._pipe, self._kill, self._count = pipe, kill, 0

    def _die(self, moment: str) -> None:
        if self._kill == (self._count, moment):
            os.kill(os.getpid(), signal.SIGKILL)

    def over(self, label: str, write: Callable[[], Any]) -> Any:
        os.write(self._pipe, (label + "\n").encode())
        self._die("before")
        done = write()
        self._die("after")
        self._count += 1
        return done


def watch(crossings: Crossings) -> None:
    """Every write leaves through one of these three doors."""
    request, send, append = requests.Session.request, Repo.push, Segment.append

    def over_http(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        if method.upper() in ("GET", "HEAD"):
            return request(self, method, url, *args, **kwargs)
        path = NUMBERS.sub("N", "/" + urlsplit(url).path.split("/repos/", 1)[-1].lstrip("/"))
        return crossings.over(f"{method.upper()} {path}", lambda: request(self, method, url, *args, **kwargs))

    def over_git(self: Repo, ref: str, *args: Any, **kwargs: Any) -> Any:
        return crossings.over(f"push {NUMBERS.sub('N', ref)}", lambda: send(self, ref, *args, **kwargs))

    def on_disk(self: Segment, fact: Any, at: str) -> Any:
        return crossings.over(f"append {fact.kind}", lambda: append(self, fact, at))

    requests.Session.request = over_http  # type: ignore[method-assign]
    Repo.push = over_git  # type: ignore[method-assign]
    Segment.append = on_disk  # type: ignore[method-assign]


def fake_finish(repo: Repo, head: str, site: Any, number: int, files: Any, **_: Any) -> Finalization:
    """Tests and style check that pass at once; the real ones have a scenario of their own."""
    run = CommandRun(argv=("true",), passed=True, exit_code=0, seconds=0.0, summary="1 passed")
    return Finalization(variant=number, tests=(run,), style=(run,), files=files)


def act(asked: dict[str, Any]) -> str:
    """One job, as the command line would run it."""
    if asked["zone"] == "measure":
        bundle = from_json(Bundle, Path(asked["order"]).read_bytes(), what="order")
        doors = (
            {}
            if asked.get("real")
            else {"open_bench": FakeBench, "finish": fake_finish, "collect": lambda *_, **__: None}
        )
        shop = Workshop(
            repo=Repo(Path(asked["repository"])), python=sys.executable, scratch=Path(asked["scratch"]), **doors
        )
        return measure(bundle.order, bundle.ledger_commit, shop, Path(asked["out"])).model_dump_json()
    settings = read_settings(asked["environment"])
    match asked["zone"]:
        case "decide":
            return decide(settings).model_dump_json()
        case "publish":
            segment = Path(asked["segment"]) if asked.get("segment") else None
            return publish(settings, asked["campaign"], segment).model_dump_json()
        case _:
            return push(settings, asked["campaign"]).model_dump_json()


def _child(asked: dict[str, Any], pipe: int) -> None:
    kill = (asked["kill"][0], asked["kill"][1]) if asked.get("kill") else None
    watch(Crossings(pipe, kill))
    report = act(asked)
    Path(asked["report"]).write_text(report, encoding="utf-8")


def perform(asked: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            _child(asked, writing)
            code = 0
        except BaseException as error:
            import traceback

            Path(asked["report"]).write_text(json.dumps({"error": traceback.format_exc()}), encoding="utf-8")
            print(error, file=sys.stderr)
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "r") as crossed:
        labels = crossed.read().splitlines()
    _, status = os.waitpid(child, 0)
    return {"killed": os.WIFSIGNALED(status), "code": os.waitstatus_to_exitcode(status), "crossings": labels}


def make_ready(kept: Path) -> None:
    """Whatever an actor would do anew each time, and is not what it is killed at."""
    plots._drawn = draw_once(kept, plots._drawn)
    zone.next_proposal = propose_once(kept, zone.next_proposal)
    profiling.fitting = fit_once(kept, profiling.fitting)
    journal.os.fsync = lambda handle: None  # what a killed process wrote is there; only a power cut takes it
    pages = environment()
    for name in pages.list_templates(extensions=["j2"]):
        if name.startswith(("comments/", "records/")):
            pages.get_template(name)
    gc.freeze()  # an actor that swept what it got from here would copy all of it


def main() -> None:
    make_ready(Path(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(perform(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
