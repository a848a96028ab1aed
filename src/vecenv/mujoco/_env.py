"""A task as a plain Python env: for debugging, for rendering, and as the reference for native code."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.envs.registration import registry

from vecenv.errors import ConfigError, MissingExtra
from vecenv.kernel.language.fields import cells
from vecenv.kernel.language.python import KernelEnv
from vecenv.mujoco._kernel import TaskKernel, build_task
from vecenv.mujoco._registry import GYMNASIUM
from vecenv.mujoco._simulator import Simulator, what_is_bad
from vecenv.mujoco._task import Task

_SIZE = 480
"""Pixels of a frame, as in Gymnasium."""


class TaskEnv(KernelEnv):
    """One env of a task, run by Python and MuJoCo's Python bindings.

    Args:
        kernel: kernel of the task, with its model.
        render_mode: None, or a render mode of Gymnasium's MuJoCo envs.
        **kwargs: parameters.

    Attributes:
        model, data: MuJoCo's objects.
    """

    kernel: TaskKernel

    def __init__(self, kernel: TaskKernel, render_mode: str | None = None, **kwargs: Any) -> None:
        self._simulator = _RenderingSimulator(kernel, render_mode)
        super().__init__(kernel, render_mode, **kwargs)
        self.model, self.data = self._simulator.model, self._simulator.data
        held = {name: cells(array) for name, array in kernel.memory(self._simulator).items()}
        self.state.__dict__.update(held, simulator=self._simulator)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        obs, info = super().reset(seed=seed, options=options)
        info = {name: value for name, value in info.items() if name not in self.kernel.step_info}
        self._show()
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an action."""
        obs, reward, terminated, truncated, info = super().step(action)
        if self.state.diverged:
            info["diverged"] = divergence_info(self.kernel, self.state.diverged, np.array(self.state.failed))
            self.state.diverged = 0
        self._show()
        return obs, reward, terminated, truncated, info

    def continue_from(self, params: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]) -> None:
        """Take over the parameters (columns of one row) and the state of another env."""
        self.adopt(params)
        for name, value in state.items():
            if self.kernel.state[name].shape:
                getattr(self.state, name)[...] = value
            else:
                setattr(self.state, name, value.item())
        for name in self.kernel.model_params:
            getattr(self.state, f"model_{name}")[...] = getattr(self.params, name)
        self._simulator.load(self.state.physics)
        self._simulator.forward()

    def close(self) -> None:
        """Close the window, if there is one."""
        self._simulator.close()

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()


class _RenderingSimulator(Simulator):
    """A simulator with Gymnasium's renderer."""

    def __init__(self, kernel: TaskKernel, render_mode: str | None) -> None:
        super().__init__(kernel.model, kernel.frame_skip, kernel.fields, own=True)
        self._camera, self._render_mode, self._renderer = dict(kernel.camera), render_mode, None
        self._task = kernel.task
        self.model.vis.global_.offwidth = self._camera.setdefault("width", _SIZE)
        self.model.vis.global_.offheight = self._camera.setdefault("height", _SIZE)

    def draw(self) -> Any:
        """The result of `render`."""
        if self._renderer is None:
            try:
                from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

                camera = dict(self._camera)
                default = camera.pop("default_camera_config", camera_of(self._task))
                self._renderer = MujocoRenderer(self.model, self.data, default, **camera)
            except ImportError as error:
                raise MissingExtra(f"rendering MuJoCo needs more ({error}); pip install 'vecenv[mujoco]'") from error
        try:
            return self._renderer.render(self._render_mode)
        except Exception as error:
            raise ConfigError(
                f"MuJoCo cannot render here: {type(error).__name__}: {error}. Set MUJOCO_GL to egl (with a graphics "
                "driver), osmesa (without) or glfw (with a screen) before Python starts"
            ) from error

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def camera_of(task: type[Task]) -> Mapping[str, Any] | None:
    """Camera settings: those of the task, or those of Gymnasium's env with the same id."""
    if task.id not in GYMNASIUM:
        return task.camera
    module = importlib.import_module(str(registry[task.id].entry_point).partition(":")[0])
    return getattr(module, "DEFAULT_CAMERA_CONFIG", None)


def task_env(task: type[Task], render_mode: str | None = None, **kwargs: Any) -> TaskEnv:
    """One Python env of a task; Gymnasium's entry point."""
    kernel, rest = build_task(task, kwargs)
    return TaskEnv(kernel, render_mode, **rest)


def divergence_info(kernel: TaskKernel, kind: int, failed: np.ndarray) -> dict[str, Any]:
    """The info about a diverged simulation: which values are bad, and the state before the step that diverged."""
    positions, velocities = kernel.model.nq, kernel.model.nv
    return {
        "kind": what_is_bad(int(kind)),
        "qpos": failed[1 : 1 + positions].copy(),
        "qvel": failed[1 + positions : 1 + positions + velocities].copy(),
        "physics": failed.copy(),
    }
