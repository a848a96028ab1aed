"""Where tensors are: names of devices, and the ways of data to a device and back."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vecenv._batch.layout import map_tree
from vecenv.errors import ConfigError
from vecenv.trainers._optimizer import Flat

CPU = torch.device("cpu")
_TRIALS = 20
"""Forward passes that are timed on each device."""


def find_device(name: str | torch.device) -> torch.device:
    """The device of a name; "auto" is the GPU of CUDA if there is one, else the CPU.

    Raises:
        ConfigError: there is no such device on this machine.
    """
    if isinstance(name, torch.device):
        name = str(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f'device must be "auto", "cpu", "cuda" or "mps", got {name!r:.80}') from error
    there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}.get(device.type, lambda: True)()
    if not there:
        raise ConfigError(
            f'device {name!r} is not available: torch {torch.__version__} sees no {device.type} here; use "cpu" or '
            '"auto", or install a torch build for your GPU'
        )
    if device.type != "cuda":
        return device
    if (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device {name!r} is not available: there are {torch.cuda.device_count()} GPUs, from cuda:0")
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def put(tree: Any, device: torch.device) -> Any:
    """Tensors on the device, of a tree of arrays and tensors. On the CPU arrays share their memory with the tensors.

    A tensor that is on the device already is used as it is.
    """
    return map_tree(lambda leaf: _put(leaf, device), tree)


def _put(leaf: Any, device: torch.device) -> Tensor:
    tensor = leaf if isinstance(leaf, Tensor) else torch.from_numpy(np.asarray(leaf))
    return tensor if tensor.device == device or device == CPU == tensor.device else tensor.to(device)


def host(tensor: Tensor) -> np.ndarray:
    """The tensor's numbers as an array. The only way from a device to the host, except for `ActingCopy.refresh`."""
    return tensor.detach().cpu().numpy()


def generator_for(device: torch.device, seed: int) -> torch.Generator:
    """A seeded generator of random numbers for tensors on this device."""
    return torch.Generator("cpu" if device.type == "meta" else device).manual_seed(seed)


class Transfer:
    """Copies trees of arrays to a device: one copy of each array, through pinned memory where CUDA has it.

    The copies do not block. The pinned memory is written again by the next `put`, so between two of them the device
    must have been waited for, as reading the losses of an update does.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pinned: dict[tuple[int, tuple[int, ...], torch.dtype], Tensor] = {}

    def put(self, tree: Any) -> Any:
        """Tensors on the device."""
        if self._device.type != "cuda":
            return put(tree, self._device)
        count = 0

        def copied(leaf: Any) -> Tensor:
            nonlocal count
            tensor = leaf if isinstance(leaf, Tensor) else torch.from_numpy(leaf)
            if tensor.device.type != "cpu":
                return tensor.to(self._device)
            count += 1
            key = count, tuple(tensor.shape), tensor.dtype
            if key not in self._pinned:
                self._pinned[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            return self._pinned[key].copy_(tensor).to(self._device, non_blocking=True)

        return map_tree(copied, tree)


class ActingCopy:
    """A copy of a network on another device, where it acts.

    Attributes:
        network: the copy.
    """

    def __init__(self, network: nn.Module, flat: Flat, device: torch.device) -> None:
        self.network = copy_to(network, device)
        self._learnt, self._learnt_flat = network, flat
        self._flat = Flat(self.network.parameters())

    def refresh(self) -> None:
        """Take over the weights that were learnt: one transfer, and one for each of the network's buffers."""
        self._flat.vector.copy_(self._learnt_flat.vector)
        for own, learnt in zip(self.network.buffers(), self._learnt.buffers(), strict=True):
            own.copy_(learnt)


def copy_to(network: nn.Module, device: torch.device) -> Any:
    """A copy of a network, on a device. From the "meta" device, whose tensors have no data, it is not initialised."""
    twin = copy.deepcopy(network)
    empty = any(part.is_meta for part in twin.parameters()) and device.type != "meta"
    return twin.to_empty(device=device) if empty else twin.to(device)


def faster_of(devices: list[torch.device], run: Callable[[torch.device], Any]) -> torch.device:
    """The device on which `run` takes the least time, measured."""
    seconds = {}
    for device in devices:
        run(device)  # the first run may load or compile something
        began = time.perf_counter()
        for _ in range(_TRIALS):
            run(device)
        seconds[device] = time.perf_counter() - began
    return min(seconds, key=lambda device: seconds[device])
