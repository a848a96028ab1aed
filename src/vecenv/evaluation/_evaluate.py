"""`evaluate`: run a policy for a number of episodes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, overload

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from vecenv._make.make import make
from vecenv._make.source import find_build
from vecenv._util.checks import positive_int
from vecenv._util.specs import PETTINGZOO
from vecenv.agents import MultiAgentVectorEnv
from vecenv.engines import registry
from vecenv.engines.options import EngineBuilder, EngineOptions
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.evaluation._agents import AgentActor, AgentRows
from vecenv.evaluation._background import Progress, Running
from vecenv.evaluation._jobs import Jobs, plan_jobs
from vecenv.evaluation._loop import Loop
from vecenv.evaluation._policies import Actor, check_policy, evaluation_mode, snapshot
from vecenv.evaluation._result import Evaluation
from vecenv.mujoco._registry import find_task
from vecenv.scenarios._parameter_writers import parameter_writer

_MANY, _SOME = 1024, 16
"""Default number of envs that run at once: of a kernel, of Python envs."""
_LIMIT = "max_episode_steps"
LONGEST = 27_000
"""Steps after which episodes of an env without a time limit are cut: as many as Atari games have."""


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

    The seed and the parameters of an episode depend only on the seed, the name of the scenario and the number of the
    episode. So does its return, if the policy's action for one env does not depend on the other envs: neither engine,
    workers nor the number of envs matter. Every episode runs to its end; an env for which no episode is left is not
    stepped again. Where no time limit is known (CliffWalking-v1, envs that a function or class makes), episodes are
    cut after 27,000 steps, so that a policy that never reaches the goal is evaluated in finite time. `Evaluation.cut`
    counts the episodes that this limit or your `max_episode_steps` ended.

    Args:
        policy: a function of a batch of observations that returns a batch of actions; or of (obs, state,
            episode_start) that returns (actions, state); or an object with `predict` of this form, such as a
            Stable-Baselines3 model; or a torch module, which for Discrete actions may return one score per action.
            Several agents: it gets the observations of all agents that must act; a dict of policies by group if there
            are several groups.
        env: what `vecenv.make` takes: an id, a kernel, or a function that makes an env.
        episodes: number of episodes per scenario and seed.
        seeds: number of seeds (0, 1, ...), or a list of seeds.
        scenarios: None for the unchanged env; a list of parameter sets; an object of `vecenv.scenarios`; or a dict of
            these by name, where "train" and "test" give a generalisation gap.
        num_envs: number of envs that run at once.
        engine: as in `make`.
        deterministic: passed to a policy that has such an argument.
        background: return at once; a thread runs the episodes with a copy of the policy.
        confidence: confidence level of the bootstrap intervals.
        resamples: number of bootstrap resamples.
        scenario_kwargs: the parameters that are constructor arguments of a Python env; default: those in its signature.
            The other parameters are reset options. For kernels they are the kernel's parameters.
        wrap: applied to the vector env, e.g. to normalize observations. Returns are those of the unwrapped env.
        progress: called with the number of ended episodes and of all episodes, from the thread that runs them.
        **make_options: as in `make`; `max_episode_steps` is a time limit of your own; None: only the env's.
            It can be longer than the env's where the env is registered, a kernel, or has an argument of this name.

    Returns:
        The result; with `background=True`, a `Running` evaluation.

    Raises:
        ConfigError: an argument is not valid. Nothing was run.
        InvalidAction: the policy returned actions that do not fit the action space.
    """
    jobs = plan_jobs(episodes, seeds, scenarios)
    _check(env, confidence, resamples, make_options)
    count = _count(env, num_envs, engine, len(jobs))
    check_policy(policy)
    limits = _limits_of(make_options)
    asked = _checked(make_options.get(_LIMIT))
    if not _takes_limit(env):
        make_options.pop(_LIMIT, None)
    elif asked is not None:
        make_options[_LIMIT] = asked

    def work(own: Any, stop: threading.Event, report: Progress | None) -> Evaluation:
        envs = make(env, count, engine=engine, autoreset="next-step", **make_options)
        with contextlib.closing(envs), evaluation_mode(own):
            outer, actor = _prepared(own, envs, deterministic, wrap)
            rows = outer.unwrapped
            name = rows.spec.id if rows.spec is not None else _name_of(env)
            writer = _writer(rows, jobs, env, scenario_kwargs)
            cut = asked if limits else _limit_of(rows.spec)
            outcomes = Loop(outer, actor, jobs, writer, cut, report, stop).run()
        known = (int(each) for each in (*limits, cut) if isinstance(each, (int, np.integer)) and each > 0)
        limit = min(known, default=None)
        return Evaluation(name, jobs, outcomes, confidence, resamples, limit)

    if not background:
        return work(policy, threading.Event(), progress)
    return Running(functools.partial(work, snapshot(policy)), progress)


def _prepared(policy: Any, envs: Any, deterministic: bool, wrap: Callable[[Any], Any] | None) -> tuple[Any, Any]:
    """The envs as the loop steps them, and what acts in them."""
    if not isinstance(envs, MultiAgentVectorEnv):
        outer = envs if wrap is None else wrap(envs)
        return outer, Actor(policy, outer, deterministic)
    if wrap is not None:
        raise ConfigError("wrap= is for envs with one agent; wrap the PettingZoo env inside a function that makes it")
    return AgentRows(envs), AgentActor(policy, envs, deterministic)


def _limits_of(make_options: dict[str, Any]) -> list[Any]:
    """The time limits that the user sets, of all envs or of each; None and -1 are none."""
    each = make_options.get("env_kwargs")
    given = [make_options, *(each if isinstance(each, (list, tuple)) else [each])]
    return [entry[_LIMIT] for entry in given if isinstance(entry, Mapping) and _LIMIT in entry]


def _takes_limit(env: Any) -> bool:
    """Whether `make` can pass a time limit on: to registered envs, kernels, and what has an argument of this name."""
    kernel, build = find_build(env)
    if kernel is not None or find_task(env) is not None or isinstance(build, EnvSpec):
        return True
    if isinstance(build, str):
        return not build.startswith(PETTINGZOO)
    try:
        return _LIMIT in inspect.signature(build).parameters
    except (TypeError, ValueError):  # of a function that is not written in Python
        return False


def _checked(limit: Any) -> int | None:
    return None if limit is None or limit == -1 else positive_int(_LIMIT, limit)


def _limit_of(spec: EnvSpec | None) -> int | None:
    """Steps after which episodes are cut if the user sets no limit: none if the env has a limit of its own."""
    if spec is None:
        return LONGEST
    counts_frames = str(spec.entry_point).startswith("ale_py")
    return LONGEST if spec.max_episode_steps is None and not counts_frames else None


def _name_of(env: Any) -> str:
    return env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)


def _writer(envs: Any, jobs: Jobs, env: Any, kwargs: Collection[str] | None) -> Any:
    """The writer of the scenarios' parameters, None if no scenario has any."""
    scenarios = [part.scenarios for part in jobs.parts]
    return parameter_writer(envs, scenarios, env, kwargs) if any(one.names for one in scenarios) else None


def _check(env: Any, confidence: float, resamples: int, make_options: dict[str, Any]) -> None:
    if isinstance(env, (gymnasium.vector.VectorEnv, MultiAgentVectorEnv)):
        raise ConfigTypeError(
            f"evaluate makes its own envs, so that it can seed each episode; got a {type(env).__name__}: pass what "
            "vecenv.make takes (an id, a kernel or a function), and wrap= for wrappers"
        )
    if not 0.0 < confidence < 1.0:
        raise ConfigError(f"confidence must be between 0 and 1, e.g. 0.95; got {confidence}")
    positive_int("resamples", resamples)
    if "autoreset" in make_options:
        raise ConfigError("evaluate resets envs itself; leave autoreset out")


def _count(env: Any, num_envs: int | None, engine: Any, jobs: int) -> int:
    if isinstance(env, (list, tuple)):
        raise ConfigTypeError("evaluate takes one env; pass variants of it as scenarios, or call evaluate for each")
    if num_envs is not None:
        return min(positive_int("num_envs", num_envs), jobs)
    is_kernel = isinstance(env, (str, type, EnvSpec)) and find_build(env)[0] is not None
    return min(jobs, _MANY if is_kernel and (engine == "auto" or registry.declares(engine, "native")) else _SOME)
