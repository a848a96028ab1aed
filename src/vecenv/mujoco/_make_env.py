"""One env of a task in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vecenv.mujoco._task import Task


def make_task_env(task: type[Task], **kwargs: Any) -> Any:
    """An env of a task, by itself; MuJoCo is loaded when this is called."""
    from vecenv.mujoco._env import task_env

    return task_env(task, **kwargs)
