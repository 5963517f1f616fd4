"""What the workflow files hand to the job of a zone, for tests that call a zone without playing the files."""

from __future__ import annotations

from functools import lru_cache

from bot.localhub.runner import GIVES
from bot.localhub.server import Hub
from bot.localhub.steps import app_scopes
from bot.localhub.workflow_files import JobSpec, Step, read_workflow
from bot.localhub.world import Scope
from bot.render import workflows

TOKENS = {"token": "KERNELWRIGHT_TOKEN", "push-token": "KERNELWRIGHT_PUSH_TOKEN"}
"""Input of the action -> the variable that its step hands it over in; tests/workflows/test_handed.py compares."""


@lru_cache(maxsize=1)
def jobs() -> dict[str, tuple[JobSpec, Step]]:
    """Zone -> the job that runs it, and the step."""
    files = (read_workflow(workflows.page(name, workflows.OWN_ACTION), name) for name in workflows.names())
    return {
        step.given["zone"]: (job, step)
        for file in files
        for job in file.jobs
        for step in job.steps
        if "zone" in step.given
    }


def scopes(zone: str) -> dict[str, tuple[Scope, ...]]:
    """The tokens that the zone is given, and what each may do."""
    job, step = jobs()[zone]
    own = {scope for pair in job.permissions.items() for scope in GIVES.get(pair, ())}
    app = (app_scopes(made.given) for made in job.steps if made.id == "app")
    may: dict[str, tuple[Scope, ...]] = {"token": tuple(sorted(own)), "push-token": next(app, ())}
    return {TOKENS[name]: may[name] for name in step.given if name in TOKENS}


def tokens(zone: str, hub: Hub, bot: str) -> dict[str, str]:
    return {variable: hub.token(bot, may) for variable, may in scopes(zone).items()}
