"""Layers with written-out derivatives, for the CPU: memory is allocated once, gradients are written in place.

Products of large matrices are torch's (`_products.py`), on as many threads as `torch.set_num_threads` allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vecenv.kernel.numba.functions import address_of, native, table_of
from vecenv.trainers import _layers_native
from vecenv.trainers._device import CPU
from vecenv.trainers._networks import Stacks
from vecenv.trainers._optimizer import Flat
from vecenv.trainers._products import multiply, multiply_stacks

_activation_table, _linear_table = table_of("8q"), table_of("10q")
_FEW = 1 << 16
"""Multiplications up to which native code is faster than torch, which has to be called three times."""
Gradients = dict[Any, Tensor]
"""Where the gradient of each parameter goes."""


def gradients_of(flat: Flat) -> tuple[Tensor, Gradients]:
    """A vector of zeros for the gradient of all parameters, and its parts by parameter."""
    vector = torch.zeros_like(flat.vector)
    parts = vector.split([part.numel() for part in flat.parameters])
    return vector, {part: view.view_as(part) for part, view in zip(flat.parameters, parts, strict=True)}


class Hidden:
    """`Stacks`.

    Attributes:
        for_outputs: derivatives by the outputs of each stack, written by the caller before it goes backward.
    """

    for_outputs: list[Tensor]

    def __init__(self, stacks: Stacks, gradients: Gradients) -> None:
        self._weights, self._biases = list(map(Tensor.detach, stacks.weights)), list(map(Tensor.detach, stacks.biases))
        self._turned = [weight.transpose(1, 2) for weight in self._weights]
        self._for_weights = [gradients.get(weight) for weight in stacks.weights]
        self._for_biases = [gradients.get(bias) for bias in stacks.biases]
        self._unused = [torch.empty_like(bias) for bias in self._biases]
        self._block = np.empty(max(bias.shape[-1] for bias in self._biases), np.float32)
        self._count, self._tanh, self._rows = stacks.count, stacks.activation == "tanh", -1

    def forward(self, features: Tensor) -> list[Tensor]:
        """Outputs of each stack, for features [rows, inputs]. The next call overwrites them."""
        if features.shape[0] != self._rows:
            self._make_room(features.shape[0])
        self._inputs[0] = features.expand(self._count, *features.shape)
        self._turned_inputs[0] = self._inputs[0].transpose(1, 2)
        for layer, (hidden, array) in enumerate(self._hidden):
            multiply_stacks(self._inputs[layer], self._weights[layer], hidden, self._biases[layer])
            np.tanh(array, out=array) if self._tanh else hidden.relu_()  # NumPy's tanh is much faster than torch's
        return self._outputs

    def backward(self) -> None:
        """Write the gradients of all layers."""
        for layer in reversed(range(len(self._weights))):
            for_bias: Any = self._for_biases[layer]
            derivative = self._behind_activation(layer, for_bias)
            for_weight: Any = self._for_weights[layer]
            multiply_stacks(self._turned_inputs[layer], derivative, for_weight)
            if layer:
                self._to_layer_before(layer, derivative)

    def backward_to_features(self, first: int) -> Tensor:
        """Derivatives by the features from number `first` on; gradients are left as they are."""
        for layer in reversed(range(1, len(self._weights))):
            self._to_layer_before(layer, self._behind_activation(layer, self._unused[layer]))
        derivative = self._behind_activation(0, self._unused[0])
        return torch.bmm(derivative, self._weights[0][:, first:].transpose(1, 2)).sum(0)

    def _behind_activation(self, layer: int, for_bias: Tensor) -> Tensor:
        """Derivatives by what the activation was given; their sums over rows are written into `for_bias`."""
        (_, array), (derivative, derivative_array) = self._hidden[layer], self._derivatives[layer]
        addresses = address_of(array), address_of(derivative_array), for_bias.data_ptr()
        table = _activation_table(*addresses, *array.shape, self._tanh, address_of(self._block))
        native(_layers_native.behind_activation)(table)
        return derivative

    def _to_layer_before(self, layer: int, derivative: Tensor) -> None:
        multiply_stacks(derivative, self._turned[layer], self._derivatives[layer - 1][0])

    def _make_room(self, rows: int) -> None:
        """Memory for this many rows: tensors, and the same as arrays."""
        self._rows = -1  # after an interrupt in here, the next call begins anew
        sizes = [bias.shape[-1] for bias in self._biases]

        def room() -> list[tuple[Tensor, np.ndarray]]:
            shapes = [(self._count, rows, size) for size in sizes]
            made = [torch.empty(shape, dtype=torch.float32, device=CPU) for shape in shapes]  # not torch's defaults
            return [(tensor, tensor.numpy()) for tensor in made]

        self._hidden, self._derivatives = room(), room()
        self._inputs = [self._biases[0], *(tensor for tensor, _ in self._hidden[:-1])]
        self._turned_inputs = [tensor.transpose(1, 2) for tensor in self._inputs]
        self._outputs = list(self._hidden[-1][0].unbind())
        self.for_outputs = list(self._derivatives[-1][0].unbind())
        self._rows = rows


class Linear:
    """`nn.Linear`.

    Attributes:
        size: how many outputs it has.
    """

    def __init__(self, layer: nn.Linear, gradients: Gradients) -> None:
        self._weight, self._bias = layer.weight.detach(), layer.bias.detach()
        self._for_weight, self._for_bias = gradients[layer.weight], gradients[layer.bias]
        self._turned, self._given = self._weight.t(), self._weight
        self.size = len(self._bias)
        self._block = np.empty(self._weight.numel() + self._bias.numel(), np.float32)

    def forward(self, given: Tensor, out: Tensor | None = None) -> Tensor:
        """Outputs [rows, outputs], written to `out` if it is given."""
        self._given = given
        if out is None:
            return torch.addmm(self._bias, given, self._turned)
        multiply(given, self._turned, out, self._bias)
        return out

    def backward(self, derivative: Tensor, for_given: Tensor) -> None:
        """Write the gradients, and into `for_given` the derivatives by what was given."""
        if derivative.numel() * self._weight.shape[1] <= _FEW:
            tensors = derivative, self._given, self._weight, self._for_weight, self._for_bias, for_given
            sizes = *derivative.shape, self._weight.shape[1], address_of(self._block)
            native(_layers_native.linear_backward)(_linear_table(*[tensor.data_ptr() for tensor in tensors], *sizes))
            return
        multiply(derivative.t(), self._given, self._for_weight)
        multiply(derivative, self._weight, for_given)
        torch.sum(derivative, 0, out=self._for_bias)
