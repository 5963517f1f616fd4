import torch
from recording import record

from sample_kernels.ops import JSDFunction

ROWS = 2048


def inputs(vocabulary):
    log_q, log_p = torch.randn(2, ROWS, vocabulary, dtype=torch.bfloat16, device="cuda").log_softmax(-1).unbind()
    return log_q.detach().clone().requires_grad_(), log_p.clone()


def eager_jsd(log_q, log_p):
    q, p = log_q.float().exp(), log_p.float().exp()
    log_m = ((p + q) / 2).log()
    return (p * (log_p - log_m) + q * (log_q - log_m)).sum(-1).mean() / 2


def sample(vocabulary):
    log_q, log_p = inputs(vocabulary)
    return lambda: JSDFunction.apply(log_q, log_p), [log_q]


def torch_eager(vocabulary):
    log_q, log_p = inputs(vocabulary)
    return lambda: eager_jsd(log_q, log_p), [log_q]


if __name__ == "__main__":
    record(
        "jsd",
        {"sample": sample, "torch": torch_eager},
        x_name="V",
        x_label="vocabulary size",
        x_values=[4096, 8192, 16384, 32000],
        config={"rows": ROWS, "beta": 0.5, "dtype": "bfloat16"},
    )
