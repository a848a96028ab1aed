"""Normalise observations to mean zero and variance one, with one statistic for all envs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns

from vecenv.errors import ConfigError
from vecenv.wrappers._moments import Moments


class ObservationNormalizer(ConnectorV2):
    """Normalises every float array of the observation, over all envs.

    The statistics have the shape of one observation, so they fit any number of envs; runners merge theirs after every
    iteration, each sample counted once, and checkpoints contain them. (RLlib's MeanStdFilter on packed observations
    would have statistics of shape [N, ...] and normalise rewards and flags too.)

    Args:
        space: observation space of one env.
        clip: limit of the absolute values.
        epsilon: added to the variance.
        learning: whether statistics are updated; not during evaluation.
    """

    def __init__(self, space: Space[Any], *, clip: float = 10.0, epsilon: float = 1e-8, learning: bool = True) -> None:
        super().__init__()
        self._space, self._clip, self._epsilon, self.learning = space, clip, epsilon, learning
        self._seen = {path: Moments(leaf.shape or ()) for path, leaf in _float_leaves(space).items()}
        if not self._seen:
            raise ConfigError(f"there is nothing to normalise in observations of {space}: no Box of floats")
        self._new = self._no_moments()

    def __call__(self, *, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> dict[str, Any]:
        """Normalise the batch, or the latest observations in a packed env's episode."""
        if not episodes:
            batch[Columns.OBS] = self._walk(batch[Columns.OBS], ())
            return batch
        (episode,) = episodes
        recorded = episode.get_observations(-1)
        episode.set_observations(at_indices=-1, new_data={**recorded, "obs": self._walk(recorded["obs"], ())})
        return batch

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """All statistics, and the part since the last merge."""
        return {"seen": _states(self._seen), "new": _states(self._new)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` or `merge_states` returned."""
        for path, moments in self._seen.items():
            moments.load_state_dict(state["seen"]["/".join(path)])
        self._new = self._no_moments()

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """This piece's statistics, plus the new part of each of the others."""
        for path, moments in self._seen.items():
            for state in states:
                new = state["new"]["/".join(path)]
                if new["count"]:
                    moments.update_from_moments(new["mean"], new["var"], new["count"])
        self._new = self._no_moments()
        return self.get_state()

    def _no_moments(self) -> dict[tuple[str, ...], Moments]:
        return {path: Moments(moments.shape, epsilon=0.0) for path, moments in self._seen.items()}

    def _walk(self, obs: Any, path: tuple[str, ...]) -> Any:
        if isinstance(obs, dict):
            return {key: self._walk(part, (*path, str(key))) for key, part in obs.items()}
        if isinstance(obs, tuple):
            return tuple(self._walk(part, (*path, str(at))) for at, part in enumerate(obs))
        if path not in self._seen:
            return obs
        if not self.learning:
            return self._seen[path].normalize(obs, self._epsilon, self._clip)
        self._new[path].update(obs)
        return self._seen[path].update_and_normalize(obs, self._epsilon, self._clip)


def copy_statistics_to_evaluation(*, algorithm: Any, **kwargs: Any) -> None:
    """Before evaluation, copy the training statistics to all runners that evaluate; RLlib does not.

    Without evaluation runners the training runner evaluates; its statistics must not change then.
    """
    own, group = _normalizers(algorithm.env_runner), algorithm.eval_env_runner_group
    if group is None:
        for piece in own:
            piece.learning = False
    elif own:
        group.foreach_env_runner(functools.partial(_load_states, [piece.get_state() for piece in own]))


def _load_states(states: list[dict[str, Any]], runner: Any) -> None:
    for piece, state in zip(_normalizers(runner), states, strict=True):
        piece.set_state(state)


def resume_statistics(*, algorithm: Any, **kwargs: Any) -> None:
    """After evaluation, let the training runner update its statistics again."""
    for own in _normalizers(algorithm.env_runner):
        own.learning = True


def _normalizers(runner: Any) -> list[ObservationNormalizer]:
    pieces = [] if runner is None else runner._env_to_module.connectors
    return [piece for piece in pieces if isinstance(piece, ObservationNormalizer)]


def _float_leaves(space: Space[Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Space[Any]]:
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        is_float = isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
        return {path: space} if is_float else {}
    children: Any = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    found: dict[tuple[str, ...], Space[Any]] = {}
    for key, child in children:
        found |= _float_leaves(child, (*path, str(key)))
    return found


def _states(moments: dict[tuple[str, ...], Moments]) -> dict[str, Any]:
    return {"/".join(path): own.state_dict() for path, own in moments.items()}
