import torch
from recording import record

from sample_kernels.ops import LayerNormFunction

HIDDEN_SIZE = 4096
EPS = 1e-6


def inputs(rows):
    x = torch.randn(rows, HIDDEN_SIZE, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    w = torch.ones(HIDDEN_SIZE, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    b = torch.zeros(HIDDEN_SIZE, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    return x, w, b


def sample(rows):
    x, w, b = inputs(rows)
    return lambda: LayerNormFunction.apply(x, w, b, EPS), [x, w, b]


def torch_eager(rows):
    x, w, b = inputs(rows)
    return lambda: torch.nn.functional.layer_norm(x, (HIDDEN_SIZE,), w, b, EPS), [x, w, b]


if __name__ == "__main__":
    record(
        "layer_norm",
        {"sample": sample, "torch": torch_eager},
        x_name="T",
        x_label="token length",
        x_values=[1024, 2048, 4096, 8192],
        config={"hidden_size": HIDDEN_SIZE, "dtype": "bfloat16", "eps": EPS},
    )
