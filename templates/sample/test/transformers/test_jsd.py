import pytest
import torch

from sample_kernels.ops import JSDFunction
from sample_kernels.transformers import JSD

# The last row is wider than one block of the kernel's loop.
SHAPES = [(4, 64), (5, 33), (1, 1), (2, 16390)]

BETAS = [0.0, 0.1, 0.5, 1.0]


def reference(log_q, log_p, labels=None, beta=0.5, ignore_index=-100):
    q, p = log_q.exp(), log_p.exp()
    if beta == 0.0:
        per_row = (p * (log_p - log_q)).sum(-1)
    elif beta == 1.0:
        per_row = (q * (log_q - log_p)).sum(-1)
    else:
        log_m = (beta * p + (1 - beta) * q).log()
        per_row = (beta * p * (log_p - log_m) + (1 - beta) * q * (log_q - log_m)).sum(-1)
    if labels is None:
        return per_row.mean()
    counted = labels != ignore_index
    return (per_row * counted).sum() / counted.sum().clamp(min=1)


def inputs(shape, dtype, device):
    log_q, log_p = torch.randn(2, *shape, device=device).log_softmax(-1).to(dtype).unbind()
    return log_q.detach().requires_grad_(), log_p


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_and_backward(shape, beta, dtype, device, close):
    log_q, log_p = inputs(shape, dtype, device)
    log_q_ref = log_q.detach().double().requires_grad_()

    loss = JSDFunction.apply(log_q, log_p, None, beta)
    loss_ref = reference(log_q_ref, log_p.double(), beta=beta)
    close(loss, loss_ref)

    # Three times the loss, so that a backward pass which ignores what arrives is found out.
    (3 * loss).backward()
    (3 * loss_ref).backward()
    close(log_q.grad, log_q_ref.grad, scale=1 / shape[1])


@pytest.mark.parametrize("beta", BETAS)
def test_ignored_rows_count_for_nothing(beta, dtype, device, close):
    log_q, log_p = inputs((5, 40), dtype, device)
    log_q_ref = log_q.detach().double().requires_grad_()
    labels = torch.tensor([3, -100, 0, -100, 7], device=device)

    loss = JSDFunction.apply(log_q, log_p, labels, beta)
    loss_ref = reference(log_q_ref, log_p.double(), labels, beta)
    close(loss, loss_ref)
    loss.backward()
    loss_ref.backward()
    close(log_q.grad, log_q_ref.grad, scale=1 / 40)
    assert not log_q.grad[1].any()
    assert not log_q.grad[3].any()


def test_all_rows_ignored(device):
    log_q, log_p = inputs((3, 20), torch.float32, device)
    loss = JSDFunction.apply(log_q, log_p, torch.full((3,), 9, device=device), 0.5, 9)
    loss.backward()
    assert loss.item() == 0.0
    assert not log_q.grad.any()


@pytest.mark.parametrize("beta", BETAS)
def test_equal_distributions_have_no_divergence(beta, device):
    log_q, _ = inputs((3, 50), torch.float32, device)
    loss = JSDFunction.apply(log_q, log_q.detach().clone(), None, beta)
    torch.testing.assert_close(loss, torch.zeros_like(loss), atol=1e-6, rtol=0)


def test_backward_twice_gives_the_same_gradient(device):
    log_q, log_p = inputs((3, 20), torch.float32, device)
    loss = JSDFunction.apply(log_q, log_p)
    upstream = torch.tensor(2.0, device=device)
    (first,) = torch.autograd.grad(loss, log_q, upstream, retain_graph=True)
    (second,) = torch.autograd.grad(loss, log_q, upstream)
    assert torch.equal(first, second)


def test_bad_arguments_are_refused(device):
    log_q, log_p = inputs((3, 20), torch.float32, device)
    with pytest.raises(ValueError, match="two alike matrices"):
        JSDFunction.apply(log_q, log_p[:2])
    with pytest.raises(ValueError, match="labels for 3 rows"):
        JSDFunction.apply(log_q, log_p, torch.zeros(2, device=device))
    for beta in (-0.1, 1.1):
        with pytest.raises(ValueError, match="expected 0 to 1"):
            JSDFunction.apply(log_q, log_p, None, beta)


def test_module(device):
    log_q, log_p = inputs((4, 30), torch.float32, device)
    labels = torch.tensor([1, 2, -1, 4], device=device)
    loss = JSD(beta=0.3, ignore_index=-1)(log_q, log_p, labels)
    torch.testing.assert_close(loss, reference(log_q, log_p, labels, 0.3, -1))
