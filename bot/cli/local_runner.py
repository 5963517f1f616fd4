"""The machine that plays workflow files on the embedded GitHub, as the demo and a rehearsal have it: this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import bot
from bot.errors import OperatorError
from bot.localhub.runner import Runner
from bot.localhub.server import Hub
from bot.localhub.world import ACTIONS_BOT

BOT = ACTIONS_BOT[0]
"""Who writes with a job's own token."""
NOT_SECRET = "nothing here is secret"


def action_folder() -> Path:
    """In an installed wheel inside the package, in a checkout beside it."""
    package = Path(bot.__file__).parent
    for folder in (package / "_action", package.parent):
        if (folder / "action.yml").is_file():
            return folder
    raise OperatorError("action.yml is missing", hint="install kernelwright again; the wheel carries it")


def runner_of(
    hub: Hub, work: Path, *, evidence: str, python: str = sys.executable, hosted_python: str = sys.executable
) -> Runner:
    """Everything that the workflow files ask a repository's settings for."""
    return Runner(
        hub,
        work,
        bot=BOT,
        action=action_folder(),
        variables={
            "KERNELWRIGHT_ENABLED": "true",
            "KERNELWRIGHT_RUNNER": '["self-hosted"]',
            "KERNELWRIGHT_PYTHON": python,
            "KERNELWRIGHT_HOSTED_PYTHON": hosted_python,
            "KERNELWRIGHT_EVIDENCE": evidence,
            "KERNELWRIGHT_APP_CLIENT_ID": NOT_SECRET,
        },
        secrets={"KERNELWRIGHT_APP_KEY": NOT_SECRET},
        # For a machine whose only Python is the one that runs this.
        environment={"PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))},
    )
