"""MuJoCo at native speed: Gymnasium's tasks, and your own tasks. See docs/mujoco.md."""

from vecenv.mujoco._task import Task

__all__ = ["Task"]
