"""Networks: an encoder from observations of any space to features, and stacks of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn
from torch.nn import functional

from vecenv._batch.leaf import Leaf
from vecenv.buffers._storage import Storage
from vecenv.errors import ConfigError, SpaceError

ACTIVATIONS = {"tanh": torch.tanh_, "relu": torch.relu_}


class Encoder(nn.Module):
    """Features of observations: numbers unchanged, choices as one-hot vectors, images through convolutions."""

    def __init__(self, space: Space[Any], image_features: int = 512) -> None:
        super().__init__()
        self._tree = Storage(space, (0,))
        self._tree.check_plain("learning")
        self.parts = nn.ModuleList(_part_of(leaf, image_features) for leaf in self._tree.layout.leaves)
        self.features = sum(int(part.features) for part in self.parts)  # type: ignore[arg-type]  # each part has it

    def forward(self, obs: Any) -> Tensor:
        """Features [batch, features] of a batch of observations, nested like the space."""
        leaves = self._tree.flat(obs)
        if len(leaves) == 1:
            return self.parts[0](leaves[0])
        return torch.cat([part(leaf) for part, leaf in zip(self.parts, leaves, strict=True)], -1)


class Numbers(nn.Module):
    """Numbers as one flat float32 vector."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.features = math.prod(shape)

    def forward(self, leaf: Tensor) -> Tensor:
        return leaf.reshape(leaf.shape[0], self.features).float()


class OneHot(nn.Module):
    """Choices as one-hot vectors."""

    def __init__(self, sizes: Sequence[int], start: np.ndarray) -> None:
        super().__init__()
        self.sizes, self.features = [int(size) for size in sizes], int(sum(sizes))
        self._start: Tensor
        self.register_buffer("_start", torch.as_tensor(np.asarray(start, np.int64).ravel()), persistent=False)

    def forward(self, leaf: Tensor) -> Tensor:
        picks = leaf.reshape(leaf.shape[0], len(self.sizes)).long() - self._start
        return torch.cat(
            [functional.one_hot(picks[:, place], size) for place, size in enumerate(self.sizes)], -1
        ).float()


class Pixels(nn.Module):
    """Convolutions over images [batch, channels, height, width], or with the channels last.

    Large images take the three layers of Mnih et al. 2015, small ones two layers of 3 x 3. Those of uint8 are divided
    by `highest`, the highest value of the space, so that inputs are between 0 and 1.
    """

    def __init__(self, shape: tuple[int, ...], features: int, highest: float = 255.0) -> None:
        super().__init__()
        self._highest = highest
        self._last = shape[2] < shape[0]
        channels, *size = (shape[2], *shape[:2]) if self._last else shape
        plan = [(32, 8, 4), (64, 4, 2), (64, 3, 1)] if min(size) >= 36 else [(16, 3, 1), (32, 3, 1)]
        layers: list[nn.Module] = []
        for out, kernel, stride in plan:
            layers += [orthogonal(nn.Conv2d(channels, out, kernel, stride), math.sqrt(2)), nn.ReLU()]
            channels, size = out, [(side - kernel) // stride + 1 for side in size]
        if min(size) < 1:
            raise SpaceError(f"images of shape {shape} are too small for convolutions; use flat observations")
        layers += [nn.Flatten(), orthogonal(nn.Linear(channels * math.prod(size), features), math.sqrt(2)), nn.ReLU()]
        self.layers, self.features = nn.Sequential(*layers), features

    def forward(self, leaf: Tensor) -> Tensor:
        image = leaf.permute(0, 3, 1, 2) if self._last else leaf
        return self.layers(image.float() / self._highest if leaf.dtype == torch.uint8 else image.float())


class Stacks(nn.Module):
    """Several stacks of fully connected layers; each layer of all stacks is computed in one multiplication.

    Args:
        count: number of stacks.
        inputs: number of input features, the same for all stacks.
        hidden: sizes of the layers; the activation follows each of them.
        activation: "tanh" or "relu".
    """

    def __init__(self, count: int, inputs: int, hidden: Sequence[int], activation: str) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f"activation must be one of {', '.join(map(repr, ACTIVATIONS))}, got {activation!r}")
        self.count, self.activation = count, activation
        self.features = hidden[-1] if hidden else inputs
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for size in hidden:
            layers = [nn.init.orthogonal_(torch.empty(size, inputs), math.sqrt(2)).T for _ in range(count)]
            self.weights.append(nn.Parameter(torch.stack(layers)))
            self.biases.append(nn.Parameter(torch.zeros(count, 1, size)))
            inputs = size

    def like_linear(self) -> Self:
        """Draw weights and biases again as `nn.Linear` does, instead of orthogonal ones; return self."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)
        return self

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [stacks, batch, hidden[-1]] for features [batch, inputs]."""
        hidden = features.expand(self.count, *features.shape)
        # Not zip(self.weights, self.biases): a ParameterList takes longer to find its items than to multiply them.
        layers: Any = zip(self.weights._parameters.values(), self.biases._parameters.values(), strict=True)
        activation = ACTIVATIONS[self.activation]
        for weight, bias in layers:
            hidden = activation(torch.baddbmm(bias, hidden, weight))
        return hidden


def example(space: Space[Any], rows: int) -> Any:
    """A batch of observations in the space: of a Box the numbers nearest to zero, of others the first choices."""
    batch = Storage(space, (rows,))
    batch.check_plain("learning")
    for leaf, column in zip(batch.layout.leaves, batch.columns, strict=True):
        if isinstance(leaf.space, spaces.Box):
            column[:] = np.minimum(np.maximum(column, leaf.space.low), leaf.space.high)
        else:
            column += getattr(leaf.space, "start", 0)
    return batch.tree


def orthogonal(layer: Any, gain: float) -> Any:
    """Initialise the layer with orthogonal weights and zero bias, and return it."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def _is_grid(shape: tuple[int, ...]) -> bool:
    """Whether three axes are those of a grid with a few planes, first or last: (3, 10, 10), (10, 10, 4)."""
    planes, *sides = shape if shape[0] <= shape[2] else (shape[2], *shape[:2])
    return planes <= 16 and min(sides) >= 7


def _part_of(leaf: Leaf, image_features: int) -> nn.Module:
    space = leaf.space
    if isinstance(space, spaces.Discrete):
        return OneHot([int(space.n)], np.asarray(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return OneHot(space.nvec.ravel().tolist(), space.start)
    if len(leaf.shape) == 3 and (leaf.dtype == np.uint8 or _is_grid(leaf.shape)):
        return Pixels(
            leaf.shape, image_features, max(float(space.high.max()), 1.0) if isinstance(space, spaces.Box) else 1.0
        )
    return Numbers(leaf.shape)
