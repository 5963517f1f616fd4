import pytest
import torch
import torch.nn.functional as F

from sample_kernels.ops import LayerNormFunction
from sample_kernels.transformers import LayerNorm

EPS = 1e-6

SHAPES = [(2, 4, 64), (3, 33), (1, 1), (2, 1025), (17, 7)]


def reference(x, w, b, eps=EPS):
    return F.layer_norm(x, x.shape[-1:], w, b, eps)


def inputs(shape, dtype, device, scale=1.0):
    x = (torch.randn(shape, device=device) * scale).to(dtype).requires_grad_()
    w, b = (torch.randn(shape[-1], device=device).to(dtype).requires_grad_() for _ in range(2))
    return x, w, b, torch.randn(shape, device=device).to(dtype)


def twin(tensor):
    """The same values in float64, for the reference."""
    return tensor.detach().double().requires_grad_()


@pytest.mark.parametrize("shape", SHAPES)
def test_forward_and_backward(shape, dtype, device, close):
    x, w, b, dy = inputs(shape, dtype, device)
    x_ref, w_ref, b_ref = twin(x), twin(w), twin(b)

    y, y_ref = LayerNormFunction.apply(x, w, b, EPS), reference(x_ref, w_ref, b_ref)
    close(y, y_ref)

    y.backward(dy)
    y_ref.backward(dy.double())
    close(x.grad, x_ref.grad, scale=10)
    close(w.grad, w_ref.grad, scale=shape[0] ** 0.5)
    close(b.grad, b_ref.grad, scale=shape[0] ** 0.5)


def test_more_rows_than_programs(device):
    """The backward pass gives each program a run of rows; 150 leave some programs without any."""
    x, w, b, dy = inputs((150, 7), torch.float32, device)
    x_ref, w_ref, b_ref = twin(x), twin(w), twin(b)
    LayerNormFunction.apply(x, w, b, EPS).backward(dy)
    reference(x_ref, w_ref, b_ref).backward(dy.double())
    for found, expected in ((x, x_ref), (w, w_ref), (b, b_ref)):
        torch.testing.assert_close(found.grad, expected.grad.float(), rtol=1e-4, atol=1e-4)


def test_eps_counts_for_small_rows(dtype, device, close):
    """At a variance near eps, a kernel that forgets eps is off by a third."""
    x, w, b, dy = inputs((4, 40), dtype, device, scale=EPS**0.5)
    x_ref, w_ref, b_ref = twin(x), twin(w), twin(b)
    y, y_ref = LayerNormFunction.apply(x, w, b, EPS), reference(x_ref, w_ref, b_ref)
    close(y, y_ref)
    y.backward(dy)
    y_ref.backward(dy.double())
    close(x.grad / x_ref.grad.abs().max(), x_ref.grad / x_ref.grad.abs().max())


def test_a_row_far_from_zero_keeps_its_spread(device):
    """The variance is that of the centred row: a difference of two large squares would be noise here."""
    x = 300 + torch.randn(3, 100, device=device)
    w, b = torch.ones(100, device=device), torch.zeros(100, device=device)
    expected = reference(x.double(), w.double(), b.double()).float()
    torch.testing.assert_close(LayerNormFunction.apply(x, w, b, EPS), expected, rtol=1e-3, atol=1e-3)


def test_inputs_keep_their_values(device):
    x, w, b, dy = inputs((3, 20), torch.float32, device)
    before = [t.detach().clone() for t in (x, w, b, dy)]
    LayerNormFunction.apply(x, w, b, EPS).backward(dy)
    for now, then in zip((x, w, b, dy), before, strict=True):
        assert torch.equal(now, then)


def test_a_transposed_input(device):
    x = torch.randn(12, 6, device=device).T
    w, b = torch.randn(2, 12, device=device).unbind()
    torch.testing.assert_close(LayerNormFunction.apply(x, w, b, EPS), reference(x, w, b))


def test_no_rows(device):
    x = torch.empty(0, 8, device=device, requires_grad=True)
    w, b = torch.ones(8, device=device, requires_grad=True), torch.zeros(8, device=device, requires_grad=True)
    y = LayerNormFunction.apply(x, w, b, EPS)
    y.sum().backward()
    assert y.shape == x.grad.shape == (0, 8)
    assert not w.grad.any()
    assert not b.grad.any()


def test_bad_arguments_are_refused(device):
    x, w, b, _ = inputs((2, 16), torch.float32, device)
    with pytest.raises(ValueError, match="for rows of 16 columns"):
        LayerNormFunction.apply(x, w[:8], b, EPS)
    with pytest.raises(ValueError, match="for rows of 16 columns"):
        LayerNormFunction.apply(x, w, b[:8], EPS)
    wide = torch.empty(65537, device=device)
    with pytest.raises(ValueError, match="wider than one program can hold"):
        LayerNormFunction.apply(wide[None], wide, wide, EPS)


def test_module(device):
    norm = LayerNorm(40, eps=1e-5).to(device)
    x = torch.randn(2, 3, 40, device=device)
    torch.testing.assert_close(norm(x), reference(x, norm.weight, norm.bias, 1e-5))
    assert "eps=1e-05" in repr(norm)
