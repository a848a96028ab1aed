"""The random streams of a policy, for running it in Python."""

from __future__ import annotations

from vecenv._batch.random_state import POLICIES, fresh_words
from vecenv.kernel.language.snapshot import generator
from vecenv.kernel.rng import Stream


def policy_streams(seed: int, num_envs: int) -> list[Stream]:
    """The `rng` of each env's policy in `envs.rollout(policy=policy, steps=..., seed=seed)`.

    A policy that is called in Python with these draws the same random numbers as native code.
    """
    return [Stream(generator(words).bit_generator) for words in fresh_words(seed, num_envs, POLICIES)]
