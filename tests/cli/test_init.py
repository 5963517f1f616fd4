"""`kernelwright init`: what it writes, what it leaves alone, and what it says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli import init as door
from bot.cli.entry import cli
from bot.errors import OperatorError, UserError
from bot.render import workflows
from bot.targets.contract import KernelTable, RepoConfig, read_config

ACTION = "kernels/kernelwright@" + "a" * 40
NEWER = "kernels/kernelwright@" + "b" * 40
FOLDER = Path(".github") / "workflows"
INSTALL = Path(__file__).parents[2] / "docs" / "install.md"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "library"
    made.mkdir()
    subprocess.run(["git", "init", "--quiet", "."], cwd=made, check=True)
    return made


def init(repo: Path, *words: str, action: str = ACTION) -> str:
    said = ["init", "--repo", str(repo), "--action", action, *words]
    done = CliRunner().invoke(cli, said, catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 0
    return done.output


def files(repo: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in (repo / FOLDER).iterdir()}


def test_the_first_time_it_writes_every_workflow_and_a_configuration(repo: Path) -> None:
    said = init(repo)
    assert files(repo) == {name: workflows.page(name, ACTION) for name in workflows.names()}
    assert len(workflows.names()) == 7
    for name in workflows.names():
        assert f"wrote       {name}\n" in said
    assert "KERNELWRIGHT_ENABLED" in said and "docs/install.md" in said
    assert (repo / "kernelwright.toml").read_text(encoding="utf-8") == workflows.starter()


def test_every_line_names_the_commit_it_was_given(repo: Path) -> None:
    init(repo)
    pages = "".join(files(repo).values())
    assert workflows.PLACEHOLDER not in pages
    assert pages.count(f"uses: {ACTION}\n") == 9


def test_the_second_time_nothing_changes(repo: Path) -> None:
    init(repo)
    before = files(repo)
    said = init(repo)
    assert files(repo) == before
    assert said.count("unchanged ") == len(before)
    assert "kept        kernelwright.toml" in said


def test_a_file_that_nobody_changed_is_brought_up_to_date(repo: Path) -> None:
    init(repo)
    said = init(repo, action=NEWER)
    assert files(repo) == {name: workflows.page(name, NEWER) for name in workflows.names()}
    assert "replaced    kernelwright-order.yml" in said
    assert "unchanged   kernelwright-review-signal.yml" in said, "it uses no action"


def test_a_changed_file_is_left_alone_and_the_new_one_is_written_beside_it(repo: Path) -> None:
    init(repo)
    changed = repo / FOLDER / "kernelwright-sweep.yml"
    theirs = changed.read_text(encoding="utf-8").replace("17 2 * * *", "5 4 * * *")
    changed.write_text(theirs, encoding="utf-8")
    said = init(repo)
    assert changed.read_text(encoding="utf-8") == theirs
    beside = changed.with_name("kernelwright-sweep.yml.new")
    assert beside.read_text(encoding="utf-8") == workflows.page("kernelwright-sweep.yml", ACTION)
    assert '-    - cron: "5 4 * * *"\n+    - cron: "17 2 * * *"\n' in said
    assert init(repo) == said, "saying it again changes nothing"


def test_what_was_written_beside_goes_when_its_question_is_answered(repo: Path) -> None:
    init(repo)
    changed = repo / FOLDER / "kernelwright.yml"
    changed.write_text("name: mine\n", encoding="utf-8")
    init(repo)
    changed.with_name("kernelwright.yml.new").replace(changed)
    init(repo)
    assert set(files(repo)) == set(workflows.names())
    changed.write_text("name: mine\n", encoding="utf-8")
    init(repo)
    changed.unlink()
    init(repo)
    assert set(files(repo)) == set(workflows.names())


def test_a_note_of_somebody_s_that_is_called_new_stays(repo: Path) -> None:
    init(repo)
    note = repo / FOLDER / "kernelwright.yml.new"
    note.write_text("mine\n", encoding="utf-8")
    init(repo)
    assert note.read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize("spoil", ["header", "body", "end", "emptied"])
def test_any_change_is_a_change(spoil: str) -> None:
    page = workflows.page("kernelwright.yml", ACTION)
    spoiled = {
        "header": page.replace("kernelwright init", "kernelwright  init", 1),
        "body": page.replace("timeout-minutes: 5", "timeout-minutes: 6", 1),
        "end": page + "\n",
        "emptied": "",
    }[spoil]
    assert workflows.is_as_written(page) and not workflows.is_as_written(spoiled)
    assert workflows.fate(spoiled, page) == "beside"


def test_an_existing_configuration_is_never_touched(repo: Path) -> None:
    (repo / "kernelwright.toml").write_text("[policy]\nself_approval = true\n", encoding="utf-8")
    said = init(repo)
    assert (repo / "kernelwright.toml").read_text(encoding="utf-8") == "[policy]\nself_approval = true\n"
    assert "kept        kernelwright.toml\n" in said, "and nothing of it has to be told"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[policy]\nevidence = "static"\n', ': its `evidence = "static"` lets estimates be pushed\n'),
        ("polcy = 1\n", ", which has to be mended: kernelwright.toml: unknown key `polcy`; "),
    ],
)
def test_what_one_may_not_expect_of_a_kept_configuration_is_told(repo: Path, text: str, told: str) -> None:
    (repo / "kernelwright.toml").write_text(text, encoding="utf-8")
    assert f"kept        kernelwright.toml{told}" in init(repo)


def test_the_next_step_is_a_rehearsal_and_then_github(repo: Path) -> None:
    said = init(repo)
    assert 0 < said.index("kernelwright rehearse --repo .") < said.index("On GitHub") < said.index("gh variable set")


def test_the_starter_allows_what_no_file_allows_and_shows_every_policy() -> None:
    assert read_config(workflows.starter()) == RepoConfig()
    lines = workflows.starter().partition("\n# Where the kernels are")[0].splitlines()
    shown = [line.removeprefix("# ") for line in lines if line.startswith("# ") and " = " in line]
    policy = [line for line in shown if not line.startswith(("enabled", "pools"))]
    assert read_config("[policy]\n" + "\n".join(policy)) == RepoConfig()
    assert [line.split(" ")[0] for line in policy] == list(type(RepoConfig().policy).model_fields)
    assert read_config("[sweep]\n" + shown[-1]).sweep.pools, "the example of a pool is one"


def described(text: str) -> RepoConfig:
    """The section of a kernel that a page shows."""
    section = text[text.index("[target.kernels.") :]
    return read_config("\n".join(line.removeprefix("# ") for line in section.splitlines()))


def test_the_section_of_a_kernel_that_is_shown_is_whole_and_the_same_in_both_places() -> None:
    page = INSTALL.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    starter = described(workflows.starter())
    assert described(page) == starter and set(starter.target.kernels) == {"rms_norm"}
    needed = [name for name, field in KernelTable.model_fields.items() if field.is_required()]
    assert [line.split(" = ")[0] for line in page.splitlines() if " = " in line] == needed


@pytest.mark.parametrize("block", INSTALL.read_text(encoding="utf-8").split("```console\n")[1:])
def test_what_the_page_shows_for_a_shell_is_read_by_one_as_it_stands(block: str) -> None:
    lines = block.partition("```")[0]
    assert "<" not in lines, "which would be a redirection"
    subprocess.run(["bash", "-n"], input=lines, text=True, check=True)


def test_an_enterprise_server_gets_the_words_it_knows(repo: Path) -> None:
    init(repo, "--enterprise")
    pages = "".join(files(repo).values())
    assert "$/" not in pages
    assert pages.count("uses: ./.github/workflows/kernelwright-order.yml\n") == 3
    own = workflows.page("kernelwright.yml", workflows.OWN_ACTION, enterprise=True)
    assert "uses: ./\n" in own and "$/" not in own


# What is refused


@pytest.mark.parametrize(
    "action",
    [
        *("kernels/kernelwright", "kernels/kernelwright@v1", "kernels/kernelwright@main", f"x@{'a' * 40}", "./", ""),
        *(f"k/w@{'a' * 39}", f"k/w@{'A' * 40}", f"k/w@{'a' * 40}\nrun: evil", f"k/w/../x@{'a' * 40} # v1"),
    ],
)
def test_only_a_commit_of_a_repository_can_be_used(action: str) -> None:
    with pytest.raises(UserError, match="--action"):
        workflows.page("kernelwright.yml", action)


def test_a_folder_that_is_no_repository_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no git repository") as caught:
        init(tmp_path)
    assert "--repo" in caught.value.hint
    assert not (tmp_path / ".github").exists()


@pytest.mark.parametrize("place", [".github", ".github/workflows", ".github/workflows/kernelwright.yml"])
def test_nothing_is_written_through_a_link(repo: Path, tmp_path: Path, place: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (repo / place).parent.mkdir(parents=True, exist_ok=True)
    (repo / place).symlink_to(elsewhere)
    with pytest.raises(OperatorError, match="is not a plain"):
        init(repo)
    assert list(elsewhere.iterdir()) == []
    assert not (repo / "kernelwright.toml").exists()


# Where the action is found


def test_this_repository_uses_its_own_action() -> None:
    assert door.find_action(Path(__file__).parents[2]) == workflows.OWN_ACTION


@pytest.mark.parametrize(
    "url",
    [
        *("https://github.com/kernels/kernelwright.git", "https://github.com/kernels/kernelwright/"),
        *("git@github.com:kernels/kernelwright.git", "ssh://git@ghe.example.org:2222/kernels/kernelwright"),
    ],
)
def test_an_installation_from_a_repository_knows_its_commit(
    url: str, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    class Installed:
        def read_text(self, name: str) -> str:
            assert name == "direct_url.json"
            return json.dumps({"url": url, "vcs_info": {"vcs": "git", "commit_id": "a" * 40}})

    monkeypatch.setattr(door.metadata, "distribution", lambda name: Installed())
    assert door.find_action(repo) == ACTION


def test_a_clone_knows_where_it_came_from(monkeypatch: pytest.MonkeyPatch, repo: Path) -> None:
    monkeypatch.setattr(door, "_installed_from", lambda: None)
    monkeypatch.setattr(door.bot, "__file__", str(repo / "bot" / "__init__.py"))
    with pytest.raises(UserError, match="which commit"):
        door.find_action(repo)
    git = ["git", "-c", "user.name=d", "-c", "user.email=d@example.org"]
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "x"], cwd=repo, check=True)
    subprocess.run([*git, "remote", "add", "origin", "https://github.com/k/w.git"], cwd=repo, check=True)
    sha = subprocess.run([*git, "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True).stdout
    assert door.find_action(repo) == f"k/w@{sha.strip()}"
