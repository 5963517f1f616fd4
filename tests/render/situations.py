"""For every reason code a page somebody would read with it, said by the code that says it."""

from __future__ import annotations

from collections.abc import Callable

from bot.commands import afterwards, grammar, help
from bot.commands import refusals as policy
from bot.errors import UserError
from bot.model.campaign import Campaign, Checkpoint, Outcome, Phase, Stage
from bot.model.commands import CommandError, Optimize
from bot.model.people import Actor, Refusal, Role
from bot.model.policy import RepoPolicy
from bot.model.reasons import ReasonCode as R
from bot.render import comments
from bot.zones import refusals as zone
from tests.render import builders as a

DAVE = Actor(id=4, login="dave")
KERNELS = ("cross_entropy", "geglu", "jsd", "layer_norm", "rms_norm", "softmax")
FORK = a.PULL.model_copy(update={"head_repo": "dave/kernels"})
ASKED = Optimize(kernel="rms_norm")
RETRIED = a.requested(stage=Stage.ENDED, outcome=Outcome.FAILED, failed=Phase.PROFILE, retries=3)
FAILED_TEST = a.run(("python", "-m", "pytest", a.SITE.test_file), False, "1 failed, 17 passed in 9.10s", 9.4)
BAD_STYLE = a.run(("make", "checkstyle"), False, "Found 1 error.", 1.2, "E501 line too long\nFound 1 error.")


def mistake(text: str) -> str:
    error = grammar.parse(text, KERNELS)
    assert isinstance(error, CommandError)
    return comments.command_error(error, DAVE)


def no(refusal: Refusal) -> str:
    return comments.refusal(refusal, DAVE)


def reverted(reason: R, detail: str = "", **fields: object) -> str:
    campaign = a.finalized(stage=Stage.CLOSING, outcome=Outcome.REVERTED, reason=reason, detail=detail, **fields)
    return comments.result(campaign)


def stopped(reason: R, detail: str) -> str:
    return comments.result(a.searched(stage=Stage.CLOSING, outcome=Outcome.REVERTED, reason=reason, detail=detail))


def failed(reason: R, detail: str, base: Callable[..., Campaign] = a.profiled) -> str:
    phase = Phase.PROFILE if base is a.requested else Phase.OPTIMIZE
    ended = base(stage=Stage.CLOSING, outcome=Outcome.FAILED, reason=reason, detail=detail, failed=phase)
    return comments.result(ended)


def ended(outcome: Outcome, reason: R, **fields: object) -> str:
    return comments.result(a.ended(outcome, reason, **fields))


SITUATIONS: dict[R, Callable[[], str]] = {
    R.ACCEPTED: lambda: comments.status(a.requested()),
    R.HELP_COMPLETED: lambda: comments.help(help.page(KERNELS, RepoPolicy(), ("rms_norm",))),
    R.LIST_COMPLETED: lambda: comments.listing(KERNELS, ("rms_norm",)),
    R.STATUS_COMPLETED: lambda: comments.status(a.searched()),
    R.EXPLAIN_COMPLETED: lambda: comments.explanation(a.searched(), 2),
    R.PARSE_ERROR: lambda: mistake("/optimize rms_norm \\"),
    R.UNKNOWN_VERB: lambda: mistake("/optimize stop"),
    R.UNKNOWN_KERNEL: lambda: mistake("/optimize layernom goal=speed"),
    R.UNKNOWN_OPTION: lambda: mistake("/optimize rms_norm autonomus"),
    R.DUPLICATE_OPTION: lambda: mistake("/optimize rms_norm goal=speed goal=memory"),
    R.BAD_VALUE: lambda: mistake("/optimize rms_norm mode=automatic"),
    R.MISSING_VALUE: lambda: mistake("/optimize v3"),
    R.UNCLOSED_QUOTE: lambda: mistake('/optimize rms_norm target="forward under 0.3ms'),
    R.MULTIPLE_COMMANDS: lambda: mistake("/optimize rms_norm\n\n/optimize softmax"),
    R.TARGET_NOT_UNDERSTOOD: lambda: mistake('/optimize rms_norm target="forwrd under 0.3ms"'),
    R.COMMENT_TOO_LONG: lambda: mistake(f"/optimize rms_norm {'very ' * 300}fast"),
    R.NOTHING_WAITING: lambda: no(policy.no_question("approve", Stage.OPTIMIZING)),
    R.NOT_A_PULL_REQUEST: lambda: no(zone.not_a_pull()),
    R.PR_CLOSED: lambda: no(policy.closed(12)),
    R.DRAFT_NOT_ALLOWED: lambda: no(policy.draft(12)),
    R.PERMISSION_DENIED: lambda: comments.refusal(
        policy.no_role("rms_norm", Role.READ, "/optimize rms_norm"), DAVE, once=True
    ),
    R.SELF_APPROVAL: lambda: no(policy.own_pull(DAVE, Role.WRITE)),
    R.REQUESTER_APPROVAL: lambda: no(policy.own_request(DAVE)),
    R.BUDGET_EXCEEDED: lambda: no(policy.day_spent(DAVE, 481.2, 480)),
    R.FORK_SHA_REQUIRED: lambda: no(policy.fork_sha(ASKED, FORK)),
    R.SHA_MISMATCH: lambda: no(policy.other_sha(ASKED.model_copy(update={"sha": "1234567"}), FORK, from_fork=True)),
    R.HEAD_REPO_MISSING: lambda: no(policy.no_head(a.PULL)),
    R.ALREADY_RUNNING: lambda: no(policy.already_running(a.searched(stage=Stage.OPTIMIZING))),
    R.DUPLICATE_EVENT: lambda: no(policy.tried_before("27debc3")),
    R.NO_CAMPAIGN: lambda: no(afterwards.no_campaign("explain")),
    R.NOTHING_TO_RETRY: lambda: no(afterwards.retried_enough(RETRIED)),
    R.NO_SUCH_VARIANT: lambda: no(afterwards.never_made(9, a.searched())),
    R.VARIANT_NOT_ACCEPTED: lambda: no(policy.not_a_choice(2, a.searched(), (1, 3))),
    R.APPROVAL_STALE: lambda: reverted(R.APPROVAL_STALE, "the approval by carol was withdrawn"),
    R.APPROVAL_EXPIRED: lambda: reverted(R.APPROVAL_EXPIRED, "the question waited for 7 days"),
    R.CHANGES_REQUESTED: lambda: reverted(R.CHANGES_REQUESTED, "dave asked for changes in a review of abc1234"),
    R.TARGET_NOT_RECOGNISED: lambda: no(
        zone.unready(
            UserError(
                "no kernels were found: there is neither src/*/ops nor a [target.kernels] table",
                hint="describe the kernels in kernelwright.toml on the default branch",
                reason=R.TARGET_NOT_RECOGNISED,
            )
        )
    ),
    R.CONFIG_INVALID: lambda: no(
        zone.unready(
            UserError(
                'kernelwright.toml: policy.evidence is \'mesured\'; it is "measured" or "static"',
                hint="mend that line on the default branch",
                reason=R.CONFIG_INVALID,
            )
        )
    ),
    R.PREFLIGHT_FAILED: lambda: failed(
        R.PREFLIGHT_FAILED,
        "`rms_norm` cannot be optimised: missing test/transformers/test_rms_norm.py; add and commit that file: without "
        "its test and its benchmark nothing about it can be proved",
        a.requested,
    ),
    R.AWAITING_APPROVAL: lambda: comments.checkpoint_profile(a.profiled(policy=RepoPolicy(evidence="static"))),
    R.APPROVED: lambda: comments.status(a.profiled(stage=Stage.OPTIMIZING, answers=(a.answer(Checkpoint.PROFILE),))),
    R.REJECTED_BY_USER: lambda: ended(
        Outcome.REJECTED,
        R.REJECTED_BY_USER,
        detail="the gain is not worth a second row loop",
        answers=(a.answer(Checkpoint.PROFILE), a.answer(Checkpoint.WINNER, False)),
    ),
    R.CANCELLED_BY_USER: lambda: ended(Outcome.CANCELLED, R.CANCELLED_BY_USER, rounds=a.rounds()[:2], lineage=(0, 1)),
    R.NO_IMPROVEMENT: lambda: ended(
        Outcome.NOTHING_TO_DO, R.NO_IMPROVEMENT, rounds=a.rounds()[3:], lineage=(0,), winner=None
    ),
    R.EVIDENCE_INSUFFICIENT: lambda: ended(Outcome.REVERTED, R.EVIDENCE_INSUFFICIENT, policy=RepoPolicy()),
    R.REF_CHANGED: lambda: reverted(R.REF_CHANGED, a.MOVED),
    R.REPINNED: lambda: no(zone.moved_meanwhile(a.MOVED)),
    R.BASE_CHANGED: lambda: stopped(R.BASE_CHANGED, "it was for main and is for release now"),
    R.TESTS_FAILED: lambda: reverted(R.TESTS_FAILED, finalization=a.finalization((FAILED_TEST,), ())),
    R.SCRIPT_FAILED: lambda: reverted(R.SCRIPT_FAILED, finalization=a.broken_script()),
    R.TESTS_FAILED_BEFORE: lambda: reverted(
        R.TESTS_FAILED_BEFORE,
        finalization=a.finalization((FAILED_TEST,), ()).model_copy(update={"untouched": FAILED_TEST}),
    ),
    R.CHECKSTYLE_FAILED: lambda: reverted(
        R.CHECKSTYLE_FAILED, finalization=a.finalization((a.TESTS,), (BAD_STYLE, BAD_STYLE))
    ),
    R.PUSH_CONFLICT: lambda: reverted(R.PUSH_CONFLICT, "stale info"),
    R.PUSH_FORBIDDEN: lambda: reverted(R.PUSH_FORBIDDEN, "the head of this pull request is in a fork"),
    R.SUGGESTION_POSTED: lambda: reverted(R.SUGGESTION_POSTED, "this repository takes winners as patches"),
    R.PUSHED: lambda: comments.result(a.pushed()),
    R.NO_RUNNER: lambda: failed(R.NO_RUNNER, "no GPU runner took the job up within 30 minutes"),
    R.QUEUE_TIMEOUT: lambda: failed(R.QUEUE_TIMEOUT, "the job waited 24 hours for its turn", a.requested),
    R.COMPUTE_STOPPED: lambda: failed(R.COMPUTE_STOPPED, "the GPU job was cancelled after 41 minutes"),
    R.COMPUTE_FAILED: lambda: failed(R.COMPUTE_FAILED, "the GPU reported Xid 79: it has fallen off the bus"),
    R.ARTIFACT_MISSING: lambda: failed(R.ARTIFACT_MISSING, "the GPU job ended before its work was done"),
    R.ARTIFACT_REJECTED: lambda: failed(R.ARTIFACT_REJECTED, "the verdict on v1 does not follow from its raw facts"),
    R.INTERNAL_ERROR: lambda: failed(R.INTERNAL_ERROR, "KeyError (id 3f9a2c71)", a.requested),
}
LOG_ONLY = (
    R.MALFORMED_EVENT,
    R.NO_COMMAND,
    R.EDITED_COMMENT,
    R.BOT_COMMENT,
    R.CONFUSED_SENDER,
    R.UNRELATED_EVENT,
    R.DISABLED,
    R.ABOVE_THE_ROOF,
    R.NOT_FOUND,
)
"""Said in a job's log or a terminal alone, or inside of a page about something else, where nobody is to be called;
`/optimize help <code>` says what they mean."""


def page(reason: R) -> str:
    return comments.meaning(reason) if reason in LOG_ONLY else SITUATIONS[reason]()
