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
        folder = self.folder / f"{world.last_event:06d}"
        folder.mkdir(parents=True)
        (folder / "event.json").write_text(json.dumps(payload, indent=1), encoding="utf-8")
        (folder / "name").write_text(name, encoding="utf-8")

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

    def pending(self) -> Iterator[tuple[str, Path]]:
        """Name and file of each event, oldest first. One counts as delivered when the next is asked for."""
        while folder := next((f for f in sorted(self.folder.glob("*")) if not (f / "delivered").exists()), None):
            yield (folder / "name").read_text(encoding="utf-8"), folder / "event.json"
            (folder / "delivered").touch()
