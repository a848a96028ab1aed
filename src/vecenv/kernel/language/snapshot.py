"""Python envs that are copies of a compiled row."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from vecenv._batch.random_state import set_words
from vecenv._batch.slots import SLOT_MASK, SlotSpace
from vecenv.kernel.language.array_module import runnable
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.fields import Record
from vecenv.kernel.language.mistakes import located
from vecenv.kernel.language.ports import ObservationPort
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.language.source import read_source
from vecenv.kernel.rng import Stream

_TRIAL_STEPS, _TRIAL_SECONDS = 200, 0.1


def snapshot(
    kernel: Kernel,
    params: Mapping[str, np.ndarray],
    state: Mapping[str, np.ndarray] | None = None,
    render_mode: str | None = None,
) -> KernelEnv:
    """A Python env with these parameters (columns of one row) and this state (zeros if None)."""
    env = KernelEnv(kernel, render_mode)
    env.adopt(params)
    env.state = Record(kernel.state, state)
    return env


def generator(words: np.ndarray) -> np.random.Generator:
    """NumPy's generator at the place of a native stream."""
    made = np.random.Generator(np.random.PCG64(0))
    set_words(made, [*words[:3], int(words[3]) | 1, *words[4:]])  # a stream that was never seeded has no odd increment
    return made


def try_out(env: KernelEnv) -> None:
    """Run a short trial in Python: an index out of range is then an error with its line, and not undefined behaviour.

    Actions are drawn within the env's action mask, because a kernel need not handle the actions that it forbids.
    """
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    deadline = time.perf_counter() + _TRIAL_SECONDS
    for _ in range(_TRIAL_STEPS):
        mask: Any = info.get("action_mask", info.get(SLOT_MASK))
        if mask is not None and not mask.any():
            mask = None
        if mask is not None and isinstance(env.observation_space, SlotSpace):
            slots = env.observation_space.slots
            counts = [int(group.action_space.n) for group in slots.groups]  # type: ignore[attr-defined]  # Discrete
            mask = slots.nest([tuple(mask[part, :n]) for part, n in zip(slots.parts(), counts, strict=True)])
        action = env.action_space.sample(mask)
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
        if time.perf_counter() > deadline:
            return


def try_policy(env: KernelEnv, policy: Callable[..., Any]) -> None:
    """Run a policy in Python for a moment: an index out of range is then an error with its line.

    Any other exception ends the trial: native code continues with infinity, NaN or a wrapped number there, and it
    reports an action that is not in the space.

    Args:
        env: what it acts in.
        policy: as `rollout` takes it.

    Raises:
        KernelError: an index is out of range.
    """
    function = runnable(policy) if isinstance(policy, FunctionType) else policy
    parameters = read_source(policy).parameters
    written = ObservationPort(env.action_space) if len(set(parameters) - {"rng"}) == 2 else None
    stream = {"rng": Stream(np.random.PCG64(0))} if "rng" in parameters else {}
    deadline = time.perf_counter() + _TRIAL_SECONDS
    try:
        env.reset(seed=0)
        for _ in range(_TRIAL_STEPS):
            action = _chosen(env, function, written, stream)
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
            if time.perf_counter() > deadline:
                return
    except LookupError as error:
        raise located(error, env.kernel.name, "policy") from error
    except Exception:
        return


def _chosen(env: KernelEnv, policy: Callable[..., Any], written: ObservationPort | None, stream: Any) -> Any:
    """The action of a policy for what the env shows. `written` is where it writes actions, None if it returns them."""
    with np.errstate(all="ignore"):
        if written is None:
            return policy(env.seen, **stream)
        policy(env.seen, written.cleared(), **stream)
        return written.value()


class Trials:
    """Trials of parameters: the first time that one is beyond all values before.

    Args:
        kernel: the definition.
        play: runs a trial with parameters, columns of one row.
        tried: values of parameters that count as tried.
        sides: parameters of which low and of which high values are tried, as two bools of each.
    """

    def __init__(
        self,
        kernel: Kernel,
        play: Callable[[Mapping[str, np.ndarray]], None],
        tried: Mapping[str, np.ndarray],
        sides: Mapping[str, tuple[bool, bool]],
    ) -> None:
        self._kernel, self._play = kernel, play
        self._tried = {name: _ends(value) for name, value in tried.items()}
        self._open = {
            name: both for name, both in sides.items() if any(both) and not kernel.shared and kernel.defaults[name].size
        }

    def run(self, parameters: Mapping[str, np.ndarray], tried: Collection[str] = ()) -> None:
        """Run a trial with each row of these columns that has the lowest or the highest value so far.

        Args:
            parameters: a column of each.
            tried: names of columns that were in a trial before, which saves to look at them.

        Raises:
            KernelError: Python raises with these parameters. It names the line.
        """
        beyond = {name: self._beyond(name, parameters[name]) for name in self._open if name not in tried}
        for row in sorted({row for rows in beyond.values() for row in rows}):
            self._play(self._kernel.row_of(parameters, row))
        for name, rows in beyond.items():
            if rows:
                low, high = _ends(parameters[name])
                self._tried[name] = min(low, self._tried[name][0]), max(high, self._tried[name][1])

    def _beyond(self, name: str, column: np.ndarray) -> list[int]:
        flat = column.reshape(len(column), -1)
        if not flat.size:
            return []
        (low, high), (below, above) = self._tried[name], self._open[name]
        rows = [int(flat.min(1).argmin())] if below and not flat.min() >= low else []
        return rows + ([int(flat.max(1).argmax())] if above and not flat.max() <= high else [])


EnvOf = Callable[[Mapping[str, np.ndarray]], KernelEnv]
"""Makes a Python env from parameters, columns of one row."""


def kernel_trials(kernel: Kernel, env_of: EnvOf) -> Trials:
    """Trials of a kernel. Its defaults count as tried, and what is within the declared `bounds`.

    So do the arguments that an id of vecenv's own stands for, with which tests run it.
    """
    sides = {name: (field.low is None, field.high is None) for name, field in kernel.params.items()}
    tried = kernel.parameters({}, 1) if kernel.ships and kernel.kwargs else kernel.defaults
    return Trials(kernel, lambda parameters: try_out(env_of(parameters)), tried, sides)


def policy_trials(kernel: Kernel, env_of: EnvOf, policy: Callable[..., Any], first: Mapping[str, np.ndarray]) -> Trials:
    """Trials of a policy, after one with these parameters. `bounds` are no promise about what a policy can handle."""

    def play(parameters: Mapping[str, np.ndarray]) -> None:
        try_policy(env_of(parameters), policy)

    play(first)
    return Trials(kernel, play, first, dict.fromkeys(kernel.params, (True, True)))


def _ends(values: np.ndarray) -> tuple[float, float]:
    return (values.min().item(), values.max().item()) if values.size else (0, 0)
