from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from sample_kernels.ops import GELUMulFunction
from sample_kernels.transformers import GEGLUMLP

SHAPES = [(2, 3, 64), (5, 33), (1, 1), (2, 4097), (17, 7)]


def reference(a, b):
    return F.gelu(a, approximate="tanh") * b


def inputs(shape, dtype, device):
    # Three times the usual spread: both the bend of the GELU and its two straight ends are in it.
    a = (3 * torch.randn(shape, device=device)).to(dtype).requires_grad_()
    b = torch.randn(shape, device=device).to(dtype).requires_grad_()
    return a, b, torch.randn(shape, device=device).to(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_forward_and_backward(shape, dtype, device, close):
    a, b, dc = inputs(shape, dtype, device)
    a_ref, b_ref = (t.detach().double().requires_grad_() for t in (a, b))

    c, c_ref = GELUMulFunction.apply(a, b), reference(a_ref, b_ref)
    close(c, c_ref)

    c.backward(dc)
    c_ref.backward(dc.double())
    close(a.grad, a_ref.grad)
    close(b.grad, b_ref.grad)


def test_the_ends_are_flat_and_straight(device):
    """Far from zero GELU is 0 or a, with a slope of 0 or 1; an exponential that overflows would make a NaN of it."""
    a = torch.tensor([-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4], device=device, requires_grad=True)
    b = torch.full_like(a, 2.0).requires_grad_()
    c = GELUMulFunction.apply(a, b)
    c.sum().backward()
    torch.testing.assert_close(c, 2 * torch.clamp(a, min=0))
    torch.testing.assert_close(a.grad, torch.tensor([0, 0, 0, 1, 2, 2, 2.0], device=device))
    torch.testing.assert_close(b.grad, torch.clamp(a.detach(), min=0))


def test_inputs_keep_their_values(device):
    a, b, dc = inputs((3, 20), torch.float32, device)
    before = [t.detach().clone() for t in (a, b, dc)]
    GELUMulFunction.apply(a, b).backward(dc)
    for now, then in zip((a, b, dc), before, strict=True):
        assert torch.equal(now, then)


def test_transposed_inputs(device):
    a, b = torch.randn(2, 12, 6, device=device).transpose(1, 2).unbind()
    torch.testing.assert_close(GELUMulFunction.apply(a, b), reference(a, b))


def test_no_rows(device):
    a = torch.empty(0, 8, device=device, requires_grad=True)
    c = GELUMulFunction.apply(a, torch.empty(0, 8, device=device))
    c.sum().backward()
    assert c.shape == a.grad.shape == (0, 8)


def test_unlike_inputs_are_refused(device):
    a = torch.randn(2, 8, device=device)
    with pytest.raises(ValueError, match="must be alike"):
        GELUMulFunction.apply(a, a[:1])
    with pytest.raises(ValueError, match="must be alike"):
        GELUMulFunction.apply(a, a.half())


def test_module(device):
    mlp = GEGLUMLP(SimpleNamespace(hidden_size=12, intermediate_size=20)).to(device)
    x = torch.randn(2, 3, 12, device=device)
    torch.testing.assert_close(mlp(x), mlp.down_proj(reference(mlp.gate_proj(x), mlp.up_proj(x))))
