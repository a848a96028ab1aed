"""Outputs of PPO's network for a few observations, in one native call: calls of torch would take most of the time."""

from __future__ import annotations

import numpy as np

from vecenv.kernel.numba.functions import address_of, native, table_of
from vecenv.trainers import _few_native
from vecenv.trainers._actor_critic import ActorCritic

MOST = 1 << 18
"""Multiplications up to which this is faster than torch; about 25 rows for two layers of 64."""


class Few:
    """`ActorCritic` of fully connected layers, on the CPU, without gradients."""

    def __init__(self, network: ActorCritic) -> None:
        stacks = network.stacks
        pairs = [*zip(stacks.weights, stacks.biases, strict=True)]
        pairs += [(layer.weight, layer.bias) for layer in (network.actor, network.critic)]
        self._layers = [(weight.detach(), bias.detach()) for weight, bias in pairs]
        sizes = [weight.shape[-2:] for weight in stacks.weights]
        self._sizes = [*sizes, *(weight.shape[::-1] for weight, _ in self._layers[-2:])]
        self._depth, self._tanh = len(stacks.weights), stacks.activation == "tanh"
        self._widest = max(size for _, size in sizes)
        self._each = sum(weight.numel() for weight, _ in self._layers)

    def fits(self, rows: int) -> bool:
        """Whether this many rows are computed faster here than by torch."""
        return rows * self._each <= MOST

    def forward(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs of the head, and values [rows, 1]."""
        given, rows = np.ascontiguousarray(features), len(features)
        outputs = np.empty((rows, self._sizes[-2][1]), np.float32)
        values, room = np.empty((rows, 1), np.float32), np.empty(2 * rows * self._widest, np.float32)
        words = [address_of(given), rows, self._depth, self._tanh, address_of(room), self._widest]
        words += address_of(outputs), address_of(values)
        for (weight, bias), size in zip(self._layers, self._sizes, strict=True):
            # Addresses are asked for at each call: sending a network to another process moves its memory.
            words += weight.data_ptr(), bias.data_ptr(), *size
        native(_few_native.forward)(table_of(f"{len(words)}q")(*words))
        return outputs, values
