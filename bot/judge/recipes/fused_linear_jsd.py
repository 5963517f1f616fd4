"""Jensen-Shannon divergence of a student and a teacher whose logits are projections, and are never wholly there."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe
from bot.judge.recipes import jsd


def _log_probability(x: Any, weight: Any, temperature: Any) -> Any:
    logits = x @ weight.T / temperature
    centred = logits - logits.detach().amax(dim=-1, keepdim=True)
    return centred - centred.exp().sum(dim=-1, keepdim=True).log()


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    heat = constants["temperature"]
    student = _log_probability(tensors["student_input"], tensors["student_weight"], heat)
    teacher = _log_probability(tensors["teacher_input"], tensors["teacher_weight"], heat)
    return of_logs(student, teacher, tensors, constants)


def of_logs(student: Any, teacher: Any, tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    """Once the log-probabilities of both are there."""
    found = {"_input": student, "target": teacher}
    if tensors.get("shift_labels") is not None:
        found["shift_labels"] = tensors["shift_labels"]
    return jsd.reference(found, {"beta": constants["jsd_beta"], "ignore_index": constants["ignore_index"]})


def _mode(beta: float | None, **fixed: Any) -> Any:
    """Any weight between the two where none is given."""

    def draw(rng: random.Random) -> Constants:
        return {
            "jsd_beta": round(rng.uniform(0.1, 0.9), 3) if beta is None else beta,
            "ignore_index": rng.choice((-100, -1, 3)),
            "temperature": round(rng.uniform(0.5, 2.0), 3),
            "accum_dtype": None,
            **fixed,
        }

    return draw


RECIPE = Recipe(
    arguments=(
        Operand("student_input", ("rows", "hidden")),
        Operand("student_weight", ("cols", "hidden"), fill="projection"),
        Operand("teacher_input", ("rows", "hidden"), grad=False),
        Operand("teacher_weight", ("cols", "hidden"), fill="projection", grad=False),
        Operand("shift_labels", ("rows",), fill="labels", grad=False, strangers=True),
        Constant("jsd_beta"),
        Constant("ignore_index"),
        Constant("temperature"),
        Constant("accum_dtype"),
    ),
    outputs=(Output("loss", ()),),
    stock={"shift_labels": None, "jsd_beta": 0.5, "ignore_index": -100, "temperature": 1.0, "accum_dtype": None},
    modes=(_mode(None), _mode(None, shift_labels=None), _mode(0.0, shift_labels=None), _mode(1.0)),
    reference=reference,
    # The gradients are made together with the loss.
    forward_traffic=(
        "student_input",
        "student_weight",
        "teacher_input",
        "teacher_weight",
        "dstudent_input",
        "dstudent_weight",
        "loss",
    ),
    backward_traffic=("dstudent_input", "dstudent_weight", "dloss", "dstudent_input", "dstudent_weight"),
    optional=5,
)
