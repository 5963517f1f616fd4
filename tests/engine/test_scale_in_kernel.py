"""A gradient times the number that arrives: a kernel in place of torch's broadcast, with the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import scale_in_kernel
from tests.engine.library import HEAD, changes, interpret

BACKWARD = f"""{HEAD}def loss_backward(grads, grad_output):
    # The last layer hands over 1.0.
    if torch.equal(grad_output, torch.tensor(1.0, device=grad_output.device)):
        return grads

    return grads * grad_output  # a new tensor
"""


def scaled(text: str) -> str | None:
    found = scale_in_kernel.rewrite(text)
    return found.text if found is not None else None


def test_the_product_changes_and_a_kernel_comes_before_the_function() -> None:
    after = scaled(BACKWARD)
    assert after is not None
    gone, new = changes(BACKWARD, after)
    assert gone == ["    return grads * grad_output  # a new tensor"]
    assert new[-1] == "    return _scaled(grads, grad_output)  # a new tensor"
    assert after.index("def _scale_kernel") < after.index("def _scaled(") < after.index("def loss_backward")
    assert "\n\n\n@triton.jit\ndef _scale_kernel" in after and "    return out\n\n\ndef loss_backward" in after


def test_the_factor_may_come_first_and_stand_behind_an_else() -> None:
    text = BACKWARD.replace("grads * grad_output", "grad_output * grads")
    after = scaled(text)
    assert after is not None and "_scaled(grads, grad_output)" in after
    branched = text.replace("\n    return grad_output * grads", "    else:\n        return grad_output * grads")
    after = scaled(branched)
    assert after is not None and "        return _scaled(grads, grad_output)" in after


def test_there_is_nothing_to_scale_twice() -> None:
    after = scaled(BACKWARD)
    assert after is not None and scaled(after) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("no shortcut says that it is one number", "torch.equal(grad_output, ", "torch.allclose(grad_output, "),
        ("compared with another number", "torch.tensor(1.0,", "torch.tensor(2.0,"),
        ("two tensors", "grads * grad_output", "grads * grads"),
        ("no product", "grads * grad_output", "grads / grad_output"),
        ("a part of a sum", "grads * grad_output", "grads * grad_output + 1"),
        ("made anew", "    # The last", "    grad_output = grad_output * 2\n    # The last"),
        (
            "two products",
            "    return grads * grad",
            "    if weight:\n        return weight * grad_output\n    return grads * grad",
        ),
        ("a name that is taken", "def loss_backward", "def _scaled(x):\n    return x\n\n\ndef loss_backward"),
        ("no language to write a kernel in", "import triton.language as tl", "from triton import language as tl"),
    ],
)
def test_torch_multiplies_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in BACKWARD
    assert scaled(BACKWARD.replace(before, after)) is None, why


COMPILED = """
import importlib.util, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

spec = importlib.util.spec_from_file_location("op", sys.argv[1])
op = importlib.util.module_from_spec(spec)
spec.loader.exec_module(op)
types = {"out_ptr": "*bf16", "x_ptr": "*bf16", "factor_ptr": "*fp32", "n_elements": "i32", "BLOCK_SIZE": "constexpr"}
aligned = {(at,): [["tt.divisibility", 16]] for at in (0, 1)}
made = compile(ASTSource(op._scale_kernel, types, {(4,): 1024}, attrs=aligned), target=GPUTarget("cuda", 90, 32))
print(*(made.asm["ptx"].count(f"{way}.global.v4.b32") for way in ("ld", "st")))
"""


def test_compiled_for_a_gpu_whole_blocks_are_vectors_however_many_elements_there_are(tmp_path: Path) -> None:
    after = scaled(BACKWARD)
    assert after is not None
    (tmp_path / "op.py").write_text(after)
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILED, str(tmp_path / "op.py")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1", "1"]
    assert "    if start + BLOCK_SIZE <= n_elements:  #" in after, "the last block may be a whole one"


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for dtype in (torch.float16, torch.float32, torch.float64):
    for shape in ((3, 700), (1, 1), (0, 5), (2, 1024)):
        grads = torch.randn(shape).to(dtype)
        for factor in (torch.tensor(1.0), torch.tensor(-2.5), torch.tensor(3.0, dtype=dtype), torch.rand(shape)):
            for given in (grads, grads.T.contiguous().T):
                expected, found = before.loss_backward(given, factor), after.loss_backward(given, factor)
                assert found.dtype == expected.dtype and torch.equal(found, expected), (dtype, shape, factor)
                assert (found is given) == (expected is given)

PADDED = ((1, 128), (131, 1)), ((3, 128), (131, 1)), ((3, 1), (7, 1)), ((3, 1), (1, 5)), ((2, 1, 64), (64, 99, 1)),
DENSE = ((4, 5), (5, 1)), ((4, 5), (1, 4)), ((1, 128), (128, 1)), ((2, 1, 64), (64, 64, 1)), ((1,), (3,)), ((), ())
for shape, strides in (*PADDED, *DENSE):
    given, factor = torch.randn(2000).as_strided(shape, strides), torch.tensor(-2.5)
    expected, found = before.loss_backward(given, factor), after.loss_backward(given, factor)
    assert found.stride() == expected.stride() and torch.equal(found, expected), (shape, strides, found.stride())

whole = torch.arange(6).view(2, 3)
expected, found = before.loss_backward(whole, torch.tensor(2.5)), after.loss_backward(whole, torch.tensor(2.5))
assert found.dtype == expected.dtype == torch.float32 and torch.equal(found, expected)
asked = torch.tensor(2.5, requires_grad=True)
assert after.loss_backward(torch.randn(4, 5), asked).requires_grad
with torch.no_grad():
    assert not after.loss_backward(torch.randn(4, 5), asked).requires_grad

launched = []
kernel = after._scale_kernel
class Seen:
    def __getitem__(self, grid):
        launched.append(grid)
        return kernel[grid]

after._scale_kernel = Seen()
for shape, strides in (((4, 500), (500, 1)), ((1, 128), (128, 1)), ((2, 1, 64), (64, 64, 1))):
    after.loss_backward(torch.randn(2000).as_strided(shape, strides), torch.tensor(-2.5))
assert launched == [(2,), (1,), (1,)], launched
"""


def test_the_result_is_the_one_of_torch(tmp_path: Path) -> None:
    after = scaled(BACKWARD)
    assert after is not None
    interpret(tmp_path, RUN, before=BACKWARD, after=after)
