"""From a comment to a command, or to an answer that says how to write it right."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.commands import grammar
from bot.commands.markdown import looks_like_command
from bot.commands.optimize import spoken
from bot.model.commands import CommandError, Goal, GpuChoice, Mode, Optimize, Scope, Status, TargetMetric
from bot.model.reasons import ReasonCode
from tests.examples import many

KERNELS = ("cross_entropy", "fused_linear_jsd", "geglu", "jsd", "rms_norm", "softmax", "status")
SENTENCE = 400
"""A comment cuts what is longer."""


def said(line: str) -> object:
    return grammar.parse(f"/optimize {line}", KERNELS)


def mistake(line: str) -> CommandError:
    error = said(line)
    assert isinstance(error, CommandError), error
    return error


# A kernel and its options.


def test_a_kernel_alone_gets_the_careful_defaults() -> None:
    assert said("rms_norm") == Optimize(kernel="rms_norm")


@pytest.mark.parametrize(
    "name",
    [
        "rms-norm",
        "RMS_Norm",
        "RMSNorm",
        "`rms_norm`",
        "**rms_norm**",
        "rms_norm.",
        "rms_norm!",
        '"rms_norm"',
        "rms\\_norm",
    ],
)
def test_a_name_is_forgiven_its_spelling(name: str) -> None:
    assert said(name) == Optimize(kernel="rms_norm")


def test_two_kernels_that_differ_by_spelling_alone_are_not_guessed() -> None:
    error = grammar.parse("/optimize RMSNorm", ("rms_norm", "rmsnorm_"))
    assert isinstance(error, CommandError) and error.code is ReasonCode.UNKNOWN_KERNEL


ALL = Optimize(
    kernel="rms_norm",
    goal=Goal.SPEED,
    scope=Scope.FORWARD,
    gpu=GpuChoice.HOPPER,
    mode=Mode.AUTONOMOUS,
    max_variants=4,
    target=TargetMetric(
        direction="forward",
        below_us=300.0,
        where=(("hidden_size", 4096),),
        text="forward under 0.3ms at hidden_size=4096",
    ),
    sha="27debc3",
)


@pytest.mark.parametrize(
    "line",
    [
        "rms_norm goal=speed scope=forward gpu=hopper mode=autonomous max_variants=4 sha=27debc3"
        ' target="forward under 0.3ms at hidden_size=4096"',
        "--kernel rms_norm --goal speed --scope forward --gpu hopper --mode autonomous --max-variants 4 --sha 27DEBC3"
        " --target 'forward under 0.3ms at hidden_size=4096'",
        "kernel=rms_norm --goal=speed --scope=fwd --gpu=H200 --mode=autonomous --max_variants=4 --sha=27debc3"
        " --target=“forward under 0.3ms at hidden_size=4096”",
        "rms_norm, optimization_goal=speed, scope=forward, target_gpu=hopper, autonomy=autonomous, max-variants=4,"
        ' sha=27debc3, target_metric="forward under 0.3ms at hidden_size=4096".',
        "rms_norm —goal speed —scope forward —gpu sm_90 —mode auto —max-variants 4 —sha 27debc3"
        " —target “forward under 0.3ms at hidden_size=4096”",
        "goal = speed scope= forward gpu =hopper rms_norm mode=Autonomous max_variants=4 sha=27debc3"
        ' target = "forward under 0.3ms at hidden_size=4096"',
    ],
)
def test_every_spelling_of_the_options_says_the_same(line: str) -> None:
    assert said(line) == ALL


def test_a_kernel_named_like_a_verb_is_reached_by_its_key() -> None:
    assert said("status") == Status()
    assert said("kernel=status") == Optimize(kernel="status")
    assert said("--kernel status goal=speed") == Optimize(kernel="status", goal=Goal.SPEED)


def test_a_kernel_named_like_an_option_needs_no_key() -> None:
    assert grammar.parse("/optimize goal", ("goal",)) == Optimize(kernel="goal")


@pytest.mark.parametrize("count", [1, 119])
def test_the_number_of_variants_has_both_bounds_inside(count: int) -> None:
    assert said(f"rms_norm max_variants={count}") == Optimize(kernel="rms_norm", max_variants=count)


@pytest.mark.parametrize("count", ["0", "120", "9999", "-1", "1.5", "many", "８", "99999999999999999999", "1e2"])
def test_outside_the_bounds_the_answer_names_them(count: str) -> None:
    error = mistake(f"rms_norm max_variants={count}")
    assert error.code is ReasonCode.BAD_VALUE
    assert "from 1 to 119" in error.why
    assert isinstance(grammar.parse(error.paste, KERNELS), Optimize)


@pytest.mark.parametrize("sha", ["abcdef", "a" * 41, "main", "HEAD", "refs/heads/main", "--upload-pack=x", "27debcg"])
def test_a_commit_is_a_sha_and_nothing_else(sha: str) -> None:
    assert mistake(f"rms_norm sha={sha}").code is ReasonCode.BAD_VALUE


@pytest.mark.parametrize("sha", ["a" * 7, "a" * 40])
def test_a_sha_has_seven_to_forty_digits(sha: str) -> None:
    assert said(f"rms_norm sha={sha}") == Optimize(kernel="rms_norm", sha=sha)


# Mistakes.


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", ReasonCode.MISSING_VALUE),
        ("goal=speed", ReasonCode.MISSING_VALUE),
        ("kernel=", ReasonCode.MISSING_VALUE),
        ("rms_nrm", ReasonCode.UNKNOWN_KERNEL),
        ("zzz", ReasonCode.UNKNOWN_KERNEL),
        ("@everyone", ReasonCode.UNKNOWN_KERNEL),
        ("kernel=aprove", ReasonCode.UNKNOWN_KERNEL),
        ("aprove v3", ReasonCode.UNKNOWN_VERB),
        ("rms_norm gaol=speed", ReasonCode.UNKNOWN_OPTION),
        ("rms_norm dtype=bf16", ReasonCode.UNKNOWN_OPTION),
        ("rms_norm --autonomous", ReasonCode.UNKNOWN_OPTION),
        ("rms_norm please", ReasonCode.UNKNOWN_OPTION),
        ("rms_norm geglu", ReasonCode.UNKNOWN_OPTION),
        ("rms_norm speed", ReasonCode.UNKNOWN_OPTION),
        ("rms_norm --", ReasonCode.UNKNOWN_OPTION),
        ("rms_norm =", ReasonCode.UNKNOWN_OPTION),
        ("status please", ReasonCode.UNKNOWN_OPTION),
        ("approve v3 please", ReasonCode.UNKNOWN_OPTION),
        ("try 27debc3 27debc4", ReasonCode.UNKNOWN_OPTION),
        ("rms_norm goal=speed goal=memory", ReasonCode.DUPLICATE_OPTION),
        ("rms_norm goal=speed --optimization-goal=speed", ReasonCode.DUPLICATE_OPTION),
        ("rms_norm kernel=jsd", ReasonCode.DUPLICATE_OPTION),
        ("rms_norm goal=", ReasonCode.MISSING_VALUE),
        ("rms_norm goal=''", ReasonCode.MISSING_VALUE),
        ("rms_norm goal", ReasonCode.MISSING_VALUE),
        ("rms_norm --goal", ReasonCode.MISSING_VALUE),
        ("rms_norm --goal --mode autonomous", ReasonCode.MISSING_VALUE),
        ("rms_norm sha=", ReasonCode.MISSING_VALUE),
        ("try", ReasonCode.MISSING_VALUE),
        ("rms_norm goal=fst", ReasonCode.BAD_VALUE),
        ("rms_norm gpu=toaster", ReasonCode.BAD_VALUE),
        ("approve it", ReasonCode.BAD_VALUE),
        ("approve v120", ReasonCode.BAD_VALUE),
        ("try main", ReasonCode.BAD_VALUE),
        ('rms_norm target="forward', ReasonCode.UNCLOSED_QUOTE),
        ("rms_norm don't", ReasonCode.UNCLOSED_QUOTE),
        ("rms_norm target='x\" ", ReasonCode.UNCLOSED_QUOTE),
        ("rms_norm target=quick", ReasonCode.TARGET_NOT_UNDERSTOOD),
        ("rms_norm \\", ReasonCode.PARSE_ERROR),
        ("rms_norm\x07", ReasonCode.PARSE_ERROR),
        ("rms\u200b_norm", ReasonCode.PARSE_ERROR),
        ("approve \u202e3v", ReasonCode.PARSE_ERROR),
        ("rms_norm\x00", ReasonCode.PARSE_ERROR),
        ("rms_norm\u2028goal=speed", ReasonCode.PARSE_ERROR),
        ("rms_norm " + "x" * 1000, ReasonCode.COMMENT_TOO_LONG),
    ],
)
def test_each_mistake_has_its_own_code(line: str, code: ReasonCode) -> None:
    assert mistake(line).code is code


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("rms_nrm goal=speed", "/optimize rms_norm goal=speed"),
        ('rms_nrm target="forward under 2ms"', '/optimize rms_norm target="forward under 2ms"'),
        ("cross", "/optimize cross_entropy"),
        ("aprove v3", "/optimize approve v3"),
        ("cancle", "/optimize cancel"),
        ("rms_norm gaol=speed", "/optimize rms_norm goal=speed"),
        ("rms_norm goal=sped mode=auto", "/optimize rms_norm goal=speed mode=auto"),
        ("rms_norm speed mode=auto", "/optimize rms_norm goal=speed mode=auto"),
        ("rms_norm goal speed mode=auto", "/optimize rms_norm goal=speed mode=auto"),
        ("rms_norm --autonomous", "/optimize rms_norm mode=autonomous"),
        ("rms_norm target=forward under 2ms", '/optimize rms_norm target="forward under 2ms"'),
        ('rms_norm goal=speed target="2x"', '/optimize rms_norm goal=speed target="full 2x"'),
        ("status please", "/optimize status"),
        ("approve v3 please", "/optimize approve v3"),
        ("rms\u200b_norm", "/optimize rms_norm"),
        ("../rms_norm", "/optimize rms_norm"),
        ("src/liger_kernel/ops/rms_norm.py", "/optimize rms_norm"),
        ("goal=speed", "/optimize cross_entropy goal=speed"),
        ("kernel=statu", "/optimize kernel=status"),
    ],
)
def test_the_answer_offers_the_line_that_was_meant(line: str, better: str) -> None:
    assert mistake(line).paste == better


def test_an_unknown_name_is_compared_with_verbs_and_kernels_alike() -> None:
    assert "`approve`" in mistake("aprove").hint
    assert "`softmax`" in mistake("sofmax").hint


@pytest.mark.parametrize(
    "line", ["../../etc/passwd", "../geglu", "/etc/passwd", "..\\geglu", "geglu/../jsd", "./geglu"]
)
def test_a_path_never_becomes_a_kernel(line: str) -> None:
    assert mistake(line).code is ReasonCode.UNKNOWN_KERNEL


def test_a_bare_command_lists_the_kernels() -> None:
    error = grammar.parse("/optimize", KERNELS)
    assert isinstance(error, CommandError)
    assert all(f"`{name}`" in error.why for name in KERNELS)


def test_without_kernels_the_answer_says_so() -> None:
    for line in ("/optimize", "/optimize rms_norm"):
        error = grammar.parse(line, ())
        assert isinstance(error, CommandError) and "no kernel" in f"{error.why} {error.what}".lower()


def test_names_that_no_kernel_can_have_are_left_out() -> None:
    error = grammar.parse("/optimize", ("../evil", "Bad", "x" * 65, "geglu"))
    assert isinstance(error, CommandError) and error.why.count("`") == 2


def test_a_second_command_stops_both() -> None:
    error = grammar.parse("/optimize geglu\ntext\n/optimize jsd", KERNELS)
    assert isinstance(error, CommandError)
    assert (error.code, error.paste) == (ReasonCode.MULTIPLE_COMMANDS, "/optimize geglu")


def test_hidden_options_do_not_count() -> None:
    assert said("rms_norm <!-- mode=autonomous -->") == Optimize(kernel="rms_norm")
    assert said("rms_norm <!-- mode=autonomous") == Optimize(kernel="rms_norm")


def test_what_an_answer_repeats_is_short_and_cannot_leave_its_backticks() -> None:
    error = grammar.parse("/optimize `geglu`\n/optimize `jsd`", KERNELS)
    assert isinstance(error, CommandError) and error.what.count("`") == 4
    assert len(mistake("x" * 300).what) < 100


# Size and silence.


def test_a_comment_without_a_command_is_nobodys_business() -> None:
    assert grammar.parse("Nice work! I would write `/optimize rms_norm` here.", KERNELS) is None
    assert grammar.parse("", KERNELS) is None


def test_the_longest_comment_is_still_read_and_one_more_character_is_not() -> None:
    line = "/optimize rms_norm\n\n"
    assert grammar.parse(line + "x" * (65_536 - len(line)), KERNELS) == Optimize(kernel="rms_norm")
    error = grammar.parse(line + "x" * (65_537 - len(line)), KERNELS)
    assert isinstance(error, CommandError) and error.code is ReasonCode.COMMENT_TOO_LONG


def test_ten_megabytes_get_an_answer_only_where_a_command_was_meant() -> None:
    assert grammar.parse("x" * 10_000_000, KERNELS) is None
    error = grammar.parse("x" * 10_000_000 + "\n/optimize rms_norm", KERNELS)
    assert isinstance(error, CommandError) and error.code is ReasonCode.COMMENT_TOO_LONG


# Whatever is written.

WORDS = "rms_norm status goal speed target sha max_variants kernel v3 0 27debc3 approve reject try ../ @x </details>"
SIGNS = "= -- - ' \" “ — \\ ` * | é <!-- -->"
PIECES = st.sampled_from(
    [*WORDS.split(), *SIGNS.split(), " ", "\t", "\u3000", "\u200b", "\x00", "forward under 2ms", "x" * 70]
)


@settings(max_examples=many(600))
@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=60))
def test_a_line_becomes_a_command_or_an_answer_that_helps(line: str) -> None:
    answer = said(line)
    if isinstance(answer, CommandError):
        assert all(0 < len(part) <= SENTENCE for part in (answer.what, answer.why, answer.hint))
        shown = answer.what + answer.why + answer.hint
        assert shown.isprintable() and shown.count("`") % 2 == 0
        assert "\n" not in answer.paste
    if isinstance(answer, Optimize):
        assert answer.kernel in KERNELS


@settings(max_examples=many(300))
@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_line_offered_for_pasting_works(line: str) -> None:
    answer = said(line)
    if isinstance(answer, CommandError) and answer.paste:
        assert re.fullmatch(r"/optimize(?: [ -~]*)?", answer.paste) and "`" not in answer.paste
        again = grammar.parse(answer.paste, KERNELS)
        assert again is not None and not isinstance(again, CommandError)


@settings(max_examples=many(300))
@given(st.text(max_size=200), st.lists(st.text(max_size=12), max_size=4))
def test_no_comment_and_no_list_of_kernels_is_too_strange(text: str, kernels: list[str]) -> None:
    answer = grammar.parse(text, kernels)
    assert answer is None or looks_like_command(text)
    if isinstance(answer, Optimize):
        assert answer.kernel in kernels


@given(
    st.builds(
        Optimize,
        kernel=st.sampled_from(KERNELS),
        goal=st.sampled_from(Goal),
        scope=st.sampled_from(Scope),
        gpu=st.sampled_from(GpuChoice),
        mode=st.sampled_from(Mode),
        max_variants=st.integers(1, 119),
        target=st.none() | st.just(ALL.target),
        sha=st.none() | st.text("0123456789abcdef", min_size=7, max_size=40),
    )
)
def test_a_command_said_again_is_the_same_command(command: Optimize) -> None:
    line = spoken(command)
    assert len(line) <= 200
    assert not line or grammar.parse(line, KERNELS) == command


@pytest.mark.parametrize(
    ("text", "paste"),
    [
        ("/optimize rms_norm --speed=fast", "/optimize rms_norm goal=speed"),
        ("/optimise rms_norm goal=speed", "/optimize rms_norm goal=speed"),
        ("/optimze rms_norm\nthanks", "/optimize rms_norm"),
    ],
)
def test_what_is_nearly_right_is_offered_back(text: str, paste: str) -> None:
    error = grammar.parse(text, ("rms_norm",))
    assert isinstance(error, CommandError) and error.paste == paste


@pytest.mark.parametrize("text", ["we /optimise here", "> /optimise rms_norm", "/optimisers are slow", "`/optimise x`"])
def test_a_word_that_only_looks_like_it_in_prose_is_not_answered(text: str) -> None:
    assert grammar.parse(text, ("rms_norm",)) is None
