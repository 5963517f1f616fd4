"""What must be true in every storm: at each push, and when the sky is clear again."""

from __future__ import annotations

from collections import Counter

from bot.forge.marks import key_of
from bot.model.campaign import Campaign, Outcome, Stage
from bot.model.facts import Fact, Pushed
from bot.zones.report import what_next
from tests.scenarios.storm import BOT, Storm
from tests.scenarios.storm_people import BRANCHES

WAITING = (Stage.AWAIT_PROFILE, Stage.AWAIT_WINNER, Stage.AWAIT_FINAL)
ONCE = ("campaign_requested", "pushed", "campaign_closed")
PULLS = {f"refs/heads/{branch}": number for number, branch in BRANCHES.items()}


def watch(storm: Storm) -> None:
    """Look at every push of ours at the moment it arrives."""

    def look(ref: str, before: str | None, after: str) -> None:
        if ref in PULLS:
            storm.broken += [f"push to {ref}: {why}" for why in _wrong_push(storm, PULLS[ref], before, after)]

    storm.server.watch = look


def _wrong_push(storm: Storm, number: int, before: str | None, after: str) -> list[str]:
    """Onto the commit that was measured, shown and approved, by somebody who may say so at this moment."""
    found = [
        c for c, _ in storm.campaigns().values() if c.stage is Stage.PUSHING and c.pull and c.pull.number == number
    ]
    if len(found) != 1:
        return [f"{len(found)} campaigns are pushing"]
    campaign, commit = found[0], storm.server.commits[after]
    assert campaign.pull is not None and campaign.finalization is not None
    wrong = []
    if commit.parents != (before,) or before != campaign.pull.head_sha:
        wrong.append(f"{after[:7]} is no child of the pinned {campaign.pull.head_sha[:7]}")
    if campaign.measured_at not in (None, before) and _touched(storm, str(campaign.measured_at), str(before)):
        wrong.append("the kernel is another than the one that was measured")
    given = {file.path: file.text.encode() for file in campaign.finalization.files}
    if any(commit.tree[path] != text for path, text in given.items()):
        wrong.append("another program than the finished one")
    if not _approved_now(storm, campaign):
        wrong.append("nobody who may approve it does so now")
    if not storm.hub.world.threads[number].is_open:
        wrong.append("the pull request is closed")
    return wrong


def _touched(storm: Storm, measured: str, now: str) -> bool:
    one, other = storm.server.commits[measured].blobs, storm.server.commits[now].blobs
    return any(one.get(path) != other.get(path) for path in one | other if path.startswith(("src/", "tests/")))


def _approved_now(storm: Storm, campaign: Campaign) -> bool:
    """By the site alone, not by the ledger: a person with write who is not the author said yes, and stands by it."""
    assert campaign.pull is not None
    world, author = storm.hub.world, campaign.pull.author.login
    said = [
        *(r.author for r in world.reviews_of(campaign.pull.number) if r.state == "APPROVED"),
        *(
            c.author
            for c in world.comments_on(campaign.pull.number)
            if c.body == "/optimize approve" and c.updated_at == c.created_at
        ),
    ]
    return any(who != author and world.accounts[who].role.may_write for who in said)


def all_wrong(storm: Storm) -> list[str]:
    """When nobody has anything to do any more."""
    found = storm.campaigns()
    wrong = [*storm.broken, *storm.crashes, *_said_twice(storm), *_committed_twice(storm)]
    for name, (campaign, facts) in found.items():
        wrong += [f"{name}: {why}" for why in (*_wrong_facts(campaign, facts), *_wrong_end(storm, campaign))]
    open_ = Counter(c.pull.number for c, _ in found.values() if c.pull and c.stage is not Stage.ENDED)
    return [*wrong, *(f"{count} campaigns are open on #{number}" for number, count in open_.items() if count > 1)]


def _said_twice(storm: Storm) -> list[str]:
    bodies = [c for c in storm.hub.world.comments.values() if c.author == BOT]
    keys = Counter((c.number, key_of(c.body)) for c in bodies if not str(key_of(c.body)).endswith("/twice"))
    return [f"#{number}: {key} was said {count} times" for (number, key), count in keys.items() if count > 1]


def _committed_twice(storm: Storm) -> list[str]:
    """Each pushed campaign has one commit of ours, and the branch holds no other commit of ours."""
    wrong = []
    pushed = [c.pushed for c, _ in storm.campaigns().values() if c.pushed]
    for ref in PULLS:
        ours = [sha for sha in storm.server.line(storm.server.refs[ref]) if _is_ours(storm, sha)]
        wrong += [f"{ref} holds {sha[:7]}, which no campaign pushed" for sha in ours if sha not in pushed]
    return [*wrong, *(f"{sha} was pushed by {count}" for sha, count in Counter(pushed).items() if count > 1)]


def _is_ours(storm: Storm, sha: str) -> bool:
    return storm.server.commits[sha].author[0].lower().startswith("kernelwright")


def _wrong_facts(campaign: Campaign, facts: tuple[Fact, ...]) -> list[str]:
    """What can happen once happened once. A second job may have written it down too; the machine took no notice."""
    ignored = Counter(found.fact for found in campaign.ignored)
    kinds = Counter(fact.kind for fact in facts)
    wrong = [f"{kind} counted {kinds[kind] - ignored[kind]} times" for kind in ONCE if kinds[kind] - ignored[kind] > 1]
    orders = Counter(order for order, _ in campaign.joined)
    wrong += [f"the segment of {order} was joined {count} times" for order, count in orders.items() if count > 1]
    commits = {fact.commit for fact in facts if isinstance(fact, Pushed)}
    return [*wrong, f"it pushed {sorted(commits)}"] if len(commits) > 1 else wrong


def _wrong_end(storm: Storm, campaign: Campaign) -> list[str]:
    """Over with everything said, or waiting for a person who was asked."""
    if campaign.stage is not Stage.ENDED:
        asked = campaign.stage in WAITING and what_next(campaign) == "wait"
        return [] if asked else [f"it is neither over nor waiting for anybody: {campaign.stage}"]
    assert campaign.pull is not None
    keys = [key_of(c.body) for c in storm.hub.world.comments_on(campaign.pull.number) if c.author == BOT]
    wrong = [] if f"{campaign.id}/result" in keys else ["it is over, and nobody was told"]
    reactions = {r.content for r in storm.hub.world.reactions_to(campaign.comment_id) if r.author == BOT}
    wrong += [f"the reactions {reactions} were left"] if not reactions or "eyes" in reactions else []
    if (campaign.outcome is Outcome.PUSHED) != bool(campaign.pushed):
        wrong.append(f"it ended as {campaign.outcome} with the commit {campaign.pushed}")
    return wrong
