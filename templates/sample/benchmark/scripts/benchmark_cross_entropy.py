import torch
import torch.nn.functional as F
from recording import record

from sample_kernels.ops import CrossEntropyFunction

ROWS = 2048


def inputs(vocabulary):
    x = torch.randn(ROWS, vocabulary, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    return x, torch.randint(vocabulary, (ROWS,), device="cuda")


def sample(vocabulary):
    x, labels = inputs(vocabulary)
    return lambda: CrossEntropyFunction.apply(x, labels), [x]


def torch_eager(vocabulary):
    x, labels = inputs(vocabulary)
    return lambda: F.cross_entropy(x, labels), [x]


if __name__ == "__main__":
    record(
        "cross_entropy",
        {"sample": sample, "torch": torch_eager},
        x_name="V",
        x_label="vocabulary size",
        x_values=[4096, 32000, 128256],
        config={"rows": ROWS, "dtype": "bfloat16"},
    )
