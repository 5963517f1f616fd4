"""What the workflow files and the action promise, read from the files themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bot.cli.job_log import SEGMENT_FOLDER
from bot.localhub.expressions import holds
from bot.localhub.workflow_files import JobSpec, Workflow, read_action, read_workflow
from bot.render import workflows
from bot.settings import NEEDED, Inputs

ROOT = Path(__file__).parents[2]
TEXTS = {name: workflows.page(name, workflows.OWN_ACTION) for name in workflows.names()}
FILES = {name: read_workflow(text, name) for name, text in TEXTS.items()}
ACTION_TEXT = (ROOT / "action.yml").read_text(encoding="utf-8")
ACTION = read_action(ACTION_TEXT, "action.yml")
JOBS = [(name, job) for name, found in FILES.items() for job in found.jobs]
GUARD = "vars.KERNELWRIGHT_ENABLED == 'true'"
TALKS = {"contents": "write", "issues": "write", "pull-requests": "write", "statuses": "write"}
MAY = {
    ("kernelwright.yml", "start"): {"actions": "write"},
    ("kernelwright.yml", "stop"): {},
    ("kernelwright-review.yml", "start"): {"actions": "write"},
    ("kernelwright-review-signal.yml", "signal"): {},
    ("kernelwright-order.yml", "measure"): {"contents": "read"},
    ("kernelwright-reconcile.yml", "reconcile"): TALKS | {"actions": "read"},
}
"""What a job may do beyond nothing; every other one talks."""
each_job = pytest.mark.parametrize(("name", "job"), JOBS, ids=[f"{name}-{job.id}" for name, job in JOBS])
each_file = pytest.mark.parametrize("name", FILES)


def job(name: str, wanted: str) -> JobSpec:
    return next(found for found in FILES[name].jobs if found.id == wanted)


def job_texts(name: str) -> dict[str, str]:
    """The lines of each job."""
    parts = re.split(r"^  (\w+):\n", TEXTS[name].split("\njobs:\n")[1], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_this_repository_s_own_files_are_what_init_writes() -> None:
    folder = ROOT / ".github" / "workflows"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == TEXTS


@each_job
def test_the_kill_switch_guards_every_job(name: str, job: JobSpec) -> None:
    known = {"vars": {}, "github": {"event": {}}, "inputs": {}, "matrix": {}}
    assert job.condition is not None and GUARD in job.condition
    assert "||" not in job.condition.split(GUARD)[0], "nothing stands before it that could be enough"
    full = {
        "comment": {"user": {"type": "User"}, "body": "/optimize"},
        "workflow_run": {"event": "pull_request_review"},
    }
    outputs = {"next": "measure", "count": "1", "reason_code": "cancelled_by_user"}
    needs = {need: {"result": "success", "outputs": outputs} for need in job.needs}
    functions = {"success": lambda: True, "always": lambda: True}
    known |= {"needs": needs, "github": {"event": full}, "functions": functions}
    assert not holds(job.condition, known)
    assert not holds(job.condition, known | {"vars": {"KERNELWRIGHT_ENABLED": "false"}})


@each_job
def test_a_job_may_do_what_is_written_here_and_no_more(name: str, job: JobSpec) -> None:
    assert dict(job.permissions) == MAY.get((name, job.id), TALKS)


@each_file
def test_no_file_gives_a_permission_to_all_jobs_or_makes_them_all_one_group(name: str) -> None:
    assert "\npermissions: {}\n" in TEXTS[name]
    assert "\nconcurrency:" not in TEXTS[name], "a run that a stray comment starts would end the one that works"


@each_job
def test_every_job_has_a_group_of_its_own_and_an_end(name: str, job: JobSpec) -> None:
    text = job_texts(name)[job.id]
    assert job.group.startswith("kernelwright-")
    assert bool(job.uses) != ("timeout-minutes:" in text)


def test_a_caller_never_waits_for_its_own_group() -> None:
    callers = {job.group for _, job in JOBS if job.uses}
    assert callers and not callers & {job.group for _, job in JOBS if not job.uses}


def test_a_group_whose_waiting_jobs_hold_results_loses_none() -> None:
    """publish waits for take with a GPU's hours in its hands: a third that comes must not take its place."""
    for name, found in JOBS:
        if found.group.startswith("kernelwright-talk-"):
            assert "queue: max" in job_texts(name)[found.id]


def test_cancelling_ends_the_measuring_job_and_nothing_else() -> None:
    stop, measure = job("kernelwright.yml", "stop"), job("kernelwright-order.yml", "measure")
    assert stop.group.replace("needs.decide.outputs.", "inputs.") == measure.group
    assert "cancel-in-progress: true" in job_texts("kernelwright.yml")["stop"]
    ends = [(name, at) for name in FILES for at, text in job_texts(name).items() if "in-progress: true" in text]
    assert ends == [("kernelwright.yml", "stop")]


def test_the_page_looks_for_a_running_job_s_facts_where_the_file_leaves_them() -> None:
    (step,) = (step for step in job("kernelwright-order.yml", "measure").steps if "segment" in step.given)
    assert step.given["segment"] == f"${{{{ runner.temp }}}}/{SEGMENT_FOLDER}"


def test_a_machine_s_labels_come_from_the_job_that_reads_the_configuration() -> None:
    """Threat: script injection. No word of a comment is in what chooses the machine."""
    own = {(name, found.id): found.runs_on for name, found in JOBS if found.runs_on not in ("", "ubuntu-latest")}
    assert own == {("kernelwright-order.yml", "measure"): "${{ fromJSON(needs.take.outputs.runner) }}"}
    take = job("kernelwright-order.yml", "take")
    assert take.outputs["runner"] == "${{ steps.zone.outputs.runner }}"
    (step,) = (step for step in take.steps if step.id == "zone")
    assert step.given["runner"] == "${{ vars.KERNELWRIGHT_RUNNER }}"


# Code of a pull request


def test_the_measuring_job_holds_no_secret_and_no_token() -> None:
    text, measure = job_texts("kernelwright-order.yml")["measure"], job("kernelwright-order.yml", "measure")
    assert not measure.environment
    assert "secrets." not in text and "github.token" not in text and "token:" not in text


def test_the_app_s_key_is_read_in_the_push_job_alone() -> None:
    found = [(name, at) for name in FILES for at, text in job_texts(name).items() if "secrets." in text]
    assert found == [("kernelwright-campaign.yml", "push")]
    assert job("kernelwright-campaign.yml", "push").environment == "kernelwright-push"
    tokens = [at for name in FILES for at, text in job_texts(name).items() if "create-github-app-token" in text]
    assert tokens == ["push"]


@each_job
def test_every_checkout_is_of_a_fixed_commit_keeps_no_credentials_and_is_verified(name: str, job: JobSpec) -> None:
    wanted = []
    for step in job.steps:
        if step.uses.startswith("actions/checkout@"):
            assert step.given["persist-credentials"] == "false"
            wanted.append(step.given["ref"])
            assert step.given["ref"] in ("${{ github.sha }}", "${{ needs.take.outputs.pinned }}")
            assert not {"submodules", "lfs", "token", "allow-unsafe-pr-checkout"} & set(step.given)
        elif step.uses:
            break
        elif wanted:
            assert list(step.env.values()) == wanted
            assert step.run.count("rev-parse HEAD") == len(wanted)
            wanted = []
    assert wanted == []


def test_the_pull_request_is_checked_out_by_the_measuring_job_alone() -> None:
    steps = [
        (at.id, step)
        for _, at in JOBS
        for step in at.steps
        if step.given.get("ref", "${{ github.sha }}") != "${{ github.sha }}"
    ]
    assert [at for at, _ in steps] == ["measure"]


def test_a_review_carries_nothing_but_a_commit_id() -> None:
    """Threat: a pull request can rewrite the signal, so neither file takes or gives anything."""
    (signal,) = FILES["kernelwright-review-signal.yml"].jobs
    assert [(step.uses, step.run) for step in signal.steps] == [("", "true")]
    bridge = TEXTS["kernelwright-review.yml"]
    assert "artifact" not in bridge
    assert set(re.findall(r"github\.event\.workflow_run\.(\w+)", bridge)) == {"event", "head_sha"}
    (listens,) = FILES["kernelwright-review.yml"].triggers["workflow_run"]["workflows"]
    assert listens == FILES["kernelwright-review-signal.yml"].name


# Words of strangers


@each_job
def test_no_word_of_a_stranger_reaches_a_command_line_or_a_step(name: str, job: JobSpec) -> None:
    """Threats: script injection, output injection, argument injection."""
    for step in job.steps:
        assert "${{" not in step.run
        for text in (*step.env.values(), *step.given.values()):
            assert "github.event" not in text and "github.head_ref" not in text
        assert "GITHUB_ENV" not in step.run and "GITHUB_OUTPUT" not in step.run and "eval" not in step.run


def test_no_hole_is_in_a_command_line_of_the_action() -> None:
    assert [step.name for step in ACTION.steps if "${{" in step.run] == []


@each_job
def test_actions_are_pinned_by_commit_and_say_which_release_that_is(name: str, job: JobSpec) -> None:
    for step in job.steps:
        if step.uses and step.uses != workflows.OWN_ACTION:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step.uses)
            assert re.search(re.escape(step.uses) + r" # v\d+\.\d+\.\d+\n", TEXTS[name])


def test_one_action_is_pinned_at_one_commit() -> None:
    pins = {step.uses for _, found in JOBS for step in found.steps if "@" in step.uses}
    assert len(pins) == len({pin.partition("@")[0] for pin in pins}) == 4


def test_no_cache_is_used() -> None:
    """Threat: cache poisoning. A cache of the default branch could be filled by a job of a pull request."""
    assert [name for name, text in (*TEXTS.items(), ("action.yml", ACTION_TEXT)) if "cache" in text.lower()] == []


def test_an_artifact_has_a_name_and_goes_where_no_checkout_is() -> None:
    """Threat: artifact poisoning. Without a name every artifact of the run would be taken."""
    for _, found in JOBS:
        for step in found.steps:
            if "-artifact@" in step.uses:
                assert "inputs.campaign" in step.given["name"] and "github.run_attempt" in step.given["name"]
                assert step.given["path"].startswith("${{ runner.temp }}/")


# The action


def test_what_a_step_gives_the_action_is_an_input_of_it() -> None:
    for _, found in JOBS:
        for step in found.steps:
            if step.uses == workflows.OWN_ACTION:
                assert set(step.given) <= set(ACTION.defaults)
                assert step.given["enabled"] == "${{ vars.KERNELWRIGHT_ENABLED }}"
                assert set(NEEDED.get(step.given["zone"], ())) <= set(step.given)


def test_the_zones_of_the_files_are_those_that_are_known() -> None:
    used = {step.given["zone"] for _, found in JOBS for step in found.steps if step.uses == workflows.OWN_ACTION}
    known = set(Inputs.model_fields["zone"].annotation.__args__)  # type: ignore[union-attr]
    assert used == known
    assert ", ".join(sorted(known)) == ", ".join(sorted(re.findall(r"[\w-]+", _zones_told()))).replace("or, ", "")


def _zones_told() -> str:
    (told,) = re.findall(r"zone:\n    description: (.*)\n", ACTION_TEXT)
    return str(told).replace(" or ", ", ")


INSTALLS = {"decide": 1, "take": 2, "measure": 0, "publish": 2, "push": 1, "reconcile": 1, "sweep-plan": 1}


@pytest.mark.parametrize(("zone", "count"), INSTALLS.items())
def test_the_base_is_installed_where_it_is_missing_and_never_on_the_gpu_runner(zone: str, count: int) -> None:
    functions = {"success": lambda: True}
    for python, expected in (("", count), ("/opt/python", 0)):
        known = {"inputs": {"zone": zone, "python": python}, "functions": functions}
        steps = [step for step in ACTION.steps if "pip" in step.run and holds(step.condition, known)]
        assert len(steps) == expected
        assert all("--require-hashes" in step.run and "--only-binary :all:" in step.run for step in steps)


def test_what_the_action_installs_is_locked_by_hash_and_agrees() -> None:
    seen: dict[str, str] = {}
    for name in ("base.txt", "report.txt"):
        text = (ROOT / "constraints" / name).read_text(encoding="utf-8")
        entries = re.split(r"^(?=[A-Za-z])", text, flags=re.MULTILINE)[1:]
        assert entries and all("--hash=sha256:" in entry for entry in entries)
        for entry in entries:
            package, version = re.match(r"([\w.-]+)==([^\s;\\]+)", entry).groups()  # type: ignore[union-attr]
            assert seen.setdefault(package.lower(), version) == version
    assert {"pandas", "matplotlib", "click"} <= set(seen)


def test_a_file_says_who_may_call_it() -> None:
    called = {found.uses.removeprefix("$/.github/workflows/") for _, found in JOBS if found.uses}
    callable_ = {name for name, found in FILES.items() if "workflow_call" in found.triggers}
    assert called == callable_ == {"kernelwright-campaign.yml", "kernelwright-order.yml"}


def test_the_dangerous_triggers_are_two_and_each_has_its_reason() -> None:
    ignored = {
        name: re.findall(r"# zizmor: ignore\[([\w-]+)\] (\w.{20,})$", text, re.MULTILINE)
        for name, text in TEXTS.items()
        if "zizmor:" in text
    }
    assert {name: [rule for rule, _ in found] for name, found in ignored.items()} == {
        "kernelwright.yml": ["dangerous-triggers"],
        "kernelwright-review.yml": ["dangerous-triggers"],
    }
    assert sum(text.count("zizmor:") for text in (*TEXTS.values(), ACTION_TEXT)) == 2


def triggers(found: Workflow) -> set[str]:
    return set(found.triggers)


def test_nothing_is_started_by_a_push_or_by_a_pull_request() -> None:
    """What a pull request could rewrite is the signal alone."""
    started = {name: triggers(found) & {"push", "pull_request", "pull_request_target"} for name, found in FILES.items()}
    assert not any(started.values())
    assert [name for name, found in FILES.items() if "pull_request_review" in found.triggers] == [
        "kernelwright-review-signal.yml"
    ]
