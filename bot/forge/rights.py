"""What doctor asks GitHub: whether the token may do what each zone does, and how the repository is set up.

A right to write is found out by a request that GitHub must refuse, since it lacks what makes it one: 422 says that the
token may, 403 that it may not. Nothing is ever made by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bot.forge.views import Answer
from bot.model.health import Probe, missing, not_checked, ok, warning
from bot.model.sweep import Labels

__all__ = ["GITHUB", "JOBS_OWN", "Answer", "Api", "Asked", "open_api"]
NOBODY = "0" * 40
SETTINGS = "Settings > Actions > General > Workflow permissions"
JOBS_OWN = 41898282
"""github-actions[bot], as whom a job's own token acts."""


class Api(Protocol):
    """One request to the repository's part of the API. Its twin in memory is in tests/forge/test_rights.py."""

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer: ...

    def me(self) -> int | None:
        """Id of the account; None where a token may not ask, as a job's own and an App's may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What doctor knows before it asks."""

    api: Api
    bot_id: int | None = None
    """As the job was told; a token need not know it."""
    labels: tuple[Labels, ...] = ()
    """Of each kind of runner that jobs are sent to."""


def open_api(api_url: str, repo: str, token: str) -> Api:
    from bot.forge.rights_rest import GithubApi

    return GithubApi(api_url, repo, token)


def access(asked: Asked) -> Probe:
    name, found = "token", asked.api.ask("GET", "")
    if found.status == 200:
        return ok(name, "it may read the repository")
    if found.status == 0:
        return not_checked(name, "GitHub did not answer", "look at the network and at GITHUB_API_URL")
    why = {401: "GitHub does not know it", 404: "it may not see this repository"}.get(
        found.status, f"GitHub answered {found.status}"
    )
    return missing(name, why, "give KERNELWRIGHT_TOKEN a token of this repository that has not expired")


def _right(name: str, path: str, need: str) -> Callable[[Asked], Probe]:
    def probe(asked: Asked) -> Probe:
        status = asked.api.ask("POST", path, {}).status
        if status == 422:
            return ok(name, "granted")
        if status in (401, 403):
            return missing(name, "not granted", f"add `{need}` to the job's permissions, or to the App's")
        return not_checked(name, f"GitHub answered {status or 'nothing'}", f"see that the token has `{need}`")

    return probe


def opens_pulls(asked: Asked) -> Probe:
    name = "Actions may create pull requests"
    found = asked.api.ask("GET", "/actions/permissions/workflow")
    allowed = found.data.get("can_approve_pull_request_reviews") if isinstance(found.data, dict) else None
    if found.status != 200 or allowed is None:
        todo = f"only an administrator's token may ask: look at {SETTINGS}; the sweep needs it unless an App pushes"
        return not_checked(name, "this token may not ask", todo)
    if allowed:
        return ok(name, "allowed")
    todo = f"{SETTINGS}: allow GitHub Actions to create and approve pull requests; or let an App push"
    return warning(name, "forbidden: a sweep pushes its branch and cannot offer it", todo)


def starts_checks(asked: Asked) -> Probe:
    name = "checks on our own pull requests"
    me = asked.bot_id or asked.api.me()
    if me is not None and me != JOBS_OWN:
        return ok(name, "the token is an account's or an App's: its pushes start checks")
    todo = (
        "give the push job an App's token (docs/install.md), or have a writer press `Approve and run` on the sweep's"
        " pull requests"
    )
    return warning(name, "GitHub starts none for what a job's own token pushes or opens", todo)


def _carries(runner: Mapping[str, Any], labels: Labels) -> bool:
    there = {str(label.get("name", "")).lower() for label in runner.get("labels", ())}
    return {label.lower() for label in labels} <= there


def runners(asked: Asked) -> Probe:
    name = "runner labels"
    if not asked.labels:
        return not_checked(name, "no labels are configured", "set KERNELWRIGHT_RUNNER or [sweep.pools]")
    found = asked.api.ask("GET", "/actions/runners?per_page=100")
    listed = found.data.get("runners") if isinstance(found.data, dict) else None
    wanted = [", ".join(labels) for labels in asked.labels]
    if found.status != 200 or not isinstance(listed, list):
        todo = f"only an administrator's token may ask: look for {' and '.join(wanted)} at Settings > Actions > Runners"
        return not_checked(name, "this token may not ask", todo)
    there = [[one for one in listed if _carries(one, labels)] for labels in asked.labels]
    none = [shown for shown, one in zip(wanted, there, strict=True) if not one]
    if none:
        return missing(name, f"no runner carries {' or '.join(none)}", "register one with these labels, or change them")
    asleep = [
        shown
        for shown, one in zip(wanted, there, strict=True)
        if not any(runner.get("status") == "online" for runner in one)
    ]
    if asleep:
        return warning(name, f"no runner of {' or '.join(asleep)} is online", "start its service")
    return ok(name, f"online: {'; '.join(wanted)}")


def switch(asked: Asked) -> Probe:
    name = "kill switch"
    found = asked.api.ask("GET", "/actions/variables/KERNELWRIGHT_ENABLED")
    value = found.data.get("value") if isinstance(found.data, dict) else None
    if found.status == 200 and value == "true":
        return ok(name, "KERNELWRIGHT_ENABLED is true")
    todo = "gh variable set KERNELWRIGHT_ENABLED --body true"
    if found.status == 200:
        return warning(name, f"KERNELWRIGHT_ENABLED is {str(value)[:20]!a}: nothing runs", todo)
    if found.status == 404:
        return warning(name, "there is no variable KERNELWRIGHT_ENABLED: nothing runs", todo)
    return not_checked(name, "this token may not ask", "look at Settings > Secrets and variables > Actions > Variables")


GITHUB: tuple[Callable[[Asked], Probe], ...] = (
    access,
    _right("right to push commits", "/git/refs", "contents: write"),
    _right("right to open issues", "/issues", "issues: write"),
    _right("right to open pull requests", "/pulls", "pull-requests: write"),
    _right("right to set statuses", f"/statuses/{NOBODY}", "statuses: write"),
    opens_pulls,
    starts_checks,
    runners,
    switch,
)
