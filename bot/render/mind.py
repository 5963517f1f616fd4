"""What a reader has to mind beside the figures: tests that fail anyhow, a kernel that is wrong itself or tuned anew,
cases that are left out. One sentence each, the same in a comment, in a record and in a terminal."""

from __future__ import annotations

import re

from bot.model.campaign import Campaign, Profile
from bot.model.ids import variant_name
from bot.model.measurement import CheckResult
from bot.render import labels, numbers, self_tuned, view
from bot.render.escape import plain

PREFIX = "not required of a variant, as the untouched kernel fails here: "
"""What the judge used to say before the reason, of v0 itself as well."""
RAISED = re.compile(r"[A-Z]\w*: ")
"""The name of an exception: it gave no result that could be wrong."""
SAID = 300
MOST_NAMED = 4
NOT_ASKED = "a variant is not asked to be right where v0 is not"


def _why(check: CheckResult) -> str:
    return check.detail.removeprefix(PREFIX) or "it is not known why"


def _parted(profile: Profile) -> tuple[list[CheckResult], list[CheckResult]]:
    """Checks that v0 does not pass: in which its result is wrong, and in which it gave none."""
    failed = [check for check in view.asked(profile.baseline) if not check.passed]
    raised = [check for check in failed if RAISED.match(_why(check))]
    return [check for check in failed if check not in raised], raised


def _first(profile: Profile, check: CheckResult) -> str:
    name = labels.case_names(profile.suite).get(check.case, check.case)
    return f"first {name}: {plain(_why(check), SAID).rstrip('.')}"


def wrong(profile: Profile) -> str:
    """Where v0's own results are wrong, in the words of the first; empty where none is."""
    found, raised = _parted(profile)
    if not found:
        return ""
    many = numbers.many(len(view.asked(profile.baseline)), "check")
    more = f"; it raises in {len(raised)} more" if raised else ""
    said = f"the untouched {profile.site.kernel} is wrong in {len(found)} of {many}, {_first(profile, found[0])}{more}"
    return f"{said}; {NOT_ASKED}"


def raises(profile: Profile) -> str:
    """Of a kernel that is right wherever it has a result: what it does not take."""
    found, raised = _parted(profile)
    if found or not raised:
        return ""
    many = numbers.many(len(view.asked(profile.baseline)), "check")
    said = f"the untouched {profile.site.kernel} raises in {len(raised)} of {many}, {_first(profile, raised[0])}"
    return f"{said}; a variant is not asked for what v0 does not do"


def failed_before(campaign: Campaign) -> str:
    """Tests that say nothing of the winner, as they fail on the kernel as it was."""
    done = campaign.finalization
    if done is None or done.untouched is None or done.untouched.passed:
        return ""
    said = plain(done.untouched.summary, SAID).rstrip(".")
    return f"the repository's tests fail on the untouched kernel as well ({said}), so they say nothing of the change"


def failed_before_next(campaign: Campaign) -> str:
    """What helps then: no other variant would."""
    done = campaign.finalization
    if done is None or done.untouched is None or done.untouched.passed:
        return ""
    typed, pinned = plain(" ".join(done.untouched.argv), SAID), view.pinned(campaign)
    at = f"`{pinned}`" if pinned else "the kernel"
    return f"see that `{typed}` passes with {at} as it stands; what no test has seen pass is not applied"


def left_out(profile: Profile) -> str:
    """That the suite is a reduced one."""
    left, runner = profile.left_out, profile.baseline.runner
    if not left:
        return ""
    names = [labels.case_name(case) for case in left]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    memory = f"the {numbers.size(runner.gpu_memory_mib * 2**20)} of {plain(runner.gpu_name, 80)}"
    many = numbers.many(len(left) + len(profile.suite.cases), "scored case")
    verb = "is left out: it does not fit" if len(left) == 1 else "are left out: they do not fit"
    return f"{len(left)} of {many} {verb} into {memory} ({', '.join(names[:MOST_NAMED])}{more})"


def tuned_anew(campaign: Campaign) -> str:
    """That a figure is of one choice of launch numbers, where the best variant changes who chooses, or from what."""
    profile, best = campaign.profile, view.best(campaign)
    if profile is None or not best:
        return ""
    return self_tuned.anew(profile, view.sources_of(campaign, best), variant_name(best))


def of_profile(profile: Profile) -> tuple[str, ...]:
    return tuple(said for said in (left_out(profile), wrong(profile), raises(profile)) if said)


def of_kernel(campaign: Campaign) -> tuple[str, ...]:
    """What v0 does not take was said in the profile, and changes nothing of how it ended."""
    profile = campaign.profile
    known = (left_out(profile), wrong(profile), tuned_anew(campaign)) if profile is not None else ()
    return tuple(said for said in known if said)


def of_ending(campaign: Campaign) -> tuple[str, ...]:
    """Of the tests with what to do next."""
    before = failed_before(campaign)
    return (*([f"{before}; {failed_before_next(campaign)}"] if before else []), *of_kernel(campaign))
