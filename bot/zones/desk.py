"""What deciding needs to know of the repository: its policy and its kernels, from the trusted checkout."""

from __future__ import annotations

from dataclasses import dataclass

from bot.commands.mistakes import hindered
from bot.commands.words import spelled
from bot.errors import OperatorError
from bot.model.commands import CommandError
from bot.model.reasons import ReasonCode
from bot.settings import Settings
from bot.targets.base import Target
from bot.targets.contract import CONFIG, TRUSTED, RepoConfig, read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree


@dataclass(frozen=True, slots=True)
class Desk:
    config: RepoConfig
    target: Target

    def touched(self, changed: tuple[str, ...]) -> tuple[str, ...]:
        """The kernels that these files belong to."""
        return tuple(kernel for kernel in self.target.kernels() if set(self.target.files(kernel)) & set(changed))

    def explained(self, error: CommandError) -> CommandError:
        """A kernel that is here and lacks something is told what, in the words of the terminal: who reads a comment
        knows names alone."""
        why = self.target.refused(spelled(error.kernel)) if error.kernel else None
        return hindered(why.reason, str(why), why.hint) if why else error


def open_desk(settings: Settings) -> Desk:
    if not settings.workspace.is_dir():
        raise OperatorError(
            f"GITHUB_WORKSPACE: {settings.workspace} is no folder",
            hint="check the default branch out before this step, and set GITHUB_WORKSPACE to where it is",
            reason=ReasonCode.CONFIG_INVALID,
        )
    tree = DirectoryTree(settings.workspace)
    config = read_config(tree.read(CONFIG), of=TRUSTED)
    return Desk(config=config, target=open_target(tree, config))
