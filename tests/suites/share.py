"""The share of both suites that `make test` hears; `make test-judge` hears all.

Of the cheats: each that its text gives away, which costs next to nothing, and of those that have to be run one for
each way in which the judge finds something out. Of the honest files one of each op, of the wrong kernels two, and a
few accidents.
"""

from __future__ import annotations

from bot.bench.suite_files import Exhibit
from tests.suites.rooms import BY_TEXT, CHEATS, HONEST, exhibits, name_of

SHOWN = {
    "is off by": ("softmax/e24_constant", "softmax/e34_half_exponential", "rms_norm/e41_eps_fixed"),
    "has an infinity or NaN where the untouched kernel has none": (
        "softmax/e32_no_shift",
        "jsd/e21_ignored_rows_unwritten",
    ),
    "has a number where its inputs allow none": ("softmax/e31_nan_swallowed",),
    "depends on uninitialised memory or on the order": (
        "softmax/e28_tail_rounded_down",
        "geglu/e28_flat_without_a_tail",
    ),
    "a second backward pass gives another gradient": ("geglu/e39_gradient_over_the_incoming",),
    "writes over the result that its forward pass handed out": ("softmax/blind_gradient_over_the_output",),
    "lies in the memory of input": ("geglu/e22_result_over_the_input",),
    "none of its kernels was launched": ("softmax/e43_library_call",),
    "touched or took memory that is not its own": ("softmax/e29_store_without_mask", "geglu/e29_reads_the_next_row"),
    "it answered with something that is no answer": ("softmax/e50_endless_output",),
    "was overwritten": ("jsd/e23_input_rewritten",),
    "a result that was handed out before changes": ("jsd/e39_gradient_kept_is_rewritten",),
    "what another program of the launch wrote": ("jsd/e30_loss_added_unguarded",),
    "it cannot be imported": ("jsd/e50_recursion_without_end",),
    "the untouched kernel returns": ("softmax/e36_wider_output",),
    "are counted in 32 bits across its rows": ("softmax/product_widened_too_late",),
}
"""What the judge says, and who makes it say so. The first words are a detector; the test holds that it spoke."""

MANNERS = {
    "softmax": {
        "blind_believes_its_memory": "asked again for other contents at the same place",
        "blind_same_launch_again": "asked again for other contents at the same place",
        "blind_remembers_tensors": "asked again for other contents at the same place",
    },
    "rms_norm": {"blind_outputs_in_turn": "a result that was handed out before changes"},
}
"""By op: whose text gives them away, and what they are found out by when nobody reads it. They keep something from one
call to the next."""


def given_away(exhibit: Exhibit) -> bool:
    """Whether its text is the first reason it declares: it is refused before anything is run."""
    return exhibit.reasons[0] in BY_TEXT


def told(name: str) -> str:
    """What is said of one that has to be run; empty for any other."""
    return next((words for words, names in SHOWN.items() if name in names), "")


def cheats(op: str) -> list[Exhibit]:
    return [exhibit for exhibit in exhibits(CHEATS, op) if given_away(exhibit) or told(name_of(exhibit))]


def honest(op: str) -> list[Exhibit]:
    return exhibits(HONEST, op)[:1]
