"""A kernel as a plain Python env: what you debug, and what native code is compared with."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from vecenv._layout import Columns, Layout
from vecenv.errors import ConfigError, KernelError
from vecenv.kernel._define import Kernel, per_env
from vecenv.kernel._fields import Cells, FieldError, Record, cells

_TRIAL_STEPS, _TRIAL_SECONDS = 200, 0.1


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
        given = _tree(self._actions, [_entry(column[0]) for column in columns], columns)
        results = self._run("step", self.state, given, self.np_random, self.params)
        reward, terminated, truncated = results if len(results) == 3 else (*results, False)
        return self._observe(), float(reward), bool(terminated), bool(truncated), self._info()

    def render(self) -> Any:
        """Draw the env as it is now."""
        if self.render_mode is None:
            raise ConfigError(f"this env has no render_mode; make it with render_mode={self.metadata['render_modes']}")
        assert self.kernel.render is not None  # __init__ refuses a render_mode otherwise
        return self.kernel.render(self.state, self.params)

    def _observe(self) -> Any:
        columns = [np.zeros((1, *leaf.shape), leaf.dtype) for leaf in self._observations.leaves]
        into = _tree(self._observations, [cells(column[0] if column.ndim > 1 else column) for column in columns], columns)
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
        except (FieldError, IndexError, NameError, AttributeError, KeyError) as error:
            raise self._located(method, error) from error

    def _located(self, method: str, error: Exception) -> KernelError:
        """The error with the line of the user's code that it came from."""
        files = {source.file for source in self.kernel.methods.values()}
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
        frame = frames[-1] if frames else None
        text = str(error.args[0]) if error.args else type(error).__name__
        rule = text if isinstance(error, FieldError) else f"{type(error).__name__}: {text}"
        return KernelError(
            rule, self.kernel.name, frame.name if frame else method, frame and frame.filename, frame and frame.lineno
        )


def metadata_of(kernel: Kernel) -> dict[str, Any]:
    """The kernel's metadata, with `render_modes` filled in."""
    modes = ["rgb_array"] if kernel.render is not None else []
    return {"render_modes": modes, **getattr(kernel.definition, "metadata", {})}


def check_render_mode(kernel: Kernel, render_mode: str | None) -> None:
    """Raise ConfigError unless the kernel can be rendered so."""
    modes = metadata_of(kernel)["render_modes"]
    if render_mode is not None and render_mode not in modes:
        can = f"it can be rendered as {modes}" if modes else "it defines no render(s, p)"
        raise ConfigError(f"{kernel.id} cannot be rendered as {render_mode!r}; {can}")


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
            raise ConfigError(f"reset option {name!r} must have shape {parameters[name].shape[1:]}, got {column.shape[1:]}")
        columns[name] = column
    return columns


def try_out(kernel: Kernel, kwargs: Mapping[str, Any]) -> None:
    """Play a little in Python, so that a mistake is reported in the words of the kernel and not of a compiler."""
    env = KernelEnv(kernel, **kwargs)
    env.action_space.seed(0)
    env.reset(seed=0)
    deadline = time.perf_counter() + _TRIAL_SECONDS
    for _ in range(_TRIAL_STEPS):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
        if time.perf_counter() > deadline:
            return


class Branch:
    """A Dict or Tuple of leaves, by key: arrays are written into, single numbers are assigned."""

    def __init__(self, children: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> None:
        self._children, self._columns = children, columns

    def __getitem__(self, key: Any) -> Any:
        if str(key) in self._columns:
            return self._columns[str(key)][0].item()
        return self._children[str(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        if str(key) not in self._columns:
            raise IndexError(f"{key!r} is no single number; write into its elements")
        self._columns[str(key)][0] = value


def _tree(layout: Layout, entries: list[Any], columns: Columns) -> Any:
    """What a method gets for a space: the one entry, or a Branch of them."""
    if layout.leaves[0].path == "":
        return entries[0]
    return _branch({leaf.path: number for number, leaf in enumerate(layout.leaves)}, "", layout, entries, columns)


def _branch(paths: dict[str, int], prefix: str, layout: Layout, entries: list[Any], columns: Columns) -> Branch:
    children: dict[str, Any] = {}
    numbers: dict[str, np.ndarray] = {}
    for path, leaf in paths.items():
        if not path.startswith(prefix):
            continue
        key, dot, _ = path[len(prefix) :].partition(".")
        if dot:
            children.setdefault(key, _branch(paths, f"{prefix}{key}.", layout, entries, columns))
        elif layout.leaves[leaf].shape:
            children[key] = entries[leaf]
        else:
            numbers[key] = columns[leaf]
    return Branch(children, numbers)


def _entry(value: Any) -> Any:
    """An action, or a part of one, as the method gets it."""
    return cells(value.copy()) if isinstance(value, np.ndarray) else value.item()


def _plain(value: Any) -> Any:
    return np.array(value) if isinstance(value, Cells) else value
