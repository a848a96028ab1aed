"""A trained policy: a function from observations to actions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import nn

from vecenv._batch.layout import Layout
from vecenv._batch.leaf import Leaf, at
from vecenv._util.checks import brief
from vecenv.errors import SpaceError
from vecenv.trainers._device import CPU, copy_to, find_device, generator_for, host, put
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
        self._layout = None if observation_space is None else Layout(observation_space)
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
        """Clear the state of all rows, or of those where a new episode began: a bool for each row."""
        if began is None:
            self._state, self._began = None, None
        else:
            self._began = np.asarray(began)

    def __call__(self, obs: Any, deterministic: bool = True, mask: np.ndarray | None = None) -> np.ndarray:
        """Actions for a batch of observations, or one action for one observation.

        Args:
            obs: nested like the space: one observation of an env, or a batch of them.
            deterministic: whether to return the most probable actions; False samples them.
            mask: which actions are allowed, [batch, actions], or [actions] with one observation.

        Raises:
            SpaceError: as of `predict`.
        """
        obs, single = self._checked(obs)
        if single and mask is not None:
            mask = np.asarray(mask)[None]
        actions, self._state = self._act(obs, self._state, self._began, deterministic, mask)
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
            SpaceError: observations or masks have another structure or shape than in training, or observations are
                not in the space: 2.7 or 99 for Discrete(3). Numbers of a Box may be outside its bounds.
        """
        obs, single = self._checked(obs)
        if single:
            raise SpaceError("predict takes a batch of observations, this is one; call the policy itself: policy(obs)")
        return self._act(obs, state, episode_start, deterministic, action_masks)

    def _act(self, obs: Any, state: Any, began: Any, deterministic: bool, masks: Any) -> tuple[np.ndarray, Any]:
        """As `predict`, for observations from `_checked`."""
        began = None if began is None else put(self._checked_rows(np.asarray(began), obs), self.device)
        if masks is None and self.mask_key is not None:
            masks = masks_in(obs, self.mask_key)
        if masks is not None:
            masks = put(self._checked_masks(masks, obs), self.device)
        generator = None if deterministic else self._generator
        seen = obs if self._normalize is None else self._normalize.normalize(obs)
        with torch.inference_mode():
            actions, state = self._network.act(  # type: ignore[operator]  # the networks of trainers have `act`
                put(seen, self.device), state, began, masks, generator
            )
            return self._network.head.to_env(actions), state  # type: ignore[union-attr,operator]  # as above

    def _checked(self, obs: Any) -> tuple[Any, bool]:
        """A batch with the structure, shapes and dtypes of the space, and whether one observation was given.

        Without a space, observations are not checked.
        """
        layout = self._layout
        if layout is None:
            return obs, False
        try:
            given = [leaf if isinstance(leaf, torch.Tensor) else np.asarray(leaf) for leaf in layout.flat(obs)]
        except (LookupError, TypeError, ValueError) as error:
            raise SpaceError(f"these are no observations of {layout.space}: {brief(obs)}") from error
        single = given[0].ndim == len(layout.leaves[0].shape)
        axes = () if single else tuple(given[0].shape[:1])
        return layout.nest([_fitting(*pair, axes) for pair in zip(layout.leaves, given, strict=True)]), single

    def _checked_rows(self, began: np.ndarray, obs: Any) -> np.ndarray:
        """Where episodes begin, as booleans. Raises SpaceError unless there is one for each observation."""
        rows = began.size if self._layout is None else len(self._layout.flat(obs)[0])
        if began.size != rows or began.ndim > 1 or not np.isin(began, (False, True)).all():
            raise SpaceError(f"episode starts must be {rows} bools, one per observation, got {brief(began)}")
        return began.reshape(rows).astype(np.bool_)

    def _checked_masks(self, given: Any, obs: Any) -> np.ndarray:
        """Masks as booleans, from numbers of any dtype or from one object per row."""
        inputs = getattr(self._network.head, "inputs", None)
        if inputs is None:
            raise SpaceError(f"masks are for choices, the actions of this policy are {self.action_space}")
        try:
            masks = np.asarray(given)
            masks = np.stack(masks.tolist()) if masks.dtype == object else masks
        except (TypeError, ValueError) as error:
            raise SpaceError(f"masks must have {inputs} entries for each observation, got {brief(given)}") from error
        rows = len(masks) if self._layout is None else len(self._layout.flat(obs)[0])
        if masks.shape != (rows, inputs):
            raise SpaceError(f"masks must have shape {(rows, inputs)}, [observations, actions], got {masks.shape}")
        return np.asarray(masks, np.bool_)

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


def _fitting(leaf: Leaf, given: Any, axes: tuple[int, ...]) -> Any:
    """A batch of a leaf as in training: its shape behind `axes`, which are () for one observation, and its dtype.

    Arrays are contiguous and writable, as torch wants them.
    """
    tensor = isinstance(given, torch.Tensor)
    # Tensors keep their precision: "mps" has no float64.
    fits = leaf.dtype.kind == "f" and given.is_floating_point() if tensor else given.dtype == leaf.dtype
    values = given if fits else _cast(leaf, given)
    if values.shape != axes + leaf.shape:
        raise SpaceError(_shape_message(leaf, tuple(values.shape), axes))
    if not axes:
        values = values[None]
    if not tensor:
        values = np.ascontiguousarray(values)
        values = values if values.flags.writeable else values.copy()
    if isinstance(leaf.space, (spaces.Discrete, spaces.MultiDiscrete)):
        numbers, (low, high) = host(values), leaf.bounds
        if ((numbers < low) | (numbers > high)).any():  # indices that networks do not have
            raise SpaceError(f"observations{at(leaf.path)} are not in {leaf.space}: {brief(given)}")
    return values


def _cast(leaf: Leaf, given: Any) -> Any:
    """Numbers in the dtype of the leaf. Raises SpaceError if whole numbers would be others."""
    if isinstance(given, torch.Tensor):
        values = given.to(getattr(torch, leaf.dtype.name))
    elif given.dtype.kind in "biuf":
        with np.errstate(invalid="ignore", over="ignore"):
            values = given.astype(leaf.dtype)
    else:
        raise SpaceError(f"these are no observations of {leaf.space}: {brief(given)}")
    if values is not given and leaf.dtype.kind != "f" and not bool((values == given).all()):
        raise SpaceError(f"observations{at(leaf.path)} must be {leaf.dtype} as in {leaf.space}, got {brief(given)}")
    return values


def _shape_message(leaf: Leaf, shape: tuple[int, ...], axes: tuple[int, ...]) -> str:
    one = shape[1:] if len(shape) > len(leaf.shape) else shape
    if one == leaf.shape:
        return f"observations{at(leaf.path)} have shape {shape}; to fit the other parts it must be {axes + leaf.shape}"
    return (
        f"observations{at(leaf.path)} have shape {one}, the policy was trained on {leaf.shape}; make the envs as for "
        "training, with the same preprocessing and wrappers"
    )
