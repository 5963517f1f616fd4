"""Where one kernel lives in its repository, and how that repository checks it."""

from __future__ import annotations

from bot.model.ids import KernelName, RepoPath
from bot.model.word import Word

OWN_TABLE = "kernelwright"
LIGER_TABLES = (f"benchmark/data/all_benchmark_data_{OWN_TABLE}.csv", "benchmark/data/all_benchmark_data.csv")
"""The second is of scripts that know of no other table."""


class KernelSite(Word):
    kernel: KernelName
    preset: str
    """"liger" for the built-in preset, "toml" for a described repository."""
    source_root: RepoPath
    """The folder that goes on the import path, e.g. `src`."""
    module: str
    """Import name of the op, e.g. `liger_kernel.ops.rms_norm`."""
    op: str = ""
    """Its autograd function, where the file holds several."""
    files: tuple[RepoPath, ...]
    """The files a variant may change; the first holds the op."""
    test_file: RepoPath
    benchmark_file: RepoPath
    test_command: tuple[str, ...]
    """argv that runs one test file, `{test}` standing for it; run from the repository's root."""
    style_command: tuple[str, ...]
    dependent_tests: tuple[RepoPath, ...] = ()
    """Test files of modules that import a file of this kernel."""
    relied_on: tuple[str, ...] = ()
    """Private functions of its files that others import, tests among them: they are called as they are today."""
    dispatches: tuple[str, ...] = ()
    """Ops that its files, or the module that its test goes through, ask the library's own dispatcher for."""
    environment: tuple[tuple[str, str], ...] = ()
    """Extra variables for the test command, e.g. TRITON_INTERPRET=1 where there is no GPU."""

    @property
    def benchmark_tables(self) -> tuple[RepoPath, ...]:
        """Where the benchmark script writes what it reads, the likelier first; none where nobody knows its format."""
        return LIGER_TABLES if self.preset == "liger" else ()

    @property
    def benchmark_environment(self) -> tuple[tuple[str, str], ...]:
        """What gives a run of the script a table of its own."""
        return (*self.environment, ("LIGER_BENCH_TARGET", OWN_TABLE)) if self.preset == "liger" else self.environment

    @property
    def benchmark_command(self) -> tuple[str, ...]:
        """Liger's scripts keep the figures that their table has: whoever times v0 and then a winner on one GPU would
        read v0 twice."""
        return ("python", self.benchmark_file, *(("--overwrite",) if self.preset == "liger" else ()))
