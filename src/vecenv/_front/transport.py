"""Sending rows to an engine and receiving them: the part of the vector env below its public calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch.batch import Op, Rows
from vecenv._batch.layout import Columns, as_given
from vecenv._batch.seeding import NO_SEED, Seeding, spread
from vecenv._front.autoreset import ops_of, plan, rolls
from vecenv._front.call_order import CallOrder
from vecenv._front.exchange import Exchange
from vecenv._front.reset_options import ResetOptions
from vecenv._front.results import GymnasiumStep, Results
from vecenv._front.step import Step
from vecenv._front.whole_step import whole_step
from vecenv._util.checks import patience, seconds
from vecenv._util.forks import reinit_after_fork
from vecenv._util.warn import warn_user
from vecenv.engines import (
    Engine,
    SupportsExchange,
    SupportsGather,
    SupportsGone,
    SupportsKill,
    SupportsStates,
    SupportsWake,
    SupportsWarnings,
    registry,
)
from vecenv.engines.decorator import Decorator, undecorated
from vecenv.errors import ClosedError, ConfigError, EnvError, VecenvError, WorkerTimeout

T = TypeVar("T")
_RESET = int(Op.RESET)


class Transport(gymnasium.vector.VectorEnv):
    """What the public calls of a vector env consist of.

    Rows are sent to the engine and received from it with its decorators around it (`_decorated`). The engine itself is
    `engine`: it says which abilities there are, and what no decorator changes is asked of it.
    """

    _lenient = False
    """True in faces of libraries that check nothing: actions go to the envs unchanged, also before the first reset."""

    def __init__(
        self,
        engine: Engine,
        autoreset: AutoresetMode,
        batch_size: int | None,
        copy: bool,
        seeding: Seeding,
        timeout: float | None,
    ) -> None:
        self.engine: Any = undecorated(engine)
        self.num_envs = len(engine.batch)
        self.batch_size = batch_size or self.num_envs
        self.autoreset_mode = autoreset
        self.copy = copy
        self.timeout = timeout
        self._seeding: Seeding = seeding
        self._decorated = engine
        self._batch = engine.batch
        self._call_order = CallOrder(self.num_envs, engine.pending, lenient=self._lenient)
        if isinstance(self.engine, SupportsStates):
            self._call_order.survives_fork = True
            reinit_after_fork(self._call_order)
        self._closing = reinit_after_fork(threading.RLock())
        """Held by the thread that closes. Reentrant: a signal handler may close while its own thread does."""
        self._warnings = engine.warnings if isinstance(engine, SupportsWarnings) else []
        self._may_roll = rolls(autoreset)
        self._results = Results(self._batch, may_roll=self._may_roll, copy=copy)
        self._undelivered: Rows | None = None
        """Rows received from the engine whose results are not yet with the user."""
        self._timed_out_after: float | None = None
        """Seconds after which a `recv` timed out; `reset` does not wait longer."""
        self._exchanges = 0
        self._seconds_waiting = 0.0
        self._sent_at = np.zeros(self.num_envs)
        """When each row was sent last."""
        self._first_exchange = self._last_exchange = 0.0
        """When the first began and when the latest was received."""
        self._alive_op, self._over_op = ops_of(autoreset)
        self._may_not_end = self._alive_op == self._over_op and not self._may_roll
        self._whole_step: Callable[[Transport, Any], GymnasiumStep] | None = None
        """The public call `step` of all rows, if the engine can run them in one call."""
        self._whole_exchange: Callable[[Transport, Any], Exchange] | None = None
        """The same for wrappers."""
        self._may_time_out = isinstance(self.engine, SupportsWake)
        """Whether steps need `send` and `recv` if there is a time limit: `exchange_all` has none."""
        if isinstance(self.engine, SupportsExchange) and not self._lenient:
            self._whole_step = whole_step(self, self._results.whole)
            self._whole_exchange = whole_step(self, self._results.whole_exchange)

    # --- a public call -----------------------------------------------------------------------------------------------

    def _run(self, call: str, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(*arguments)` as the public call of this name. Other calls raise until it has ended."""
        order = self._call_order
        order.enter(call)
        try:
            made = work(*arguments)
            self._undelivered = None  # here, not in `work`: Ctrl-C may come when `work` returns
        except BaseException as error:
            self._resync(error)
            raise
        finally:
            order.inside, order.vacant = None, True  # not in a call: a signal handler could raise before it has begun
        if self._warnings:
            self._warn()
        return made

    def _receive_some(
        self,
        min_envs: int | None,
        timeout: float | None,
        results: Callable[[Rows], T],
        max_envs: int | None = None,
        until: float | None = None,
    ) -> T:
        """The public call `recv`, with what makes its results."""
        patient = self.timeout if timeout is None else patience(seconds("timeout", timeout))
        if max_envs is not None or until is not None:
            until = None if until is None else seconds("until", until)
            return self._run("recv", self._receive_ready, min_envs, max_envs, until, patient, results)
        if min_envs is None and self._call_order.pending_count > self.batch_size:
            min_envs = self.batch_size
        return self._run("recv", self._receive_results, min_envs, patient, results)

    def _receive_results(self, count: int | None, timeout: float | None, results: Callable[[Rows], T]) -> T:
        """Receive `count` rows (None: all that are pending) and make results of them."""
        return results(self._receive(self._call_order.check_can_receive(count), timeout))

    def _receive_ready(
        self,
        least: int | None,
        most: int | None,
        until: float | None,
        timeout: float | None,
        results: Callable[[Rows], T],
    ) -> T:
        """Receive the rows that are ready: at least, at most, and how long to wait for the most."""
        least, most = self._call_order.check_range(least, most)
        return results(self._receive(least, timeout, most, until))

    def _warn(self) -> None:
        """Issue the engine's warnings, as the last thing in a call: Python may raise them as errors."""
        texts = self._warnings.copy()
        self._warnings.clear()
        for text in texts:
            warn_user(text)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _check_may_wait(self, call: str) -> None:
        """Raise if this call would wait for envs in an event loop that cannot run meanwhile."""
        check = getattr(self.engine, "check_may_wait", None)
        if check is not None:
            check(f"{call}()")

    def _send_reset(self, seed: Any, options: Any) -> None:
        self._check_may_wait("reset")
        order = self._call_order
        parsed = ResetOptions.parse(options, self.num_envs)
        if not order.broken or parsed.mask is not None:
            order.check_idle("reset_async")
        seeds = spread(seed, self.num_envs, self._seeding)
        rows = order.all_rows if parsed.mask is None else np.flatnonzero(parsed.mask)
        order.check_first_reset(rows)
        self._discard_pending()
        self._dispatch_reset(rows, seeds, None if options is None else parsed.per_env)

    def _send_some_resets(self, env_ids: Any, seed: Any, options: Any) -> None:
        """Start resets of these rows, also while others are pending."""
        order = self._call_order
        rows = order.all_rows if env_ids is None else order.parse_rows(env_ids)
        order.check_not_pending(rows)
        seeds = spread(seed, self.num_envs, self._seeding)
        parsed = ResetOptions.parse(options, self.num_envs)
        if parsed.mask is not None:
            raise ConfigError("send_reset takes env_ids, not options['reset_mask']; pass send_reset(mask)")
        self._dispatch_reset(rows, seeds, None if options is None else parsed.per_env)

    def _dispatch_reset(self, rows: Rows, seeds: np.ndarray, options: Sequence[Any] | None) -> None:
        batch, given = self._batch, self._batch.given_seed.copy()
        seeded = rows[seeds[rows] != NO_SEED]
        try:
            # An env that was restarted keeps the seed of its next episode where none is given.
            batch.seed[seeded] = batch.given_seed[seeded] = seeds[seeded]
            if options is not None:
                per_env = ((row, options[row]) for row in rows.tolist())
                batch.options.update((row, option) for row, option in per_env if option is not None)
            self._dispatch(rows, _RESET, "reset")
        except BaseException:
            unsent = self._forget(rows)
            batch.given_seed[unsent] = given[unsent]
            raise

    def _send_step(self, actions: Any, rows: Rows | None, call: str) -> None:
        order, batch = self._call_order, self._batch
        order.check_can_step(rows, call)
        everything: Any = ... if rows is None else rows
        count = self.num_envs if rows is None else len(rows)
        raw_actions: list[Any] = []
        columns: Columns = []
        if self._lenient and not batch.action_layout.fits(actions, count):
            raw_actions = as_given(self.action_space, actions, count)
        else:
            columns = batch.action_layout.pack(actions, count)
        ops = plan(self.autoreset_mode, batch.done if rows is None else batch.done[rows])
        rows = order.all_rows if rows is None else rows
        try:
            if raw_actions:
                batch.raw_actions.update(zip(rows.tolist(), raw_actions, strict=True))
            for column, packed in zip(batch.actions, columns, strict=False):
                column[everything] = packed
            self._dispatch(rows, ops, "step")
        except BaseException:
            self._forget(rows)
            raise

    def _send_whole_step(self, actions: Any, env_ids: Any) -> Rows | None:
        """Send a step of all envs, or of those of `env_ids` if nothing is pending; return their rows, None for all."""
        self._check_may_wait("step")
        rows = None if env_ids is None else self._call_order.parse_rows(env_ids)
        if rows is not None:
            self._call_order.check_idle("step")
        self._send_step(actions, rows, "step")
        return rows

    def _dispatch(self, rows: Rows, ops: Any, call: str) -> None:
        where: Any = ... if rows is self._call_order.all_rows else rows
        self._batch.op[where] = ops
        self._sent_at[where] = time.perf_counter()
        self._undelivered = None
        if self._timed_out_after is not None and not self._call_order.pending_count:
            self._timed_out_after = None
        self._decorated.send(rows)
        self._call_order.sent(rows, call)

    def _forget(self, rows: Rows) -> Rows:
        """Take back what was prepared for rows that could not be sent, and return them. An interrupt may come then."""
        batch, unsent = self._batch, np.setdiff1d(rows, self.engine.pending())
        for row in unsent.tolist() if batch.options or batch.raw_actions else ():
            batch.options.pop(row, None)
            batch.raw_actions.pop(row, None)
        batch.seed[unsent] = NO_SEED  # or the next autoreset would use the seeds of this reset
        return unsent

    # --- all rows in one call ----------------------------------------------------------------------------------------

    def _pack(self, actions: Any) -> None:
        batch = self._batch
        for column, packed in zip(batch.actions, batch.action_layout.pack(actions, self.num_envs), strict=True):
            column[...] = packed

    def _hand_over_others(self, error: EnvError) -> None:
        """After a failure in `exchange_all` the other rows are pending, as if they had been sent."""
        everyone = self._call_order.all_rows
        self._call_order.sent(everyone, "step")
        self._call_order.broken = True
        self._call_order.failed(np.array(error.rows))

    # --- receiving ---------------------------------------------------------------------------------------------------

    def _receive(self, count: int, timeout: float | None, most: int | None = None, until: float | None = None) -> Rows:
        """Receive exactly `count` rows; with `most`, those that are ready: between the two."""
        started, left = time.perf_counter(), timeout
        try:
            if most is not None:
                count = self._wait_for_some(count, most, until, timeout)
                if timeout is not None:
                    left = max(0.0, started + timeout - time.perf_counter())
            self._undelivered = rows = self._decorated.recv(count, left)
        except BaseException as error:
            self._note_failure(error, left, timeout)
            raise
        self._last_exchange = time.perf_counter()
        self._seconds_waiting += self._last_exchange - started
        self._first_exchange = self._first_exchange or started
        self._exchanges += 1
        self._call_order.received(rows)
        return rows

    def _note_failure(self, error: BaseException, left: float | None, timeout: float | None) -> None:
        """The engine raised, after `left` seconds of the timeout if envs were late."""
        failure = error if isinstance(error, EnvError) else error.__context__  # Ctrl-C while it was being recorded
        if isinstance(failure, EnvError):
            self._call_order.broken = True
            if isinstance(failure, WorkerTimeout):
                self._timed_out_after = timeout
                failure.message = failure.message.replace(f"within {left} s", f"within {timeout} s", 1)
            else:
                self._call_order.failed(np.array(failure.rows))

    def _wait_for_some(self, least: int, most: int, until: float | None, timeout: float | None) -> int:
        """Wait until rows can be received, and return how many: at least, at most; those that are ready."""
        if not isinstance(self.engine, SupportsGather):
            return most if registry.declares(self.engine, "native") else least
        held = self._decorated.held() if isinstance(self._decorated, Decorator) else 0
        until = until if until is None or timeout is None else min(until, timeout)
        ready = 0 if until is None else held + self.engine.gather(max(0, most - held), until)
        if ready < least:
            longest = threading.TIMEOUT_MAX if timeout is None else timeout - (until or 0.0)
            ready = held + self.engine.gather(max(0, least - held), longest)
        return min(max(ready, least), most)

    def _discard_pending(self) -> None:
        """Wait for what an error left behind and forget it; an env that hangs is killed if the engine can.

        Decorators do not see these results, as no user does.
        """
        order, engine = self._call_order, self.engine
        left = self._decorated.pending() if order.pending_count else order.all_rows[:0]
        timeout = self.timeout if self._timed_out_after is None else self._timed_out_after
        if len(left) and isinstance(self._decorated, Decorator):
            self._decorated.discard()
        while order.pending_count and len(pending := engine.pending()):
            try:
                engine.recv(len(pending), timeout)
            except WorkerTimeout as error:
                if not isinstance(self.engine, SupportsKill) or error.row is None:
                    order.pending_count = len(engine.pending())
                    raise
                self.engine.kill(error.row)
            except EnvError as error:
                order.failed(np.array(error.rows))
                left = np.setdiff1d(left, error.rows)
        self._batch.mail.clear()
        order.discarded(left)
        self._timed_out_after = None

    def _resync(self, error: BaseException) -> None:
        """Find out which envs are gone, and after an error such as Ctrl-C how far the exchange had come.

        Raises:
            ClosedError: whatever went wrong, it did because of `close`.
        """
        if self._call_order.closed and isinstance(error, Exception):
            raise ClosedError(
                "this call ended without a result: another thread, or a signal handler, called close() meanwhile; "
                "make a new vector env to go on"
            ) from (None if isinstance(error, ClosedError) else error)
        if not isinstance(error, VecenvError):
            self._call_order.resync(self._undelivered)
        self._undelivered = None
        if isinstance(self.engine, SupportsGone):  # the error that says so may have been lost to an interrupt
            gone = self._decorated.gone()  # type: ignore[attr-defined]  # decorators pass it on
            self._call_order.failed(np.setdiff1d(gone, self._decorated.pending()))

    # --- for wrappers: the same as reset, step and recv, before Gymnasium's dicts are made ----------------------------

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        obs, infos = self.reset(seed=seed, options=options)
        return Exchange.of_reset(obs, infos, ResetOptions.parse(options, self.num_envs).mask, self.num_envs)

    def _exchange_step(self, actions: Any, env_ids: Any) -> Exchange:
        if env_ids is None and self._whole_exchange is not None and (self.timeout is None or not self._may_time_out):
            return self._whole_exchange(self, actions)
        return self._run("step", self._step_and_exchange, actions, env_ids)

    def _step_and_exchange(self, actions: Any, env_ids: Any) -> Exchange:
        rows = self._send_whole_step(actions, env_ids)
        received = self._receive(self._call_order.pending_count, self.timeout)
        return self._results.exchange(received if rows is None else rows, ascending=rows is None)

    def _exchange_recv(
        self, min_envs: int | None, timeout: float | None, max_envs: int | None = None, until: float | None = None
    ) -> Exchange:
        return self._receive_some(min_envs, timeout, self._aged, max_envs, until)

    def _aged(self, rows: Rows) -> Exchange:
        """Results of rows that were received, with their age."""
        exchange = self._results.exchange(rows)
        exchange.age = self._last_exchange - self._sent_at[rows]
        return exchange

    def _prime(self, rows: Rows, options: Sequence[Any] = (), seeds: np.ndarray | None = None) -> None:
        """Set how the next episode of these rows begins, also if it begins in a step (a ROLL).

        Args:
            rows: that are not pending.
            options: of each row; they travel with its next op. A reset that brings its own replaces them.
            seeds: of each row.
        """
        self._batch.options.update(zip(rows.tolist(), options, strict=False))
        if seeds is not None:
            self._batch.seed[rows] = self._batch.given_seed[rows] = seeds

    # --- for faces ---------------------------------------------------------------------------------------------------

    def _start_reset(self, seed: Any = None, options: Any = None) -> None:
        """Start a reset and return at once; `recv` brings its results."""
        self._run("reset_async", self._send_reset, seed, options)

    def _recv_dicts(self, timeout: float | None = None) -> tuple[Step, list[dict[str, Any]], list[dict[str, Any]]]:
        """Receive all that is pending, with infos as fresh dicts.

        Returns the step, whose own `infos` have only `final_obs` of ended episodes; each env's info, which belongs to
        `obs`; and each env's final info, empty where no episode rolled.
        """
        timeout = self.timeout if timeout is None else timeout
        return self._run("recv", self._receive_results, None, timeout, self._results.dicts)
