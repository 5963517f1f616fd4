import pytest
import torch

from sample_kernels.ops import SoftmaxFunction
from sample_kernels.transformers import Softmax

SHAPES = [(2, 3, 64), (5, 33), (1, 1), (2, 1025), (17, 7)]


@pytest.mark.parametrize("shape", SHAPES)
def test_forward_and_backward(shape, dtype, device, close):
    x = (2 * torch.randn(shape, device=device)).to(dtype).requires_grad_()
    dy = torch.randn(shape, device=device).to(dtype)
    x_ref = x.detach().double().requires_grad_()

    y, y_ref = SoftmaxFunction.apply(x), torch.softmax(x_ref, dim=-1)
    close(y, y_ref)

    y.backward(dy)
    y_ref.backward(dy.double())
    close(x.grad, x_ref.grad)


def test_large_logits_do_not_overflow(device):
    x = torch.tensor([[1e4, 1e4 - 1, -1e4], [-1e4, -1e4, -1e4]], device=device)
    torch.testing.assert_close(SoftmaxFunction.apply(x), torch.softmax(x, dim=-1))


def test_masked_logits_get_nothing(device):
    x = torch.tensor([[0.5, float("-inf"), 1.0], [float("-inf"), 2.0, float("-inf")]], device=device)
    torch.testing.assert_close(SoftmaxFunction.apply(x), torch.softmax(x, dim=-1))


def test_rows_do_not_see_their_neighbours(device):
    """Seven columns leave an idle lane in a block of eight, right where the next row begins."""
    x = torch.zeros(3, 7, device=device)
    x[1] = 50.0
    torch.testing.assert_close(SoftmaxFunction.apply(x), torch.full_like(x, 1 / 7))


def test_a_transposed_input(device):
    x = torch.randn(12, 6, device=device).T
    torch.testing.assert_close(SoftmaxFunction.apply(x), torch.softmax(x, dim=-1))


def test_no_rows(device):
    x = torch.empty(0, 8, device=device, requires_grad=True)
    y = SoftmaxFunction.apply(x)
    y.sum().backward()
    assert y.shape == x.grad.shape == (0, 8)


def test_a_row_that_is_too_wide_is_refused(device):
    with pytest.raises(ValueError, match="wider than one program can hold"):
        SoftmaxFunction.apply(torch.empty(1, 65537, device=device))


def test_module(device):
    x = torch.randn(2, 3, 10, device=device)
    torch.testing.assert_close(Softmax()(x), torch.softmax(x, dim=-1))
