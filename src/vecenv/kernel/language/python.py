"""A kernel as a plain Python env: what you debug, and what native code is compared with."""

from __future__ import annotations

import ast
import inspect
import numbers
import warnings
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import gymnasium
import numpy as np

from vecenv.errors import ConfigError, KernelError
from vecenv.kernel.language.array_module import runnable
from vecenv.kernel.language.declared import per_env
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.fields import Cells, Record, cells
from vecenv.kernel.language.mistakes import MISTAKES, located
from vecenv.kernel.language.params import not_for_an_episode
from vecenv.kernel.language.ports import ActionPort, ObservationPort
from vecenv.kernel.rng import Stream


class KernelEnv(gymnasium.Env[Any, Any]):
    """One env of a kernel, run by Python itself: a breakpoint in `step` works.

    Native code gives the same bits. `vecenv.make_env(id)` builds it, with a time limit around it.

    Args:
        kernel: the definition.
        render_mode: None, or a mode that the kernel's `metadata` names ("rgb_array" if it names none).
        **kwargs: parameters.
    """

    def __init__(self, kernel: Kernel, render_mode: str | None = None, **kwargs: Any) -> None:
        self.kernel = kernel
        self.metadata = metadata_of(kernel)
        check_render_mode(kernel, render_mode)
        self.render_mode = render_mode
        self.state = Record(kernel.state)
        self._streamed: np.random.Generator | None = None
        self._own_stream = Stream(np.random.PCG64(0))
        parameters = kernel.parameters(kwargs, 1)
        kernel.check_native(parameters)
        self.adopt(parameters)
        self._methods = _runnable_methods(kernel)
        self._uses_numpy = _uses_numpy(kernel, self._methods)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_methods", "_uses_numpy")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._methods = _runnable_methods(self.kernel)
        self._uses_numpy = _uses_numpy(self.kernel, self._methods)

    def adopt(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Take these parameters, columns of one row, for this and all further episodes."""
        self.parameters = dict(parameters)
        self.params = self._own_params = self.kernel.record(self.parameters)
        self.observation_space, self.action_space = self.kernel.spaces(self.params)
        self._observation = ObservationPort(self.observation_space)
        self._action = ActionPort(self.action_space)

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether there is such a parameter or attribute."""
        return name in self.kernel.params or hasattr(self, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """A parameter as it will be in the next episode, or an attribute."""
        if name not in self.kernel.params:
            return getattr(self, name)
        value = self.parameters[name][0]
        return value.item() if not value.ndim else value if self.kernel.params[name].shared else value.copy()

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set a parameter from the next episode on, a shared one at once, as native code does; or an attribute."""
        if name in self.kernel.params:
            self._set_parameter(name, value)
        elif force or hasattr(self, name):
            setattr(self, name, value)
        else:
            return False
        return True

    def _set_parameter(self, name: str, value: Any) -> None:
        field = self.kernel.params[name]
        self.kernel.check_settable(name)
        column, wanted = per_env(field, value, 1), self.parameters[name].shape[1:]
        if column.shape[1:] != wanted:
            raise ConfigError(f"parameter {name!r} must have shape {wanted}, got {column.shape[1:]}")
        parameters = {**self.parameters, name: column}
        params = self.kernel.record(parameters)
        if self.kernel.spaces(params) != (self.observation_space, self.action_space):
            raise ConfigError(f"parameter {name!r} gives this env other spaces; make it with this value")
        self.parameters, self._own_params = parameters, params
        if field.shared:
            self.params.__dict__[name] = params.__dict__[name]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. Options that name parameters hold for this episode."""
        super().reset(seed=seed)
        changed = option_columns(self.kernel, self.parameters, options)
        self.params = self.kernel.record({**self.parameters, **changed}) if changed else self._own_params
        self._run("reset", self.state, self._stream(), self.params)
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an action."""
        given = self._action.take(action)
        reward, *flags = self._run("step", self.state, given, self._stream(), self.params)
        terminated, truncated = flags if len(flags) == 2 else (*flags, False)
        self._check_results(reward, terminated, truncated)
        return self._observe(), float(reward), bool(terminated), bool(truncated), self._info()

    def _stream(self) -> Stream:
        """The env's generator as its methods get it; `np_random` may be set from outside at any time."""
        if self._streamed is not self.np_random:
            self._streamed = self.np_random
            self._own_stream = Stream(self.np_random.bit_generator)
        return self._own_stream

    def render(self) -> Any:
        """Draw the env as it is now."""
        if self.render_mode is None:
            raise ConfigError(f"this env was made without render_mode; {_render_modes(self.kernel)}")
        assert self.kernel.render is not None  # __init__ refuses a render_mode otherwise
        return self.kernel.render(self.state, self.params)

    @property
    def seen(self) -> Any:
        """The last observation, as functions of the language read it."""
        return self._observation.written()

    def _observe(self) -> Any:
        self._run("observe", self.state, self._observation.cleared(), self.params)
        return self._observation.value()

    def _info(self) -> dict[str, Any]:
        info = {name: _plain(getattr(self.state, name)) for name in self.kernel.info}
        if "action_mask" in self._methods:
            mask = np.zeros(self.action_space.n, np.int8)  # type: ignore[attr-defined]  # Discrete, as was checked
            self._run("action_mask", self.state, cells(mask), self.params)
            info["action_mask"] = mask
        return info

    def _run(self, method: str, *arguments: Any) -> Any:
        try:
            if self._uses_numpy:  # divisions by zero in arrays go on with infinity, as in native code
                with np.errstate(all="ignore"):
                    return self._methods[method](*arguments)
            return self._methods[method](*arguments)
        except MISTAKES as error:
            raise located(error, self.kernel.name, method) from error

    def _check_results(self, reward: Any, terminated: Any, truncated: Any) -> None:
        if type(reward) is float and type(terminated) is bool and type(truncated) is bool:
            return
        if not isinstance(reward, (numbers.Real, np.bool_)):
            raise self._returned(f"the reward is {type(reward).__name__} {reward!r:.40}; it must be a number")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, (numbers.Integral, np.bool_)):
                raise self._returned(
                    f"{name} is {type(flag).__name__} {flag!r:.40}; return reward, terminated, in this order, and make "
                    "the second a bool"
                )

    def _returned(self, rule: str) -> KernelError:
        """An error about what step returned; it names the line of the return if there is only one."""
        source = self.kernel.methods["step"]
        lines = [node.lineno for node in ast.walk(source.node) if isinstance(node, ast.Return)]
        return KernelError(
            rule, self.kernel.name, "step", source.file, lines[0] if len(lines) == 1 else source.node.lineno
        )


def _runnable_methods(kernel: Kernel) -> dict[str, Callable[..., Any]]:
    known: dict[FunctionType, FunctionType] = {}
    functions = {name: source.function for name, source in kernel.methods.items()}
    return {name: runnable(its, known) if isinstance(its, FunctionType) else its for name, its in functions.items()}


def _uses_numpy(kernel: Kernel, methods: Mapping[str, Callable[..., Any]]) -> bool:
    if any(field.shape for field in (*kernel.state.values(), *kernel.params.values())):
        return True
    return any(methods[name] is not source.function for name, source in kernel.methods.items())


def metadata_of(kernel: Kernel) -> dict[str, Any]:
    """The kernel's metadata, with `render_modes` filled in."""
    modes = ["rgb_array"] if kernel.render is not None else []
    return {"render_modes": modes, **getattr(kernel.definition, "metadata", {})}


def check_render_mode(kernel: Kernel, render_mode: str | None) -> None:
    """Raise ConfigError unless the kernel can be rendered so, KernelError if its `render` cannot be called."""
    modes = metadata_of(kernel)["render_modes"]
    if render_mode is not None and render_mode not in modes:
        raise ConfigError(f"{kernel.id} cannot be rendered as {render_mode!r}; {_render_modes(kernel)}")
    if render_mode is None:
        return
    if kernel.render is None:
        raise ConfigError(f"{kernel.id} names render modes in its metadata, but defines no render(s, p)")
    try:
        inspect.signature(kernel.render).bind(None, None)
    except TypeError:
        code = getattr(kernel.render, "__code__", None)
        file, line = (code.co_filename, code.co_firstlineno) if code else (None, None)
        raise KernelError(
            "it must be defined as render(s, p), without self", kernel.name, "render", file, line
        ) from None


def _render_modes(kernel: Kernel) -> str:
    modes = metadata_of(kernel)["render_modes"]
    return f"use render_mode={' or '.join(map(repr, modes))}" if modes else "it defines no render(s, p)"


def option_columns(
    kernel: Kernel, parameters: Mapping[str, np.ndarray], options: Mapping[str, Any] | None
) -> dict[str, np.ndarray]:
    """Reset options as columns of one row: those that name parameters. Others are ignored with a warning."""
    columns: dict[str, np.ndarray] = {}
    for name, value in (options or {}).items():
        if name not in kernel.params:
            warnings.warn(
                f"{kernel.id} ignores the reset option {name!r}; it knows {', '.join(kernel.own_params) or 'none'}",
                stacklevel=3,
            )
            continue
        kernel.check_settable(name)
        if kernel.params[name].shared:
            raise not_for_an_episode(name)
        column = per_env(kernel.params[name], value, 1)
        if column.shape[1:] != parameters[name].shape[1:]:
            raise ConfigError(
                f"reset option {name!r} must have shape {parameters[name].shape[1:]}, got {column.shape[1:]}"
            )
        columns[name] = column
    return columns


def _plain(value: Any) -> Any:
    return np.array(value) if isinstance(value, Cells) else value
