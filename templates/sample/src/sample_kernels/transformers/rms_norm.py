import torch
import torch.nn as nn

from sample_kernels.ops import RMSNormFunction


class RMSNorm(nn.Module):
    """Takes the place of `LlamaRMSNorm`; with offset=1.0 and casting_mode="gemma", of `GemmaRMSNorm`."""

    def __init__(
        self,
        hidden_size,
        eps=1e-6,
        offset=0.0,
        casting_mode="llama",
        init_fn="ones",
        in_place=True,
        row_mode=None,
        elementwise_affine=True,
    ):
        super().__init__()
        if init_fn not in ("ones", "zeros"):
            raise ValueError(f"init_fn is {init_fn!r}, expected ones or zeros")
        self.variance_epsilon = eps
        self.offset = offset
        self.casting_mode = casting_mode
        self.in_place = in_place
        self.row_mode = row_mode
        if elementwise_affine:
            self.weight = nn.Parameter(torch.ones(hidden_size) if init_fn == "ones" else torch.zeros(hidden_size))
        else:
            self.register_parameter("weight", None)

    def forward(self, hidden_states):
        return RMSNormFunction.apply(
            hidden_states,
            self.weight,
            self.variance_epsilon,
            self.offset,
            self.casting_mode,
            self.in_place,
            self.row_mode,
        )

    def extra_repr(self):
        width = None if self.weight is None else tuple(self.weight.shape)
        return f"{width}, eps={self.variance_epsilon}, offset={self.offset}, casting_mode={self.casting_mode}"
