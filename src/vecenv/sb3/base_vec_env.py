"""`VecEnv` and `VecEnvWrapper`, which inherit from those of Stable-Baselines3 where that is installed."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import cloudpickle
import gymnasium
import numpy as np
from gymnasium import Space

from vecenv.engines.process.reaper import MARK
from vecenv.wrappers._video import tile as tile_images

__all__ = [
    "CloudpickleWrapper",
    "VecEnv",
    "VecEnvIndices",
    "VecEnvObs",
    "VecEnvStepReturn",
    "VecEnvWrapper",
    "tile_images",
]

VecEnvIndices: TypeAlias = int | Iterable[int] | None
"""Which envs: None is all of them."""
VecEnvObs: TypeAlias = np.ndarray | dict[str, np.ndarray] | tuple[np.ndarray, ...]
"""Observations of all envs, the first axis is over envs."""
VecEnvStepReturn: TypeAlias = tuple[VecEnvObs, np.ndarray, np.ndarray, list[dict[str, Any]]]
"""Observations, float32 rewards, bool dones and one fresh info dict per env."""


_Class = TypeVar("_Class", bound=type)


def _load_sb3() -> Any:
    """Stable-Baselines3's package of vector envs; None if it is not installed, or in a worker process.

    Workers import modules that use this one. They need no vector envs, and torch would cost each of them seconds and
    hundreds of megabytes.
    """
    package = "stable_baselines3.common.vec_env"
    if MARK in os.environ:
        return sys.modules.get(package)
    try:
        return importlib.import_module(package)
    except ImportError:
        return None


_sb3 = _load_sb3()
if TYPE_CHECKING or _sb3 is None:
    _Base = _WrapperBase = ABC
else:
    _Base, _WrapperBase = _sb3.VecEnv, _sb3.VecEnvWrapper


def counterpart(ours: type) -> type:
    """The class of the same name in Stable-Baselines3; ours itself if there is none."""
    return getattr(_sb3, ours.__name__, ours)


def registered(ours: _Class) -> _Class:
    """Make functions of Stable-Baselines3 that look for a class accept ours of the same name: a class decorator."""
    theirs: Any = counterpart(ours)
    if theirs is not ours:
        theirs.register(ours)
    return ours


def is_vec_env(thing: Any) -> bool:
    """Whether this is a VecEnv, ours or Stable-Baselines3's."""
    return isinstance(thing, counterpart(VecEnv))


class VecEnv(_Base):
    """Several envs stepped together. An episode that ends begins again in the same step.

    Every array that a call returns is new, writable and the caller's.

    Args:
        num_envs: how many.
        observation_space: of a single env.
        action_space: of a single env.

    Attributes:
        reset_infos: the info of each env's latest reset, also of resets at the end of an episode.
        render_mode: of all envs.
    """

    reset_infos: list[dict[str, Any]]
    _seeds: list[int | None]
    _options: list[dict[str, Any]]

    def __init__(self, num_envs: int, observation_space: Space[Any], action_space: Space[Any]) -> None:
        # Stable-Baselines3's is not called: it would reset the seeds and infos of the env inside a wrapper.
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self._start_vec_env()
        try:
            render_modes = self.get_attr("render_mode")
        except AttributeError:
            warnings.warn(
                "The `render_mode` attribute is not defined in your environment. It will be set to None.", stacklevel=2
            )
            render_modes = [None]
        assert all(mode == render_modes[0] for mode in render_modes), (
            f"render_mode mode should be the same for all environments, got {render_modes}"
        )
        self.render_mode: str | None = render_modes[0]
        shown = {None: [], "rgb_array": ["human", "rgb_array"]}.get(self.render_mode, [self.render_mode])
        self.metadata: dict[str, Any] = {"render_modes": shown}

    def _start_vec_env(self) -> None:
        """Set infos, seeds and options to what they are before the first reset."""
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()

    def _reset_seeds(self) -> None:
        """Clear the seeds of the next reset."""
        self._seeds = [None] * self.num_envs

    def _reset_options(self) -> None:
        """Clear the options of the next reset."""
        self._options = [{} for _ in range(self.num_envs)]

    @abstractmethod
    def reset(self) -> VecEnvObs:
        """Begin an episode in every env, with the seeds and options that were set for it.

        The results of a running step are dropped. The infos are in `reset_infos`.
        """

    @abstractmethod
    def step_async(self, actions: Any) -> None:
        """Start a step with one action per env; `step_wait` has its results."""

    @abstractmethod
    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step.

        Every info has "TimeLimit.truncated", whether the episode was cut off rather than terminated. Where it ended,
        `obs` is the first one of the next episode and the info has "terminal_observation".
        """

    @abstractmethod
    def close(self) -> None:
        """Close the envs. May be called twice."""

    def has_attr(self, attr_name: str) -> bool:
        """Whether every env, or a wrapper around it, has the attribute."""
        try:
            self.get_attr(attr_name)
        except AttributeError:
            return False
        return True

    @abstractmethod
    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Read an attribute, searched through each env's wrappers.

        Raises:
            AttributeError: an env has no such attribute.
        """

    @abstractmethod
    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of each env's outermost wrapper.

        To set one where it is, use `env_method("set_wrapper_attr", attr_name, value)`.
        """

    @abstractmethod
    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method, searched through each env's wrappers, and return the results."""

    @abstractmethod
    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Whether each env is inside a wrapper of this class; our Monitor and Stable-Baselines3's count as one."""

    def step(self, actions: Any) -> VecEnvStepReturn:
        """`step_async` and `step_wait`."""
        self.step_async(actions)
        return self.step_wait()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """One RGB image per env; None, with a warning, if the render mode is another than "rgb_array"."""
        raise NotImplementedError(f"{type(self).__name__} has no images")

    def render(self, mode: str | None = None) -> np.ndarray | None:
        """All envs as one picture, returned for "rgb_array"; envs with another mode draw themselves.

        Args:
            mode: None, or the envs' own render mode; others cause a warning. "human" opens a window for "rgb_array".
        """
        shows_images = mode == "human" and self.render_mode == "rgb_array"
        if mode is not None and mode != self.render_mode and not shows_images:
            warnings.warn(
                f"render(mode={mode!r}), but the render mode is determined when the envs are made and is "
                f"{self.render_mode!r}; nothing is rendered",
                stacklevel=2,
            )
            return None
        if self.render_mode is None:
            warnings.warn(
                "You tried to call render() but no `render_mode` was passed to the env constructor.", stacklevel=2
            )
            return None
        if self.render_mode != "rgb_array":
            self.env_method("render")
            return None
        picture = tile_images(self.get_images())  # type: ignore[arg-type]  # of "rgb_array" envs none is None
        if not shows_images:
            return picture
        import cv2  # type: ignore[import-not-found]  # optional

        cv2.imshow("vecenv", picture[:, :, ::-1])  # the name of the window is Stable-Baselines3's too
        cv2.waitKey(1)
        return None

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seeds of the next reset: `seed + k` for env k. None draws one from NumPy's global generator."""
        if seed is None:
            seed = int(np.random.randint(0, np.iinfo(np.uint32).max, dtype=np.uint32))
        self._seeds = [seed + row for row in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Set the options of the next reset: one dict for all envs, or one per env. They are copied."""
        shared = options is None or isinstance(options, dict)
        self._options = deepcopy([options or {}] * self.num_envs if shared else options)  # type: ignore[assignment]

    @property
    def unwrapped(self) -> VecEnv:
        """The innermost vector env."""
        return self

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        """The name of this class if it has an attribute that an outer wrapper has too (`already_found`)."""
        return _class_name(self) if already_found and hasattr(self, name) else None

    def _get_indices(self, indices: VecEnvIndices) -> Iterable[int]:
        """The given indices as numbers; all if None."""
        if indices is None:
            return range(self.num_envs)
        return [int(indices)] if isinstance(indices, (int, np.integer)) else indices


def images_of(venv: VecEnv) -> Sequence[np.ndarray | None]:
    """What `venv.get_images` returns, for that method to call: the results of each env's own `render`."""
    if venv.render_mode == "rgb_array":
        return venv.env_method("render")
    warnings.warn(
        f"The render mode is {venv.render_mode}, but this method assumes it is `rgb_array` to obtain images.",
        stacklevel=3,
    )
    return [None] * venv.num_envs


def _inner(name: str) -> property:
    """An attribute of a wrapper that is the inner env's."""
    return property(lambda self: getattr(self.venv, name), lambda self, value: setattr(self.venv, name, value))


class VecEnvWrapper(VecEnv, _WrapperBase):
    """A VecEnv around another one: override `reset` and `step_wait`.

    Attributes that it lacks are read from the inner one; `reset_infos` always is.

    Args:
        venv: to be wrapped, one of vecenv.sb3 or of Stable-Baselines3.
        observation_space: if it is another than that of `venv`.
        action_space: if it is another than that of `venv`.
    """

    def __init__(
        self, venv: VecEnv, observation_space: Space[Any] | None = None, action_space: Space[Any] | None = None
    ) -> None:
        self.venv = venv
        super().__init__(
            num_envs=venv.num_envs,
            observation_space=venv.observation_space if observation_space is None else observation_space,
            action_space=venv.action_space if action_space is None else action_space,
        )
        self.class_attributes = dict(inspect.getmembers(type(self)))

    def _start_vec_env(self) -> None:
        """Nothing: infos, seeds and options are the inner one's."""

    reset_infos: Any = _inner("reset_infos")
    _seeds: Any = _inner("_seeds")
    _options: Any = _inner("_options")

    def step_async(self, actions: Any) -> None:
        self.venv.step_async(actions)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        return self.venv.seed(seed)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        self.venv.set_options(options)

    def close(self) -> None:
        self.venv.close()

    def render(self, mode: str | None = None) -> np.ndarray | None:
        return self.venv.render(mode=mode)

    def get_images(self) -> Sequence[np.ndarray | None]:
        return self.venv.get_images()

    def has_attr(self, attr_name: str) -> bool:
        return self.venv.has_attr(attr_name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self.venv.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self.venv.set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        return self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        return self.venv.env_is_wrapped(wrapper_class, indices=indices)

    @property
    def unwrapped(self) -> VecEnv:
        return self.venv.unwrapped

    def __getattr__(self, name: str) -> Any:
        # Users of Stable-Baselines3's wrappers rely on this forwarding.
        if name in ("venv", "class_attributes"):  # while a wrapper is being unpickled
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r} yet")
        hidden = self.getattr_depth_check(name, already_found=False)
        if hidden is not None:
            raise AttributeError(
                f"Error: Recursive attribute lookup for {name} from {_class_name(self)} is "
                f"ambiguous and hides attribute from {hidden}"
            )
        return self.getattr_recursive(name)

    def getattr_recursive(self, name: str) -> Any:
        """The attribute of this wrapper or of the first inner one that has it."""
        if name in self.__dict__ or name in self.class_attributes:
            return getattr(self, name)
        # Not plain getattr on an inner wrapper: it would check the depth again.
        inner: Any = self.venv
        return inner.getattr_recursive(name) if hasattr(inner, "getattr_recursive") else getattr(inner, name)

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        """The name of the first class below the first one with this attribute that has it too, if any."""
        here = name in self.__dict__ or name in self.class_attributes
        if here and already_found:
            return _class_name(self)
        return self.venv.getattr_depth_check(name, already_found or here)


class ObservationWrapper(VecEnvWrapper):
    """A wrapper that changes nothing but observations: override `transformed`."""

    @abstractmethod
    def transformed(self, obs: Any) -> Any:
        """What to return instead of the observations of all envs, or of one env's "terminal_observation"."""

    def reset(self) -> Any:
        return self.transformed(self.venv.reset())

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        for row in np.flatnonzero(dones).tolist():
            if "terminal_observation" in infos[row]:
                infos[row]["terminal_observation"] = self.transformed(infos[row]["terminal_observation"])
        return self.transformed(obs), rewards, dones, infos


class CloudpickleWrapper:
    """Holds `var` and is pickled with cloudpickle, so that lambdas and local classes reach other processes."""

    def __init__(self, var: Any) -> None:
        self.var = var

    def __getstate__(self) -> bytes:
        return cloudpickle.dumps(self.var)

    def __setstate__(self, state: bytes) -> None:
        self.var = cloudpickle.loads(state)


def _class_name(venv: VecEnv) -> str:
    return f"{type(venv).__module__}.{type(venv).__name__}"
