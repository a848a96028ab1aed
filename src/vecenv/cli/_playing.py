"""Run episodes and show their frames."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Protocol

import numpy as np

from vecenv.agents import AgentStep, MultiAgentVectorEnv
from vecenv.cli._agents import sample_all
from vecenv.cli._films import FPS, checked_frame, choose_gl, drawing
from vecenv.cli._screen import Bar
from vecenv.cli._sources import EnvSource
from vecenv.evaluation._agents import AgentActor
from vecenv.evaluation._policies import Actor


class Sink(Protocol):
    """Takes frames. It uses only one of `every` frames; the others need not be rendered."""

    every: int

    def write(self, frame: np.ndarray) -> None:
        """Take a frame: uint8, [height, width, 3]."""
        ...

    def close(self) -> None:
        """Called after the last frame."""
        ...


def play(
    source: EnvSource,
    policy: Any,
    open_sink: Callable[[float], Sink],
    *,
    seed: int = 0,
    episodes: int = 1,
    max_steps: int = 1000,
    deterministic: bool = True,
    progress: Bar | None = None,
) -> list[dict[str, Any]]:
    """Run episodes and pass their frames to a sink.

    Args:
        source: the env.
        policy: what `evaluate` takes; None: random actions.
        open_sink: function from frames per second to the sink.
        seed: seed of the first episode; the next ones have the following numbers.
        episodes, max_steps: number of episodes, and largest number of steps of each.
        deterministic: as in `evaluate`.
        progress: progress bar, in episodes.

    Returns:
        Seed, return and length of each episode, and whether it ended within `max_steps`.
    """
    with closing(_drawn(source)) as envs:
        envs.action_space.seed(seed)
        actor = _actor(policy, envs, deterministic)
        with closing(open_sink(float(envs.metadata.get("render_fps") or FPS))) as sink:
            return [
                _episode(envs, actor, sink, seed + number, max_steps, number, progress) for number in range(episodes)
            ]


def _actor(policy: Any, envs: Any, deterministic: bool) -> Any:
    if not isinstance(envs, MultiAgentVectorEnv):
        return Actor(policy or (lambda obs: envs.action_space.sample()), envs, deterministic)
    return _RandomAgents(envs) if policy is None else AgentActor(policy, envs, deterministic)


class _RandomAgents:
    """Random actions of agents, those that masks allow. It is called like an `Actor`."""

    def __init__(self, envs: MultiAgentVectorEnv) -> None:
        self._envs = envs

    def masks(self, infos: dict[str, Any], env_ids: np.ndarray, acting: np.ndarray) -> dict[str, Any]:
        return infos

    def act(self, obs: Any, rows: np.ndarray, starts: np.ndarray, masks: dict[str, Any]) -> Any:
        return sample_all(self._envs, obs, masks)


def _episode(
    envs: Any, actor: Any, sink: Sink, seed: int, max_steps: int, number: int, progress: Bar | None
) -> dict[str, Any]:
    rows, starts = np.zeros(1, np.int64), np.ones(1, np.bool_)
    obs, info = envs.reset(seed=seed)
    sink.write(_frame(envs))
    total, length, done = 0.0, 0, False
    while not done and length < max_steps:
        actions = actor.act(obs, rows, starts, actor.masks(info, rows, np.ones(1, np.bool_)))
        starts = np.zeros(1, np.bool_)
        obs, reward, terminated, truncated, info = step = envs.step(actions)
        if isinstance(step, AgentStep):
            reward, terminated = np.concatenate(envs.slots.flat(reward), axis=1).sum(axis=1), step.done
            truncated = terminated
        total, length, done = total + float(reward[0]), length + 1, bool(terminated[0] or truncated[0])
        if length % sink.every == 0 or done:
            sink.write(_frame(envs))
        if progress is not None:
            progress.update(number + (1.0 if done else length / max_steps), f"step {length}")
    return {"seed": seed, "return": total, "length": length, "ended": done}


def _drawn(source: EnvSource) -> Any:
    """One env that can be rendered."""
    choose_gl(source.env)
    with drawing(source.name):
        return source.make(1, engine="sync", autoreset="disabled", env_kwargs={"render_mode": "rgb_array"})


def _frame(envs: Any) -> np.ndarray:
    with drawing("the env"):
        frames = envs.render()
    return checked_frame(None if frames is None else frames[0])
