"""The table of verbs. A verb's module is imported when the verb is used, so `--help` stays quick."""

from __future__ import annotations

import importlib
from typing import Any

import click

from bot import __version__

VERBS = {
    "demo": ("bot.cli.demo", "Play the whole story on an embedded GitHub: no account, no GPU."),
    "optimize": ("bot.cli.local", "Optimise one kernel of a local checkout."),
    "profile": ("bot.cli.profile", "Say why a kernel of a local checkout is slow, with the evidence."),
    "roofline": ("bot.cli.roofline", "Say how near a kernel is to what the GPU can do."),
    "cases": ("bot.cli.cases", "Show which sizes are scored, beside those that the library's own benchmark measures."),
    "harvested": ("bot.cli.harvested", "Time a winner on the sizes of the library's own benchmark; needs a GPU."),
    "init": ("bot.cli.init", "Write the GitHub workflows into a repository, and never over what was changed there."),
    "rehearse": ("bot.cli.rehearse", "Play a repository's own workflow files on an embedded GitHub."),
    "doctor": ("bot.cli.doctor", "Say what this machine, token and repository still lack, and what to do."),
    "show": ("bot.cli.show", "Replay the journal of a campaign."),
    "rebuild": ("bot.cli.rebuild", "Make the files that a campaign measured again, from its journal."),
    "calibrate": ("bot.cli.calibrate", "Measure how often this machine's clock is wrong; needs a GPU."),
    "verify": ("bot.cli.verify", "Recompute the figures of a calibration from its raw blocks."),
    "judge-suite": ("bot.cli.judge_suite", "Judge a folder of cheats and honest rewrites; see who gets through."),
    "decide": ("bot.cli.jobs", "Zone: turn an event into a campaign's next step. Runs no code of the pull request."),
    "measure": ("bot.cli.jobs", "Zone: carry out one order on the machine with the GPU. Needs no token."),
    "publish": ("bot.cli.jobs", "Zone: check what a GPU job left, write the records, tell people."),
    "push": ("bot.cli.jobs", "Zone: push an approved winner."),
    "reconcile": ("bot.cli.jobs", "Close or resume what dead jobs left; hear reviews whose event was lost."),
    "sweep": ("bot.cli.sweep", "Zone: tonight's order of kernels, one campaign of it, the dashboard."),
    "action": ("bot.cli.action", "What action.yml runs: the zone that its inputs name."),
}

EPILOG = """\b
Exit codes:
  0    done (for a campaign: committed, or nothing to do)
  1    the campaign ended without a commit; the last line says why
  2    you can mend it: a wrong name, option or file, or an answer is awaited
  3    the operator can mend it: a missing tool or right, a sick machine
  4    a record or artifact could not be believed
  5    GitHub refused or did not answer
  6    git failed
  70   a mistake of ours: please report it
  130  stopped by you
"""


class Verbs(click.Group):
    """A group that knows its verbs by name and loads each when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(VERBS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"no such command: {args[0]}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kernelwright")
def cli() -> None:
    """Make Triton kernels faster, and prove it."""
