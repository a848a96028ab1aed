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
_ALIGNED = 16
"""Parts of a transfer begin at multiples of this many bytes."""


def find_device(name: str | torch.device) -> torch.device:
    """The device of a name; "auto" is the GPU of CUDA if there is one, else the CPU.

    Torch's "meta" device computes nothing: it has no name here, `torch.device("meta")` is for tests.

    Raises:
        ConfigError: there is no such device on this machine.
    """
    known = ("cpu", "cuda", "mps")
    if isinstance(name, torch.device):
        name, known = str(name), (*known, "meta")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f'device must be "auto", "cpu", "cuda" or "mps", got {name!r:.80}') from error
    if device.type not in known:
        raise ConfigError(f'device must be "auto", "cpu", "cuda" or "mps", got {name!r:.80}')
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

    A tensor that is on the device already is used as it is. Float64, which "mps" does not have, becomes float32.
    """
    return map_tree(lambda leaf: _put(leaf, device), tree)


def _put(leaf: Any, device: torch.device) -> Tensor:
    tensor = _single(leaf)
    return tensor if tensor.device == device else tensor.to(device)


def _single(leaf: Any) -> Tensor:
    """An array or a tensor as a tensor, in single precision."""
    tensor = leaf if isinstance(leaf, Tensor) else torch.from_numpy(np.asarray(leaf))
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def host(tensor: Any) -> Any:
    """The tensor's numbers as an array. The only way from a device to the host, except for `ActingCopy.refresh`.

    What is no tensor is on the host already.
    """
    return tensor.detach().cpu().numpy() if isinstance(tensor, Tensor) else tensor


def generator_for(device: torch.device, seed: int) -> torch.Generator:
    """A seeded generator of random numbers for tensors on this device."""
    return torch.Generator("cpu" if device.type == "meta" else device).manual_seed(seed)


class Transfer:
    """Copies trees of arrays to a device in one transfer, without blocking where CUDA has pinned memory.

    What is copied is collected in one buffer on the host. The next `put` writes it again, after it has waited for the
    transfer before.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffer = torch.empty(0, dtype=torch.uint8)
        self._done = torch.cuda.Event() if device.type == "cuda" else None

    def put(self, tree: Any) -> Any:
        """Tensors on the device; float64 becomes float32."""
        if self._device.type == "cpu":
            return put(tree, self._device)
        tree = map_tree(_single, tree)
        leaves: list[Tensor] = []
        map_tree(lambda leaf: leaves.append(leaf) if leaf.device == CPU else None, tree)
        sent = iter(self._send(leaves))
        return map_tree(lambda leaf: next(sent) if leaf.device == CPU else leaf.to(self._device), tree)

    def _send(self, leaves: list[Tensor]) -> list[Tensor]:
        """Tensors of the CPU as parts of one tensor on the device."""
        sizes = [-(-leaf.nbytes // _ALIGNED) * _ALIGNED for leaf in leaves]
        if self._done is not None:
            self._done.synchronize()
        if len(self._buffer) < sum(sizes):
            self._buffer = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=self._done is not None)
        for part, leaf in zip(self._buffer[: sum(sizes)].split(sizes), leaves, strict=True):
            _as(part, leaf).copy_(leaf)
        there = self._buffer[: sum(sizes)].to(self._device, non_blocking=self._done is not None)
        if self._done is not None:
            self._done.record(torch.cuda.current_stream(self._device))
        return [_as(part, leaf) for part, leaf in zip(there.split(sizes), leaves, strict=True)]


def _as(part: Tensor, leaf: Tensor) -> Tensor:
    """Bytes as a tensor of the same type and shape as another."""
    return part[: leaf.nbytes].view(leaf.dtype).view(leaf.shape)


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
