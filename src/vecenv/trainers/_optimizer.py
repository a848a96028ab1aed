"""Optimizers over all parameters at once: for small networks, the overhead per tensor takes most of the time."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vecenv._util.checks import brief
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.kernel.numba.functions import address_of, native, table_of
from vecenv.trainers import _optimizer_native

_adam_table = table_of("6q")


class Flat:
    """Parameters as views of one vector, and their gradients as another.

    Args:
        parameters: the data of those that learn is moved into the vector; their modules keep using them.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = [part for part in parameters if part.requires_grad]
        self.vector = torch.cat([part.detach().reshape(-1) for part in self.parameters])
        parts = self.vector.split([part.numel() for part in self.parameters])
        self._views = [own.view_as(part) for own, part in zip(parts, self.parameters, strict=True)]
        for part, view in zip(self.parameters, self._views, strict=True):
            part.data = view

    def join(self) -> bool:
        """Take the numbers of parameters whose `data` was replaced into the vector, and make them its views again.

        Returns:
            Whether all parameters still learn: none was frozen.
        """
        for part, view in zip(self.parameters, self._views, strict=True):
            if part.data_ptr() != view.data_ptr():
                view.copy_(part.detach())
                part.data = view
        return all(part.requires_grad for part in self.parameters)

    def gradient(self, loss: Tensor, max_norm: float = math.inf) -> Tensor:
        """The gradient of a loss as one vector, scaled down to at most `max_norm`; zeros for frozen parameters."""
        learning = [part for part in self.parameters if part.requires_grad]
        found = iter(torch.autograd.grad(loss, learning, allow_unused=True) if learning else ())
        pairs = [(next(found) if part.requires_grad else None, part) for part in self.parameters]
        gradient = torch.cat([(torch.zeros_like(own) if part is None else part).reshape(-1) for part, own in pairs])
        if max_norm < math.inf:
            gradient *= (max_norm / (gradient.norm() + 1e-6)).clamp_(max=1.0)
        return gradient


class Adam:
    """Adam (Kingma and Ba 2015), as torch computes it; on the CPU in one pass of native code."""

    def __init__(self, flat: Flat, learning_rate: float, eps: float) -> None:
        self.learning_rate = learning_rate
        self._flat, self._eps, self._count = flat, eps, 0
        self._mean, self._square = torch.zeros_like(flat.vector), torch.zeros_like(flat.vector)
        self._means = self._mean.split([part.numel() for part in flat.parameters])

    def step(self, gradient: Tensor) -> None:
        """Move the parameters against a gradient."""
        self._count += 1
        for part, own in zip(self._flat.parameters, self._means, strict=True):
            if not part.requires_grad:  # frozen since: what it was moved by before would move it on
                own.zero_()
        vector, mean, square = self._flat.vector, self._mean, self._square
        correction, rate = 1 / math.sqrt(1 - 0.999**self._count), -self.learning_rate / (1 - 0.9**self._count)
        if vector.device.type == "cpu" and vector.dtype == torch.float32:
            numbers = np.array((correction, self._eps, rate))
            pointers = [tensor.data_ptr() for tensor in (vector, gradient, mean, square)]
            native(_optimizer_native.adam)(_adam_table(*pointers, len(vector), address_of(numbers)))
            return
        mean.lerp_(gradient, 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        vector.addcdiv_(mean, square.sqrt().mul_(correction).add_(self._eps), value=rate)

    def state_dict(self) -> dict[str, Any]:
        """The state to continue from."""
        return {"count": self._count, "mean": self._mean, "square": self._square}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a stored state."""
        self._count = state["count"]
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])


class RMSprop:
    """RMSprop, as torch computes it."""

    def __init__(self, flat: Flat, learning_rate: float, eps: float) -> None:
        self.learning_rate = learning_rate
        self._flat, self._eps, self._square = flat, eps, torch.zeros_like(flat.vector)

    def step(self, gradient: Tensor) -> None:
        """Move the parameters against a gradient."""
        self._square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
        self._flat.vector.addcdiv_(gradient, self._square.sqrt().add_(self._eps), value=-self.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        """The state to continue from."""
        return {"square": self._square}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a stored state."""
        self._square.copy_(state["square"])


class TorchOptimizer:
    """An optimizer of torch, or one written like those.

    Args:
        flat: the parameters.
        learning_rate: its learning rate.
        make: the class, or a function that is called the same way: `make(parameters, lr=learning_rate)`.
    """

    def __init__(self, flat: Flat, learning_rate: float, make: Callable[..., torch.optim.Optimizer]) -> None:
        self._flat, self._own = flat, make(flat.parameters, lr=learning_rate)
        if not all(hasattr(self._own, name) for name in ("step", "param_groups", "state_dict", "load_state_dict")):
            raise ConfigTypeError(
                "optimizer must make a torch.optim.Optimizer, or an object with step(), param_groups, state_dict() and "
                f"load_state_dict(); it made {brief(self._own)}"
            )
        closure = inspect.signature(type(self._own).step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise ConfigError(
                f"{type(self._own).__name__} computes the loss several times for one step, which trainers cannot do; "
                "use another optimizer, such as torch.optim.AdamW"
            )
        self._sizes = [part.numel() for part in flat.parameters]
        self._learning_rate = learning_rate
        self._ratios: list[float] = []
        self._note_ratios()

    @property
    def learning_rate(self) -> float:
        """The learning rate; groups of parameters that were made with another one keep their ratio to it."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._note_ratios()
        self._learning_rate = value
        for group, ratio in zip(self._own.param_groups, self._ratios, strict=True):
            group["lr"] = value * ratio

    def _note_ratios(self) -> None:
        """Note the ratio of the learning rates of groups to the setting, of those that there were not before."""
        for group in self._own.param_groups[len(self._ratios) :]:
            rate = float(group.get("lr", self._learning_rate))
            if rate and not self._learning_rate:
                raise ConfigError(
                    "groups of parameters with learning rates of their own keep their ratio to the setting "
                    "learning_rate, which is 0; let it begin at a larger number"
                )
            self._ratios.append(rate / self._learning_rate if self._learning_rate else 1.0)

    def step(self, gradient: Tensor) -> None:
        """Move the parameters against a gradient."""
        for part, own in zip(self._flat.parameters, gradient.split(self._sizes), strict=True):
            part.grad = own.view_as(part) if part.requires_grad else None
        self._own.step()
        self._flat.join()  # some optimizers replace the data of parameters

    def state_dict(self) -> dict[str, Any]:
        """The state to continue from."""
        return self._own.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a stored state."""
        self._own.load_state_dict(state)


OptimizerClass = Callable[..., torch.optim.Optimizer]
OPTIMIZERS: dict[str, type[Adam] | type[RMSprop]] = {"adam": Adam, "rmsprop": RMSprop}


def optimizer_for(
    flat: Flat, learning_rate: float, eps: float, name: str = "adam", own: OptimizerClass | None = None
) -> Adam | RMSprop | TorchOptimizer:
    """The optimizer of a name, or the one that a user passed."""
    if own is not None:
        return TorchOptimizer(flat, learning_rate, own)
    return OPTIMIZERS[name](flat, learning_rate, eps)
