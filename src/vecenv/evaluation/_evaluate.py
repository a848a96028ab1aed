"""`evaluate`: a policy, an env, how often."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, overload

import gymnasium
from gymnasium.envs.registration import EnvSpec

from vecenv._make.make import make
from vecenv._make.source import find_build
from vecenv._util.checks import positive_int
from vecenv.engines import registry
from vecenv.engines.options import EngineBuilder, EngineOptions
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.evaluation._background import Running
from vecenv.evaluation._jobs import Jobs, plan_jobs
from vecenv.evaluation._loop import Loop
from vecenv.evaluation._policies import Actor, at_rest, check_policy, snapshot
from vecenv.evaluation._result import Evaluation
from vecenv.scenarios._rooms import room_of

_MANY, _SOME = 1024, 16
"""How many envs are run at once by default: of a kernel, of Python envs."""
Progress = Callable[[int, int], object]


@overload
def evaluate(policy: Any, env: Any, *, background: Literal[True], **kwargs: Any) -> Running: ...


@overload
def evaluate(
    policy: Any,
    env: Any,
    *,
    episodes: int = ...,
    seeds: int | Sequence[int] = ...,
    scenarios: Any = ...,
    num_envs: int | None = ...,
    engine: str | EngineBuilder | EngineOptions = ...,
    deterministic: bool = ...,
    background: Literal[False] = ...,
    confidence: float = ...,
    resamples: int = ...,
    scenario_kwargs: Collection[str] | None = ...,
    wrap: Callable[[Any], Any] | None = ...,
    progress: Progress | None = ...,
    **make_options: Any,
) -> Evaluation: ...


def evaluate(
    policy: Any,
    env: Any,
    *,
    episodes: int = 10,
    seeds: int | Sequence[int] = 1,
    scenarios: Any = None,
    num_envs: int | None = None,
    engine: str | EngineBuilder | EngineOptions = "auto",
    deterministic: bool = True,
    background: bool = False,
    confidence: float = 0.95,
    resamples: int = 2000,
    scenario_kwargs: Collection[str] | None = None,
    wrap: Callable[[Any], Any] | None = None,
    progress: Progress | None = None,
    **make_options: Any,
) -> Evaluation | Running:
    """Run a policy for exactly `episodes` episodes of every scenario and seed.

    The seed and the parameters of an episode depend on nothing but the seed, the name of the scenario and the number of
    the episode. So does its return, if the policy's action for one env does not depend on the other envs: not on the
    engine, workers, or how many envs run at once. All episodes are run to their end, and an env without one left is not
    stepped again.

    Args:
        policy: a function of a batch of observations that returns a batch of actions; or of (obs, state,
            episode_start) that returns (actions, state); or an object with `predict` of this form, such as a
            Stable-Baselines3 model; or a torch module, which for Discrete actions may return one score per action.
        env: what `vecenv.make` takes: an id, a kernel, a function that makes an env.
        episodes: of each scenario and seed.
        seeds: how many (0, 1, ...) or which.
        scenarios: None for the env as it is; a list of parameter sets; what `vecenv.scenarios` makes; or a dict of
            such by name, where "train" and "test" give a generalisation gap.
        num_envs: how many envs run at once.
        engine: as for `make`.
        deterministic: passed on to a policy that has such an argument.
        background: return at once; the episodes are run in a thread with a copy of the policy.
        confidence: of the bootstrap intervals.
        resamples: of the bootstrap.
        scenario_kwargs: which parameters are constructor arguments of a Python env; default: as its signature says.
            The others are reset options. Kernels have parameters.
        wrap: applied to the vector env, e.g. to normalize observations. Returns are still those of the env itself.
        progress: called with the number of episodes that have ended and of all, from the thread that runs them.
        **make_options: as for `make`.

    Returns:
        The result; with `background=True` a handle on it.

    Raises:
        ConfigError: an argument cannot be right. Nothing was run.
        InvalidAction: the policy returned actions that do not fit.
    """
    jobs = plan_jobs(episodes, seeds, scenarios)
    _check(env, confidence, resamples, make_options)
    count = _count(env, num_envs, engine, len(jobs))
    check_policy(policy)

    def work(own: Any, stop: threading.Event, told: Progress | None) -> Evaluation:
        envs = make(env, count, engine=engine, autoreset="next-step", **make_options)
        with contextlib.closing(envs), at_rest(own):
            name = envs.spec.id if envs.spec is not None else getattr(env, "__name__", type(env).__name__)
            room = _room(envs, jobs, env, scenario_kwargs)
            outer = envs if wrap is None else wrap(envs)
            outcomes = Loop(outer, Actor(own, outer, deterministic), jobs, room, told, stop).run()
        return Evaluation(name, jobs, outcomes, confidence, resamples)

    if not background:
        return work(policy, threading.Event(), progress)
    own = snapshot(policy)

    def behind(stop: threading.Event, note: Callable[[int, int], None]) -> Evaluation:
        def told(ended: int, total: int) -> None:
            note(ended, total)
            if progress is not None:
                progress(ended, total)

        return work(own, stop, told)

    return Running(behind)


def _room(envs: Any, jobs: Jobs, env: Any, kwargs: Collection[str] | None) -> Any:
    """Where parameters go, None if no scenario has any."""
    scenarios = [part.scenarios for part in jobs.parts]
    return room_of(envs, scenarios, env, kwargs) if any(one.names for one in scenarios) else None


def _check(env: Any, confidence: float, resamples: int, make_options: dict[str, Any]) -> None:
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ConfigTypeError(
            f"evaluate makes its own envs, so that each episode has its seed; got a {type(env).__name__}: pass what "
            "vecenv.make takes, an id, a kernel or a function, and wrap= for wrappers"
        )
    if not 0.0 < confidence < 1.0:
        raise ConfigError(f"confidence must be in 0 ... 1, e.g. 0.95; got {confidence}")
    positive_int("resamples", resamples)
    if "autoreset" in make_options:
        raise ConfigError("evaluate begins episodes itself; leave autoreset out")


def _count(env: Any, num_envs: int | None, engine: Any, jobs: int) -> int:
    if isinstance(env, (list, tuple)):
        raise ConfigTypeError("evaluate takes one env; pass envs that differ as scenarios, or call it for each")
    if num_envs is not None:
        return min(positive_int("num_envs", num_envs), jobs)
    is_kernel = isinstance(env, (str, type, EnvSpec)) and find_build(env)[0] is not None
    return min(jobs, _MANY if is_kernel and (engine == "auto" or registry.is_native(engine)) else _SOME)
