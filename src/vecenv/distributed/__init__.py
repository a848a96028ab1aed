"""Rollouts on many machines: policies are shipped to the envs, and whole fragments come back. Needs Ray."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import cloudpickle
import numpy as np

from vecenv._autoreset import ops_of, parse_mode
from vecenv._batch import Op
from vecenv._checks import patience, positive_int, positive_seconds
from vecenv._cpus import usable_cpus
from vecenv._faults import Fault, OnError
from vecenv._layout import map_tree
from vecenv._make import resolve
from vecenv._ray_parts import Parts, check_num_cpus
from vecenv._rollout import Rollout
from vecenv._seeding import Seeding, spread
from vecenv.distributed._actor import Collected, FragmentActor, Plan
from vecenv.engines._facts import agree
from vecenv.engines._local import split
from vecenv.engines._ray_actor import Life, Seen
from vecenv.engines._ray_cluster import ActorLoad, Pool, RemoteActor
from vecenv.errors import ClosedError, ConfigError, EngineRefused, RestartLimit, WorkerDied, env_error

__all__ = ["ActorLoad", "Fragment", "Rollouts", "rollout"]

Order = Literal["first-ready", "fixed"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Fragment(Rollout):
    """T steps of the N envs of one actor, see `Rollout`. Arrays are read-only views of Ray's object store.

    Attributes:
        first_obs: [N, ...] observations that the first actions were chosen from.
        env_ids: [N] which envs these are.
        worker: number of the actor.
        update: how many different weights had been sent when it was collected.
        faults: of envs that were built again: a dict each, with `step`, `env`, `kind`, `message`, `phase`, `restarts`.
            At that step the env's episode is truncated, with reward 0 and the observation that was seen last.
    """

    first_obs: Any
    env_ids: np.ndarray
    worker: int
    update: int
    faults: list[dict[str, Any]] = field(default_factory=list)

    @property
    def acted_on(self) -> Any:
        """[T, N, ...] what the actions were chosen from: `first_obs`, then `obs` but the last. A copy."""
        return map_tree(lambda first, obs: np.concatenate([first[None], obs[:-1]]), self.first_obs, self.obs)


@dataclass
class _Flight:
    """A fragment that an actor is collecting."""

    actor: RemoteActor
    steps: int
    weights: Any
    update: int


class Rollouts:
    """Actors that hold envs and a policy, and collect fragments.

        with vecenv.distributed.Rollouts("CartPole-v1", 4096, policy, workers=2, seed=0) as rollouts:
            for fragment in rollouts.collect(128, weights=weights):
                learn(fragment)

    Args:
        env, num_envs: as in `vecenv.make`.
        policy: `policy(obs)` or, if weights are given, `policy(obs, weights)`: actions of all envs of an actor from
            their observations, which are only valid during the call. It is sent to the actors once, by cloudpickle. If
            it has a parameter `rng`, it gets a NumPy generator of its own in every actor.
        workers: number of actors; default: the processors of this machine, at most one per env.
        seed: of the envs' first reset and of the policies' generators.
        native: the policy is a function of one env's observation and is compiled under the rules of kernels, together
            with the env; whole fragments then run in native code. It takes no weights.
        on_error: "restart": an env that fails or an actor that dies is built again and its episodes are truncated, see
            `Fragment.faults`; "raise": an EnvError; then all envs of that actor begin new episodes.
        timeout: seconds to wait for a fragment; None waits for ever.
        start_timeout, autoreset, seeding, precision, env_kwargs, wrappers: as in `vecenv.make`.
        ray_address, num_cpus, local_engine, **kwargs: as in `vecenv.make`.

    Raises:
        NoResources: the cluster has no room for the actors.
    """

    def __init__(
        self,
        env: Any,
        num_envs: int,
        policy: Callable[..., Any],
        *,
        workers: int | None = None,
        seed: int | None = None,
        native: bool = False,
        on_error: OnError = "restart",
        timeout: float | None = None,
        start_timeout: float = 60.0,
        autoreset: Any = "next-step",
        seeding: Seeding = "gymnasium",
        precision: Literal["exact", "fast"] = "exact",
        env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        wrappers: Sequence[Any] | None = None,
        ray_address: str | None = None,
        num_cpus: float = 1.0,
        local_engine: Literal["auto", "compiled", "sync", "thread", "process"] = "auto",
        **kwargs: Any,
    ) -> None:
        if not callable(policy):
            raise ConfigError(f"policy must be callable, got {type(policy).__name__}")
        if on_error not in ("raise", "restart"):
            raise ConfigError(f"on_error must be 'raise' or 'restart', got {on_error!r}")
        mode = parse_mode(autoreset)
        if ops_of(mode) == (Op.STEP, Op.STEP):
            raise ConfigError("fragments begin new episodes by themselves; use autoreset='next-step' or 'same-step'")
        kernel, env_fns, env_kwargs, self.spec = resolve(env, num_envs, env_kwargs, wrappers, kwargs)
        self.num_envs = count = len(env_fns)
        bounds = split(count, min(positive_int("workers", usable_cpus() if workers is None else workers), count))
        if workers is not None and workers > count:
            raise ConfigError(f"workers must be in 1 ... {count} (one env each at least), got {workers}")
        start_timeout = positive_seconds("start_timeout", start_timeout)
        self._timeout = None if timeout is None else patience(positive_seconds("timeout", timeout))
        self._on_error: OnError = on_error
        parts = Parts.of(
            kernel,
            env_fns,
            env_kwargs,
            local_engine=local_engine,
            wrappers=wrappers,
            precision=precision,
            num_cpus=check_num_cpus(num_cpus),
            observation_mode="same",
            on_error=on_error,
            start_timeout=start_timeout,
        )
        if native and parts.local != "compiled":
            raise EngineRefused(f"native=True compiles the policy into a kernel, and these envs run on {parts.local!r}")
        self._native = native
        plan = Plan(cloudpickle.dumps(policy), native, mode, spread(seed, count, seeding), seed)
        builds = [cloudpickle.dumps(parts(start, stop)) for start, stop in bounds]
        self._flights: dict[Any, _Flight] = {}
        self._weights: Any = None
        self._updates = 0
        self._closed = False
        self._pool = Pool(
            FragmentActor,
            bounds,
            lambda number, life: (builds[number], sys.path, bounds[number][0], life, self._plan),
            ray_address=ray_address,
            num_cpus=float(num_cpus),
            spread=True,
            again="collect",
            start_timeout=start_timeout,
        )
        try:
            self._plan = self._pool.ray.put(plan)  # once, however many actors there are
            built = self._pool.start()
            facts = agree([fact for part in built for fact in part.facts], "same")
            if facts.observation_layout.by_value or facts.action_layout.by_value:
                raise EngineRefused("fragments are arrays, and a part of these spaces has no fixed size; use make()")
        except BaseException:
            self._pool.abandon()
            raise
        self.single_observation_space = facts.single_observation_space
        self.single_action_space = facts.single_action_space
        self._seen: list[Any] = [part.seen for part in built]
        self._steps = [0] * len(built)

    def collect(
        self, steps: int, weights: Any = None, *, order: Order = "first-ready", fragments: int | None = None
    ) -> Iterator[Fragment]:
        """Start collecting at once; the fragments come as they are ready.

        Args:
            steps: T of each fragment.
            weights: for the policy: put into the object store once, whence each node fetches them once. None: the last
                ones again.
            order: "fixed" gives one fragment of each actor, by number.
            fragments: how many in all; default: one of each actor. With more, an actor that is done goes on at once, so
                fast ones deliver more; with fewer, only the first actors are asked.

        Returns:
            An iterator. Fragments that are not taken from it are thrown away by the next `collect`.

        Raises:
            EnvError: while iterating; see `on_error`.
            WorkerTimeout: while iterating.
        """
        if self._closed:
            raise ClosedError("collect() after close()")
        steps, count = positive_int("steps", steps), len(self._pool.actors)
        total = count if fragments is None else positive_int("fragments", fragments)
        if order not in ("first-ready", "fixed"):
            raise ConfigError(f"order must be 'first-ready' or 'fixed', got {order!r}")
        if order == "fixed" and total != count:
            raise ConfigError("order='fixed' brings one fragment of each actor; leave fragments out")
        if weights is not None:
            if self._native:
                raise ConfigError("a native policy takes no weights; leave weights out, or native=False")
            self._weights = self._pool.ray.put(weights)
            self._updates += 1
        self._discard()
        for actor in self._pool.actors[:total]:
            self._launch(self._alive(actor), steps)
        arriving = self._arrivals(total)
        return arriving if order == "first-ready" else _by_worker(arriving)

    def load(self) -> list[ActorLoad]:
        """How busy each actor is, and how many share a processor."""
        return self._pool.load()

    def summary(self) -> str:
        """Where the actors are, and whether they have to take turns."""
        return self._pool.summary()

    def close(self, timeout: float = 5.0) -> None:
        """End all actors. May be called twice. Fragments stay as they are."""
        self._closed = True
        self._flights.clear()
        self._pool.close(timeout)

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- how ---------------------------------------------------------------------------------------------------------

    def _arrivals(self, total: int) -> Iterator[Fragment]:
        to_launch = total - len(self._flights)
        for _ in range(total):
            flight, collected = self._next()
            if to_launch:
                to_launch -= 1
                self._launch(self._pool.actors[flight.actor.number], flight.steps)
            yield self._fragment(flight, collected)

    def _launch(self, actor: RemoteActor, steps: int) -> None:
        self._take_off(_Flight(actor, steps, self._weights, self._updates))

    def _take_off(self, flight: _Flight) -> None:
        self._flights[flight.actor.handle.fragment.remote(flight.steps, flight.weights)] = flight

    def _next(self) -> tuple[_Flight, Collected]:
        """Wait for a fragment."""
        while True:
            ready, _ = self._pool.ray.wait(list(self._flights), num_returns=1, timeout=self._timeout)
            if not ready:
                self._late()
                continue
            flight = self._flights[ready[0]]
            try:
                collected = self._pool.result(flight.actor, ready[0], "step")
            except WorkerDied as error:
                del self._flights[ready[0]]
                self._bury(flight, error)
                continue
            del self._flights[ready[0]]
            if isinstance(collected, Fault):
                raise self._error_of(flight, collected)
            self._land(flight, collected)
            return flight, collected

    def _land(self, flight: _Flight, collected: Collected) -> None:
        actor = flight.actor
        # A copy, because what is seen would keep the whole fragment in the object store.
        seen = collected.seen
        kept = {name: column.copy() for name, column in seen.kept.items()}
        self._seen[actor.number] = Seen(kept, [column.copy() for column in seen.obs])
        self._steps[actor.number] += flight.steps
        actor.seconds += collected.seconds
        actor.cpu_seconds += collected.cpu_seconds

    def _fragment(self, flight: _Flight, collected: Collected) -> Fragment:
        actor = flight.actor
        return Fragment(
            **{each.name: getattr(collected.rollout, each.name) for each in fields(Rollout)},
            first_obs=collected.first_obs,
            env_ids=np.arange(actor.start, actor.stop),
            worker=actor.number,
            update=flight.update,
            faults=collected.faults,
        )

    def _discard(self) -> None:
        """Wait for fragments that nobody took: their envs have moved on."""
        while self._flights:
            self._next()

    def _alive(self, actor: RemoteActor) -> RemoteActor:
        """The actor, started again if it was given up."""
        if actor.error is None:
            return actor
        return self._pool.revive(actor.number, self._life(actor, Fault.of(actor.error, "step", error=actor.error)))

    def _life(self, actor: RemoteActor, fault: Fault) -> Life:
        """What the rows of a lost actor are to go on from."""
        seen = self._seen[actor.number]
        kept = {**seen.kept, "restarts": seen.kept["restarts"] + 1}
        self._seen[actor.number] = Seen(kept, seen.obs)
        return Life(fault, self._seen[actor.number])

    def _error_of(self, flight: _Flight, fault: Fault) -> Exception:
        if fault.phase != "call":
            return fault.to_error(flight.actor.start, flight.actor.number, flight.actor.pid)
        return env_error(
            fault.original,
            f"the policy, or what it chose, raised {fault.kind} in {flight.actor.name}: {fault.message}",
            worker=flight.actor.number,
            pid=flight.actor.pid,
            remote_traceback=fault.traceback,
        )

    def _late(self) -> None:
        actor = next(iter(self._flights.values())).actor
        error = actor.late(actor.start, self._timeout, "step")
        if self._on_error == "raise":
            raise error
        actor.hung = error
        self._pool.kill(actor)

    def _bury(self, flight: _Flight, error: WorkerDied) -> None:
        """An actor is dead: raise, or build it again and let it collect anew what it was asked for."""
        actor = flight.actor
        if self._on_error == "raise":
            actor.error = error
            raise error
        try:
            flight.actor = self._pool.restart(
                actor, error, self._steps[actor.number], lambda fault: self._life(actor, fault)
            )
        except RestartLimit as limit:
            actor.error = limit
            raise
        self._take_off(flight)


def _by_worker(arriving: Iterator[Fragment]) -> Iterator[Fragment]:
    early: dict[int, Fragment] = {}
    due = 0
    for fragment in arriving:
        early[fragment.worker] = fragment
        while due in early:
            yield early.pop(due)
            due += 1


def rollout(
    env: Any, policy: Callable[..., Any], *, num_envs: int, steps: int, weights: Any = None, **options: Any
) -> list[Fragment]:
    """Collect `steps` steps of `num_envs` envs, once: a fragment of each actor, by number.

    Args:
        env, policy, num_envs, **options: as for `Rollouts`.
        steps, weights: as for `Rollouts.collect`.
    """
    with Rollouts(env, num_envs, policy, **options) as rollouts:
        return list(rollouts.collect(steps, weights, order="fixed"))
