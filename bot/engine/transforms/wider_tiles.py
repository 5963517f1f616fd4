"""Tiles of 128 x 256 in a list of launch numbers that ends at 128 x 128, where a kernel adds up one product in a tile.

A kernel of matrix products that tunes itself takes the best of its list, and no more than that. A tile of 128 x 128
loads two numbers for each 128 products, one of 128 x 256 three for each 256, and half as many programs may be as many
as a GPU has multiprocessors. Liger's mlp offers its gradient of the input 128 x 128 at most. Where two sums of that
size grow in a tile there is no room for more; one of 128 x 256 is 128 registers of each thread of eight warps.

The list becomes longer by 128 x 256 x 64 with eight warps, and three or four steps under way, for each set of what else
it says, so tuning takes longer. Whatever it had stays: what does not fit a GPU, Triton's own tuning leaves out.

Asks for `[triton.Config({...}, num_warps=w, num_stages=s, pre_hook=hook) for ...]` at the kernel, which nobody prunes,
with 128 the most that it has for both sides, steps of 64 and eight warps; for a kernel that does nothing but to add up
products and to store the sum, all through tensor descriptors whose blocks the hook gives shapes of the same constants;
and for launches of this file alone, whose grid counts the tiles. On paper each tile has to be taken by one program.
Refused where anybody reads what was chosen: another kernel may be given these numbers then.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

import libcst as cst
import libcst.matchers as m

from bot.engine import descriptors, imports, kernels, one_product, reckoning, source, tiles_on_paper, tuned_lists
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines

SIDE, WIDE, STEP, WARPS, STAGES = 128, 256, 64, 8, (3, 4)
SAID = ["kwargs", "num_warps", "num_stages", "pre_hook"]
"""What a configuration says, and nothing else."""
NO_MORE = frozenset(("configs", "key"))
TITLE = "Wider tiles of products"
COMMENT = "Wider tiles: half of the loads for each product; one sum alone has room for them."
SEEN = (
    "1.06x and 1.09x for backward passes of mlp of 2048x2048x8192 and 1024x4096x14336 on an H200, where the list was "
    "changed by hand; 1.034x over the passes of three sizes, accepted."
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of configurations, one for each number of several clauses."""

    whole: cst.ListComp
    config: cst.Call
    hook: cst.FunctionDef
    numbers: dict[str, tuple[int, ...]]
    """What it gives each constant, and how many warps and steps under way there are."""

    @property
    def constants(self) -> frozenset[str]:
        return frozenset(self.numbers) - {source.WARPS, source.STAGES}


def _given(config: cst.Call) -> dict[str, cst.BaseExpression]:
    """By their names, the constants of a configuration, its warps and its steps under way."""
    told = tuned_lists.entries(kernels.argument(config, 0, "kwargs"))
    found = {name: kernels.argument(config, place, name) for place, name in enumerate(source.NUMBERS, 1)}
    given = dict(told) | {name: value for name, value in found.items() if value is not None}
    if len(given) != len(told) + len(found):
        raise NotUnderstood("it does not say how many warps, or how many steps are under way")
    return given


def _listed(module: cst.Module, kernel: cst.FunctionDef) -> Listed:
    whole, config = tuned_lists.comprehended(tuned_lists.offered(kernel))
    decorator = cst.ensure_type(kernel.decorators[0].decorator, cst.Call)
    if not {arg.keyword.value for arg in decorator.args if arg.keyword is not None} <= NO_MORE:
        raise NotUnderstood("something is put back between two configurations")
    words = [arg.keyword.value if arg.keyword is not None else "kwargs" for arg in config.args]
    if sorted(words) != sorted(SAID) or any(arg.star for arg in config.args):
        raise NotUnderstood("a configuration says more, or has no hook")
    hook = source.kernel_named(module, source.code(kernels.argument(config, 5, "pre_hook") or cst.Ellipsis()))
    named = m.FunctionDef(name=m.Name(hook.name.value)) if hook is not None else m.DoNotCare()
    if hook is None or len(findall(module, named)) != 1 or bound_in(module)[str(hook.name.value)]:
        raise NotUnderstood("nobody can tell what its hook does")
    given = _given(config)
    numbers = {
        name: tuple(int(one.value, 0) for one in tuned_lists.numbers(whole, said)) for name, said in given.items()
    }
    listed = Listed(whole, config, hook, numbers)
    if not listed.constants <= kernels.constants(kernel):
        raise NotUnderstood("it gives more than constants of the kernel")
    return listed


def _new(listed: Listed, product: one_product.Product) -> dict[str, int]:
    """What the new configurations give instead of each number, where it is one for all of them."""
    rows, columns = product.tiles.sides
    had = listed.numbers
    if max(had[rows]) != SIDE or max(had[columns]) != SIDE:
        raise NotUnderstood("its tiles are wide already, or small")
    if STEP not in had[product.step] or WARPS not in had[source.WARPS]:
        raise NotUnderstood("it has no such step, or fewer warps")
    return {rows: SIDE, columns: WIDE, product.step: STEP, source.WARPS: WARPS}


def _refuse_others(module: cst.Module, kernel: cst.FunctionDef, relied_on: Collection[str]) -> None:
    """Raises NotUnderstood unless the kernel is launched here, and nothing else is done with it."""
    name = str(kernel.name.value)
    found = source.sites(module, name)
    if not found or not name.startswith("_") or name in relied_on:
        raise NotUnderstood(f"{name} is not launched here, or elsewhere too")
    if {imports.mentions(module, name), len(findall(module, m.Name(name)))} != {1 + len(found)}:
        raise NotUnderstood(f"somebody reads what {name} has chosen")


def _refuse_missed(
    module: cst.Module, kernel: cst.FunctionDef, listed: Listed, product: one_product.Product, new: dict[str, int]
) -> None:
    numbers = {name: (new[name],) if name in new else listed.numbers[name] for name in sorted(listed.constants)}
    for site in source.sites(module, str(kernel.name.value)):
        tiles_on_paper.refuse_missed(module, kernel, site, product.tiles, numbers)


def _margin(space: cst.BaseParenthesizableWhitespace) -> cst.ParenthesizedWhitespace:
    """A new line, as far in as another, without what is said there."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        raise NotUnderstood("the list is not written in lines")
    return cst.ParenthesizedWhitespace(indent=space.indent, last_line=space.last_line)


def _clauses(listed: Listed, new: dict[str, int]) -> cst.CompFor:
    """Those of what is not one number now, with other steps under way."""
    given = _given(listed.config)
    gone = {source.code(value) for name, value in given.items() if name in new}
    stages, named = given[source.STAGES], {source.code(value) for value in given.values()}
    if not isinstance(stages, cst.Name):
        raise NotUnderstood("how many steps are under way is one number for all")
    if not named >= {source.code(one.target) for one in tuned_lists.clauses(listed.whole)}:
        raise NotUnderstood("a clause gives nothing")
    ahead = cst.List([cst.Element(cst.Integer(str(many))) for many in STAGES])
    made: cst.CompFor | None = None
    for one in reversed(list(tuned_lists.clauses(listed.whole))):
        if source.code(one.target) in gone:
            continue
        numbers = ahead if m.matches(one.target, m.Name(stages.value)) else one.iter
        made = one.with_changes(whitespace_before=_margin(one.whitespace_before), inner_for_in=made, iter=numbers)
    assert made is not None
    return made


def _more(listed: Listed, new: dict[str, int]) -> cst.ListComp:
    whole, given = listed.whole, _given(listed.config)
    numbers = {given[name]: cst.Integer(str(number)) for name, number in new.items()}
    if findall(listed.config, m.Comment()):
        raise NotUnderstood("something is said of the numbers")
    return whole.with_changes(
        elt=source.exchanged(listed.config, numbers),
        for_in=_clauses(listed, new),
        lbracket=cst.LeftSquareBracket(whitespace_after=_margin(whole.lbracket.whitespace_after)),
        rbracket=cst.RightSquareBracket(whitespace_before=_margin(whole.rbracket.whitespace_before)),
    )


def _sum(kernel: cst.FunctionDef, listed: Listed, new: dict[str, int]) -> cst.BinaryOperation:
    """Both lists, the second below the first."""
    decorator = cst.ensure_type(kernel.decorators[0].decorator, cst.Call)
    end = _margin(listed.whole.rbracket.whitespace_before)
    first, begin = decorator.args[0].value, _margin(decorator.whitespace_before_args)
    if first is not listed.whole or begin.last_line.value != end.last_line.value:
        raise NotUnderstood("the list does not begin in a line of its own")
    said = cst.EmptyLine(indent=end.indent, whitespace=end.last_line, comment=cst.Comment(f"# {COMMENT}"))
    plus = cst.Add(whitespace_before=end.with_changes(empty_lines=[said]))
    return cst.BinaryOperation(left=listed.whole, operator=plus, right=_more(listed, new))


def _wider(module: cst.Module, name: str, relied_on: Collection[str], grown: list[tuple[int, int]]) -> cst.Module:
    kernel = source.kernel_named(module, name)
    if kernel is None or not kernels.is_tuned(kernel):
        raise NotUnderstood(f"{name} does not tune itself")
    listed = _listed(module, kernel)
    _refuse_others(module, kernel, relied_on)
    reckoning.refuse_other_meanings(module, kernel)
    shapes = descriptors.blocks(listed.hook, listed.constants)
    product = one_product.read(module, kernel, shapes, listed.constants)
    new = _new(listed, product)
    both = _sum(kernel, listed, new)
    _refuse_missed(module, kernel, listed, product, new)
    changed = cst.ensure_type(source.exchanged(kernel, {listed.whole: both}), cst.FunctionDef)
    refuse_long_lines(kernel, changed)
    few = prod(len(said) for name, said in listed.numbers.items() if name not in (*new, source.STAGES))
    grown.append((len(STAGES) * few, prod(len(said) for said in listed.numbers.values())))
    return source.spliced(module, [(kernel, [changed])])


def _why(grown: Collection[tuple[int, int]]) -> str:
    more, had = (sum(many) for many in zip(*grown, strict=True))
    return (
        f"The list of launch numbers ends at tiles of {SIDE} x {SIDE}. One of {SIDE} x {WIDE} loads its rows once "
        f"where two load them twice, and a kernel with one sum has room for it. {more} entries come behind the {had} "
        "that were there, so tuning takes longer by as much."
    )


def rewrite(text: str, relied_on: Collection[str] = (), beside: Collection[str] = ()) -> Rewrite | None:
    """Every such kernel of the file. `relied_on`: kernels that others launch; `beside`: the target's other files."""
    if "autotune" not in text or "pre_hook" not in text:
        return None
    grown: list[tuple[int, int]] = []

    def change(module: cst.Module, name: str) -> cst.Module:
        if any(re.search(rf"\b{name}\b", other) for other in beside):
            raise NotUnderstood(f"another file speaks of {name}")
        return _wider(module, name, relied_on, grown)

    made = each_kernel(text, change, title=TITLE, why="", seen=SEEN, tuned=True)
    return replace(made, why=_why(grown)) if made is not None else None


def applies(text: str) -> bool:
    return rewrite(text) is not None
