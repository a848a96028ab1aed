"""The front of environments with several agents: a vector env of rows, seen with an axis of slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from vecenv._batch.batch import Op
from vecenv._batch.slots import FLAGS, SLOT_MASK, Slots, SlotSpace
from vecenv._front.exchange import Exchange
from vecenv._front.explain import Explanation
from vecenv._front.infos import as_arrays
from vecenv._front.rollout import Rollout, Snapshot
from vecenv._front.stats import Stats
from vecenv._front.vector_env import VectorEnv
from vecenv.agents._actions import ActionPacker
from vecenv.agents._flat import FlatVectorEnv
from vecenv.agents._slot_env import SLOT_INFOS, SlotInfos
from vecenv.agents._step import AgentStep
from vecenv.agents._versus import VersusVectorEnv, versus
from vecenv.errors import UnsupportedError

if TYPE_CHECKING:
    from vecenv.engines.recording.recording import Recording

_RESET = int(Op.RESET)
_ACTS, _VALID, _ALIVE, _TERMINATED, _TRUNCATED = range(len(FLAGS))


class InfoParts(NamedTuple):
    """Infos of agents, whose arrays have an axis of slots, and infos of envs. Both may have a "final_info"."""

    agents: dict[str, Any]
    envs: dict[str, Any]

    def merged(self) -> dict[str, Any]:
        """All of them."""
        merged = {**self.agents, **self.envs}
        if "final_info" in merged:
            merged["final_info"] = {**self.agents["final_info"], **self.envs["final_info"]}
        return merged


def with_agents(envs: VectorEnv) -> VectorEnv | MultiAgentVectorEnv:
    """The vector env itself, or its view with slots if its rows have several agents."""
    return MultiAgentVectorEnv(envs) if isinstance(envs.single_observation_space, SlotSpace) else envs


class MultiAgentVectorEnv:
    """Many environments with several agents each, as one.

    Use `vecenv.make` to build one. Arrays have the axes [envs, slots, ...]; if agents have unequal spaces, there is a
    dict of such arrays by group in the place of each.

    Args:
        rows: a vector env whose rows have slots.

    Attributes:
        rows: the vector env that runs the envs, one row per env.
        num_envs: N.
        num_slots: A, of all groups together.
        groups: names of agents by group. Where agents take any free slot (`slots=`), these are names of slots.
        agents: the same in one tuple, by slot.
        acts: [N, A] bool, who must act now; by group.
        alive: [N, A] bool, who lives, also those whose turn it is not; by group.
        valid: [N, A] bool, which entries of the latest results are transitions; by group.
    """

    def __init__(self, rows: VectorEnv) -> None:
        space = rows.single_observation_space
        assert isinstance(space, SlotSpace), "rows without slots"
        self.rows = rows
        self.slots: Slots = space.slots
        self.num_envs, self.num_slots = rows.num_envs, len(self.slots)
        self.groups = {group.name: group.agents for group in self.slots.groups}
        self.agents = self.slots.agents
        self._packer = ActionPacker(self.slots)
        self._acts = np.zeros((self.num_envs, self.num_slots), np.bool_)
        self._valid, self._alive = self._acts.copy(), self._acts.copy()
        self._names: list[tuple[str, ...]] = [self.agents] * self.num_envs

    def __repr__(self) -> str:
        groups = {name: len(agents) for name, agents in self.groups.items()}
        return f"MultiAgentVectorEnv({self.rows!r}, agents={self.num_slots if len(groups) == 1 else groups})"

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def acts(self) -> Any:
        """[N, A] bool, who must act now; by group."""
        return self.slots.split(self._acts.copy())

    @property
    def alive(self) -> Any:
        """[N, A] bool, who lives: who acts now or later in this episode; by group."""
        return self.slots.split(self._alive.copy())

    @property
    def valid(self) -> Any:
        """[N, A] bool, which entries of the latest results are transitions; by group."""
        return self.slots.split(self._valid.copy())

    def agent_names(self, row: int) -> tuple[str, ...]:
        """The agent in each slot of an env; the name of the slot where no agent is."""
        return self._names[row]

    @property
    def single_observation_spaces(self) -> dict[str, Space[Any]]:
        """Of one agent of each group."""
        return {group.name: group.observation_space for group in self.slots.groups}

    @property
    def single_action_spaces(self) -> dict[str, Space[Any]]:
        """Of one agent of each group."""
        return {group.name: group.action_space for group in self.slots.groups}

    @property
    def single_observation_space(self) -> Space[Any]:
        """Of one agent. Raises UnsupportedError if there are several groups."""
        return self._only("single_observation_space").observation_space

    @property
    def single_action_space(self) -> Space[Any]:
        """Of one agent. Raises UnsupportedError if there are several groups."""
        return self._only("single_action_space").action_space

    @property
    def observation_space(self) -> Any:
        """Of all agents: [N, A, ...]; a dict by group where there are several."""
        return self.slots.nest(
            [
                batch_space(batch_space(group.observation_space, len(group)), self.num_envs)
                for group in self.slots.groups
            ]
        )

    @property
    def action_space(self) -> Space[Any]:
        """Of all agents: [N, A, ...]; `sample()` has an action for each slot."""
        return self.rows.action_space

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """Gymnasium's enum."""
        return self.rows.autoreset_mode

    @property
    def metadata(self) -> dict[str, Any]:
        """Of the envs."""
        return self.rows.metadata

    @property
    def render_mode(self) -> str | None:
        """Of the envs."""
        return self.rows.render_mode

    @property
    def engine(self) -> Any:
        """That runs the envs."""
        return self.rows.engine

    @property
    def engine_reason(self) -> str:
        """Why this engine was chosen."""
        return self.rows.engine_reason

    @property
    def closed(self) -> bool:
        """Whether everything is closed."""
        return self.rows.closed

    def _only(self, name: str) -> Any:
        if len(self.slots.groups) > 1:
            raise UnsupportedError(
                f"{name} is for one group; these envs have {list(self.groups)}: use {name}s, a dict by group, or make "
                "the envs with pad=True"
            )
        return next(iter(self.slots.groups))

    # --- stepping ----------------------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | np.ndarray | None = None,
        options: dict[str, Any] | Sequence[dict[str, Any] | None] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes, of all envs or of those in `options["reset_mask"]`; see `VectorEnv.reset`."""
        obs, infos = self._reset(seed, options)
        return obs, infos.merged()

    def _reset(self, seed: Any, options: Any) -> tuple[Any, InfoParts]:
        exchange = self.rows._exchange_reset(seed, options)
        began = exchange.ops == _RESET
        flags = exchange.obs["flags"].view(np.bool_)
        self._acts[began], self._alive[began] = flags[began, _ACTS], flags[began, _ALIVE]
        self._valid[began] = False
        return exchange.obs["obs"], self._infos(exchange.infos, exchange.rows)

    def step(self, actions: Any, env_ids: Any = None) -> AgentStep:
        """Step all envs, or those of `env_ids` alone; then position k of every result belongs to `env_ids[k]`.

        Args:
            actions: an array [N, A, ...], or a dict of them by group where there are several; or a list of one dict by
                agent per env. Entries of slots that do not act are ignored; a dict must not have them.
            env_ids: which envs; default: all.

        Raises:
            InvalidAction: before anything is sent; nothing has changed.
            EnvError: an env failed. The results of the others wait for `recv()`; `reset()` discards them.
        """
        return self._step(actions, env_ids)[0]

    def _step(self, actions: Any, env_ids: Any = None) -> tuple[AgentStep, InfoParts]:
        return self._results(self.rows._exchange_step(self._pack(actions, env_ids), env_ids))

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Start a step of all envs, or of those of `env_ids`, and return at once."""
        self.rows.send(self._pack(actions, env_ids), env_ids)

    def send_reset(self, env_ids: Any = None, *, seed: Any = None, options: Any = None) -> None:
        """Start new episodes of all envs, or of those of `env_ids`, and return at once; see `VectorEnv.send_reset`."""
        self.rows.send_reset(env_ids, seed=seed, options=options)

    def recv(
        self,
        min_envs: int | None = None,
        max_envs: int | None = None,
        *,
        until: float | None = None,
        timeout: float | None = None,
    ) -> AgentStep:
        """Wait until `min_envs` of the sent envs are finished and return exactly these, named by `env_ids`.

        With `max_envs` or `until`, all envs that are ready are returned; see `VectorEnv.recv`.
        """
        return self._results(self.rows._exchange_recv(min_envs, timeout, max_envs, until))[0]

    def sample_actions(self) -> Any:
        """A random action for every slot, by group."""
        return self.rows.action_space.sample()

    def _pack(self, actions: Any, env_ids: Any) -> Any:
        order = self.rows._call_order
        rows = order.all_rows if env_ids is None else order.parse_rows(env_ids)
        return self._packer.pack(actions, rows, self._acts[rows], [self._names[row] for row in rows.tolist()])

    def _results(self, exchange: Exchange) -> tuple[AgentStep, InfoParts]:
        """What rows returned, with an axis of slots; and its infos in parts."""
        rows, slots, obs = exchange.rows, self.slots, exchange.obs
        flags, reward = obs["flags"].view(np.bool_), obs["reward"]
        acts, alive = flags[:, _ACTS].copy(), flags[:, _ALIVE].copy()
        final, rolled = exchange.final_obs, exchange.rolled
        if final is not None:
            flags = np.where(rolled[:, None, None], final["flags"].view(np.bool_), flags)
            reward = np.where(rolled[:, None], final["reward"], reward)
        done = exchange.done
        stopped = done & flags[:, _ALIVE].any(axis=1)
        if stopped.any():
            flags, reward = flags.copy(), reward.copy()
            _stop(flags, reward, stopped, exchange.infos.get("_fault"))
            acts[stopped & ~rolled] = alive[stopped & ~rolled] = False
        valid = flags[:, _VALID]
        self._acts[rows], self._alive[rows], self._valid[rows] = acts, alive, valid
        infos = self._infos(exchange.infos, rows)
        results = AgentStep(
            obs=obs["obs"],
            reward=slots.split(reward),
            terminated=slots.split(flags[:, _TERMINATED]),
            truncated=slots.split(flags[:, _TRUNCATED]),
            infos=infos.merged(),
            acts=slots.split(acts),
            valid=slots.split(valid),
            done=done,
            env_ids=rows,
            ops=exchange.ops,
            episode_return=np.zeros(len(rows)) if exchange.episode_return is None else exchange.episode_return,
            episode_length=np.zeros(len(rows)) if exchange.episode_length is None else exchange.episode_length,
            final_obs=None if final is None else final["obs"],
            rolled=rolled,
            age=exchange.age,
        )
        return results, infos

    def _infos(self, infos: Mapping[str, Any], rows: np.ndarray | None) -> InfoParts:
        """Infos of agents, with an axis of slots, and those of envs. The names of agents that joined are noted."""
        by_row, final = infos.get(SLOT_INFOS), infos.get("final_info")
        skipped = (SLOT_INFOS, f"_{SLOT_INFOS}", "final_info")
        parts = InfoParts({}, {key: value for key, value in infos.items() if key not in skipped})
        if by_row is not None:
            present = [(position, by_row[position]) for position in np.flatnonzero(infos[f"_{SLOT_INFOS}"]).tolist()]
            parts.agents.update(self._with_slots(present, len(by_row)))
            for position, each in present if rows is not None else ():
                if each.names is not None:
                    self._names[int(rows[position])] = each.names  # type: ignore[index]  # not None here
        if SLOT_MASK in parts.envs:
            masks, has = parts.envs.pop(SLOT_MASK), parts.envs.pop(f"_{SLOT_MASK}")
            for group, part in zip(self.slots.groups, self.slots.parts(), strict=True):
                own = parts.agents if len(self.slots.groups) == 1 else parts.agents.setdefault(group.name, {})
                own["action_mask"] = masks[:, part, : int(group.action_space.n)]  # type: ignore[attr-defined]  # Discrete
                own["_action_mask"] = np.repeat(has[:, None], len(group), axis=1)
        if final is not None:
            parts.agents["final_info"], parts.envs["final_info"] = self._infos(final, None)
        return parts

    def _with_slots(self, present: list[tuple[int, SlotInfos]], count: int) -> dict[str, Any]:
        """Infos of agents as arrays [rows, slots, ...], by group where there are several."""
        rendered = []
        for part in self.slots.parts():
            width = part.stop - part.start
            entries = (
                (position * width + slot - part.start, info)
                for position, each in present
                for slot, info in sorted(each.by_slot.items())
                if part.start <= slot < part.stop
            )
            rendered.append(_reshaped(as_arrays(entries, count * width), count, width))
        if len(rendered) == 1:
            return rendered[0]
        return {group.name: part for group, part in zip(self.slots.groups, rendered, strict=True) if part}

    # --- views -------------------------------------------------------------------------------------------------------

    def flat(self) -> FlatVectorEnv:
        """All slots of all envs as rows of one `gymnasium.vector.VectorEnv`, for a policy that all agents share.

        Raises:
            UnsupportedError: agents have unequal spaces.
        """
        return FlatVectorEnv(self)

    def versus(self, policy: Any, slots: Any = "rotate") -> VersusVectorEnv | FlatVectorEnv:
        """Self-play: some agents of each env learn, usually one, and `policy` plays the others.

        Args:
            policy: a function of a batch of observations that returns a batch of actions; if it has a parameter
                `mask`, it gets the actions that are allowed, as infos have them. Or a `League`, from which every
                episode gets an opponent.
            slots: which slots the policy plays, as names or numbers; the others learn. Or "rotate": one agent learns,
                that of slot n % A of env n.

        Returns:
            A `gymnasium.vector.VectorEnv`. With one learner per env it has one row per env. With L learners it has N x
            L rows as `flat()` has them, row n * L + k for learner k of env n: a team that acts at once, in
            "same-step" mode.

        Raises:
            ConfigError: no agent is left to learn, or a slot does not exist.
            UnsupportedError: agents have unequal spaces, or a team acts by turns or is not in "same-step" mode.
        """
        return versus(self, policy, slots)

    # --- the same as of any vector env -------------------------------------------------------------------------------

    @property
    def episode_return(self) -> np.ndarray:
        """[N]: return so far of each env's episode, of all agents together."""
        return self.rows.episode_return

    @property
    def episode_length(self) -> np.ndarray:
        """[N]: steps so far of each env's episode."""
        return self.rows.episode_length

    def render(self, env_ids: Any = None) -> tuple[Any, ...] | None:
        """One frame per env, or per env of `env_ids`."""
        return self.rows.render(env_ids)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, or read an attribute: of the PettingZoo env, or of any wrapper around it."""
        return self.rows.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env. As in Gymnasium, one that is a function is called."""
        return self.rows.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has one value per env, anything else is for all."""
        self.rows.set_attr(name, values)

    def stats(self) -> Stats:
        """Where time goes: in the envs (and which of them), in waiting, in copying."""
        return self.rows.stats()

    def explain(self, show: Callable[[str], object] = print) -> Explanation:
        """Say where time goes and which envs are slow, with one line of advice."""
        return self.rows.explain(show)

    def recording(self, row: int) -> Recording:
        """The current episode of an env, to be saved or run again (`vecenv.replay`). Needs `make(record=...)`."""
        return self.rows.recording(row)

    @property
    def state(self) -> SimpleNamespace:
        """The kernel's fields of all envs as NumPy views; see `VectorEnv.state`."""
        return self.rows.state

    def get_state(self, env_ids: Any = None) -> Snapshot:
        """Everything that envs consist of; see `VectorEnv.get_state`."""
        return self.rows.get_state(env_ids)

    def set_state(self, state: Snapshot, env_ids: Any = None) -> None:
        """Make envs what they were in `get_state`; see `VectorEnv.set_state`."""
        self.rows.set_state(state, env_ids)
        self._look_again()

    def clone(self, source: Any, target: Any, *, seed: int | None = None) -> None:
        """Make the envs `target` copies of the envs `source`; see `VectorEnv.clone`."""
        self.rows.clone(source, target, seed=seed)
        self._look_again()

    def rollout(self, actions: Any, *, steps: int | None = None) -> Rollout:
        """Run many steps of all envs in one native call, with `actions[T, N, A, ...]`; see `VectorEnv.rollout`.

        Returns:
            A rollout of rows: `obs["obs"]`, `obs["reward"]` and `obs["flags"]` have the axes [T, N, ..., A].
        """
        rollout = self.rows.rollout(actions, steps=steps)
        self._look_again()
        return rollout

    def _look_again(self) -> None:
        """Read who must act, and what is a transition, from what envs show now."""
        batch = self.rows._batch
        flags = batch.observation_layout.nest(batch.obs)["flags"].view(np.bool_)
        going_on = ~batch.done[:, None]
        self._acts[...], self._alive[...] = flags[:, _ACTS] & going_on, flags[:, _ALIVE] & going_on
        self._valid[...] = flags[:, _VALID]

    def close(self, timeout: float = 5.0) -> None:
        """End everything within about `timeout` seconds. May be called at any time, from any thread, and again."""
        self.rows.close(timeout)

    def __enter__(self) -> MultiAgentVectorEnv:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _stop(flags: np.ndarray, reward: np.ndarray, stopped: np.ndarray, faulty: np.ndarray | None) -> None:
    """Write the results of agents that live when their episode ends: they are truncated.

    Where a fault ended it, observation, reward and flags are the last good ones: the reward becomes 0, and those that
    had to act have a transition. Otherwise a time limit did.
    """
    flags[stopped, _TRUNCATED] |= flags[stopped, _ALIVE]
    if faulty is not None and (lost := stopped & faulty).any():
        reward[lost] = 0.0
        flags[lost, _VALID] = flags[lost, _ACTS]
        flags[lost, _TERMINATED] = False
        flags[lost, _TRUNCATED] = flags[lost, _ALIVE]


def _reshaped(infos: Mapping[str, Any], count: int, width: int) -> dict[str, Any]:
    """Arrays over all slots of all rows as arrays [rows, slots, ...]."""
    return {
        key: _reshaped(value, count, width)
        if isinstance(value, dict)
        else value.reshape(count, width, *value.shape[1:])
        for key, value in infos.items()
    }
