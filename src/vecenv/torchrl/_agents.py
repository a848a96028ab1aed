"""Envs with several agents as an env of TorchRL, with its convention of groups and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from vecenv._util.extras import load_client
from vecenv.agents import MultiAgentVectorEnv

_envs: Any = load_client("torchrl.envs", "torchrl", "0.14.")
_gym: Any = load_client("torchrl.envs.libs.gym", "torchrl", "0.14.")
_specs: Any = load_client("torchrl.data", "torchrl", "0.14.")
_TensorDict: Any = load_client("tensordict", "tensordict", "0.14.").TensorDict
_MASK = "action_mask"


class AgentsEnv(_envs.EnvBase):
    """A TorchRL env with the batch size [num_envs]; each group has the entries of `PettingZooWrapper(use_mask=True)`.

    A group has "observation", "action", "reward", "done", "terminated", "truncated" and "mask" with the axes
    [num_envs, agents], and "action_mask" where the envs have one. "mask" says who must act. Of a dead agent, the three
    flags are True, and everything else is zero. The flags of the whole env are at the root.

    Args:
        envs: made with autoreset="disabled".
        device: of the tensors.
        categorical_action_encoding: numbers instead of one-hot vectors for Discrete actions.

    Attributes:
        envs: as given.
        group_map: names of agents by group, TorchRL's word.
    """

    def __init__(
        self, envs: MultiAgentVectorEnv, device: Any = None, categorical_action_encoding: bool = False
    ) -> None:
        super().__init__(device=device, batch_size=torch.Size([envs.num_envs]))
        self.envs = envs
        self.group_map = {name: list(agents) for name, agents in envs.groups.items()}
        self._categorical = categorical_action_encoding
        self._seed: int | None = None
        self._dead = np.zeros((envs.num_envs, envs.num_slots), np.bool_)
        """Agents whose end was reported before."""
        _, infos = envs.reset(seed=0)
        self._in_infos = [group for group in envs.groups if _MASK in self._of_group(infos, group)]
        """Groups whose infos have masks of actions."""
        self._allowed: dict[str, np.ndarray] = {}
        """The latest masks of these groups: a reset of some envs says nothing about the others."""
        self._make_specs()

    def _make_specs(self) -> None:
        action, observation, reward, flags = (_specs.Composite(shape=self.batch_size) for _ in range(4))
        flags.update(self._flags((self.envs.num_envs, 1)))
        for group in self.envs.slots.groups:
            axes = (self.envs.num_envs, len(group))
            acting = self._spec(group.action_space, axes)
            action[group.name] = _specs.Composite({"action": acting}, shape=axes)
            seen, masked = group.observation_space, group.name in self._in_infos
            if isinstance(seen, spaces.Dict) and _MASK in seen.spaces:
                masked, seen = True, spaces.Dict({key: part for key, part in seen.items() if key != _MASK})
            parts = {"observation": self._spec(seen, axes), "mask": self._bools(axes)}
            if masked:
                parts[_MASK] = self._bools((*axes, int(group.action_space.n)))  # type: ignore[attr-defined]  # Discrete
            observation[group.name] = _specs.Composite(parts, shape=axes)
            amount = _specs.Unbounded(shape=(*axes, 1), dtype=torch.float32, device=self.device)
            reward[group.name] = _specs.Composite({"reward": amount}, shape=axes)
            flags[group.name] = _specs.Composite(self._flags((*axes, 1)), shape=axes)
        self.action_spec, self.observation_spec, self.reward_spec, self.done_spec = action, observation, reward, flags

    def _spec(self, space: Any, axes: tuple[int, int]) -> Any:
        single = _gym._gym_to_torchrl_spec_transform(
            space, device=self.device, categorical_action_encoding=self._categorical, remap_state_to_observation=False
        )
        return single.expand(*axes, *single.shape)

    def _bools(self, shape: tuple[int, ...]) -> Any:
        return _specs.Categorical(n=2, shape=torch.Size(shape), dtype=torch.bool, device=self.device)

    def _flags(self, shape: tuple[int, ...]) -> dict[str, Any]:
        return {name: self._bools(shape) for name in ("done", "terminated", "truncated")}

    # --- TorchRL's calls ---------------------------------------------------------------------------------------------

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        asked = None if tensordict is None else tensordict.get("_reset", None)
        options = kwargs.get("options")
        began = np.ones(self.envs.num_envs, np.bool_)
        if asked is not None and not bool(asked.all()):
            began = asked.reshape(-1).cpu().numpy()
            options = {**(options or {}), "reset_mask": began}
        seed, self._seed = kwargs.get("seed", self._seed), None
        obs, infos = self.envs.reset(seed=seed, options=options)
        self._dead[began] = False
        none = np.zeros(self.envs.num_envs, np.bool_)
        no_agent = none[:, None]
        shown = {
            group: {**own, **self._flags_of(self._dead[:, part], no_agent, no_agent)}
            for group, own, part in self._seen(obs, infos)
        }
        return self._tensors({**shown, **self._flags_of(none, none, none)})

    def _step(self, tensordict: Any) -> Any:
        slots = self.envs.slots
        actions = [
            np.asarray(self.full_action_spec[name, "action"].to_numpy(tensordict.get((name, "action")), safe=False))
            for name in self.group_map
        ]
        step = self.envs.step(slots.nest(actions))
        terminated, truncated = (np.concatenate(slots.flat(each), axis=1) for each in (step.terminated, step.truncated))
        alive = np.concatenate(slots.flat(self.envs.alive), axis=1)
        valid = np.concatenate(slots.flat(step.valid), axis=1)
        self._dead = ~alive & ~valid
        rewards, shown = slots.flat(step.reward), {}
        for place, (group, own, part) in enumerate(self._seen(step.obs, step.infos)):
            flags = self._flags_of(self._dead[:, part], terminated[:, part], truncated[:, part])
            shown[group] = {**own, **flags, "reward": rewards[place].astype(np.float32)[..., None]}
        ended = [step.done & (self._dead | flag).all(axis=1) for flag in (terminated, truncated)]
        cut = step.done & ~ended[0] & ~ended[1]  # agents ended in different ways
        ended = [
            all_alike | (cut & flag.any(axis=1)) for all_alike, flag in zip(ended, (terminated, truncated), strict=True)
        ]
        root = {"done": step.done[:, None], "terminated": ended[0][:, None], "truncated": ended[1][:, None]}
        self._dead = ~alive
        return self._tensors({**shown, **root})

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the envs."""
        self.envs.close()
        self.is_closed = True

    # --- from arrays to tensors --------------------------------------------------------------------------------------

    def _seen(self, obs: Any, infos: dict[str, Any]) -> list[tuple[str, dict[str, Any], slice]]:
        """What each group is shown: its observations, who must act, and which actions are allowed."""
        found = []
        slots, acts = self.envs.slots, self.envs.slots.flat(self.envs.acts)
        for place, (name, part) in enumerate(zip(self.group_map, slots.parts(), strict=True)):
            seen, allowed = slots.flat(obs)[place], None
            if isinstance(seen, dict) and _MASK in seen:
                seen = dict(seen)
                allowed = seen.pop(_MASK)
            elif name in self._in_infos:
                shown = self._of_group(infos, name)
                has, masks = shown[f"_{_MASK}"][..., None], np.asarray(shown[_MASK], np.bool_)
                allowed = self._allowed[name] = np.where(has, masks, self._allowed.get(name, masks))
            own = {"observation": seen, "mask": acts[place]}
            if allowed is not None:
                own[_MASK] = np.where(acts[place][..., None], np.asarray(allowed, np.bool_), True)
                self.full_action_spec[name, "action"].update_mask(torch.from_numpy(own[_MASK]))
            found.append((name, own, part))
        return found

    def _of_group(self, infos: dict[str, Any], group: str) -> dict[str, Any]:
        return infos if len(self.group_map) == 1 else infos.get(group, {})

    @staticmethod
    def _flags_of(dead: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> dict[str, np.ndarray]:
        """The three flags with an axis of their own; all are True of the dead."""
        terminated, truncated = dead | terminated, dead | truncated
        flags = {"done": terminated | truncated, "terminated": terminated, "truncated": truncated}
        return {name: flag[..., None] for name, flag in flags.items()}

    def _tensors(self, values: dict[str, Any]) -> Any:
        found = _TensorDict({}, batch_size=self.batch_size, device=self.device)
        for key, value in values.items():
            if key in self.group_map:
                axes = (self.envs.num_envs, len(self.group_map[key]))
                value = _TensorDict(_as_tensors(value), batch_size=axes, device=self.device)
            else:
                value = torch.from_numpy(np.array(value))
            found.set(key, value)
        return found


def _as_tensors(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _as_tensors(value) for key, value in tree.items()}
    return torch.from_numpy(np.array(tree))
