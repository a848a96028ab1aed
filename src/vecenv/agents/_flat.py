"""All slots of all envs as rows of one Gymnasium vector env, for one policy that all agents share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from vecenv._batch.batch import Op
from vecenv._batch.layout import Layout, map_tree
from vecenv._front.autoreset import rolls
from vecenv._front.exchange import Exchange
from vecenv._front.infos import objects
from vecenv._front.reset_options import ResetOptions
from vecenv.errors import InvalidAction, SpaceError, UnsupportedError

if TYPE_CHECKING:
    from vecenv._front.rollout import Snapshot
    from vecenv.agents._step import AgentStep
    from vecenv.agents._vector_env import InfoParts, MultiAgentVectorEnv


class FlatVectorEnv(gymnasium.vector.VectorEnv):
    """N x A rows: row n * A + a is slot a of env n. Use `MultiAgentVectorEnv.flat` to build one.

    Agents of an env begin their episodes together, and each ends its own. `infos["acts"]` says which rows must act, and
    `infos["valid"]` which rows are transitions; the others read zero and are to be left out of what is learned from.

    Args:
        agents: envs whose agents have equal spaces.
        group: the rows of one of several groups. They cannot be stepped without the others: a trainer steps the envs
            and asks every group for its part of the results.

    Attributes:
        num_slots: A.
        rolled: [N], in which envs an episode ended and the next began in the latest exchange.
        waits: [N x A], which rows have acted and have no results yet, because agents act by turns. It is for
            trainers: `reset` and `step` leave it as it is.
    """

    def __init__(self, agents: MultiAgentVectorEnv, group: str | None = None) -> None:
        if group is None and len(agents.groups) > 1:
            raise UnsupportedError(
                f"flat() is for one group of agents; these envs have {list(agents.groups)}: make them with pad=True"
            )
        own = agents.slots.groups[0 if group is None else list(agents.groups).index(group)]
        self.agents = agents
        self._place = agents.slots.groups.index(own)
        self._part = agents.slots.parts()[self._place]
        self.num_slots = len(own)
        self.num_envs = agents.num_envs * self.num_slots
        self.single_observation_space = own.observation_space
        self.single_action_space = own.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = dict(agents.metadata)
        self.render_mode = agents.render_mode
        self._may_roll = rolls(agents.autoreset_mode)
        self._actions = Layout(self.single_action_space)
        self._acted = np.zeros(self.num_envs, np.bool_)
        """Which rows act with the next actions."""
        self.waits = np.zeros(self.num_envs, np.bool_)
        self.rolled = np.zeros(agents.num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes.

        Args:
            seed: None; an int, from which every env gets a seed of its own; or one int or None per env (not per row).
            options: of the envs. `options["reset_mask"]` has one entry per row; an env is reset if all of its rows are.
        """
        self._check_alone()
        obs, infos = self.agents._reset(seed, self._by_env(options))
        return self._joined(obs), self._infos(infos)

    def _by_env(self, options: Any) -> Any:
        """Options with a mask of envs in the place of one of rows."""
        if not isinstance(options, Mapping) or "reset_mask" not in options:
            return options
        mask = ResetOptions.parse(dict(options), self.num_envs).mask
        assert mask is not None
        slots = mask.reshape(self.agents.num_envs, -1)
        partly = slots.any(axis=1) & ~slots.all(axis=1)
        if partly.any():
            raise SpaceError(
                f"reset_mask has some slots of env {int(np.flatnonzero(partly)[0])} and not all; the agents of an env "
                "begin an episode together"
            )
        return {**options, "reset_mask": slots.all(axis=1)}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs; the actions of rows that do not act are ignored."""
        self._check_alone()
        step, parts = self.agents._step(self._with_slots(actions))
        infos = self._infos(parts)
        terminated, truncated = step.terminated.reshape(-1), step.truncated.reshape(-1)
        ended = terminated | truncated
        if self._may_roll and ended.any():
            final = self._joined(step.next_obs)
            places = np.flatnonzero(ended).tolist()
            values = (map_tree(lambda leaf, at=place: _plain(leaf[at]), final) for place in places)
            infos["final_obs"], infos["_final_obs"] = objects(places, values, self.num_envs), ended
        return self._joined(step.obs), step.reward.reshape(-1), terminated, truncated, infos

    # --- for trainers: the same with what is a transition -------------------------------------------------------------

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """Gymnasium's enum."""
        return self.agents.autoreset_mode

    @property
    def engine_reason(self) -> str:
        """Why this engine was chosen."""
        return self.agents.engine_reason

    def get_state(self) -> Snapshot:
        """Everything that the envs consist of; see `VectorEnv.get_state`."""
        return self.agents.get_state()

    def set_state(self, state: Snapshot) -> None:
        """Make the envs what they were in `get_state`; see `VectorEnv.set_state`."""
        self.agents.set_state(state)
        self._acted, self.waits = self._acts(), np.zeros(self.num_envs, np.bool_)

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        self._check_alone()
        return self._began(*self.agents._reset(seed, self._by_env(options)))

    def _exchange_step(self, actions: Any, env_ids: Any = None) -> Exchange:
        """As `_stepped`, after a step with these actions."""
        self._check_alone()
        return self._stepped(*self.agents._step(self._with_slots(actions)))

    def _began(self, obs: Any, parts: InfoParts) -> Exchange:
        """What a reset of the envs returned, as rows."""
        infos = self._infos(parts)
        self._acted, self.waits = infos["acts"], np.zeros(self.num_envs, np.bool_)
        self._allow_idle(infos)
        return Exchange.of_reset(self._joined(self._own(obs)), infos, None, self.num_envs)

    def _stepped(self, step: AgentStep, parts: InfoParts) -> Exchange:
        """What a step of the envs returned, as rows.

        Each row that ended an episode has begun another. A row that is no transition was reset, unless it waits for the
        others' turns: then nothing happened to it.
        """
        pending, infos = self._acted | self.waits, self._infos(parts)
        valid, self._acted, self.rolled = infos["valid"] & pending, infos["acts"], step.rolled
        self.waits = pending & ~valid & ~np.repeat(step.done, self.num_slots)
        self._allow_idle(infos)
        terminated, truncated = self._own(step.terminated).reshape(-1), self._own(step.truncated).reshape(-1)
        ended = terminated | truncated
        ops = np.where(valid, np.uint8(Op.ROLL), np.where(self.waits, np.uint8(Op.IDLE), np.uint8(Op.RESET)))
        return Exchange(
            rows=np.arange(self.num_envs),
            obs=self._joined(self._own(step.obs)),
            final_obs=self._joined(self._own(step.next_obs)) if ended.any() else None,
            reward=self._own(step.reward).reshape(-1),
            terminated=terminated,
            truncated=truncated,
            ops=ops,
            infos=infos,
        )

    def check_at_once(self, who: str) -> None:
        """Raise UnsupportedError if agents act by turns, so that the results of an action do not come with the step."""
        if self.waits.any():
            raise UnsupportedError(
                f"these agents act by turns: what an action leads to is not known in the next step, which {who} needs; "
                "use vecenv.trainers.PPO without lstm and central_value, or any of vecenv's trainers with "
                "envs.versus(policy), where one agent learns"
            )

    def _allow_idle(self, infos: dict[str, Any]) -> None:
        """Rows that do not act may do anything: masks that allow nothing are for those that act."""
        if "action_mask" in infos and infos["action_mask"].dtype != object:
            infos["action_mask"] = infos["action_mask"].copy()
            infos["action_mask"][~infos["acts"]] = 1

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs."""
        self.agents.close()

    def __del__(self) -> None:
        """Nothing: a view that is dropped does not close the envs, as Gymnasium's `__del__` would."""

    def render(self) -> tuple[Any, ...] | None:
        """One frame per env, not per row."""
        return self.agents.render()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, not of every row."""
        return self.agents.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env, not of every row."""
        return self.agents.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has one value per env, not per row."""
        self.agents.set_attr(name, values)

    # --- between rows and slots --------------------------------------------------------------------------------------

    def _check_alone(self) -> None:
        if len(self.agents.groups) > 1:
            raise UnsupportedError(
                f"the rows of one of the groups {list(self.agents.groups)} cannot be stepped alone; step the envs, or "
                "train them by vecenv.trainers.GroupPPO"
            )

    def _own(self, by_group: Any) -> Any:
        """The part of this group."""
        return self.agents.slots.flat(by_group)[self._place]

    def _acts(self) -> np.ndarray:
        return self.agents._acts[:, self._part].reshape(-1).copy()

    def _joined(self, tree: Any) -> Any:
        return map_tree(lambda leaf: leaf.reshape(self.num_envs, *leaf.shape[2:]), tree)

    def _with_slots(self, actions: Any) -> Any:
        envs, slots = self.agents.num_envs, self.num_slots

        def parted(leaf: Any) -> np.ndarray:
            array = np.asarray(leaf)
            if array.shape[:1] != (self.num_envs,):
                raise InvalidAction(
                    f"actions have shape {array.shape}, this env has {self.num_envs} rows ({envs} envs x {slots} "
                    "slots); pass one action per row; nothing was sent"
                )
            return array.reshape(envs, slots, *array.shape[1:])

        if isinstance(actions, Mapping) or (isinstance(actions, tuple) and self._actions.leaves[0].path):
            return map_tree(parted, actions)
        return parted(actions)

    def _infos(self, infos: InfoParts) -> dict[str, Any]:
        """Infos of agents by row; those of an env are repeated for each of its rows."""
        slots = self.num_slots
        of_agents = infos.agents
        if len(self.agents.groups) > 1:
            of_agents = infos.agents.get(self.agents.slots.groups[self._place].name, {})
        flat = {
            **_mapped(lambda array: np.repeat(array, slots, axis=0), infos.envs),
            **_mapped(lambda array: array.reshape(self.num_envs, *array.shape[2:]), of_agents),
        }
        if "final_info" in infos.envs and "final_info" in flat:
            of_envs = _mapped(lambda array: np.repeat(array, slots, axis=0), infos.envs["final_info"])
            flat["final_info"] = {**of_envs, **flat["final_info"]}
        flat["acts"], flat["valid"] = self._acts(), self.agents._valid[:, self._part].reshape(-1).copy()
        return flat


def _mapped(function: Callable[[Any], Any], infos: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _mapped(function, value) if isinstance(value, dict) else function(value) for key, value in infos.items()
    }


def _plain(value: Any) -> Any:
    """A single integer as envs return it, anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value
