"""A small library of Triton kernels for training language models."""

__version__ = "0.1.0"
