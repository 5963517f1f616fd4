"""What every reason code means, for who reads one in a log: what happened, why, and what to type next.

A campaign's own pages say the same with their numbers; these are the words for the code alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.model.reasons import ReasonCode as R

NOTHING = "Nothing is needed."
HELP = "`/optimize help` shows every command with an example."
AGAIN = "`/optimize restart` begins anew on the current head, with the same options."
RETRY = "`/optimize retry` does that job again. If it fails again, show its comment to whoever runs this bot."


@dataclass(frozen=True, slots=True)
class Meaning:
    what: str
    why: str
    next: str


def _mistake(what: str, why: str) -> Meaning:
    return Meaning(what, why, "Write the line again in a new comment; the answer to yours shows it mended.")


def _unread(what: str, why: str) -> Meaning:
    return Meaning(what, why, f"{NOTHING} If it was meant for me, write the command in a new comment of your own.")


MEANINGS: dict[R, Meaning] = {
    R.ACCEPTED: Meaning(
        "The command was taken in.",
        "Whoever wrote it may say it, and nothing stood in its way.",
        "Nothing is needed. `/optimize status` says where the campaign stands.",
    ),
    R.HELP_COMPLETED: Meaning("The help page was shown.", "Somebody asked for it.", NOTHING),
    R.LIST_COMPLETED: Meaning(
        "The kernels were listed.", "Somebody asked for them.", "`/optimize <kernel>` starts a campaign for one."
    ),
    R.STATUS_COMPLETED: Meaning("The campaign's state was shown.", "Somebody asked for it.", NOTHING),
    R.EXPLAIN_COMPLETED: Meaning("A variant was explained.", "Somebody asked why it was kept or dropped.", NOTHING),
    # A comment that cannot become a command.
    R.PARSE_ERROR: _mistake(
        "The line could not be read.", "It ends in a backslash, or holds characters that nobody can see."
    ),
    R.UNKNOWN_VERB: _mistake(
        "The word behind `/optimize` is neither a command nor a kernel.",
        "I do not act on a word that is only almost a command.",
    ),
    R.UNKNOWN_KERNEL: Meaning(
        "No kernel of that name is known.",
        "Kernels are looked up by name on the default branch, never by a path.",
        "`/optimize list` shows the kernels there are.",
    ),
    R.UNKNOWN_OPTION: _mistake(
        "A word on the line belongs to nothing.",
        "Behind the kernel come options with values, like `goal=speed`, and no prose.",
    ),
    R.DUPLICATE_OPTION: _mistake("An option was given twice.", "Which of the two was meant is not guessed."),
    R.BAD_VALUE: _mistake(
        "A value is not one that the option or the command takes.", "Each takes a short list, a number or a SHA."
    ),
    R.MISSING_VALUE: _mistake(
        "Something is missing behind the command.", "A kernel, a commit or a value was not named."
    ),
    R.UNCLOSED_QUOTE: _mistake(
        "A quotation mark opens and never closes.", "Text in quotation marks is one value; its end was not found."
    ),
    R.MULTIPLE_COMMANDS: Meaning(
        "The comment holds more than one command, and none was carried out.",
        "One comment is one command, so that it is clear which one was answered.",
        "Write each in a comment of its own.",
    ),
    R.TARGET_NOT_UNDERSTOOD: Meaning(
        "The target is not one that can be checked.",
        "It needs a pass and either a time or a speed-up.",
        'Write it like `target="forward under 0.3ms at hidden_size=4096"` or `target="full 1.5x faster"`.',
    ),
    R.COMMENT_TOO_LONG: Meaning(
        "The comment or its command line is too long to be read.",
        "A command fits on one line.",
        "Write it in a short comment of its own.",
    ),
    # An event that is nobody's business.
    R.MALFORMED_EVENT: Meaning(
        "The event could not be believed.",
        "A field is missing, has another type, or the whole is larger than GitHub makes them.",
        "Nothing is needed of you. Whoever runs this bot finds the field in the log of this run.",
    ),
    R.NO_COMMAND: _unread(
        "The comment holds no command.", "No line begins with `/optimize` outside code and quotations."
    ),
    R.EDITED_COMMENT: _unread(
        "An edited comment was not read.", "Commands are new comments, so that an old one cannot come to life again."
    ),
    R.BOT_COMMENT: _unread(
        "The comment is a bot's, and no command is taken from one.", "Two bots that answer each other never end."
    ),
    R.CONFUSED_SENDER: _unread(
        "The comment was written by one account and sent by another.", "Then nobody can say whose word it is."
    ),
    R.UNRELATED_EVENT: Meaning("The event is not about a campaign.", "GitHub tells of more than I work with.", NOTHING),
    R.NOTHING_WAITING: Meaning(
        "No question waits for this word.",
        "The campaign is at work, has ended, or somebody answered a moment earlier.",
        "`/optimize status` says where things stand.",
    ),
    # A command that may not be carried out.
    R.NOT_A_PULL_REQUEST: Meaning(
        "The command was written on an issue.",
        "A campaign measures the head of a pull request, and pushes to it.",
        "Open a pull request and write the command there. `/optimize help` shows how it reads.",
    ),
    R.DISABLED: Meaning(
        "The bot, or this part of it, is switched off in this repository.",
        "A maintainer said so in `kernelwright.toml` on the default branch, or in the repository's variables.",
        "Ask a maintainer. Once it is on again, `/optimize restart` begins a campaign anew.",
    ),
    R.PR_CLOSED: Meaning(
        "The pull request is closed.",
        "A campaign ends in a commit on the branch of an open one.",
        "Reopen it, then write the command again; `/optimize restart` takes up the last campaign's options.",
    ),
    R.DRAFT_NOT_ALLOWED: Meaning(
        "The pull request is a draft.",
        "Drafts change under the stopwatch, and this repository measures what is ready for review.",
        "Mark it as ready for review, then write the command again.",
    ),
    R.PERMISSION_DENIED: Meaning(
        "The account may not say this here.",
        "What uses the GPU or leads to a push needs write access; GitHub's list of collaborators decides.",
        "Ask somebody with write access to write it. `/optimize status` and `/optimize explain` are open to everybody.",
    ),
    R.SELF_APPROVAL: Meaning(
        "The author of the pull request cannot give the last approval.",
        "What is pushed should have been seen by a second person.",
        "Ask another person with write access to write `/optimize approve`.",
    ),
    R.REQUESTER_APPROVAL: Meaning(
        "Whoever started the campaign cannot give its last approval.",
        "This repository says so with `requester_approval = false`.",
        "Ask another person with write access to write `/optimize approve`.",
    ),
    R.BUDGET_EXCEEDED: Meaning(
        "The GPU time for today, or the number of variants, is used up.",
        "A repository sets both, so that one person or one kernel cannot take the machine for ever.",
        "Wait until 00:00 UTC, or ask a maintainer for a larger budget. `/optimize status` says where things stand.",
    ),
    R.FORK_SHA_REQUIRED: Meaning(
        "The code is a stranger's, so the commit you looked at has to be named.",
        "Its author can push at any moment, and what you name is what runs.",
        "Read the commit, then write the command with `sha=` and its SHA; the answer to yours holds that line.",
    ),
    R.SHA_MISMATCH: Meaning(
        "The commit that was named is not the head.",
        "Only the head is measured; it may have been pushed to since.",
        "Look at the new head, then write the line from the answer, which names it.",
    ),
    R.HEAD_REPO_MISSING: Meaning(
        "The repository that the pull request comes from is gone.",
        "There is no branch left that a commit could be pushed to.",
        "Push the branch to this repository, open a pull request from it and write the command there.",
    ),
    R.ALREADY_RUNNING: Meaning(
        "A campaign is open on this pull request already.",
        "Two would race for one branch.",
        "Wait for it, or end it with `/optimize cancel`. `/optimize restart` ends it and begins anew.",
    ),
    R.DUPLICATE_EVENT: Meaning(
        "This was heard before.", "GitHub delivered it twice, or somebody said the same again.", NOTHING
    ),
    R.NO_CAMPAIGN: Meaning(
        "There is no campaign to speak of on this pull request.",
        "Nobody has started one.",
        "`/optimize list` shows the kernels; `/optimize <kernel>` starts a campaign.",
    ),
    R.NOT_FOUND: Meaning(
        "What a command in a terminal named is not there.",
        "No campaign, file, branch or commit of that name is in the place where it looked.",
        "The line below the message says what may be named. `kernelwright show` finds campaigns by kernel, by name and "
        "by file.",
    ),
    R.NOTHING_TO_RETRY: Meaning(
        "No job of the last campaign can be done again.",
        "None failed, or one failed too often.",
        AGAIN,
    ),
    R.NO_SUCH_VARIANT: Meaning(
        "The campaign has no variant of that name.",
        "Variants are numbered as they are made.",
        "`/optimize status` says how many there are; `/optimize explain` tells of the best.",
    ),
    R.VARIANT_NOT_ACCEPTED: Meaning(
        "That variant cannot be taken.",
        "Only one that the judge accepted can, and at the end only the one that went through the tests.",
        "`/optimize explain vN` says why it was dropped; `/optimize approve` takes the recommended one.",
    ),
    R.APPROVAL_STALE: Meaning(
        "The approval no longer holds, and nothing was pushed.",
        "Read again before the push, it was edited, withdrawn, of another commit, or from somebody who lost the right.",
        AGAIN,
    ),
    R.APPROVAL_EXPIRED: Meaning(
        "The approval is too old, and nothing was pushed.",
        "A repository says how many days a question and its answer last (`checkpoint_days`).",
        AGAIN,
    ),
    R.CHANGES_REQUESTED: Meaning(
        "A review requests changes, and nothing was pushed.",
        "One no of somebody with write access outweighs every yes.",
        "Settle the review; while the question waits `/optimize approve` answers it, and after it `/optimize restart`.",
    ),
    R.TARGET_NOT_RECOGNISED: Meaning(
        "The repository's layout is not one I know.",
        "Neither its folders nor a `kernelwright.toml` say where kernels, tests and benchmarks are.",
        "Add `kernelwright.toml` on the default branch, then write `/optimize list`.",
    ),
    R.CONFIG_INVALID: Meaning(
        "`kernelwright.toml`, or a setting of the workflow, cannot be read.",
        "What may be optimised and pushed is read from it, so nothing is done without it.",
        "Mend what the message names, then write the command again.",
    ),
    R.PREFLIGHT_FAILED: Meaning(
        "The kernel cannot be measured or judged here.",
        "Its test or benchmark is missing, or the untouched kernel does not run.",
        "Mend what the message names and push it; then `/optimize restart`.",
    ),
    R.ABOVE_THE_ROOF: Meaning(
        "A number would be above the roof of the GPU by more than 5 %, so it is not shown.",
        "Nothing moves its bytes or does its arithmetic faster than the GPU can: the count, the time or the ceiling is "
        "wrong.",
        "The campaign goes on without that share. Show the record to whoever runs this bot: `kernelwright roofline "
        "<kernel>` prints the numbers with their sources.",
    ),
    # How a campaign moves and ends.
    R.AWAITING_APPROVAL: Meaning(
        "The campaign waits for a person.",
        "It goes on from here only with somebody's word; no runner is held meanwhile.",
        "`/optimize approve` goes on, `/optimize reject` stops.",
    ),
    R.APPROVED: Meaning("A question was answered with yes.", "Somebody who may say so said so.", NOTHING),
    R.REJECTED_BY_USER: Meaning(
        "A question was answered with no, and the campaign ended.", "Somebody with write access said so.", AGAIN
    ),
    R.CANCELLED_BY_USER: Meaning("The campaign was stopped.", "Somebody asked for it.", AGAIN),
    R.NO_IMPROVEMENT: Meaning(
        "No variant is better than what is there, so nothing changes.",
        "Every idea that applies was tried and judged, or as many as the budget allows, or the kernel is close to what "
        "the hardware allows.",
        "Nothing is needed. An idea of your own is judged with `/optimize restart` and then `/optimize try <sha>`.",
    ),
    R.EVIDENCE_INSUFFICIENT: Meaning(
        "A better variant was found, but no GPU timed it, so nothing was pushed.",
        "This repository pushes only what was measured.",
        "Write `/optimize restart` once a GPU runner is online.",
    ),
    R.REF_CHANGED: Meaning(
        "The head moved, and nothing was pushed.",
        "What was measured is not what stands there now.",
        AGAIN,
    ),
    R.REPINNED: Meaning(
        "The head moved without touching the kernel, so tests and style check run once more there.",
        "The figures still hold; what was asked was about the old head.",
        "Wait for the new question and answer it with `/optimize approve`.",
    ),
    R.BASE_CHANGED: Meaning(
        "The target branch changed what judges the kernel, so the campaign ended.",
        "What passed the old tests has not passed the new ones.",
        AGAIN,
    ),
    R.TESTS_FAILED: Meaning(
        "The winner failed the repository's own tests, and nothing was pushed.",
        "My cases are a sample; the repository's tests decide.",
        "Read their output in the result. `/optimize explain` tells more about the winner.",
    ),
    R.TESTS_FAILED_BEFORE: Meaning(
        "The repository's own tests fail on the untouched kernel as well, so nothing was pushed.",
        "Tests that fail before any change say nothing of a change, and what no test has seen pass is not pushed.",
        "See that they pass on the runner with the kernel as it stands, then write `/optimize restart`.",
    ),
    R.CHECKSTYLE_FAILED: Meaning(
        "The winner failed the style check, and nothing was pushed.",
        "The check's own tool mended what it could, and it failed again.",
        "Mend the style of the kernel's file on your branch, then write `/optimize restart`.",
    ),
    R.SCRIPT_FAILED: Meaning(
        "The repository's own benchmark script runs on v0 and not on the winner, and nothing was pushed.",
        "It measures sizes that nobody else tried, and the winner breaks one of them.",
        "Read its output in the result. `/optimize explain` tells more about the winner.",
    ),
    R.PUSH_CONFLICT: Meaning(
        "Somebody pushed at the same moment, so I pushed nothing.",
        "A push of mine never writes over anybody's.",
        AGAIN,
    ),
    R.PUSH_FORBIDDEN: Meaning(
        "I may not push to that branch.",
        "It is a fork's, or protected.",
        "Take the change from the patch in the result.",
    ),
    R.SUGGESTION_POSTED: Meaning(
        "The winner was posted as a patch.",
        "This repository wants it that way, or the branch is not one I may push to.",
        "Apply it with the `git` line in the result.",
    ),
    R.PUSHED: Meaning(
        "The winner was pushed as one commit.", "It passed everything, and somebody approved it.", NOTHING
    ),
    R.NO_RUNNER: Meaning(
        "No GPU runner took the job up in time.",
        "None with the right labels is online, or all are busy.",
        f"Start a runner. {RETRY}",
    ),
    R.QUEUE_TIMEOUT: Meaning(
        "The job waited too long for its turn and was taken back.",
        "The runners were busy or away for longer than a job may wait.",
        RETRY,
    ),
    R.COMPUTE_STOPPED: Meaning(
        "The GPU job was stopped before it was done.",
        "Its time ran out, somebody cancelled the run, or the machine went away.",
        RETRY,
    ),
    R.COMPUTE_FAILED: Meaning(
        "The GPU job could not do its work; this is no verdict on the kernel.",
        "A machine or its setup is at fault.",
        RETRY,
    ),
    R.ARTIFACT_MISSING: Meaning(
        "The GPU job left no finished work.", "The runner went away, or the job was stopped on it.", RETRY
    ),
    R.ARTIFACT_REJECTED: Meaning(
        "What the GPU job left could not be believed, and was not used.",
        "A fact does not fit its neighbours, or a verdict does not follow from its raw numbers.",
        RETRY,
    ),
    R.INTERNAL_ERROR: Meaning(
        "Something went wrong inside the bot.",
        "It is a fault of mine; the log of the run holds the details.",
        "Show this to whoever runs this bot; then `/optimize retry`, or `/optimize restart` if that has nothing to do.",
    ),
}
