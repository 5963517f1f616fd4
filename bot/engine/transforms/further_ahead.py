"""More of a product's operands under way, where a kernel's list of launch numbers offers little.

A kernel of matrix products that tunes itself takes the best of its list, and no more than that. Liger's fused_moe lets
the gradients of its weights choose steps of 16 or 32 tokens, two of them at a time: at most 32 KB of a Hopper SM's 227,
and half of the 128 bytes that a row of shared memory is laid out for. Its best in both kernels is the largest of
every size (128 x 128 x 32, on an H100), which is a list that ends too early.

Steps become twice as long and three are under way. The list stays as long as it was, so that nobody tunes for longer.
What no longer fits a smaller GPU, Triton's own tuning leaves out, and the smallest of the list fits every GPU.

Asks for `[triton.Config({...}, num_stages=2) for step in [16, 32] ...]`, said at the kernel or returned by a function
of the module that nobody else calls, and pruned by nobody. Every kernel that takes the list has one loop, over
products, that goes from 0 by such steps, and whatever it reads or writes there has a mask that ends with the loop: a
kernel that was only ever given short steps may rely on rows of a multiple of them. How far the loop goes may not depend
on the tile: attention goes up to its diagonal without a mask, and a longer step across it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import guarded, kernels, source, tuned_lists
from bot.engine.addresses import names_of, without_casts
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, refuse_long_lines, with_numbers

FEW_STAGES, STAGES = 2, 3
LONGEST_STEP = 32
"""Numbers of half precision in 64 bytes."""
EVERYBODYS = 48 * 1024
"""Bytes of shared memory that every GPU gives a program."""
WIDEST = 4
"""Bytes of a number."""
TITLE = "Longer steps, and more of them under way"
COMMENT = "Longer steps, and three of them under way: tensor cores wait for less."


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of configurations, one for each number of several clauses."""

    stages: cst.Integer
    steps: tuple[cst.Integer, ...]


def _listed(whole: cst.BaseExpression, kernel: cst.FunctionDef, step: str) -> Listed:
    made, call = tuned_lists.comprehended(whole)
    constants, stages = kernels.argument(call, 0, "kwargs"), kernels.argument(call, 2, "num_stages")
    if not isinstance(stages, cst.Integer):
        raise NotUnderstood("how many steps are under way is no number, or several")
    sizes = {name: tuned_lists.numbers(made, given) for name, given in tuned_lists.entries(constants)}
    steps = sizes.get(step, ())
    lengths = [int(one.value, 0) for one in steps]
    if kernels.integer(stages) != FEW_STAGES or not lengths:
        raise NotUnderstood("more is under way, or one step at a time on purpose")
    if not tuned_lists.SHORTEST_STEP <= min(lengths) <= max(lengths) <= LONGEST_STEP:
        raise NotUnderstood("its steps are none of a product, or are long already")
    least = {name: min(int(one.value, 0) for one in few) for name, few in sizes.items()}
    _refuse_large(kernel, step, least)
    return Listed(stages, steps)


def _refuse_large(kernel: cst.FunctionDef, step: str, least: Mapping[str, int]) -> None:
    """Raises NotUnderstood where the smallest of a list would not fit every GPU."""
    sides = {source.code(one.args[1].value) for one in kernels.calls(kernel.body, "arange") if len(one.args) == 2}
    if not sides <= least.keys():
        raise NotUnderstood("a side of a tile is not in the list")
    widest = max((least[one] for one in sides if one != step), default=0)
    if STAGES * 2 * least[step] * widest * WIDEST * len(_operands(kernel)) > EVERYBODYS:
        raise NotUnderstood("the smallest of them would not fit every GPU")


def _operands(kernel: cst.FunctionDef) -> frozenset[str]:
    """What is multiplied: loaded, and nothing else done to it, so that a zero in it is a zero in the product."""
    values, found = names_of(kernel).made, set[str]()
    for call in kernels.calls(kernel.body, "dot"):
        for place in (0, 1):
            said = without_casts(kernels.argument(call, place, ("input", "other")[place]) or cst.Ellipsis())
            if isinstance(said, cst.Call) and kernels.called_name(said) == "trans" and len(said.args) == 1:
                said = without_casts(said.args[0].value)
            loaded = values.get(said.value) if isinstance(said, cst.Name) else None
            if loaded is None or not m.matches(without_casts(loaded), guarded.LOADED):
                raise NotUnderstood("what is multiplied is more than what was loaded")
            found.add(source.code(said))
    return frozenset(found)


def _step(kernel: cst.FunctionDef) -> str:
    """The constant that its loop goes by, where longer ones change nothing."""
    loop, end, step = tuned_lists.loop_of(kernel)
    turn = str(cst.ensure_type(loop.target, cst.Name).value)
    places = guarded.side(kernel, step, lambda begin: m.matches(begin, m.Name(turn)))
    mentions = {name: len(findall(kernel, m.Name(name))) for name in (turn, step)}
    sums = sum(places.is_place(one) for one in findall(kernel.body, guarded.sum_of(turn)))
    if mentions[turn] != 1 + sums or mentions[step] != 2 + len(findall(kernel.body, kernels.arange_of(step))):
        raise NotUnderstood("a turn, or its step, is more than the places that it begins")
    _refuse_moving(kernel, end)
    guarded.refuse_others(kernel)
    guarded.refuse_unguarded(places, lambda limit: source.code(limit) == source.code(end))
    for call, place, _ in guarded.touching(kernel):
        other = kernels.argument(call, 2, "other")
        if places.shows_in(place) and kernels.called_name(call) != "load":
            raise NotUnderstood("something is stored in each turn")
        if places.shows_in(place) and (other is None or source.code(other) not in ("0", "0.0")):
            raise NotUnderstood("behind the end there may be anything")
    return step


def _refuse_moving(kernel: cst.FunctionDef, end: cst.BaseExpression) -> None:
    """Raises NotUnderstood where it depends on the tile how far a loop goes, or changes meanwhile."""
    sizes = {name for name in kernels.constants(kernel) if findall(kernel, kernels.arange_of(name))}
    tile = sizes.union(
        guarded.following(kernel, guarded.PROGRAM, through_loads=False),
        *(guarded.following(kernel, m.Name(one), through_loads=False) for one in sizes),
    )
    if findall(end, guarded.PROGRAM) or any(findall(end, m.Name(one)) for one in tile):
        raise NotUnderstood("how far it goes depends on the tile")
    names = {cst.ensure_type(one, cst.Name).value for one in findall(end, m.Name())}
    if any(times_bound(kernel, name) > (name not in source.parameters(kernel)) for name in names):
        raise NotUnderstood("its end is given another value")


def _lists(module: cst.Module) -> Iterator[tuple[Listed, tuple[str, ...]]]:
    """Each list with the kernels that take it."""
    if findall(module, m.Attribute(attr=m.Name("configs"))):
        raise NotUnderstood("somebody reads a list later")
    tuned = [kernel for kernel in source.functions(module) if kernels.is_tuned(kernel)]
    for said in dict.fromkeys(source.code(tuned_lists.offered(kernel)) for kernel in tuned):
        takers = tuned_lists.takers(module, said)
        try:
            if len(takers) > 1 and not said.endswith("()"):
                raise NotUnderstood("the same is written twice")
            lists = tuned_lists.written(module, takers[0])
            several = [one for one in lists if not m.matches(one, tuned_lists.OF_ONE)]
            steps = {_step(kernel) for kernel in takers}
            if len(several) != 1 or len(steps) != 1:
                raise NotUnderstood("there are several lists, or steps")
            (step,) = steps
            found = [_listed(several[0], kernel, step) for kernel in takers]
            yield found[0], tuple(str(kernel.name.value) for kernel in takers)
        except NotUnderstood:
            continue


def _longer(module: cst.Module, lists: Sequence[Listed]) -> cst.Module:
    new: dict[cst.CSTNode, tuple[int, str]] = {one.stages: (STAGES, COMMENT) for one in lists}
    new |= {step: (2 * int(step.value, 0), COMMENT) for one in lists for step in one.steps}
    changed = with_numbers(module, new)
    refuse_long_lines(module, changed)
    return changed


def _why(lists: Sequence[Listed]) -> str:
    longest = max(int(step.value, 0) for one in lists for step in one.steps)
    return (
        f"The list of launch numbers ends where {FEW_STAGES} steps of {longest} are under way, which tensor cores wait "
        f"for. Steps are twice as long, {STAGES} are under way, and the list is as long as it was."
    )


def rewrite(text: str) -> Rewrite | None:
    """Every such list of the file."""
    if "autotune" not in text or "num_stages" not in text:
        return None
    try:
        module = source.parse(text)
        found = list(_lists(module))
        lists = [listed for listed, _ in found]
        longer = _longer(module, lists)
    except NotUnderstood:
        return None
    if not found:
        return None
    return Rewrite(
        text=source.written(longer),
        kernels=tuple(dict.fromkeys(name for _, names in found for name in names)),
        title=TITLE,
        why=_why(lists),
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
