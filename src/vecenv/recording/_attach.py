"""A recorder for a vector env that was just made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vecenv._front.autoreset import name_of_mode
from vecenv._front.vector_env import VectorEnv
from vecenv.engines import SupportsStates
from vecenv.engines.python.envs import Factory
from vecenv.recording._begins import Begins, KernelBegins, PythonBegins, RayBegins
from vecenv.recording._describe import describe_build, describe_kernel
from vecenv.recording._episodes import Facts
from vecenv.recording._recorder import Recorder


def attach(envs: VectorEnv, env_fns: Sequence[Factory], folder: Path, limit: int) -> None:
    """Have a vector env record.

    Args:
        envs: nothing was sent to it yet.
        env_fns: what makes its envs, or their twins in Python.
        folder: where files are written.
        limit: bytes to keep in all.
    """
    engine: Any = envs.engine
    kernel = getattr(engine, "kernel", None)

    def build(row: int) -> dict[str, Any]:
        if kernel is None:
            return describe_build(env_fns[row])
        return {**describe_kernel(env_fns[row], kernel, engine.max_episode_steps), "precision": engine.precision}

    facts = Facts(engine.name, name_of_mode(envs.autoreset_mode), build)
    everyone = envs._lifecycle.all_rows
    envs._recorder = Recorder(engine.batch, _begins(engine), facts, everyone, folder, limit)
    envs._finite.note = envs._recorder.failed


def _begins(engine: Any) -> Begins:
    if engine.name == "ray":
        return RayBegins(engine)
    return KernelBegins(engine) if isinstance(engine, SupportsStates) else PythonBegins(engine.batch)
