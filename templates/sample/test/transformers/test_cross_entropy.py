import pytest
import torch
import torch.nn.functional as F

from sample_kernels.ops import CrossEntropyFunction
from sample_kernels.transformers import CrossEntropyLoss

SHAPES = [(4, 64), (5, 33), (3, 2), (2, 4097), (17, 7)]

MODES = [
    {"reduction": "sum"},
    {"label_smoothing": 0.1},
    {"lse_square_scale": 1e-2},
    {"softcap": 5.0},
    {"ignore_index": 1, "label_smoothing": 0.2, "lse_square_scale": 1e-2, "softcap": 3.0},
]


def reference(x, labels, weight=None, ignore_index=-100, lse_square_scale=0.0, softcap=None, **rest):
    if softcap is not None:
        x = softcap * torch.tanh(x / softcap)
    loss = F.cross_entropy(x, labels, weight, ignore_index=ignore_index, **rest)
    squares = x.logsumexp(-1)[labels != ignore_index].square()
    return loss + lse_square_scale * (squares.sum() if rest.get("reduction") == "sum" else squares.mean())


def inputs(shape, dtype, device):
    x = (2 * torch.randn(shape, device=device)).to(dtype).requires_grad_()
    return x, torch.arange(shape[0], device=device) % shape[1]


def apply(x, labels, weight=None, **mode):
    stock = {
        "ignore_index": -100,
        "lse_square_scale": 0.0,
        "label_smoothing": 0.0,
        "reduction": "mean",
        "softcap": None,
    }
    return CrossEntropyFunction.apply(x, labels, weight, *(stock | mode).values())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape, mode", [(shape, {}) for shape in SHAPES] + [((5, 33), mode) for mode in MODES])
def test_forward_and_backward(shape, mode, weighted, dtype, device, close):
    x, labels = inputs(shape, dtype, device)
    x_ref = x.detach().double().requires_grad_()
    weight = (0.5 + torch.rand(shape[1], device=device)).to(dtype) if weighted else None

    loss = apply(x, labels, weight, **mode)
    loss_ref = reference(x_ref, labels, weight.double() if weighted else None, **mode)
    close(loss, loss_ref)

    # Three times the loss, so that a backward pass which ignores what arrives is found out.
    (3 * loss).backward()
    (3 * loss_ref).backward()
    close(x.grad, x_ref.grad)


def test_ignored_rows_count_for_nothing_whatever_their_label(device):
    x, _ = inputs((4, 20), torch.float32, device)
    x_ref = x.detach().clone().requires_grad_()
    labels = torch.tensor([3, -100, 19, -100], device=device)
    loss, loss_ref = CrossEntropyFunction.apply(x, labels), F.cross_entropy(x_ref, labels)
    loss.backward()
    loss_ref.backward()
    torch.testing.assert_close(loss, loss_ref)
    torch.testing.assert_close(x.grad, x_ref.grad)
    assert not x.grad[1].any()
    assert not x.grad[3].any()


@pytest.mark.parametrize("weighted", [False, True])
def test_all_rows_ignored(weighted, device):
    x, _ = inputs((3, 20), torch.float32, device)
    weight = torch.rand(20, device=device) if weighted else None
    loss = apply(x, torch.full((3,), 9, device=device), weight, ignore_index=9)
    loss.backward()
    assert loss.item() == 0.0
    assert not x.grad.any()


def test_large_logits_do_not_overflow(device):
    x = torch.tensor([[1e4, 1e4 - 1, -1e4], [-1e4, -1e4, -1e4]], device=device, requires_grad=True)
    labels = torch.tensor([1, 2], device=device)
    loss = CrossEntropyFunction.apply(x, labels)
    loss.backward()
    torch.testing.assert_close(loss, F.cross_entropy(x, labels))
    assert torch.isfinite(x.grad).all()


def test_masked_logits_get_no_gradient(device):
    x = torch.tensor([[0.5, float("-inf"), 1.0]], device=device, requires_grad=True)
    loss = CrossEntropyFunction.apply(x, torch.tensor([2], device=device))
    loss.backward()
    torch.testing.assert_close(loss, F.cross_entropy(x, torch.tensor([2], device=device)))
    assert x.grad[0, 1] == 0


def test_backward_twice_gives_the_same_gradient(device):
    x, labels = inputs((3, 20), torch.float32, device)
    loss = CrossEntropyFunction.apply(x, labels)
    upstream = torch.tensor(2.0, device=device)
    (first,) = torch.autograd.grad(loss, x, upstream, retain_graph=True)
    (second,) = torch.autograd.grad(loss, x, upstream)
    assert torch.equal(first, second)


def test_inputs_keep_their_values(device):
    x, labels = inputs((3, 20), torch.float32, device)
    before = x.detach().clone()
    CrossEntropyFunction.apply(x, labels).backward()
    assert torch.equal(x, before)


def test_bad_arguments_are_refused(device):
    x, labels = inputs((3, 20), torch.float32, device)
    with pytest.raises(ValueError, match="a label a row"):
        CrossEntropyFunction.apply(x, labels[:2])
    with pytest.raises(ValueError, match="weights for 20 classes"):
        CrossEntropyFunction.apply(x, labels, torch.ones(19, device=device))
    with pytest.raises(ValueError, match="expected mean or sum"):
        apply(x, labels, reduction="none")
    with pytest.raises(ValueError, match="the loss alone"):
        CrossEntropyFunction.apply(x, labels, None, -100, 0.0, 0.0, "mean", None, True)
    with pytest.raises(ValueError, match="more than one program can hold"):
        CrossEntropyFunction.apply(torch.empty(1, 131073, device=device), labels[:1])


def test_module(device):
    x, labels = inputs((4, 30), torch.float32, device)
    weight = 0.5 + torch.rand(30, device=device)
    module = CrossEntropyLoss(weight, ignore_index=2, label_smoothing=0.1, softcap=4.0)
    torch.testing.assert_close(
        module(x, labels), reference(x, labels, weight, ignore_index=2, label_smoothing=0.1, softcap=4.0)
    )
