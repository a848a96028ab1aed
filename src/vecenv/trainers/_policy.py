"""A trained policy: a function from observations to actions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import nn

from vecenv._batch.layout import Layout, map_tree
from vecenv._util.checks import brief
from vecenv.errors import SpaceError
from vecenv.trainers._device import CPU, copy_to, find_device, generator_for, put
from vecenv.wrappers._normalize_observation import Normalize


class Policy:
    """Actions for observations as the envs return them: normalization is included. Can be pickled.

    A recurrent network keeps one state per row of the batch; `reset` clears it. Threads may share a policy; with a
    recurrent network each keeps its own state and calls `predict`.

    Args:
        network: has `act(obs, state, began, mask, generator)` and `head.to_env(actions)`; see PPO and SAC.
        normalize: normalization of observations, or None.
        seed: seed of sampled actions.
        mask_name: name of the info, or of the part of Dict observations, that held action masks in training; None: no
            masks.
        observation_space: of one env; tells one observation from a batch.
        action_space: of one env; `evaluate` refuses envs with other actions.

    Attributes:
        mask_name: of the info that `evaluate` and `vecenv play` mask actions by; None if observations have the masks.
        mask_key: of the part of observations that has the masks; None if it is an info, or if there are none.
        device: where the network is.
    """

    def __init__(
        self,
        network: nn.Module,
        normalize: Normalize | None,
        seed: int = 0,
        mask_name: str | None = None,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
    ) -> None:
        self._network, self._normalize = network.eval(), normalize
        self.observation_space, self.action_space = observation_space, action_space
        seen = isinstance(observation_space, spaces.Dict) and mask_name in observation_space.spaces
        self.mask_name, self.mask_key = (None, mask_name) if seen else (mask_name, None)
        self.device = next((part.device for part in network.parameters()), CPU)
        self._seed, self._generator = seed, generator_for(self.device, seed)
        self._state: Any = None
        self._began: np.ndarray | None = None

    @property
    def recurrent(self) -> bool:
        """Whether the policy has a state, so that `reset` must be called when episodes begin."""
        return bool(getattr(self._network, "recurrent", False))

    def to(self, device: str | torch.device) -> Policy:
        """A copy of the policy that computes on this device."""
        return Policy(**{**self.__getstate__(), "network": copy_to(self._network, find_device(device))})

    def export(self, path: str | Path) -> None:
        """Write the policy as a file that other programs run: ONNX (.onnx) or TorchScript (.pt).

        The file takes batches of observations as the envs return them and returns the most probable actions. Its
        inputs are named "obs" (of a Dict or Tuple "obs.NAME"), "mask" (bool, with action masks), "memory_0", ... and
        "began" (with a memory); its outputs "actions" and "next_memory_0", ... A memory begins with zeros.

        Raises:
            ConfigError: the name has another suffix.
            MissingExtra: ONNX needs `pip install 'vecenv[onnx]'`.
        """
        from vecenv.trainers._export import export

        export(self, path)

    def state_dict(self) -> dict[str, Any]:
        """Tensors and arrays by name: those of the network, and the moments that observations are normalized by."""
        state: dict[str, Any] = {f"network.{name}": value for name, value in self._network.state_dict().items()}
        moments = {} if self._normalize is None else self._normalize.state_dict()
        for key, own in moments.items():
            state |= {f"normalize.{key}.{name}": np.asarray(value) for name, value in own.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` returned of a policy with the same network and normalization.

        Raises:
            SpaceError: the state has other names or shapes.
        """
        own = self.state_dict()
        for name in own.keys() | state.keys():
            shapes = [np.shape(each[name]) if name in each else None for each in (own, state)]
            if shapes[0] != shapes[1]:
                raise SpaceError(f"{name!r} of this policy has shape {shapes[0]}, in the state it has {shapes[1]}")
        numbers = {name: torch.as_tensor(state[f"network.{name}"]) for name in self._network.state_dict()}
        self._network.load_state_dict(numbers)
        if self._normalize is not None:
            moments = self._normalize.state_dict()
            self._normalize.load_state_dict(
                {key: {name: state[f"normalize.{key}.{name}"] for name in each} for key, each in moments.items()}
            )

    def reset(self, began: np.ndarray | None = None) -> None:
        """Clear the state of all rows, or of those where a new episode began."""
        if began is None:
            self._state, self._began = None, None
        else:
            self._began = np.asarray(began, np.bool_)

    def __call__(self, obs: Any, deterministic: bool = True, mask: np.ndarray | None = None) -> np.ndarray:
        """Actions for a batch of observations, or one action for one observation.

        Args:
            obs: nested like the space: one observation of an env, or a batch of them.
            deterministic: whether to return the most probable actions; False samples them.
            mask: which actions are allowed, [batch, actions], or [actions] with one observation.
        """
        self._check_kind(obs)
        single = self._is_single(obs)
        if single:
            obs = map_tree(lambda leaf: leaf[None] if isinstance(leaf, torch.Tensor) else np.asarray(leaf)[None], obs)
            mask = None if mask is None else np.asarray(mask)[None]
        actions, self._state = self.predict(obs, self._state, self._began, deterministic, mask)
        self._began = None
        return actions[0] if single else actions

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
        action_masks: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Any]:
        """Actions and new states, for callers that keep the states themselves. The policy's own state is not used.

        Args:
            obs: batched and nested like the space.
            state: states of these rows, as the last call returned them; None at the beginning.
            episode_start: which rows begin an episode with `obs`.
            deterministic: whether to return the most probable actions; False samples them.
            action_masks: which actions are allowed, [batch, actions].

        Raises:
            SpaceError: the network cannot take these observations, whose shape is not that of training.
        """
        self._check_kind(obs)
        began = None if episode_start is None else put(np.asarray(episode_start, np.bool_), self.device)
        if action_masks is None and self.mask_key is not None:
            action_masks = masks_in(obs, self.mask_key)
        masks = None if action_masks is None else put(_masks(action_masks), self.device)
        generator = None if deterministic else self._generator
        try:
            seen = obs if self._normalize is None else self._normalize.normalize(obs)
            with torch.inference_mode():
                actions, state = self._network.act(  # type: ignore[operator]  # the networks of trainers have `act`
                    put(seen, self.device), state, began, masks, generator
                )
                return self._network.head.to_env(actions), state  # type: ignore[union-attr,operator]  # as above
        except (RuntimeError, ValueError) as error:  # of torch, of NumPy
            shape, trained = self._shapes(obs)
            if trained is None or shape[1:] == trained:
                raise
            raise SpaceError(
                f"observations have shape {shape[1:]}, the policy was trained on {trained}; make the envs as for "
                "training, with the same preprocessing and wrappers"
            ) from error

    def _is_single(self, obs: Any) -> bool:
        """Whether this is one observation rather than a batch."""
        shape, trained = self._shapes(obs)
        return trained is not None and len(shape) == len(trained)

    def _check_kind(self, obs: Any) -> None:
        """Raise SpaceError for what cannot be observations at all."""
        space = self.observation_space
        if space is None or isinstance(obs, torch.Tensor):
            return
        if isinstance(space, spaces.Dict):
            fits = isinstance(obs, Mapping) and space.spaces.keys() <= obs.keys()
        else:
            fits = isinstance(space, spaces.Tuple) or np.asarray(obs).dtype.kind in "biuf"
        if not fits:
            raise SpaceError(f"these are no observations of {space}: {brief(obs)}")

    def _shapes(self, obs: Any) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """The shape of the first leaf of `obs`, and what it is in one observation; None if the space is not known."""
        while isinstance(obs, (dict, tuple)):
            obs = next(iter(obs.values())) if isinstance(obs, dict) else obs[0]
        space = self.observation_space
        return tuple(np.shape(obs)), None if space is None else tuple(Layout(space).leaves[0].shape)

    def __getstate__(self) -> dict[str, Any]:
        kept = {"network": self._network, "normalize": self._normalize, "seed": self._seed}
        of_envs = {"observation_space": self.observation_space, "action_space": self.action_space}
        return {**kept, "mask_name": self.mask_name or self.mask_key, **of_envs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)


def given_masks(obs: Any, key: str) -> np.ndarray:
    """The action masks in a batch of Dict observations, as booleans."""
    return np.asarray(obs[key], np.bool_).reshape(len(obs[key]), -1)


def masks_in(obs: Any, key: str) -> np.ndarray:
    """The same for acting: where a mask allows nothing, which is right for agents that do not act, all is allowed."""
    masks = given_masks(obs, key)
    return masks | ~masks.any(axis=1, keepdims=True)


def _masks(given: Any) -> np.ndarray:
    """Masks as booleans, from numbers of any dtype or from one object per row."""
    given = np.asarray(given)
    return np.asarray(np.stack(given.tolist()) if given.dtype == object else given, np.bool_)
