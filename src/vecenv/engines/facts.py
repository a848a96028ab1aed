"""What each env of a batch declares (spaces, metadata, render mode), and the one declaration of the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium import Space
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from vecenv._batch.layout import Layout, check_same_spaces
from vecenv._util.checks import brief
from vecenv.errors import ConfigError, ConfigTypeError, SpaceError, VecenvError


@dataclass(frozen=True)
class EnvFacts:
    """What one env says of itself. Picklable, so that a worker can report it."""

    observation_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None

    @classmethod
    def of(cls, env: gymnasium.Env[Any, Any]) -> EnvFacts:
        """Of one env. Raises SpaceError if it has no spaces."""
        for name in ("observation_space", "action_space"):
            space = getattr(env, name, None)
            if not isinstance(space, Space):
                raise SpaceError(f"{name} of {type(env).__name__} must be a gymnasium Space, got {brief(space)}")
        return cls(env.observation_space, env.action_space, dict(env.metadata), env.render_mode)


@dataclass(frozen=True)
class BatchFacts:
    """What the envs of a batch share."""

    single_observation_space: Space[Any]
    observation_space: Space[Any]
    single_action_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    observation_layout: Layout
    action_layout: Layout

    @classmethod
    def of(
        cls,
        observation: Space[Any],
        action: Space[Any],
        count: int,
        metadata: dict[str, Any],
        render_mode: str | None,
        batched: Space[Any] | None = None,
    ) -> BatchFacts:
        """Of `count` envs with these spaces; `batched` are their observations together, if not as Gymnasium has it."""
        return cls(
            single_observation_space=observation,
            observation_space=batch_space(observation, count) if batched is None else batched,
            single_action_space=action,
            action_space=batch_space(action, count),
            metadata=dict(metadata),
            render_mode=render_mode,
            observation_layout=Layout(observation),
            action_layout=Layout(action),
        )


def check_observation_mode(mode: Any) -> None:
    """Raise unless the mode is "same", "different" or a pair of spaces."""
    if isinstance(mode, tuple) and len(mode) == 2:
        if not all(isinstance(space, Space) for space in mode):
            raise ModeTypeError(
                f"Expected both elements of observation_mode to be Spaces, got {type(mode[0])} and {type(mode[1])}"
            )
    elif mode not in ("same", "different"):
        raise ConfigError(
            "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single and batch observation "
            f"space, actual got {mode}"
        )


class ModeTypeError(ConfigTypeError, AssertionError):
    """observation_mode is a pair of something else than spaces (an assertion in Gymnasium 1.2)."""


def merge_facts(facts: Sequence[EnvFacts], observation_mode: Any) -> BatchFacts:
    """Find the spaces of the batch.

    Args:
        facts: of every env, in order.
        observation_mode: "same"; "different" (equal shapes and dtypes, other bounds); or Gymnasium's pair of
            (batched space, single space).

    Raises:
        SpaceMismatch: naming the first env whose spaces do not fit.
        SpaceError: the spaces cannot be compared or batched.
    """
    check_observation_mode(observation_mode)
    try:
        return _merge(facts, observation_mode)
    except VecenvError:
        raise
    except Exception as error:  # of Gymnasium, or of a space whose methods raise
        raise SpaceError(
            f"the spaces of the envs cannot be batched: {type(error).__name__}: {error}; make one env and look at its "
            "observation_space and action_space"
        ) from error


def _merge(facts: Sequence[EnvFacts], observation_mode: Any) -> BatchFacts:
    first, batched = facts[0], None
    single, observation = first.observation_space, [fact.observation_space for fact in facts]
    check_same_spaces(observation, [fact.action_space for fact in facts], observation_mode)
    if isinstance(observation_mode, tuple):
        batched, single = observation_mode
    elif observation_mode == "different":
        batched = batch_differing_spaces(observation)
    return BatchFacts.of(single, first.action_space, len(facts), first.metadata, first.render_mode, batched)
