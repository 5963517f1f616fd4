"""The real client in bad weather: PyGithub over HTTP against the embedded GitHub, with requests that fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from bot.errors import ForgeError, OperatorError
from bot.forge.calls import CallFailed
from bot.forge.client import Forge, open_forge
from bot.forge.threads import marker
from bot.localhub.server import Hub
from bot.localhub.shapes import Shapes
from bot.localhub.wire import Request, Response, as_json, refusal
from bot.model.people import Actor, Role

BOT = "kernelwright[bot]"
MARKED = f"{marker('c1/status')}\n\nhello"


class Weather:
    """Fails the requests that are named, as often as was said, before or after they took effect."""

    def __init__(self, hub: Hub) -> None:
        self._plan: list[tuple[str, str, str, Callable[[], Response]]] = []
        self._hub = hub
        hub.inject(self._meet)

    def fail(self, moment: str, method: str, path_end: str, answer: Callable[[], Response], times: int = 1) -> None:
        self._plan += [(moment, method, path_end, answer)] * times

    def _meet(self, moment: str, request: Request) -> Response | None:
        for step in self._plan:
            if step[:2] == (moment, request.method) and request.path.endswith(step[2]):
                self._plan.remove(step)
                return step[3]()
        return None

    def count(self, method: str, path_end: str) -> int:
        return sum(seen.method == method and seen.path.endswith(path_end) for seen in self._hub.seen)


def bad_gateway() -> Response:
    return Response(502, b"<html>Bad Gateway</html>", {"Content-Type": "text/html"})


def hang_up() -> Response:
    raise ConnectionAbortedError("the server hangs up")


def limited(seconds: int) -> Callable[[], Response]:
    words = "You have exceeded a secondary rate limit."
    return lambda: refusal(403, words, headers={"Retry-After": str(seconds)})


@pytest.fixture
def weather(hub: Hub) -> Weather:
    return Weather(hub)


# A write is done once


@pytest.mark.parametrize("trouble", [bad_gateway, hang_up])
def test_a_comment_that_was_made_before_the_answer_was_lost_is_found(
    forge: Forge, hub: Hub, weather: Weather, trouble: Callable[[], Response], slept: list[float]
) -> None:
    weather.fail("after", "POST", "/issues/1/comments", trouble)
    made = forge.post_comment(1, MARKED)
    assert [comment["id"] for comment in hub.comments(1)] == [made]
    assert len(slept) == 1


@pytest.mark.parametrize("trouble", [bad_gateway, hang_up])
def test_a_comment_that_was_not_made_is_tried_again(
    forge: Forge, hub: Hub, weather: Weather, trouble: Callable[[], Response]
) -> None:
    weather.fail("before", "POST", "/issues/1/comments", trouble, times=2)
    made = forge.post_comment(1, MARKED)
    assert [comment["id"] for comment in hub.comments(1)] == [made]


def test_a_comment_nobody_could_find_again_is_not_tried_again(forge: Forge, hub: Hub, weather: Weather) -> None:
    weather.fail("after", "POST", "/issues/1/comments", bad_gateway)
    with pytest.raises(ForgeError):
        forge.post_comment(1, "no marker in here")
    assert weather.count("POST", "/issues/1/comments") == len(hub.comments(1)) == 1


def test_somebody_elses_comment_with_our_marker_is_not_taken_for_ours(forge: Forge, hub: Hub, weather: Weather) -> None:
    spoof = hub.comment("dana", 1, MARKED)
    weather.fail("before", "POST", "/issues/1/comments", bad_gateway)
    made = forge.post_comment(1, MARKED)
    assert [comment["id"] for comment in hub.comments(1)] == [spoof, made]


def test_it_gives_up_after_a_few_attempts(forge: Forge, hub: Hub, weather: Weather, slept: list[float]) -> None:
    weather.fail("before", "POST", "/issues/1/comments", bad_gateway, times=9)
    with pytest.raises(ForgeError) as caught:
        forge.post_comment(1, MARKED)
    assert weather.count("POST", "/issues/1/comments") == 4
    assert "502" in str(caught.value)
    assert "again" in caught.value.hint
    assert [0.5 <= wait / 2**turn <= 1.5 for turn, wait in enumerate(slept)] == [True] * 3


def test_a_rate_limit_is_waited_for_as_long_as_github_asks(
    forge: Forge, hub: Hub, weather: Weather, slept: list[float]
) -> None:
    weather.fail("before", "POST", "/issues/1/comments", limited(7))
    forge.post_comment(1, "even without a marker: it was certainly not made")
    assert slept == [7.0]
    assert len(hub.comments(1)) == 1


def test_two_minutes_are_waited_for_and_more_ends_the_job(
    forge: Forge, hub: Hub, weather: Weather, slept: list[float]
) -> None:
    weather.fail("before", "POST", "/issues/1/comments", limited(120))
    forge.post_comment(1, MARKED)
    assert slept == [120.0]
    weather.fail("before", "POST", "/issues/1/comments", limited(121))
    with pytest.raises(ForgeError) as caught:
        forge.post_comment(1, f"{marker('c1/result')}\n\nhello")
    assert slept == [120.0]
    assert "121 s" in caught.value.hint
    assert len(hub.comments(1)) == 1


def test_a_refusal_is_not_tried_again(forge: Forge, weather: Weather, slept: list[float]) -> None:
    with pytest.raises(ForgeError) as caught:
        forge.post_comment(1, "x" * 65537)
    assert "too long" in str(caught.value)
    assert weather.count("POST", "/issues/1/comments") == 1
    assert slept == []


def test_edits_reactions_and_statuses_survive_a_lost_answer(forge: Forge, hub: Hub, weather: Weather) -> None:
    made = forge.post_comment(1, MARKED)
    head = forge.pull(1).head_sha
    weather.fail("after", "PATCH", f"/comments/{made}", bad_gateway)
    forge.edit_comment(made, "two")
    weather.fail("after", "POST", "/reactions", bad_gateway)
    forge.react(made, "eyes")
    weather.fail("after", "POST", f"/statuses/{head}", hang_up)
    forge.set_status(head, "pending", "kernelwright/a", "profiling")
    assert [comment["body"] for comment in hub.comments(1)] == ["two"]
    assert [reaction.content for reaction in hub.world.reactions_to(made)] == ["eyes"]
    assert len(hub.world.statuses) == 1


def test_taking_back_a_reaction_survives_a_lost_answer(forge: Forge, hub: Hub, weather: Weather) -> None:
    made = hub.comment("mira", 1, "/optimize a")
    forge.react(made, "eyes")
    number = hub.world.reactions_to(made)[0].id
    weather.fail("after", "DELETE", f"/reactions/{number}", bad_gateway)
    forge.unreact(made, "eyes")
    assert hub.world.reactions_to(made) == []


def test_a_reaction_that_cannot_be_taken_back_is_an_error(forge: Forge, hub: Hub, weather: Weather) -> None:
    made = hub.comment("mira", 1, "/optimize a")
    forge.react(made, "eyes")
    weather.fail("before", "DELETE", "", lambda: refusal(403, "Resource not accessible by integration"))
    with pytest.raises(ForgeError):
        forge.unreact(made, "eyes")


# A read may be repeated


def test_a_read_is_repeated(forge: Forge, weather: Weather) -> None:
    weather.fail("before", "GET", "/pulls/1", bad_gateway)
    assert forge.pull(1).number == 1
    assert weather.count("GET", "/pulls/1") == 2


def test_a_read_that_never_succeeds_is_an_error(forge: Forge, weather: Weather, slept: list[float]) -> None:
    weather.fail("before", "GET", "/pulls/1", bad_gateway, times=99)
    with pytest.raises(CallFailed) as caught:
        forge.pull(1)
    assert caught.value.status == 502
    assert weather.count("GET", "/pulls/1") == 4
    assert [0.5 <= wait / 2**turn <= 1.5 for turn, wait in enumerate(slept)] == [True] * 3


def test_no_server_at_all(slept: list[float]) -> None:
    forge = open_forge("http://127.0.0.1:9", "sample/kernels", "token", sleep=slept.append)
    with pytest.raises(CallFailed) as caught:
        forge.pull(1)
    assert caught.value.status == 0
    assert "network" in caught.value.hint


# Rights


def test_trouble_never_turns_into_a_role(forge: Forge, weather: Weather) -> None:
    weather.fail("before", "GET", "/permission", lambda: refusal(403, "Resource not accessible by integration"))
    with pytest.raises(ForgeError) as caught:
        forge.role("mira")
    assert "permissions:" in caught.value.hint


@pytest.mark.parametrize(
    ("permission", "role"),
    [("admin", Role.ADMIN), ("write", Role.WRITE), ("read", Role.READ), ("none", Role.NONE), ("own", Role.NONE)],
)
def test_a_role_of_the_organisations_own_making(forge: Forge, weather: Weather, permission: str, role: Role) -> None:
    shape = {"permission": permission, "role_name": "kernel-wizard", "user": None}
    weather.fail("after", "GET", "/permission", lambda: as_json(200, shape), times=2)
    assert forge.role("mira") is role


@pytest.mark.parametrize(
    ("status", "message", "word"),
    [
        (401, "Bad credentials", "KERNELWRIGHT_TOKEN"),
        (403, "Resource not accessible by integration", "permissions:"),
        (404, "Not Found", "may not see it"),
        (422, "Validation Failed", "content"),
        (418, "I am a teapot", "run this job again"),
    ],
)
def test_each_refusal_says_what_to_look_at(
    forge: Forge, weather: Weather, status: int, message: str, word: str
) -> None:
    weather.fail("before", "GET", "/pulls/1", lambda: refusal(status, message))
    with pytest.raises(CallFailed) as caught:
        forge.pull(1)
    assert caught.value.status == status
    assert message in str(caught.value)
    assert word in caught.value.hint


def test_a_token_without_the_scope_is_refused(hub: Hub) -> None:
    token = hub.token(BOT, {"read"})
    forge = open_forge(hub.url, hub.repo, token, own_login=BOT, own_id=hub.user_id(BOT))
    with pytest.raises(CallFailed) as caught:
        forge.post_comment(1, MARKED)
    assert caught.value.status == 403
    assert hub.comments(1) == []


# Who we are


def test_a_person_is_asked_of_github(hub: Hub) -> None:
    forge = open_forge(hub.url, hub.repo, hub.token("mira", {"read"}))
    assert forge.me() == Actor(id=hub.user_id("mira"), login="mira")


def test_a_jobs_own_token_may_not_ask_and_is_githubs_bot(hub: Hub) -> None:
    hub.add_user("github-actions[bot]", "write", is_bot=True)
    forge = open_forge(hub.url, hub.repo, hub.token("github-actions[bot]", {"read", "comment"}))
    assert (forge.me().id, forge.me().login) == (41898282, "github-actions[bot]")
    assert hub.user_id("github-actions[bot]") == 41898282
    forge.post_comment(1, MARKED)


def test_a_login_alone_is_looked_up(hub: Hub) -> None:
    forge = open_forge(hub.url, hub.repo, hub.token(BOT, {"read"}), own_login=BOT)
    assert forge.me() == Actor(id=hub.user_id(BOT), login=BOT, is_bot=True)


def test_a_login_nobody_has_is_an_error(hub: Hub) -> None:
    forge = open_forge(hub.url, hub.repo, hub.token(BOT, {"read"}), own_login="nobody")
    with pytest.raises(ForgeError):
        forge.me()


def test_an_id_alone_is_a_mistake_in_the_configuration(hub: Hub) -> None:
    with pytest.raises(OperatorError) as caught:
        open_forge(hub.url, hub.repo, "token", own_id=7)
    assert "KERNELWRIGHT_BOT_LOGIN" in caught.value.hint


def test_being_told_costs_no_request(hub: Hub, forge: Forge) -> None:
    assert forge.me().login == BOT
    assert hub.seen == []


@pytest.mark.parametrize("write", ["post_comment", "react"])
def test_writing_as_somebody_else_than_we_think_stops_the_job(hub: Hub, write: str) -> None:
    comment = hub.comment("mira", 1, "/optimize a")
    forge = open_forge(hub.url, hub.repo, hub.token(BOT, {"read", "comment"}))
    with pytest.raises(OperatorError) as caught:
        forge.post_comment(1, MARKED) if write == "post_comment" else forge.react(comment, "eyes")
    assert f"KERNELWRIGHT_BOT_LOGIN={BOT}" in caught.value.hint
    assert f"KERNELWRIGHT_BOT_ID={hub.user_id(BOT)}" in caught.value.hint


# Strange conversations


def _comments_by(hub: Hub, user: object) -> Callable[[], Response]:
    return lambda: as_json(200, [{**hub.comments(1)[0], "user": user}])


def test_a_deleted_account_is_a_ghost(hub: Hub, forge: Forge, weather: Weather) -> None:
    hub.comment("mira", 1, "hello")
    weather.fail("after", "GET", "/comments", _comments_by(hub, None))
    assert [comment.actor.login for comment in forge.comments(1)] == ["ghost"]


def test_a_login_we_cannot_spell_hides_nobody_elses_comments(hub: Hub, forge: Forge, weather: Weather) -> None:
    hub.comment("mira", 1, "hello")
    weather.fail("after", "GET", "/comments", _comments_by(hub, {"id": 77, "login": "x/../y", "type": "User"}))
    seen = forge.comments(1)[0].actor
    assert seen.id == 77
    assert "/" not in seen.login


def test_a_pending_review_is_not_read(hub: Hub, forge: Forge, weather: Weather) -> None:
    draft = {"id": 5, "user": None, "state": "PENDING", "body": "", "commit_id": "0" * 40}
    weather.fail("after", "GET", "/reviews", lambda: as_json(200, [draft]))
    assert forge.reviews(1) == ()


def test_a_branch_name_we_cannot_carry_is_an_error_with_a_hint(forge: Forge, hub: Hub, weather: Weather) -> None:
    thread = hub.world.threads[1]
    assert thread.pull is not None
    shape = Shapes(hub.server_url, hub.world, "main").pull(thread, thread.pull, thread.pull.first)
    shape["head"]["ref"] = "--upload-pack=evil"
    weather.fail("after", "GET", "/pulls/1", lambda: as_json(200, shape))
    with pytest.raises(ForgeError) as caught:
        forge.pull(1)
    assert "head_ref" in str(caught.value)
    assert "branch" in caught.value.hint


def test_both_names_of_a_renamed_file_count(forge: Forge, weather: Weather) -> None:
    files = [{"filename": "new.py", "previous_filename": "old.py", "status": "renamed"}]
    weather.fail("after", "GET", "/files", lambda: as_json(200, files))
    assert forge.changed_files(1) == ("old.py", "new.py")


def test_the_protocol_is_free_of_pygithub() -> None:
    code = "import sys, bot.forge.client, bot.forge.threads; sys.exit('github' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
