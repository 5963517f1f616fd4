"""Lets `python -m bot` and the `kernelwright` command in. The one place where every error is caught."""

from __future__ import annotations

import sys
import traceback

import click

from bot.cli.entry import cli
from bot.errors import BotError

SWITCH_S = 0.0005
"""How long a thread may think before another has a turn. Files are laid and processes begun while the engine thinks
beside, and each of their calls waits so long: with Python's own 5 ms a copy of a package took 5.4 s, and takes 0.1."""


def main() -> None:
    """Run the command line; an error we know becomes two lines and an exit code, never a traceback."""
    sys.setswitchinterval(SWITCH_S)
    try:
        status = cli.main(prog_name="kernelwright", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        print("kernelwright: stopped", file=sys.stderr)
        sys.exit(130)
    except BotError as error:
        print(f"kernelwright: {error.reason}: {error}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    except Exception:  # nobody expected it, so whoever mends it needs all of it
        traceback.print_exc()
        print("kernelwright: internal_error: a mistake of ours; please report it with the lines above", file=sys.stderr)
        sys.exit(BotError.exit_code)
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
