"""A diagnosis names what takes the time and shows the evidence it has."""

from __future__ import annotations

import pytest

from bot.analysis import symptoms
from bot.analysis.bottleneck import Evidence as Known
from bot.analysis.bottleneck import Shares, diagnose
from bot.analysis.bottleneck import _class as class_by_model
from bot.analysis.strategies import AIMS, BESIDE, STRATEGIES, UNHIDDEN
from bot.hardware.catalog import for_arch
from bot.model.diagnosis import Bottleneck, Diagnosis
from bot.model.measurement import Evidence, Launch, Survey
from bot.model.profiling import Busy, Counter, Counters, KernelCounters, Timeline
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile
from tests.analysis import made

H200 = for_arch("sm_90")
CASE = made.case()


def of(launch: Launch, *surveys: Survey, **fields: float) -> Diagnosis:
    baseline = made.measurement(made.result(CASE, launch, **fields))
    return diagnose(baseline, made.suite(CASE), H200, surveys)


def needing(**fields: int) -> Launch:
    return made.launch(resources=made.resources(**fields))


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        (needing(instructions=100), Bottleneck.MEMORY),
        (needing(spill_bytes=400, registers=255), Bottleneck.RESOURCE),
        (needing(instructions=20_000), Bottleneck.COMPUTE),
        (made.launch(grid=(132, 1, 1), block=256, resources=made.resources(instructions=80)), Bottleneck.LATENCY),
        (needing(instructions=3500), Bottleneck.BALANCED),
    ],
)
def test_the_class_is_what_takes_most_of_the_time(launch: Launch, expected: Bottleneck) -> None:
    found = of(launch)
    assert found.bottleneck is expected
    assert found.strategies == STRATEGIES[expected]


NOTHING = dict.fromkeys(("memory", "excess", "waiting", "issue", "spills", "fixed"), 0.0)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"spills": 0.15, "memory": 0.85}, Bottleneck.RESOURCE),
        ({"spills": 0.149, "memory": 0.6}, Bottleneck.MEMORY),
        ({"memory": 0.599, "issue": 0.4}, Bottleneck.BALANCED),
        ({"issue": 0.6}, Bottleneck.COMPUTE),
        ({"issue": 0.599}, Bottleneck.BALANCED),
        ({"fixed": 0.3, "waiting": 0.3}, Bottleneck.LAUNCH),
        ({"fixed": 0.29, "waiting": 0.31}, Bottleneck.LATENCY),
        ({"fixed": 0.3, "waiting": 0.299}, Bottleneck.BALANCED),
    ],
)
def test_a_class_is_named_from_six_tenths_of_the_time_on(shares: dict[str, float], expected: Bottleneck) -> None:
    """T-02, T-03; spills from 15 % on, whatever else there is."""
    assert class_by_model(Shares(**{**NOTHING, **shares})) is expected


@pytest.mark.parametrize(
    ("kernels", "tier"),
    [
        (("swiglu", "geglu", "dyt", "relu_squared"), 1),
        (("rms_norm", "layer_norm", "softmax", "sparsemax"), 2),
        (("cross_entropy", "fused_linear_cross_entropy"), 3),
    ],
)
def test_kernels_that_everybody_knows_have_the_tier_that_everybody_gives_them(
    kernels: tuple[str, ...], tier: int
) -> None:
    """T-01, whatever a source looks like."""
    other = SourceFile(path="k.py", text="import triton\n\n\n@triton.jit\ndef _k(x):\n    tl.dot(x, x)\n")
    for kernel in kernels:
        assert known(needing(), kernel=kernel, sources=(other,)).tier == tier, kernel


@pytest.mark.parametrize("kind", list(Bottleneck))
def test_launch_numbers_are_always_tried_first(kind: Bottleneck) -> None:
    assert STRATEGIES[kind][0] == "launch_parameters"
    assert len(set(STRATEGIES[kind])) == len(STRATEGIES[kind])


def test_where_arithmetic_takes_the_time_it_comes_before_more_programs() -> None:
    """T-20: parameters, then C, then G."""
    order = STRATEGIES[Bottleneck.COMPUTE]
    fewer = [name for name in order if any(t in ("C1", "C2") for t in AIMS[name].techniques)]
    assert {"divide_once", "base_two", "quick_log"} <= set(fewer)
    assert order[0] == "launch_parameters" and order.index("more_programs") > order.index("quick_log")
    assert set(order) == set(STRATEGIES[Bottleneck.BALANCED])


def test_without_a_profiler_it_is_a_heuristic_and_the_numbers_are_estimated() -> None:
    found = of(needing(instructions=100))
    assert found.confidence == "heuristic"
    assert "estimated" in found.sentence
    assert found.roof_percent is not None
    assert f"{found.roof_percent:.0f} % of the NVIDIA H200 SXM's roof" in found.sentence


def evidence(found: Diagnosis) -> str:
    return "\n".join(clue.evidence for clue in found.clues)


def test_spills_are_shown_with_the_case_they_happen_on() -> None:
    found = of(needing(spill_bytes=620, registers=255))
    assert f"_k: 620 B of spills a thread with 255 registers on {CASE.id}" in evidence(found)


def test_spills_are_told_of_the_case_that_has_most_also_where_another_waits_more() -> None:
    """A kernel that spills in two cases and waits in a third has both told, each of its own case."""
    few, most, waits = (made.case(rows=rows) for rows in (2048, 4096, 8192))
    lone = made.launch(grid=(132, 1, 1), warps=2, resources=made.resources(instructions=20_000, registers=191))
    launches = (needing(spill_bytes=8), needing(spill_bytes=620, registers=255), lone)
    cases = (few, most, waits)
    baseline = made.measurement(*(made.result(case, one) for case, one in zip(cases, launches, strict=True)))
    found = evidence(diagnose(baseline, made.suite(*cases), H200))
    assert f"_k: 620 B of spills a thread with 255 registers on {most.id}" in found and "8 B of" not in found
    assert f"warps busy on a multiprocessor (1 x 2, the grid has no more) on {waits.id}" in found
    assert "191 registers a thread" not in found, "who spills has more than its registers to tell of"


def test_where_no_part_is_most_of_the_time_the_two_largest_are_told() -> None:
    found = of(needing(instructions=3500))
    assert found.bottleneck is Bottleneck.BALANCED
    assert found.sentence.count("% of the estimated time goes into") == 1 and found.sentence.count("% into") == 1
    assert "% into" not in of(needing(instructions=100)).sentence


def test_a_grid_of_one_program_a_multiprocessor_is_noticed() -> None:
    found = of(made.launch(grid=(132, 1, 1), warps=2))
    assert "2 of 64 warps busy on a multiprocessor (1 x 2, the grid has no more)" in evidence(found)


def test_registers_that_keep_programs_out_are_named() -> None:
    found = of(needing(registers=255, instructions=2000))
    assert "(1 x 8, registers keep out more)" in evidence(found)


@pytest.mark.parametrize(("bits", "said"), [(16, True), (32, True), (64, False), (0, False)])
def test_narrow_loads_are_noticed(bits: int, said: bool) -> None:
    assert (f"the widest load is {bits} bits" in evidence(of(needing(load_bits=bits)))) is said


@pytest.mark.parametrize(("factor", "said"), [(1.24, False), (1.25, True)])
def test_traffic_beyond_the_inputs_and_outputs_is_noticed(factor: float, said: bool) -> None:
    assert (f"moves {factor:.2f} times" in evidence(of(needing(), traffic_factor=factor))) is said


def test_a_survey_that_promises_something_is_quoted() -> None:
    slow = made.launch(warps=2, resources=made.resources(instructions=1500, registers=120))
    found = of(slow, made.survey(CASE, 4096, 8))
    assert "_k: BLOCK_SIZE 4096, 8 warps is estimated" in evidence(found)


def test_a_survey_of_another_block_is_not_quoted_since_it_may_be_wrong() -> None:
    slow = made.launch(warps=2, resources=made.resources(instructions=1500, registers=120))
    assert "is estimated" not in evidence(of(slow, made.survey(CASE, 512, 8)))


def test_a_survey_that_promises_nothing_is_not_quoted() -> None:
    fast = made.launch(resources=made.resources(instructions=10))
    assert "is estimated" not in evidence(of(fast, made.survey(CASE, 4096, 8)))


def test_a_kernel_that_cannot_be_modelled_gets_no_story() -> None:
    found = of(made.launch(resources=None))
    assert found.roof_percent is None
    assert "nothing is said" in found.sentence


def counters(status: str = "read", **values: float) -> Counters:
    found = tuple(Counter(name=symptoms.COUNTERS[name][0], value=value) for name, value in values.items())
    kernels = (KernelCounters(kernel="_k", case=CASE.id, counters=found),) if found else ()
    return Counters.model_validate({"status": status, "kernels": kernels})


def known(launch: Launch, **fields: object) -> Diagnosis:
    baseline = made.measurement(made.result(CASE, launch))
    return diagnose(baseline, made.suite(CASE), H200, known=Known(**fields))  # type: ignore[arg-type]


def test_the_gpus_own_counters_outrank_the_model() -> None:
    found = known(needing(instructions=20_000), counters=counters(time=100, compute=20, memory=83, long_scoreboard=5))
    assert (found.bottleneck, found.confidence, found.certainty) == (Bottleneck.MEMORY, "measured", "high")
    assert "memory at 83 % and compute at 20 % of their peaks (Nsight Compute)" in found.sentence
    assert found.clues[0].basis == "counters"


@pytest.mark.parametrize("status", ["absent", "no_permission", "too_old", "mig", "nothing_launched", "failed"])
def test_without_counters_the_model_speaks_and_says_that_it_is_one(status: str) -> None:
    found = known(needing(instructions=100), counters=counters(status))
    assert (found.bottleneck, found.confidence, found.certainty) == (Bottleneck.MEMORY, "heuristic", "low")


def test_the_plan_holds_what_fits_the_source_and_names_the_rest() -> None:
    found = known(needing(), fits=frozenset({"more_programs", "pipeline_rows"}))
    assert {"more_programs", "pipeline_rows"} == set(found.strategies)
    assert [one.name for one in found.plan] == list(found.strategies)
    assert "launch_parameters" in found.unfit and not set(found.unfit) & set(found.strategies)


@pytest.mark.parametrize("name", ["pipeline_rows", "more_programs"])
def test_loads_under_way_and_a_second_program_hide_instructions_too(name: str) -> None:
    """On an H200 rows loaded ahead gave rms_norm 1.28x and layer_norm 1.24x; waiting alone allowed 1.19x and 1.21x."""
    (idea,) = (one for one in known(needing(instructions=20_000)).plan if one.name == name)
    assert idea.at_most is not None and idea.at_most > 1.5


def test_where_nobody_looked_at_the_source_everything_is_planned() -> None:
    found = known(needing())
    assert found.unfit == () and len(found.strategies) == len(found.plan) > 10


def test_a_kernel_of_another_file_is_told_to_be_left_alone() -> None:
    """fused_linear_cross_entropy launches cross_entropy's kernel: whoever wants that faster has to ask for it there."""
    own, other = SourceFile(path="src/k.py", text=""), SourceFile(path="src/other.py", text="")
    assert "src/k.py, which is not a file of this kernel" in evidence(known(needing(), sources=(other,)))
    assert "is not a file of this kernel" not in evidence(known(needing(), sources=(own, other)))
    assert "is not a file of this kernel" not in evidence(known(needing()))


def line(busy_us: float, waits: int = 0) -> Timeline:
    return Timeline(case=CASE.id, passes=5, wall_us=100.0, busy_us=busy_us, gap_us=5.0, waits=waits)


@pytest.mark.parametrize(("busy_us", "host"), [(29.9, True), (30.0, False)])
def test_a_gpu_that_is_idle_most_of_the_time_waits_for_its_host(busy_us: float, host: bool) -> None:
    found = known(needing(), timelines=(line(busy_us),))
    assert (found.bottleneck is Bottleneck.HOST) is host
    assert ("waits for the host" in found.sentence) is host


@pytest.mark.parametrize(("busy_us", "said"), [(59.9, True), (60.0, False)])
def test_gaps_are_told_where_they_are_a_good_part_of_the_pass(busy_us: float, said: bool) -> None:
    assert ("the GPU works" in evidence(known(needing(), timelines=(line(busy_us),)))) is said


def test_a_host_that_waits_is_told_with_how_often() -> None:
    assert "waits for the GPU once a pass" in evidence(known(needing(), timelines=(line(90, 1),)))
    assert "waits for the GPU 3 times a pass" in evidence(known(needing(), timelines=(line(90, 3),)))


def test_what_every_case_shows_is_said_once_of_the_worst() -> None:
    """Fifteen cases of a loss told their two things thirty times."""
    lines = tuple(line(busy, waits).model_copy(update={"case": name}) for name, busy, waits in (
        ("a", 50.0, 1), ("b", 20.0, 2), ("c", 59.9, 0), ("d", 80.0, 1),
    ))  # fmt: skip
    clues = [clue.evidence for clue in known(needing(), timelines=lines).clues if clue.basis == "timeline"]
    waits, idle = clues
    assert waits.startswith("b and 2 more cases: the host waits for the GPU 2 times")
    assert idle.startswith("b and 2 more cases: the GPU works 20.0 us of 100.0 us")
    (alone,) = [c.evidence for c in known(needing(), timelines=lines[2:]).clues if "the GPU works" in c.evidence]
    assert alone.startswith("c: the GPU works 59.9 us")


@pytest.mark.parametrize(("fields", "said"), [({"uses_fp64": True}, True), ({}, False)])
def test_an_unexpected_float64_is_noticed(fields: dict[str, int], said: bool) -> None:
    assert ("float64 instructions" in evidence(of(needing(**fields)))) is said


@pytest.mark.parametrize(("registers", "said"), [(128, False), (129, True)])
def test_many_registers_are_noticed_before_they_spill(registers: int, said: bool) -> None:
    assert (f"{registers} registers a thread" in evidence(of(needing(registers=registers)))) is said


def test_a_multiprocessor_that_is_full_is_not_asked_for_more_programs() -> None:
    assert "warps busy" not in evidence(of(needing(registers=32, instructions=2000)))


def test_a_heuristic_is_labelled_and_what_was_compiled_is_not_one() -> None:
    found = of(made.launch(grid=(132, 1, 1), warps=2, resources=made.resources(spill_bytes=8)))
    assert {clue.basis for clue in found.clues} == {"compiled", "model"}


def test_each_strategy_says_the_most_it_could_give_and_never_less_than_nothing() -> None:
    found = of(needing(instructions=3500))
    plan = {one.name: one for one in found.plan}
    assert tuple(plan) == found.strategies
    assert all(one.techniques and one.because and one.at_most is not None and one.at_most >= 1 for one in found.plan)
    assert plan["launch_parameters"].at_most > 1.5  # type: ignore[operator]
    assert plan["cache_hints"].at_most == 1.0


def test_traffic_beyond_the_least_is_what_a_needless_fill_could_give() -> None:
    plain = {one.name: one.at_most or 0 for one in of(needing(instructions=100)).plan}
    wasteful = {one.name: one.at_most or 0 for one in of(needing(instructions=100), traffic_factor=2.0).plan}
    assert wasteful["drop_zero_fill"] > 1.5 > plain["drop_zero_fill"]


def at_most(*seen: tuple[str, float]) -> dict[str, float]:
    """The limits where a timeline saw these kernels, with their microseconds."""
    busy = tuple(Busy(kernel=kernel, launches=1, us=us) for kernel, us in seen)
    total = sum(us for _, us in seen)
    lines = (Timeline(case="c", passes=4, wall_us=100, busy_us=total, gap_us=0, kernels=busy),) if seen else ()
    return {one.name: one.at_most or 0 for one in known(needing(instructions=2500), timelines=lines).plan}


def test_what_kernels_of_others_take_is_in_reach_of_what_takes_their_place() -> None:
    """On an H200 sums that torch made gave layer_norm 1.18x, where the launches alone had promised 1.05x."""
    ours = made.launch().kernel
    nobody, alone, half = at_most(), at_most((ours, 10.0)), at_most((ours, 10.0), ("at::native::reduce_kernel", 10.0))
    assert nobody == alone
    assert half["sum_together"] == pytest.approx(1 / (1 - (0.5 + 0.5 * (1 - 1 / alone["sum_together"]))))
    assert half["sum_together"] > 2 > alone["sum_together"]
    assert 1 < half["pipeline_rows"] < alone["pipeline_rows"], "and out of reach of what makes ours faster"
    assert at_most(("at::native::reduce_kernel", 10.0)) == nobody, "a pass of others is not about this kernel"


def test_a_share_that_cannot_be_is_told_with_its_code_and_not_shown() -> None:
    fast = made.measurement(made.result(CASE, needing(), us=1.0), evidence=Evidence.MEASURED)
    found = diagnose(fast, made.suite(CASE), H200)
    assert found.roof_percent is None and "roof" not in found.sentence
    assert str(ReasonCode.ABOVE_THE_ROOF) in found.clues[0].evidence


def test_a_survey_is_held_against_the_model_also_where_a_clock_read_the_baseline() -> None:
    slow = made.launch(warps=2, resources=made.resources(instructions=1500, registers=120))
    timed = made.measurement(made.result(CASE, slow, us=40.0), evidence=Evidence.MEASURED)
    modelled = made.measurement(made.result(CASE, slow))
    said = [diagnose(one, made.suite(CASE), H200, (made.survey(CASE, 4096, 8),)) for one in (timed, modelled)]
    gains = [next(c.evidence for c in one.clues if "is estimated" in c.evidence) for one in said]
    assert gains[0] == gains[1]


DOTS = "import triton.language as tl\n@triton.jit\ndef _k(a):\n    {}\n"


@pytest.mark.parametrize(
    ("kernel", "body", "tier"),
    [
        ("swiglu", "tl.sum(a)", 1),
        ("rms_norm", "pass", 2),
        ("cross_entropy", "pass", 3),
        ("mine", "tl.exp(a)", 1),
        ("mine", "tl.max(a)", 2),
        ("mine", "tl.dot(a, a)", 3),
        ("mine", "for i in range(0, a, 8): tl.sum(i)\n    for i in range(0, a, 8): tl.max(i)", 3),
        ("mine", "for i in range(0, a, 8): tl.sum(i)", 2),
    ],
)
def test_the_tier_is_known_by_name_or_by_what_the_source_does(kernel: str, body: str, tier: int) -> None:
    source = SourceFile(path="k.py", text=DOTS.format(body))
    assert known(needing(), kernel=kernel, sources=(source,)).tier == tier


def test_without_a_kernel_in_the_source_there_is_no_tier() -> None:
    for text in ("x = 1", "def (", ""):
        assert known(needing(), kernel="mine", sources=(SourceFile(path="k.py", text=text),)).tier is None


def test_what_a_clock_found_beyond_the_bytes_is_what_a_rewrite_could_give() -> None:
    """The model thinks it is near its bytes; the clock says that it takes three times as long."""
    launch = needing(instructions=100)
    plain = of(launch)
    slow = diagnose(
        made.measurement(made.result(CASE, launch, us=48.0), evidence=Evidence.MEASURED), made.suite(CASE), H200
    )
    assert plain.bottleneck is Bottleneck.MEMORY
    assert slow.bottleneck is not Bottleneck.MEMORY
    assert "of the measured time, as estimated, goes into" in slow.sentence
    most = [{one.name: one.at_most or 0 for one in found.plan}["launch_parameters"] for found in (plain, slow)]
    assert most[1] > 1.4 > most[0]


@pytest.mark.parametrize("kind", list(Bottleneck))
def test_every_strategy_says_what_part_of_the_time_it_is_about(kind: Bottleneck) -> None:
    assert set(STRATEGIES[kind]) == set(AIMS)
    assert {part for aim in AIMS.values() for part in aim.removes} <= {"excess", "fixed", BESIDE, *UNHIDDEN}
