"""`gym.vector`'s vector envs, on vecenv's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import gymnasium
from gymnasium import Space

from vecenv._batch.seeding import spread
from vecenv._front.faces import check_given_spaces, transition_dicts
from vecenv._front.step import Step
from vecenv._make.make import make
from vecenv.errors import ConfigError, NothingPendingError, PendingError, UnsupportedError, WorkerTimeout
from vecenv.gym._infos import flat_arrays, with_final

if TYPE_CHECKING:
    from vecenv.engines.process.engine import ProcessEngine
    from vecenv.engines.python.sync import SyncEngine

StepTuple = Literal[4, 5]
Infos = Literal["tuple", "list", "dict"]
Call = Literal["reset", "step", "call"]
Seeds = int | Sequence[int | None] | None
_EnvFns = Iterable[Callable[[], gymnasium.Env[Any, Any]]]
_Dicts = list[dict[str, Any]]
_CLOSE_SECONDS = 5.0


class VectorEnv(gymnasium.vector.VectorEnv):
    """Base class of both vector envs of `gym.vector`.

    When an episode ends, the next one begins in the same step: `obs` is then its first observation. With
    `infos="tuple"` or `"list"`, `infos[i]` is env i's info of the step, with "terminal_observation" and
    "TimeLimit.truncated" where its episode ended. With `infos="dict"`, `infos["final_observation"]` and
    `infos["final_info"]` are object arrays with the last results of the ended episode (None elsewhere; the bool masks
    have the same names with "_" in front), and the other infos are those of the reset.

    With `step_tuple=4` a step is (obs, rewards, dones, infos); "TimeLimit.truncated" in infos marks truncation.

    Attributes:
        step_tuple, infos: see `vecenv.gym.make`. Those of the class hold where none are given.
    """

    step_tuple: StepTuple = 4
    infos: Infos = "tuple"

    is_vector_env = True
    reward_range = (-math.inf, math.inf)

    def __init__(
        self,
        env_fns: _EnvFns,
        spaces: tuple[Any, Any],
        *,
        step_tuple: StepTuple | None,
        infos: Infos | None,
        **options: Any,
    ) -> None:
        if step_tuple not in (None, 4, 5):
            raise ConfigError(f"step_tuple must be 4 or 5, got {step_tuple!r}")
        if infos not in (None, "tuple", "list", "dict"):
            raise ConfigError(f"infos must be 'tuple', 'list' or 'dict', got {infos!r}")
        self.env_fns = list(env_fns)
        self._front = front = make(self.env_fns, autoreset="same-step", **options)
        check_given_spaces(front, *spaces)
        self.step_tuple = self.step_tuple if step_tuple is None else step_tuple
        self.infos = self.infos if infos is None else infos
        self.num_envs = front.num_envs
        self.single_observation_space, self.observation_space = front.single_observation_space, front.observation_space
        self.single_action_space, self.action_space = front.single_action_space, front.action_space
        self.metadata, self.render_mode, self.copy = front.metadata, front.render_mode, front.copy
        self._pending: Call | None = None
        self._call: tuple[str, tuple[Any, ...], dict[str, Any]] = ("", (), {})
        self._seeds: Seeds = None

    def reset(
        self, *, seed: Seeds = None, return_info: bool | None = None, options: dict[str, Any] | None = None
    ) -> Any:
        """Begin a new episode in every env.

        Args:
            seed: None; an int, which gives env i the seed `seed + i`; or one int or None per env.
            return_info: True returns (obs, infos), False only obs; None is True if a step has five values.
            options: passed to the reset of every env.
        """
        self.reset_async(seed, return_info, options)
        return self.reset_wait(seed=seed, return_info=return_info, options=options)

    def reset_async(self, seed: Seeds = None, return_info: bool | None = None, options: Any = None) -> None:
        """Start a reset; `reset_wait` returns its results. See `reset` for the arguments."""
        self._check_no_call("reset_async")
        per_env = None if options is None else [options] * self.num_envs
        self._front._start_reset(self._seeds if seed is None else seed, per_env)
        self._seeds = None
        self._pending = "reset"

    def reset_wait(
        self, timeout: float | None = None, seed: Any = None, return_info: bool | None = None, options: Any = None
    ) -> Any:
        """Results of `reset_async`: obs, or (obs, infos). `seed` and `options` were used when it started.

        Raises:
            TimeoutError: nothing is lost; call it again to continue waiting.
        """
        step, infos, _ = self._receive("reset", timeout)
        if return_info is None:
            return_info = self.step_tuple == 5
        return (step.obs, self._in_form(infos)) if return_info else step.obs

    def seed(self, seed: Seeds = None) -> list[int | None]:
        """Set the seeds of the next reset, unless that has its own; returns one seed per env.

        Running episodes are not affected: Gymnasium's envs are seeded by their reset.
        """
        seeds = spread(seed, self.num_envs)
        self._seeds = seed
        return [None if number < 0 else number for number in seeds.tolist()]

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Step all envs and return four or five values, as `step_tuple` says."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Start a step; `step_wait` returns its results."""
        self._check_no_call("step_async")
        self._front.send(actions)
        self._pending = "step"

    def step_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Results of `step_async`.

        Raises:
            TimeoutError: nothing is lost; call it again to continue waiting.
        """
        step, infos, final_infos = self._receive("step", timeout)
        rendered = self._render_infos(step, infos, final_infos)
        if self.step_tuple == 4:
            return step.obs, step.reward, step.done, rendered
        return step.obs, step.reward, step.terminated, step.truncated, rendered

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, or read an attribute."""
        self.call_async(name, *args, **kwargs)
        return self.call_wait()

    def call_async(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Prepare a call; it is made by `call_wait`."""
        if self._pending is not None:
            raise _pending_error("call_async", self._pending)
        self._call = (name, args, kwargs)
        self._pending = "call"

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Make the call of `call_async` and return one result per env."""
        self._check_pending("call")
        self._pending = None
        name, args, kwargs = self._call
        usual, self._front.timeout = self._front.timeout, timeout
        try:
            return self._front.call(name, *args, **kwargs)
        finally:
            self._front.timeout = usual

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env; one that is a function is called."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has one value per env, anything else is for all."""
        self._check_no_call("set_attr")
        self._front.set_attr(name, values)

    def render(self) -> tuple[Any, ...]:
        """One frame per env."""
        return self.call("render")

    def close_extras(self, timeout: float | None = None, terminate: bool = False, **kwargs: Any) -> None:
        """Close the envs within `timeout` seconds (default 5), or at once if `terminate`. Called once, by `close`."""
        self._front.close(0.0 if terminate else _CLOSE_SECONDS if timeout is None else timeout)

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Nothing to do: the vector env inside closes itself."""

    def _render_infos(self, step: Step, infos: _Dicts, final_infos: _Dicts) -> Any:
        if self.infos != "dict":
            return self._in_form(transition_dicts(step, infos, final_infos))
        rendered = flat_arrays(with_final(step, infos, final_infos))
        if self.step_tuple == 4 and step.rolled.any():
            rendered["TimeLimit.truncated"] = step.truncated & ~step.terminated
            rendered["_TimeLimit.truncated"] = step.rolled
        return rendered

    def _in_form(self, infos: _Dicts) -> Any:
        return flat_arrays(infos) if self.infos == "dict" else tuple(infos) if self.infos == "tuple" else infos

    def _receive(self, call: Call, timeout: float | None) -> tuple[Step, _Dicts, _Dicts]:
        self._check_pending(call)
        self._pending = None
        try:
            return self._front._recv_dicts(timeout)
        except WorkerTimeout:
            self._pending = call
            raise

    def _check_pending(self, call: Call) -> None:
        if self._pending != call and not self.closed:
            raise NothingPendingError(f"Calling `{call}_wait` without any prior call to `{call}_async`.", call)

    def _check_no_call(self, call: str) -> None:
        """Check that no call was prepared: the front knows only about pending steps and resets."""
        if self._pending == "call":
            raise _pending_error(call, "call")


class SyncVectorEnv(VectorEnv, gymnasium.vector.VectorEnv):
    """All envs in this process.

    Args:
        env_fns: functions that create the environments.
        observation_space, action_space: of a single env; None: as the envs have them. Different ones are an error.
        copy: False returns views that the next step overwrites.
        step_tuple, infos, check_finite: see `vecenv.gym.make`.
    """

    def __init__(
        self,
        env_fns: _EnvFns,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        copy: bool = True,
        *,
        step_tuple: StepTuple | None = None,
        infos: Infos | None = None,
        check_finite: Any = "off",
    ) -> None:
        spaces = (observation_space, action_space)
        options: Any = {"engine": "sync", "copy": copy, "check_finite": check_finite}
        super().__init__(env_fns, spaces, step_tuple=step_tuple, infos=infos, **options)
        self.envs = cast("SyncEngine", self._front.engine).envs


class AsyncVectorEnv(VectorEnv, gymnasium.vector.VectorEnv):
    """Envs in worker processes, several per worker.

    Args:
        env_fns: functions that create the environments.
        observation_space, action_space: of a single env; None: as the envs have them. Different ones are an error.
        shared_memory: accepted for compatibility: observations of a fixed size are always in shared memory.
        copy: False returns views that the next step overwrites.
        context: start method; None: "forkserver" where available.
        daemon: accepted for compatibility: workers never outlive this process and may have children.
        worker: not supported: vecenv does not use gym's pipes.
        step_tuple, infos, check_finite: see `vecenv.gym.make`.

    Raises:
        UnsupportedError: a `worker` was given.
    """

    def __init__(
        self,
        env_fns: _EnvFns,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        shared_memory: bool = True,
        copy: bool = True,
        context: Any = None,
        daemon: bool = True,
        worker: None = None,
        *,
        step_tuple: StepTuple | None = None,
        infos: Infos | None = None,
        check_finite: Any = "off",
    ) -> None:
        if worker is not None:
            raise UnsupportedError(
                f"worker={worker!r}: custom workers need gym's protocol of one pipe per env, not used here; put its "
                "behaviour into a wrapper around each env"
            )
        spaces = (observation_space, action_space)
        options: Any = {"engine": "process", "copy": copy, "context": context, "check_finite": check_finite}
        super().__init__(env_fns, spaces, step_tuple=step_tuple, infos=infos, **options)
        self.shared_memory = shared_memory

    @property
    def processes(self) -> list[Any]:
        """The worker processes."""
        return cast("ProcessEngine", self._front.engine).processes


def _pending_error(call: str, pending: str) -> PendingError:
    return PendingError(f"Calling `{call}` while waiting for a pending call to `{pending}` to complete.", pending)
