"""Policies as files for other programs: ONNX and TorchScript."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vecenv._batch.layout import Layout
from vecenv._util.files import write_file
from vecenv.errors import ConfigError, MissingExtra
from vecenv.trainers._device import CPU, copy_to, put
from vecenv.trainers._networks import example

_ROWS = 2
"""Rows of the example that is followed through the network; files take any number of rows."""


def export(policy: Any, path: str | Path) -> None:
    """See `Policy.export`."""
    path = Path(path)
    writers = {".onnx": _onnx, ".pt": _torchscript, ".pth": _torchscript}
    if path.suffix not in writers:
        raise ConfigError(f"the file must end with .onnx, or .pt for TorchScript, got {str(path)!r}")
    if path.suffix == ".onnx":
        for module in ("onnx", "onnxscript"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtra(f"ONNX files need {module}: pip install 'vecenv[onnx]'")
    function = _Function(policy)
    with torch.no_grad():
        write_file(path, writers[path.suffix](function.eval(), *function.example()))


class _Function(nn.Module):
    """A policy as a function of tensors."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.network: Any = copy_to(policy._network, CPU)
        self._layout, self._masked = Layout(policy.observation_space), policy.mask_name is not None
        self._mask_key = policy.mask_key
        self.network.requires_grad_(False)
        self._scales: dict[str, tuple[str, str, float]] = {}
        for number, (key, (mean, deviation, clip)) in enumerate(_moments(policy)):
            self.register_buffer(f"mean_{number}", mean)
            self.register_buffer(f"deviation_{number}", deviation)
            self._scales[key] = f"mean_{number}", f"deviation_{number}", clip

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        count = len(self._layout.leaves)
        raw, rest = self._layout.nest(list(inputs[:count])), list(inputs[count:])
        # Numbers are float64 until they are normalized, as in the policy.
        obs, mask = put(self._normalized(raw), CPU), rest.pop(0) if self._masked else None
        if self._mask_key is not None:
            mask = raw[self._mask_key].flatten(1) != 0
        began = rest.pop() if self.network.recurrent else None
        drawn, memory = self.network.act(obs, tuple(rest) or None, began, mask, None)
        return self.network.head.to_tensor(drawn), *(memory or ())

    def example(self) -> tuple[tuple[Tensor, ...], list[str], list[str]]:
        """Inputs of two rows; the names of inputs and of outputs."""
        inputs = [torch.from_numpy(leaf) for leaf in self._layout.flat(example(self._layout.space, _ROWS))]
        names = [f"obs.{leaf.path}" if leaf.path else "obs" for leaf in self._layout.leaves]
        outputs = ["actions"]
        if self._masked:
            inputs.append(torch.ones(_ROWS, self.network.head.inputs, dtype=torch.bool))
            names.append("mask")
        for number, part in enumerate(self.network.initial_memory(_ROWS, CPU) or ()):
            inputs.append(part)
            names.append(f"memory_{number}")
            outputs.append(f"next_memory_{number}")
        if self.network.recurrent:
            inputs.append(torch.zeros(_ROWS, dtype=torch.bool))
            names.append("began")
        return tuple(part.clone() for part in inputs), names, outputs

    def _normalized(self, obs: Any) -> Any:
        if not self._scales:
            return obs
        if not isinstance(obs, dict):
            return self._scaled("", obs)
        return {key: self._scaled(key, part) if key in self._scales else part for key, part in obs.items()}

    def _scaled(self, key: str, part: Tensor) -> Tensor:
        mean, deviation, clip = self._scales[key]
        return ((part.double() - getattr(self, mean)) / getattr(self, deviation)).clamp(-clip, clip).float()


def _moments(policy: Any) -> list[tuple[str, tuple[Tensor, Tensor, float]]]:
    """Mean, standard deviation and limit of each part of the observation that is normalized."""
    normalize = policy._normalize
    if normalize is None:
        return []
    return [
        (key, (_double(own.mean), _double(np.sqrt(own.var + normalize._epsilon)), float(normalize._clip)))
        for key, own in normalize.moments.items()
    ]


def _double(numbers: Any) -> Tensor:
    """A tensor of NumPy's numbers, which may be a single one."""
    return torch.from_numpy(np.array(numbers, np.float64))


def _torchscript(function: nn.Module, inputs: tuple[Tensor, ...], names: list[str], outputs: list[str]) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that tracing follows one example: what follows here has no branches
        torch.jit.save(torch.jit.trace(function, inputs, check_trace=False), file)
    return file.getvalue()


def _onnx(function: nn.Module, inputs: tuple[Tensor, ...], names: list[str], outputs: list[str]) -> bytes:
    file, rows = io.BytesIO(), torch.export.Dim("rows")
    with warnings.catch_warnings(), _errors_only("torch.onnx"):
        warnings.simplefilter("ignore")  # of torch and onnxscript about themselves
        program: Any = torch.onnx.export(
            function, inputs, dynamo=True, verbose=False, input_names=names, output_names=outputs,
            dynamic_shapes=(tuple({0: rows} for _ in inputs),),
        )  # fmt: skip
        program.save(file)
    return file.getvalue()


@contextlib.contextmanager
def _errors_only(name: str) -> Iterator[None]:
    """Keep a logger from logging warnings, such as that torchvision, which is not needed, is not installed."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
