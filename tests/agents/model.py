"""What a vector env of several agents must return, in plain Python: one env after the other, dicts by agent."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._batch.faults import restart_seed


@dataclass
class Told:
    """What one agent must be told."""

    obs: Any
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    valid: bool = False
    info: dict[str, Any] = field(default_factory=dict)


@dataclass
class Result:
    """What one row must return.

    Attributes:
        told: by agent; what is not here is zero and not valid.
        acts: who must act next.
        shown: what `obs` shows, by agent; of the next episode if one began in the same step.
        done: whether the episode of the row is over.
        fault: whether a fault ended it.
    """

    told: dict[str, Told]
    acts: list[str]
    shown: dict[str, Any]
    done: bool = False
    fault: bool = False
    reset: bool = False


class ModelRow:
    """One env, by PettingZoo's own loop.

    Args:
        make: builds the env.
        row: its index, of which the seed of a restarted env depends.
        end: "all" or "any".
        mode: "next-step", "same-step" or "disabled".
        restart: whether an env that raises is built again.
        slots: how many there are, if agents take any; one agent too many raises.
    """

    def __init__(
        self, make: Callable[[], Any], row: int, end: str, mode: str, restart: bool, slots: int | None = None
    ) -> None:
        self.slots = slots
        self.make, self.row, self.end, self.mode, self.restart = make, row, end, mode, restart
        self.env = make()
        self.aec = hasattr(self.env, "agent_iter")
        self.done = False
        self.restarts, self.given_seed, self.next_seed = 0, -1, None
        self.latest: Result | None = None
        self.acted: set[str] = set()
        self.living: list[str] = []
        self.total, self.length = 0.0, 0

    def reset(self, seed: int | None) -> Result:
        """A reset by the user. Raises what the env raises, unless it is built again."""
        if seed is not None:
            self.next_seed = self.given_seed = seed
        try:
            result = self._begin()
        except RuntimeError:
            if not self.restart:
                raise
            result = self._begin_again()
            result.fault = True
        self.done, self.latest = False, result
        self.total, self.length = 0.0, 0
        return result

    def step(self, actions: dict[str, Any]) -> Result:
        """A step by the user."""
        if self.done and self.mode == "next-step":
            return self.reset(None)
        if self.length == -1:
            self.total, self.length = 0.0, 0
        try:
            result = self._advance(actions)
        except RuntimeError:
            if not self.restart:
                raise
            result = self._cut_by_fault()
        self.total += sum(told.reward for told in result.told.values())
        self.length += not result.fault  # a step that failed is not counted
        self.done = result.done
        if result.done and self.mode == "same-step":
            first = self._after_end(result)
            result = Result(result.told, first.acts, first.shown, True, result.fault or first.fault)
            self.done = False
        self.latest = result
        return result

    def _after_end(self, result: Result) -> Result:
        if result.fault:
            return self._first
        try:
            return self._begin()
        except RuntimeError:
            if not self.restart:
                raise
            first = self._begin_again()
            first.fault = True
            return first

    # --- one episode -------------------------------------------------------------------------------------------------

    def _begin(self) -> Result:
        seed, self.next_seed = self.next_seed, None
        self.acted = set()
        if self.aec:
            self.env.reset(seed=seed)
            result = self._turns()
        else:
            obs, infos = self.env.reset(seed=seed)
            self.living = list(self.env.agents)
            told = {name: Told(obs[name], info=infos.get(name, {})) for name in self.living}
            result = Result(told, list(self.living), {name: each.obs for name, each in told.items()})
        result.reset = True
        self._check_slots(result)
        return copy.deepcopy(result)

    def _check_slots(self, result: Result) -> None:
        """Raise if there are more agents than slots; one that has just died still has its own."""
        if self.slots is not None and len(result.told.keys() | set(self.living)) > self.slots:
            raise RuntimeError("made up: too many agents")

    def _begin_again(self) -> Result:
        """Build the env again until it begins an episode."""
        while True:
            self.env = self.make()
            self.restarts += 1
            if self.next_seed is None:
                self.next_seed = restart_seed(self.given_seed, self.row, self.restarts)
            try:
                return self._begin()
            except RuntimeError:
                continue

    def _cut_by_fault(self) -> Result:
        """The env raised: who lives is truncated, with the last good observation."""
        last = self.latest
        alive = [name for name in self.living if name in last.shown] if not self.aec else last.acts
        told = {name: Told(last.shown[name], truncated=True, valid=True) for name in alive}
        if self.aec:
            for name in self.living:
                told.setdefault(name, Told(None, truncated=True))
        self.env = self.make()
        self.restarts += 1
        self.next_seed = restart_seed(self.given_seed, self.row, self.restarts)
        result = Result(told, [], dict(last.shown), True, True)
        if self.mode == "same-step":
            try:
                self._first = self._begin()
            except RuntimeError:
                self._first = self._begin_again()
        return result

    def _advance(self, actions: dict[str, Any]) -> Result:
        before = self.living
        result = self._ended_or_not(actions)
        try:
            self._check_slots(result)
        except RuntimeError:
            self.living = before  # as they were when the env failed
            raise
        return result

    def _ended_or_not(self, actions: dict[str, Any]) -> Result:
        if self.aec:
            ((name, action),) = actions.items()
            self.env.step(action)
            self.acted.add(name)
            if self.end == "any" and any((*self._over(),)):
                return self._everybody()
            return self._turns()
        before = list(self.living)
        obs, rewards, terminated, truncated, infos = copy.deepcopy(self.env.step(actions))
        self.living = list(self.env.agents)
        told = {}
        for name in before:
            gone = name not in self.living and not terminated[name]
            told[name] = Told(
                obs[name], float(rewards[name]), terminated[name], truncated[name] or gone, True, infos.get(name, {})
            )
        if self.end == "any" and any(each.terminated or each.truncated for each in told.values()):
            for name in set(self.living) & told.keys():
                told[name].truncated = True
            self.living = []
        for name in self.living:
            told.setdefault(name, Told(obs[name], info=infos.get(name, {})))
        shown = {name: each.obs for name, each in told.items()}
        return Result(told, list(self.living), shown, not self.living)

    def _over(self) -> list[str]:
        return [name for name in self.env.agents if self.env.terminations[name] or self.env.truncations[name]]

    def _everybody(self) -> Result:
        told, over = {}, self._over()
        self.living = []
        for name in self.env.agents:
            if name not in over and name not in self.acted:
                continue
            told[name] = Told(
                self.env.observe(name),
                self.env._cumulative_rewards[name],
                self.env.terminations[name],
                self.env.truncations[name] or name not in over,
                name in self.acted,
                self.env.infos[name],
            )
        return copy.deepcopy(Result(told, [], {name: each.obs for name, each in told.items()}, True))

    def _turns(self) -> Result:
        """PettingZoo's own loop until an agent must act."""
        told: dict[str, Told] = {}
        acts = []
        for name in self.env.agent_iter():
            obs, reward, terminated, truncated, info = copy.deepcopy(self.env.last())
            told[name] = Told(obs, reward, terminated, truncated, name in self.acted, info)
            if not terminated and not truncated:
                acts = [name]
                break
            self.acted.discard(name)
            self.env.step(None)
        self.living = [name for name in self.env.agents if name not in self._over()]
        return Result(told, acts, {name: each.obs for name, each in told.items()}, not self.env.agents)


def zeros_like(space: Any) -> Any:
    """What a slot without an agent shows."""
    if hasattr(space, "spaces"):
        return {key: zeros_like(child) for key, child in space.spaces.items()}
    return np.zeros(space.shape, space.dtype)


def same(one: Any, other: Any) -> bool:
    """Whether two observations have the same bits."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    one, other = np.asarray(one), np.asarray(other)
    return one.shape == other.shape and one.tobytes() == np.asarray(other, one.dtype).tobytes()
