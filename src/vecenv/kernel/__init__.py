"""Kernels: environments written in plain Python that run as native code.

`vecenv.kernel` is both this package and the decorator: `@vecenv.kernel("Walk-v0")`, `vecenv.kernel.rng.uniform`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from vecenv.kernel import rng
from vecenv.kernel.language.define import Kernel, kernel
from vecenv.kernel.language.params import Params
from vecenv.kernel.language.queues import Queue
from vecenv.kernel.language.registry import kernel_ids, kernel_of

__all__ = ["Kernel", "Params", "Queue", "kernel_ids", "kernel_of", "rng"]


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Callable[[type], type]:
        return kernel(*args, **kwargs)


_CallableModule.__call__.__doc__ = kernel.__doc__
sys.modules[__name__].__class__ = _CallableModule
