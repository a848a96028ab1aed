"""Rollouts of envs whose results are tensors on a device: only the returns of episodes are copied to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vecenv._batch.layout import map_tree
from vecenv._front.device import DeviceVectorEnv
from vecenv.errors import ConfigError
from vecenv.trainers._device import host
from vecenv.trainers._progress import Clock, Episodes


class DeviceRollout:
    """T steps of N envs, as tensors [T, N, ...] on the envs' device.

    Args:
        env: a vector env in "same-step" mode whose `step` takes and returns torch tensors; `env.device` says where they
            are. `infos["final_obs"]` has the last observations of episodes, where one ended.
        steps: T.
        mask: name of the info that holds action masks; None: no masks.
    """

    def __init__(self, env: Any, steps: int, mask: str | None) -> None:
        self._env, self._steps, self._mask_name = env, steps, mask
        self._obs: Any = None
        self._mask: Tensor | None = None
        self._totals = torch.zeros(env.num_envs, device=env.device)
        self._lengths = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        self._kept: dict[str, list[Any]] = {}

    def begin(self, seed: int) -> None:
        """Reset the envs."""
        self._obs, infos = self._env.reset(seed=seed)
        self._obs, self._mask = map_tree(torch.clone, self._obs), self._allowed(infos)
        self._totals.zero_()
        self._lengths.zero_()

    def collect(self, network: Any, generator: torch.Generator, clock: Clock) -> None:
        """Make T steps."""
        kept: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        for _ in range(self._steps):
            with clock.measure("forward"), torch.inference_mode():
                outputs, value, _ = network(self._obs)
                drawn, log_prob = network.head.draw(outputs, self._mask, generator)
                actions = network.head.to_tensor(drawn)
            with clock.measure("env"):
                obs, reward, terminated, truncated, infos = self._env.step(actions)
            with clock.measure("buffer"), torch.inference_mode():
                done = terminated | truncated
                self._totals, self._lengths = self._totals + reward, self._lengths + 1
                now = (self._obs, drawn, value, log_prob, self._mask, reward.float(), terminated, truncated,
                       infos.get("final_obs", obs), done, self._totals, self._lengths)  # fmt: skip
                for name, part in zip(_COLUMNS, now, strict=True):
                    kept[name].append(None if part is None else map_tree(torch.clone, part))
                self._totals, self._lengths = self._totals * ~done, self._lengths * ~done
                self._obs, self._mask = map_tree(torch.clone, obs), self._allowed(infos)
        self._kept = kept

    def columns(self, network: Any, gamma: float, lam: float) -> dict[str, Any]:
        """What an update needs, [T, N, ...]: observations, actions, values, log probabilities, advantages, returns."""
        parts = {name: _stacked(self._kept[name]) for name in _COLUMNS}
        with torch.inference_mode():
            final = network(map_tree(lambda leaf: leaf.flatten(0, 1), parts["final_obs"]))[1]
            last_value, final_value = network(self._obs)[1], final.view_as(parts["value"])
            advantage = advantages(
                parts["reward"], parts["value"], last_value, parts["terminated"], parts["truncated"], final_value,
                gamma, lam,
            )  # fmt: skip
        columns = {name: parts[name] for name in ("obs", "actions", "value", "log_prob")}
        columns |= {"advantage": advantage, "returns": advantage + parts["value"]}
        if parts["mask"] is not None:
            columns["mask"] = parts["mask"]
        return map_tree(torch.clone, columns)  # tensors of inference mode cannot be learnt from

    def note(self, episodes: Episodes) -> None:
        """Count the episodes that ended in this rollout: one copy to the host.

        The device is waited for here, so envs of vecenv also raise what it has noted (`DeviceVectorEnv.check`).
        """
        if isinstance(self._env, DeviceVectorEnv):
            self._env.check()
        parts = [torch.stack(self._kept[name]).double() for name in ("done", "totals", "lengths")]
        done, totals, lengths = host(torch.stack(parts))
        ended = done > 0
        episodes.record(totals[ended], lengths[ended].astype(np.int64))

    def _allowed(self, infos: dict[str, Any]) -> Tensor | None:
        if self._mask_name is None:
            return None
        if self._mask_name not in infos:
            raise ConfigError(f"the envs' infos have no {self._mask_name!r} to mask actions; they have {list(infos)}")
        return infos[self._mask_name].bool().clone()


_COLUMNS = ("obs", "actions", "value", "log_prob", "mask", "reward", "terminated", "truncated", "final_obs", "done",
            "totals", "lengths")  # fmt: skip


def advantages(
    reward: Tensor, value: Tensor, last_value: Tensor, terminated: Tensor, truncated: Tensor, final_value: Tensor,
    gamma: float, lam: float,
) -> Tensor:  # fmt: skip
    """Generalized advantage estimation of tensors [T, N]; see `vecenv.buffers.gae`."""
    later, following, found = torch.zeros_like(last_value), last_value, []
    for time in range(len(reward) - 1, -1, -1):
        after = torch.where(truncated[time], final_value[time], following) * ~terminated[time]
        ended = terminated[time] | truncated[time]
        later = reward[time] + gamma * after - value[time] + gamma * lam * later * ~ended
        following = value[time]
        found.append(later)
    return torch.stack(found[::-1])


def _stacked(parts: list[Any]) -> Any:
    """A list of trees as a tree of tensors with a further axis in front; None stays None."""
    first = parts[0]
    if isinstance(first, dict):
        return {key: _stacked([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple):
        return tuple(_stacked([part[place] for part in parts]) for place in range(len(first)))
    return None if first is None else torch.stack(parts)
