"""A number that is compared with one is read by the host, which decides as before whatever arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from bot.engine.transforms import read_the_number, scale_at_store, scale_in_kernel
from tests.engine.library import changes
from tests.engine.test_scale_at_store import LOSS
from tests.engine.test_scale_in_kernel import BACKWARD

COMPARED = "torch.equal(grad_output, torch.tensor(1.0, device=grad_output.device))"
READ = "grad_output.dim() == 0 and grad_output.item() == 1.0"
ASKS = f'''"""The end of a loss."""

import torch


def backward(grads, grad_output):
    # The last layer hands over 1.0.
    if {COMPARED}:
        pass
    # All others do not.
    elif grad_output.ndim > 0:
        grads = grads * grad_output
    return grads
'''


def read(text: str) -> str | None:
    found = read_the_number.rewrite(text)
    return found.text if found is not None else None


def test_the_question_changes_and_nothing_else() -> None:
    after = read(ASKS)
    assert after is not None
    assert changes(ASKS, after) == ([f"    if {COMPARED}:"], [f"    # {read_the_number.WHY}", f"    if {READ}:"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"if {COMPARED}:", f"if {READ}:"),
        (f"if not {COMPARED}:", f"if not ({READ}):"),
        (f"if not({COMPARED}):", f"if not ({READ}):"),
        (f"if({COMPARED}):", f"if {READ}:"),
        (f"if grads is None:\n        return None\n    elif {COMPARED}:", f"elif {READ}:"),
        (f"if {COMPARED.replace('.device)', '.device, dtype=grad_output.dtype)')}:", f"if {READ}:"),
    ],
)
def test_a_question_may_be_asked_in_other_words(before: str, after: str) -> None:
    found = read(ASKS.replace(f"if {COMPARED}:", before))
    assert found is not None and f"    # {read_the_number.WHY}\n    {after}\n" in found
    compile(found, "op.py", "exec")


def test_all_questions_of_a_file_are_read_and_none_twice() -> None:
    both = ASKS + ASKS.split("import torch\n")[1].replace("backward", "other").replace("grad_output", "dloss")
    found = read_the_number.rewrite(both)
    assert found is not None and found.text.count(read_the_number.WHY) == 2 and COMPARED not in found.text
    assert "grad_output and dloss" in found.why
    assert read(found.text) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("another number", "torch.tensor(1.0,", "torch.tensor(2.0,"),
        ("two tensors", "torch.tensor(1.0, device=grad_output.device)", "grads"),
        ("a number of the host alone", "1.0, device=grad_output.device", "1.0"),
        ("another device", "device=grad_output.device", "device=grads.device"),
        ("one that needs a gradient", "device=grad_output.device", "device=grad_output.device, requires_grad=True"),
        ("not quite equal", "torch.equal(", "torch.allclose("),
        ("more is asked", f"if {COMPARED}", f"if grads is None or {COMPARED}"),
        ("an answer that is kept", f"if {COMPARED}", f"same = {COMPARED}\n    if same"),
        ("something that is worked out", "torch.equal(grad_output,", "torch.equal(grad_output * 2,"),
        ("a word inside of it", "torch.equal(grad_output, ", "torch.equal(  # is it?\n        grad_output, "),
        ("no Python", "def backward(", "def backward(:"),
    ],
)
def test_torch_compares_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in ASKS
    assert read(ASKS.replace(before, after)) is None, why


DECIDES = "def decides(x):\n    if {}:\n        return True\n    return False\n"


def decides(text: str) -> Callable[[torch.Tensor], bool]:
    found: dict[str, Any] = {"torch": torch}
    exec(text, found)
    return found["decides"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64"]
)
def test_the_host_decides_as_before_whatever_arrives(dtype: str) -> None:
    """Also a bfloat16 beside the float32 that torch.tensor(1.0) is, and one element that has dimensions."""
    before = DECIDES.format(COMPARED.replace("grad_output", "x"))
    after = read(before)
    assert after is not None
    was, now = decides(before), decides(after)
    answers = []
    for value in (1.0, 0.0, -1.0, 2.0, 1 + 2**-7, 1 + 2**-8, 1 - 2**-11, 1 + 2**-23, 1 + 2**-40, float("nan")):
        for shape in ((), (1,), (1, 1), (3,), (0,)):
            x = torch.full(shape, value, dtype=torch.float64).to(getattr(torch, dtype))
            assert now(x) is was(x), (value, shape)
            answers.append(now(x))
    assert True in answers and False in answers
    assert was(torch.ones((), dtype=getattr(torch, dtype))) and not was(torch.ones(1, dtype=getattr(torch, dtype)))


def test_what_arrives_may_need_a_gradient_or_come_from_a_graph() -> None:
    after = read(DECIDES.format(COMPARED.replace("grad_output", "x")))
    assert after is not None
    one = torch.ones((), requires_grad=True)
    assert decides(after)(one) and decides(after)(one * 1) and not decides(after)(one * 2)


@pytest.mark.parametrize(
    ("scale", "text"), [(scale_in_kernel, BACKWARD), (scale_in_kernel, LOSS), (scale_at_store, LOSS)]
)
def test_a_gradient_is_scaled_before_or_after_with_the_same_end(scale: Any, text: str) -> None:
    first, then = scale.rewrite(text), scale.rewrite(read(text))
    assert first is not None and then is not None
    assert (read(first.text) or first.text) == then.text
    assert (read_the_number.WHY in then.text) is (scale is scale_in_kernel)
    assert "torch.equal(" not in then.text


def test_two_names_are_no_question() -> None:
    after = read(BACKWARD)
    assert after is not None
    assert scale_in_kernel.rewrite(after.replace("grad_output.dim()", "grads.dim()")) is None
