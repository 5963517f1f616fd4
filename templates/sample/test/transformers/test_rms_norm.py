import pytest
import torch

from sample_kernels.ops import RMSNormFunction
from sample_kernels.transformers import RMSNorm

EPS = 1e-6

SHAPES = [(2, 4, 64), (3, 33), (1, 1), (2, 1025), (17, 7)]

MODES = [("llama", 0.0), ("gemma", 1.0), ("none", 0.0)]


def reference(x, w, eps=EPS, offset=0.0):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return y if w is None else y * (offset + w)


def inputs(shape, dtype, device, scale=1.0):
    x = (torch.randn(shape, device=device) * scale).to(dtype).requires_grad_()
    w = torch.randn(shape[-1], device=device).to(dtype).requires_grad_()
    return x, w, torch.randn(shape, device=device).to(dtype)


def twin(tensor):
    """The same values in float64, for the reference."""
    return tensor.detach().double().requires_grad_()


@pytest.mark.parametrize("casting_mode, offset", MODES)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_and_backward(shape, casting_mode, offset, dtype, device, close):
    x, w, dy = inputs(shape, dtype, device)
    x_ref, w_ref = twin(x), twin(w)

    y = RMSNormFunction.apply(x, w, EPS, offset, casting_mode)
    y_ref = reference(x_ref, w_ref, offset=offset)
    close(y, y_ref)

    y_ref.backward(dy.double())
    y.backward(dy.clone())
    close(x.grad, x_ref.grad, scale=10)
    close(w.grad, w_ref.grad, scale=shape[0] ** 0.5)


def test_more_rows_than_programs(device):
    """The backward pass gives each program a run of rows; 150 leave some programs without any."""
    x, w, dy = inputs((150, 7), torch.float32, device)
    x_ref, w_ref = twin(x), twin(w)
    RMSNormFunction.apply(x, w, EPS).backward(dy.clone())
    reference(x_ref, w_ref).backward(dy.double())
    torch.testing.assert_close(x.grad, x_ref.grad.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(w.grad, w_ref.grad.float(), rtol=1e-4, atol=1e-4)


def test_eps_counts_for_small_rows(dtype, device, close):
    """At a mean square near eps, a kernel that forgets eps is off by a third."""
    x, w, dy = inputs((4, 40), dtype, device, scale=EPS**0.5)
    x_ref, w_ref = twin(x), twin(w)
    y, y_ref = RMSNormFunction.apply(x, w, EPS), reference(x_ref, w_ref)
    close(y, y_ref)
    y.backward(dy.clone())
    y_ref.backward(dy.double())
    close(x.grad / x_ref.grad.abs().max(), x_ref.grad / x_ref.grad.abs().max())


def test_a_row_of_zeros_stays_zero(device):
    x = torch.zeros(2, 16, device=device, requires_grad=True)
    w = torch.ones(16, device=device, requires_grad=True)
    y = RMSNormFunction.apply(x, w, EPS)
    y.sum().backward()
    assert not y.any()
    assert torch.isfinite(x.grad).all()
    assert not w.grad.any()


@pytest.mark.parametrize("in_place", [True, False])
def test_in_place_writes_over_the_incoming_gradient_only_when_told(in_place, device):
    x, w, dy = inputs((3, 24), torch.float32, device)
    before = dy.clone()
    y = RMSNormFunction.apply(x, w, EPS, 0.0, "llama", in_place)
    (dx,) = torch.autograd.grad(y, x, dy)
    assert torch.equal(dy, dx) == in_place
    assert torch.equal(dy, before) == (not in_place)


def test_without_a_weight(dtype, device, close):
    x, _, dy = inputs((5, 48), dtype, device)
    x_ref = twin(x)
    y, y_ref = RMSNormFunction.apply(x, None, EPS), reference(x_ref, None)
    y.backward(dy.clone())
    y_ref.backward(dy.double())
    close(y, y_ref)
    close(x.grad, x_ref.grad, scale=10)


def test_a_transposed_input(device):
    x = torch.randn(12, 6, device=device).T.requires_grad_()
    w = torch.randn(12, device=device)
    torch.testing.assert_close(RMSNormFunction.apply(x, w, EPS), reference(x, w))


def test_no_rows(device):
    x = torch.empty(0, 8, device=device, requires_grad=True)
    w = torch.ones(8, device=device, requires_grad=True)
    y = RMSNormFunction.apply(x, w, EPS)
    y.sum().backward()
    assert y.shape == x.grad.shape == (0, 8)
    assert not w.grad.any()


def test_row_mode_changes_nothing(device):
    x, w, _ = inputs((3, 16), torch.float32, device)
    expected = RMSNormFunction.apply(x, w, EPS)
    for row_mode in (None, True, False):
        assert torch.equal(RMSNormFunction.apply(x, w, EPS, 0.0, "llama", True, row_mode), expected)


def test_bad_arguments_are_refused(device):
    x, w, _ = inputs((2, 16), torch.float32, device)
    with pytest.raises(ValueError, match="casting_mode is 'lama'"):
        RMSNormFunction.apply(x, w, EPS, 0.0, "lama")
    with pytest.raises(ValueError, match="the rows have 16 columns"):
        RMSNormFunction.apply(x, w[:8], EPS)
    with pytest.raises(ValueError, match="wider than one program can hold"):
        RMSNormFunction.apply(torch.empty(1, 65537, device=device), None, EPS)


def test_module_matches_torch(device):
    norm = RMSNorm(40, eps=1e-5).to(device)
    x = torch.randn(2, 3, 40, device=device)
    torch.testing.assert_close(norm(x), torch.nn.functional.rms_norm(x, (40,), norm.weight, eps=1e-5))
    assert "eps=1e-05" in repr(norm)


def test_gemma_module(device):
    norm = RMSNorm(24, offset=1.0, casting_mode="gemma", init_fn="zeros", in_place=False).to(device)
    x = torch.randn(2, 24, device=device)
    torch.testing.assert_close(norm(x), reference(x, None))
    assert RMSNorm(24, elementwise_affine=False).weight is None
