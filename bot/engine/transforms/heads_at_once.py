"""Give a program several heads: of a kernel with a program for each token and head, programs that take up to eight.

A head of 128 numbers in half precision is 256 bytes. A program that moves no more is mostly start and end, and as many
of them as a multiprocessor holds are too few to hide what they wait for: Liger's llama4_rope starts 327,680 such
programs and stood at 24 % of its roof on an H200. As a block of heads their loads are under way together, and what all
heads share is loaded once.

Heads behind the last one are masked as they were kept out before: each load and each store stands below an
`if head < number:`, which becomes a part of its mask, and of the branch remains whether the first head is there. Keys
are a fifth of the queries and less, and a program that has none goes past them: masked alone, 78 queries of 107 pairs
and 13 keys took 1.68x of what v0 takes. With a head a program nothing but the shape changes, and that is what a launch
of few programs gets. The host counts without Triton's `cdiv` and `next_power_of_2`, which take it 1.5 us each: with
them a call was 5.8 us longer, and 1.25x of llama4_rope was rejected for it on an H100. Refused unless the head is used
nowhere else, nothing but loads, stores and element-wise arithmetic of numbers and plain rows stands below those
branches, and nothing of it is used outside.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, runs, source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

AXIS = 1
PARAMETER, VARIABLE, FIRST = "BLOCK_HEADS", "block_heads", "first_head"
MOST_HEADS = 8
FEWEST = 16384
"""Programs from which an eighth of them still are several for each multiprocessor."""
WHY = "Several heads a program: their loads are under way together."
IN_KERNEL = f"{PARAMETER} heads a program; those that are not there are masked."
UNSEEN = frozenset(("program_id", "zeros", "full", "broadcast_to"))
"""Element-wise by their name, and of a place or a shape of their own."""
EXPAND, SPLIT, JOIN = (m.Attribute(m.Name("tl"), m.Name(name)) for name in ("expand_dims", "split", "join"))
PLACES = m.BinaryOperation(
    left=m.Call(func=EXPAND, args=[m.Arg(), m.Arg(m.UnaryOperation(m.Minus(), m.Integer("1")))]),
    operator=m.Add(),
    right=m.Call(func=m.Attribute(m.Name("tl"), m.Name("arange"))),
)
ROUNDS = 4
"""A loop hands names on to its next turn; whoever is not settled by then has a shape that nobody can tell."""
Ranks = Mapping[str, int]


def _head(kernel: cst.FunctionDef) -> tuple[str, cst.SimpleStatementLine]:
    """`head = tl.program_id(1)`: the variable and its line."""
    axes = kernels.program_axes(kernel)
    if sorted(axes, key=str) != [0, AXIS] or kernels.calls(kernel, "num_programs"):
        raise NotUnderstood("it does not ask once for its token and once for its head")
    for line in source.statements(kernel):
        name = next(iter(source.targets(line)), "")
        if source.is_plain(line, name) and source.code(addresses.without_casts(source.value(line))) == (
            f"tl.program_id({AXIS})"
        ):
            return name, cst.ensure_type(line, cst.SimpleStatementLine)
    raise NotUnderstood("the head has no name")


def _guards(kernel: cst.FunctionDef, head: str) -> list[cst.If]:
    """All branches `if head < number:`, below which alone the head is used."""
    numbers = set(source.parameters(kernel))
    wanted = m.If(
        test=m.Comparison(left=m.Name(head), comparisons=[m.ComparisonTarget(m.LessThan(), m.Name())]), orelse=None
    )
    found = [cst.ensure_type(one, cst.If) for one in findall(kernel, wanted)]
    below = sum(source.loads(one.body, head) for one in found)
    if not found or source.loads(kernel.body, head) != len(found) + below:
        raise NotUnderstood("the head is used where nobody asks whether it is there")
    if any(_number(one) not in numbers or findall(one.body, m.If() | m.For() | m.While()) for one in found):
        raise NotUnderstood("a branch is about more than one number of heads")
    return found


def _number(guard: cst.If) -> str:
    return source.code(cst.ensure_type(guard.test, cst.Comparison).comparisons[0].comparator)


def _rank(node: cst.BaseExpression, known: Ranks) -> int:
    """How many dimensions a value has. Raises NotUnderstood where that is not sure."""
    if isinstance(node, cst.Integer | cst.Float):
        return 0
    if isinstance(node, cst.Name) and node.value in known:
        return known[node.value]
    if isinstance(node, cst.UnaryOperation):
        return _rank(node.expression, known)
    if isinstance(node, cst.BinaryOperation):
        return max(_rank(node.left, known), _rank(node.right, known))
    if isinstance(node, cst.Comparison):
        return max(_rank(node.left, known), *(_rank(one.comparator, known) for one in node.comparisons))
    if isinstance(node, cst.Subscript):
        return len(node.slice)
    if isinstance(node, cst.Call):
        return _rank_of_call(node, known)
    raise NotUnderstood(f"nobody knows the shape of {source.code(node)[:40]}")


def _rank_of_call(call: cst.Call, known: Ranks) -> int:
    name = kernels.called_name(call)
    if name in ("arange", "program_id"):
        return int(name == "arange")
    if name in ("to", "cast") and isinstance(call.func, cst.Attribute):
        on_a_value = source.code(call.func.value) not in kernels.LANGUAGE
        return _rank(call.func.value if on_a_value else call.args[0].value, known)
    if name == "split":
        return _rank(call.args[0].value, known) - 1
    if name in ("expand_dims", "join"):
        return 1 + max(_rank(arg.value, known) for arg in call.args[: 1 + (name == "join")])
    if name in kernels.ELEMENTWISE - UNSEEN:
        placed = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "mask"]
        return max((_rank(value, known) for value in placed), default=0)
    raise NotUnderstood(f"nobody knows what {name} makes")


def _ranks(kernel: cst.FunctionDef) -> dict[str, int]:
    """Of every name the most dimensions that it may have; of those that are missing nobody knows."""
    known = dict.fromkeys((*source.parameters(kernel), *_counters(kernel)), 0)
    lines = [line for line in findall(kernel, m.SimpleStatementLine()) if source.targets(line)]
    unsure = {source.code(cst.ensure_type(one, cst.AugAssign).target) for one in findall(kernel, m.AugAssign())}
    for _ in range(ROUNDS):
        before = dict(known)
        for line in lines:
            try:
                rank = _rank(source.value(line), known)
            except NotUnderstood:
                continue
            known |= {name: max(rank, known.get(name, 0)) for name in source.targets(line)}
        if known == before:
            break
    for line in lines:
        try:
            _rank(source.value(line), known)
        except NotUnderstood:
            unsure.update(source.targets(line))
    return {name: rank for name, rank in known.items() if name not in unsure}


def _counters(kernel: cst.FunctionDef) -> list[str]:
    loops = [cst.ensure_type(loop, cst.For).target for loop in findall(kernel, m.For(target=m.Name()))]
    return [cst.ensure_type(target, cst.Name).value for target in loops]


def _refuse_what_is_not_plain(kernel: cst.FunctionDef, guards: list[cst.If]) -> None:
    known = _ranks(kernel)
    lines = [line for line in findall(kernel, m.SimpleStatementLine()) if m.matches(source.value(line), PLACES)]
    places = {name for line in lines for name in source.targets(line) if times_bound(kernel, name) == 1}
    for guard in guards:
        for line in cst.ensure_type(guard.body, cst.IndentedBlock).body:
            if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
                raise NotUnderstood("more than lines stand below a branch")
            _refuse_line(line, known, places)
        made = {name for line in findall(guard.body, m.SimpleStatementLine()) for name in source.targets(line)}
        if any(source.loads(kernel.body, name) != source.loads(guard.body, name) for name in made):
            raise NotUnderstood("what is made of a head is used elsewhere")
        if any(times_bound(kernel, name) != 1 for name in made):
            raise NotUnderstood("a name below a branch is bound elsewhere, and would be of another shape there")


def _is_of_pairs(line: cst.SimpleStatementLine, known: Ranks, places: Collection[str]) -> bool:
    """As `pairs_at_once` leaves them: places of pairs, a load or a store there, and a block of pairs taken apart."""
    (only,) = line.body
    value = only.value if isinstance(only, cst.Expr) else source.value(line)
    if m.matches(value, PLACES):
        return _rank(cst.ensure_type(value, cst.BinaryOperation).left, known) <= 2
    if m.matches(value, m.Call(func=SPLIT, args=[m.Arg(m.Name())])):
        return _rank(value, known) <= 1
    if not isinstance(value, cst.Call) or not (_is(value, "load") or _is(value, "store")):
        return False
    mask = kernels.argument(value, 1 + _is(value, "store"), "mask")
    joined = m.matches(value.args[1].value, m.Call(func=JOIN)) if _is(value, "store") else True
    masked = mask is not None and m.matches(mask, m.Call(func=EXPAND)) and _rank(value, known) <= 2
    return joined and masked and source.code(value.args[0].value) in places


def _refuse_line(line: cst.SimpleStatementLine, known: Ranks, places: Collection[str]) -> None:
    """One assignment or one store, of numbers and rows, or of pairs."""
    if _is_of_pairs(line, known, places):
        return
    (only,) = line.body
    if source.targets(line):
        values: list[cst.BaseExpression] = [source.value(line)]
    elif isinstance(only, cst.Expr) and isinstance(only.value, cst.Call) and _is(only.value, "store"):
        values = [arg.value for arg in only.value.args]
    else:
        raise NotUnderstood("a line is neither an assignment nor a store")
    if any(_rank(value, known) > 1 or findall(value, m.Subscript()) for value in values):
        raise NotUnderstood("a block of several dimensions")


def _is(call: cst.Call, name: str) -> bool:
    return kernels.called_name(call) == name and source.code(call.func) == f"tl.{name}"


class _Masked(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
    """Loads and stores of heads that are there."""

    def __init__(self, test: str) -> None:
        self.test = f"({test})"

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if not (_is(original_node, "load") or _is(original_node, "store")):
            return updated_node
        at = 1 + _is(original_node, "store")
        given = kernels.argument(updated_node, at, "mask")
        if given is None:
            return source.with_argument(updated_node, "mask", source.expression(self.test))
        if isinstance(given, cst.Call) and m.matches(given, m.Call(func=EXPAND)):
            inside = source.expression(f"{_operand(given.args[0].value)} & {self.test}")
            return cst.ensure_type(updated_node.deep_replace(given.args[0].value, inside), cst.Call)
        both = source.expression(f"{_operand(given)} & {self.test}")
        args = [arg.with_changes(value=both) if arg.value is given else arg for arg in updated_node.args]
        return updated_node.with_changes(args=args)


def _operand(mask: cst.BaseExpression) -> str:
    """Comparisons bind less than `&`."""
    said = source.code(mask)
    return said if isinstance(mask, cst.Name) or mask.lpar else f"({said})"


def _opened(guard: cst.If) -> cst.If:
    """For a program whose first head is there, with the others masked."""
    masked = guard.body.visit(_Masked(source.code(guard.test)))
    test = cst.ensure_type(guard.test, cst.Comparison).with_changes(left=cst.Name(FIRST))
    return guard.with_changes(test=test, body=masked)


def _grid(site: LaunchSite) -> tuple[str, str]:
    """The two sizes of the grid; the second has a name."""
    sizes = runs.grid_of(site)
    if len(sizes) != 2 or not isinstance(source.expression(sizes[1]), cst.Name):
        raise NotUnderstood("the number of heads has no name")
    return sizes[0], sizes[1]


def _launch(site: LaunchSite) -> list[cst.BaseStatement]:
    tokens, heads = _grid(site)
    if findall(site.function, m.Name(VARIABLE)):
        raise NotUnderstood(f"{VARIABLE} is taken")
    most = f"min(1 << ({heads} - 1).bit_length(), {MOST_HEADS})"
    of_tokens = source.expression(tokens)
    is_product = m.matches(of_tokens, m.Name() | m.Call() | m.Integer() | m.BinaryOperation(operator=m.Multiply()))
    product = tokens if is_product else f"({tokens})"
    lines = [source.assignment(f"{VARIABLE} = {most} if {product} * {heads} >= {FEWEST} else 1", WHY)]
    fewer = source.expression(f"({tokens}, ({heads} + {VARIABLE} - 1) // {VARIABLE})")
    subscript = cst.ensure_type(site.call.func, cst.Subscript)
    index = cst.SubscriptElement(slice=cst.Index(value=fewer))
    call = cst.ensure_type(site.call.deep_replace(subscript.slice[0], index), cst.Call)
    return source.launched_after(site, lines, source.with_argument(call, PARAMETER, cst.Name(VARIABLE)))


def _unused_grid(site: LaunchSite) -> list[tuple[cst.CSTNode, list[cst.BaseStatement]]]:
    """The line that made the grid goes where it did so for this launch alone."""
    grid = site.grid
    at = source.last_binding(site, grid.value) if isinstance(grid, cst.Name) else None
    if at is None or not isinstance(grid, cst.Name) or source.loads(site.function, grid.value) != 1:
        return []
    return [(source.statements(site.function)[at], [])]


def _several(module: cst.Module, name: str) -> cst.Module:
    """One kernel and its only launch."""
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    head, line = _head(kernel)
    guards = _guards(kernel, head)
    _refuse_what_is_not_plain(kernel, guards)
    sites = source.sites(module, name)
    if len(sites) != 1 or findall(kernel, m.Name(PARAMETER) | m.Name(FIRST)):
        raise NotUnderstood(f"{name} is launched {len(sites)} times, or {PARAMETER} or {FIRST} is taken")
    launch = [(source.line_of(sites[0]), _launch(sites[0])), *_unused_grid(sites[0])]
    edited = source.spliced(
        cst.Module(body=[kernel]), [(line, _placed(line)), *((guard, [_opened(guard)]) for guard in guards)]
    )
    changed = kernels.with_constant(cst.ensure_type(edited.body[0], cst.FunctionDef), PARAMETER)
    return source.spliced(module, [*launch, (kernel, [changed])])


def _placed(line: cst.SimpleStatementLine) -> list[cst.BaseStatement]:
    assign = cst.ensure_type(line.body[0], cst.Assign)
    first = source.assignment(f"{FIRST} = {source.code(assign.value)} * {PARAMETER}", IN_KERNEL)
    block = source.expression(f"{FIRST} + tl.arange(0, {PARAMETER})[:, None]")
    return [
        first.with_changes(leading_lines=(*line.leading_lines, *first.leading_lines)),
        line.with_changes(body=[assign.with_changes(value=block)], leading_lines=()),
    ]


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that takes a head a program."""
    return each_kernel(
        text,
        _several,
        title="Several heads a program",
        why="A program of one head moves a few hundred bytes and is mostly start and end. Several at once have their "
        "loads under way together, and what they share is loaded once.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
