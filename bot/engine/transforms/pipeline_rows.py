"""Load the next rows while one is worked on: `tl.range(..., num_stages=3)` around a program's run of rows.

The backward of a norm gives each multiprocessor a run of rows. A plain loop asks for a row and waits for it, so memory
stands still while the row is reduced and the multiprocessor while it arrives. With three stages the loads of the rows
to come are under way. On an H200 a sketch of it took rms_norm's backward from 0.121 ms to 0.057 ms (8192 x 4096, with
two rows a step). `num_stages` of the launch does nothing for such a loop: it is about matrix products.

The rows under way lie in shared memory, so rows that are wide in bytes are left as they were; so are those whose width
is no multiple of 16, which is all that Triton is told of a width: they are loaded number by number, two bytes cannot be
copied ahead, and only what a row has one of would be. The backward of fused_add_rms_norm took 163.7 us so where it took
152.5 (4095 x 8191 on an H200). Four bytes can, and of such rows in float32 nobody has read what that gives. A kernel
that tunes itself may also take every n-th row: blocks that do not fit are left out by its tuning. Refused unless the
kernel has one loop over its rows, the rows are loaded in that loop by plain loads, and nothing in it is atomic but
additions to what the kernel does not read, in tensors that the host has made (in one that tunes itself, not those
either). What a turn stores must lie where it loads, or elsewhere than all loads: no row waits for the store of another.
"""

from __future__ import annotations

import libcst as cst

from bot.engine import addresses, host_tensors, imports, kernels, runs, source
from bot.engine.bindings import times_bound
from bot.engine.runs import Run
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

STAGES = 3
TUNED_STAGES = 4
"""A block of a row is short, and tuning drops what does not fit: three turns may be under way."""
PARAMETER, VARIABLE = "ROW_STAGES", "row_stages"
MOST_BYTES = 49152
"""Of all rows loaded in one turn. Two turns are held: 96 KiB, and the smallest chips since Ampere have 99."""
WHY_TUNED = "The rows to come are loaded while one is worked on; tuning drops a block that does not fit then."
WHY = "Rows of whole vectors that fit into shared memory are loaded while one before them is worked on."


def _staged(call: cst.Call, stages: str) -> cst.Call:
    """`tl.range(..., num_stages=stages)` of `range(...)`."""
    call = call.with_changes(func=source.expression("tl.range"))
    return source.with_argument(call, "num_stages", source.expression(stages))


def _pipelined(kernel: cst.FunctionDef, run: Run) -> cst.FunctionDef:
    changed = kernel.deep_replace(run.call, _staged(run.call, PARAMETER))
    return kernels.with_constant(cst.ensure_type(changed, cst.FunctionDef), PARAMETER)


def _has_one_set(kernel: cst.FunctionDef) -> bool:
    """Whether it is said to be tuned with a list of at most one."""
    call = cst.ensure_type(kernel.decorators[0].decorator, cst.Call)
    sets = kernels.argument(call, 0, "configs")
    return isinstance(sets, cst.List) and len(sets.elements) < 2


def _tuned(module: cst.Module, kernel: cst.FunctionDef) -> cst.Module:
    """A kernel that tries its launch numbers: what does not fit into shared memory is not taken, so nobody has to ask
    how wide a row is."""
    run = runs.strides_of(kernel)
    if len(run.call.args) != 3:
        raise NotUnderstood("it loads ahead already")
    if _has_one_set(kernel):
        raise NotUnderstood("with one set of numbers nothing is tried, and nothing left out")
    runs.rows_loaded(kernel, run)
    refuse_dependent(module, kernel, run)
    loop = run.loop.with_changes(
        iter=_staged(run.call, str(TUNED_STAGES)),
        leading_lines=(*run.loop.leading_lines, *source.comment_lines(WHY_TUNED)),
    )
    return source.spliced(module, [(run.loop, [loop])])


def _touches(module: cst.Module, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a function of the file reads or writes memory, or calls one that does."""
    helper = source.kernel_named(module, name)
    if helper is None or name in seen:
        return False
    called = {kernels.called_name(call) for call in kernels.calls(helper)}
    accesses = called & {"load", "store"} or any(one.startswith("atomic") for one in called)
    return (
        bool(accesses)
        or imports.calls_others(module, helper)
        or any(_touches(module, one, seen | {name}) for one in called)
    )


def refuse_dependent(module: cst.Module, kernel: cst.FunctionDef, run: Run) -> None:
    """Raises NotUnderstood where a row may have to wait for what an earlier turn stores."""
    names, parameters = addresses.names_of(kernel), source.parameters(kernel)
    if any(_touches(module, kernels.called_name(call)) for call in kernels.calls(run.loop)):
        raise NotUnderstood("a function of the file reads or writes in the loop")
    if imports.calls_others(module, run.loop):
        raise NotUnderstood("a function of another file may read or write in the loop")
    loads, stores = (
        [
            (runs.base_of(call.args[0].value, names, parameters), sorted(addresses.terms(call.args[0].value, names)))
            for call in kernels.calls(run.loop, kind)
        ]
        for kind in ("load", "store")
    )
    for pointer, place in stores:
        of_row = any(run.row in term for term in place)
        if any(base == pointer and (other != place or not of_row) for base, other in loads):
            raise NotUnderstood("a turn may load what an earlier one stores")


def _refuse_aliases(site: LaunchSite, kernel: cst.FunctionDef) -> None:
    """Raises NotUnderstood unless what is added to is a tensor of the host function's own making that nobody reads."""
    given = {kind: _handed_over(site, kernel, kind) for kind in ("load", "store", runs.ADDS)}
    both = runs.bases(kernel, "load") & runs.bases(kernel, "store")
    if given["load"] & given["store"] - {source.code(runs.given(site, kernel, name)) for name in both}:
        raise NotUnderstood("one tensor is handed over to be read and to be written")
    read = frozenset[str]().union(*(host_tensors.roots(site, name) for name in given["load"]))
    for name in given[runs.ADDS]:
        if not host_tensors.is_new(site, name) or host_tensors.roots(site, name) & read:
            raise NotUnderstood("what is added to may be read as well")


def _handed_over(site: LaunchSite, kernel: cst.FunctionDef, kind: str) -> set[str]:
    """What the launch hands over to be loaded, stored or added to; a pointer may only move to this program's part."""
    found = runs.bases(kernel, kind)
    if any(times_bound(kernel, name) and name not in addresses.names_of(kernel).moved for name in found):
        raise NotUnderstood("a pointer is given another value")
    return {source.code(runs.given(site, kernel, name)) for name in found}


def _launch(site: LaunchSite, kernel: cst.FunctionDef, run: Run) -> list[cst.BaseStatement]:
    """The launch with the stages that fit, and the line that says how many."""
    size = runs.row_bytes(site, kernel, run, may_add=True)
    _refuse_aliases(site, kernel)
    if source.loads(site.function, VARIABLE):
        raise NotUnderstood(f"{VARIABLE} is taken")
    width = runs.width_of(site, kernel, run)
    whole = f"{width} % {kernels.MULTIPLE} == 0 and " if width else ""
    made = source.assignment(f"{VARIABLE} = {STAGES} if {whole}{size} <= {MOST_BYTES} else 1", WHY)
    return source.launched_after(site, [made], source.with_argument(site.call, PARAMETER, cst.Name(VARIABLE)))


def _pipeline(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    if kernels.is_tuned(kernel):
        return _tuned(module, kernel)
    run = runs.run_of(kernel)
    found = source.sites(module, name)
    if len(found) != 1 or PARAMETER in source.parameters(kernel) or len(run.call.args) != 2:
        raise NotUnderstood(f"{name} is launched {len(found)} times, or loads ahead already")
    refuse_dependent(module, kernel, run)
    lines, changed = _launch(found[0], kernel, run), _pipelined(kernel, run)
    return source.spliced(module, [(source.line_of(found[0]), lines), (kernel, [changed])])


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that goes through a run of rows."""
    return each_kernel(
        text,
        _pipeline,
        title="Load the rows to come while one is worked on",
        why="Each program goes through a run of rows, asks for one and waits for it. With three stages the loads of "
        "the next rows are under way meanwhile. Such rows lie in shared memory: those of many bytes stay as they are, "
        "and so do those whose width is no multiple of 16.",
        seen="Up to 2.1x for such a kernel, as a sketch of it gained on an H200 (8192 x 4096, with two rows a step).",
        tuned=True,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
