import torch
from recording import record

from sample_kernels.ops import SoftmaxFunction

ROWS = 4096


def inputs(columns):
    return torch.randn(ROWS, columns, dtype=torch.bfloat16, device="cuda", requires_grad=True)


def sample(columns):
    x = inputs(columns)
    return lambda: SoftmaxFunction.apply(x), [x]


def torch_eager(columns):
    x = inputs(columns)
    return lambda: torch.softmax(x, dim=-1), [x]


if __name__ == "__main__":
    record(
        "softmax",
        {"sample": sample, "torch": torch_eager},
        x_name="N",
        x_label="columns",
        x_values=[1024, 4096, 8192, 32000],
        config={"rows": ROWS, "dtype": "bfloat16"},
    )
