"""Atari games that were asked for: their specs, arguments and preprocessing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymnasium.envs.registration import EnvSpec

from vecenv.atari._env import MakeGame
from vecenv.atari._ids import check_arguments, check_frame_skip
from vecenv.atari._preprocessing import Preprocessing


@dataclass(frozen=True)
class AtariGames:
    """One game per row.

    Attributes:
        specs: Gymnasium's.
        kwargs: constructor arguments of each, without those of the spec.
        preprocessing: of all, None for games as Gymnasium makes them.

    Raises:
        ConfigError: a game does not have one of its arguments, or preprocessing does not go with it.
    """

    specs: Sequence[EnvSpec]
    kwargs: Sequence[Mapping[str, Any]]
    preprocessing: Preprocessing | None = None

    def __post_init__(self) -> None:
        if self.preprocessing is None:
            return
        names = [field.name for field in dataclasses.fields(self.preprocessing)]
        for spec, row in zip(self.specs, self.kwargs, strict=True):
            check_frame_skip(spec)
            check_arguments(spec.id, row, names)

    @classmethod
    def of(cls, specs: Sequence[EnvSpec], kwargs: Sequence[Mapping[str, Any]], preprocessing: Any) -> AtariGames:
        """Read what `make` was given. Different games get the full action space, unless rows say otherwise."""
        if len({spec.kwargs["game"] for spec in specs}) > 1:
            kwargs = [{"full_action_space": True, **row} for row in kwargs]
        return cls(specs, kwargs, None if preprocessing is None else Preprocessing.parse(preprocessing))

    @property
    def spec(self) -> EnvSpec | None:
        """The spec of all games, None if they are different ones."""
        return self.specs[0] if len({spec.id for spec in self.specs}) == 1 else None

    def factories(self, wrappers: tuple[Any, ...]) -> list[MakeGame]:
        """What builds each game in Python, preprocessed."""
        assert self.preprocessing is not None
        made = []
        for spec, row in zip(self.specs, self.kwargs, strict=True):
            given = {**spec.kwargs, **row}
            del given["frameskip"]
            steps, frames = given.pop("max_episode_steps", None), given.pop("max_num_frames_per_episode")
            made.append(MakeGame(given, self.preprocessing, frames, steps, wrappers))
        return made
