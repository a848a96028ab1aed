"""What `make` puts around an engine: the check for NaN and infinity, and the recorder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode

from vecenv._front.autoreset import name_of_mode, rolls
from vecenv.engines import Engine
from vecenv.engines.decorator import undecorated
from vecenv.engines.finite import FiniteCheck
from vecenv.engines.python.envs import Factory


def decorate(
    engine: Engine,
    mode: AutoresetMode,
    check_finite: Any = None,
    record: tuple[Sequence[Factory], Path, int] | None = None,
) -> Engine:
    """An engine for `VectorEnv`, with what is asked for around it; the engine itself if nothing is.

    Args:
        engine: nothing was sent to it yet.
        mode: of the vector env.
        check_finite: as in `make`.
        record: what makes the envs, or their twins in Python; the folder for recordings; and how many bytes to keep.
            None records nothing.
    """
    finite = FiniteCheck(engine, check_finite, rolls(mode))
    decorated: Engine = finite if finite.on else engine
    if record is None:
        return decorated
    from vecenv.engines.recording.recorder import Recorder

    env_fns, folder, limit = record
    recorder = Recorder(decorated, name_of_mode(mode), _builds(engine, env_fns), folder, limit)
    finite.note = recorder.failed
    return recorder


def _builds(engine: Engine, env_fns: Sequence[Factory]) -> Any:
    """A function of a row that describes, as data, how its env is made."""
    from vecenv.engines.recording.describe import describe_build, describe_kernel

    inner: Any = undecorated(engine)
    kernel = getattr(inner, "kernel", None)

    def build(row: int) -> dict[str, Any]:
        if kernel is None:
            return describe_build(env_fns[row])
        return {**describe_kernel(env_fns[row], kernel, inner.max_episode_steps), "precision": inner.precision}

    return build
