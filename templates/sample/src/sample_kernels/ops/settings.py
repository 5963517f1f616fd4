"""Launch settings shared by the kernels, and the checks their wrappers have in common."""

import functools

import torch
import triton

# The widest row that one program may hold.
MAX_FUSED_SIZE = 65536

# A program has at most 1024 threads; AMD's warps have 64 of them.
MAX_WARPS = 16 if torch.version.hip else 32

# Programs of a persistent kernel where there is no GPU to ask. The results do not depend on it.
PROGRAMS_WITHOUT_GPU = 132


def calculate_settings(n_cols):
    """Block size and warps for a kernel that holds a whole row in one block."""
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    if BLOCK_SIZE > MAX_FUSED_SIZE:
        raise ValueError(f"a row of {n_cols} columns is wider than one program can hold ({MAX_FUSED_SIZE})")

    # Few warps to a program leave room for many programs on a multiprocessor.
    num_warps = 1
    if BLOCK_SIZE > 32768:
        num_warps = 16
    elif BLOCK_SIZE > 16384:
        num_warps = 8
    elif BLOCK_SIZE > 4096:
        num_warps = 4
    elif BLOCK_SIZE > 2048:
        num_warps = 2
    return BLOCK_SIZE, num_warps


def multiprocessor_count(device):
    """How many programs run side by side when each takes one multiprocessor."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).multi_processor_count
    return PROGRAMS_WITHOUT_GPU


def ensure_contiguous(fn):
    """Make every tensor argument contiguous: the kernels walk a row with a stride of one."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        return fn(ctx, *(arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args))

    return wrapper
