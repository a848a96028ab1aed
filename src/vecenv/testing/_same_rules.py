"""The state machine that makes the same calls on two vector envs and compares the results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from vecenv._front.infos import rows_of_arrays
from vecenv.errors import EnvError, NothingPendingError
from vecenv.testing._difference import difference
from vecenv.testing._laws import law

SEED = st.integers(0, 2**32 - 1)
_HOME = re.compile(r" \((?:worker|thread|actor)[^)]*\)|; after [^ ]+ s(?=;)")
"""Worker and elapsed time in error messages: they differ between engines."""
_REFUSED_BY_ALL = (4, 5, 10)
"""Wrong calls that Gymnasium refuses too, before an env is stepped."""
Rows = dict[int, Any]
"""For every env, its results or its error."""


@dataclass
class Pair:
    """Arguments of `check_same`; `tally` counts what happened."""

    builds: tuple[Callable[[Any], Any], Callable[[Any], Any]]
    variants: Sequence[Any]
    calls: Sequence[tuple[Any, ...]]
    attributes: Mapping[str, Sequence[Any]]
    asynchronous: bool
    options: Sequence[Mapping[str, Any] | None] = (None,)
    tally: Counter[str] = field(default_factory=Counter)


class SameMachine(RuleBasedStateMachine):
    """Every rule makes one call on both vector envs. Random choices never depend on results."""

    pair: Pair

    @initialize(seed=SEED, early=st.integers(0, 30), data=st.data())
    def build(self, seed: int, early: int, data: st.DataObject) -> None:
        variant = data.draw(st.sampled_from(self.pair.variants), label="variant")
        self.both = [build(variant) for build in self.pair.builds]
        self.count = self.both[0].num_envs
        self.over = np.zeros(self.count, np.bool_)
        """Of another library's envs in "disabled" mode: which must be reset before a step."""
        self.pair.tally["programs"] += 1
        if early == 1 and self.pair.asynchronous:
            actions = self._actions(self.count, seed)
            self._compare("a step without a reset", *(_outcome(lambda e=envs: e.step(actions)) for envs in self.both))
        self._exchange("reset", lambda envs: envs.reset(seed=seed))

    def teardown(self) -> None:
        for envs in getattr(self, "both", ()):
            envs.close()

    @rule(seed=st.none() | SEED | st.lists(st.none() | SEED, min_size=1, max_size=8), which=st.integers(0, 20))
    def reset(self, seed: Any, which: int) -> None:
        if isinstance(seed, list):
            seed = [seed[row % len(seed)] for row in range(self.count)]
        options = self._options(which)
        self._exchange("reset", lambda envs: envs.reset(seed=seed, options=options and dict(options)))
        self.over[:] = False

    @rule(seed=st.none() | SEED, chosen=SEED, which=st.integers(0, 20))
    def reset_some(self, seed: int | None, chosen: int, which: int) -> None:
        mask, options = np.isin(np.arange(self.count), self._ids(chosen)), self._options(which) or {}
        self._reset_rows(mask, seed, options)

    @rule(seed=SEED, times=st.integers(1, 8))
    def step(self, seed: int, times: int) -> None:
        """Step; if an env needs a reset, reset and continue."""
        for number in range(times):
            if self.over.any():
                self._reset_rows(self.over.copy())
            actions = self._actions(self.count, seed + number)
            if self._exchange("step", lambda envs, actions=actions: envs.step(actions)) == "NotResetError":
                self._exchange("reset", lambda envs: envs.reset())

    @rule(seed=SEED, chosen=SEED)
    def step_some(self, seed: int, chosen: int) -> None:
        ids = self._ids(chosen)
        actions = self._actions(len(ids), seed)
        if self.pair.asynchronous:
            self._exchange("step", lambda envs: envs.step(actions, ids), ids)

    @rule(seed=SEED, chosen=SEED, cut=st.integers(1, 8), count=st.integers(1, 8))
    def send(self, seed: int, chosen: int, cut: int, count: int) -> None:
        """Send some envs in two parts and receive them in parts, in any order; in the end all results must be equal."""
        if not self.pair.asynchronous:
            return
        ids = self._ids(chosen)
        parts = [part for part in (ids[:cut], ids[cut:]) if part]
        actions = [self._actions(len(part), seed + number) for number, part in enumerate(parts)]

        def send(envs: Any) -> Rows:
            asked = zip(actions, parts, strict=True)
            errors = [_outcome(lambda pair=pair: envs.send(*pair))[1] for pair in asked]
            return {**dict(enumerate(errors, -len(errors))), **self._receive(envs, count)}

        self._compare("send", *map(send, self.both))

    @rule(which=st.integers(0, 10))
    def wrong(self, which: int) -> None:
        """A call with wrong arguments: the same error on both, and nothing has changed."""
        actions, count = self._actions(self.count, which), self.count
        calls: list[Callable[[Any], Any]] = [
            lambda envs: envs.step(self._actions(count + 1, which)),
            lambda envs: envs.step(None),
            lambda envs: envs.step(["wrong"] * count),
            lambda envs: envs.reset(seed=-1),
            lambda envs: envs.reset(seed=[1] * (count + 1)),
            lambda envs: envs.reset(options={"reset_mask": np.zeros(count, np.bool_)}),
            lambda envs: envs.reset(options=[{}]),
            lambda envs: envs.recv(),
            lambda envs: envs.step(actions, [count]),
            lambda envs: envs.send(actions, [0] * count),
            lambda envs: envs.set_attr("anything", [1] * (count + 1)),
        ]
        if which not in _REFUSED_BY_ALL and not self.pair.asynchronous:
            return
        self._compare(f"wrong call {which}", *(_outcome(lambda e=envs: calls[which](e)) for envs in self.both))
        self.pair.tally["wrong calls"] += 1
        if not self.pair.asynchronous:  # where something may have changed
            self.reset(seed=which, which=0)

    @rule(which=st.integers(0, 20))
    def call(self, which: int) -> None:
        if self.pair.calls:
            name, *args = self.pair.calls[which % len(self.pair.calls)]
            self._compare(f"call {name}", *(_outcome(lambda e=envs: e.call(name, *args)) for envs in self.both))

    @rule(which=st.integers(0, 20))
    def set_attr(self, which: int) -> None:
        if self.pair.attributes:
            name = sorted(self.pair.attributes)[which % len(self.pair.attributes)]
            values = self.pair.attributes[name]
            value = values[which % len(values)]
            self._compare(f"set_attr {name}", *(_outcome(lambda e=envs: e.set_attr(name, value)) for envs in self.both))

    @rule(really=st.sampled_from([*[False] * 7, True]))
    def close(self, really: bool) -> None:
        for envs in self.both if really and self.pair.asynchronous else ():
            envs.close()

    # --- how ---------------------------------------------------------------------------------------------------------

    def _ids(self, chosen: int) -> list[int]:
        """Some envs in some order."""
        generator = np.random.default_rng(chosen)
        return generator.permutation(self.count)[: generator.integers(1, self.count + 1)].tolist()

    def _options(self, which: int) -> Mapping[str, Any] | None:
        return self.pair.options[which % len(self.pair.options)]

    def _reset_rows(self, mask: np.ndarray, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        given = dict(options or {})
        self._exchange("reset", lambda envs: envs.reset(seed=seed, options={**given, "reset_mask": mask.copy()}))
        self.over &= ~mask

    def _actions(self, count: int, seed: int) -> Any:
        space = batch_space(self.both[0].single_action_space, count)
        space.seed(seed % 2**32)
        return space.sample()

    def _exchange(self, name: str, call: Callable[[Any], Any], ids: Sequence[int] | None = None) -> str | None:
        """Compare the results of a call, env by env if any env failed. Returns the name of the error, or None."""
        outcomes = [_outcome(lambda e=envs: call(e)) for envs in self.both]
        if self.pair.asynchronous and any(error is not None and error[0] == "EnvError" for _, error in outcomes):
            self.pair.tally["failures"] += 1
            everyone = range(self.count) if ids is None else ids
            rows = [self._by_row(everyone, *outcome) for outcome in outcomes]
            for found, envs in zip(rows, self.both, strict=True):
                found.update(self._receive(envs, None))
            self._compare(name, *rows)
        else:
            self._compare(name, *outcomes)
        if not self.pair.asynchronous:
            self._note_ended(outcomes[0][0])
            return None
        totals = ([envs.episode_return, envs.episode_length] for envs in self.both if outcomes[0][1] is None)
        self._compare(f"totals after {name}", *list(totals) or (None, None))
        return outcomes[0][1] and outcomes[0][1][0]

    def _note_ended(self, result: Any) -> None:
        """In "disabled" mode Gymnasium steps some envs before it says that another one needs a reset."""
        disabled = AutoresetMode(self.both[0].metadata["autoreset_mode"]) is AutoresetMode.DISABLED
        if disabled and result is not None and len(result) == 5:
            self.over = result[2] | result[3]

    def _receive(self, envs: Any, count: int | None) -> Rows:
        """Receive until nothing is pending, `count` envs at a time as long as that many are pending."""
        rows: Rows = {}
        for _ in range(4 * self.count + 4):
            step, error = _outcome(lambda count=count: envs.recv(count))
            if error is not None and error[0] == NothingPendingError.__name__:
                return rows
            if error is not None and error[0] != "EnvError":
                if error[0] != "SpaceError":  # count is more than are pending
                    return {**rows, -1: error}
                count = None
                continue
            ids = () if step is None else step.env_ids.tolist()
            rows.update(self._by_row(ids, step and tuple(step), error))
        raise AssertionError("recv() does not end")

    def _by_row(self, ids: Sequence[int], result: Any, error: Any) -> Rows:
        if error is not None:
            return dict.fromkeys(error[2] if error[0] == "EnvError" else [-1], error)
        obs, *columns, infos = result
        env_infos, space = rows_of_arrays(infos, len(ids)), self.both[0].single_observation_space
        return {
            row: (_row_of(space, obs, position), *(column[position] for column in columns), env_infos[position])
            for position, row in enumerate(ids)
        }

    def _compare(self, name: str, one: Any, other: Any) -> None:
        if isinstance(one, dict):
            one, other = sorted(one.items()), sorted(other.items())
        ordered = self.pair.asynchronous
        if not ordered:
            if one[1] is not None and other[1] is not None:  # errors of two libraries
                one = other if other[1][0] in one[1][2] else one
            one, other = _single_numbers(one), _single_numbers(other)
        path, first, second = difference(one, other, name, ordered=ordered) or ("", "", "")
        law("sameness", not path, f"the first and the second vector env differ: {path}: {first} and {second}")
        self.pair.tally["calls"] += 1
        self.pair.tally["errors"] += "Error" in repr(one)[:20]


def _outcome(call: Callable[[], Any]) -> tuple[Any, Any]:
    """The result of a call, or its error without where it was raised."""
    try:
        return call(), None
    except EnvError as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        text = _HOME.sub("", str(error))
        return None, ("EnvError", kinds, error.rows, error.row, error.phase, error.action, error.seed, text)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return None, (type(error).__name__, _HOME.sub("", str(error)), kinds)


def _single_numbers(value: Any) -> Any:
    """The value with Python's numbers in place of NumPy's: of single numbers, libraries keep one or the other."""
    if isinstance(value, Mapping):
        return {key: _single_numbers(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *map(_single_numbers, value)]
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        return [_single_numbers(part) for part in value]
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.shape):
        return value.item()
    return value


def _row_of(space: Any, batched: Any, position: int) -> Any:
    """One env of batched observations."""
    if isinstance(space, spaces.Dict):
        return {key: _row_of(part, batched[key], position) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_row_of(part, batched[number], position) for number, part in enumerate(space.spaces))
    return batched[position]
