"""Where the tests run: on the GPU if there is one, otherwise under Triton's interpreter."""

import os

import pytest
import torch

# Triton reads this when a kernel is decorated, so it is set before a test imports one.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture
def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(params=["float32", "float16", "bfloat16"])
def dtype(request):
    if request.param == "bfloat16" and INTERPRETED:
        pytest.skip("the interpreter computes bfloat16 on its bit pattern; it takes a GPU to test")
    return getattr(torch, request.param)


@pytest.fixture
def close(dtype):
    """Compare with a float64 reference, to the precision of the tensor's type."""
    tolerance = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]

    def compare(actual, expected, scale=1.0):
        torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance * scale)

    return compare


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
