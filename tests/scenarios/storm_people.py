"""What people do in a storm: ask, answer, change their minds, push, close, and talk about other things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.localhub.wire import Refused
from bot.model.campaign import Stage
from tests.scenarios.storm import KERNEL, Storm, Task, sample_files

Deed = Callable[[Storm, int], None]
WRITERS = ("mira", "mira", "noor", "dana")
WAITS = (Stage.AWAIT_PROFILE, Stage.AWAIT_WINNER, Stage.AWAIT_FINAL)
BRANCHES = {1: "topic", 2: "other"}


def _says(storm: Storm, who: str, pull: int, text: str) -> None:
    storm.says(f"{who} on #{pull}: {text}")
    storm.hub.comment(who, pull, text)


def ask(storm: Storm, pull: int) -> None:
    mode = storm.dice.choice(("", "", " mode=autonomous"))
    _says(storm, storm.dice.choice((*WRITERS, "lee")), pull, f"/optimize rms_norm{mode}")


def go_on(storm: Storm, pull: int) -> None:
    """A yes that counts, where one is waited for."""
    who = storm.dice.choice(("mira", "noor"))
    if storm.dice.random() < 0.5:
        storm.says(f"{who} reviews #{pull}: APPROVE")
        storm.hub.review(who, pull, "APPROVE")
    else:
        _says(storm, who, pull, "/optimize approve")


def approve(storm: Storm, pull: int) -> None:
    _says(storm, storm.dice.choice((*WRITERS, "lee")), pull, "/optimize approve")


def review(storm: Storm, pull: int) -> None:
    who, state = (
        storm.dice.choice(("mira", "noor", "lee")),
        storm.dice.choice(("APPROVE", "APPROVE", "APPROVE", "REQUEST_CHANGES")),
    )
    storm.says(f"{who} reviews #{pull}: {state}")
    storm.hub.review(who, pull, state, "" if state == "APPROVE" else "not like this")


def dismiss(storm: Storm, pull: int) -> None:
    found = [r for r in storm.hub.world.reviews_of(pull) if r.state != "DISMISSED"]
    if found:
        chosen = storm.dice.choice(found)
        storm.says(f"the review {chosen.id} by {chosen.author} is dismissed")
        storm.hub.dismiss_review(chosen.id)


def edit(storm: Storm, pull: int) -> None:
    """Somebody thinks better of what they wrote."""
    found = [c for c in storm.hub.world.comments_on(pull) if c.author in WRITERS]
    if found:
        chosen = storm.dice.choice(found)
        storm.says(f"{chosen.author} edits comment {chosen.id}")
        storm.hub.edit_comment(chosen.author, chosen.id, chosen.body + "\n\nOr rather not?")


def word(storm: Storm, pull: int) -> None:
    text = storm.dice.choice(
        ("/optimize cancel", "/optimize reject too much", "/optimize status", "/optimize help", "/optimize rmsnorm --x")
    )
    _says(storm, storm.dice.choice((*WRITERS, "lee")), pull, text)


def chat(storm: Storm, pull: int) -> None:
    for _ in range(storm.dice.randint(1, 6)):
        _says(
            storm, storm.dice.choice(("dana", "lee")), pull, storm.dice.choice(("Thanks!", "> /optimize approve", "hm"))
        )


def move_head(storm: Storm, pull: int) -> None:
    """A harmless file, or the kernel itself."""
    path = storm.dice.choice(("README.md", KERNEL))
    text = b"# changed %d\n" % storm.dice.randrange(2) + sample_files()[path]
    storm.says(f"dana pushes {path} to {BRANCHES[pull]}")
    storm.hub.push("dana", BRANCHES[pull], {path: text}, "Another commit\n")


def rewind(storm: Storm, pull: int) -> None:
    """The author takes commits back, ours perhaps among them."""
    ref = f"refs/heads/{BRANCHES[pull]}"
    line = storm.server.line(storm.server.refs[ref])
    if len(line) > 2:
        storm.says(f"dana drops the last commit of {BRANCHES[pull]}")
        storm.server.refs[ref] = line[1]
        storm.hub._desk.sync("dana")


def close(storm: Storm, pull: int) -> None:
    if storm.dice.random() < 0.3:
        storm.says(f"#{pull} is closed")
        storm.hub.close_pull(pull)


def demote(storm: Storm, pull: int) -> None:
    who, role = storm.dice.choice(("mira", "noor")), storm.dice.choice(("read", "maintain"))
    storm.says(f"{who} becomes {role}")
    storm.hub.add_user(who, role)


def move_base(storm: Storm, pull: int) -> None:
    storm.says("somebody merges something else into main")
    storm.hub.push("mira", "main", {"docs/other.md": b"%d\n" % storm.dice.randrange(9)}, "Other\n")


def wait(storm: Storm, pull: int) -> None:
    hours = storm.dice.choice((1, 30, 9 * 24))
    storm.says(f"{hours} h pass")
    storm.complete(Task("reconcile"))  # it passes by every ten minutes
    storm.pass_time(hours * 3600)


DEEDS: dict[Deed, int] = {
    ask: 4,
    approve: 9,
    review: 4,
    dismiss: 1,
    edit: 1,
    word: 3,
    chat: 2,
    move_head: 2,
    rewind: 1,
    close: 1,
    demote: 1,
    move_base: 1,
    wait: 1,
}


def _any_deed(storm: Storm) -> Deed:
    return storm.dice.choices(list(DEEDS), list(DEEDS.values()))[0]


def live(storm: Storm) -> None:
    """One thing somebody does. Mostly what a campaign waits for."""
    open_: list[Any] = [c for c, _ in storm.campaigns().values() if c.stage is not Stage.ENDED and c.pull is not None]
    pull = storm.dice.choice([1, 1, 1, 2])
    waiting = [c for c in open_ if c.stage in WAITS]
    storm.pass_time(storm.dice.randint(1, 400))
    if not open_:
        deed = ask if storm.dice.random() < 0.8 else _any_deed(storm)
    elif waiting and storm.dice.random() < 0.5:
        deed, pull = go_on, storm.dice.choice(waiting).pull.number
    else:
        deed = _any_deed(storm)
        pull = storm.dice.choice(open_).pull.number if storm.dice.random() < 0.9 else pull
    try:
        deed(storm, pull)
    except Refused as refused:
        storm.says(f"GitHub lets nobody do that: {refused}")
