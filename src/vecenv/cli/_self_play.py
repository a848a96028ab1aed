"""Self-play of `vecenv train`: one agent of each env learns against a random player and earlier policies of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space

from vecenv._batch.slots import FLAGS
from vecenv.agents import League, MultiAgentVectorEnv
from vecenv.cli._agents import MASK
from vecenv.cli._sources import EnvSource
from vecenv.evaluation._evaluate import LONGEST
from vecenv.evaluation._jobs import plan_jobs
from vecenv.evaluation._statistics import bootstrap, interquartile_mean, mean

_ACTS, _ALIVE = FLAGS.index("acts"), FLAGS.index("alive")
_RANDOM = "random"
_POLICIES = 10
"""How many opponents the league keeps."""
_EVALUATED = 16
"""Envs of an evaluation."""


class RandomPlayer:
    """Takes any action, of those that are allowed where observations or infos have masks."""

    def __init__(self, space: Space[Any], seed: int) -> None:
        self._space, self._rng = space, np.random.default_rng(seed)

    def __call__(self, obs: Any, mask: Any = None) -> Any:
        """One action per observation."""
        mask = obs[MASK] if isinstance(obs, dict) and MASK in obs else mask
        if mask is not None and isinstance(self._space, spaces.Discrete):
            return self._space.start + np.argmax(self._rng.random(np.shape(mask)) * (np.asarray(mask) != 0), axis=1)
        leaf = obs
        while isinstance(leaf, (dict, tuple)):
            leaf = next(iter(leaf.values())) if isinstance(leaf, dict) else leaf[0]
        several = batch_space(self._space, len(leaf))
        several.seed(int(self._rng.integers(2**31)))
        return several.sample()


class Opponents:
    """The league of a run: a random player, and policies of the run that are added as training goes on.

    Args:
        envs: agents of one group, with autoreset="same-step".
        seed: of the random player and of who plays.

    Attributes:
        game: the single-agent vector env to train on.
    """

    def __init__(self, envs: MultiAgentVectorEnv, seed: int) -> None:
        self._league = League({_RANDOM: RandomPlayer(envs.single_action_space, seed)}, limit=_POLICIES, seed=seed)
        self.game = envs.versus(self._league)

    def adds(self, steps_before: int, steps: int) -> Callable[[Any], None]:
        """A callback that adds the policy after every part of the steps."""
        every = max(1, (steps - steps_before) // (2 * _POLICIES))
        next_time = steps_before + every

        def add(progress: Any) -> None:
            nonlocal next_time
            if progress.steps >= next_time:
                next_time = progress.steps + every
                self._league.add(f"{progress.steps}", functools.partial(progress.trainer.policy, deterministic=False))

        return add


def acts_by_turns(source: EnvSource) -> bool:
    """Whether the env has agents of one group that act by turns. Builds one env to find out."""
    if len(source.groups()) != 1:
        return False
    with closing(source.factory()()) as env:
        obs, _ = env.reset(seed=0)
        return bool((obs["flags"][_ACTS] != obs["flags"][_ALIVE]).any())


def evaluate(
    policy: Any, source: EnvSource, episodes: int, progress: Callable[[int], object], **options: Any
) -> dict[str, Any]:
    """Returns of the policy against a random player, in every seat alike; the first episodes of each env count.

    Episodes are cut after as many turns of the policy as `vecenv.evaluate` allows steps.

    Seeds are those of `vecenv.evaluate`, which no training begins with. `options` are those of `make`.
    """
    with closing(source.make(min(_EVALUATED, episodes), autoreset="same-step", **options)) as envs:
        count = envs.num_envs
        seeds = plan_jobs(count, 1, None).episode_seed.tolist()
        game = envs.versus(RandomPlayer(envs.single_action_space, seeds[0]))
        quota = np.arange(episodes, episodes + count)[::-1] // count
        obs, infos = game.reset(seed=seeds)
        totals, lengths, returns, cut = np.zeros(count), np.zeros(count, np.int64), [], 0
        while quota.any():
            masks = {"mask": infos[policy.mask_name]} if policy.mask_name else {}
            obs, reward, terminated, truncated, infos = game.step(policy(obs, **masks))
            totals, lengths = totals + reward, lengths + 1
            over = ~(terminated | truncated) & (lengths >= LONGEST)
            ended = terminated | truncated | over
            returns += totals[ended & (quota > 0)].tolist()
            cut += np.count_nonzero(over & (quota > 0))
            quota[ended & (quota > 0)] -= 1
            totals[ended], lengths[ended] = 0.0, 0
            if over.any():
                obs, begun = game.reset(options={"reset_mask": over})
                if policy.mask_name:
                    infos[policy.mask_name][over] = begun[policy.mask_name][over]
            progress(len(returns))
    found = np.array(returns)
    low, high = bootstrap((found,), mean)
    iqm_low, iqm_high = bootstrap((found,), interquartile_mean)
    return {"episodes": len(found), "cut": cut, "mean": float(found.mean()), "low": low, "high": high,
            "iqm": float(interquartile_mean(found)), "iqm_low": iqm_low, "iqm_high": iqm_high,
            "against": "a random player"}  # fmt: skip
