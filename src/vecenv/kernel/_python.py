"""A kernel as a plain Python env: what you debug, and what native code is compared with."""

from __future__ import annotations

import ast
import inspect
import numbers
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from vecenv._layout import Columns, Layout
from vecenv.errors import ConfigError, KernelError
from vecenv.kernel._define import Kernel, per_env
from vecenv.kernel._fields import Cells, Field, FieldError, Record, cells, conform

_TRIAL_STEPS, _TRIAL_SECONDS = 200, 0.1
_MISTAKES = (FieldError, LookupError, NameError, AttributeError, TypeError, ValueError, ArithmeticError)
"""What Python raises for code that native code would run into undefined behaviour with, or refuse."""
_MACHINERY = (str(Path(__file__).parent), str(Path(np.__file__).parent))


class KernelEnv(gymnasium.Env[Any, Any]):
    """One env of a kernel, run by Python itself: a breakpoint in `step` works.

    Native code gives the same bits. `vecenv.make_env(id)` builds it, with a time limit around it.

    Args:
        kernel: the definition.
        render_mode: None, or a mode that the kernel's `metadata` names ("rgb_array" if it names none).
        **kwargs: parameters.
    """

    def __init__(self, kernel: Kernel, render_mode: str | None = None, **kwargs: Any) -> None:
        assert kernel.names_checked
        self.kernel = kernel
        self.metadata = metadata_of(kernel)
        check_render_mode(kernel, render_mode)
        self.render_mode = render_mode
        self.parameters = kernel.parameters(kwargs, 1)
        self.params = kernel.record(self.parameters)
        self.observation_space, self.action_space = kernel.spaces(self.params)
        self.state = Record(kernel.state)
        self._observations = Layout(self.observation_space)
        self._actions = Layout(self.action_space)
        self._methods = {name: source.function for name, source in kernel.methods.items()}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. Options that name parameters hold for this episode."""
        super().reset(seed=seed)
        self.params = self.kernel.record({**self.parameters, **option_columns(self.kernel, self.parameters, options)})
        self._run("reset", self.state, self.np_random, self.params)
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an action."""
        columns = self._actions.pack([action], 1)
        given = _tree(self._actions, [_entry(column[0]) for column in columns], columns, writeable=False)
        reward, *flags = self._run("step", self.state, given, self.np_random, self.params)
        terminated, truncated = flags if len(flags) == 2 else (*flags, False)
        self._check_results(reward, terminated, truncated)
        return self._observe(), float(reward), bool(terminated), bool(truncated), self._info()

    def render(self) -> Any:
        """Draw the env as it is now."""
        if self.render_mode is None:
            raise ConfigError(f"this env was made without render_mode; {_render_modes(self.kernel)}")
        assert self.kernel.render is not None  # __init__ refuses a render_mode otherwise
        return self.kernel.render(self.state, self.params)

    def _observe(self) -> Any:
        columns = [np.zeros((1, *leaf.shape), leaf.dtype) for leaf in self._observations.leaves]
        entries = [cells(column[0] if column.ndim > 1 else column) for column in columns]
        into = _tree(self._observations, entries, columns, writeable=True)
        self._run("observe", self.state, into, self.params)
        return self._observations.reader(columns)(0)

    def _info(self) -> dict[str, Any]:
        info = {name: _plain(getattr(self.state, name)) for name in self.kernel.info}
        if "action_mask" in self._methods:
            mask = np.zeros(self.action_space.n, np.int8)  # type: ignore[attr-defined]  # Discrete, as was checked
            self._run("action_mask", self.state, cells(mask), self.params)
            info["action_mask"] = mask
        return info

    def _run(self, method: str, *arguments: Any) -> Any:
        try:
            return self._methods[method](*arguments)
        except _MISTAKES as error:
            raise self._located(method, error) from error

    def _located(self, method: str, error: Exception) -> KernelError:
        """The error with the line of the user's code that it came from."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
        name, file, line = (frames[-1].name, frames[-1].filename, frames[-1].lineno) if frames else (method, None, None)
        text = str(error.args[0]) if error.args else type(error).__name__
        rule = text if isinstance(error, FieldError) else f"{type(error).__name__}: {text}{_advice(error)}"
        return KernelError(rule, self.kernel.name, name, file, line)

    def _check_results(self, reward: Any, terminated: Any, truncated: Any) -> None:
        if not isinstance(reward, (numbers.Real, np.bool_)):
            raise self._returned(f"the reward is {type(reward).__name__} {reward!r:.40}; it must be a number")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, (numbers.Integral, np.bool_)):
                raise self._returned(
                    f"{name} is {type(flag).__name__} {flag!r:.40}; return reward, terminated, in this order, and make "
                    "the second a bool"
                )

    def _returned(self, rule: str) -> KernelError:
        """An error of what step returned; which return it was is known if there is one only."""
        source = self.kernel.methods["step"]
        lines = [node.lineno for node in ast.walk(source.node) if isinstance(node, ast.Return)]
        return KernelError(
            rule, self.kernel.name, "step", source.file, lines[0] if len(lines) == 1 else source.node.lineno
        )


def _is_machinery(file: str) -> bool:
    """Whether a file is ours or NumPy's, and so not where the mistake is."""
    return file.startswith(_MACHINERY)


def _advice(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "; native code would go on with inf or nan, so test for zero first"
    if isinstance(error, ValueError) and "math domain" in str(error):
        return "; native code would go on with nan, so test the argument first"
    if isinstance(error, ValueError) and "ambiguous" in str(error):
        return "; compare one element, not the array"
    return ""


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
                f"{kernel.id} ignores the reset option {name!r}; it knows {', '.join(kernel.params) or 'none'}",
                stacklevel=3,
            )
            continue
        column = per_env(kernel.params[name], value, 1)
        if column.shape[1:] != parameters[name].shape[1:]:
            raise ConfigError(
                f"reset option {name!r} must have shape {parameters[name].shape[1:]}, got {column.shape[1:]}"
            )
        columns[name] = column
    return columns


def try_out(kernel: Kernel, kwargs: Mapping[str, Any]) -> None:
    """Play a little in Python, so that a mistake is reported in the words of the kernel and not of a compiler."""
    env = KernelEnv(kernel, **kwargs)
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    deadline = time.perf_counter() + _TRIAL_SECONDS
    for _ in range(_TRIAL_STEPS):
        _, _, terminated, truncated, info = env.step(_sampled(env, info))
        if terminated or truncated:
            _, info = env.reset()
        if time.perf_counter() > deadline:
            return


def _sampled(env: KernelEnv, info: Mapping[str, Any]) -> Any:
    """A random action, of those that the env's mask allows if there are any."""
    mask = info.get("action_mask")
    return env.action_space.sample() if mask is None or not mask.any() else env.action_space.sample(mask)


class Branch:
    """A Dict or Tuple of leaves, by key: arrays are written into, single numbers are assigned."""

    def __init__(self, children: Mapping[str, Any], columns: Mapping[str, np.ndarray], writeable: bool) -> None:
        self._children, self._columns, self._writeable = children, columns, writeable

    def __getitem__(self, key: Any) -> Any:
        if str(key) in self._columns:
            return self._columns[str(key)][0].item()
        if str(key) not in self._children:
            known = ", ".join([*self._children, *self._columns])
            raise FieldError(f"there is no {key!r} (there are: {known})")
        return self._children[str(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self._writeable:
            raise FieldError("actions are read-only; use a variable of your own")
        if str(key) not in self._columns:
            self[key]  # unknown is another mistake than this one
            raise FieldError(f"{key!r} is no single number; write into its elements: [{key!r}][:] = ...")
        column = self._columns[str(key)]
        column[0] = conform(Field(str(key), column.dtype), value)


def _tree(layout: Layout, entries: list[Any], columns: Columns, writeable: bool) -> Any:
    """What a method gets for a space: the one entry, or a Branch of them."""
    if layout.leaves and layout.leaves[0].path == "":
        return entries[0]
    return _branch(
        {leaf.path: number for number, leaf in enumerate(layout.leaves)}, "", layout, entries, columns, writeable
    )


def _branch(
    paths: dict[str, int], prefix: str, layout: Layout, entries: list[Any], columns: Columns, writeable: bool
) -> Branch:
    children: dict[str, Any] = {}
    singles: dict[str, np.ndarray] = {}
    for path, leaf in paths.items():
        if not path.startswith(prefix):
            continue
        key, dot, _ = path[len(prefix) :].partition(".")
        if dot:
            children.setdefault(key, _branch(paths, f"{prefix}{key}.", layout, entries, columns, writeable))
        elif layout.leaves[leaf].shape:
            children[key] = entries[leaf]
        else:
            singles[key] = columns[leaf]
    return Branch(children, singles, writeable)


def _entry(value: Any) -> Any:
    """An action, or a part of one, as the method gets it."""
    if not isinstance(value, np.ndarray):
        return value.item()
    entry = cells(value.copy())
    entry.flags.writeable = False
    return entry


def _plain(value: Any) -> Any:
    return np.array(value) if isinstance(value, Cells) else value
