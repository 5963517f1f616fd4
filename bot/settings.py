"""Reads a job's environment once and hands out one frozen Settings, and the inputs of action.yml as frozen Inputs.

Nothing else reads os.environ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, Json, StringConstraints, ValidationError

from bot.errors import UserError
from bot.model.ids import CampaignId, Login, RepoName
from bot.model.reasons import ReasonCode
from bot.model.sweep import Labels
from bot.model.word import Word

VARIABLES = {
    "repository": "GITHUB_REPOSITORY",
    "api_url": "GITHUB_API_URL",
    "server_url": "GITHUB_SERVER_URL",
    "token": "KERNELWRIGHT_TOKEN",
    "push_token": "KERNELWRIGHT_PUSH_TOKEN",
    "event_name": "GITHUB_EVENT_NAME",
    "event_path": "GITHUB_EVENT_PATH",
    "workspace": "GITHUB_WORKSPACE",
    "scratch": "RUNNER_TEMP",
    "run_url": "KERNELWRIGHT_RUN_URL",
    "bot_login": "KERNELWRIGHT_BOT_LOGIN",
    "bot_id": "KERNELWRIGHT_BOT_ID",
    "output_path": "GITHUB_OUTPUT",
}
"""Field -> the variable it is read from. An empty variable counts as absent."""

INPUTS = {
    "zone": "KERNELWRIGHT_ZONE",
    "campaign": "KERNELWRIGHT_CAMPAIGN",
    "order": "KERNELWRIGHT_ORDER",
    "repository": "KERNELWRIGHT_REPOSITORY",
    "segment": "KERNELWRIGHT_SEGMENT",
    "evidence": "KERNELWRIGHT_EVIDENCE",
    "runner": "KERNELWRIGHT_RUNNER",
    "scratch": "RUNNER_TEMP",
    "workspace": "GITHUB_WORKSPACE",
    "output_path": "GITHUB_OUTPUT",
}
"""Input of action.yml -> the variable that its step hands it over in; the last three are the runner's own."""

ZONES = Literal["decide", "take", "measure", "publish", "push", "reconcile", "sweep-plan", "sweep-dashboard"]
NEEDED: dict[str, tuple[str, ...]] = {
    "take": ("campaign",),
    "measure": ("order", "repository", "segment"),
    "publish": ("campaign",),
    "push": ("campaign",),
}
TOKENS = ("KERNELWRIGHT_TOKEN", "KERNELWRIGHT_PUSH_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")
"""What the job that runs code of a pull request must not hold."""

Address: TypeAlias = Annotated[str, StringConstraints(pattern=r"\Ahttps?://[^\s/?#]+(/[^\s/?#]+)*\Z")]
"""Paths are put behind it, so it ends in no slash."""


class Settings(Word):
    repository: RepoName
    api_url: Address = "https://api.github.com"
    server_url: Address = "https://github.com"
    token: str = ""
    push_token: str = ""
    """What may write to the pull request's branch, where `token` is not to: an App's, held by the push job alone."""
    event_name: str = ""
    event_path: Path | None = None
    workspace: Path = Path()
    """The trusted checkout of the default branch."""
    scratch: Path
    """An empty folder that goes away with the job."""
    run_url: str = ""
    bot_login: Login | None = None
    bot_id: Annotated[int, Field(gt=0)] | None = None
    output_path: Path | None = None

    @property
    def git_url(self) -> str:
        return f"{self.server_url}/{self.repository}.git"

    def blob_url(self, commit: str, path: str) -> str:
        return f"{self.server_url}/{self.repository}/blob/{commit}/{path}"

    def tree_url(self, commit: str, path: str) -> str:
        return f"{self.server_url}/{self.repository}/tree/{commit}/{path}".rstrip("/")

    def commit_url(self, commit: str) -> str:
        return f"{self.server_url}/{self.repository}/commit/{commit}"


class Inputs(Word):
    """What the workflow tells one job to do."""

    zone: ZONES
    campaign: CampaignId | None = None
    order: str = ""
    """JSON, as the job that took the order gave it out."""
    repository: Path | None = None
    segment: Path | None = None
    evidence: Literal["auto", "measured", "static"] = "auto"
    runner: Json[Labels] = ("self-hosted", "kernelwright")
    scratch: Path
    workspace: Path = Path()
    output_path: Path | None = None


def _wrong(name: str, what: str, hint: str) -> UserError:
    place = f"input {name}" if INPUTS.get(name, "").startswith("KERNELWRIGHT_") else INPUTS.get(name, name)
    return UserError(f"{place}: {what}", hint=hint, reason=ReasonCode.CONFIG_INVALID)


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """The inputs of action.yml, or which one is missing or wrong. The measuring job is refused with a token in hand."""
    found = {name: environment[variable] for name, variable in INPUTS.items() if environment.get(variable)}
    try:
        inputs = Inputs.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        raise _wrong(name, first["msg"], "see the inputs of action.yml for what it takes") from error
    for name in NEEDED.get(inputs.zone, ()):
        if name not in found:
            raise _wrong(name, f"zone {inputs.zone} needs it", f"set `{name}:` under `with:` of this step")
    held = [variable for variable in TOKENS if environment.get(variable)]
    if inputs.zone == "measure" and held:
        raise _wrong("token", f"the measuring job was given {', '.join(held)}", "give the zone measure no token at all")
    return inputs


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from the variables of a job, or which variable is missing or wrong and what it should hold."""
    found: dict[str, Any] = {
        field: environment[variable] for field, variable in VARIABLES.items() if environment.get(variable)
    }
    try:
        return Settings.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        variable = VARIABLES.get(str(first["loc"][0]), str(first["loc"][0]))
        raise UserError(
            f"{variable}: {first['msg']}",
            hint=f"set {variable} for this step; GitHub Actions sets the GITHUB_ ones itself",
            reason=ReasonCode.CONFIG_INVALID,
        ) from error
