"""What a sweep says: one dashboard, one page for each pull request of its own, one issue for a confirmed regression.

Hostile text reaches these pages too: commit subjects, file names, a GPU's name. It is escaped like everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.model.campaign import Campaign, Outcome, Stage
from bot.model.ids import CommitSha
from bot.model.sweep import Cell, own_branch
from bot.render import bars, budget, commit, escape, folded, gains, labels, machines, numbers, steps, tables, view
from bot.render.budget import Detail
from bot.render.environment import render
from bot.render.escape import Trusted
from bot.render.links import Links, link, picture

NO_LINKS = Links()
ESTIMATED = "Both are estimated by compiling; no GPU timed them."
TIMED = "Both were timed again beside one another on one machine, in blocks that alternate, in fresh processes."
MOST_COMMITS = 50
MOST_PLACES = 60
REASON_LIMIT = 100
WARNING = "⚠️ **This no longer wins.**"
"""How the page of a pull request begins whose winner lost."""
HEAD = ["Kernel", "GPU", "Of the roof", "Last verdict", "Age", "Pull request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kernel on one pool, as the dashboard shows it."""

    cell: Cell
    last: Campaign | None = None
    days: float = 0.0
    record: str = ""
    """Address of the last campaign's folder."""
    pull: int | None = None
    """Our open pull request."""
    pull_url: str = ""
    slower_since: CommitSha | None = None
    slower_by: str = ""
    winner: str = ""
    """What became of an earlier winner; empty where there is nothing to say."""
    waits: str = ""
    """Why nobody sweeps it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    sha: CommitSha
    subject: str
    url: str = ""


def _gpu(row: Row) -> str:
    runner = view.runner(row.last) if row.last else None
    if runner is None:
        return row.cell.pool
    return f"{row.cell.pool}: {runner.gpu_name or labels.arch(runner.arch)}"


def _roof(row: Row) -> str:
    profile = row.last.profile if row.last else None
    if profile is None:
        return "not measured"
    percent = profile.diagnosis.roof_percent
    return numbers.labelled(numbers.percent(percent), profile.baseline.runner.evidence)


def _ended(campaign: Campaign) -> str:
    """How a campaign of a sweep ended, in a few words."""
    match campaign.outcome:
        case Outcome.PUSHED:
            number = view.best(campaign)
            return f"v{number} is {view.speedup_of(campaign, number)}"
        case Outcome.NOTHING_TO_DO if not campaign.rounds:
            return "nothing to do"
        case Outcome.NOTHING_TO_DO:
            return f"nothing better among {numbers.many(len(campaign.rounds), 'variant')}"
        case _:
            detail = f": {campaign.detail}" if campaign.detail else ""
            return f"`{campaign.reason}`{detail}"


def _verdict(row: Row) -> Trusted:
    if row.last is None:
        return escape.text("never swept")
    over = row.last.stage in (Stage.CLOSING, Stage.ENDED)
    said = [_ended(row.last) if over else f"under way: {row.last.stage}"]
    if row.slower_since is not None:
        said.insert(0, f"slower since `{row.slower_since[:7]}`: the source of then is {row.slower_by}")
    said += [text for text in (row.winner, row.waits) if text]
    shown = Trusted("; ".join(str(escape.text(text, REASON_LIMIT)) for text in said))
    return Trusted(f"{shown} ({link('record', row.record)})" if row.record else shown)


def _age(row: Row) -> str:
    return f"{row.days:.1f} days" if row.last else tables.NONE


def table(rows: Sequence[Row]) -> Trusted:
    cells = [
        [
            escape.code(row.cell.kernel),
            _gpu(row),
            _roof(row),
            _verdict(row),
            _age(row),
            link(f"#{row.pull}", row.pull_url) if row.pull else tables.NONE,
        ]
        for row in rows
    ]
    return tables.grid(HEAD, cells)


def headline(rows: Sequence[Row]) -> str:
    """What a maintainer has to do, in one line."""
    waiting = len({row.pull for row in rows if row.pull is not None})
    slower = sum(row.slower_since is not None for row in rows)
    fresh = sum(row.last is None for row in rows)
    parts = [f"{numbers.many(waiting, 'pull request waits', 'pull requests wait')} for a review"] if waiting else []
    parts += [f"{numbers.many(slower, 'kernel')} became slower"] if slower else []
    parts += [f"{numbers.many(fresh, 'kernel')} never swept"] if fresh else []
    return "; ".join(parts) or "nothing waits for anybody"


def dashboard(
    rows: Sequence[Row], order: Sequence[str], *, light: str = "", dark: str = "", alt: str = "", ledger: str = ""
) -> str:
    """The one issue. Rows are cut before anything else when there are too many for a body."""

    def at(detail: Detail) -> str:
        shown = rows[: 4 * detail.folded]
        return render(
            "comments/dashboard.md.j2",
            headline=headline(rows),
            table=table(shown),
            left_out=tables.left_out(len(shown), len(rows), "kernel"),
            trend=picture(light, dark, alt),
            alt=alt,
            order=tables.fold(
                "Which kernel is next, and why", escape.fence("\n".join(order), "text", lines=MOST_PLACES)
            ),
            ledger=link("all records", ledger),
        )

    return budget.fitted(at)


def pull_title(campaign: Campaign) -> str:
    return commit.winner_message(campaign).partition("\n")[0]


def pull_body(campaign: Campaign, links: Links = NO_LINKS, *, lost: str = "", checks_start: bool = True) -> str:
    """The page of a sweep's own pull request. `lost`: why its winner no longer wins, as a later sweep found."""
    number, cell_gpu = view.best(campaign), campaign.command.gpu if campaign.command else ""

    def at(detail: Detail) -> str:
        shown = tables.shown(campaign, detail.visible)
        return render(
            "comments/sweep_pull.md.j2",
            kernel=escape.code(view.kernel(campaign)),
            best=f"v{number}",
            title=view.title_of(campaign, number).rstrip(". "),
            gained=gains.gained(campaign, number),
            made_of=gains.explained(campaign, number),
            way=gains.way(campaign, number),
            checked=steps.checked(campaign),
            pinned=view.pinned(campaign),
            day=campaign.requested_at[:10],
            pool=str(cell_gpu),
            static=view.is_static(campaign),
            branch=escape.code(own_branch(view.kernel(campaign))),
            lost=lost,
            warning=Trusted(WARNING),
            checks_start="yes" if checks_start else "",
            table=tables.variants(campaign, shown),
            bars=bars.variants(campaign, shown),
            picture=picture(
                links.variants_light, links.variants_dark, f"{view.kernel(campaign)}: every variant against v0"
            ),
            cases=tables.fold(f"Every case of v{number}", folded.cases(campaign, number, detail.cases)),
            passports=tables.fold(folded.ELSEWHERE, folded.passports(campaign, shown)),
            machine=tables.fold("Machine", folded.machine(view.runner(campaign), machines.sentence(campaign))),
            record=link("record", links.ledger),
            campaign=escape.code(campaign.id),
        )

    return budget.fitted(at)


def regression_title(cell: Cell, since: CommitSha) -> str:
    return f"{cell.kernel} became slower on {cell.pool} since {since[:7]}"


def regression(
    campaign: Campaign,
    cell: Cell,
    *,
    since: CommitSha,
    slower: str,
    files: Sequence[str],
    commits: Sequence[Commit],
    software: str = "",
    links: Links = NO_LINKS,
) -> str:
    """Names every commit between the two measurements that touched the kernel's files."""
    listed = [
        f"- {link(one.sha[:7], one.url) or escape.code(one.sha[:7])} {escape.text(one.subject)}" for one in commits
    ]
    shown = listed[:MOST_COMMITS]
    return render(
        "comments/regression.md.j2",
        kernel=escape.code(cell.kernel),
        pool=cell.pool,
        since=escape.code(since[:7]),
        now=escape.code(view.pinned(campaign)),
        slower=slower,
        files=Trusted(", ".join(escape.code(path) for path in files)),
        commits=Trusted("\n".join(shown)),
        more=numbers.many(len(listed) - len(shown), "more commit") if len(listed) > len(shown) else "",
        software=software,
        how=ESTIMATED if view.is_static(campaign) else TIMED,
        machine=folded.machine(view.runner(campaign), machines.sentence(campaign)),
        record=link("record", links.ledger),
        campaign=escape.code(campaign.id),
    )
