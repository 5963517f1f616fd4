"""Named rewrites of a kernel's source. A new one is a short file and a line in the table.

Each looks at the source alone, refuses when it is not sure, and leaves every line it does not mean to change as it was.
Most look at one file. Where kernel, launch and what is done with its result may stand in several, all files of the
target are looked at together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bot.engine.transforms import (
    add_in_float32,
    add_once_a_run,
    ask_once,
    base_two,
    block_rows,
    cache_hints,
    divide_by_constants,
    divide_once,
    drop_clone,
    drop_detours,
    drop_sort,
    drop_zero_fill,
    first_product,
    free_early,
    further_ahead,
    fuse_rows,
    gather_factors,
    heads_at_once,
    last_axis_first,
    longer_lists,
    mask_where_read,
    meet_once,
    more_programs,
    narrower_tiles,
    pairs_at_once,
    partial_sums,
    pipeline_products,
    pipeline_rows,
    pipeline_steps,
    pipeline_turns,
    quick_log,
    read_the_number,
    reduce_loss,
    relax_atomics,
    rows_at_once,
    rows_in_turns,
    running_softmax,
    scale_at_store,
    scale_in_kernel,
    scale_sum,
    share_exponentials,
    stores_first,
    sum_at_once,
    sum_behind_loop,
    sum_together,
    taller_tiles,
    tanh_by_exp2,
    tile_rows,
    walk_back,
    walk_rows,
    wider_chunks,
    within_reach,
)
from bot.engine.transforms.rewrite import FilesRewrite, Rewrite


class PerKernel(Protocol):
    def rewrite(self, source: str, only: str = "") -> Rewrite | None:
        """Every kernel of the file that it is about, or only one of them."""
        ...


class Transform(Protocol):
    def applies(self, source: str) -> bool:
        """Whether the source holds a kernel of the shape this is about."""
        ...

    def rewrite(self, source: str) -> Rewrite | None:
        """The changed source with the idea behind it, or None when there is nothing to do or it is not safe."""
        ...


class AcrossFiles(Protocol):
    def applies(self, files: Mapping[str, str]) -> bool:
        """Whether these files together, texts by their paths, hold a kernel of the shape this is about."""
        ...

    def rewrite(self, files: Mapping[str, str]) -> FilesRewrite | None:
        """The changed texts with the idea behind them, or None when there is nothing to do or it is not safe."""
        ...


TRANSFORMS: dict[str, Transform] = {
    "drop_zero_fill": drop_zero_fill,
    "drop_detours": drop_detours,
    "drop_sort": drop_sort,
    "mask_where_read": mask_where_read,
    "within_reach": within_reach,
    "divide_by_constants": divide_by_constants,
    "tile_rows": tile_rows,
    "narrower_tiles": narrower_tiles,
    "walk_rows": walk_rows,
    "scale_sum": scale_sum,
    "sum_behind_loop": sum_behind_loop,
    "pipeline_rows": pipeline_rows,
    "running_softmax": running_softmax,
    "pipeline_steps": pipeline_steps,
    "pipeline_products": pipeline_products,
    "pipeline_turns": pipeline_turns,
    "further_ahead": further_ahead,
    "longer_lists": longer_lists,
    "block_rows": block_rows,
    "rows_at_once": rows_at_once,
    "heads_at_once": heads_at_once,
    "pairs_at_once": pairs_at_once,
    "last_axis_first": last_axis_first,
    "more_programs": more_programs,
    "wider_chunks": wider_chunks,
    "free_early": free_early,
    "first_product": first_product,
    "add_in_float32": add_in_float32,
    "add_once_a_run": add_once_a_run,
    "partial_sums": partial_sums,
    "relax_atomics": relax_atomics,
    "sum_together": sum_together,
    "sum_at_once": sum_at_once,
    "scale_at_store": scale_at_store,
    "scale_in_kernel": scale_in_kernel,
    "read_the_number": read_the_number,
    "ask_once": ask_once,
    "fuse_rows": fuse_rows,
    "divide_once": divide_once,
    "gather_factors": gather_factors,
    "share_exponentials": share_exponentials,
    "base_two": base_two,
    "quick_log": quick_log,
    "tanh_by_exp2": tanh_by_exp2,
    "rows_in_turns": rows_in_turns,
    "meet_once": meet_once,
    "walk_back": walk_back,
    "stores_first": stores_first,
    "cache_hints": cache_hints,
}

PER_KERNEL: dict[str, PerKernel] = {
    "drop_detours": drop_detours,
    "tile_rows": tile_rows,
    "narrower_tiles": narrower_tiles,
    "walk_rows": walk_rows,
    "pipeline_steps": pipeline_steps,
    "pipeline_turns": pipeline_turns,
    "rows_at_once": rows_at_once,
    "last_axis_first": last_axis_first,
    "meet_once": meet_once,
}
"""Those that change the forward and the backward of an op alike, where one may gain what the other loses. Each kernel
has a launch of its own, so that they can be told apart."""

ACROSS_FILES: dict[str, AcrossFiles] = {
    "reduce_loss": reduce_loss,
    "drop_clone": drop_clone,
    "taller_tiles": taller_tiles,
}
"""Those that look at all files of a target at once."""
