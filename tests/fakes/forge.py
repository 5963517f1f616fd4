"""GitHub in memory. `FakeHub` has the people's side with the names of `localhub.server.Hub`; `FakeForge` is ours."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from bot.errors import ForgeError
from bot.forge.client import CommentView, Hidden, ReviewView, StatusState
from bot.model.people import Actor, Role
from bot.model.pull import PullSnapshot

REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")
STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
LONGEST_COMMENT = 65536


def _refuse(status: int, message: str) -> ForgeError:
    return ForgeError(f"GitHub answered {status}, {message}", hint="this is the fake")


class FakeHub:
    def __init__(self, repo: str = "sample/kernels") -> None:
        self.repo = repo
        self.people: dict[str, Actor] = {}
        self.roles: dict[str, Role] = {}
        self.pulls: dict[int, PullSnapshot | None] = {}
        """None for an issue."""
        self.heads: dict[tuple[str, str], str] = {}
        """(repository, branch) -> commit."""
        self.trees: dict[str, dict[str, bytes]] = {}
        self.said: dict[int, tuple[int, CommentView]] = {}
        self.reviewed: dict[int, tuple[int, ReviewView]] = {}
        self.reactions: list[tuple[int, str, str]] = []
        """(comment, login, content)."""
        self.statuses: list[tuple[str, str, str, str, str]] = []
        """(sha, context, state, description, target_url)."""
        self._last = 0
        self._now = 0

    def new_id(self) -> int:
        self._last += 1
        return self._last

    def now(self) -> str:
        self._now += 1
        return f"2026-11-21T10:{self._now // 60:02d}:{self._now % 60:02d}Z"

    def forge(self, login: str) -> FakeForge:
        return FakeForge(self, self.people[login])

    def add_user(self, login: str, role: str, is_bot: bool = False) -> None:
        self.people.setdefault(login, Actor(id=self.new_id(), login=login, is_bot=is_bot))
        self.roles[login] = Role(role)

    def user_id(self, login: str) -> int:
        return self.people[login].id

    def push(self, login: str, branch: str, files: Mapping[str, bytes], message: str, repo: str | None = None) -> str:
        home = repo or self.repo
        before = self.heads.get((home, branch)) or self.heads.get((home, "main"), "")
        sha = hashlib.sha1(f"{before}{sorted(files.items())}{message}{self.new_id()}".encode()).hexdigest()
        self.trees[sha] = {**self.trees.get(before, {}), **files}
        self.heads[home, branch] = sha
        for number, pull in self.pulls.items():
            if pull and pull.is_open and (pull.head_repo, pull.head_ref) == (home, branch):
                self.pulls[number] = pull.model_copy(update={"head_sha": sha})
        return sha

    def fork(self, owner: str) -> str:
        name = f"{owner}/{self.repo.partition('/')[2]}"
        for (home, branch), sha in tuple(self.heads.items()):
            if home == self.repo:
                self.heads[name, branch] = sha
        return name

    def delete_fork(self, name: str) -> None:
        for number, pull in self.pulls.items():
            if pull and pull.head_repo == name:
                self.pulls[number] = pull.model_copy(update={"head_repo": None})

    def open_issue(self, author: str, title: str, body: str = "") -> int:
        number = 1 + len(self.pulls)
        self.pulls[number] = None
        return number

    def open_pull(
        self,
        author: str,
        head_ref: str,
        base_ref: str,
        title: str,
        body: str = "",
        draft: bool = False,
        head_repo: str | None = None,
    ) -> int:
        number = 1 + len(self.pulls)
        self.pulls[number] = PullSnapshot(
            number=number,
            is_open=True,
            is_draft=draft,
            author=self.people[author],
            head_sha=self.heads[head_repo or self.repo, head_ref],
            head_ref=head_ref,
            head_repo=head_repo or self.repo,
            base_ref=base_ref,
            base_repo=self.repo,
        )
        return number

    def close_pull(self, number: int) -> None:
        pull = self.pulls[number]
        assert pull is not None
        self.pulls[number] = pull.model_copy(update={"is_open": False})

    def comment(self, login: str, number: int, body: str) -> int:
        if number not in self.pulls:
            raise _refuse(404, "Not Found")
        if not body or len(body) > LONGEST_COMMENT:
            raise _refuse(422, "Validation Failed")
        made, now = self.new_id(), self.now()
        url = f"fake://{self.repo}/pull/{number}#issuecomment-{made}"
        view = CommentView(id=made, actor=self.people[login], body=body, created_at=now, updated_at=now, url=url)
        self.said[made] = (number, view)
        return made

    def edit_comment(self, login: str, comment: int, body: str) -> None:
        if comment not in self.said:
            raise _refuse(404, "Not Found")
        number, view = self.said[comment]
        self.said[comment] = (number, view.model_copy(update={"body": body, "updated_at": self.now()}))

    def review(self, login: str, number: int, state: str, body: str = "", commit: str | None = None) -> int:
        pull = self.pulls[number]
        assert pull is not None
        made = self.new_id()
        view = ReviewView(
            id=made,
            actor=self.people[login],
            state=STATES[state],
            commit_id=commit or pull.head_sha,
            submitted_at=self.now(),
            body=body,
        )
        self.reviewed[made] = (number, view)
        return made

    def dismiss_review(self, review: int) -> None:
        number, view = self.reviewed[review]
        self.reviewed[review] = (number, view.model_copy(update={"state": "DISMISSED"}))


class FakeForge:
    """The Forge protocol for one account of a FakeHub."""

    def __init__(self, hub: FakeHub, own: Actor) -> None:
        self.hub, self._own = hub, own

    def me(self) -> Actor:
        return self._own

    def pull(self, number: int) -> PullSnapshot:
        found = self.hub.pulls.get(number)
        if found is None:
            raise _refuse(404, "Not Found")
        return found

    def role(self, login: str) -> Role:
        return self.hub.roles.get(login, Role.NONE)

    def comments(self, number: int) -> tuple[CommentView, ...]:
        if number not in self.hub.pulls:
            raise _refuse(404, "Not Found")
        return tuple(view for at, view in self.hub.said.values() if at == number)

    def comment(self, comment_id: int) -> CommentView | None:
        return self.hub.said[comment_id][1] if comment_id in self.hub.said else None

    def post_comment(self, number: int, body: str) -> int:
        return self.hub.comment(self._own.login, number, body)

    def edit_comment(self, comment_id: int, body: str) -> None:
        self.hub.edit_comment(self._own.login, comment_id, body)

    def minimize(self, comment_id: int, why: Hidden = "OUTDATED") -> None:
        if comment_id not in self.hub.said:
            raise _refuse(404, "Not Found")
        if why not in ("OUTDATED", "RESOLVED"):
            raise _refuse(400, "invalid value")
        if not self.hub.roles[self._own.login].may_write:
            raise _refuse(403, "FORBIDDEN")
        number, view = self.hub.said[comment_id]
        self.hub.said[comment_id] = (number, view.model_copy(update={"is_minimized": True}))

    def react(self, comment_id: int, content: str) -> None:
        if comment_id not in self.hub.said:
            raise _refuse(404, "Not Found")
        if content not in REACTIONS:
            raise _refuse(422, "Validation Failed")
        if (comment_id, self._own.login, content) not in self.hub.reactions:
            self.hub.reactions.append((comment_id, self._own.login, content))

    def unreact(self, comment_id: int, content: str) -> None:
        gone = (comment_id, self._own.login, content)
        self.hub.reactions = [reaction for reaction in self.hub.reactions if reaction != gone]

    def reviews(self, number: int) -> tuple[ReviewView, ...]:
        return tuple(view for at, view in self.hub.reviewed.values() if at == number)

    def set_status(self, sha: str, state: StatusState, context: str, description: str, target_url: str = "") -> None:
        if sha not in self.hub.trees:
            raise _refuse(422, f"No commit found for SHA: {sha}")
        short = description if len(description) <= 140 else description[:139] + "…"
        latest = [status for status in self.hub.statuses if status[:2] == (sha, context)]
        wanted = (sha, context, state, short, target_url)
        if latest[-1:] != [wanted]:
            self.hub.statuses.append(wanted)

    def changed_files(self, number: int) -> tuple[str, ...]:
        pull = self.pull(number)
        base, head = self.hub.trees[self.hub.heads[self.hub.repo, pull.base_ref]], self.hub.trees[pull.head_sha]
        return tuple(sorted(path for path in base | head if base.get(path) != head.get(path)))

    def pulls_with_head(self, sha: str) -> tuple[int, ...]:
        pulls = (pull for pull in self.hub.pulls.values() if pull is not None)
        return tuple(pull.number for pull in pulls if pull.is_open and pull.head_sha == sha)

    def branch_sha(self, ref: str) -> str | None:
        return self.hub.heads.get((self.hub.repo, ref.removeprefix("refs/heads/")))
