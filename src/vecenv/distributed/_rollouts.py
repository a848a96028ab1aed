"""The user's interface to actors that hold envs and a policy."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import cloudpickle

from vecenv._batch.batch import Op
from vecenv._batch.faults import OnError
from vecenv._batch.seeding import Seeding, spread
from vecenv._front.autoreset import ops_of, parse_mode
from vecenv._make.options import keyword_names
from vecenv._make.source import find_build, resolve
from vecenv._util.checks import patience, positive_int, positive_seconds
from vecenv._util.suggest import nearest
from vecenv.distributed._actor import FragmentActor, Plan
from vecenv.distributed._fragment import Fragment
from vecenv.distributed._open_requests import OpenRequests
from vecenv.engines import Ray, Request
from vecenv.engines.facts import merge_facts
from vecenv.engines.options import Order, check_choice
from vecenv.engines.python.factories import check_wrappers
from vecenv.engines.python.local import split
from vecenv.engines.ray.pool import ActorPool
from vecenv.engines.ray.remote import ActorLoad, load_of, summary_of
from vecenv.errors import ClosedError, ConfigError, ConfigTypeError, EngineRefused


class Rollouts:
    """Actors that hold envs and a policy, and collect fragments.

        with vecenv.distributed.Rollouts("CartPole-v1", 4096, policy, workers=2, seed=0) as rollouts:
            for fragment in rollouts.collect(128, weights=weights):
                learn(fragment)

    Args:
        env, num_envs: as in `vecenv.make`.
        policy: `policy(obs)` or, with weights, `policy(obs, weights)`: returns the actions of all envs of an actor. The
            observations are only valid during the call. The policy is sent to the actors once, by cloudpickle. If it
            has a parameter `rng`, it gets its own NumPy generator in every actor.
        workers: number of actors; default: the number of processors of this machine, at most one per env.
        seed: seed of the envs' first reset and of the policies' generators.
        native: whether the policy is a function of one env's observation that is compiled by the rules of kernels,
            together with the env; whole fragments then run in native code. It takes no weights.
        on_error: "restart": an env that fails or an actor that dies is built again and its episodes are truncated, see
            `Fragment.faults`; "raise": an EnvError is raised, and then all envs of that actor begin new episodes.
        timeout: seconds to wait for a fragment; None: no limit.
        start_timeout, autoreset, seeding, precision, env_kwargs, wrappers: as in `vecenv.make`.
        ray_address, num_cpus, local_engine, **kwargs: as in `vecenv.make`.

    Raises:
        NoResources: the cluster lacks resources for the actors.
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
        local_engine: str = "auto",
        **kwargs: Any,
    ) -> None:
        if not callable(policy):
            raise ConfigError(f"policy must be callable, got {type(policy).__name__}")
        check_choice("on_error", on_error, ("raise", "restart"))
        kernel, _ = find_build(env)
        for name in set(kwargs).difference(kernel.params if kernel else ()):
            near = nearest(name, keyword_names(), cutoff=0.8)
            if near is not None and near not in inspect.signature(Rollouts).parameters:
                raise ConfigTypeError(
                    f"unknown argument {name!r}: Rollouts does not have {near!r} of make(); leave it out (if it is the "
                    "env's, pass it in env_kwargs)"
                )
        mode = parse_mode(autoreset)
        if ops_of(mode) == (Op.STEP, Op.STEP):
            raise ConfigError("fragments need autoreset; use autoreset='next-step' or 'same-step'")
        source = resolve(env, num_envs, env_kwargs, wrappers, kwargs)
        self.spec = source.spec
        self.num_envs = count = len(source.env_fns)
        wait = None if timeout is None else patience(positive_seconds("timeout", timeout))
        actors = Ray(
            workers=workers,
            ray_address=ray_address,
            num_cpus=num_cpus,
            local_engine=local_engine,
            precision=precision,
            start_timeout=start_timeout,
        )
        request = Request(count, on_error=on_error, wrappers=check_wrappers(wrappers))
        refusal = actors.refuses(source, request)
        if refusal is not None:
            raise EngineRefused(refusal)
        bounds = split(count, actors.count_workers(count))
        builder, local = actors.part_builder(source, request), actors.local_options(source, request)
        if native and not local.native:
            raise EngineRefused(f"native=True needs envs with a kernel; these run on {local.name!r}")
        self._native = native
        plan = Plan(cloudpickle.dumps(policy), native, mode, spread(seed, count, seeding), seed)
        builds = [cloudpickle.dumps(builder(start, stop)) for start, stop in bounds]
        self._weights: Any = None
        self._updates = 0
        self._pool = ActorPool(
            FragmentActor,
            bounds,
            lambda number, last_seen: (builds[number], sys.path, bounds[number][0], last_seen, self._plan),
            ray_address=ray_address,
            num_cpus=float(num_cpus),
            spread=True,
            again="collect",
            start_timeout=start_timeout,
        )
        try:
            self._plan = self._pool.ray.put(plan)  # stored once for all actors
            built = self._pool.start()
            facts = merge_facts([fact for part in built for fact in part.facts], "same")
            if facts.observation_layout.by_value or facts.action_layout.by_value:
                raise EngineRefused("fragments are arrays, but a part of these spaces has no fixed size; use make()")
        except BaseException:
            self._pool.abandon()
            raise
        self.single_observation_space = facts.single_observation_space
        self.single_action_space = facts.single_action_space
        self._requests = OpenRequests(self._pool, [part.seen for part in built], on_error, wait)

    def collect(
        self, steps: int, weights: Any = None, *, order: Order = "first-ready", fragments: int | None = None
    ) -> Iterator[Fragment]:
        """Start collecting at once; return the fragments as they are ready.

        Args:
            steps: number of steps T of each fragment.
            weights: weights of the policy. They are put into the object store once, and each node fetches them once.
                None: the last weights again.
            order: "first-ready", or "fixed" for one fragment of each actor, ordered by its number.
            fragments: number of fragments; default: one of each actor. With more, an actor that is done continues at
                once, so fast ones return more; with fewer, only the first actors collect.

        Returns:
            An iterator. The next `collect` discards fragments that were not taken from it.

        Raises:
            EnvError: while iterating; see `on_error`.
            WorkerTimeout: while iterating.
            ClosedError: after `close`, also while iterating.
        """
        if self._pool.closing:
            raise ClosedError("collect() after close()")
        steps, count = positive_int("steps", steps), len(self._pool.actors)
        total = count if fragments is None else positive_int("fragments", fragments)
        check_choice("order", order, ("first-ready", "fixed"))
        if order == "fixed" and total != count:
            raise ConfigError("order='fixed' returns one fragment of each actor; leave fragments out")
        if weights is not None:
            if self._native:
                raise ConfigError("a native policy takes no weights; leave weights out, or native=False")
            self._weights = self._pool.ray.put(weights)
            self._updates += 1
        arriving = self._requests.collect(total, steps, self._weights, self._updates)
        return arriving if order == "first-ready" else _by_worker(arriving)

    def load(self) -> list[ActorLoad]:
        """How busy each actor is, and how many actors share a processor."""
        return load_of(self._pool.actors)

    def summary(self) -> str:
        """Where the actors run, and whether they share processors."""
        return summary_of(self._pool.actors)

    def close(self, timeout: float = 5.0) -> None:
        """End all actors. May be called again, and while another thread waits for a fragment, which gets a ClosedError.

        Fragments stay valid.
        """
        self._pool.closing = True
        self._requests.forget()
        self._pool.close(timeout)

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


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
    """Collect `steps` steps of `num_envs` envs once: one fragment of each actor, ordered by its number.

    Args:
        env, policy, num_envs, **options: as in `Rollouts`.
        steps, weights: as in `Rollouts.collect`.
    """
    with Rollouts(env, num_envs, policy, **options) as rollouts:
        return list(rollouts.collect(steps, weights, order="fixed"))
