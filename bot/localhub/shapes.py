"""GitHub's JSON shapes. Every address in them begins with the address this hub answers at."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

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
        return {
            "login": account.login,
            "id": account.id,
            "node_id": node_id("U", account.id),
            "avatar_url": f"{self.server}/avatars/{account.id}",
            "url": f"{self.api}/users/{quote(account.login, safe='')}",
            "html_url": f"{self.server}/{account.login}",
            "type": "Bot" if account.is_bot else "User",
            "site_admin": False,
        }

    def repository(self, name: str) -> Json:
        owner, _, short = name.partition("/")
        number = 500 + [self.world.repo, *self.world.forks].index(name)
        holder = self.world.accounts.get(owner) or Account(id=400, login=owner, role=Role.ADMIN)
        return {
            "id": number,
            "node_id": node_id("R", number),
            "name": short,
            "full_name": name,
            "private": False,
            "owner": self.user(holder),
            "html_url": f"{self.server}/{name}",
            "fork": name != self.world.repo,
            "url": f"{self.api}/repos/{name}",
            "clone_url": f"{self.server}/{name}.git",
            "created_at": self.world.created_at,
            "default_branch": self.main,
            "visibility": "public",
        }

    def issue(self, thread: Thread) -> Json:
        url, kind = f"{self.repo_api}/issues/{thread.number}", "pull" if thread.pull else "issues"
        shown = f"{self.server}/{self.world.repo}/{kind}/{thread.number}"
        pull = {"url": f"{self.repo_api}/pulls/{thread.number}", "html_url": shown, "merged_at": None}
        return {
            "id": thread.id,
            "node_id": node_id("I", thread.id),
            "number": thread.number,
            "url": url,
            "repository_url": self.repo_api,
            "comments_url": f"{url}/comments",
            "html_url": shown,
            "title": thread.title,
            "body": thread.body or None,
            "state": "open" if thread.is_open else "closed",
            "locked": False,
            "draft": bool(thread.pull and thread.pull.is_draft),
            "user": self.account(thread.author),
            "labels": [],
            "assignees": [],
            "comments": len(self.world.comments_on(thread.number)),
            "created_at": thread.created_at,
            "updated_at": thread.closed_at or thread.created_at,
            "closed_at": thread.closed_at,
            "author_association": self._association(thread.author),
            **({"pull_request": pull} if thread.pull else {}),
        }

    def pull(self, thread: Thread, part: PullPart, base_sha: str) -> Json:
        issue = self.issue(thread)
        return {
            **{name: value for name, value in issue.items() if name not in ("pull_request", "comments")},
            "id": thread.id,
            "node_id": node_id("PR", thread.id),
            "url": f"{self.repo_api}/pulls/{thread.number}",
            "issue_url": issue["url"],
            "diff_url": f"{issue['html_url']}.diff",
            "statuses_url": f"{self.repo_api}/statuses/{part.head}",
            "merged_at": None,
            "merged": False,
            "mergeable": True,
            "maintainer_can_modify": True,
            "commits": 1 + len(part.pushes),
            "comments": issue["comments"],
            "head": self._end(part.head_repo, part.head_ref, part.head),
            "base": self._end(self.world.repo, part.base_ref, base_sha),
        }

    def _end(self, repo: str | None, ref: str, sha: str) -> Json:
        known = repo if repo in (self.world.repo, *self.world.forks) else None
        owner = repo.partition("/")[0] if repo else "unknown"
        user = self.account(owner) if owner in self.world.accounts else None
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
            "html_url": f"{self.issue(thread)['html_url']}#issuecomment-{comment.id}",
            "issue_url": f"{self.repo_api}/issues/{comment.number}",
            "user": self.account(comment.author),
            "body": comment.body,
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "author_association": self._association(comment.author),
            "performed_via_github_app": None,
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

    def permission(self, account: Account) -> Json:
        """`permission` is the old word of four; the role's own name stands in `role_name`."""
        old = LEGACY_PERMISSION.get(account.role, str(account.role))
        may: Mapping[str, bool] = {"pull": account.role is not Role.NONE, "push": account.role.may_write}
        user = self.user(account) | {"role_name": str(account.role), "permissions": dict(may)}
        return {"permission": old, "role_name": str(account.role), "user": user}
