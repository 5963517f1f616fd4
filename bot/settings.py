"""Reads a job's environment once and hands out one frozen Settings. Nothing else reads os.environ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field, StringConstraints, ValidationError

from bot.errors import UserError
from bot.model.ids import Login, RepoName
from bot.model.reasons import ReasonCode
from bot.model.word import Word

VARIABLES = {
    "repository": "GITHUB_REPOSITORY",
    "api_url": "GITHUB_API_URL",
    "server_url": "GITHUB_SERVER_URL",
    "token": "KERNELWRIGHT_TOKEN",
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


Address: TypeAlias = Annotated[str, StringConstraints(pattern=r"\Ahttps?://[^\s/?#]+(/[^\s/?#]+)*\Z")]
"""Paths are put behind it, so it ends in no slash."""


class Settings(Word):
    repository: RepoName
    api_url: Address = "https://api.github.com"
    server_url: Address = "https://github.com"
    token: str = ""
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
