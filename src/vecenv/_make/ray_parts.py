"""How the actors of a vector env build the engines of their rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv._batch.faults import OnError
from vecenv._make.builds import compiled_kwargs, refuses_compiled, time_limit
from vecenv.engines.native.compiled import CompiledEngine, parameter_columns
from vecenv.engines.process.launch import pickled_factories
from vecenv.engines.python.build import build_engine
from vecenv.engines.python.envs import Factory
from vecenv.engines.ray.actor import Build
from vecenv.engines.ray.engine import RayEngine
from vecenv.errors import ConfigError, EngineRefused
from vecenv.kernel.language.define import Kernel

LOCAL = ("auto", "compiled", "sync", "thread", "process")


def check_num_cpus(value: Any) -> float:
    """Processors of an actor, a positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < float("inf"):
        raise ConfigError(f"num_cpus must be a positive number (a fraction is fine), got {value!r}")
    return float(value)


@dataclass(frozen=True)
class Parts:
    """A function of rows start ... stop - 1 that gives what an actor needs to build their engine.

    Attributes:
        local: "compiled", "sync", "thread" or "process".
        width: threads or processes of each actor.
    """

    local: str
    env_fns: Sequence[Factory]
    width: int
    observation_mode: Any
    on_error: OnError
    start_timeout: float
    compiled: Mapping[str, Any]
    parameters: Mapping[str, np.ndarray]

    @classmethod
    def of(
        cls,
        kernel: Kernel | None,
        env_fns: Sequence[Factory],
        env_kwargs: Any,
        *,
        local_engine: str,
        wrappers: Any,
        precision: str,
        num_cpus: float,
        observation_mode: Any,
        on_error: OnError,
        start_timeout: float,
    ) -> Parts:
        """Choose the engine inside the actors.

        Raises:
            ConfigError: `local_engine` cannot run these envs.
        """
        if local_engine not in LOCAL:
            raise ConfigError(f"local_engine must be one of {', '.join(map(repr, LOCAL))}, got {local_engine!r}")
        unfit = refuses_compiled(kernel, env_kwargs, wrappers=wrappers, observation_mode=observation_mode)
        if local_engine == "auto":
            local_engine = "sync" if unfit else "compiled"
        if local_engine == "compiled" and unfit:
            raise EngineRefused(unfit)
        if local_engine == "process" and observation_mode != "same":
            raise EngineRefused("observation_mode needs local_engine='sync' or 'thread' in the actors of engine='ray'")
        if local_engine != "compiled" and precision != "exact":
            raise EngineRefused(f"precision={precision!r} is for kernels, this is {local_engine!r} in each actor")
        compiled, parameters = {}, {}
        if local_engine == "compiled":
            assert kernel is not None
            ours, theirs = compiled_kwargs(kernel, env_kwargs)
            parameters = parameter_columns(kernel, ours, len(env_fns))
            compiled = {
                "kernel": kernel,
                "precision": precision,
                "render_mode": theirs.get("render_mode"),
                "max_episode_steps": time_limit(kernel, theirs),
            }
        width = max(1, int(num_cpus))
        return cls(local_engine, env_fns, width, observation_mode, on_error, start_timeout, compiled, parameters)

    def __call__(self, start: int, stop: int) -> Build:
        """What builds the engine of these rows. Picklable."""
        count = stop - start
        if self.compiled:
            mine = {name: column[start:stop] for name, column in self.parameters.items()}
            return functools.partial(CompiledEngine, count=count, parameters=mine, threads=self.width, **self.compiled)
        return functools.partial(
            build_engine,
            self.local,
            pickled_factories(self.env_fns[start:stop], start),
            workers=min(self.width, count),
            observation_mode=self.observation_mode,
            on_error=self.on_error,
            start_timeout=self.start_timeout,
            origin=start,
        )


def ray_engine(
    kernel: Kernel | None,
    env_fns: Sequence[Factory],
    env_kwargs: Any,
    *,
    workers: int,
    ordered: bool,
    ray_address: str | None,
    num_cpus: Any,
    observation_mode: Any,
    on_error: OnError,
    start_timeout: float,
    **inside: Any,
) -> tuple[RayEngine, str]:
    """An engine of actors, and what they are. `inside` is for `Parts.of`."""
    shared: dict[str, Any] = {
        "num_cpus": check_num_cpus(num_cpus),
        "observation_mode": observation_mode,
        "on_error": on_error,
        "start_timeout": start_timeout,
    }
    parts = Parts.of(kernel, env_fns, env_kwargs, **inside, **shared)
    engine = RayEngine(parts, len(env_fns), workers=workers, ordered=ordered, ray_address=ray_address, **shared)
    return engine, f"{engine.summary()}, engine {parts.local!r} in each"
