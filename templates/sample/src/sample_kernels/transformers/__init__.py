from sample_kernels.transformers.geglu import GEGLUMLP
from sample_kernels.transformers.jsd import JSD
from sample_kernels.transformers.rms_norm import RMSNorm
from sample_kernels.transformers.softmax import Softmax

__all__ = ["GEGLUMLP", "JSD", "RMSNorm", "Softmax"]
