"""Distributions over actions, one class per kind of space. Plain tensors, without checks."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn
from torch.nn import functional

from vecenv.errors import SpaceError
from vecenv.trainers._by_hand_native import FORBIDDEN
from vecenv.trainers._device import host


class Choices(nn.Module):
    """One or several independent choices: Discrete, MultiDiscrete, MultiBinary.

    It needs `inputs` network outputs; `drawn_space` is the space of the sampled actions, before `to_env`.
    """

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        if isinstance(space, spaces.Discrete):
            sizes, start = [int(space.n)], np.asarray(space.start)
        elif isinstance(space, spaces.MultiDiscrete):
            sizes, start = space.nvec.ravel().tolist(), space.start
        else:
            sizes, start = [2] * int(np.prod(space.shape or ())), np.zeros(space.shape or (), np.int64)
        self.sizes, self.inputs = [int(size) for size in sizes], int(sum(sizes))
        self.drawn_space = spaces.MultiDiscrete(self.sizes)
        self._start, self._shape, self._dtype = start, tuple(space.shape or ()), space.dtype

    def draw(self, logits: Tensor, mask: Tensor | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sample actions, as numbers from zero [batch, choices], and their log probabilities."""
        picks, chances = [], []
        for log in self._logs(logits, mask):
            # argmax(p / e) with e exponentially distributed is a sample from p.
            pick = (log.exp() / torch.empty_like(log).exponential_(generator=generator)).argmax(-1, keepdim=True)
            picks.append(pick)
            chances.append(log.gather(-1, pick))
        return _joined(picks), _total(chances).squeeze(-1)

    def mode(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """The most probable actions."""
        return _joined([log.argmax(-1, keepdim=True) for log in self._logs(logits, mask)])

    def judge(self, logits: Tensor, mask: Tensor | None, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log probabilities of actions, and the entropy."""
        chances, entropy = [], []
        for log, pick in zip(self._logs(logits, mask), actions.split(1, -1), strict=True):
            chances.append(log.gather(-1, pick).squeeze(-1))
            entropy.append(-(log.exp() * log).sum(-1))
        return _total(chances), _total(entropy)

    def to_env(self, actions: Tensor) -> np.ndarray:
        """The actions in the form of the envs' action space."""
        return (host(actions).reshape(-1, *self._shape) + self._start).astype(self._dtype, copy=False)

    def to_tensor(self, actions: Tensor) -> Tensor:
        """The same as a tensor, on the device that they are on."""
        start = torch.as_tensor(self._start, device=actions.device)
        return (actions.reshape(-1, *self._shape) + start).to(getattr(torch, np.dtype(self._dtype).name))

    def _logs(self, logits: Tensor, mask: Tensor | None) -> list[Tensor]:
        if mask is not None:
            logits = torch.where(mask, logits, FORBIDDEN)
        if len(self.sizes) == 1:
            return [functional.log_softmax(logits, -1)]
        return [functional.log_softmax(part, -1) for part in logits.split(self.sizes, -1)]


class Gaussian(nn.Module):
    """Independent normal distributions with standard deviations that do not depend on the state: Box.

    Envs get clipped actions. For the attributes see `Choices`.
    """

    def __init__(self, space: spaces.Box, log_std: float) -> None:
        super().__init__()
        self.inputs = int(np.prod(space.shape))
        self.drawn_space = spaces.Box(-np.inf, np.inf, (self.inputs,), np.float32)
        self.log_std = nn.Parameter(torch.full((self.inputs,), float(log_std)))
        self._low, self._high, self._dtype = space.low, space.high, space.dtype

    def draw(self, mean: Tensor, mask: Tensor | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sample actions, not clipped, and their log densities."""
        noise = torch.empty_like(mean).normal_(generator=generator)
        actions = mean + noise * self.log_std.exp()
        return actions, self.judge(mean, mask, actions)[0]

    def mode(self, mean: Tensor, mask: Tensor | None) -> Tensor:
        """The means."""
        return mean

    def judge(self, mean: Tensor, mask: Tensor | None, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log densities of actions, and the entropy."""
        distance = (actions - mean) * (-self.log_std).exp()
        width = self.log_std.sum() + 0.5 * self.inputs * math.log(2 * math.pi)
        log_prob = -0.5 * distance.square().sum(-1) - width
        return log_prob, (width + 0.5 * self.inputs).expand_as(log_prob)

    def to_env(self, actions: Tensor) -> np.ndarray:
        """The actions in the form of the envs' action space."""
        numbers = host(actions).reshape(-1, *self._low.shape)
        return np.minimum(np.maximum(numbers, self._low), self._high).astype(self._dtype, copy=False)

    def to_tensor(self, actions: Tensor) -> Tensor:
        """The same as a tensor, on the device that they are on."""
        low, high = (torch.as_tensor(bound, device=actions.device) for bound in (self._low, self._high))
        numbers = actions.reshape(-1, *self._low.shape)
        return torch.clamp(numbers, low, high).to(getattr(torch, np.dtype(self._dtype).name))


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _total(parts: list[Tensor]) -> Tensor:
    return functools.reduce(torch.add, parts)


def head_of(space: Space[Any], log_std: float = 0.0) -> Choices | Gaussian:
    """The distribution for an action space. Raises SpaceError if none supports the space."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return Choices(space)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Gaussian(space, log_std)
    raise SpaceError(f"PPO supports Discrete, MultiDiscrete, MultiBinary and float Box action spaces, got {space}")
