"""What to try for each kind of bottleneck, in order, and the most that each could give.

The most is arithmetic, not hope: a strategy is about certain parts of the time, and if all of them went away the rest
would still be there. The parts are the model's, but for what a timeline saw the kernels of others take (torch's,
mostly), so the figure is an estimate; the record holds it against what came.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bot.model.diagnosis import Bottleneck, Strategy

CHUNKS = ("wider_chunks", "free_early", "first_product")
SUMS = ("sum_together", "sum_at_once")
ATOMICS = ("add_in_float32", "add_once_a_run", "partial_sums", "relax_atomics")
ARITHMETIC = ("divide_once", "gather_factors", "share_exponentials", "base_two", "quick_log")
TOUCHES = ("rows_in_turns", "last_axis_first", "meet_once", "walk_back", "stores_first", "cache_hints")
SCALES = ("fuse_rows", "scale_at_store", "scale_in_kernel", "read_the_number", "ask_once")
LATE = (*ATOMICS, *SUMS, *SCALES, "scale_sum", *ARITHMETIC, *TOUCHES)
AT_ONCE = ("narrower_tiles", "rows_at_once", "heads_at_once", "pairs_at_once")
TILES = ("mask_where_read", "within_reach", "taller_tiles", "further_ahead", "longer_lists")
PIPELINES = ("pipeline_rows", "pipeline_steps", "pipeline_products", "pipeline_turns")
AHEAD = (*TILES, "running_softmax", "tanh_by_exp2", "sum_behind_loop", *PIPELINES, "block_rows", *AT_ONCE)
OF_ANY = (
    *("launch_parameters", *CHUNKS, *AHEAD, "more_programs"),
    *("drop_sort", "drop_zero_fill", "drop_detours", "tile_rows"),
    *("walk_rows", "divide_by_constants", "reduce_loss", "drop_clone", *LATE),
)
FEWER = ("launch_parameters", *ARITHMETIC, "tanh_by_exp2", "divide_by_constants")
"""Fewer instructions an element: what else there is comes behind, where arithmetic takes the time."""
STRATEGIES: dict[Bottleneck, tuple[str, ...]] = {
    Bottleneck.MEMORY: (
        *("launch_parameters", "reduce_loss", "drop_clone", *CHUNKS),
        *("drop_sort", "drop_detours", "drop_zero_fill", "tile_rows", "walk_rows", *AHEAD),
        *("divide_by_constants", *LATE, "more_programs"),
    ),
    Bottleneck.RESOURCE: (
        *("launch_parameters", "walk_rows", "tile_rows", *AHEAD, "divide_by_constants"),
        *("more_programs", "reduce_loss", "drop_clone", "drop_sort", "drop_detours", "drop_zero_fill"),
        *(*CHUNKS, *LATE),
    ),
    Bottleneck.LATENCY: (
        *("launch_parameters", *AHEAD, "more_programs", "tile_rows", "walk_rows"),
        *("divide_by_constants", "reduce_loss", "drop_clone", "drop_sort", "drop_detours", "drop_zero_fill"),
        *(*CHUNKS, *LATE),
    ),
    Bottleneck.HOST: (
        *("launch_parameters", "reduce_loss", "drop_clone", *CHUNKS),
        *("drop_sort", "drop_detours", "drop_zero_fill", *SCALES),
        *(*ATOMICS, *SUMS, *AHEAD, "more_programs", "tile_rows", "walk_rows"),
        *("divide_by_constants", "scale_sum", *ARITHMETIC, *TOUCHES),
    ),
    Bottleneck.COMPUTE: tuple(dict.fromkeys((*FEWER, *OF_ANY))),
    **dict.fromkeys((Bottleneck.BALANCED, Bottleneck.LAUNCH), OF_ANY),
}
"""What to try, in order. Launch numbers always come first (T-20): they are cheap to try and easy to read. Where a GPU
measures they race, and so do ideas: there the order decides between those that promise the same."""

TOGETHER: dict[str, tuple[str, ...]] = {
    "fewer_instructions": ("divide_once", "gather_factors", "base_two", "quick_log", "tanh_by_exp2"),
    "tiles_in_order": ("tile_rows", "last_axis_first"),
    "heads_in_pairs": ("heads_at_once", "pairs_at_once"),
    "mask_within_reach": ("mask_where_read", "within_reach"),
}
"""By the technique of the whole, the rewrites it is made of."""

BESIDE = "beside"
"""What kernels of others take of a pass: to fill with zeros, to add up, to scale."""
UNHIDDEN = ("waiting", "issue", "spills")
"""Parts of the time that neighbours, or fewer elements a thread, could hide."""
MOST_SHARE = 0.99
"""Nothing takes no time at all."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What a strategy is about."""

    techniques: tuple[str, ...]
    removes: tuple[str, ...]
    because: str


AIMS: dict[str, Aim] = {
    "launch_parameters": Aim(("P0",), UNHIDDEN, "warps and blocks decide what runs side by side and what spills"),
    "divide_by_constants": Aim(
        ("C2", "C4"), UNHIDDEN, "a division by a number of the launch costs each element a load and an address"
    ),
    "tile_rows": Aim(("C5", "G2"), UNHIDDEN, "tiles of a row leave room for many programs"),
    "walk_rows": Aim(("C1", "C4"), UNHIDDEN, "a row in blocks needs fewer registers than a row at once"),
    "sum_behind_loop": Aim(("P0",), ("waiting",), "all warps meet for a sum that nobody reads before the loop is over"),
    "meet_once": Aim(("P0",), ("waiting",), "all warps meet for each of several sums of a row"),
    "pipeline_rows": Aim(("P0", "M4"), ("waiting", "issue"), "the next rows can be under way while one is worked on"),
    "pipeline_steps": Aim(("P0", "M4"), ("waiting", "issue"), "the next block of a row can be under way meanwhile"),
    "pipeline_products": Aim(
        ("P0", "M4"), ("waiting", "issue"), "the next blocks of a product can be under way meanwhile"
    ),
    "pipeline_turns": Aim(
        ("P0", "M4"), ("waiting", "issue"), "a loop that is written out asks for the rows of a turn and waits"
    ),
    "taller_tiles": Aim(
        ("M2", "P0"), ("waiting", "excess"), "a tile of few rows loads many numbers for each product that it makes"
    ),
    "further_ahead": Aim(
        ("P0", "M4"), ("waiting", "issue"), "a list of launch numbers ends where few steps of a product are under way"
    ),
    "longer_lists": Aim(
        ("M2", "P0"), ("waiting", "excess"), "a list of launch numbers ends at tiles with room for more"
    ),
    "mask_where_read": Aim(
        ("M3", "G1"), ("excess", "fixed", BESIDE), "a matrix says for each place what its row and column say"
    ),
    "within_reach": Aim(
        ("M3", "C1"), ("excess", "waiting", "issue"), "products go through columns that a mask has left zero"
    ),
    "running_softmax": Aim(("M3", "M2"), ("excess", "waiting"), "rows are read to be scored, and again to be added up"),
    "block_rows": Aim(("P0", "G2"), UNHIDDEN, "several rows make one block, whose loads and sums wait together"),
    "rows_in_turns": Aim(("M2", "P0"), ("waiting",), "programs read at one time in places far from each other"),
    "rows_at_once": Aim(("P0", "G2"), UNHIDDEN, "a program of one short row is mostly start and end"),
    "heads_at_once": Aim(("P0", "G2"), UNHIDDEN, "a program of one head is mostly start and end"),
    "narrower_tiles": Aim(("C4",), UNHIDDEN, "a tile is more than the registers of its threads hold"),
    "last_axis_first": Aim(
        ("M2", "P0"), ("waiting", "excess"), "programs that read the same come when the cache has forgotten it"
    ),
    "pairs_at_once": Aim(("M1", "P0"), ("waiting", "issue"), "neighbours are loaded and stored one by one"),
    "add_in_float32": Aim(("G1",), ("waiting", "issue"), "an addition in half precision is a loop of compare and swap"),
    "add_once_a_run": Aim(("G1",), ("waiting", "excess"), "rows of one program add to the same places one by one"),
    "relax_atomics": Aim(("G1",), ("waiting",), "an addition that says no order waits for all memory of its program"),
    "partial_sums": Aim(("G1",), ("waiting", "excess"), "additions to the same few places queue"),
    "sum_together": Aim(("G1", "M3"), ("fixed", BESIDE), "torch adds up and rounds in four small launches"),
    "sum_at_once": Aim(("G1", "M3"), ("fixed", BESIDE), "torch adds up and rounds in two small launches"),
    "more_programs": Aim(("G2",), ("waiting", "issue"), "a second program works while one waits"),
    "wider_chunks": Aim(
        ("M3", "G1"), ("excess", "fixed", BESIDE), "every chunk of the rows reads and writes all of a weight again"
    ),
    "first_product": Aim(("M3", "G1"), ("excess", "fixed", BESIDE), "a sum over chunks is filled first, and read"),
    "free_early": Aim(("M3",), (), "a name holds its tensor until it is given another"),
    "drop_zero_fill": Aim(
        ("M3", "G1"), ("excess", "fixed", BESIDE), "a fill writes every byte once more, in a launch of its own"
    ),
    "drop_detours": Aim(("M3", "G1"), ("excess", BESIDE), "a cast before or behind a kernel is a pass over every byte"),
    "drop_sort": Aim(
        ("G1", "M3"), ("excess", "fixed", BESIDE), "a sort orders every element, where a few sums find the threshold"
    ),
    "reduce_loss": Aim(
        ("M3", "G1"), ("excess", BESIDE), "a loss of each element is written, to be added up and forgotten"
    ),
    "drop_clone": Aim(("M3", "G1"), ("excess", BESIDE), "an input is copied only to be written over"),
    "fuse_rows": Aim(
        ("G1", "M3"), ("excess", "fixed", BESIDE), "each operator of torch's reads whole tensors and writes one"
    ),
    "scale_at_store": Aim(
        ("G1", "M3"), ("excess", "fixed", BESIDE), "a product and a quotient are passes over every byte"
    ),
    "scale_in_kernel": Aim(
        ("G1", "M3"), ("excess", "fixed", BESIDE), "a general library kernel moves more than the bytes"
    ),
    "read_the_number": Aim(("G1",), ("fixed",), "the host's question takes a tensor and two launches of torch"),
    "ask_once": Aim(("G1",), ("fixed", BESIDE), "each question of the host takes several launches of torch and a wait"),
    "scale_sum": Aim(("P0",), ("waiting",), "all warps meet for a sum that is another one times a number"),
    "divide_once": Aim(("C1",), ("issue",), "a division costs each element several instructions, a product one"),
    "gather_factors": Aim(("C1",), ("issue",), "each element is multiplied by one number of the row after another"),
    "share_exponentials": Aim(
        ("C1",), ("issue",), "of an exponential and of a logarithm a GPU makes one while it adds eight times"
    ),
    "base_two": Aim(("C1",), ("issue",), "an exponential to the base of two is one instruction of the GPU"),
    "quick_log": Aim(("C1",), ("issue",), "a logarithm is a polynomial unless the instruction for it is asked for"),
    "tanh_by_exp2": Aim(
        ("C1",), ("waiting", "issue"), "libdevice's tanh parts nearly every warp in two, for one element after another"
    ),
    "walk_back": Aim(("M2",), ("excess",), "a second walk over a row asks for each part when that has just left"),
    "stores_first": Aim(("M2",), ("excess",), "what nobody reads takes the place of a row that is read again"),
    "cache_hints": Aim(("M2",), ("excess",), "what is read again should stay in the cache"),
}


def _at_most(aim: Aim, shares: Mapping[str, float] | None, beside: float) -> float | None:
    if shares is None:
        return None
    ours = min(1.0, sum(max(0.0, shares.get(part, 0.0)) for part in aim.removes))
    gone = (1 - beside) * ours + (beside if BESIDE in aim.removes else 0.0)
    return 1 / (1 - min(MOST_SHARE, gone))


def plan(
    kind: Bottleneck, shares: Mapping[str, float] | None, unfit: Collection[str] = (), beside: float = 0.0
) -> tuple[Strategy, ...]:
    """`shares` of the estimated time, by part; `excess` is the part of memory's that is more than the least traffic.
    They are of the kernels of the library, which leave others the share `beside` of a pass. What is `unfit` finds
    nothing to change."""
    return tuple(
        Strategy(
            name=name,
            techniques=AIMS[name].techniques,
            because=AIMS[name].because,
            at_most=_at_most(AIMS[name], shares, beside),
        )
        for name in STRATEGIES[kind]
        if name not in unfit
    )
