"""`gymnasium.vector.AsyncVectorEnv` on the process engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.async_vector_env import AsyncState
from gymnasium.vector.async_vector_env import AsyncVectorEnv as GymnasiumAsyncVectorEnv

from vecenv._batch.batch import Rows
from vecenv._batch.layout import is_custom
from vecenv._front.autoreset import parse_mode
from vecenv._make.decorate import decorate
from vecenv._util.cpus import usable_cpus
from vecenv.engines.process.options import Process
from vecenv.errors import ConfigError, EngineRefused, EnvError, NothingPendingError, PendingError, WorkerTimeout
from vecenv.gymnasium._face import GymnasiumFace, named

if TYPE_CHECKING:
    from vecenv.engines.process.engine import ProcessEngine

_CLOSE_SECONDS = 5.0


class AsyncVectorEnv(GymnasiumFace, gymnasium.vector.VectorEnv):  # pyright: ignore[reportIncompatibleMethodOverride]  # np_random
    """Envs in worker processes, several per worker, with observations in shared memory.

    Args:
        env_fns: functions that create the environments.
        shared_memory: accepted for compatibility: observations of a fixed size are always in shared memory. As in
            Gymnasium, True refuses custom spaces.
        copy: whether observations are copied, or views of shared memory.
        context: start method; None: "forkserver" where available.
        daemon: accepted for compatibility: workers never outlive this process and may have children.
        worker: a worker function of Gymnasium's pipe protocol; Gymnasium's own AsyncVectorEnv is returned then.
        observation_mode: "same", "different" or a pair of (batched space, single space).
        autoreset_mode: what happens when an episode ends.
        max_concurrency: how many envs may run at a time: the number of workers.
        workers: number of worker processes; default: the number of processors.
        check_finite: as in `vecenv.make`; Gymnasium has no such check.
    """

    def __new__(cls, *args: Any, worker: Any = None, **kwargs: Any) -> Any:
        """Return Gymnasium's own class if a custom worker is given, because only that can run it."""
        worker = args[5] if len(args) > 5 else worker
        if worker is None:
            return super().__new__(cls)
        for ours in ("workers", "check_finite"):
            kwargs.pop(ours, None)
        if len(args) <= 5:
            kwargs["worker"] = worker
        return GymnasiumAsyncVectorEnv(*args, **kwargs)

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]],
        shared_memory: bool = True,
        copy: bool = True,
        context: str | None = None,
        daemon: bool = True,
        worker: None = None,
        observation_mode: Any = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_concurrency: int | None = None,
        *,
        workers: int | None = None,
        check_finite: Any = "off",
    ) -> None:
        if (unfit := Process.unavailable()) is not None:
            raise EngineRefused(f"AsyncVectorEnv cannot run here: {unfit}; use SyncVectorEnv")
        from vecenv.engines.process.engine import ProcessEngine

        self.env_fns = list(env_fns)
        self.shared_memory = shared_memory
        self.context = context
        self.daemon = daemon
        self.worker = worker
        self.observation_mode = observation_mode
        self.max_concurrency = _check_concurrency(max_concurrency)
        count = workers or self.max_concurrency or usable_cpus()
        mode = parse_mode(autoreset_mode)
        with named(type(self).__name__):
            engine = ProcessEngine(
                self.env_fns,
                workers=min(count, len(self.env_fns)),
                context=context,
                observation_mode=observation_mode,
            )
        if shared_memory and is_custom(engine.facts.single_observation_space):
            engine.close()
            raise ConfigError(
                "Using `AsyncVector(..., shared_memory=True)` caused an error, you can disable this feature with "
                "`shared_memory=False` however this is slower."
            )
        decorated = decorate(engine, mode, check_finite)
        super().__init__(decorated, autoreset=mode, copy=copy, engine_reason="AsyncVectorEnv")
        self.engine: ProcessEngine
        self._waiting_call = False

    @property
    def processes(self) -> list[Any]:
        """The worker processes."""
        return self.engine.processes

    @property
    def observations(self) -> Any:
        """The observations in shared memory. Not a copy."""
        return self._batch.observation_layout.batched(self._batch.obs)

    @property
    def _state(self) -> AsyncState:
        if self._waiting_call:
            return AsyncState.WAITING_CALL
        return AsyncState(self._call_order.pending_call) if self._call_order.pending_count else AsyncState.DEFAULT

    def reset_async(self, seed: Any = None, options: Any = None) -> None:
        """Start a reset; `reset_wait` returns its results."""
        self._start_reset(seed, options)

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Results of `reset_async`.

        Raises:
            TimeoutError: nothing is lost; call it again to continue waiting.
        """
        self._check_waiting(AsyncState.WAITING_RESET)
        return self._run("reset_wait", self._receive_results, None, timeout, self._results.of_reset)

    def step_async(self, actions: Any) -> None:
        """Start a step; `step_wait` returns its results."""
        self._run("step_async", self._send_step, actions, None, "step_async")

    def step_wait(self, timeout: float | None = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Results of `step_async`.

        Raises:
            TimeoutError: nothing is lost; call it again to continue waiting.
        """
        self._check_waiting(AsyncState.WAITING_STEP)
        return tuple(self._run("step_wait", self._receive_results, None, timeout, self._results.step))  # type: ignore[return-value]  # a Step is these five

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Start a call; `call_wait` returns its results."""
        self._check_name(name)
        self._run("call_async", self._start_call, name, args, kwargs)

    def _start_call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._check_no_call("call_async")
        self._call_order.check_idle("call_async")
        self.engine.begin_call(name, args, kwargs)
        self._waiting_call = True

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Results of `call_async`, one per env.

        Raises:
            TimeoutError: nothing is lost; call it again to continue waiting.
        """
        self._check_waiting(AsyncState.WAITING_CALL)
        try:
            results = self._run("call_wait", self.engine.finish_call, timeout)
        except EnvError as error:
            self._waiting_call = isinstance(error, WorkerTimeout)
            raise
        self._waiting_call = False
        return tuple(results)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, or read an attribute."""
        self.call_async(name, *args, **kwargs)
        try:
            return self.call_wait(self.timeout)
        finally:
            self._waiting_call = False

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has one value per env, anything else is for all."""
        self._check_no_call("set_attr")
        super().set_attr(name, values)

    def close_extras(self, timeout: float | None = None, terminate: bool = False, **kwargs: Any) -> None:
        """End the workers; at once if `terminate`, else within `timeout` seconds (default 5)."""
        self.engine.close(0.0 if terminate else _CLOSE_SECONDS if timeout is None else timeout)
        if self._state is not AsyncState.DEFAULT:
            gymnasium.logger.warn(
                f"Calling `close` while waiting for a pending call to `{self._state.value}` to complete."
            )

    def close(self, timeout: float | None = None, terminate: bool = False, **kwargs: Any) -> None:
        """Close the envs and end the workers. May be called twice, during a step, or after a failure."""
        super().close(timeout=_CLOSE_SECONDS if timeout is None else timeout, terminate=terminate, **kwargs)

    def _send_reset(self, seed: Any, options: Any) -> None:
        self._check_no_call("reset_async")
        super()._send_reset(seed, options)

    def _send_step(self, actions: Any, rows: Rows | None, call: str) -> None:
        self._check_no_call(call)
        super()._send_step(actions, rows, call)

    def _receive(self, count: int, timeout: float | None, most: int | None = None, until: float | None = None) -> Rows:
        try:
            return super()._receive(count, timeout, most, until)
        except WorkerTimeout:
            raise
        except EnvError:
            gymnasium.logger.error("Raising the last exception back to the main process.")
            raise

    def _report(self, error: EnvError) -> None:
        gymnasium.logger.error(f"Received the following error from Worker-{error.row} - Shutting it down")
        gymnasium.logger.error(error.remote_traceback.replace("%", "%%"))  # Gymnasium's logger formats with %

    def _check_no_call(self, name: str) -> None:
        if self._waiting_call:
            raise PendingError(
                f"Calling `{name}` while waiting for a pending call to `call` to complete.",
                AsyncState.WAITING_CALL.value,
            )

    def _check_waiting(self, state: AsyncState) -> None:
        self._call_order.check_open(f"{state.value}_wait")
        if self._state is not state:
            raise NothingPendingError(
                f"Calling `{state.value}_wait` without any prior call to `{state.value}_async`.", state.value
            )


def _check_concurrency(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, (int, np.integer)):
        raise ConfigError(f"`max_concurrency` must be an integer or None, got {type(value)}.")
    if value < 1:
        raise ConfigError(f"`max_concurrency` must be a positive or None, got {value}.")
    return int(value)
