"""The actor that collects fragments: it holds envs and the policy."""

from __future__ import annotations

import inspect
import pickle
import time
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch.batch import Batch, Op
from vecenv._batch.faults import Fault
from vecenv._batch.layout import map_tree
from vecenv._batch.seeding import NO_SEED
from vecenv._front.autoreset import ops_of
from vecenv._front.rollout import Rollout
from vecenv._front.vector_env import VectorEnv
from vecenv._front.whole_step import whole_step
from vecenv._make.decorate import decorate
from vecenv.engines import SupportsExchange, SupportsRollout, registry
from vecenv.engines.ray.actor import Built, LastSeen, RowActor, Seen, as_fault
from vecenv.errors import EnvError, SpaceError


@dataclass(frozen=True)
class Collected:
    """A collected fragment, and the state of the rows after it.

    Attributes:
        first_obs: the observations that the first actions were chosen from.
        faults: the `info["fault"]` entries, each with its step in the fragment.
        seconds, cpu_seconds: wall time and processor time that it took.
    """

    rollout: Rollout
    first_obs: Any
    faults: list[dict[str, Any]]
    seen: Seen
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Plan:
    """Settings of all collecting actors.

    Attributes:
        policy: the pickled policy.
        native: whether the policy is a function of one env's observation, to be compiled.
        seeds: seeds of the first reset, one per env.
        seed: seed of the policy's own random numbers.
    """

    policy: bytes
    native: bool
    autoreset: AutoresetMode
    seeds: np.ndarray
    seed: int | None


class FragmentActor(RowActor):
    """Holds envs and a policy, and collects whole fragments."""

    def __init__(self, build: bytes, path: list[str], first: int, last_seen: LastSeen | None, plan: Plan) -> None:
        super().__init__(build, path, first, last_seen)
        self._plan = plan
        self._policy: Any = None
        self._rng: dict[str, np.random.Generator] = {}
        self._seeds: np.random.Generator | None = None
        """Draws the seed of each fragment of a native policy that draws."""
        self._front: Any = None
        self._stale = False
        """Whether an error ended the last fragment early: the next one resets the envs first."""

    def build(self) -> Built | tuple[int, Fault] | SpaceError:
        """Build the envs, and reset them unless the actor was restarted."""
        built = super().build()
        if not isinstance(built, Built):
            return built
        try:
            self._policy = pickle.loads(self._plan.policy)
            self._seed_policy()
            self._front = self._new_front(restarted=self._last_seen is not None)
            if self._last_seen is None:
                mine = self._plan.seeds[self._first : self._first + len(self._engine.batch)]
                self._front.reset(seed=[None if seed == NO_SEED else seed for seed in mine.tolist()])
        except EnvError as error:
            return self._first + (error.row or 0), as_fault(error, self._first)
        except BaseException as error:  # the policy cannot be unpickled on this machine
            return self._first, Fault.of(error, "make")
        return replace(built, seen=Seen.of(self._engine.batch))

    def fragment(self, steps: int, weights: Any = None) -> Collected | Fault:
        """Run `steps` steps of all envs, or return the fault that prevented it."""
        started, cpu_started = time.perf_counter(), time.process_time()
        batch: Batch = self._engine.batch
        try:
            if self._stale:
                self._front.reset()
                self._stale = False
            first_obs = batch.observation_layout.batched([column.copy() for column in batch.obs])
            rollout, faults = self._collect(steps, weights)
        except EnvError as error:
            self._stale = True
            return as_fault(error, self._first)
        except BaseException as error:  # Ctrl-C does not reach an actor
            self._stale = True
            return Fault.of(error, "call")
        times = time.perf_counter() - started, time.process_time() - cpu_started
        return Collected(rollout, first_obs, faults, Seen.of(batch), *times)

    def _collect(self, steps: int, weights: Any) -> tuple[Rollout, list[dict[str, Any]]]:
        if self._last_seen is not None:
            return self._first_after_restart(steps, weights)
        if self._plan.native:
            seed = None if self._seeds is None else int(self._seeds.integers(2**63))
            return self._front.rollout(policy=self._policy, steps=steps, seed=seed), []
        return self._loop(steps, weights)

    def _first_after_restart(self, steps: int, weights: Any) -> tuple[Rollout, list[dict[str, Any]]]:
        """Collect after a restart: the first step reports the lost episodes. Native code then makes the other steps."""
        self._last_seen = None
        if not isinstance(self._engine.engine, SupportsRollout):
            return self._loop(steps, weights)
        actions = self._front.action_space
        actions.seed(0)
        began, faults = self._loop(1, weights, actions.sample())
        self._engine = self._engine.engine
        self._front = self._new_front(restarted=True)
        if steps == 1:
            return began, faults
        rest, _ = self._collect(steps - 1, weights)
        return _joined(began, rest), faults

    def _loop(self, steps: int, weights: Any, actions: Any = None) -> tuple[Rollout, list[dict[str, Any]]]:
        """Choose actions for all envs and step them, `steps` times."""
        front, batch = self._front, self._engine.batch
        out = _Layers(batch, steps, ops_of(front.autoreset_mode))
        args = () if weights is None else (weights,)
        # Native envs have no faults to note.
        at_once = isinstance(front.engine, SupportsExchange) and registry.declares(front.engine, "native")
        step_all = whole_step(front, lambda ended, now: None) if at_once else None
        for step in range(steps):
            if actions is None:
                chosen = self._policy(batch.observation_layout.batched(batch.obs), *args, **self._rng)
            else:
                chosen = actions
            if step_all is not None:
                step_all(front, chosen)
            else:
                out.note_faults(step, front._exchange_step(chosen, None).infos)
            out.note(step)
        return out.rollout(), out.faults

    def _new_front(self, *, restarted: bool) -> VectorEnv:
        """A front over the engine; after a restart its rows need no reset."""
        mode = self._plan.autoreset
        front = VectorEnv(decorate(self._engine, mode), autoreset=mode)
        if restarted:
            everyone = front._call_order.all_rows
            front._call_order.replaced(everyone, np.ones(len(everyone), np.bool_))
        return front

    def _seed_policy(self) -> None:
        """Give a policy with a parameter `rng` its own generator, a new one in every actor and after every restart."""
        try:
            wants = "rng" in inspect.signature(self._policy).parameters
        except (TypeError, ValueError):  # not a Python function
            wants = False
        if not wants:
            return
        restarts = 0 if self._last_seen is None else int(self._last_seen.seen.kept["restarts"].max())
        generator = np.random.default_rng(np.random.SeedSequence(self._plan.seed, spawn_key=(self._first, restarts)))
        if self._plan.native:
            self._seeds = generator
        else:
            self._rng = {"rng": generator}


class _Layers:
    """Columns [steps, rows, ...] of a fragment while it is collected."""

    def __init__(self, batch: Batch, steps: int, ops: tuple[int, int]) -> None:
        def layers(column: np.ndarray) -> np.ndarray:
            return np.zeros((steps, *column.shape), column.dtype)

        self.faults: list[dict[str, Any]] = []
        self._batch, self._ops = batch, ops
        self._rolls = ops[0] == Op.ROLL
        self._ended = batch.done.copy()
        self._obs, self._actions = list(map(layers, batch.obs)), list(map(layers, batch.actions))
        self._final = list(map(layers, batch.final_obs)) if self._rolls else []
        self._reward, self._terminated, self._truncated = map(layers, (batch.reward, batch.terminated, batch.truncated))
        self._info = {name: layers(column) for name, column in batch.info.items()}
        self._final_info = {name: layers(column) for name, column in batch.final_info.items()} if self._rolls else {}

    def note(self, step: int) -> None:
        """Store the batch's results of a step."""
        batch = self._batch
        for ours, theirs in zip((*self._obs, *self._actions), (*batch.obs, *batch.actions), strict=True):
            ours[step] = theirs
        self._reward[step] = batch.reward
        self._terminated[step], self._truncated[step] = batch.terminated, batch.truncated
        for name, layers in self._info.items():
            layers[step] = batch.info[name]
        if not self._rolls:
            return
        ended = batch.terminated | batch.truncated
        if ended.any():
            for ours, theirs in zip(self._final, batch.final_obs, strict=True):
                ours[step][ended] = theirs[ended]
            for name, layers in self._final_info.items():
                layers[step][ended] = batch.final_info[name][ended]

    def note_faults(self, step: int, infos: dict[str, Any]) -> None:
        """Store the faults of envs that were built again."""
        for row in np.flatnonzero(infos.get("_fault", ())).tolist():
            fault = {key: column.tolist()[row] for key, column in infos["fault"].items() if not key.startswith("_")}
            self.faults.append({"step": step, **fault})

    def rollout(self) -> Rollout:
        observation, action = self._batch.observation_layout, self._batch.action_layout
        return Rollout(
            obs=observation.batched(self._obs),
            actions=action.batched(self._actions),
            reward=self._reward,
            terminated=self._terminated,
            truncated=self._truncated,
            final_obs=observation.batched(self._final) if self._rolls else None,
            infos=self._info,
            final_infos=self._final_info,
            _ended_before=self._ended,
            _ops_of=self._ops,
        )


def _joined(first: Rollout, second: Rollout) -> Rollout:
    """Two consecutive rollouts of the same envs as one."""
    joined = {}
    for name in (field.name for field in fields(Rollout) if not field.name.startswith("_")):
        one, two = getattr(first, name), getattr(second, name)
        joined[name] = None if one is None else map_tree(lambda *pair: np.concatenate(pair), one, two)
    return replace(first, **joined)
