"""MuJoCo at native speed: Gymnasium's tasks, and tasks of your own. See docs/mujoco.md."""

from vecenv.mujoco._task import Task

__all__ = ["Task"]
