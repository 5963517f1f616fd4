"""Makes a tree of the stock library with every winner of the campaigns in it.

    python docs/results/h200/training/winners.py --stock liger-kernel-0.8.5 --out liger-winners

Of each kernel that campaign counts which counts in the tables beside the journals: the last that came to its end, if
the library's own tests and style check passed on its winner. `--untested` also takes what was accepted and not tested
yet. `--campaigns` may be given more than once, for journals of several GPUs: of a kernel that won in two such folders
the first counts. Every file is made again as `kernelwright rebuild` makes it, hashes held against the journal and the
stock tree. Where kernels change one file, each in places of its own, git merges them as it would merge their branches;
where they touch the same lines they are refused. `winners.json` in the new tree says what is in it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bot.cli.rebuild import rebuild
from bot.errors import BotError
from bot.render import view

CAMPAIGNS = Path(__file__).resolve().parents[1] / "campaigns"
MANIFEST = "winners.json"
LEFT_BEHIND = shutil.ignore_patterns(".git", "__pycache__", "*.pyc", "optimization")


class Refused(Exception):
    """There is no such tree, and why."""


TABLE = SimpleNamespace(**runpy.run_path(str(CAMPAIGNS / "table.py")))
"""The reader of journals, which is a script of its own."""


@dataclass(frozen=True)
class Pick:
    kernel: str
    folder: str
    campaign: str
    variant: int
    tested: bool
    """Whether the library's own tests and style check passed on it."""


# Which campaign of a kernel counts


def _passed(one: Any) -> bool | None:
    """None where they were not run on it."""
    done = one.campaign.finalization
    return None if done is None else bool(done.passed)


def _accepted(one: Any) -> bool:
    """Something faster than v0, by a GPU's clock in every case."""
    return bool(one.number and one.number == view.best(one.campaign))


def pick(campaigns: Sequence[Any], *, untested: bool) -> Any | None:
    """Of one kernel's campaigns, earliest first."""
    last = next((one for one in reversed(campaigns) if one.is_over), None)
    if last is not None and _accepted(last) and _passed(last):
        return last
    if not untested:
        return None
    found = (
        one for one in reversed(campaigns) if view.best(one.campaign) and one.readings and _passed(one) is not False
    )
    return next(found, None)


def picked(campaigns: Sequence[Any], *, untested: bool) -> tuple[list[Pick], list[str]]:
    """What is taken, and of which kernels there is nothing to take."""
    taken, without = [], []
    for kernel in dict.fromkeys(one.kernel for one in campaigns):
        one = pick([other for other in campaigns if other.kernel == kernel], untested=untested)
        if one is None:
            without.append(kernel)
        else:
            number = view.best(one.campaign)
            taken.append(Pick(kernel, one.folder, one.campaign.id, number, _passed(one) is True))
    return taken, without


# The files


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def rebuilt(one: Pick, journal: Path, stock: Path, into: Path) -> dict[str, bytes]:
    """Every file of the winner by its path, as the bot makes it again."""
    asked = [str(journal), "--repo", str(stock), "--variant", str(one.variant), "--output", str(into / one.kernel)]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            rebuild.main(asked, standalone_mode=False)
    except BotError as error:
        raise Refused(f"{one.folder}: {error}") from error
    made = into / one.kernel
    return {path.relative_to(made).as_posix(): path.read_bytes() for path in sorted(made.rglob("*")) if path.is_file()}


def merged(base: bytes, one: bytes, other: bytes) -> bytes | None:
    """Both changes in one text, as git has it; None where they touch the same lines."""
    with tempfile.TemporaryDirectory() as scratch:
        places = [Path(scratch, name) for name in ("one", "base", "other")]
        for place, content in zip(places, (one, base, other), strict=True):
            place.write_bytes(content)
        ran = subprocess.run(("git", "merge-file", "-p", "-q", *map(str, places)), capture_output=True, check=False)
    return ran.stdout if ran.returncode == 0 else None


def together(stock: Path, winners: Mapping[str, Mapping[str, bytes]]) -> dict[str, tuple[bytes, list[str]]]:
    """Each file that a winner changes, with the kernels that change it."""
    found: dict[str, tuple[bytes, list[str]]] = {}
    for kernel, files in winners.items():
        for path, content in files.items():
            base = (stock / path).read_bytes()
            if content == base:
                continue
            before, kernels = found.get(path, (base, []))
            both = content if before in (base, content) else merged(base, before, content)
            if both is None:
                others = " and ".join(kernels)
                raise Refused(f"{kernel} changes the same lines of {path} as {others}: leave one out with --without")
            found[path] = both, [*kernels, kernel]
    return found


def write(stock: Path, out: Path, picks: Sequence[Pick], changed: Mapping[str, tuple[bytes, list[str]]]) -> None:
    """All of it or nothing: the folder appears with its last file in it."""
    making = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        shutil.copytree(stock, making, ignore=LEFT_BEHIND, dirs_exist_ok=True)
        files = []
        for path, (content, kernels) in sorted(changed.items()):
            stock_hash = digest((stock / path).read_bytes())
            (making / path).write_bytes(content)
            files.append({"path": path, "stock": stock_hash, "winner": digest(content), "kernels": kernels})
        told = {"winners": [vars(one) for one in picks], "files": files}
        (making / MANIFEST).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        making.chmod(0o755)
        making.rename(out)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def of_all(
    folders: Sequence[Path], *, untested: bool, left_out: Sequence[str]
) -> tuple[list[tuple[Pick, Path]], set[str]]:
    """What is taken, each with its journal's folder, and of which kernels there is nothing to take."""
    read = [(campaigns, TABLE.read_all(campaigns)) for campaigns in folders]
    unknown = sorted(set(left_out) - {one.folder for _, found in read for one in found})
    if unknown:
        raise Refused(f"no campaign in {', '.join(map(str, folders))} is called {', '.join(unknown)}")
    taken: dict[str, tuple[Pick, Path]] = {}
    seen: set[str] = set()
    for campaigns, found in read:
        picks, without = picked([one for one in found if one.folder not in left_out], untested=untested)
        for one in picks:
            taken.setdefault(one.kernel, (one, campaigns / one.folder))
        seen |= {*without, *taken}
    return list(taken.values()), seen - set(taken)


def make(stock: Path, out: Path, folders: Sequence[Path], *, untested: bool, left_out: Sequence[str]) -> None:
    if out.exists():
        raise Refused(f"{out} is there already, and nothing is written over it")
    found, without = of_all(folders, untested=untested, left_out=left_out)
    if not found:
        more = "" if untested else "; --untested also takes what was accepted and not tested yet"
        where = ", ".join(map(str, folders))
        raise Refused(f"no campaign in {where} has a winner that the library's own tests passed on{more}")
    picks = [one for one, _ in found]
    with tempfile.TemporaryDirectory() as scratch:
        files = {one.kernel: rebuilt(one, journal, stock, Path(scratch)) for one, journal in found}
    write(stock, out, picks, together(stock, files))
    for one in picks:
        print(f"{one.kernel}: v{one.variant} of {one.folder}, {'tests passed' if one.tested else 'NOT TESTED YET'}")
    print(f"nothing of: {', '.join(sorted(without)) or 'none'}")


def main(arguments: Sequence[str] | None = None) -> int:
    asking = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asking.add_argument("--stock", type=Path, required=True, help="the tree that the campaigns ran on")
    asking.add_argument("--out", type=Path, required=True, help="the new tree")
    asking.add_argument("--campaigns", type=Path, action="append", metavar="DIR", help="a folder of journals")
    asking.add_argument("--untested", action="store_true", help="also what was accepted and not tested yet")
    asking.add_argument("--without", action="append", default=[], metavar="FOLDER", help="a campaign to leave out")
    asked = asking.parse_args(arguments)
    try:
        folders = asked.campaigns or [CAMPAIGNS]
        make(asked.stock, asked.out.absolute(), folders, untested=asked.untested, left_out=asked.without)
    except (Refused, BotError, OSError) as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
