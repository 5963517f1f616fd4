"""Changes that make no wrong kernel: each kind with the reason why, and nothing else is left out."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.mutants.text import Text, called, is_kernel

Excuse = Callable[[str, str, Text, ast.AST, str], bool]

REDUCTIONS = ("tl.sum", "tl.max", "tl.min")
ZERO_ANYWAY = {
    ("softmax", "_softmax_backward_kernel", "dY_row"),
    ("softmax", "_softmax_backward_kernel", "Y_row"),
    ("rms_norm", "_rms_norm_backward_kernel", "dY_row"),
    ("rms_norm", "_rms_norm_backward_kernel", "X_row"),
    ("rms_norm", "_rms_norm_backward_kernel", "W_row"),
}
"""Loaded values of which every sum takes the product with another of these, which is 0 past the end."""
NUMBERED = ("_CASTING_LLAMA", "_CASTING_GEMMA", "_CASTING_NONE")


def _target(text: Text, node: ast.AST) -> str:
    """The name of what a node is part of the value of."""
    for outer in (node, *text.around(node)):
        if isinstance(outer, ast.Assign):
            return ast.unparse(outer.targets[0])
    return ""


def guards(op: str, rule: str, text: Text, node: ast.AST, new: str) -> bool:
    ifs = [found for found in (node, *text.around(node)) if isinstance(found, ast.If)]
    ifs += [owner for owner in [text.parents.get(node)] if isinstance(owner, ast.If)]
    return any(isinstance(found.body[0], ast.Raise) for found in ifs)


def launch_number(op: str, rule: str, text: Text, node: ast.AST, new: str) -> bool:
    if op == "jsd" and (rule == "half_a_block" or (rule == "wrong_function" and _target(text, node) == "BLOCK_SIZE")):
        return True  # its kernels walk over a row in as many steps as it takes
    return _target(text, node) in ("num_warps", "MAX_BLOCK_SIZE")


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _reaches_a_sum(function: ast.FunctionDef, name: str) -> bool:
    """Whether any reduction of the kernel is made of this value, by way of other names too."""
    tainted, before = {name}, 0
    assigns = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.AugAssign)]
    while len(tainted) != before:
        before = len(tainted)
        for node in assigns:
            if _names(node.value) & tainted:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                tainted |= _names(target)
    return any(called(node) in REDUCTIONS and _names(node) & tainted for node in ast.walk(function))


def fill_unseen(op: str, rule: str, text: Text, node: ast.AST, new: str) -> bool:
    function = text.function(node)
    return rule == "wrong_fill" and function is not None and not _reaches_a_sum(function, _target(text, node))


def fill_times_zero(op: str, rule: str, text: Text, node: ast.AST, new: str) -> bool:
    function = text.function(node)
    name = function.name if function is not None else ""
    return rule == "wrong_fill" and new == "1.0" and (op, name, _target(text, node)) in ZERO_ANYWAY


def converted_by_store(op: str, rule: str, text: Text, node: ast.AST, new: str) -> bool:
    owner = text.parents.get(node)
    return rule == "drop_conversion" and called(owner) == "tl.store" if owner is not None else False


def index_twice(op: str, rule: str, text: Text, node: ast.AST, new: str) -> bool:
    return rule == "drop_conversion" and "tl.int64" in text.of(node) and is_kernel(text.function(node))


def only_numbered_otherwise(op: str, rule: str, text: Text, node: ast.AST, new: str) -> bool:
    name = _target(text, node)
    return rule == "wrong_constant" and (name, new) in ((NUMBERED[1], "2"), (NUMBERED[2], "2"))


def permission_unused(op: str, rule: str, text: Text, node: ast.AST, new: str) -> bool:
    return new == "False" and text.of(node) == "in_place"


EXCUSES: dict[str, Excuse] = {
    "it guards against arguments that no caller may hand over": guards,
    "how many threads run a program and how wide a step is are no matter of right and wrong": launch_number,
    "lanes past the end are neither stored nor part of any sum": fill_unseen,
    "lanes past the end are multiplied by a zero in every sum": fill_times_zero,
    "a store converts to the type of what it writes into by itself": converted_by_store,
    "narrow_index makes the same program: the number of a program has 32 bits": index_twice,
    "the modes are only numbered otherwise, each still unlike the others": only_numbered_otherwise,
    "in_place is a permission to write into dY, not a demand": permission_unused,
}


def why_equivalent(op: str, rule: str, text: Text, node: ast.AST, new: str) -> str:
    return next((why for why, excuse in EXCUSES.items() if excuse(op, rule, text, node, new)), "")
