"""Events as a job gets them: a name and a file. An event stays until somebody has taken it to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bot.localhub.shapes import Shapes
from bot.localhub.world import Account, Comment, PullPart, Thread, World

REVIEW_WORKFLOW = "kernelwright review"


class Outbox:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _put(self, world: World, name: str, payload: dict[str, Any]) -> None:
        world.last_event += 1
        fresh = self.folder.with_name(f"{self.folder.name}.new")  # whoever looks sees all of it or nothing
        fresh.mkdir(parents=True, exist_ok=True)
        (fresh / "event.json").write_text(json.dumps(payload), encoding="utf-8")
        (fresh / "name").write_text(name, encoding="utf-8")
        self.folder.mkdir(exist_ok=True)
        fresh.rename(self.folder / f"{world.last_event:06d}")

    def commented(self, world: World, show: Shapes, thread: Thread, comment: Comment) -> None:
        payload = {
            "action": "created",
            "issue": show.issue(thread),
            "comment": show.comment(comment),
            "repository": show.repository(world.repo),
            "sender": show.account(comment.author),
        }
        self._put(world, "issue_comment", payload)

    def reviewed(self, world: World, show: Shapes, part: PullPart, reviewer: Account) -> None:
        """What the bridge gives: that a workflow ran on this head. Nothing of the review is in it."""
        head = part.head_repo or world.repo
        sender, number = show.user(reviewer), world.new_id()
        run = {
            "id": number,
            "name": REVIEW_WORKFLOW,
            "event": "pull_request_review",
            "status": "completed",
            "conclusion": "success",
            "head_sha": part.head,
            "head_branch": part.head_ref,
            "head_repository": {"full_name": head, "owner": {"login": head.partition("/")[0]}},
            "run_attempt": 1,
            "actor": sender,
            "pull_requests": [],
        }
        repository = show.repository(world.repo)
        self._put(
            world,
            "workflow_run",
            {"action": "completed", "workflow_run": run, "repository": repository, "sender": sender},
        )

    def dispatched(
        self, world: World, show: Shapes, sender: Account, workflow: str, ref: str, inputs: dict[str, Any]
    ) -> None:
        """Somebody started a workflow by hand, on the site or by a call."""
        payload = {
            "inputs": inputs or None,
            "ref": f"refs/heads/{ref}",
            "repository": show.repository(world.repo),
            "sender": show.user(sender),
            "workflow": f".github/workflows/{workflow}",
        }
        self._put(world, "workflow_dispatch", payload)

    def called(self, world: World, show: Shapes, sender: Account, kind: str, given: dict[str, Any]) -> None:
        """Another program started whatever listens to this kind of event."""
        payload = {
            "action": kind,
            "branch": show.main,
            "client_payload": given,
            "repository": show.repository(world.repo),
            "sender": show.user(sender),
        }
        self._put(world, "repository_dispatch", payload)

    def pending(self) -> Iterator[tuple[str, Path]]:
        """Name and file of each event, oldest first. One counts as delivered when the next is asked for."""
        while folder := next((f for f in sorted(self.folder.glob("*")) if not (f / "delivered").exists()), None):
            yield (folder / "name").read_text(encoding="utf-8"), folder / "event.json"
            (folder / "delivered").touch()
