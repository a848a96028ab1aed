"""The op of one row, with every call of its env awaited. What `RowRunner` does for a block of rows that run in turn."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.batch import Batch, Mail, Op
from vecenv._batch.clocks import BUCKETS, Clocks
from vecenv._batch.faults import Fault, OnError
from vecenv._batch.own import own, own_info
from vecenv._batch.seeding import NO_SEED
from vecenv._batch.starts import WATCHED, Starts
from vecenv._util.text import type_name
from vecenv.engines.aio.building import Built, Raised, build_env, close_env
from vecenv.engines.aio.deadlines import Deadlines
from vecenv.engines.aio.faults import Classify, Restarts
from vecenv.engines.aio.homes import Home
from vecenv.engines.aio.limits import Limits
from vecenv.engines.python.calls import BOOLS, as_number, checked_info, copied_info, wrong_flags, wrong_result
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.factories import Renewal
from vecenv.engines.python.restarts import end_episode, report_restart, seed_restart
from vecenv.errors import EnvTimeout, Phase, RestartLimit, SpaceError

_RESET, _STEP, _ROLL = int(Op.RESET), int(Op.STEP), int(Op.ROLL)
_NOTHING = object()
_clock = time.perf_counter_ns


class AwaitedRows:
    """Runs ops on envs whose calls are awaited, many rows at once. All methods are called in the event loop.

    Args:
        batch: the columns of all rows, with mailboxes that only the event loop uses.
        factories: of the envs.
        envs, homes: the envs, and where each of them runs.
        loop: the event loop.
        building: limits on building envs again.
        origin: index of the first row among all envs, for names and seeds.
        on_error: "raise" leaves a failed env alone until it is reset; "restart" builds it again.
        classify: the user's classes of faults.
        seconds: that a call may take, by its phase; None for ever.
    """

    def __init__(
        self,
        batch: Batch,
        factories: Sequence[Factory],
        envs: list[gymnasium.Env[Any, Any]],
        homes: list[Home],
        loop: asyncio.AbstractEventLoop,
        *,
        building: Limits,
        origin: int,
        on_error: OnError,
        classify: Classify | None,
        seconds: dict[str, float | None],
    ) -> None:
        self.batch, self.envs, self.homes = batch, envs, homes
        self.clocks = Clocks.allocate(len(envs))
        self.rebuilding: dict[int, asyncio.Task[None]] = {}
        """Envs that are being built again since their last op."""
        self._factories = factories
        self._loop = loop
        self._building = building
        self._origin = origin
        self._on_error = on_error
        self._restarts = Restarts(classify)
        self._start_seconds = seconds["make"]
        self._deadlines = {
            phase: Deadlines(loop, limit) for phase, limit in seconds.items() if phase != "make" and limit is not None
        }
        """Of the calls of envs, by phase."""
        self._built_with: dict[int, dict[str, Any]] = {}
        """Constructor arguments of rows that were built again because reset options had other ones."""
        self.retired: set[int] = set()
        """Rows whose env is closed, or will be, and was not replaced yet."""
        self._ops_run = np.zeros(len(envs), np.int64)
        self._keeps = on_error == "restart"
        """Whether what a refused step has stored must be undone."""
        self._write_obs = batch.observation_layout.writer(batch.obs)
        self._write_final = batch.observation_layout.writer(batch.final_obs)
        self._read_actions = batch.action_layout.read_many(batch.actions)
        self._starts = Starts(batch.start_kind, batch.start)

    async def run(self, row: int) -> Mail | None:
        """Run `batch.op[row]`; afterwards every column is written. Returns the row's mail."""
        batch, op, started = self.batch, int(self.batch.op[row]), _clock()
        if batch.terminated[row] or batch.truncated[row]:
            batch.episode_return[row], batch.episode_length[row] = 0.0, 0
            batch.terminated[row] = batch.truncated[row] = batch.done[row] = False
        self._ops_run[row] += 1
        ended = False
        action = _NOTHING
        try:
            if op == _RESET:
                await self._begin(row)
            else:
                action = self._action(row)
                ended = self._note_step(row, await self._call(row, "step", _step, self.envs[row], action))
                self._restarts.good(row)
                if ended and op == _ROLL:
                    await self._begin_next(row)
        except Raised as raised:
            doing: Phase = "reset" if op == _RESET or ended else "step"
            phase = doing if raised.phase is None else raised.phase
            fault = self._fault(row, raised.error, phase, action, started)
            await self._failed(row, op, fault, ended)
        self._time(row, _clock() - started)
        return batch.mail.pop(row, None)

    async def call(self, row: int, function: Any, *args: Any) -> Any:
        """Call `function(env, *args)` where the env runs; a Fault stands for a failed call."""
        try:
            await self._rebuilt(row)
            if self.homes[row].is_busy:
                raise Raised(TimeoutError("its last call was given up and still runs; reset() builds the env again"))
            return await self._call(row, "call", function, self.envs[row], *args)
        except Raised as raised:
            return Fault.of(raised.error, "call", seed=int(self.batch.last_seed[row]))

    # --- calls of envs -----------------------------------------------------------------------------------------------

    async def _call(self, row: int, phase: Phase, function: Any, *args: Any) -> Any:
        """What an env's call returns.

        Raises:
            Raised: what it raised, or EnvTimeout if its time was up; then it is cancelled.
        """
        home, deadlines = self.homes[row], self._deadlines.get(phase)
        work = home.start(function, *args)
        if deadlines is None:
            result, error = await work
        else:
            await deadlines.wait(work)
            if not work.done():
                work.cancel()
                for _ in range(3):  # in which most coroutines end
                    if home.is_busy:
                        await asyncio.sleep(0)
                raise Raised(self._late(row, phase, deadlines.seconds))
            result, error = work.result()
        if error is not None:
            raise Raised(error)
        return result

    def _late(self, row: int, phase: Phase, seconds: float) -> EnvTimeout:
        option = "start" if phase == "make" else phase
        advice = f"{option}_timeout= gives it longer, on_error='restart' builds it again, reset() goes on with it"
        error = EnvTimeout(
            f"env {row} was not done with its {phase} within {seconds:g} s and was cancelled; {advice}",
            row=row,
            phase=phase,
            seed=None if self.batch.last_seed[row] == NO_SEED else int(self.batch.last_seed[row]),
        )
        error._advice, error.elapsed = advice, seconds
        return error

    async def _reset(self, row: int) -> tuple[Any, Any]:
        """Begin an episode with the row's seed and options; what `reset` returned, unchecked but for its form."""
        batch = self.batch
        options = batch.options.pop(row, None) if batch.options else None
        try:
            await self._rebuilt(row)
            if row in self.retired or self.homes[row].is_busy:  # its last call goes on though it was cancelled
                await self._rebuild(row, self._factories[row])
            plain = await self._renew(row, options) if type(options) is Renewal else options
            seed = int(batch.seed[row])
            if batch.start_kind[row]:
                self._starts.note(row, self.envs[row], seed, plain)
            given: dict[str, Any] = {} if plain is None else {"options": plain}
            if seed != NO_SEED:
                batch.last_seed[row], batch.seed[row] = seed, NO_SEED
                given = {"seed": seed, "options": plain}
            result = await self._call(row, "reset", _reset, self.envs[row], given)
            if type(result) is not tuple or len(result) != 2:
                raise Raised(SpaceError(f"reset() must return (observation, info), got {type_name(result)}"))
        except Raised:
            if options is not None and self._on_error == "restart":
                batch.options[row] = options  # the episode is to begin all the same
            raise
        return result

    # --- results -----------------------------------------------------------------------------------------------------

    def _action(self, row: int) -> Any:
        if row in self.batch.raw_actions:
            return self.batch.raw_actions.pop(row)
        (action,) = self._read_actions(slice(row, row + 1), 1)
        return action

    async def _begin(self, row: int) -> None:
        batch = self.batch
        obs, info = await self._reset(row)
        self._write(row, own(obs), 0.0)
        info = self._checked(row, checked_info, own_info(info))
        if info:
            batch.mail[row] = Mail(info)
        self._note_begin(row)

    def _note_begin(self, row: int) -> None:
        batch = self.batch
        batch.reward[row], batch.episode_return[row], batch.episode_length[row], batch.done[row] = 0.0, 0.0, 0, False

    def _note_step(self, row: int, result: Any) -> bool:
        """Write what a step returned; whether it ended an episode."""
        batch = self.batch
        try:
            obs, reward, terminated, truncated, info = result
        except BaseException:
            raise Raised(SpaceError(wrong_result(result))) from None
        obs = own(obs)
        kept = [np.copy(column[row]) if column.dtype != object else column[row] for column in batch.obs] if (
            self._keeps
        ) else []  # fmt: skip
        try:
            self._write(row, obs, reward)
            if type(terminated) not in BOOLS or type(truncated) not in BOOLS:
                raise Raised(SpaceError(wrong_flags(terminated, truncated)))
            info = self._checked(row, checked_info, own_info(info))
            ended = bool(terminated or truncated)
            rolls = ended and batch.op[row] == _ROLL
            if rolls:
                self._checked(row, self._write_final, row, obs)
        except Raised:
            for column, before in zip(batch.obs, kept, strict=False):
                column[row] = before
            raise
        if rolls:
            batch.mail[row] = Mail({}, final_info=copied_info(info))
        elif info:
            batch.mail[row] = Mail(info)
        batch.terminated[row], batch.truncated[row], batch.done[row] = terminated, truncated, ended and not rolls
        batch.episode_return[row] += batch.reward[row]
        batch.episode_length[row] += 1
        return ended

    async def _begin_next(self, row: int) -> None:
        """After a ROLL that ended an episode."""
        obs, info = await self._reset(row)
        self._checked(row, self._write_obs, row, own(obs))
        self.batch.mail[row].info = self._checked(row, checked_info, own_info(info))

    def _write(self, row: int, obs: Any, reward: Any) -> None:
        self.batch.reward[row] = reward if type(reward) is float else self._checked(row, as_number, reward)
        self._checked(row, self._write_obs, row, obs)

    def _checked(self, row: int, function: Any, *args: Any) -> Any:
        """What the function makes of values of an env; what does not fit is a failure of the env."""
        try:
            return function(*args)
        except BaseException as error:  # objects of an env's own can raise anything when they are read
            raise Raised(error) from None

    # --- failures ----------------------------------------------------------------------------------------------------

    def _fault(self, row: int, error: BaseException, phase: Phase, action: Any, started: int) -> Fault:
        action = None if phase == "reset" or action is _NOTHING else action
        fault = Fault.of(error, phase, action, int(self.batch.last_seed[row]), elapsed=(_clock() - started) / 1e9)
        if type(error) is EnvTimeout:  # not by `isinstance`, which asks the object itself
            error.action = action
            fault = replace(fault, kind="timeout", error=error, traceback="")
        return self._restarts.classified(fault)

    async def _failed(self, row: int, op: int, fault: Fault, ended: bool) -> None:
        """Report the fault, or build the env again and end its episode, as `on_error` and the fault's class say.

        `ended`: the step had ended an episode, and the next one could not begin.
        """
        batch = self.batch
        mail = batch.mail.pop(row, None)
        final_info = mail.final_info if ended and mail is not None else {}
        while True:
            batch.mail[row] = Mail(fault=fault)
            if self._on_error == "raise" or fault.fault_class == "terminal":
                return
            if batch.start_kind[row]:
                noted = tuple(batch.start[row].tolist()) if batch.start_kind[row] > WATCHED else None
                fault = replace(fault, start=noted)
            try:
                pause = self._restarts.pause(row, fault, int(self._ops_run[row]))
            except RestartLimit as error:
                batch.mail[row] = Mail(fault=replace(fault, error=error))
                return
            batch.restarts[row] += 1
            if op == _STEP:  # its result does not wait until the env is built again
                seed_restart(batch, row, self._origin + row)
                end_episode(batch, row)
                report_restart(batch, row, self._origin + row, fault, {})
                task = self.rebuilding[row] = asyncio.ensure_future(self._rebuild(row, self._factories[row], pause))
                task.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio complains of it
                return
            try:
                info = await self._restart(row, ended, pause)
            except Raised as raised:
                fault = self._fault(row, raised.error, raised.phase or "reset", _NOTHING, _clock())
                continue
            report_restart(batch, row, self._origin + row, fault, info, final_info, ended)
            if op == _RESET:
                self._note_begin(row)
            return

    async def _restart(self, row: int, ended: bool, pause: float) -> dict[str, Any]:
        """Build an env again and begin its next episode; the info of that."""
        batch = self.batch
        await self._rebuild(row, self._factories[row], pause)
        seed_restart(batch, row, self._origin + row)
        if not ended:
            end_episode(batch, row)
        obs, info = await self._reset(row)
        self._checked(row, self._write_obs, row, own(obs))
        return self._checked(row, checked_info, own_info(info))

    # --- building envs again -----------------------------------------------------------------------------------------

    async def _rebuilt(self, row: int) -> None:
        """Wait until the env is there, if it is being built again. Raises what that raises."""
        if (task := self.rebuilding.pop(row, None)) is not None:
            await task

    async def _rebuild(self, row: int, factory: Factory, pause: float = 0.0) -> None:
        """Close a row's env and build another."""
        self._retire(row)
        if pause:
            await asyncio.sleep(pause)
        self._install(row, *await self._build(factory, row))
        self._built_with.pop(row, None)

    async def _renew(self, row: int, wanted: Renewal) -> dict[str, Any] | None:
        """Build the row's env again unless it was built with these arguments; the options that its reset gets."""
        if wanted.is_met_by(self._built_with.get(row, {})):
            return wanted.options
        env, home = await self._build(wanted.factory(self._factories[row]), row)
        if not self._checked(row, wanted.fits, env, self.envs[row]):
            home.leave(functools.partial(close_env, env))
            raise Raised(wanted.misfit())
        self._retire(row)
        self._install(row, env, home)
        self._built_with[row] = wanted.kwargs
        return wanted.options

    async def _build(self, factory: Factory, row: int) -> Built:
        """Build an env, as soon as the limits allow. Time in the queue does not count."""
        async with self._building.turn():
            try:
                return await asyncio.wait_for(build_env(self._loop, factory, row), self._start_seconds)
            except TimeoutError:
                raise Raised(self._late(row, "make", self._start_seconds or 0.0), "make") from None
            except Raised as raised:
                raise Raised(raised.error, "make") from None

    def _retire(self, row: int) -> None:
        """Close an env that is replaced, where it ran and when its last call has ended, without waiting for it."""
        if row not in self.retired:
            self.retired.add(row)
            self.homes[row].leave(functools.partial(close_env, self.envs[row]))

    def _install(self, row: int, env: gymnasium.Env[Any, Any], home: Home) -> None:
        self.envs[row], self.homes[row] = env, home
        self.retired.discard(row)

    def _time(self, row: int, spent: int) -> None:
        clocks = self.clocks
        clocks.busy[0] += spent
        clocks.rows_run[0] += 1
        clocks.histogram[row, min(spent.bit_length(), BUCKETS - 1)] += 1
        clocks.total[row] += spent


def _step(env: Any, action: Any) -> Any:
    return env.step(action)


def _reset(env: Any, given: dict[str, Any]) -> Any:
    return env.reset(**given)
