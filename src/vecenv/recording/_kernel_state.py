"""Python envs of kernels and MuJoCo tasks that begin an episode in a recorded state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import TimeLimit

from vecenv._make.source import find_build, task_kernel
from vecenv.engines.recording.recording import Recording
from vecenv.envs._frames import Renderer
from vecenv.errors import ConfigError
from vecenv.kernel.language.declared import check_bounds
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.fields import Record
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.language.snapshot import generator
from vecenv.mujoco._registry import find_task


def env_at_start(
    recording: Recording, source: Any, kwargs: Mapping[str, Any], render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    """A Python env of a kernel whose `reset` begins the recorded episode.

    Args:
        recording: a recording with the state of a kernel.
        source: the kernel or task: its class or its id.
        kwargs: its arguments, such as the model of a task.
        render_mode: render mode of the env.

    Raises:
        ConfigError: the source is not a kernel, or not the recorded one.
    """
    kernel = _kernel(source, kwargs)
    columns = recording.start["columns"]
    params = {name: _column(columns, kernel, f"P_{name}")[None] for name in kernel.params}
    own = [name for name in kernel.state if name not in kernel.shared]
    state = {name: _column(columns, kernel, f"S_{name}") for name in own}
    env: gymnasium.Env[Any, Any] = _EnvAtStart(kernel, params, state, _column(columns, kernel, "RNG"), render_mode)
    limit = _limit(recording.build, kwargs)
    return env if limit is None else _LimitAtStart(env, limit, int(_column(columns, kernel, "ELAPSED")))


class _LimitAtStart(TimeLimit):
    """A time limit whose count begins at `elapsed`: the recording may begin after `set_state`, in an episode."""

    def __init__(self, env: gymnasium.Env[Any, Any], limit: int, elapsed: int) -> None:
        super().__init__(env, limit)
        self._elapsed_at_start = elapsed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = super().reset(seed=seed, options=options)
        self._elapsed_steps = self._elapsed_at_start
        return result


class _EnvAtStart(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A kernel's Python env whose every `reset` begins the recorded episode.

    `params` are columns of length one; `state` and `words` (of the random stream) are those after the recorded reset. A
    kernel without `render` is drawn by Gymnasium's env of the same id.
    """

    def __init__(
        self,
        kernel: Any,
        params: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray],
        words: np.ndarray,
        render_mode: str | None,
    ) -> None:
        self._is_task = hasattr(kernel, "task")
        draws = kernel.render is not None
        super().__init__(_python_env(kernel, self._is_task, render_mode if draws else None))
        self._kernel_env: Any = self.env
        self._params, self._state, self._words = params, state, words
        self._last_action: Any = None
        self._renderer: Renderer | None = None
        if render_mode is not None and not draws:
            self._renderer = Renderer(kernel.id, render_mode)
            self.metadata = self._renderer.metadata

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        env = self._kernel_env
        if self._is_task:
            env.continue_from(self._params, self._state)
        else:
            env.adopt(self._params)
            env.state = Record(env.kernel.state, self._state)
        env.np_random = generator(self._words)
        self._last_action = None
        if self._renderer is not None:
            self._renderer.orientation = 0
        return env._observe(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._last_action = action
        return self.env.step(action)

    def render(self) -> Any:
        if self._renderer is None:
            return self.env.render()
        return self._renderer.draw(self._params, self._kernel_env.state, self._last_action)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
        self.env.close()


def _limit(build: Mapping[str, Any], kwargs: Mapping[str, Any]) -> int | None:
    """The time limit of the recorded env: the kernel's, or `max_episode_steps` of `gymnasium.make` (-1: no limit)."""
    if build["kind"] == "kernel" or kwargs.get("max_episode_steps") is None:
        return build.get("max_episode_steps")
    return None if kwargs["max_episode_steps"] == -1 else kwargs["max_episode_steps"]


def _kernel(source: Any, kwargs: Mapping[str, Any]) -> Kernel:
    source = source.id if isinstance(source, EnvSpec) else source
    task = find_task(source)
    kernel = find_build(source)[0] if task is None else task_kernel(task, kwargs)
    if kernel is None:
        raise ConfigError(
            f"the recording is of a kernel, and {source!r:.100} is not one; pass the kernel: its id or its class"
        )
    return kernel


def _column(columns: Mapping[str, np.ndarray], kernel: Kernel, name: str) -> np.ndarray:
    """The recorded column "S_field", "P_parameter", "RNG" or "ELAPSED". A wrong type or shape is a ConfigError."""
    field = {"S": kernel.state, "P": kernel.params}.get(name[:1], {}).get(name[2:])
    found = columns.get(name)
    fits = found is not None and (field is None or found.dtype == field.dtype)
    if found is None or not fits or (field is not None and name[0] == "S" and found.shape != field.shape):
        raise ConfigError(
            f"the recording is of another kernel than {kernel.id} is now: {name.partition('_')[2] or name} does not fit"
        )
    if field is not None:
        check_bounds(field, found)
    return found


def _python_env(kernel: Any, is_task: bool, render_mode: str | None) -> KernelEnv:
    if not is_task:
        return KernelEnv(kernel, render_mode)
    from vecenv.mujoco._env import TaskEnv

    return TaskEnv(kernel, render_mode)
