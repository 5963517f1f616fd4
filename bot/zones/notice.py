"""The sweep's part of the publish zone: one dashboard, its pull requests' pages, one issue for a regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, fsum, log

from bot.campaign import sweeping, watching
from bot.forge.marks import key_of, marker
from bot.forge.offers import IssueView, Offers
from bot.git.between import commits_between
from bot.guardrails import by_deeds
from bot.ledger.layout import campaign_dir, plot_path
from bot.model.campaign import Campaign, Outcome, Zone
from bot.model.reasons import ReasonCode
from bot.model.sweep import Cell, own_branch
from bot.model.verdict import Verdict
from bot.render import dashboard, numbers
from bot.render.links import Links
from bot.render.plot_data import PastResult
from bot.settings import Settings
from bot.zones.clock import utc_now
from bot.zones.desk import Desk, open_desk
from bot.zones.doors import Doors, open_doors
from bot.zones.offer import page_of
from bot.zones.sweep import OFF, SweepReport, all_campaigns, look_around, open_own, own_pulls

DASHBOARD = "sweep/dashboard"
TITLE = "Kernelwright: nightly sweep"
TREND = "trend"


@dataclass(frozen=True, slots=True)
class Board:
    """All that one writing of the dashboard looks at."""

    desk: Desk
    doors: Doors
    offers: Offers
    campaigns: tuple[Campaign, ...]
    swept: tuple[Campaign, ...]
    now: str

    @property
    def cells(self) -> tuple[Cell, ...]:
        pools, kernels = self.desk.config.sweep.pools, self.desk.target.kernels()
        return tuple(Cell(kernel=kernel, pool=pool) for kernel in kernels for pool in pools)

    def links_of(self, campaign: Campaign) -> Links:
        tip, settings = self.doors.ledger.tip or "", self.doors.settings
        folder = campaign_dir(campaign.id)
        drawn = self.doors.ledger.list(f"{folder}/plots")

        def plot(name: str, *, dark: bool) -> str:
            path = plot_path(campaign.id, name, dark=dark)
            return settings.blob_url(tip, path) + "?raw=true" if path in drawn else ""

        return Links(
            variants_light=plot("variants", dark=False),
            variants_dark=plot("variants", dark=True),
            ledger=settings.tree_url(tip, folder) if tip else "",
        )


# Regressions


def won(verdict: Verdict) -> bool:
    """Faster and right, whatever its text lacks of today's."""
    return verdict.score is not None and by_deeds(verdict).is_accepted


def _regressions(board: Board, cell: Cell) -> tuple[tuple[Campaign, watching.Slower], ...]:
    mine = sweeping.of_cell(board.swept, cell)
    found = []
    for index, campaign in enumerate(mine):
        slower = watching.slower(campaign, sweeping.last_profiled(mine[:index]), won)
        if slower is not None:
            found.append((campaign, slower))
    return tuple(found)


def regression_key(cell: Cell, found: watching.Slower) -> str:
    return f"sweep/slower/{cell.pool}/{cell.kernel}/{found.since[:12]}..{found.now[:12]}"


def _report(board: Board, cell: Cell, campaign: Campaign, found: watching.Slower) -> int:
    settings, repo = board.doors.settings, board.doors.repo
    known = repo.resolve(found.since) is not None and repo.resolve(found.now) is not None
    named = commits_between(repo.path, found.since, found.now, found.files) if known else ()
    commits = [dashboard.Commit(sha=one.sha, subject=one.subject, url=settings.commit_url(one.sha)) for one in named]
    body = dashboard.regression(
        campaign,
        cell,
        since=found.since,
        slower=numbers.score(found.score),
        files=found.files,
        commits=commits,
        software=found.new_software,
        links=board.links_of(campaign),
    )
    title = dashboard.regression_title(cell, found.since)
    return board.offers.open_issue(title=title, body=f"{marker(regression_key(cell, found))}\n\n{body}")


def _report_new(board: Board, issues: tuple[IssueView, ...]) -> tuple[int, ...]:
    """One issue a regression, however often this runs and whether or not it was closed since."""
    known = {key_of(issue.body) for issue in issues}
    return tuple(
        _report(board, cell, campaign, found)
        for cell in board.cells
        for campaign, found in _regressions(board, cell)
        if regression_key(cell, found) not in known
    )


# Rows


def _software(campaign: Campaign) -> str:
    assert campaign.profile is not None
    torch, triton = sweeping.software(campaign.profile.baseline.runner)
    return f"torch {torch} and Triton {triton}"


def _winner_words(last: Campaign, winner: Campaign | None) -> str:
    """A word on an earlier winner, where the last campaign tried it again."""
    if winner is None or winner.id == last.id or last.profile is None:
        return ""
    match watching.holding(last, winner, won):
        case "holds":
            return f"the winner of {winner.requested_at[:10]} still wins under {_software(last)}"
        case "lost":
            return f"the winner of {winner.requested_at[:10]} no longer wins under {_software(last)}"
        case "untried":
            return ""


def _standing(board: Board, cell: Cell) -> tuple[Campaign | None, watching.OwnPull | None]:
    """The last winner of this cell, and our open pull request where its commit stands."""
    winner = sweeping.pushed_last(sweeping.of_cell(board.swept, cell))
    if winner is None:
        return None, None
    pulls = own_pulls(board.offers, cell.kernel, board.swept)
    return winner, next((p for p in pulls if p.is_open and p.is_ours and p.head_sha == winner.pushed), None)


def _row(board: Board, cell: Cell, seen: Mapping[Cell, sweeping.Seen]) -> dashboard.Row:
    mine, settings = sweeping.of_cell(board.swept, cell), board.doors.settings
    waits = sweeping.busy(board.campaigns, cell.kernel) or seen.get(cell, sweeping.Seen()).waits
    if not mine:
        return dashboard.Row(cell=cell, waits=waits)
    last, (winner, pull) = mine[-1], _standing(board, cell)
    slower = watching.slower(last, sweeping.last_profiled(mine[:-1]), won)
    return dashboard.Row(
        cell=cell,
        last=last,
        days=sweeping.days_between(last.requested_at, board.now),
        record=board.links_of(last).ledger,
        pull=pull.number if pull else None,
        pull_url=f"{settings.server_url}/{settings.repository}/pull/{pull.number}" if pull else "",
        slower_since=slower.since if slower else None,
        slower_by=numbers.score(slower.score) if slower else "",
        winner=_winner_words(last, winner),
        waits=waits,
    )


def _refresh_pull(board: Board, cell: Cell) -> None:
    """The page of a pull request says so when its winner no longer wins, and takes it back when it does again."""
    winner, pull = _standing(board, cell)
    last = sweeping.last_profiled(sweeping.of_cell(board.swept, cell))
    if winner is None or pull is None or last is None:
        return
    lost = ""
    if last.id != winner.id and watching.holding(last, winner, won) == "lost":
        lost = f"The sweep of {last.requested_at[:10]} tried it again under {_software(last)}: see campaign {last.id}."
    links = board.links_of(winner)
    title, body = page_of(winner, board.swept, links, starts_checks=pull.starts_checks, lost=lost)
    there = next(one for one in board.offers.pulls_from(own_branch(cell.kernel)) if one.number == pull.number)
    if bool(lost) != there.body.startswith(dashboard.WARNING):
        board.offers.edit_pull(pull.number, title=title, body=body)


# The trend


def _mean_us(campaign: Campaign) -> float | None:
    profile = campaign.profile
    times = [case.timing.median_us for case in profile.baseline.cases if case.timing] if profile else []
    return exp(fsum(map(log, times)) / len(times)) if times else None


def past_results(swept: tuple[Campaign, ...]) -> tuple[PastResult, ...]:
    """What each sweep found of the untouched kernel; a mark where the software under it changed."""
    found: list[PastResult] = []
    before: dict[tuple[str, str], str] = {}
    for campaign in swept:
        us = _mean_us(campaign)
        if us is None or campaign.profile is None or campaign.command is None:
            continue
        runner = campaign.profile.baseline.runner
        gpu = runner.gpu_name or runner.arch
        known = before.get((campaign.command.kernel, gpu))
        before[campaign.command.kernel, gpu] = runner.triton
        mark = f"triton {runner.triton}" if known not in (None, runner.triton) else ""
        found.append(
            PastResult(
                day=campaign.requested_at[:10],
                kernel=campaign.command.kernel,
                gpu=gpu,
                us=us,
                evidence=runner.evidence,
                mark=mark or ("winner" if campaign.outcome is Outcome.PUSHED else ""),
            )
        )
    return tuple(found)


def _draw(board: Board, results: tuple[PastResult, ...]) -> tuple[str, str, str]:
    """Addresses of the trend in light and dark, and its words. It lies with the last campaign's records."""
    if not results:
        return "", "", ""
    from bot.render import plot_trend, plots  # matplotlib takes more than a second to import

    last, ledger = board.swept[-1], board.doors.ledger
    files = {plot_path(last.id, TREND, dark=dark): plots.trend(results, dark=dark) for dark in (False, True)}
    fresh = {path: content for path, content in files.items() if ledger.read(path) != content}
    if fresh:
        lines = len(ledger.lines(last.id))
        ledger.append(last.id, (), zone=Zone.PUBLISH, at=board.now, expect_seq=lines, files=fresh)
    tip, settings = ledger.tip or "", board.doors.settings
    light, dark = (settings.blob_url(tip, path) + "?raw=true" for path in files)
    return light, dark, f"{plot_trend.title(results)}; the untouched kernel's time, each against its own first night"


# The page


def _keep(board: Board, issues: tuple[IssueView, ...], body: str) -> int:
    there = next((issue for issue in issues if key_of(issue.body) == DASHBOARD), None)
    wanted = f"{marker(DASHBOARD)}\n\n{body}"
    if there is None:
        return board.offers.open_issue(title=TITLE, body=wanted)
    if there.body != wanted:
        board.offers.edit_issue(there.number, title=there.title, body=wanted)
    return there.number


def write_dashboard(settings: Settings, clock: Callable[[], str] = utc_now) -> SweepReport:
    """Bring the dashboard up to date and report what became slower. Doing it twice says nothing twice."""
    desk = open_desk(settings)
    if not desk.config.sweep.enabled:
        return SweepReport(decision="ignored", reason_code=ReasonCode.DISABLED, detail=OFF)
    doors = open_doors(settings)
    campaigns = all_campaigns(doors)
    swept = sweeping.sweeps(campaigns)
    board = Board(desk, doors, open_own(settings), campaigns, swept, clock())
    issues = board.offers.own_issues()
    opened = _report_new(board, issues)
    seen = look_around(desk, doors, board.offers, campaigns)
    for cell in board.cells:
        _refresh_pull(board, cell)
    found = sweeping.plan(campaigns, desk.target.kernels(), seen, desk.config.sweep, board.now)
    light, dark, alt = _draw(board, past_results(swept))
    body = dashboard.dashboard(
        [_row(board, cell, seen) for cell in board.cells],
        sweeping.explained(found),
        light=light,
        dark=dark,
        alt=alt,
        ledger=settings.tree_url("kernelwright/ledger", "campaigns") if swept else "",
    )
    return SweepReport(
        decision="acted", reason_code=ReasonCode.ACCEPTED, issue=_keep(board, issues, body), opened=opened
    )
