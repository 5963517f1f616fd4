"""GitHub's JSON shapes. Every address in them begins with the address this hub answers at."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bot.localhub.addresses import OF_ISSUE, OF_PULL, OF_REPOSITORY, OF_USER, below
from bot.localhub.history import FileChange
from bot.localhub.world import Account, Comment, PullPart, Reaction, Review, Status, Thread, World
from bot.model.people import Role

REACTIONS = {
    "+1": "👍",
    "-1": "👎",
    "laugh": "😄",
    "confused": "😕",
    "heart": "❤️",
    "hooray": "🎉",
    "rocket": "🚀",
    "eyes": "👀",
}
ASSOCIATION = {Role.ADMIN: "OWNER", Role.MAINTAIN: "MEMBER", Role.WRITE: "COLLABORATOR"}
MAY = ("pull", "triage", "push", "maintain", "admin")
"""What each role adds to the one before it."""
PROFILE = ("name", "company", "location", "email", "hireable", "bio")
"""What nobody here tells of themselves."""
COUNTS = ("forks", "forks_count", "open_issues", "open_issues_count", "size", "stargazers_count", "watchers")
HAS = ("has_downloads", "has_issues", "has_projects", "has_wiki", "has_pages", "has_discussions")
LEGACY_PERMISSION = {Role.MAINTAIN: "write", Role.TRIAGE: "read"}
Json = dict[str, Any]


def node_id(kind: str, number: int) -> str:
    return f"{kind}_{base64.b64encode(str(number).encode()).decode().rstrip('=')}"


@dataclass(frozen=True, slots=True)
class Shapes:
    server: str
    world: World
    main: str

    @property
    def api(self) -> str:
        return f"{self.server}/api/v3"

    @property
    def repo_api(self) -> str:
        return f"{self.api}/repos/{self.world.repo}"

    def account(self, login: str) -> Json:
        """As it appears everywhere: a login that is gone is a ghost."""
        found = self.world.accounts.get(login)
        return self.user(found or Account(id=10137, login="ghost", role=Role.NONE))

    def user(self, account: Account) -> Json:
        url = f"{self.api}/users/{quote(account.login, safe='')}"
        return {
            "login": account.login,
            "id": account.id,
            "node_id": node_id("U", account.id),
            "avatar_url": f"{self.server}/avatars/{account.id}",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{self.server}/{account.login}",
            "type": "Bot" if account.is_bot else "User",
            "site_admin": False,
            **below(url, OF_USER),
        }

    def person(self, account: Account) -> Json:
        """As somebody's own page tells of them."""
        counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
        since = {"created_at": self.world.created_at, "updated_at": self.world.created_at}
        return {**self.user(account), **dict.fromkeys(PROFILE), "blog": "", **counts, **since}

    def repository(self, name: str) -> Json:
        owner, _, short = name.partition("/")
        number = 500 + [self.world.repo, *self.world.forks].index(name)
        return {
            "id": number,
            "node_id": node_id("R", number),
            "name": short,
            "full_name": name,
            "private": False,
            "owner": self._holder(owner),
            "html_url": f"{self.server}/{name}",
            "description": None,
            "fork": name != self.world.repo,
            "url": f"{self.api}/repos/{name}",
            **below(f"{self.api}/repos/{name}", OF_REPOSITORY),
            "clone_url": f"{self.server}/{name}.git",
            "git_url": f"{self.server}/{name}.git",
            "ssh_url": f"git@localhub:{name}.git",
            "svn_url": f"{self.server}/{name}",
            "created_at": self.world.created_at,
            "updated_at": self.world.created_at,
            "pushed_at": self.world.created_at,
            "default_branch": self.main,
            "visibility": "public",
            **dict.fromkeys(("homepage", "language", "mirror_url", "license")),
            **dict.fromkeys((*HAS, "archived", "disabled"), False),
            **dict.fromkeys((*COUNTS, "watchers_count", "network_count", "subscribers_count"), 0),
        }

    def _holder(self, owner: str) -> Json:
        return self.user(self.world.accounts.get(owner) or Account(id=400, login=owner, role=Role.ADMIN))

    def _shown_at(self, thread: Thread) -> str:
        return f"{self.server}/{self.world.repo}/{'pull' if thread.pull else 'issues'}/{thread.number}"

    def issue(self, thread: Thread) -> Json:
        url, shown = f"{self.repo_api}/issues/{thread.number}", self._shown_at(thread)
        merged = thread.pull.merged_at if thread.pull else None
        ways = {"html_url": shown, "diff_url": f"{shown}.diff", "patch_url": f"{shown}.patch"}
        pull = {"url": f"{self.repo_api}/pulls/{thread.number}", "merged_at": merged, **ways}
        return {
            "id": thread.id,
            "node_id": node_id("I", thread.id),
            "number": thread.number,
            "url": url,
            "repository_url": self.repo_api,
            **below(url, OF_ISSUE),
            "html_url": shown,
            "title": thread.title,
            "body": thread.body or None,
            "state": "open" if thread.is_open else "closed",
            "locked": False,
            "draft": bool(thread.pull and thread.pull.is_draft),
            "user": self.account(thread.author),
            "labels": [],
            "assignee": None,
            "assignees": [],
            "milestone": None,
            "comments": len(self.world.comments_on(thread.number)),
            "created_at": thread.created_at,
            "updated_at": thread.closed_at or thread.created_at,
            "closed_at": thread.closed_at,
            "author_association": self._association(thread.author),
            **({"pull_request": pull} if thread.pull else {}),
        }

    def pull(self, thread: Thread, part: PullPart, base_sha: str) -> Json:
        issue, url = self.issue(thread), f"{self.repo_api}/pulls/{thread.number}"
        left_out = ("pull_request", "events_url", "labels_url")
        shape = {
            **{name: value for name, value in issue.items() if name not in left_out},
            **below(url, OF_PULL),
            "id": thread.id,
            "node_id": node_id("PR", thread.id),
            "url": url,
            "issue_url": issue["url"],
            "diff_url": f"{issue['html_url']}.diff",
            "patch_url": f"{issue['html_url']}.patch",
            **dict.fromkeys(("merged_by", "merge_commit_sha", "auto_merge")),
            **dict.fromkeys(("review_comments", "additions", "deletions", "changed_files"), 0),  # asked for by nobody
            "statuses_url": f"{self.repo_api}/statuses/{part.head}",
            "merged_at": part.merged_at,
            "merged": part.merged_at is not None,
            "mergeable": True,
            "mergeable_state": "clean",
            "maintainer_can_modify": True,
            "commits": 1 + len(part.pushes),
            "head": self._end(part.head_repo, part.head_ref, part.head),
            "base": self._end(self.world.repo, part.base_ref, base_sha),
        }
        return {**shape, "_links": self._links(shape)}

    @staticmethod
    def _links(pull: Json) -> Json:
        """The same addresses once more."""
        named = ("html", "issue", "comments", "review_comments", "review_comment", "commits", "statuses")
        return {"self": {"href": pull["url"]}, **{name: {"href": pull[f"{name}_url"]} for name in named}}

    def _end(self, repo: str | None, ref: str, sha: str) -> Json:
        known = repo if repo in (self.world.repo, *self.world.forks) else None
        owner = repo.partition("/")[0] if repo else "unknown"
        user = self._holder(owner) if known else self.account(owner)
        shape = self.repository(known) if known else None
        return {"label": f"{owner}:{ref}", "ref": ref, "sha": sha, "user": user, "repo": shape}

    def _association(self, login: str) -> str:
        account = self.world.accounts.get(login)
        return ASSOCIATION.get(account.role, "NONE") if account else "NONE"

    def comment(self, comment: Comment) -> Json:
        url, thread = f"{self.repo_api}/issues/comments/{comment.id}", self.world.threads[comment.number]
        counted = Counter(reaction.content for reaction in self.world.reactions_to(comment.id))
        counts = {name: counted[name] for name in REACTIONS}
        return {
            "id": comment.id,
            "node_id": node_id("IC", comment.id),
            "url": url,
            "html_url": f"{self._shown_at(thread)}#issuecomment-{comment.id}",
            "issue_url": f"{self.repo_api}/issues/{comment.number}",
            "user": self.account(comment.author),
            "body": comment.body,
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "author_association": self._association(comment.author),
            "performed_via_github_app": None,
            "minimized": {"reason": comment.minimized} if comment.minimized else None,
            "reactions": {"url": f"{url}/reactions", "total_count": counted.total(), **counts},
        }

    def reaction(self, reaction: Reaction) -> Json:
        return {
            "id": reaction.id,
            "node_id": node_id("REA", reaction.id),
            "user": self.account(reaction.author),
            "content": reaction.content,
            "created_at": reaction.created_at,
        }

    def review(self, review: Review) -> Json:
        pull = f"{self.repo_api}/pulls/{review.number}"
        shown = f"{self.server}/{self.world.repo}/pull/{review.number}#pullrequestreview-{review.id}"
        return {
            "id": review.id,
            "node_id": node_id("PRR", review.id),
            "user": self.account(review.author),
            "body": review.body,
            "state": review.state,
            "html_url": shown,
            "pull_request_url": pull,
            "author_association": self._association(review.author),
            "submitted_at": review.created_at,
            "commit_id": review.commit,
            "_links": {"html": {"href": shown}, "pull_request": {"href": pull}},
        }

    def status(self, status: Status) -> Json:
        return {
            "id": status.id,
            "node_id": node_id("SC", status.id),
            "url": f"{self.repo_api}/statuses/{status.sha}",
            "avatar_url": f"{self.server}/avatars/0",
            "state": status.state,
            "description": status.description,
            "target_url": status.target_url or None,
            "context": status.context,
            "creator": self.account(status.author),
            "created_at": status.created_at,
            "updated_at": status.created_at,
        }

    def combined(self, sha: str) -> Json:
        """The worst of the latest: any failure, else any pending, else success; pending when there is none."""
        latest = self.world.latest_statuses(sha)
        states = {status.state for status in latest}
        pending = not latest or "pending" in states
        state = "failure" if states & {"failure", "error"} else "pending" if pending else "success"
        return {
            "state": state,
            "statuses": [self.status(status) for status in latest],
            "sha": sha,
            "total_count": len(latest),
            "repository": self.repository(self.world.repo),
            "commit_url": f"{self.repo_api}/commits/{sha}",
            "url": f"{self.repo_api}/commits/{sha}/status",
        }

    def file(self, change: FileChange, sha: str) -> Json:
        path, blob = quote(change.path), f"{self.server}/{self.world.repo}/blob/{sha}/{quote(change.path)}"
        return {
            "sha": change.blob,
            "filename": change.path,
            "status": change.status,
            "additions": change.additions,
            "deletions": change.deletions,
            "changes": change.additions + change.deletions,
            "blob_url": blob,
            "raw_url": blob.replace("/blob/", "/raw/", 1),
            "contents_url": f"{self.repo_api}/contents/{path}?ref={sha}",
            **({"patch": change.patch} if change.patch else {}),
            **({"previous_filename": change.previous} if change.previous else {}),
        }

    def ref(self, name: str, sha: str) -> Json:
        target = {"sha": sha, "type": "commit", "url": f"{self.repo_api}/git/commits/{sha}"}
        return {"ref": name, "node_id": f"REF_{name}", "url": f"{self.repo_api}/git/{name}", "object": target}

    def started_run(self, number: int) -> Json:
        shown = f"{self.server}/{self.world.repo}/actions/runs/{number}"
        return {"workflow_run_id": number, "run_url": f"{self.repo_api}/actions/runs/{number}", "html_url": shown}

    def permission(self, account: Account) -> Json:
        """`permission` is the old word of four; the role's own name stands in `role_name`."""
        old = LEGACY_PERMISSION.get(account.role, str(account.role))
        rank = [Role.READ, Role.TRIAGE, Role.WRITE, Role.MAINTAIN, Role.ADMIN]
        held = rank[: rank.index(account.role) + 1] if account.role in rank else []
        may: Mapping[str, bool] = {word: role in held for word, role in zip(MAY, rank, strict=True)}
        user = self.user(account) | {"role_name": str(account.role), "permissions": dict(may)}
        return {"permission": old, "role_name": str(account.role), "user": user}
