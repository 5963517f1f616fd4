"""Kernelwright makes Triton kernels faster and proves it."""

__version__ = "0.1.0"
