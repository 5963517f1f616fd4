from sample_kernels.ops.cross_entropy import CrossEntropyFunction
from sample_kernels.ops.geglu import GELUMulFunction
from sample_kernels.ops.jsd import JSDFunction
from sample_kernels.ops.layer_norm import LayerNormFunction
from sample_kernels.ops.rms_norm import RMSNormFunction
from sample_kernels.ops.softmax import SoftmaxFunction

__all__ = [
    "CrossEntropyFunction",
    "GELUMulFunction",
    "JSDFunction",
    "LayerNormFunction",
    "RMSNormFunction",
    "SoftmaxFunction",
]
