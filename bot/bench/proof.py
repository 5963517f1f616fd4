"""Whether a repository's tests ran the files of their tree: what they imported is compared with what lies there.

This is against accidents, and proves nothing against a variant that means ill: the judge has its own way of asking.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from bot.bench.plugins import findable, is_pytest
from bot.model.finalization import CommandRun
from bot.model.site import KernelSite

OURS = ("-p", "kernelwright_proof")
VARIABLE = "KERNELWRIGHT_PROOF"
IMPORTED = re.compile(rf"^{VARIABLE} ([0-9a-f]{{64}})$", re.MULTILINE)


def words(site: KernelSite, environment: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The test command that says what it imported, and what it needs for that; any but a plain pytest as it is."""
    command = site.test_command
    if not is_pytest(command):
        return command, dict(environment)
    return (*command, *OURS), {**findable(environment), VARIABLE: site.module}


def _own(tree: Path, site: KernelSite) -> str:
    """What the module's file in the tree hashes to; empty where it is no single file of this kernel."""
    place = site.module.replace(".", "/") + ".py"
    mine = [tree / path for path in site.files if path == place or path.endswith(f"/{place}")]
    return hashlib.sha256(mine[0].read_bytes()).hexdigest() if len(mine) == 1 and mine[0].is_file() else ""


def held(run: CommandRun, tree: Path, site: KernelSite) -> CommandRun:
    """The run as the target describes its command. One that went well on another text did not go well."""
    argv = run.argv[: -len(OURS)] if run.argv[-len(OURS) :] == OURS else run.argv
    run = run.model_copy(update={"argv": argv})
    imported, own = set(IMPORTED.findall(run.output)), _own(tree, site)
    if not run.passed or not own or imported <= {own}:
        return run
    said = f"the tests imported another {site.module} than this tree's: an installed copy, or one earlier on their path"
    return run.model_copy(update={"passed": False, "exit_code": run.exit_code or 1, "summary": said})
