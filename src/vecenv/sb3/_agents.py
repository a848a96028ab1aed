"""Envs with several agents as a VecEnv of Stable-Baselines3: a row per agent, for one policy that all agents share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.layout import map_tree
from vecenv._front.infos import rows_of_arrays
from vecenv._util.episodes import EpisodeTotals
from vecenv.agents import FlatVectorEnv
from vecenv.errors import NothingPendingError, PendingError, UnsupportedError
from vecenv.sb3._front import check_usable
from vecenv.sb3.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, images_of
from vecenv.sb3.util import check_for_nested_spaces

_MASKS = "action_masks"


class AgentVecEnv(VecEnv):
    """A VecEnv over `envs.flat()`: row n * A + a is agent a of env n. Made by `vecenv.sb3.wrap`.

    Stable-Baselines3 has no word for rows that are no transitions, such as those of dead agents. `valid` says which
    they are, for `vecenv.sb3.RolloutBuffer`, which drops them; infos have it too, and "episode" at the end of an
    agent's episode, whose steps it counts.

    Args:
        flat: of envs that were made with autoreset="same-step".

    Attributes:
        valid: [rows], which rows of the latest step are transitions. Always the same array.
    """

    def __init__(self, flat: FlatVectorEnv) -> None:
        rows = flat.agents.rows
        check_usable(flat.autoreset_mode, rows.copy)
        check_for_nested_spaces(flat.single_observation_space)
        self._flat, self._actions = flat, None
        self._masks: np.ndarray | None = None
        self.waiting = self.closed = False
        self.valid = np.zeros(flat.num_envs, np.bool_)
        self._totals, self._started = EpisodeTotals(flat.num_envs), time.time()
        super().__init__(flat.num_envs, flat.single_observation_space, flat.single_action_space)
        facts = {key: value for key, value in flat.metadata.items() if key != "autoreset_mode"}
        self.metadata = {**facts, **self.metadata}

    # --- episodes ----------------------------------------------------------------------------------------------------

    def reset(self) -> VecEnvObs:
        """Begin new episodes. The seed of an env is that of its first row."""
        self.waiting = False
        seeds = self._seeds[:: self._flat.num_slots]
        exchange = self._flat._exchange_reset(seeds if any(seed is not None for seed in seeds) else None, None)
        self.reset_infos = self._dicts(exchange.infos)
        self._note_masks(exchange.infos)
        self._totals.begin()
        self.valid[:] = False
        self._reset_seeds()
        self._reset_options()
        return exchange.obs

    def step_async(self, actions: Any) -> None:
        if self.waiting:
            raise PendingError("step_async() while a step is running; call step_wait() first")
        self._actions, self.waiting = actions, True

    def step_wait(self) -> VecEnvStepReturn:
        if not self.waiting:
            raise NothingPendingError("step_wait() without a step; call step_async() first")
        self.waiting = False
        exchange = self._flat._exchange_step(self._actions)
        self._flat.check_at_once("Stable-Baselines3")
        self.valid[:] = exchange.valid
        infos, final = self._dicts(exchange.infos), self._dicts(exchange.infos.get("final_info", {}))
        self._note_masks(exchange.infos)
        dones = exchange.terminated | exchange.truncated
        ended = self._totals.add(exchange.reward, dones, exchange.valid)
        rolled, now = np.repeat(self._flat.rolled, self._flat.num_slots), round(time.time() - self._started, 6)
        for row in ended.tolist():
            if rolled[row]:  # otherwise the agent died, and its env goes on
                self.reset_infos[row], infos[row] = infos[row], final[row]
            total, length = round(float(self._totals.returns[row]), 6), int(self._totals.lengths[row])
            infos[row]["episode"] = {"r": total, "l": length, "t": now}
            infos[row]["terminal_observation"] = map_tree(
                lambda leaf, at=row: leaf[at] if leaf.ndim > 1 else leaf[at].item(), exchange.final_obs
            )
        self._totals.begin(ended)
        cut_off = exchange.truncated & ~exchange.terminated
        for info, cut, valid in zip(infos, cut_off.tolist(), self.valid.tolist(), strict=True):
            info["TimeLimit.truncated"], info["valid"] = cut, valid
        return exchange.obs, exchange.reward.astype(np.float32), dones, infos

    def close(self) -> None:
        self._flat.close()
        self.waiting, self.closed = False, True

    def _dicts(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        skipped = ("acts", "valid", "final_info", "final_obs", "_final_info", "_final_obs")
        own = {key: value for key, value in infos.items() if key not in skipped}
        return rows_of_arrays(own, self.num_envs)

    def _note_masks(self, infos: dict[str, Any]) -> None:
        masks = infos.get("action_mask")
        self._masks = None if masks is None else np.asarray(masks, np.bool_)

    # --- single envs -------------------------------------------------------------------------------------------------

    def get_images(self) -> Sequence[np.ndarray | None]:
        frames = self._flat.render() if self.render_mode == "rgb_array" else None
        return images_of(self) if frames is None else [np.asarray(frame) for frame in frames]

    def has_attr(self, attr_name: str) -> bool:
        if attr_name == _MASKS:
            return self._masks is not None
        try:
            self._flat.get_attr(attr_name)
        except Exception:
            return False
        return True

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        if attr_name == "render_mode":
            return [self._flat.render_mode] * len(self._rows(indices))
        values = self._flat.get_attr(attr_name)
        return [values[row // self._flat.num_slots] for row in self._rows(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        if indices is not None:
            raise UnsupportedError("agents of an env share its attributes; set them for all, without indices")
        self._flat.set_attr(attr_name, [value] * self._flat.agents.num_envs)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the envs; action masks came with the last observations."""
        rows = self._rows(indices)
        if method_name == _MASKS and self._masks is not None:
            return list(self._masks[rows])
        values = self._flat.call(method_name, *method_args, **method_kwargs)
        return [values[row // self._flat.num_slots] for row in rows]

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        return [False] * len(self._rows(indices))

    def _rows(self, indices: VecEnvIndices) -> list[int]:
        everyone = range(self.num_envs)
        return [everyone[index] for index in self._get_indices(indices)]
