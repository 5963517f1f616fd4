"""The door that doctor asks through: any status is an answer, and none is an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from github import GithubException
from requests import RequestException

from bot.forge.rest import connect
from bot.forge.views import Answer


class GithubApi:
    def __init__(self, api_url: str, repo: str, token: str) -> None:
        self._requester = connect(api_url, token).requester
        self._repo = repo

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        try:
            status, _, text = self._requester.requestJson(method, path, input=None if body is None else dict(body))
        except GithubException as error:
            return Answer(status=error.status, data=error.data)
        except RequestException:
            return Answer(status=0)
        try:
            return Answer(status=status, data=json.loads(text or "null"))
        except ValueError:
            return Answer(status=status)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        return self._ask(method, f"/repos/{self._repo}{path}", body)

    def me(self) -> int | None:
        found = self._ask("GET", "/user", None)
        number = found.data.get("id") if found.status == 200 and isinstance(found.data, dict) else None
        return number if isinstance(number, int) else None
