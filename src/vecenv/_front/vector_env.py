"""The front: a gymnasium.vector.VectorEnv over any engine. Every policy decision is made here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch.batch import Op, Rows
from vecenv._batch.layout import Columns, as_given
from vecenv._batch.seeding import NO_SEED, Seeding, spread
from vecenv._front.autoreset import plan
from vecenv._front.call_order import Lifecycle
from vecenv._front.exchange import Exchange
from vecenv._front.explain import Explanation, explain
from vecenv._front.reset_options import ResetOptions
from vecenv._front.results import Results
from vecenv._front.rollout import Rollout, Snapshot
from vecenv._front.stats import Stats, gather
from vecenv._front.step import Step
from vecenv._util.checks import patience, seconds
from vecenv.engines import Engine, SupportsCall, SupportsClocks, SupportsGone, SupportsKill
from vecenv.engines.finite import FiniteCheck
from vecenv.errors import (
    ConfigError,
    EnvError,
    SpaceError,
    UnsupportedError,
    VecenvError,
    WorkerTimeout,
)

if TYPE_CHECKING:
    from vecenv.recording._recorder import Recorder
    from vecenv.recording._recording import Recording

Order = Literal["first-ready", "fixed"]
T = TypeVar("T")
_IDLE, _RESET, _ROLL = int(Op.IDLE), int(Op.RESET), int(Op.ROLL)
_NOT_CALLABLE = frozenset({"reset", "step", "close", "_setattr", "_check_spaces"})


class VectorEnv(gymnasium.vector.VectorEnv):
    """Many environments as one.

    Use `vecenv.make` to build one. `step` and `reset` are Gymnasium's; `send` and `recv` act on whoever is ready.

    Attributes:
        engine_reason: why this engine was chosen.
        autoreset_mode: Gymnasium's enum, also in `metadata["autoreset_mode"]`.
        batch_size: how many envs `recv` waits for by default.
    """

    _lenient = False
    """Faces of systems that check nothing pass actions on as they are and leave it to the envs to want a reset."""

    def __init__(
        self,
        engine: Engine,
        *,
        autoreset: AutoresetMode = AutoresetMode.NEXT_STEP,
        batch_size: int | None = None,
        copy: bool = True,
        seeding: Seeding = "gymnasium",
        timeout: float | None = None,
        engine_reason: str = "given",
        check_finite: Any = None,
    ) -> None:
        facts = engine.facts
        self.engine = engine
        self.engine_reason = engine_reason
        self.num_envs = len(engine.batch)
        self.batch_size = batch_size or self.num_envs
        self.single_observation_space = facts.single_observation_space
        self.observation_space = facts.observation_space
        self.single_action_space = facts.single_action_space
        self.action_space = facts.action_space
        self.render_mode = facts.render_mode
        self.autoreset_mode = autoreset
        self.metadata = {**facts.metadata, "autoreset_mode": autoreset}
        self.copy = copy
        self.timeout = timeout
        self._seeding: Seeding = seeding
        self._batch = engine.batch
        self._lifecycle = Lifecycle(self.num_envs, lenient=self._lenient)
        self._may_roll = plan(autoreset, np.zeros(1, np.bool_)) == _ROLL
        self._finite = FiniteCheck(engine, check_finite, self._may_roll)
        self._recv = self._finite.recv if self._finite.on else engine.recv
        self._results = Results(self._batch, may_roll=self._may_roll, copy=copy)
        self._recorder: Recorder | None = None
        self._undelivered: Rows | None = None
        """Rows received from the engine whose results are not yet with the user."""
        self._timed_out_after: float | None = None
        """How long a `recv` waited in vain; `reset` does not wait longer."""
        self._exchanges = 0
        self._seconds_waiting = 0.0
        self._first_exchange = self._last_exchange = 0.0
        """When the first began and when the latest was received."""

    # --- Gymnasium's calls -------------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | np.ndarray | None = None,
        options: dict[str, Any] | Sequence[dict[str, Any] | None] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes, of all envs or of those in `options["reset_mask"]`.

        Args:
            seed: None; an int, of which every env gets its own; or one int or None per env.
            options: one dict for all envs, or one per env. The key "reset_mask", a bool array, is for the vector env
                itself. The caller's dict is never changed.

        Returns:
            Observations of all envs (those not reset: their current ones) and infos of the envs that were reset.
        """
        self._lifecycle.enter("reset")
        try:
            self._send_reset(seed, options)
            self._receive(self._lifecycle.pending_count, self.timeout)
            results = self._results.of_reset(self._undelivered)
            self._undelivered = None
            return results
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            self._lifecycle.inside = None

    def step(self, actions: Any, env_ids: Any = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs, or those of `env_ids` alone; then position k of every result belongs to `env_ids[k]`.

        Raises:
            InvalidAction: before anything is sent; nothing has changed.
            EnvError: an env failed. The results of the others wait for `recv()`; `reset()` discards them.
        """
        self._lifecycle.enter("step")
        try:
            rows = None if env_ids is None else self._lifecycle.parse_rows(env_ids)
            if rows is not None:
                self._lifecycle.check_idle("step")
            self._send_step(actions, rows, "step")
            self._receive(self._lifecycle.pending_count, self.timeout)
            results = self._results.as_gymnasium(rows)
            self._undelivered = None
            return results
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            self._lifecycle.inside = None

    def render(self) -> tuple[Any, ...] | None:
        """One frame per env."""
        if self.render_mode is None:
            raise ConfigError("these envs have no render_mode; make them with render_mode='rgb_array'")
        return self.call("render")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, or read an attribute. Found on the env or on any wrapper around it."""
        self._check_name(name)
        self._lifecycle.enter("call")
        try:
            return tuple(self._reachable("call").call(name, args, kwargs, self.timeout))
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            self._lifecycle.inside = None

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env. As in Gymnasium, one that is a function is called."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has one value per env, anything else is for all."""
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise SpaceError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(values)}` values for {self.num_envs} environments."
            )
        self._lifecycle.enter("set_attr")
        try:
            self._reachable("set_attr").set_attr(name, list(values), self.timeout)
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            self._lifecycle.inside = None

    def close(self, timeout: float = 5.0, **kwargs: Any) -> None:
        """End everything within about `timeout` seconds. May be called twice, during a step, after a failure."""
        if self.closed:
            return
        self.closed = self._lifecycle.closed = True
        if self._lifecycle.is_mine():
            self.close_extras(timeout=timeout, **kwargs)

    def close_extras(self, timeout: float = 5.0, **kwargs: Any) -> None:
        """Close the engine; called once, by `close`."""
        self.engine.close(timeout)

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]  # Gymnasium's Sync does the same
        """The generators of all envs."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # Gymnasium's Sync does the same
        """The seeds of all envs."""
        return self.get_attr("np_random_seed")

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            if not self.closed:
                self.close(timeout=1.0)

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            f"a vector env with the {self.engine.name} engine cannot be pickled or copied: its envs live in it; make "
            "another one where it is needed. Kernels (engine='compiled') can be"
        )

    # --- whoever is ready --------------------------------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Start a step of all envs, or of those of `env_ids`, and return at once.

        Raises:
            PendingError: some of them are still running.
        """
        rows = None if env_ids is None else self._lifecycle.parse_rows(env_ids)
        self._begin("send", self._send_step, actions, rows, "send")

    def recv(self, min_envs: int | None = None, timeout: float | None = None) -> Step:
        """Wait until `min_envs` of the sent envs are done and return exactly these, named by `env_ids`.

        Args:
            min_envs: default: `batch_size`, or all that are pending if these are fewer.
            timeout: seconds; default: the `timeout` given to `make`.

        Raises:
            NothingPendingError: nothing was sent.
            WorkerTimeout: nothing is lost; call again to wait on.
        """
        if min_envs is None and self._lifecycle.pending_count > self.batch_size:
            min_envs = self.batch_size
        patient = self.timeout if timeout is None else patience(seconds("timeout", timeout))
        return self._deliver("recv", min_envs, patient, self._results.step)

    @property
    def episode_return(self) -> np.ndarray:
        """Return so far of each env's episode; of the ended one while its last step is the latest."""
        return self._batch.episode_return.copy()

    @property
    def episode_length(self) -> np.ndarray:
        """Steps so far of each env's episode; of the ended one while its last step is the latest."""
        return self._batch.episode_length.copy()

    def stats(self) -> Stats:
        """Where time goes: in the envs (and which of them), in waiting, in copying."""
        clocks = self.engine.clocks() if isinstance(self.engine, SupportsClocks) else []
        spent = self._seconds_waiting, self._results.seconds, self._last_exchange - self._first_exchange
        return gather(clocks, self.num_envs, self._exchanges, *spent)

    def explain(self, show: Callable[[str], object] = print) -> Explanation:
        """Say where time goes and who is slow, with one line of advice.

        Args:
            show: what to do with the text; `print`, or for instance a logger's `info`.

        Returns:
            The same as data; its `str` is the text.
        """
        explained = explain(self)
        show(str(explained))
        return explained

    def recording(self, row: int) -> Recording:
        """The current episode of an env, to be saved or run again (`vecenv.replay`). Needs `make(record=...)`.

        After its last step an episode is the current one until the next begins; after a failure, that which failed is.

        Raises:
            ConfigError: nothing is recorded.
        """
        if self._recorder is None:
            raise ConfigError("nothing is recorded; make the envs with record='last-episode'")
        return self._recorder.recording(row)

    # --- planning, resuming, many steps at once ----------------------------------------------------------------------

    def get_state(self, env_ids: Any = None) -> Snapshot:
        """Everything that envs are made of: state, random stream, parameters, totals. `set_state` brings it back.

        Args:
            env_ids: which envs; default: all.

        Raises:
            UnsupportedError: the engine cannot; kernels (engine="compiled") can.
        """
        raise self._needs_kernel("get_state")

    def set_state(self, state: Snapshot, env_ids: Any = None) -> None:
        """Make envs what they were in `get_state`; a state of one env may be set to many.

        Raises:
            UnsupportedError: the engine cannot; kernels (engine="compiled") can.
        """
        raise self._needs_kernel("set_state")

    def clone(self, source: Any, target: Any) -> None:
        """Make the envs `target` copies of the envs `source` (ids; one source may have many targets)."""
        raise self._needs_kernel("clone")

    def rollout(
        self, actions: Any = None, *, policy: Callable[..., Any] | None = None, steps: int | None = None
    ) -> Rollout:
        """Run many steps of all envs in one native call.

        Args:
            actions: batches of actions with a leading axis of time: [T, N, ...].
            policy: instead, a function of one env's observation that returns its action (or `policy(obs, action)` that
                writes into it). It is compiled under the rules of kernels.
            steps: T, with a policy.

        Raises:
            NotFiniteError: with `check_finite="error"`; the envs in its `rows` need a reset, the others have moved on.
            UnsupportedError: the engine cannot; kernels (engine="compiled") can.
        """
        raise self._needs_kernel("rollout")

    def _needs_kernel(self, call: str) -> UnsupportedError:
        return UnsupportedError(
            f"{call}() needs engine='compiled', which runs kernels; this is the {self.engine.name} engine"
        )

    # --- for wrappers: the same as reset, step and recv, before Gymnasium's dicts are made ----------------------------

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        obs, infos = self.reset(seed=seed, options=options)
        exchange = Exchange.of_reset(obs, infos, None, self.num_envs)
        mask = ResetOptions.parse(options, self.num_envs).mask
        if mask is not None:
            exchange.ops[~mask] = _IDLE
        return exchange

    def _exchange_step(self, actions: Any, env_ids: Any) -> Exchange:
        rows = None if env_ids is None else self._lifecycle.parse_rows(env_ids)
        if rows is not None:
            self._lifecycle.check_idle("step")
        self._begin("step", self._send_step, actions, rows, "step")
        take = self._results.exchange if rows is None else lambda _: self._results.exchange(rows, ascending=False)
        return self._deliver("step", None, self.timeout, take)

    def _exchange_recv(self, min_envs: int | None, timeout: float | None) -> Exchange:
        if min_envs is None and self._lifecycle.pending_count > self.batch_size:
            min_envs = self.batch_size
        patient = self.timeout if timeout is None else patience(seconds("timeout", timeout))
        return self._deliver("recv", min_envs, patient, self._results.exchange)

    def _prime(self, rows: Rows, options: Sequence[Any] = (), seeds: np.ndarray | None = None) -> None:
        """Say how the next episode of these rows begins, whichever op begins it and wherever: a ROLL in a worker too.

        Args:
            rows: that are not pending.
            options: of each row; they travel with its next op. A reset that brings its own replaces them.
            seeds: of each row.
        """
        self._batch.options.update(zip(rows.tolist(), options, strict=False))
        if seeds is not None:
            self._batch.seed[rows] = seeds

    # --- for faces ---------------------------------------------------------------------------------------------------

    def _start_reset(self, seed: Any = None, options: Any = None) -> None:
        """Start a reset and return at once; `recv` brings its results."""
        self._begin("reset_async", self._send_reset, seed, options)

    def _recv_dicts(self, timeout: float | None = None) -> tuple[Step, list[dict[str, Any]], list[dict[str, Any]]]:
        """Receive all that is pending, with infos as fresh dicts.

        Returns:
            The step, whose own `infos` tell of ended episodes their `final_obs` alone; each env's info, which belongs
            to `obs`; and each env's final info, empty where no episode rolled.
        """
        return self._deliver("recv", None, self.timeout if timeout is None else timeout, self._results.dicts)

    def _begin(self, call: str, send: Callable[..., None], *arguments: Any) -> None:
        """A public call that sends and returns at once."""
        self._lifecycle.enter(call)
        try:
            send(*arguments)
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            self._lifecycle.inside = None

    def _deliver(self, call: str, count: int | None, timeout: float | None, results: Callable[[Rows], T]) -> T:
        """A public call that receives `count` rows (None: all that are pending) and makes results of them."""
        self._lifecycle.enter(call)
        try:
            made = results(self._receive(self._lifecycle.check_can_receive(count), timeout))
            self._undelivered = None
            return made
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            self._lifecycle.inside = None

    # --- how ---------------------------------------------------------------------------------------------------------

    def _send_reset(self, seed: Any, options: Any) -> None:
        lifecycle, batch = self._lifecycle, self._batch
        parsed = ResetOptions.parse(options, self.num_envs)
        if not lifecycle.broken or parsed.mask is not None:
            lifecycle.check_idle("reset_async")
        seeds = spread(seed, self.num_envs, self._seeding)
        rows = lifecycle.all_rows if parsed.mask is None else np.flatnonzero(parsed.mask)
        lifecycle.check_first_reset(rows)
        self._discard_pending()
        seeded = rows[seeds[rows] != NO_SEED]
        try:
            batch.seed[seeded] = seeds[seeded]  # an env that was restarted keeps the seed it was given
            if options is not None:
                told = ((row, parsed.per_env[row]) for row in rows.tolist())
                batch.options.update((row, option) for row, option in told if option is not None)
            self._dispatch(rows, _RESET, "reset")
        except BaseException:
            self._forget(rows)
            raise

    def _send_step(self, actions: Any, rows: Rows | None, call: str) -> None:
        lifecycle, batch = self._lifecycle, self._batch
        lifecycle.check_can_step(rows, call)
        everything: Any = slice(None) if rows is None else rows
        count = self.num_envs if rows is None else len(rows)
        given: list[Any] = []
        columns: Columns = []
        if self._lenient and not batch.action_layout.fits(actions, count):
            given = as_given(self.action_space, actions, count)
        else:
            columns = batch.action_layout.pack(actions, count)
        ops = plan(self.autoreset_mode, batch.done if rows is None else batch.done[rows])
        rows = lifecycle.all_rows if rows is None else rows
        try:
            if given:
                batch.raw_actions.update(zip(rows.tolist(), given, strict=True))
            for column, packed in zip(batch.actions, columns, strict=False):
                column[everything] = packed
            self._dispatch(rows, ops, "step")
        except BaseException:
            self._forget(rows)
            raise

    def _dispatch(self, rows: Rows, ops: Any, call: str) -> None:
        where: Any = slice(None) if rows is self._lifecycle.all_rows else rows
        self._batch.op[where] = ops
        self._undelivered = None
        if self._timed_out_after is not None and not self._lifecycle.pending_count:
            self._timed_out_after = None
        if self._finite.keeps:
            self._finite.before(rows)
        if self._recorder is not None:
            self._recorder.sending(rows, ops)
        self.engine.send(rows)
        self._lifecycle.sent(rows, call)
        if self._recorder is not None:
            self._recorder.sent()

    def _forget(self, rows: Rows) -> None:
        """Take back what was prepared for rows that could not be sent. An interrupt may come when they are sent."""
        batch, unsent = self._batch, np.setdiff1d(rows, self.engine.pending())
        for row in unsent.tolist() if batch.options or batch.raw_actions else ():
            batch.options.pop(row, None)
            batch.raw_actions.pop(row, None)
        batch.seed[unsent] = NO_SEED  # or the next autoreset would use the seeds of this reset
        if len(unsent) == len(rows):
            self._finite.undo()
            if self._recorder is not None:
                self._recorder.unsent(rows)

    def _receive(self, count: int, timeout: float | None) -> Rows:
        started = time.perf_counter()
        try:
            self._undelivered = rows = self._recv(count, timeout)
        except EnvError as error:
            self._lifecycle.broken = True
            if isinstance(error, WorkerTimeout):
                self._timed_out_after = timeout
            else:
                self._lifecycle.failed(np.array(error.rows))
            if self._recorder is not None:
                self._recorder.failed(error)
            raise
        self._last_exchange = time.perf_counter()
        self._seconds_waiting += self._last_exchange - started
        self._first_exchange = self._first_exchange or started
        self._exchanges += 1
        self._lifecycle.received(rows)
        if self._recorder is not None:
            self._recorder.received(rows)
        return rows

    def _discard_pending(self) -> None:
        """Wait for what an error left behind and forget it; an env that hangs is killed if the engine can."""
        timeout = self.timeout if self._timed_out_after is None else self._timed_out_after
        held = self._finite.drop()
        if len(held):
            self._lifecycle.received(held, ready=False)
        while self._lifecycle.pending_count:
            try:
                rows = self.engine.recv(self._lifecycle.pending_count, timeout)
                self._lifecycle.received(rows, ready=False)
            except WorkerTimeout as error:
                if not isinstance(self.engine, SupportsKill) or error.row is None:
                    raise
                self.engine.kill(error.row)
            except EnvError as error:
                self._lifecycle.failed(np.array(error.rows))
        self._batch.mail.clear()
        self._lifecycle.broken, self._timed_out_after = False, None

    def _resync(self, error: BaseException) -> None:
        """Find out who is gone, and after an error that is not ours, such as Ctrl-C, how far the exchange had come."""
        if not isinstance(error, VecenvError):
            self._lifecycle.resync(self._finite.pending(self.engine.pending()), self._undelivered)
        if isinstance(self.engine, SupportsGone):  # the error that says so may have been lost to an interrupt
            gone = np.setdiff1d(self.engine.gone(), self.engine.pending())
            self._finite.lose(gone.tolist())
            self._lifecycle.failed(gone)

    def _check_name(self, name: str) -> None:
        if name in _NOT_CALLABLE:
            raise ConfigError(f"Trying to call function `{name}` with `call`, use `{name}` directly instead.")

    def _reachable(self, call: str) -> SupportsCall:
        self._lifecycle.check_idle(call)
        if not isinstance(self.engine, SupportsCall):
            raise UnsupportedError(
                f"the {self.engine.name} engine has no Python envs to reach; use engine='sync', 'thread' or 'process'"
            )
        return self.engine
