"""The laws of wrappers, as checks for your own wrappers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium.vector.utils import iterate

from vecenv._batch.layout import Layout, map_tree
from vecenv._batch.leaf import Leaf
from vecenv.testing._laws import law
from vecenv.wrappers._observations import map_space

Wrap = Callable[[Any], Any]
"""Wraps a vector env."""
Make = Callable[[int, str], Any]
"""Makes a vector env with a number of envs and an autoreset mode. Its envs must depend only on seeds and actions."""
MODES = ("next-step", "same-step", "disabled")
_WAYS = ("whole", "partial", "sent")


def check_transform(
    wrap: Wrap,
    make: Make | None = None,
    *,
    alone: Make | None = None,
    count: int = 3,
    steps: int = 40,
    modes: Sequence[str] = MODES,
) -> None:
    """Run the laws of wrappers on a wrapper that handles every env separately.

    - *Alone.* In steps of all envs, of some in any order, sent and received in parts, and with resets of some: every
      env gets the same results as if it were the only env in the wrapper.
    - *Ends.* The `final_obs` of "same-step" mode is the observation that "next-step" mode returns.
    - *Spaces.* Observations have the shapes and dtypes of the spaces.
    - *Ownership.* Arrays that were returned are never written to again.
    - *States.* A new wrapper that loads the state of another continues as that one does.

    Args:
        wrap: wraps a vecenv vector env, e.g. `lambda envs: FrameStackObservation(envs, 4)`.
        make: makes the vector env; default: CartPole-v1 with engine="sync".
        alone: makes the single env that envs are compared with; default: `make`.
        count: number of envs.
        steps: number of exchanges in every run.
        modes: autoreset modes to try.

    Raises:
        AssertionError: names the law that does not hold.
    """
    make = make or _cart_poles
    for mode in modes:
        for way in _WAYS:
            _alone(wrap, make, alone or make, count, steps, mode, way)
        _states(wrap, make, count, steps, mode)
    if {"same-step", "next-step"} <= set(modes):
        _ends(wrap, alone or make, steps)


class Driver:
    """Steps wrapped envs at random and stores the actions and results of each env.

    Attributes:
        streams: for every env, a list of (action, results); the action is None for a reset.
    """

    def __init__(self, envs: Any, mode: str, seed: int) -> None:
        self.envs, self._mode = envs, mode
        self.streams: list[list[tuple[Any, dict[str, Any]]]] = [[] for _ in range(envs.num_envs)]
        self._rng = np.random.default_rng(seed)
        self._done = np.zeros(envs.num_envs, np.bool_)
        self._actions = Layout(envs.single_action_space)
        self._observations = map_space(lambda space: Layout(space).leaves[0], envs.single_observation_space)
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._space = envs.single_action_space
        self._space.seed(seed)

    def begin(self) -> None:
        """Reset all envs, each with its own seed."""
        count = self.envs.num_envs
        obs, infos = self.envs.reset(seed=[100 + row for row in range(count)])
        self._note(np.arange(count), [None] * count, obs, None, infos)

    def go(self, steps: int, way: str) -> None:
        """Step; sometimes, and in "disabled" mode where episodes have ended, reset some envs."""
        for _ in range(steps):
            ended = self._done & (self._mode == "disabled")
            mask = ended | (self._rng.random(len(ended)) < 0.04)
            if mask.any():
                self._reset(mask)
            getattr(self, f"_{way}")()

    def check_ownership(self) -> None:
        """Compare all arrays with the copies that were made when they were returned."""
        for array, kept in self._kept:
            law("ownership", _equal(array, kept), "an array was changed after it was returned")

    def _reset(self, mask: np.ndarray) -> None:
        options = {"reset_mask": mask.copy()}
        obs, infos = self.envs.reset(options=options)
        self._keep(obs)
        rows = np.flatnonzero(mask)
        self._note(rows, [None] * len(rows), map_tree(lambda leaf: leaf[rows], obs), None, infos)
        shown = self._rows(obs, len(mask))
        for row in np.flatnonzero(~mask):
            last = self.streams[row][-1][1]["obs"]
            law("alone", _equal(shown[row], last), f"a reset of other envs changed the observation of env {row}")

    def _whole(self) -> None:
        rows = np.arange(self.envs.num_envs)
        actions = self._some_actions(len(rows))
        self._step(rows, actions, self.envs.step(actions))

    def _partial(self) -> None:
        rows = self._rng.permutation(self.envs.num_envs)[: self._rng.integers(1, self.envs.num_envs + 1)]
        actions = self._some_actions(len(rows))
        self._step(rows, actions, self.envs.step(actions, rows))

    def _sent(self) -> None:
        actions = self._some_actions(self.envs.num_envs)
        single = self._single(actions, self.envs.num_envs)
        self.envs.send(actions)
        left = self.envs.num_envs
        while left:
            got = self.envs.recv(int(self._rng.integers(1, left + 1)))
            self._note_step(got.env_ids, [single[row] for row in got.env_ids], tuple(got))
            left -= len(got.env_ids)

    def _some_actions(self, count: int) -> Any:
        actions = [self._space.sample() for _ in range(count)]
        return self._actions.batched(self._actions.pack(actions, count))

    def _single(self, actions: Any, count: int) -> list[Any]:
        return [map_tree(lambda leaf, at=row: leaf[at : at + 1], actions) for row in range(count)]

    def _step(self, rows: np.ndarray, actions: Any, results: tuple[Any, ...]) -> None:
        self._note_step(rows, self._single(actions, len(rows)), results)

    def _note_step(self, rows: np.ndarray, actions: list[Any], results: tuple[Any, ...]) -> None:
        obs, reward, terminated, truncated, infos = results
        self._done[rows] = terminated | truncated
        self._note(rows, actions, obs, (reward, terminated, truncated), infos)

    def _note(self, rows: np.ndarray, actions: list[Any], obs: Any, rest: Any, infos: dict[str, Any]) -> None:
        self._keep(obs)
        finals, ended = infos.get("final_obs"), infos.get("_final_obs", np.zeros(len(rows), np.bool_))
        for place, (row, value) in enumerate(zip(rows, self._rows(obs, len(rows)), strict=True)):
            final = copy.deepcopy(finals[place]) if finals is not None and ended[place] else None
            answer = {"obs": value, "final_obs": final}
            if rest is not None:
                reward, terminated, truncated = (part[place] for part in rest)
                answer |= {"reward": reward, "terminated": terminated, "truncated": truncated}
            self.streams[row].append((actions[place], answer))

    def _rows(self, obs: Any, count: int) -> list[Any]:
        def check(leaf: Leaf, column: Any) -> None:
            wanted, found = ((count, *leaf.shape), leaf.dtype), (column.shape, column.dtype)
            law("spaces", found == wanted, f"observations are {found}, the space has {wanted}")

        map_tree(check, self._observations, obs)
        return [map_tree(lambda leaf, at=place: leaf[at].copy(), obs) for place in range(count)]

    def _keep(self, obs: Any) -> None:
        map_tree(lambda leaf: self._kept.append((leaf, leaf.copy())), obs)


def _alone(wrap: Wrap, make: Make, alone: Make, count: int, steps: int, mode: str, way: str) -> None:
    with closing(wrap(make(count, mode))) as envs:
        driver = Driver(envs, mode, seed=1)
        driver.begin()
        driver.go(steps, way)
        driver.check_ownership()
    for row, stream in enumerate(driver.streams):
        with closing(wrap(alone(1, mode))) as envs:
            _replay(envs, stream, row, f"{way} steps, {mode} mode")


def _replay(envs: Any, stream: list[tuple[Any, dict[str, Any]]], row: int, where: str) -> None:
    """Repeat the actions of one env without the other envs, and compare the results."""
    for place, (action, answer) in enumerate(stream):
        if action is None:
            obs, infos = envs.reset(seed=[100 + row] if place == 0 else None)
            alone = {"obs": obs}
        else:
            obs, reward, terminated, truncated, infos = envs.step(action)
            alone = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        alone = {name: map_tree(lambda leaf: leaf[0], value) for name, value in alone.items()}
        ended = "_final_obs" in infos and infos["_final_obs"][0]
        alone["final_obs"] = infos["final_obs"][0] if ended else None
        for name, value in alone.items():
            same = _equal(value, answer[name])
            law("alone", same, f"{name} of env {row}, {place} exchanges after the beginning, differs; {where}")


def _states(wrap: Wrap, make: Make, count: int, steps: int, mode: str) -> None:
    """Run twice in the same way, but halfway through the second run replace the wrapper by a new one."""
    streams = []
    for exchanged in (False, True):
        inner = make(count, mode)
        first = wrap(inner)  # keep a reference: before Gymnasium 1.3, a deleted wrapper closes its env
        driver = Driver(first, mode, seed=2)
        try:
            driver.begin()
            driver.go(steps // 2, "partial")
            state = driver.envs.state_dict()
            kept = copy.deepcopy(state)
            if exchanged:
                driver.envs = wrap(inner)
                driver.envs.load_state_dict(state)
            driver.go(steps - steps // 2, "partial")
            law("states", _equal(state, kept), "a state changed after it was returned or loaded")
        finally:
            driver.envs.close()
        streams.append(driver.streams)
    for row, (stream, other) in enumerate(zip(*streams, strict=True)):
        for place, (one, two) in enumerate(zip(stream, other, strict=True)):
            same = all(_equal(one[1][name], two[1][name]) for name in one[1])
            law("states", same, f"env {row} differs {place} exchanges after the beginning; {mode} mode")


def _ends(wrap: Wrap, make: Make, steps: int) -> None:
    """Follow one env in both modes, transition by transition."""
    with closing(wrap(make(1, "same-step"))) as one, closing(wrap(make(1, "next-step"))) as two:
        one.action_space.seed(3)
        law("ends", _equal(one.reset(seed=7)[0], two.reset(seed=7)[0]), "first observations differ")
        for _ in range(steps):
            action = one.action_space.sample()
            obs, _, terminated, truncated, infos = one.step(action)
            shown, *_ = two.step(action)
            if not (terminated | truncated)[0]:
                law("ends", _equal(obs, shown), "observations of the two modes differ")
                continue
            final = infos["final_obs"][0]
            same = _equal(final, next(iter(iterate(two.observation_space, shown))))
            law("ends", same, "final_obs is not the observation of next-step mode")
            shown, *_ = two.step(action)
            law("ends", _equal(obs, shown), "first observations of a later episode differ")


def _cart_poles(count: int, mode: str) -> Any:
    from vecenv._make.make import make

    return make("CartPole-v1", count, engine="sync", autoreset=mode)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(_equal(*pair) for pair in zip(one, other, strict=True))
    if one is None or other is None:
        return one is other
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
