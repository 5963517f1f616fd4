import torch.nn as nn

from sample_kernels.ops import GELUMulFunction


class GEGLUMLP(nn.Module):
    """The MLP of Gemma: down(gelu(gate(x)) * up(x)). `config` names hidden_size and intermediate_size."""

    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(GELUMulFunction.apply(self.gate_proj(x), self.up_proj(x)))
