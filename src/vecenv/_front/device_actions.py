"""Actions for envs on a device: tensors of torch, arrays of other libraries, or the host's. Checked before a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv._batch.batch import Batch
from vecenv._front.rollout import pack_time
from vecenv.errors import InvalidAction

if TYPE_CHECKING:
    from vecenv.engines.device.memory import DeviceMemory


class DeviceActions:
    """From what a user passes to tensors on the device, one of each leaf of the action space.

    Args:
        batch: of the envs.
        columns: tensors of the columns of actions, one of each leaf.
        memory: counts copies between host and device.
    """

    def __init__(self, batch: Batch, columns: list[Any], memory: DeviceMemory) -> None:
        import torch

        self._torch, self._batch, self._memory = torch, batch, memory
        self.columns, self._device = columns, columns[0].device

    def nest(self, tensors: list[Any]) -> Any:
        """Tensors of all leaves, arranged as the action space is."""
        return self._batch.action_layout.nest(tensors)

    def tensors(self, actions: Any) -> list[Any]:
        """A tensor on the device of each leaf. Raises InvalidAction."""
        parts = self._parts_of(actions)
        if not any(map(_is_on_device, parts)):
            parts = self._from_host(actions)
        return [self._tensor(part, column) for part, column in zip(parts, self.columns, strict=True)]

    def memory_of(self, tensors: list[Any]) -> tuple[int, Any]:
        """The address of the actions if they need not be copied, and what keeps them alive; else 0."""
        if len(tensors) == 1 and tensors[0].is_contiguous():
            return tensors[0].data_ptr(), tensors[0]
        for column, tensor in zip(self.columns, tensors, strict=True):
            column.copy_(tensor)
        return 0, None

    def of_time(self, actions: Any, steps: int | None) -> tuple[Any, int]:
        """Actions [T, N, ...] whose first axis can be indexed, and T. Raises InvalidAction; ConfigError for `steps`."""
        if isinstance(actions, (list, tuple)) and actions and all(map(_is_on_device, actions)):
            actions = self._stacked([self._as_tensor(moment) for moment in actions])
        if steps is not None or not _is_on_device(actions):
            columns, count = pack_time(self._batch, actions, steps)  # also says what is wrong
            return columns[0], count
        tensor, wanted = self._as_tensor(actions), tuple(self.columns[0].shape)
        if tuple(tensor.shape[1:]) != wanted or not len(tensor):
            shown = ", ".join(["T", *map(str, wanted)])
            raise InvalidAction(f"actions have shape {tuple(tensor.shape)}, want ({shown}) with T >= 1")
        return tensor, len(tensor)

    def _stacked(self, moments: list[Any]) -> Any:
        shapes = {tuple(moment.shape) for moment in moments}
        if len(shapes) > 1:
            raise InvalidAction(f"actions have different shapes at different times: {sorted(shapes)}")
        return self._torch.stack(moments)

    def _parts_of(self, actions: Any) -> list[Any]:
        """Actions of each leaf. Raises InvalidAction."""
        try:
            return self._batch.action_layout.flat(actions)
        except (TypeError, KeyError, ValueError, IndexError):
            return self._from_host(actions)  # says what is wrong

    def _from_host(self, actions: Any) -> list[Any]:
        """NumPy's arrays or lists, checked as on all engines, as tensors on the device. Raises InvalidAction."""
        packed = self._batch.action_layout.pack(actions, len(self._batch))
        self._memory.transfers += len(packed)
        pairs = zip(packed, self.columns, strict=True)
        return [self._torch.from_numpy(one).to(self._device, column.dtype) for one, column in pairs]

    def _tensor(self, actions: Any, column: Any) -> Any:
        """Actions of one leaf as a tensor on the device. Raises InvalidAction."""
        if not _is_on_device(actions):
            raise InvalidAction("some actions are tensors and others are not; pass tensors for all parts of the space")
        tensor, wanted = self._as_tensor(actions), tuple(column.shape)
        if tensor.device.type != column.device.type or (tensor.is_cuda and tensor.device != column.device):
            raise InvalidAction(
                f"actions are on {tensor.device}, these envs on {column.device}; use .to({str(column.device)!r})"
            )
        if tensor.dtype != column.dtype:
            is_tensor = isinstance(actions, self._torch.Tensor)
            advice = f"use .to({column.dtype})" if is_tensor else "convert them before"
            raise InvalidAction(f"actions are {tensor.dtype}, these envs take {column.dtype}; {advice}")
        if tuple(tensor.shape) != wanted:
            raise InvalidAction(f"actions have shape {tuple(tensor.shape)}, these envs take {wanted}")
        return tensor

    def _as_tensor(self, actions: Any) -> Any:
        """A tensor, or an array of another library as one, without a copy. Raises InvalidAction."""
        torch = self._torch
        try:
            if isinstance(actions, torch.Tensor):
                tensor = actions.detach()
            elif hasattr(actions, "__dlpack__"):
                tensor = torch.from_dlpack(actions)
            else:
                tensor = torch.as_tensor(actions)
        except Exception as error:  # whatever the other library, or torch, says about it
            raise InvalidAction(
                f"actions of type {type(actions).__name__} cannot be used on {self._device}: {error}"
            ) from error
        if tensor.layout is not torch.strided:
            raise InvalidAction(f"actions are a tensor of layout {tensor.layout}; use .to_dense()")
        return tensor


def _is_on_device(actions: Any) -> bool:
    """Whether these are a tensor, or an array of another library that becomes one without a copy."""
    if isinstance(actions, (np.ndarray, np.generic)):
        return False
    return hasattr(actions, "__dlpack__") or hasattr(actions, "__cuda_array_interface__")
