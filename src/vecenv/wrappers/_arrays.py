"""Wrappers that change the types users get: tensors instead of NumPy arrays, lists of infos. They go outermost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any, NoReturn

import gymnasium
import numpy as np

from vecenv._front.step import Step
from vecenv._util.extras import load_extra
from vecenv.errors import ConfigTypeError, UnsupportedError
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper


class Outermost(Wrapper):
    """Changes the form of what a user gets, so that no other wrapper of vecenv can go around it."""

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        super().__init__(env, Transform())

    def _inner_step(self, actions: Any, env_ids: Any) -> tuple[Any, Any, Any, Any, Any]:
        if env_ids is None:
            return self.env.step(actions)
        return self._ours("a partial step").step(actions, np.asarray(env_ids))

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = type(self).__name__
        raise UnsupportedError(f"{name} must be the outermost wrapper: put the others inside it, {name}(Other(envs))")

    _exchange_reset = _exchange_step = _exchange_recv = _refuse


class ArrayConversion(Outermost):
    """Arrays of one library in, of another out, by DLPack: without a copy where both can look at the same memory.

    Everything that is a number is converted: observations, rewards, flags, infos and what is in `recv`; actions and
    reset masks the other way round. Arrays of objects keep their form and have converted elements. Tensors that share
    memory with vecenv's arrays are yours, as those would be; see `copy` of `vecenv.make`.

    Args:
        env: the vector env.
        env_xp: the library of the env: `numpy`, `torch`, `jax.numpy` or any other with `from_dlpack`.
        target_xp: that of the user.
        env_device, target_device: where arrays are to be; default: where they are.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        env_xp: ModuleType,
        target_xp: ModuleType,
        env_device: Any = None,
        target_device: Any = None,
    ) -> None:
        super().__init__(env)
        for name, library in (("env_xp", env_xp), ("target_xp", target_xp)):
            if not hasattr(library, "from_dlpack"):
                raise ConfigTypeError(f"{name} must be a library of arrays such as numpy or torch, got {library!r}")
        self._inwards = Converter(env_xp, env_device)
        # JAX requires that its memory is never written to.
        shared = not getattr(self.unwrapped, "copy", True)
        self._outwards = Converter(target_xp, target_device, copy=shared and target_xp.__name__.startswith("jax"))

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """As of the env inside, converted. A mask may be of either library."""
        obs, infos = self.env.reset(seed=seed, options=self._inwards(options))
        return self._outwards(obs), self._outwards(infos)

    def step(self, actions: Any, env_ids: Any = None) -> tuple[Any, Any, Any, Any, Any]:
        """As of the env inside, converted."""
        return self._outwards(self._inner_step(self._inwards(actions), to_numpy(env_ids)))

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """As of the env inside."""
        self._ours("send").send(self._inwards(actions), to_numpy(env_ids))

    def recv(
        self,
        min_envs: int | None = None,
        max_envs: int | None = None,
        *,
        until: float | None = None,
        timeout: float | None = None,
    ) -> Step:
        """As of the env inside, converted: `env_ids` and `ops` too."""
        step = self._ours("recv").recv(min_envs, max_envs, until=until, timeout=timeout)
        converted = {field.name: self._outwards(getattr(step, field.name)) for field in fields(Step)}
        return ConvertedStep(**converted, source=step, convert=self._outwards)

    def render(self) -> Any:
        """One frame per env, converted."""
        return self._outwards(self.env.render())


class NumpyToTorch(ArrayConversion):
    """Tensors of PyTorch around an env of NumPy arrays; on the CPU they are the same memory.

    Args:
        env: the vector env.
        device: where tensors are to be; default: the CPU.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, device: Any = None) -> None:
        super().__init__(env, np, load("torch"), target_device=device)
        self.device = device


class NumpyToJax(ArrayConversion):
    """Arrays of JAX around an env of NumPy arrays. Unless JAX has 64-bit types enabled, it makes them 32-bit copies.

    Args:
        env: the vector env.
        device: where arrays are to be; default: the CPU.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, device: Any = None) -> None:
        super().__init__(env, np, load("jax.numpy"), target_device=device)
        self.device = device


class JaxToNumpy(ArrayConversion):
    """NumPy arrays around an env of JAX arrays. They cannot be written to."""

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        super().__init__(env, load("jax.numpy"), np)


class JaxToTorch(ArrayConversion):
    """Tensors of PyTorch around an env of JAX arrays.

    Args:
        env: the vector env.
        device: where tensors are to be; default: where the arrays are.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, device: Any = None) -> None:
        super().__init__(env, load("jax.numpy"), load("torch"), target_device=device)
        self.device = device


class DictInfoToList(Outermost):
    """Infos as a list of dicts, one per env, instead of a dict of arrays."""

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """As of the env inside, with infos as a list."""
        obs, infos = self.env.reset(seed=seed, options=options)
        return obs, as_list(infos, self.num_envs)

    def step(self, actions: Any, env_ids: Any = None) -> tuple[Any, Any, Any, Any, Any]:
        """As of the env inside, with infos as a list."""
        obs, reward, terminated, truncated, infos = self._inner_step(actions, env_ids)
        return obs, reward, terminated, truncated, as_list(infos, len(reward))

    def recv(
        self,
        min_envs: int | None = None,
        max_envs: int | None = None,
        *,
        until: float | None = None,
        timeout: float | None = None,
    ) -> Step:
        """As of the env inside, with infos as a list."""
        step = self._ours("recv").recv(min_envs, max_envs, until=until, timeout=timeout)
        return replace(step, infos=as_list(step.infos, len(step.env_ids)))


@dataclass(frozen=True, eq=False)
class ConvertedStep(Step):
    """A step of arrays of another library."""

    source: Any = None
    convert: Any = None

    @property
    def rolled(self) -> Any:
        """Where an episode ended and the next one began in this same exchange."""
        return self.convert(self.source.rolled)

    @property
    def next_obs(self) -> Any:
        """The true successor observation of each transition."""
        return self.convert(self.source.next_obs)


class Converter:
    """Converts nested values of any library to those of one library.

    Args:
        xp: the library.
        device: where arrays are to be; None: where they are, or the CPU.
        copy: whether never to share memory.
    """

    def __init__(self, xp: ModuleType, device: Any = None, copy: bool = False) -> None:
        self._xp, self._device, self._copy = xp, device, copy

    def __call__(self, value: Any) -> Any:
        """Convert the arrays in dicts, lists, tuples and arrays of objects; leave anything else."""
        if isinstance(value, Mapping):
            return {key: self(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            parts = [self(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if not hasattr(value, "__dlpack__"):
            return value
        if isinstance(value, np.ndarray) and value.dtype.kind not in "biufc":
            return self._objects(value) if value.dtype == object else value
        return self._array(value)

    def _array(self, value: Any) -> Any:
        if hasattr(value, "detach"):  # a tensor that gradients flow through cannot be exported
            value = value.detach()
        if self._xp is np:
            return to_numpy(value)
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if isinstance(value, np.ndarray) and (self._copy or not _can_be_shared(value)):
            value = np.array(value, value.dtype.newbyteorder("="), order="C")
        try:
            array = self._xp.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError):  # on another device
            array = self._xp.asarray(np.array(to_numpy(value)))
        return array if self._device is None else _moved(array, self._device)

    def _objects(self, value: np.ndarray) -> np.ndarray:
        converted = np.full(value.size, None, object)
        for place, item in enumerate(value.ravel().tolist()):
            if item is not None:  # most of them are None
                converted[place] = self(item)
        return converted.reshape(value.shape)


def as_list(infos: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Gymnasium's dict of arrays as one dict per env, of the keys that it has."""
    dicts: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, values in infos.items():
        if key.startswith("_"):
            continue
        parts = as_list(values, count) if isinstance(values, Mapping) else values
        mask = infos.get(f"_{key}")
        for position in range(count):
            if mask is None or mask[position]:
                dicts[position][key] = parts[position]
    return dicts


def to_numpy(value: Any) -> Any:
    """An array or tensor as a NumPy array, which shares its memory if that is on the CPU; anything else as it is."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "__dlpack__"):
        return value
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):
        return np.asarray(value)


def load(library: str) -> ModuleType:
    """Import an optional library of arrays."""
    return load_extra(library, f"this needs {library}: pip install 'vecenv[{library.partition('.')[0]}]'")


def _can_be_shared(array: np.ndarray) -> bool:
    """Whether DLPack can describe the array. PyTorch aborts the process if it receives negative strides."""
    return array.flags.writeable and array.dtype.isnative and all(stride >= 0 for stride in array.strides)


def _moved(array: Any, device: Any) -> Any:
    if hasattr(array, "to"):
        return array.to(device)
    if isinstance(device, str):
        device = load("jax").devices(device)[0]
    return load("jax").device_put(array, device)
