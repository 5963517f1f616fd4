"""Pull requests and issues of our own, in memory. The people's side is `FakeHub`, as for the conversation."""

from __future__ import annotations

from bot.errors import ForgeError
from bot.forge.offers import IssueView, PullView
from bot.model.people import Actor
from tests.fakes.forge import FakeHub


def _refuse(message: str) -> ForgeError:
    return ForgeError(f"GitHub answered 422, {message}", hint="this is the fake")


class FakeOffers:
    """The Offers protocol for one account of a FakeHub."""

    def __init__(self, hub: FakeHub, own: Actor) -> None:
        self.hub, self._own = hub, own
        self.issues: dict[int, IssueView] = {}
        self.words: dict[int, tuple[str, str]] = {}
        """Title and body of a pull request."""
        self.merged: set[int] = set()

    def me(self) -> Actor:
        return self._own

    def pulls_from(self, branch: str) -> tuple[PullView, ...]:
        found = [
            p for p in self.hub.pulls.values() if p is not None and (p.head_repo, p.head_ref) == (self.hub.repo, branch)
        ]
        return tuple(
            PullView(
                number=pull.number,
                author=pull.author,
                title=self.words.get(pull.number, ("", ""))[0],
                body=self.words.get(pull.number, ("", ""))[1],
                is_open=pull.is_open,
                is_merged=pull.number in self.merged,
                head_sha=pull.head_sha,
                url=f"fake://{self.hub.repo}/pull/{pull.number}",
            )
            for pull in reversed(found)
        )

    def open_pull(self, *, head: str, base: str, title: str, body: str) -> int:
        there = next((p.number for p in self.pulls_from(head) if p.is_open and p.author == self._own), None)
        if there is not None:
            return there
        if (self.hub.repo, head) not in self.hub.heads or not title:
            raise _refuse("Validation Failed")
        number = self.hub.open_pull(self._own.login, head, base, title, body)
        self.words[number] = (title, body)
        return number

    def edit_pull(self, number: int, *, title: str, body: str) -> None:
        if self.hub.pulls.get(number) is None:
            raise _refuse("Not Found")
        self.words[number] = (title, body)

    def own_issues(self) -> tuple[IssueView, ...]:
        return tuple(self.issues.values())

    def open_issue(self, *, title: str, body: str) -> int:
        if not title:
            raise _refuse("Validation Failed")
        number = self.hub.open_issue(self._own.login, title, body)
        url = f"fake://{self.hub.repo}/issues/{number}"
        self.issues[number] = IssueView(number=number, author=self._own, title=title, body=body, is_open=True, url=url)
        return number

    def edit_issue(self, number: int, *, title: str, body: str) -> None:
        if number not in self.issues:
            raise _refuse("Not Found")
        self.issues[number] = self.issues[number].model_copy(update={"title": title, "body": body})
