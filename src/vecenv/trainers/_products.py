"""Products of matrices on the CPU, where torch has two libraries for them: MKL, and oneDNN.

torch takes MKL, which on processors of AMD uses 256 of the 512 bits that vectors have with AVX-512. oneDNN uses all, so
large products take half the time there. A call of it takes longer, so small ones are left to MKL, and so are all
products on processors of Intel, where MKL is the faster one.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_LARGE = 1 << 22
"""Number of multiplications in one product from which oneDNN is faster."""
_AMD = "AuthenticAMD"


def one_dnn() -> Callable[..., Tensor] | None:
    """The product of oneDNN; None if this torch has none."""
    if not torch.backends.mkldnn.is_available():
        return None
    # Not part of torch's public interface, so it is looked for; what torch.compile makes calls it.
    return getattr(getattr(torch.ops.mkldnn, "_linear_pointwise", None), "default", None)


def _is_faster() -> bool:
    """Whether oneDNN is faster than MKL on this processor."""
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    described = Path("/proc/cpuinfo")
    return _AMD in (described.read_text() if described.is_file() else platform.processor())


_product: Any = one_dnn() if _is_faster() else None


def multiply(given: Tensor, weight: Tensor, out: Tensor, bias: Tensor | None = None) -> None:
    """Write `given` [rows, inputs] times `weight` [inputs, outputs], plus a bias [outputs], into `out`."""
    if _product is not None and given.numel() * weight.shape[1] >= _LARGE:
        bias = None if bias is None else bias.contiguous()  # oneDNN ignores a bias's strides
        out.copy_(_product(given, weight.t(), bias, "none", [], ""))
    elif bias is None:
        torch.mm(given, weight, out=out)
    else:
        torch.addmm(bias, given, weight, out=out)


def multiply_stacks(given: Tensor, weight: Tensor, out: Tensor, bias: Tensor | None = None) -> None:
    """The same for several: [stacks, rows, inputs] times [stacks, inputs, outputs], biases [stacks, 1, outputs]."""
    if _product is not None and given.numel() * weight.shape[2] >= _LARGE * given.shape[0]:
        for stack in range(len(given)):
            multiply(given[stack], weight[stack], out[stack], None if bias is None else bias[stack, 0])
    elif bias is None:
        torch.bmm(given, weight, out=out)
    else:
        torch.baddbmm(bias, given, weight, out=out)
