"""A list of launch numbers that ends early goes on, as far as a kernel has room: wider tiles, or a step more under way.

A kernel of matrix products that tunes itself takes the best of its list, and no more than that. Liger's mlp offers
tiles of 128 x 128 at most, and three steps under way.

One sum in a tile leaves room for 128 x 256: that loads three numbers for each 256 products where 128 x 128 loads four,
and it is 128 registers of each thread of eight warps. Several sums of 128 x 128 leave none, but a fourth step of their
operands fits the shared memory of a Hopper SM. On an H200 wider tiles alone made mlp 1.012x as fast, which was too
little, and both together 1.022x and 1.034x: its backward takes the numbers that its forward has chosen.

The list becomes longer by those with eight warps and steps of 64, for each set of what else it says, so tuning takes
longer. Whatever it had stays: what does not fit a GPU, Triton's own tuning leaves out.

Asks for `[triton.Config({...}, num_warps=w, num_stages=s, pre_hook=hook) for ...]` at the kernel, which nobody prunes,
with 128 the most that it has for each side of a tile, steps of 64 and eight warps. Wider tiles ask for a kernel that
does nothing but to add up products and to store the sum, all through tensor descriptors whose blocks the hook gives
shapes of the same constants; and for launches of this file alone, whose grid counts the tiles. On paper each tile has
to be taken by one program. Refused where anybody reads what was chosen: another kernel may be given these numbers then.
More steps under way change no result, and all other numbers that somebody takes from the list are there already. Whom
the file launches with as many steps as were chosen may only not have more to load in a step than the tuned kernel.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import (
    addresses,
    configs_listed,
    descriptors,
    kernels,
    one_product,
    reckoning,
    source,
    taken_numbers,
    tiles_on_paper,
)
from bot.engine.configs_listed import Listed, More
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines
from bot.engine.tuned_lists import loop_of

SIDE, WIDE, STEP, WARPS = 128, 256, 64, 8
WIDE_STAGES, MOST_STAGES, MORE_STAGES = (3, 4), 3, (4,)
SEVERAL = 2
TITLE = "Longer lists of launch numbers"
WIDER = "Wider tiles: half of the loads for each product; one sum alone has room for them."
DEEPER = "A fourth step under way: several sums leave no room for wider tiles."
SEEN = (
    "1.022x and 1.034x over the passes of three sizes of mlp on an H200, in two campaigns, as tuning nearly sees a tie "
    "between three and four steps; wider tiles alone 1.012x, too little."
)


@dataclass(slots=True)
class _Grown:
    """What has become of the lists of a file."""

    comments: list[str] = field(default_factory=list)
    more: int = 0
    had: int = 0

    def say(self, comment: str, listed: Listed, more: More) -> None:
        self.comments.append(comment)
        self.more += more.many(listed)
        self.had += listed.many

    def why(self) -> str:
        rooms = {
            WIDER: f"One of {SIDE} x {WIDE} loads its rows once where two load them twice, and a kernel with one sum "
            "has room for it.",
            DEEPER: f"Several sums leave no room for wider ones, but for {MORE_STAGES[0]} steps under way, where the "
            f"list ends at {MOST_STAGES}.",
        }
        parts = [said for comment, said in rooms.items() if comment in self.comments]
        return (
            f"The list of launch numbers ends at tiles of {SIDE} x {SIDE}. "
            f"{' '.join(parts)} {self.more} entries come behind the {self.had} that were there, so tuning takes "
            "longer by as much."
        )


def _fits(listed: Listed, sides: Collection[str], step: str) -> None:
    """Raises NotUnderstood unless its largest tiles are of 128 numbers a side, with steps and warps for them."""
    had = listed.numbers
    if any(max(had[side]) != SIDE for side in sides):
        raise NotUnderstood("its tiles are wide already, or small")
    if STEP not in had[step] or WARPS not in had[source.WARPS]:
        raise NotUnderstood("it has no such step, or fewer warps")


def _refuse_others(module: cst.Module, kernel: cst.FunctionDef) -> None:
    """Raises NotUnderstood unless the kernel is launched here, and nobody asks what it has chosen."""
    name = str(kernel.name.value)
    if not source.sites(module, name) or not name.startswith("_"):
        raise NotUnderstood(f"{name} is not launched here, or elsewhere too")
    if taken_numbers.reads(module, name):
        raise NotUnderstood(f"somebody reads what {name} has chosen")


def _wider(module: cst.Module, kernel: cst.FunctionDef, listed: Listed) -> More:
    _refuse_others(module, kernel)
    reckoning.refuse_other_meanings(module, kernel)
    shapes = descriptors.blocks(listed.hook, listed.constants)
    product = one_product.read(module, kernel, shapes, listed.constants)
    rows, columns = product.tiles.sides
    _fits(listed, (rows, columns), product.step)
    more = More({rows: SIDE, columns: WIDE, product.step: STEP, source.WARPS: WARPS}, WIDE_STAGES)
    numbers = {
        name: (more.numbers[name],) if name in more.numbers else listed.numbers[name]
        for name in sorted(listed.constants)
    }
    for site in source.sites(module, str(kernel.name.value)):
        tiles_on_paper.refuse_missed(module, kernel, site, product.tiles, numbers)
    return more


def _is_added(line: cst.CSTNode, name: str) -> bool:
    """Whether a line adds a product to what has this name."""
    if not isinstance(line, cst.Assign | cst.AugAssign) or not kernels.calls(line.value, "dot"):
        return False
    if isinstance(line, cst.AugAssign):
        return isinstance(line.operator, cst.AddAssign) and source.code(line.target) == name
    if [source.code(one.target) for one in line.targets] != [name]:
        return False
    onto = kernels.argument(line.value, 2, "acc") if isinstance(line.value, cst.Call) else None
    return name in map(source.code, addresses.parts(line.value) if onto is None else [onto])


def _sums(kernel: cst.FunctionDef, loop: cst.For, sides: Collection[str]) -> frozenset[str]:
    """What begins as a tile of zeros and has products added to it, by its name."""
    tiles = {name for line in source.statements(kernel) for name in source.targets(line) if _is_tile(line, sides)}
    lines = findall(loop.body, m.AugAssign() | m.Assign())
    return frozenset(name for name in tiles if any(_is_added(line, name) for line in lines))


def _is_tile(line: cst.BaseStatement, sides: Collection[str]) -> bool:
    """`name = tl.zeros((ROWS, COLUMNS), ...)`"""
    value = source.value(line)
    shape = kernels.argument(value, 0, "shape") if isinstance(value, cst.Call) else None
    if not m.matches(value, one_product.ZEROS) or not isinstance(shape, cst.List | cst.Tuple):
        return False
    return len(shape.elements) == 2 and {*descriptors.sides_of(shape)} <= {*sides}


def _deeper(module: cst.Module, kernel: cst.FunctionDef, listed: Listed) -> More:
    loop, _, step = loop_of(kernel)
    shapes = descriptors.blocks(listed.hook, listed.constants)
    sides = {side for shape in shapes.values() for side in shape} - {"1", step}
    if step not in listed.constants or not sides:
        raise NotUnderstood("its steps are no constant of the list, or its tiles have no sides")
    if len(_sums(kernel, loop, sides)) < SEVERAL:
        raise NotUnderstood("it has one sum, which leaves room for wider tiles, or they are no tiles")
    _fits(listed, sides, step)
    if max(listed.numbers[source.STAGES]) != MOST_STAGES:
        raise NotUnderstood("more steps are under way, or fewer on purpose")
    taken_numbers.refuse_heavier(module, kernel, shapes)
    return More({**dict.fromkeys(sorted(sides), SIDE), step: STEP, source.WARPS: WARPS}, MORE_STAGES)


def _longer(module: cst.Module, name: str, grown: _Grown) -> cst.Module:
    kernel = source.kernel_named(module, name)
    if kernel is None or not kernels.is_tuned(kernel):
        raise NotUnderstood(f"{name} does not tune itself")
    listed = configs_listed.read(module, kernel)
    try:
        more, comment = _wider(module, kernel, listed), WIDER
    except NotUnderstood:
        more, comment = _deeper(module, kernel, listed), DEEPER
    changed = configs_listed.both(kernel, listed, more, comment)
    refuse_long_lines(kernel, changed)
    grown.say(comment, listed, more)
    return source.spliced(module, [(kernel, [changed])])


def rewrite(text: str, relied_on: Collection[str] = (), beside: Collection[str] = ()) -> Rewrite | None:
    """Every such kernel of the file. `relied_on`: kernels that others launch; `beside`: the target's other files."""
    if "autotune" not in text or "pre_hook" not in text:
        return None
    grown = _Grown()

    def change(module: cst.Module, name: str) -> cst.Module:
        names = {name, *taken_numbers.readers(module, name)}
        if names & {*relied_on} or any(re.search(rf"\b{one}\b", other) for one in names for other in beside):
            raise NotUnderstood(f"others launch {name}, or may read what it has chosen")
        return _longer(module, name, grown)

    made = each_kernel(text, change, title=TITLE, why="", seen=SEEN, tuned=True)
    return replace(made, why=grown.why()) if made is not None else None


def applies(text: str) -> bool:
    return rewrite(text) is not None
