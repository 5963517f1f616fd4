"""Comments of ours that exist once: found again by marker and author, kept up to date, below GitHub's size limit."""

from __future__ import annotations

from bot.forge.client import CommentView, Forge
from bot.forge.marks import key_of, marker
from bot.render.budget import BUDGET, cut

__all__ = ["find", "keep", "marker", "say_once"]

TOMBSTONE = "_This comment was posted twice; the [earlier one]({url}) counts._"


def _fitted(key: str, body: str) -> str:
    """The marker, an empty line and the body, within the budget."""
    head = f"{marker(key)}\n\n"
    room = BUDGET - len(head)
    text = cut(body, room)
    # A single line that is too long cannot be cut between lines.
    return head + text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")


def _all(forge: Forge, number: int, key: str) -> list[CommentView]:
    """Anybody can write our marker, so the author's id decides."""
    marker(key)
    own = forge.me().id
    mine = (c for c in forge.comments(number) if c.actor.id == own and key_of(c.body) == key)
    return sorted(mine, key=lambda comment: comment.id)


def find(forge: Forge, number: int, key: str) -> CommentView | None:
    """Our comment with this key; the first one where there are several."""
    return next(iter(_all(forge, number, key)), None)


def _is_double(forge: Forge, double: CommentView, key: str, first: CommentView) -> None:
    forge.edit_comment(double.id, f"{marker(f'{key}/twice')}\n\n{TOMBSTONE.format(url=first.url)}")


def mend(forge: Forge, number: int) -> None:
    """What a job said twice because it died before it could look: the first one counts, the others say so."""
    own, first = forge.me().id, dict[str, CommentView]()
    for comment in sorted(forge.comments(number), key=lambda comment: comment.id):
        key = key_of(comment.body) if comment.actor.id == own else None
        if key is not None and first.setdefault(key, comment) is not comment and not key.endswith("/twice"):
            _is_double(forge, comment, key, first[key])


def _only(forge: Forge, number: int, key: str) -> CommentView | None:
    """The first one, and the others become a line that says so: jobs that post at the same moment see each other here.

    Each of them turns all the others' doubles too: after a lost answer nobody knows which one is his own.
    """
    found = _all(forge, number, key)
    for double in found[1:]:
        _is_double(forge, double, key, found[0])
    return found[0] if found else None


def say_once(forge: Forge, number: int, key: str, body: str) -> int:
    """The id of our comment with this key, which is posted if it is not there."""
    there = _only(forge, number, key)
    if there is not None:
        return there.id
    made = forge.post_comment(number, _fitted(key, body))
    first = _only(forge, number, key)
    return first.id if first is not None else made  # lists may lag behind a moment


def keep(forge: Forge, number: int, key: str, body: str) -> int:
    """Like `say_once`, and a comment that is there already is brought up to date."""
    there = _only(forge, number, key)
    if there is None:
        return say_once(forge, number, key, body)
    wanted = _fitted(key, body)
    if there.body != wanted:
        forge.edit_comment(there.id, wanted)
    return there.id
