import torch
import torch.nn.functional as F
from recording import record

from sample_kernels.ops import GELUMulFunction

INTERMEDIATE_SIZE = 14336


def inputs(rows):
    shape = (rows, INTERMEDIATE_SIZE)
    return [torch.randn(shape, dtype=torch.bfloat16, device="cuda", requires_grad=True) for _ in range(2)]


def sample(rows):
    a, b = inputs(rows)
    return lambda: GELUMulFunction.apply(a, b), [a, b]


def torch_eager(rows):
    a, b = inputs(rows)
    return lambda: F.gelu(a, approximate="tanh") * b, [a, b]


if __name__ == "__main__":
    record(
        "geglu",
        {"sample": sample, "torch": torch_eager},
        x_name="T",
        x_label="token length",
        x_values=[1024, 2048, 4096, 8192],
        config={"intermediate_size": INTERMEDIATE_SIZE, "dtype": "bfloat16"},
    )
