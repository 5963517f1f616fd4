"""Whose copies of the judging files decide: listed by PROFILE, checked by publish, obeyed by FINALIZE."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from bot.bench.gpu import Gpu
from bot.git.repo import Repo
from bot.model.campaign import Order, Stage
from bot.model.facts import Fact, Finalized, OrderFailed, OrderTaken, Profiled
from bot.model.finalization import CommandRun, Finalization
from bot.model.measurement import Runner
from bot.model.reasons import ReasonCode
from bot.zones.intake import read_segment
from bot.zones.measure import Workshop, measure
from tests.fakes.bench import FakeBench
from tests.zones.conversation import DANA, KERNEL, MIRA, PATH, Conversation
from tests.zones.places import At

TEST = f"test/transformers/test_{KERNEL}.py"
WEAKER = "def test_nothing():\n    pass\n"


class Finisher:
    """Stands in for the tests and remembers whose it was told to run."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def __call__(self, repo: Repo, head: str, site: Any, number: int, files: Any, **told: Any) -> Finalization:
        self.told = told
        run = CommandRun(argv=("true",), passed=True, exit_code=0, seconds=0.0, summary="1 passed")
        return Finalization(variant=number, tests=(run,), style=(run,), files=files)


class Fenced(FakeBench):
    """Says that bubblewrap holds what it runs."""

    @property
    def runner(self) -> Runner:
        return super().runner.model_copy(update={"sandbox": "bubblewrap"})


def gpu_job(
    talk: Conversation, finisher: Finisher | None = None, gpu: Gpu | None = None, **doors: Any
) -> tuple[Fact, ...]:
    """The real measure zone on a plain mirror, with a bench and tests that take no time."""
    talk.jobs += 1
    folder = talk.folder / f"job-{talk.jobs}"
    folder.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--mirror", str(talk.hub.bare), str(folder / "clone")], check=True)
    benches = {"open_bench": Fenced, "open_counter": FakeBench, "collect": lambda *_, **__: None}
    doors = {"repo": Repo(folder / "clone"), "finish": finisher or Finisher(), **benches, **doors}
    shop = Workshop(python=sys.executable, scratch=folder / "scratch", gpu=gpu, **doors)
    order, tip = talk.campaign.order, talk.branches["kernelwright/ledger"]
    assert isinstance(order, Order)
    measure(order, tip, shop, folder / "out")
    taken, *told = read_segment(folder / "out")[0]
    assert isinstance(taken, OrderTaken)
    return tuple(told)


NODE = Path("/dev/nvidia0")
H200 = Gpu(uuid="GPU-1", name="NVIDIA H200", driver="580.65", arch="sm_90", memory_mib=143771, nodes=(NODE,))
UNFENCED = {"open_bench": FakeBench}


def test_a_gpu_machine_without_bubblewrap_runs_nobody_s_code(at: At) -> None:
    (refused,) = gpu_job(at("profiling"), gpu=H200, **UNFENCED)
    assert isinstance(refused, OrderFailed)
    assert refused.reason is ReasonCode.PREFLIGHT_FAILED
    assert "install bubblewrap" in refused.detail
    assert "`require_sandbox = false`" in refused.detail


def test_the_repository_may_allow_it(at: At) -> None:
    talk = at("profiling")
    talk.allows("require_sandbox = false")
    (profiled,) = gpu_job(talk, gpu=H200, **UNFENCED)
    assert isinstance(profiled, Profiled)


def as_the_workflow_has_it(talk: Conversation, *, at_head: str, on_main: str) -> dict[str, Any]:
    """Two checkouts: of the default branch, and of the pinned commit, whose own kernelwright.toml is a stranger's."""
    talk.pushes(DANA, at_head, path="kernelwright.toml")
    talk.pushes(MIRA, on_main, branch="main", path="kernelwright.toml")
    talk.asks(MIRA, f"/optimize {KERNEL}")
    assert talk.campaign.pull is not None
    for name, commit in (("pinned", talk.campaign.pull.head_sha), ("default", talk.branches["main"])):
        place = talk.folder / name
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(talk.hub.bare), str(place)], check=True)
        subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=place, check=True)
    return {"repo": Repo(talk.folder / "pinned"), "trusted": talk.folder / "default"}


def test_a_pull_request_cannot_take_the_fence_down(at: At) -> None:
    words = {"at_head": "[policy]\nrequire_sandbox = false\n", "on_main": '[policy]\nevidence = "static"\n'}
    shop = as_the_workflow_has_it(talk := at("opened"), **words)
    (refused,) = gpu_job(talk, gpu=H200, **UNFENCED, **shop)
    assert isinstance(refused, OrderFailed) and "install bubblewrap" in refused.detail


def test_a_pull_request_cannot_choose_the_command_that_tests_it(at: At) -> None:
    own = f"""
    [target.kernels.{KERNEL}]
    source = "{PATH}"
    module = "{PATH.removeprefix("src/").removesuffix(".py").replace("/", ".")}"
    source_root = "src"
    test = "{TEST}"
    benchmark = "benchmark/scripts/benchmark_{KERNEL}.py"
    test_command = ["true", "{{test}}"]
    """
    shop = as_the_workflow_has_it(talk := at("opened"), at_head=own, on_main="[policy]\n")
    (profiled,) = gpu_job(talk, **shop)
    assert isinstance(profiled, Profiled) and "pytest" in profiled.profile.site.test_command


def test_what_is_wrong_in_the_pull_request_s_copy_alone_stops_nothing(at: At) -> None:
    shop = as_the_workflow_has_it(talk := at("opened"), at_head="[policy]\npolcy = 1\n", on_main="[policy]\n")
    (profiled,) = gpu_job(talk, **shop)
    assert isinstance(profiled, Profiled)


def test_what_is_wrong_on_the_default_branch_is_said_of_the_default_branch(at: At) -> None:
    talk = at("profiling")
    wrong = talk.folder / "wrong"
    wrong.mkdir()
    (wrong / "kernelwright.toml").write_text("polcy = 1\n")
    (refused,) = gpu_job(talk, trusted=wrong)
    assert isinstance(refused, OrderFailed) and refused.reason is ReasonCode.CONFIG_INVALID
    assert "kernelwright.toml of the default branch: unknown key `polcy`" in refused.detail


def test_on_a_machine_of_one_s_own_nobody_else_s_code_runs(at: At) -> None:
    (profiled,) = gpu_job(at("profiling"), gpu=H200, is_own=True, **UNFENCED)
    assert isinstance(profiled, Profiled)


def test_without_a_gpu_a_weaker_fence_will_do(at: At) -> None:
    (profiled,) = gpu_job(at("profiling"), **UNFENCED)
    assert isinstance(profiled, Profiled)


def test_where_a_gpu_times_the_tests_run_on_it_as_well(at: At) -> None:
    (profiled,) = gpu_job(at("profiling"), gpu=H200)
    assert isinstance(profiled, Profiled)
    assert "TRITON_INTERPRET" not in dict(profiled.profile.site.environment)
    finisher = Finisher()
    gpu_job(at("finishing"), finisher, H200)
    assert finisher.told["gpu"] == H200


def test_without_a_gpu_the_tests_are_interpreted_and_see_no_device(at: At) -> None:
    (profiled,) = gpu_job(at("profiling"))
    assert isinstance(profiled, Profiled)
    assert dict(profiled.profile.site.environment)["TRITON_INTERPRET"] == "1"
    finisher = Finisher()
    gpu_job(at("finishing"), finisher)
    assert finisher.told["gpu"] is None


def with_its_own_test(talk: Conversation) -> Conversation:
    """A pull request that brings a weaker test and a conftest.py, and a word that judges nothing."""
    talk.pushes(DANA, WEAKER, path=TEST)
    talk.pushes(DANA, "collect_ignore = []\n", path="conftest.py")
    talk.pushes(DANA, "words\n", path="notes.md")
    talk.asks(MIRA, f"/optimize {KERNEL}")
    return talk


def test_a_campaign_remembers_where_the_target_branch_stood(at: At) -> None:
    talk = at("profiling")
    stood = talk.branches["main"]
    talk.pushes(MIRA, "words\n", branch="main", path="notes.md")
    assert talk.campaign.pull is not None
    assert talk.campaign.pull.base_sha == stood != talk.branches["main"]


def test_a_pull_request_that_touches_the_kernel_alone_brings_no_judges(at: At) -> None:
    (profiled,) = gpu_job(at("profiling"))
    assert isinstance(profiled, Profiled)
    assert profiled.profile.oracle_differs == ()


def test_what_differs_is_listed_in_the_profile_and_asked_about(at: At) -> None:
    talk = with_its_own_test(at("opened"))
    (profiled,) = gpu_job(talk)
    assert isinstance(profiled, Profiled)
    assert profiled.profile.oracle_differs == ("conftest.py", TEST)
    assert PATH in talk.repo.changed(talk.branches["main"], talk.head), "the kernel differs too, and judges nothing"
    assert talk.profiles().stage is Stage.AWAIT_PROFILE
    question = talk.answers()[-1]
    assert f"differ from the target branch: `conftest.py`, `{TEST}`" in question
    assert "This pull request's own copies decide." in question
    record = talk.repo.read("kernelwright/ledger", f"campaigns/{talk.campaign.id}/profile.md")
    assert record is not None
    assert f"differ from the target branch: `conftest.py, {TEST}`" in record.decode()
    assert "- whose copies decide: the pull request's own" in record.decode()


def test_a_gpu_job_that_keeps_a_difference_quiet_is_not_believed(at: At) -> None:
    talk = with_its_own_test(at("opened"))
    (profiled,) = gpu_job(talk)
    assert isinstance(profiled, Profiled)
    quiet = profiled.profile.model_copy(update={"oracle_differs": ("conftest.py",)})
    report = talk.publishes(talk.leaves([profiled.model_copy(update={"profile": quiet})]))
    assert report.reason_code is ReasonCode.ARTIFACT_REJECTED
    assert "other judging files" in talk.campaign.detail


@pytest.mark.parametrize("oracle", ["head", "target"])
def test_policy_says_whose_copies_the_tests_run_from(at: At, oracle: Literal["head", "target"]) -> None:
    talk, finisher = at("finishing").retold(policy={"oracle": oracle}), Finisher()
    campaign = talk.campaign
    assert campaign.pull is not None and campaign.profile is not None
    (finished,) = gpu_job(talk, finisher)
    assert isinstance(finished, Finalized)
    assert finisher.told["judging"] == campaign.profile.oracle_differs
    assert finisher.told["judged_by"] == (campaign.pull.base_sha if oracle == "target" else None)


@pytest.mark.parametrize("runs", [True, False])
def test_policy_says_whether_the_repository_s_own_benchmark_script_runs(at: At, runs: bool) -> None:
    finisher = Finisher()
    gpu_job(at("finishing").retold(policy={"benchmark_script": runs}), finisher)
    assert finisher.told["with_script"] is runs


@pytest.mark.parametrize(("oracle", "kind"), [("head", Profiled), ("target", OrderFailed)])
def test_a_kernel_that_the_target_branch_has_no_test_of(at: At, oracle: str, kind: type[Fact]) -> None:
    """A pull request with a new kernel brings its test along; where only the target branch may judge, nobody can."""
    talk = at("profiling")
    talk.git("update-ref", "refs/heads/without", without(talk, TEST))
    told = talk.retold(policy={"oracle": oracle}, pull={"base_sha": talk.branches["without"]})
    (fact,) = gpu_job(told)
    assert isinstance(fact, kind)
    if isinstance(fact, OrderFailed):
        assert fact.reason is ReasonCode.PREFLIGHT_FAILED
        assert f"{TEST} is not on the target branch" in fact.detail


@pytest.mark.parametrize(("oracle", "kind"), [("head", Profiled), ("target", OrderFailed)])
def test_a_target_branch_that_is_gone(at: At, oracle: str, kind: type[Fact]) -> None:
    (fact,) = gpu_job(at("profiling").retold(policy={"oracle": oracle}, pull={"base_sha": None}))
    assert isinstance(fact, kind)


def without(talk: Conversation, path: str) -> str:
    """The target branch as it would be without this file."""
    main = talk.branches["main"]
    files = {name: talk.repo.read(main, name) or b"" for name in talk.repo.list(main) if name != path}
    return talk.repo.commit_files(
        main, files, "Without it\n", author=(MIRA, "m@example.com"), date="2026-01-02T03:04:05Z", whole_tree=True
    )
