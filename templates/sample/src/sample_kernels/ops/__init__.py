from sample_kernels.ops.geglu import GELUMulFunction
from sample_kernels.ops.jsd import JSDFunction
from sample_kernels.ops.rms_norm import RMSNormFunction
from sample_kernels.ops.softmax import SoftmaxFunction

__all__ = ["GELUMulFunction", "JSDFunction", "RMSNormFunction", "SoftmaxFunction"]
