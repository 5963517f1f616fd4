"""FINALIZE: the winner in a clean worktree of the pinned head, through the target's own style check and tests.

Where policy lets the target branch judge, its copies of the tests and of what steers them lie in place of the head's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.bench import own_script, proof, shared_tests
from bot.bench.clearing import clear
from bot.bench.commands import run_command
from bot.bench.gpu import Gpu
from bot.bench.plugins import is_pytest
from bot.errors import GitError
from bot.git.repo import Repo
from bot.model.finalization import CommandRun, Finalization, PassedFile, ScriptRun
from bot.model.ids import CommitSha, RepoPath
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, sources_digest

STYLE_DEADLINE = 120.0
TEST_DEADLINE = 900.0
COLLECT_DEADLINE = 120.0
COLLECT_ONLY = "--collect-only"


def _argv(command: tuple[str, ...], *, python: str, test: str = "") -> tuple[str, ...]:
    return tuple(word.replace("{python}", python).replace("{test}", test) for word in command)


def _run(
    command: tuple[str, ...],
    tree: Path,
    environment: dict[str, str],
    deadline: float,
    gpu: Gpu | None = None,
    kernels: Path | None = None,
    **words: str,
) -> CommandRun:
    """The run as the target describes the command: where this machine keeps its Python is nobody's business. What was
    installed beside that Python is found by its name, as a Makefile that says `ruff` asks."""
    beside = {"PATH": os.pathsep.join((str(Path(words["python"]).parent), os.environ.get("PATH", os.defpath)))}
    environment = {**beside, **environment} if os.sep in words["python"] else environment
    run = run_command(_argv(command, **words), tree, environment, deadline, gpu=gpu, kernels=kernels)
    return run.model_copy(update={"argv": _argv(command, **{**words, "python": "python"})})


def _write(tree: Path, files: tuple[SourceFile, ...]) -> None:
    for file in files:
        (tree / file.path).write_text(file.text, encoding="utf-8", newline="")


def _judge(tree: Path, repo: Repo, paths: tuple[RepoPath, ...], commit: CommitSha | None) -> None:
    """The judging files as they stand at this commit; what it does not have is not there.

    Links of the head lead nowhere: a worktree of ours holds them as plain files.
    """
    if commit is None:
        return
    for place in (tree / path for path in paths):
        if place.is_file():
            place.unlink()
    for path in paths:
        text = repo.read(commit, path)
        if text is not None:
            _put(tree / path, text)


def _put(place: Path, text: bytes) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text)
    except OSError as error:
        raise GitError(f"{place.name} cannot be taken from the target branch: {error.strerror} here") from error


def _read(tree: Path, files: tuple[SourceFile, ...]) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(path=file.path, text=(tree / file.path).read_text(encoding="utf-8")) for file in files)


def _style(tree: Path, site: KernelSite, files: tuple[SourceFile, ...], python: str) -> tuple[CommandRun, ...]:
    """The style check; when it fails, ruff may mend the kernel's own files once and the second verdict counts."""
    paths = tuple(file.path for file in files)
    environment = {**dict(site.environment), "PYTHON": python}
    first = _run(site.style_command, tree, environment, STYLE_DEADLINE, python=python)
    if first.passed:
        return (first,)
    mends = [
        _run(("{python}", "-m", "ruff", *verb, "--", *paths), tree, environment, STYLE_DEADLINE, python=python)
        for verb in (("check", "--fix"), ("format",))
    ]
    return (first, *mends, _run(site.style_command, tree, environment, STYLE_DEADLINE, python=python))


def _kernels(tree: Path) -> Path:
    """Where those who run the tests of a tree compile for each other; nobody else's kernels lie there."""
    return tree.with_name(f"{tree.name}-kernels").absolute()


def _test(tree: Path, site: KernelSite, test: str, python: str, gpu: Gpu | None) -> CommandRun:
    """By several processes where that saves time, which share what they compile and tune, from one file to the next.
    What does not go well so is said by one alone."""

    def run(kernels: Path | None, command: Sequence[str], environment: Mapping[str, str]) -> CommandRun:
        words = {"python": python, "test": test}
        ran = _run(tuple(command), tree, dict(environment), TEST_DEADLINE, gpu, kernels, **words)
        return proof.held(ran, tree, site)

    command, environment = proof.words(site, dict(site.environment))
    count = shared_tests.hands(site.test_command, gpu)
    if count > 1:
        kernels = _kernels(tree)
        kernels.mkdir(exist_ok=True)
        together = shared_tests.shared(partial(run, kernels), command, environment, count)
        if together is not None:
            return proof.held(together, tree, site)
    return run(None, command, environment)


def _tests(
    tree: Path, site: KernelSite, python: str, gpu: Gpu | None, earlier: Mapping[str, CommandRun]
) -> Iterator[tuple[str, CommandRun]]:
    """Each test file with how it went, to the first that fails; what went well `earlier` is believed."""
    there = (test for test in site.dependent_tests if (tree / test).is_file())
    for test in (site.test_file, *there):
        run = earlier.get(test) or _test(tree, site, test, python, gpu)
        yield test, run
        if not run.passed:
            return


@dataclass(frozen=True)
class _Head:
    """The pinned head, judged by whom policy says."""

    repo: Repo
    commit: str
    scratch: Path
    judging: tuple[RepoPath, ...]
    judged_by: CommitSha | None

    @contextmanager
    def clean(self, name: str, files: tuple[SourceFile, ...] = ()) -> Iterator[Path]:
        """A worktree of its own, as it is or with these files: what else another step wrote is not in it."""
        with self.repo.worktree(self.commit, self.scratch / name) as tree:
            _judge(tree, self.repo, self.judging, self.judged_by)
            _write(tree, files)
            yield tree


def _scripts(
    head: _Head, number: int, files: tuple[SourceFile, ...], play: Callable[[Path, int], ScriptRun]
) -> tuple[ScriptRun, ...]:
    """On v0 first: a script that does not run there says nothing of the winner."""
    with head.clean("script") as tree:
        first = play(tree, 0)
    if not first.run.passed:
        return (first,)
    with head.clean("script", files) as tree:
        return first, play(tree, number)


def collected(
    repo: Repo,
    head: str,
    site: KernelSite,
    *,
    python: str,
    scratch: Path,
    judging: tuple[RepoPath, ...] = (),
    judged_by: CommitSha | None = None,
    gpu: Gpu | None = None,
) -> CommandRun | None:
    """What pytest finds in the kernel's own test file, of the tree that the tests would run in, with none of them run;
    None where the command is no plain pytest."""
    if not is_pytest(site.test_command):
        return None
    scratch.mkdir(parents=True, exist_ok=True)
    with _Head(repo, head, scratch, judging, judged_by).clean("tests") as tree:
        command, environment = (*site.test_command, COLLECT_ONLY), dict(site.environment)
        return _run(command, tree, environment, COLLECT_DEADLINE, gpu, python=python, test=site.test_file)


def finish(
    repo: Repo,
    commit: str,
    site: KernelSite,
    number: int,
    files: tuple[SourceFile, ...],
    *,
    python: str,
    scratch: Path,
    judging: tuple[RepoPath, ...] = (),
    judged_by: CommitSha | None = None,
    gpu: Gpu | None = None,
    with_script: bool = False,
    earlier: Sequence[PassedFile] = (),
    passed: Callable[[PassedFile], None] = lambda _: None,
) -> Finalization:
    """Style first, for it may reformat the text; then every test on the text that would be committed. One that fails
    runs once more on the untouched kernel. `earlier` passed before a stop: on the same text, beside a GPU of the same
    name, they do not run again. `passed` hears of each that does and goes well.

    Tests and the benchmark script, which runs behind them, alone see the GPU, where there is one.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    for name in ("tests", "untouched"):
        clear(_kernels(scratch / name))
    head = _Head(repo, commit, scratch, judging, judged_by)
    with head.clean("style", files) as tree:
        style = _style(tree, site, files, python)
        finished = _read(tree, files)
    with head.clean("tests", finished) as tree:
        mine = partial(PassedFile, variant=number, source=sources_digest(finished), gpu=gpu.name if gpu else "")
        known = {one.test: one.run for one in earlier if one == mine(test=one.test, run=one.run)}
        tests = []
        for test, run in _tests(tree, site, python, gpu, known):
            tests.append((test, run))
            if run.passed and test not in known:
                passed(mine(test=test, run=run))
    untouched = None
    failed = next((test for test, run in tests if not run.passed), None)
    if failed is not None:
        with head.clean("untouched") as tree:
            untouched = _test(tree, site, failed, python, gpu)
    done = Finalization(
        variant=number, tests=tuple(run for _, run in tests), style=style, files=finished, untouched=untouched
    )
    if gpu is None or not with_script or not done.passed:
        return done
    play = partial(own_script.play, site=site, python=python, gpu=gpu)
    return done.model_copy(update={"scripts": _scripts(head, number, finished, play)})
