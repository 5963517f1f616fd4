"""Let programs take rows in turns, where each goes through a run of neighbouring rows and loads ahead.

The backward of a norm gives each multiprocessor a run of rows, so at any time a hundred programs read in a hundred
places, far from each other. Where each takes every n-th row they read neighbours. In a sweep of such kernels on an H200
the best form with runs took 54.7 us at 8192 x 4096, 18.9 at 8192 x 1024 and 30.4 at 2048 x 8192, the best with turns
53.0, 18.3 and 30.0 (docs/results/h200/sweeps). How many rows a program takes nobody has to be told then, so that
parameter goes.

It comes behind `pipeline_rows` and `block_rows`, which look for runs. Refused unless all rows are shared among the
programs of the one launch, nothing but the bounds of the loop and the mask of a block's rows speaks of the run, rows
are counted in 64 bits, and no row depends on another: nothing in the loop is atomic, no turn loads what another stores,
and it is nobody's business which rows a program has (`shares`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, commas, exchanging, imports, kernels, runs, shares, source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.runs import Run
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms import block_rows
from bot.engine.transforms.pipeline_rows import refuse_dependent
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines

ALL_PROGRAMS = "tl.num_programs(0)"
WHY = "Programs take rows in turns, so that what all of them read at one time lies together."
LESS = m.ComparisonTarget(m.LessThan(), m.Name())
IN_64_BITS = (f"{runs.PROGRAM}.to(tl.int64)", f"tl.cast({runs.PROGRAM}, tl.int64)")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lines that say where the run of a program begins and ends, and what it begins with."""

    first: cst.SimpleStatementLine
    last: cst.SimpleStatementLine
    end: str
    program: str
    """Which program it is, in 64 bits."""


def _run(kernel: cst.FunctionDef) -> tuple[Run, str]:
    """The loop, and the constant that it goes on by where it takes a block of rows a turn."""
    try:
        run = runs.blocks_of(kernel)
    except NotUnderstood:
        run = runs.run_of(kernel)
    *plain, last = run.call.args
    if last.keyword is None:
        raise NotUnderstood("it does not load ahead")
    return run, source.code(plain[2].value) if len(plain) > 2 else ""


def _line(kernel: cst.FunctionDef, bound: cst.BaseExpression) -> cst.SimpleStatementLine:
    """Where the kernel's own body makes a bound of the loop."""
    name = source.code(bound)
    found = [one for one in source.statements(kernel) if source.is_plain(one, name)]
    if not isinstance(bound, cst.Name) or len(found) != 1 or times_bound(kernel, name) != 1:
        raise NotUnderstood("a bound of the loop is not made in one line")
    return cst.ensure_type(found[0], cst.SimpleStatementLine)


def _masks(run: Run, end: str) -> list[cst.CSTNode]:
    """The places that ask which rows are there."""
    asked = m.Comparison(left=m.Name(run.row), comparisons=[LESS])
    found = [cst.ensure_type(one, cst.Comparison) for one in findall(run.loop, asked)]
    targets = [one.comparisons[0].comparator for one in found]
    return [one for one in targets if source.code(one) == end]


def _bounds(kernel: cst.FunctionDef, run: Run) -> Bounds:
    begin, end = (arg.value for arg in run.call.args[:2])
    first, last = _line(kernel, begin), _line(kernel, end)
    product = source.value(first)
    if not isinstance(product, cst.BinaryOperation) or not isinstance(product.operator, cst.Multiply):
        raise NotUnderstood("the first row is not a product")
    sides = [source.code(one) for one in (product.left, product.right) if source.code(one) != run.each]
    told = {
        run.each: source.loads(first, run.each) + source.loads(last, run.each),
        source.code(begin): 1 + source.loads(last, source.code(begin)),
        source.code(end): 1 + len(_masks(run, source.code(end))),
    }
    if len(sides) != 1 or any(source.loads(kernel.body, name) != times for name, times in told.items()):
        raise NotUnderstood("more than the loop speaks of the run")
    said = len(re.findall(rf"\b{run.each}\b", source.code(kernel)))
    if said != 1 + told[run.each] or any(times_bound(kernel, name) for name in (run.each, run.rows)):
        raise NotUnderstood("somebody speaks of the run, or counts other rows")
    if any(findall(one, m.Comment()) for one in (first, last, run.call)):
        raise NotUnderstood("something is said of the first row, or of the last")
    return Bounds(first, last, source.code(end), _counted(kernel, sides[0]))


def _counted(kernel: cst.FunctionDef, program: str) -> str:
    """The program, if its number has 64 bits."""
    made = addresses.names_of(kernel).made.get(program)
    if (source.code(made) if made is not None else program) not in IN_64_BITS:
        raise NotUnderstood("rows are counted in 32 bits")
    return program


def _refuse_what_depends(module: cst.Module, kernel: cst.FunctionDef, run: Run) -> None:
    called = {kernels.called_name(call) for call in kernels.calls(run.loop)}
    if any(name.startswith("atomic") or "barrier" in name for name in called):
        raise NotUnderstood("the rows are not independent of each other")
    if findall(run.loop.body, m.For() | m.While() | m.Return() | m.Break() | m.Continue()):
        raise NotUnderstood("the loop holds another, or ends early")
    refuse_dependent(module, kernel, run)


def _parameter(kernel: cst.FunctionDef, each: str) -> cst.Param:
    """What says how many rows a program takes, in a place that others do not lean on."""
    found = [at for at, one in enumerate(kernel.params.params[:-1]) if one.name.value == each]
    if len(found) != 1 or commas.is_spoken_of(kernel.params.params, found[0], kernel.whitespace_before_params):
        raise NotUnderstood("the parameter cannot go")
    return kernel.params.params[found[0]]


def _in_kernel(kernel: cst.FunctionDef, run: Run, step: str, bounds: Bounds) -> cst.FunctionDef:
    times = f" * {step}" if step else ""
    parameter = _parameter(kernel, run.each)
    stages = source.code(run.call.args[-1].value)
    new = f"tl.range({bounds.program}{times}, {run.rows}, {ALL_PROGRAMS}{times}, num_stages={stages})"
    masks = {one: cst.Name(run.rows) for one in _masks(run, bounds.end)}
    loop = cst.ensure_type(source.exchanged(run.loop, {run.call: source.expression(new), **masks}), cst.For)
    loop = loop.with_changes(leading_lines=(*loop.leading_lines, *source.comment_lines(WHY)))
    changes: exchanging.New = {parameter: (), bounds.first: (), bounds.last: (), run.loop: (loop,)}
    changed = cst.ensure_type(exchanging.exchanged(kernel, changes), cst.FunctionDef)
    refuse_long_lines(kernel, changed)
    return changed


def _told(site: LaunchSite, kernel: cst.FunctionDef, each: str) -> cst.Arg:
    """What the launch says of it, in a place that others do not lean on."""
    value = runs.given(site, kernel, each)
    args = site.call.args
    (at,) = [at for at, arg in enumerate(args) if arg.value is value]
    spoken_of = commas.is_spoken_of(args, at, site.call.whitespace_before_args)
    if any(arg.star == "*" for arg in args) or args[-1] is args[at] or spoken_of:
        raise NotUnderstood("the launch would say something else")
    return args[at]


def _no_longer(site: LaunchSite, told: cst.Arg) -> list[cst.CSTNode]:
    """The line of the host that nobody needs any more."""
    name = source.code(told.value)
    if not isinstance(told.value, cst.Name) or imports.mentions(site.function, name) > 2:
        return []
    at = source.last_binding(site, name)
    line = source.statements(site.function)[at] if at is not None else None
    if line is None or not source.is_plain(line, name) or findall(line, m.Comment()):
        raise NotUnderstood("what the launch said is made in more than a line")
    return [line]


def _in_turns(module: cst.Module, name: str, relied_on: Collection[str]) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    run, step = _run(kernel)
    found = source.sites(module, name)
    if len(found) != 1 or name in relied_on or imports.mentions(module, name) != 2:
        raise NotUnderstood(f"{name} is launched {len(found)} times, or others know it")
    runs.shares_all_rows(found[0], kernel, run)
    _refuse_what_depends(module, kernel, run)
    told = _told(found[0], kernel, run.each)
    gone = _no_longer(found[0], told)
    bounds = _bounds(kernel, run)
    lines = (bounds.first, bounds.last)
    shares.refuse_what_tells_programs_apart(module, found[0], kernel, run, bounds.program, lines)
    changed = _in_kernel(kernel, run, step, bounds)
    changes: exchanging.New = {kernel: (changed,), told: (), **dict.fromkeys(gone, ())}
    after = cst.ensure_type(exchanging.exchanged(module, changes), cst.Module)
    return imports.without_unread(after, (*gone, told))


def rewrite(text: str, relied_on: Collection[str] = ()) -> Rewrite | None:
    """Every kernel of the file that goes through a run of rows, loads ahead, and has no block of rows to get.
    `relied_on`: kernels that others launch as they are today."""
    if "num_stages=" not in text:
        return None
    blocked = block_rows.rewrite(text)
    waiting = blocked.kernels if blocked is not None else ()

    def change(module: cst.Module, name: str) -> cst.Module:
        if name in waiting:
            raise NotUnderstood("several rows a turn come first")
        return _in_turns(module, name, relied_on)

    return each_kernel(
        text,
        change,
        title="Rows in turns",
        why="Each program goes through a run of rows, so at any time all of them read in places far from each other. "
        "Where they take rows in turns, they read neighbours.",
        seen="2 to 4 % for sketches of rms_norm's backward on an H200, in the best form of each width.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
