import torch.nn as nn

from sample_kernels.ops import CrossEntropyFunction


class CrossEntropyLoss(nn.Module):
    """Takes the place of `torch.nn.CrossEntropyLoss`, and can cap the logits and penalise the log of their sum."""

    def __init__(
        self,
        weight=None,
        ignore_index=-100,
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="mean",
        softcap=None,
    ):
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.lse_square_scale = lse_square_scale
        self.label_smoothing = label_smoothing
        self.reduction = reduction
        self.softcap = softcap

    def forward(self, _input, target):
        return CrossEntropyFunction.apply(
            _input,
            target,
            self.weight,
            self.ignore_index,
            self.lse_square_scale,
            self.label_smoothing,
            self.reduction,
            self.softcap,
        )
