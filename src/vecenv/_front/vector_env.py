"""The front: a gymnasium.vector.VectorEnv over any engine. Every policy decision is made here."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch.random_state import CLONES, POLICIES, fresh_words
from vecenv._batch.seeding import Seeding, one_seed
from vecenv._front.awaiting import Awaiting
from vecenv._front.explain import Explanation, explain
from vecenv._front.rollout import Rollout, Snapshot, pack_time, rollout_of
from vecenv._front.stats import Stats, gather
from vecenv._front.step import Step
from vecenv._front.xla import xla
from vecenv._util.checks import positive_int
from vecenv.engines import (
    Engine,
    SupportsCall,
    SupportsClocks,
    SupportsDraw,
    SupportsRecording,
    SupportsRollout,
    SupportsStates,
    SupportsWake,
    registry,
)
from vecenv.engines.decorator import decorations
from vecenv.errors import ConfigError, ConfigTypeError, EnvError, InvalidAction, SpaceError, UnsupportedError
from vecenv.kernel.language.params import common_value

if TYPE_CHECKING:
    from vecenv.engines.recording.recording import Recording

T = TypeVar("T")
_NOT_CALLABLE = frozenset({"reset", "step", "close", "_setattr", "_check_spaces"})


class VectorEnv(Awaiting, gymnasium.vector.VectorEnv):
    """Many environments as one.

    Use `vecenv.make` to build one. `step` and `reset` are Gymnasium's; `send` and `recv` work with the envs that are
    ready.

    Args:
        engine: that runs the envs, with any decorators around it (`vecenv.engines.decorator`).

    Attributes:
        engine: that runs the envs, without its decorators.
        engine_reason: why this engine was chosen.
        autoreset_mode: Gymnasium's enum, also in `metadata["autoreset_mode"]`.
        batch_size: how many envs `recv` waits for by default.
        shared_params: names of a kernel's parameters that have one value for all envs.
    """

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
        shared_params: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(engine, autoreset, batch_size, copy, seeding, timeout)
        facts = engine.facts
        self.engine_reason = engine_reason
        self.shared_params = shared_params
        self._xla: Any = None
        self.single_observation_space = facts.single_observation_space
        self.observation_space = facts.observation_space
        self.single_action_space = facts.single_action_space
        self.action_space = facts.action_space
        self.render_mode = facts.render_mode
        self.metadata = {**facts.metadata, "autoreset_mode": autoreset}

    # --- Gymnasium's calls -------------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | np.ndarray | None = None,
        options: dict[str, Any] | Sequence[dict[str, Any] | None] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes, of all envs or of those in `options["reset_mask"]`.

        Args:
            seed: None; an int, from which every env gets a seed of its own; or one int or None per env.
            options: one dict for all envs, or one per env. The key "reset_mask", a bool array, is for the vector env
                itself. The caller's dict is never changed.

        Returns:
            Observations of all envs (those not reset: their current ones) and infos of the envs that were reset.
        """
        return self._run("reset", self._reset, seed, options)

    def _reset(self, seed: Any, options: Any) -> tuple[Any, dict[str, Any]]:
        self._send_reset(seed, options)
        self._receive(self._call_order.pending_count, self.timeout)
        return self._results.of_reset(self._undelivered)

    def step(self, actions: Any, env_ids: Any = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs, or those of `env_ids` alone; then position k of every result belongs to `env_ids[k]`.

        Raises:
            InvalidAction: before anything is sent; nothing has changed.
            EnvError: an env failed. The results of the others wait for `recv()`; `reset()` discards them.
        """
        if env_ids is None and self._whole_step is not None and (self.timeout is None or not self._may_time_out):
            return self._whole_step(self, actions)
        return self._run("step", self._step_by_rows, actions, env_ids)

    def _step_by_rows(
        self, actions: Any, env_ids: Any
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        rows = self._send_whole_step(actions, env_ids)
        self._receive(self._call_order.pending_count, self.timeout)
        return self._results.as_gymnasium(rows)

    def render(self, env_ids: Any = None) -> tuple[Any, ...] | None:
        """One frame per env, or per env of `env_ids`.

        Raises:
            ConfigError: there is no render_mode, or nothing can be drawn on this machine.
            UnsupportedError: the engine can only draw all envs.
        """
        if self.render_mode is None:
            raise ConfigError("these envs have no render_mode; make them with render_mode='rgb_array'")
        if env_ids is None:
            return self.call("render")
        engine = self.engine
        if not isinstance(engine, SupportsDraw):
            raise UnsupportedError(f"the {engine.name} engine draws all envs or none; call render() without env_ids")
        rows = self._call_order.parse_rows(env_ids)
        return self._run("render", self._when_idle, "render", lambda: tuple(engine.draw(rows)))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, or read an attribute. Found on the env or on any wrapper around it."""
        self._check_name(name)
        return self._run("call", lambda: tuple(self._reachable("call").call(name, args, kwargs, self.timeout)))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env. As in Gymnasium, one that is a function is called."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has one value per env, anything else is for all.

        A parameter of a kernel holds from the next episode of each env on, one that all envs share at once.
        """
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise SpaceError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(values)}` values for {self.num_envs} environments."
            )
        if name in self.shared_params:
            values = [common_value(name, values)] * self.num_envs
        self._run("set_attr", lambda: self._reachable("set_attr").set_attr(name, list(values), self.timeout))

    def close(self, timeout: float = 5.0, **kwargs: Any) -> None:
        """End everything within about `timeout` seconds. May be called at any time, from any thread, and again.

        A call in which another thread waits, or that a signal handler interrupted, ends with ClosedError. `closed` is
        True once everything is closed: after Ctrl-C, another `close()` does the rest. If two threads close, both
        return when everything is closed.
        """
        if self.closed:
            return
        self._call_order.closed = True
        if not self._call_order.is_mine():
            self.closed = True
            return
        if isinstance(self.engine, SupportsWake):
            self.engine.wake()
        with self._closing:
            if not self.closed:
                self._close_alone(timeout, kwargs)

    def _close_alone(self, timeout: float, kwargs: dict[str, Any]) -> None:
        waited = self._call_order.wait_for_others(timeout)
        if waited is None:  # what it uses must not be closed
            warnings.warn(
                f"another thread was still in a call of this vector env {timeout} s after close(); call close() again "
                "when that thread is done: nothing is closed before",
                RuntimeWarning,
                stacklevel=3,
            )
            return
        try:
            self.close_extras(timeout=max(0.0, round(timeout - waited, 3)), **kwargs)
        except Warning:  # Python raises warnings as errors with -W error; everything is closed by then
            self.closed = True
            raise
        self.closed = True

    def close_extras(self, timeout: float = 5.0, **kwargs: Any) -> None:
        """Close the engine; called by `close`, and once more after an interrupt."""
        self._decorated.close(timeout)

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
        try:
            if not self.closed:
                self.close(timeout=1.0)
        except Exception:  # when Python ends, `contextlib` may be gone
            pass

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self.engine, SupportsStates):
            raise UnsupportedError(
                f"a vector env with the {self.engine.name} engine cannot be pickled or copied, because its envs are "
                f"Python objects; make another one where it is needed, or use {_engines_with_states()}"
            )
        front = {
            "autoreset": self.autoreset_mode,
            "batch_size": self.batch_size,
            "copy": self.copy,
            "seeding": self._seeding,
            "engine_reason": self.engine_reason,
            "shared_params": self.shared_params,
        }
        parts = self.engine.factory(), decorations(self._decorated), front, self.spec, self.get_state()
        return _restored, (type(self), *parts)

    # --- the envs that are ready -------------------------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Start a step of all envs, or of those of `env_ids`, and return at once.

        Raises:
            PendingError: some of them are still running.
        """
        rows = None if env_ids is None else self._call_order.parse_rows(env_ids)
        self._run("send", self._send_step, actions, rows, "send")

    def send_reset(self, env_ids: Any = None, *, seed: Any = None, options: Any = None) -> None:
        """Start new episodes of all envs, or of those of `env_ids`, and return at once; `recv` brings their results.

        Other envs may be running meanwhile. In the `Step` that `recv` returns, `valid` is False for envs that were
        reset.

        Args:
            env_ids: which envs.
            seed, options: as in `reset`; a list has one entry for each env of the vector env.

        Raises:
            PendingError: some of them are still running.
        """
        self._run("send_reset", self._send_some_resets, env_ids, seed, options)

    def recv(
        self,
        min_envs: int | None = None,
        max_envs: int | None = None,
        *,
        until: float | None = None,
        timeout: float | None = None,
    ) -> Step:
        """Wait until `min_envs` of the sent envs are finished and return exactly these, named by `env_ids`.

        With `max_envs` or `until`, all envs that are ready are returned, at most `max_envs`, those first that were sent
        first: a slow env that is done is not passed over for faster ones. `Step.age` says how long each took.

        Args:
            min_envs: default: `batch_size`, or all that are pending if these are fewer; with `max_envs` or `until`: 1.
            max_envs: return at most this many; default, with `until`: all that are pending.
            until: seconds to wait for `max_envs` envs; then those that are ready are returned. If fewer than `min_envs`
                are ready, go on waiting for these.
            timeout: seconds; default: the `timeout` given to `make`.

        Raises:
            NothingPendingError: nothing was sent.
            WorkerTimeout: nothing is lost; call again to wait on.
        """
        return self._receive_some(min_envs, timeout, lambda rows: Step.of_exchange(self._aged(rows)), max_envs, until)

    def xla(self) -> tuple[Any, Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
        """Functions that step the envs inside JAX's `jit` and `lax.scan` on the CPU, as EnvPool has them.

        With `handle, recv, send, step = envs.xla()`, all envs are stepped by `handle, (obs, reward, terminated,
        truncated, info) = step(handle, actions)`. `send(handle, actions, env_ids)` returns a handle, and `recv(handle)`
        results of `batch_size` envs. Every call takes the handle that the one before returned, which keeps them in
        order. `info` has "env_id", "elapsed_step" and in same-step mode "final_obs", meaningful where an episode ended.
        Reset the envs before, outside of the program.

        Numbers have JAX's dtypes: float32 where 64 bits are not enabled. Keep a reference to the envs as long as
        programs run.

        Raises:
            MissingExtra: JAX is not installed, or older than 0.5.
            UnsupportedError: a space has no fixed size.
        """
        return xla(self)

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
        """Say where time goes and which envs are slow, with one line of advice.

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
        if not isinstance(self._decorated, SupportsRecording):
            raise ConfigError("nothing is recorded; make the envs with record='last-episode'")
        return self._decorated.recording(row)

    # --- planning, resuming, many steps at once ----------------------------------------------------------------------

    @property
    def state(self) -> SimpleNamespace:
        """The kernel's fields of all envs as NumPy views: `envs.state.x[3]`. Writing to them changes the envs.

        Raises:
            AttributeError: only kernels (engine="compiled") have it.
        """
        if not isinstance(self.engine, SupportsStates):  # an AttributeError, so that `hasattr` says no
            raise AttributeError(f"state needs {_engines_with_states()}; this is the {self.engine.name} engine")
        return self.engine.state

    def get_state(self, env_ids: Any = None) -> Snapshot:
        """Everything that envs consist of: state, random stream, parameters, totals. `set_state` brings it back.

        Args:
            env_ids: which envs; default: all.

        Raises:
            UnsupportedError: the engine cannot; kernels (engine="compiled") can.
        """
        engine, order = self._with_states("get_state"), self._call_order
        rows = order.all_rows if env_ids is None else order.parse_rows(env_ids)
        return self._run(
            "get_state", self._when_idle, "get_state", lambda: Snapshot(engine.get_rows(rows), order.ready[rows])
        )

    def set_state(self, state: Snapshot, env_ids: Any = None) -> None:
        """Make envs what they were in `get_state`; a state of one env may be set to many.

        Raises:
            SpaceError: it is a state of other envs.
            ConfigError: a parameter in it is not within its bounds.
            UnsupportedError: the engine cannot; kernels (engine="compiled") can.
        """
        self._with_states("set_state")
        if not isinstance(state, Snapshot):
            raise ConfigTypeError(f"set_state needs what get_state returned, got {type(state).__name__}")
        order, engine = self._call_order, self._decorated
        rows = order.all_rows if env_ids is None else order.parse_rows(env_ids)
        if len(state) not in (1, len(rows)):
            raise SpaceError(f"the state is of {len(state)} envs and is to be set to {len(rows)}; pass env_ids")

        def write() -> None:
            engine.set_rows(rows, state.columns)  # type: ignore[attr-defined]  # decorators pass it on
            order.replaced(rows, state.ready)

        self._run("set_state", self._when_idle, "set_state", write)

    def clone(self, source: Any, target: Any, *, seed: int | None = None) -> None:
        """Make the envs `target` copies of the envs `source` (ids; one source may have many targets).

        Args:
            source, target: ids.
            seed: None: a copy has the random stream of its source too, so it meets the very future that its source will
                meet. An int: each copy has a random stream of its own, which depends on this number and on its place in
                `target`, so that a planner samples futures instead of looking at the true one.

        Raises:
            UnsupportedError: the engine cannot; kernels (engine="compiled") can.
        """
        engine, one = self._with_states("clone"), one_seed(seed)
        state, targets = self.get_state(np.atleast_1d(source)), np.atleast_1d(target)
        if one is not None:
            words = fresh_words(one, len(targets), CLONES)
            state = Snapshot(engine.with_streams(state.columns, words), state.ready)
        self.set_state(state, targets)

    def rollout(
        self,
        actions: Any = None,
        *,
        policy: Callable[..., Any] | None = None,
        steps: int | None = None,
        seed: int | None = None,
    ) -> Rollout:
        """Run many steps of all envs in one native call.

        Args:
            actions: batches of actions with a leading axis of time: [T, N, ...].
            policy: instead, a function of one env's observation that returns its action (or `policy(obs, action)` that
                writes into it). It is compiled under the rules of kernels. If it has a parameter `rng`, it draws random
                numbers: each env's policy has a stream of its own, which is not the env's.
            steps: T, with a policy.
            seed: of a policy that draws. None: other random numbers in each call.

        Raises:
            NotFiniteError: with `check_finite="error"`; the envs in its `rows` need a reset, the others have moved on.
            UnsupportedError: the engine cannot; kernels (engine="compiled") can.
        """
        if not isinstance(self.engine, SupportsRollout):
            raise self._needs_kernel("rollout")
        if (actions is None) == (policy is None):
            raise ConfigError("rollout needs either actions[T, N] or policy=, and not both")
        if self._may_not_end:
            raise ConfigError(
                "rollout begins new episodes by itself; make the envs with autoreset='next-step' or 'same-step'"
            )
        return self._run("rollout", self._roll_out, actions, policy, steps, one_seed(seed))

    def _roll_out(
        self, actions: Any, policy: Callable[..., Any] | None, steps: int | None, seed: int | None
    ) -> Rollout:
        order, batch, engine = self._call_order, self._batch, self._decorated
        order.check_can_step(None, "rollout")
        streams = fresh_words(seed, self.num_envs, POLICIES) if _draws(policy) else None
        if seed is not None and streams is None:
            raise ConfigError("seed is for a policy that draws: policy(obs, rng), or policy(obs, action, rng)")
        if actions is None:
            packed, count = None, positive_int("steps", steps)
        else:
            packed, count = pack_time(batch, actions, steps)
        ended = batch.done.copy()
        self._undelivered = order.all_rows
        try:
            out = engine.rollout(packed, count, self._alive_op, self._over_op, policy, streams)  # type: ignore[attr-defined]  # passed on
        except InvalidAction:
            order.failed(order.all_rows)  # some of them have moved
            raise
        except EnvError as error:
            order.failed(np.array(error.rows))
            raise
        return rollout_of(batch, out, ended, (self._alive_op, self._over_op))

    def _when_idle(self, call: str, work: Callable[[], T]) -> T:
        """Do this if nothing is pending."""
        self._call_order.check_idle(call)
        return work()

    def _with_states(self, call: str) -> SupportsStates:
        if not isinstance(self.engine, SupportsStates):
            raise self._needs_kernel(call)
        return self.engine

    def _needs_kernel(self, call: str) -> UnsupportedError:
        return UnsupportedError(f"{call}() needs {_engines_with_states()}; this is the {self.engine.name} engine")

    def _check_name(self, name: str) -> None:
        if name in _NOT_CALLABLE:
            raise ConfigError(f"Trying to call function `{name}` with `call`, use `{name}` directly instead.")

    def _reachable(self, call: str) -> SupportsCall:
        self._call_order.check_idle(call)
        if not isinstance(self.engine, SupportsCall):
            raise UnsupportedError(
                f"the {self.engine.name} engine has no Python envs to reach; use "
                + registry.words(registry.python_engines())
            )
        return self.engine


def _engines_with_states() -> str:
    """The engines whose envs have states, for messages."""
    return f"{registry.words(registry.declaring('has_states'))}, which run kernels and MuJoCo tasks"


def _draws(policy: Callable[..., Any] | None) -> bool:
    """Whether a policy has a parameter `rng`."""
    try:
        return policy is not None and "rng" in inspect.signature(policy).parameters
    except (TypeError, ValueError):  # no function; the compiler says so
        return False


def _restored(
    kind: type[VectorEnv],
    build: Callable[[], Engine],
    decorate: list[Callable[[Engine], Engine]],
    front: dict[str, Any],
    spec: Any,
    state: Snapshot,
) -> VectorEnv:
    """What pickle calls."""
    engine = build()
    for decorated in decorate:
        engine = decorated(engine)
    envs = kind(engine, **front)
    envs.spec = spec
    envs.set_state(state)
    return envs
