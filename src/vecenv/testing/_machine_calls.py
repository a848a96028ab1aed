"""Calls of a vector env, each compared with the model; the rules of the state machine use them."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis.stateful import RuleBasedStateMachine

from vecenv._front.infos import rows_of_arrays
from vecenv.errors import (
    ClosedError,
    EnvError,
    NothingPendingError,
    PendingError,
    UnsupportedError,
    VecenvError,
    WorkerDied,
    WorkerTimeout,
)
from vecenv.testing._interrupting import Interrupted, call_and_interrupt
from vecenv.testing._laws import law
from vecenv.testing._machine_model import Model, Shown
from vecenv.testing._obedient_env import EXIT, RAISE, ObedientEnv
from vecenv.testing._remains import Remains

COUNT = 4
EVERYONE = tuple(range(COUNT))
_SOON = 0.005
"""Timeout in seconds of a call with `hurry`; a slow env takes longer."""


@dataclass
class Setting:
    """Arguments of `check_machine`; `tally` counts what happened."""

    build: Callable[[Sequence[Any], str], Any]
    modes: Sequence[str]
    native: bool
    interrupts: bool
    bound: float
    tally: Counter[str] = field(default_factory=Counter)


class Calls(RuleBasedStateMachine):
    """A vector env, the model of its envs, and calls that compare the two."""

    setting: Setting

    def _build(self, mode: str) -> None:
        self.remains = Remains()
        self.envs = self.setting.build(ObedientEnv.many(COUNT), mode)
        self.closed, self.moment = False, None
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []
        self.pids: tuple[int, ...] = () if self.setting.native else self.envs.call("worker_pid")
        others = sorted({pid for pid in self.pids if pid != os.getpid()})
        blocks = sorted(tuple(row for row in EVERYONE if self.pids[row] == pid) for pid in others)
        self.model = Model(COUNT, mode, blocks)
        self.setting.tally["programs"] += 1

    def teardown(self) -> None:
        """Close, and check that nothing is left."""
        if not hasattr(self, "envs"):
            return
        self._close()
        del self.envs  # releases its shared memory
        for array, copied in self.kept:
            law("ownership", np.array_equal(array, copied), "an array was changed after it was returned")
        if sys.exc_info()[1] is None:  # otherwise the traceback keeps everything alive
            self.remains.check(self.pids)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _reset(self, seed: int | None, mask: Sequence[int] | None, or_pending: bool = False) -> None:
        """Reset. `or_pending`: an interrupt may have come before the previous call; then nothing may be discarded."""
        model, refusal = self.model, self.model.refuse_reset(mask)
        options = None if mask is None else {"reset_mask": np.isin(EVERYONE, mask)}
        result, error = self._call("reset", lambda: self.envs.reset(seed=seed, options=options), refusal)
        if refusal is not None or self.closed:
            return
        chosen = EVERYONE if mask is None else mask
        if isinstance(error, PendingError) and or_pending:
            self._receive_all()
            return
        if isinstance(error, WorkerTimeout) and model.impatient:
            return  # reset must not kill workers it still waits for: nothing has changed
        model.discard()
        model.sent(model.plan_reset(chosen, seed))
        if error is not None:
            self._failed(error)
            return
        obs, infos = result
        env_infos = rows_of_arrays(infos, COUNT)
        law("rows", obs.shape == (COUNT, 5) and obs.dtype == np.float64, f"obs are {obs.dtype} of shape {obs.shape}")
        for row in EVERYONE:
            if row in chosen:
                self._check_row(row, obs[row], env_infos[row])
            elif model.rows[row].ready:
                law("rows", agree(model.rows[row].obs, obs[row]), f"a reset of others changed env {row}: {obs[row]}")
        self._keep(obs)

    def _step(self, actions: Sequence[int], ids: Sequence[int] | None, hurry: bool = False) -> None:
        refusal, chosen = self.model.refuse_step(ids), EVERYONE if ids is None else ids
        given = np.array(actions[: len(chosen)])
        if hurry:
            self.envs.timeout = _SOON
        try:
            result, error = self._call("step", lambda: self.envs.step(given, ids), refusal)
        finally:
            self.envs.timeout = None
        if refusal is not None or self.closed:
            return
        self.model.sent(self.model.plan_step(chosen, given.tolist()))
        self._compare_step(chosen, result, error, hurry)

    def _send(self, actions: Sequence[int], ids: Sequence[int] | None) -> None:
        refusal, chosen = self.model.refuse_step(ids, partial=True), EVERYONE if ids is None else ids
        given = np.array(actions[: len(chosen)])
        _, error = self._call("send", lambda: self.envs.send(given, ids) or True, refusal)
        if refusal is None and not self.closed:
            law("errors", error is None, f"send raised {error!r}")
            self.model.sent(self.model.plan_step(chosen, given.tolist()))

    def _recv(self, count: int | None, hurry: bool = False) -> None:
        refusal = self.model.refuse_recv(count)
        timeout = _SOON if hurry else None
        step, error = self._call("recv", lambda: self.envs.recv(count, timeout=timeout), refusal)
        if refusal is not None or self.closed:
            return
        if error is not None:
            self._failed(error, hurry)
            return
        ids, pending = step.env_ids.tolist(), sorted(self.model.pending)
        wanted = len(pending) if count is None else count
        law("rows", len(ids) == len(set(ids)) == wanted, f"recv({count}) of {pending} returned envs {ids}")
        law("rows", ids == pending or wanted < len(pending), f"all pending envs {pending} came as {ids}")
        valid = [row in pending and self.model.pending[row].op.name != "RESET" for row in ids]
        law("rows", step.valid.tolist() == valid, f"valid is {step.valid}, want {valid}")
        self._deliver(ids, *step)
        totals = [(self.model.rows[row].total, self.model.rows[row].length) for row in ids]
        found = list(zip(step.episode_return.tolist(), step.episode_length.tolist(), strict=True))
        law("rows", found == totals, f"totals of envs {ids} are {found}, want {totals}")

    def _compare_step(self, ids: Sequence[int], result: Any, error: Any, hurry: bool = False) -> None:
        """Compare what a step of these envs returned or raised with the model."""
        if error is not None:
            self._failed(error, hurry)
        else:
            self._deliver(ids, *result)

    def _deliver(self, ids: Sequence[int], obs: Any, reward: Any, terminated: Any, truncated: Any, infos: Any) -> None:
        """Compare the results with the model, row by row."""
        env_infos = rows_of_arrays(infos, len(ids))
        shapes = [np.shape(column) for column in (obs, reward, terminated, truncated)]
        law("rows", shapes == [(len(ids), 5), *[(len(ids),)] * 3], f"{len(ids)} envs came with shapes {shapes}")
        for position, row in enumerate(ids):
            flags = bool(terminated[position]), bool(truncated[position])
            self._check_row(row, obs[position], env_infos[position], float(reward[position]), flags)
        self._keep(obs, reward, terminated, truncated)
        self._check_totals()

    def _check_row(
        self,
        row: int,
        obs: np.ndarray,
        info: dict[str, Any],
        reward: float = 0.0,
        flags: tuple[bool, bool] = (False, False),
    ) -> None:
        model, counters = self.model, self.model.rows[row]
        law("rows", row in model.pending, f"env {row} was returned without having been sent")
        work, first = model.pending[row], counters.done
        law("errors", not work.is_order(RAISE), f"env {row} raised, and the error was not reported")
        law("errors", not work.is_order(EXIT), f"the process of env {row} ended, and the error was not reported")
        law("errors", not work.to_the_dead, f"env {row} was returned although its process was dead")
        del model.pending[row]
        shown = counters.run(work)
        if work.op.name == "RESET" or shown.final_obs is not None:
            problem = counters.saw(obs)
            law("rows", problem is None, problem or "")
        self._compare(row, shown, obs, info, reward, flags)
        counters.gained(work, reward, first)
        model.delivered(row, obs.copy())
        self.setting.tally["rows"] += 1

    def _compare(
        self, row: int, shown: Shown, obs: np.ndarray, info: dict[str, Any], reward: float, flags: tuple[bool, bool]
    ) -> None:
        final_obs, final_info = info.pop("final_obs", None), info.pop("final_info", {})
        law("rows", agree(shown.obs, obs), f"env {row} observes {obs.tolist()}, want {shown.obs}")
        law("rows", agree([shown.reward], [reward]), f"the reward of env {row} is {reward}, want {shown.reward}")
        wanted = shown.terminated, shown.truncated
        law("rows", flags == wanted, f"env {row} is (terminated, truncated) = {flags}, want {wanted}")
        law("rows", (final_obs is None) == (shown.final_obs is None), f"final_obs of env {row} is {final_obs}")
        if shown.final_obs is not None:
            law("rows", agree(shown.final_obs, final_obs), f"final_obs of {row}: {final_obs}, want {shown.final_obs}")
        if not self.setting.native:
            infos = [(shown.info, info), (shown.final_info, final_info)]
            right = all(a.keys() == b.keys() and agree(list(a.values()), list(b.values())) for a, b in infos)
            law("infos", right, f"infos of env {row} are {info}, {final_info}; want {shown.info}, {shown.final_info}")

    def _check_totals(self) -> None:
        sums, lengths = self.envs.episode_return, self.envs.episode_length
        for row in self.model.rows:
            if row.ready and row.index not in self.model.pending:
                found = sums[row.index], lengths[row.index]
                law(
                    "rows", found == (row.total, row.length), f"totals of {row.index}: {found}, {row.total, row.length}"
                )

    def _failed(self, error: VecenvError, hurry: bool = False, struck: bool = False) -> None:
        """Check that an error was due, and update the model."""
        model = self.model
        law("errors", isinstance(error, EnvError), f"{type(error).__name__} is not an EnvError: {error}")
        rows = error.rows  # type: ignore[attr-defined]  # see above
        self.setting.tally[type(error).__name__] += 1
        if isinstance(error, WorkerTimeout):
            law("errors", hurry, f"a call without a timeout timed out: {error}")
            model.broken = model.impatient = True
        elif isinstance(error, WorkerDied):
            law("errors", rows in model.blocks and model.may_die(rows), f"envs {rows} were not killed: {error}")
            model.died(rows)
        elif struck and "KeyboardInterrupt" in str(error):
            for row in rows:
                model.struck(row)
        else:
            right = isinstance(error, ValueError) and len(rows) == 1 and model.must_raise(rows[0])
            law("errors", right, f"envs {rows} had no order to fail: {error!r}")
            model.failed(rows[0])

    def _receive_all(self) -> None:
        """Receive until nothing is pending; rows that stay in `model.pending` were never sent, or are lost."""
        for _ in range(3 * COUNT):
            step, error = self._call("recv", self.envs.recv)
            if isinstance(error, NothingPendingError):
                return
            if error is not None:
                self._failed(error, struck=True)
            else:
                self._deliver(step.env_ids.tolist(), *step)
        law("bound", False, "after an interrupt recv() does not end")

    # --- how ---------------------------------------------------------------------------------------------------------

    def _look_at_processes(self) -> None:
        """Ask every env for its process: as many processes as before, and the old ones are gone."""
        before = self.pids
        pids, error = self._call("call", lambda: self.envs.call("worker_pid"))
        if error is not None:
            self._failed(error)
            return
        self.pids = pids
        homes = sorted(tuple(row for row in EVERYONE if pids[row] == pid) for pid in set(pids) - {os.getpid()})
        law("processes", homes == self.model.blocks, f"envs share processes as {homes}, want {self.model.blocks}")
        self.remains.replaced(set(before) - set(pids))

    def _close(self) -> None:
        started = time.monotonic()
        self.envs.close()
        self.closed = True
        self._check_bound("close", started)

    def _call(self, name: str, call: Callable[[], Any], refusal: Any = None) -> tuple[Any, Any]:
        """Result and error of a call, which must return in time and raise only documented errors."""
        if self.closed and refusal is not UnsupportedError and type(refusal) is not tuple:
            refusal = ClosedError
        started, box, error = time.monotonic(), [None], None
        try:
            if self.moment is None:
                box[0] = call()
            else:
                call_and_interrupt(call, self.moment, box)
        except VecenvError as raised:
            error = raised
        except Exception as raised:
            law("errors", isinstance(raised, Interrupted), f"{name} raised {raised!r}")
            self._check_bound(name, started)
            raise
        result = box[0]
        self._check_bound(name, started)
        if refusal is not None:
            law("order", isinstance(error, refusal), f"{name} must raise {refusal}, got {error or result!r}")
            self.setting.tally["refusals"] += 1
        self.setting.tally["calls"] += 1
        return result, error

    def _check_bound(self, name: str, started: float) -> None:
        took = time.monotonic() - started
        law("bound", took < self.setting.bound, f"{name} took {took:.2f} s, allowed are {self.setting.bound} s")

    def _keep(self, *arrays: np.ndarray) -> None:
        self.kept = [*self.kept[-20:], *((array, array.copy()) for array in arrays)]


def agree(wanted: Sequence[float], found: Any) -> bool:
    """Whether the numbers are equal, NaN in `wanted` meaning unknown."""
    return len(wanted) == len(found) and all(a != a or a == b for a, b in zip(wanted, found, strict=True))
