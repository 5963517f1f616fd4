from sample_kernels.transformers.cross_entropy import CrossEntropyLoss
from sample_kernels.transformers.geglu import GEGLUMLP
from sample_kernels.transformers.jsd import JSD
from sample_kernels.transformers.layer_norm import LayerNorm
from sample_kernels.transformers.rms_norm import RMSNorm
from sample_kernels.transformers.softmax import Softmax

__all__ = ["CrossEntropyLoss", "GEGLUMLP", "JSD", "LayerNorm", "RMSNorm", "Softmax"]
