"""The front over kernels: steps of all envs in one native call, states in and out, rollouts."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from vecenv._batch.batch import Op, Rows
from vecenv._batch.layout import Columns
from vecenv._front.autoreset import ops_of, plan
from vecenv._front.exchange import Exchange
from vecenv._front.rollout import Rollout, Snapshot
from vecenv._front.vector_env import VectorEnv
from vecenv._util.checks import positive_int
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.errors import ConfigError, ConfigTypeError, InvalidAction, NotFiniteError, SpaceError

_ROLL = int(Op.ROLL)


class CompiledVectorEnv(VectorEnv):
    """A vector env of a kernel.

    With `copy=False` observations are handed out in a ring of four buffers: an array stays as it is during the next
    three steps.
    """

    engine: CompiledEngine

    def __init__(self, engine: CompiledEngine, **kwargs: Any) -> None:
        super().__init__(engine, **kwargs)
        self._alive, self._done = ops_of(self.autoreset_mode)
        self._may_not_end = self._alive == self._done != _ROLL
        self._lifecycle.survives_fork = True
        leaves = self._batch.action_layout.leaves
        self._only_action = _Only(self._batch.actions[0]) if leaves[0].path == "" else None

    def step(self, actions: Any, env_ids: Any = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs, or those of `env_ids` alone; then position k of every result belongs to `env_ids[k]`."""
        if env_ids is not None:
            return super().step(actions, env_ids)
        lifecycle, batch = self._lifecycle, self._batch
        lifecycle.enter("step")
        try:
            ended = self._advance(actions)
            plain = not batch.info and not batch.mail and not (ended and self._may_roll)
            results = self._results.plain() if plain else self._results.as_gymnasium(None)
            self._undelivered = None
            return results
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            lifecycle.inside = None

    def _exchange_step(self, actions: Any, env_ids: Any) -> Exchange:
        if env_ids is not None:
            return super()._exchange_step(actions, env_ids)
        lifecycle = self._lifecycle
        lifecycle.enter("step")
        try:
            self._advance(actions)
            exchange = self._results.exchange(lifecycle.all_rows)
            self._undelivered = None
            return exchange
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            lifecycle.inside = None

    def _advance(self, actions: Any) -> int:
        """Step all rows; the number of episodes that ended. Their results are in the batch."""
        lifecycle, batch = self._lifecycle, self._batch
        lifecycle.check_can_step(None, "step")
        if self._may_not_end:
            plan(self.autoreset_mode, batch.done)
        only = self._only_action
        if only is not None and only.accepts(actions) and self.engine.checks_actions:
            only.column[...] = actions  # native code looks at the values
        else:
            self._pack(actions)
        if self._finite.keeps:
            self._finite.before(lifecycle.all_rows)
        self._undelivered = lifecycle.all_rows
        if self._recorder is not None:
            self._recorder.sending(lifecycle.all_rows, None)
        ended = self.engine.run_all(self._alive, self._done, not self.copy)
        if ended < 0:
            self._undelivered = None
            self._finite.undo()
            if self._recorder is not None:
                self._recorder.unsent(lifecycle.all_rows)
            self._pack(actions)  # raises, naming the env
        if self._finite.on and self._finite.suspects(lifecycle.all_rows):
            self._look_closer()
            return ended
        self._exchanges += 1
        self._last_exchange = time.perf_counter()
        self._first_exchange = self._first_exchange or self._last_exchange
        if self._recorder is not None:
            self._recorder.received(lifecycle.all_rows)
        return ended

    def _look_closer(self) -> None:
        """Something is not finite: receive the rows as if they had been sent, which deals with it and counts it."""
        everyone = self._lifecycle.all_rows
        self._undelivered = None
        self._finite.hold(everyone)
        self._lifecycle.sent(everyone, "step")
        self._receive(self.num_envs, self.timeout)

    def _pack(self, actions: Any) -> None:
        batch = self._batch
        for column, packed in zip(batch.actions, batch.action_layout.pack(actions, self.num_envs), strict=True):
            column[...] = packed

    @property
    def state(self) -> SimpleNamespace:
        """The kernel's fields of all envs as NumPy views: `envs.state.x[3]`. Writing to them changes the envs."""
        return self.engine.state

    def get_state(self, env_ids: Any = None) -> Snapshot:
        rows = self._lifecycle.all_rows if env_ids is None else self._lifecycle.parse_rows(env_ids)
        self._lifecycle.enter("get_state")
        try:
            self._lifecycle.check_idle("get_state")
            return Snapshot(self.engine.get_rows(rows), self._lifecycle.ready[rows])
        finally:
            self._lifecycle.inside = None

    def set_state(self, state: Snapshot, env_ids: Any = None) -> None:
        if not isinstance(state, Snapshot):
            raise ConfigTypeError(f"set_state needs what get_state returned, got {type(state).__name__}")
        rows = self._lifecycle.all_rows if env_ids is None else self._lifecycle.parse_rows(env_ids)
        if len(state) not in (1, len(rows)):
            raise SpaceError(f"the state is of {len(state)} envs and is to be set to {len(rows)}; pass env_ids")
        self._lifecycle.enter("set_state")
        try:
            self._lifecycle.check_idle("set_state")
            self.engine.set_rows(rows, state.columns)
            self._lifecycle.replaced(rows, state.ready)
            self._record_anew(rows)
        finally:
            self._lifecycle.inside = None

    def clone(self, source: Any, target: Any) -> None:
        self.set_state(self.get_state(np.atleast_1d(source)), np.atleast_1d(target))

    def rollout(
        self, actions: Any = None, *, policy: Callable[..., Any] | None = None, steps: int | None = None
    ) -> Rollout:
        if (actions is None) == (policy is None):
            raise ConfigError("rollout needs either actions[T, N] or policy=, and not both")
        if self._may_not_end:
            raise ConfigError(
                "rollout begins new episodes by itself; make the envs with autoreset='next-step' or 'same-step'"
            )
        if self._finite.keeps:
            raise ConfigError(
                "rollout runs in native code, which cannot end an episode that goes non-finite; make the envs with "
                "check_finite='error', 'warn' or 'off'"
            )
        lifecycle = self._lifecycle
        lifecycle.enter("rollout")
        try:
            lifecycle.check_can_step(None, "rollout")
            if actions is None:
                packed, count = None, positive_int("steps", steps)
            else:
                packed, count = self._pack_time(actions, steps)
            ended = self._batch.done.copy()
            self._undelivered = lifecycle.all_rows
            try:
                out = self.engine.rollout(packed, count, self._alive, self._done, policy)
            except InvalidAction:
                lifecycle.failed(lifecycle.all_rows)  # some of them have moved
                raise
            made = self._rollout_of(out, ended)
            self._undelivered = None
            self._record_anew(lifecycle.all_rows)
            if self._finite.on:
                self._finite.look_at_rollout(out, made.rolled)
            return made
        except NotFiniteError as error:
            lifecycle.failed(np.array(error.rows))
            raise
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            lifecycle.inside = None

    def _record_anew(self, rows: Rows) -> None:
        """What brought these rows to where they are was not recorded: their recordings begin with what they are."""
        if self._recorder is not None:
            self._recorder.replaced(rows, self.engine.states_of(rows))

    def _pack_time(self, actions: Any, steps: int | None) -> tuple[Columns, int]:
        """Check T batches of actions as one batch of T x N."""
        if steps is not None:
            raise ConfigError("steps is for policy=; the number of steps is the first axis of actions")
        layout, count = self._batch.action_layout, self.num_envs
        first = np.asarray(actions) if len(layout.leaves) == 1 else actions
        if not isinstance(first, np.ndarray):
            raise InvalidAction(
                "rollout takes actions of plain spaces as one array [T, N, ...]; use step() for Dict and Tuple"
            )
        if first.ndim < 2 or first.shape[1] != count or not len(first):
            raise InvalidAction(f"actions have shape {first.shape}, want (T, {count}, ...) with T >= 1")
        length = len(first)
        columns = layout.pack(first.reshape(length * count, *first.shape[2:]), length * count)
        return [np.ascontiguousarray(column).reshape(length, count, *column.shape[1:]) for column in columns], length

    def _rollout_of(self, out: dict[str, np.ndarray], ended: np.ndarray) -> Rollout:
        layout = self._batch.observation_layout
        leaves = range(len(layout.leaves))
        final = [out[f"F_{leaf}"] for leaf in leaves] if "F_0" in out else None
        actions = [out[f"A_{leaf}"] for leaf in range(len(self._batch.actions))]
        obs = [out[f"O_{leaf}"] for leaf in leaves]
        return Rollout(
            obs=layout.batched(obs),
            actions=self._batch.action_layout.batched(actions),
            reward=out["REWARD"],
            terminated=out["TERMINATED"],
            truncated=out["TRUNCATED"],
            final_obs=None if final is None else layout.batched(final),
            infos={name: out[_slot("O", name, out)] for name in self._batch.info},
            final_infos={name: out[_slot("F", name, out)] for name in self._batch.info} if final is not None else {},
            _ended_before=ended,
            _ops_of=(self._alive, self._done),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        engine = self.engine
        build = {
            "precision": engine.precision,
            "threads": engine.threads,
            "render_mode": self.render_mode,
            "max_episode_steps": engine.max_episode_steps,
        }
        front = {
            "autoreset": self.autoreset_mode,
            "batch_size": self.batch_size,
            "copy": self.copy,
            "seeding": self._seeding,
            "engine_reason": self.engine_reason,
            "check_finite": self._finite.policies,
        }
        kinds = type(self), type(engine)
        parts = engine.kernel, self.num_envs, engine.parameters, build, front, self.spec, self.get_state()
        return _restored, (kinds, *parts)


class _Only:
    """The column of actions of a plain space, and whether a batch is just what it holds."""

    def __init__(self, column: np.ndarray) -> None:
        self.column = column
        self._dtype, self._shape = column.dtype, column.shape

    def accepts(self, actions: Any) -> bool:
        return type(actions) is np.ndarray and actions.dtype == self._dtype and actions.shape == self._shape


def _restored(
    kinds: tuple[type[CompiledVectorEnv], type[CompiledEngine]],
    kernel: Any,
    count: int,
    parameters: Any,
    build: dict[str, Any],
    front: dict[str, Any],
    spec: Any,
    state: Snapshot,
) -> CompiledVectorEnv:
    """What pickle calls."""
    kind, engine = kinds
    envs = kind(engine(kernel, count, parameters=parameters, **build), **front)
    envs.spec = spec
    envs.set_state(state)
    return envs


def _slot(prefix: str, name: str, out: dict[str, np.ndarray]) -> str:
    return f"{prefix}M" if f"{prefix}I_{name}" not in out else f"{prefix}I_{name}"
