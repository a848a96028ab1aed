"""A pool of Ray actors: placing them, building their envs, replacing lost actors, closing them."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

from vecenv._batch.faults import Fault, RestartPolicy
from vecenv._util.forks import reinit_after_fork
from vecenv.engines.python.local import warn_of
from vecenv.engines.ray.actor import Built
from vecenv.engines.ray.capacity import PLACE_SECONDS, check_room
from vecenv.engines.ray.connection import CONNECTION
from vecenv.engines.ray.remote import RemoteActor
from vecenv.errors import ClosedError, EnvError, NoResources, Phase, RestartLimit, WorkerDied

_LOOK_UP_SECONDS = 0.1
"""Seconds after which a thread that waits looks whether another thread closes."""


class ActorPool:
    """Actors over parts of the rows, and the connection that they need.

    Args:
        actor: the class.
        bounds: rows of each actor.
        arguments: of the constructor, from the actor's number and what its rows were last seen as.
        num_cpus: processors that each actor reserves; a fraction is fine.
        spread: over the nodes, instead of as Ray likes.
        again: the user's call that starts a dead actor again.
        start_timeout: seconds that placing them and building their envs may take.
        concurrent: how many methods of an actor may run at once; None: one, or as Ray has it.

    Attributes:
        closing: no actor is started any more, and no call waits for one.
    """

    def __init__(
        self,
        actor: type,
        bounds: list[tuple[int, int]],
        arguments: Callable[[int, Any], tuple[Any, ...]],
        *,
        ray_address: str | None,
        num_cpus: float,
        spread: bool,
        again: str,
        start_timeout: float,
        concurrent: int | None = None,
    ) -> None:
        self._bounds = bounds
        self._arguments = arguments
        self._num_cpus = num_cpus
        self._again = again
        self._start_timeout = start_timeout
        self._policies = [RestartPolicy(start) for start, _ in bounds]
        user = object()
        self.ray = CONNECTION.join(ray_address, user)
        self.actors: list[RemoteActor] = []
        self.closing = False
        self._lock = reinit_after_fork(threading.RLock())
        """Held by the thread that closes."""
        self._to_close = self.ray, self.actors, user
        self._close = Finalize(self, _close_actors, args=(*self._to_close, 1.0), exitpriority=100)
        self._class = self.ray.remote(actor).options(
            num_cpus=num_cpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD" if spread else "DEFAULT",
            **({} if concurrent is None else {"max_concurrency": concurrent}),
        )

    def start(self) -> list[Built]:
        """Place all actors and build their envs."""
        check_room(self.ray, len(self._bounds), self._num_cpus, min(PLACE_SECONDS, self._start_timeout))
        self.actors.extend(self._create(number, None) for number in range(len(self._bounds)))
        return self._build(self.actors)

    def replace(self, number: int, last_seen: Any) -> RemoteActor:
        """A new actor in the place of a lost one. Raises EnvError if it cannot be had."""
        self._check_open()
        dead = self.actors[number]
        self.kill(dead)
        try:
            check_room(self.ray, 1, self._num_cpus, min(PLACE_SECONDS, self._start_timeout))
            actor = self._create(number, last_seen)
            actor.seconds, actor.cpu_seconds = dead.seconds, dead.cpu_seconds
            try:
                self._build([actor])
            except BaseException:
                self.kill(actor)
                raise
        except NoResources as error:
            lost = dead.died(error, "make")
            lost.message = f"{dead.name} is gone and cannot be placed again: {error}"
            raise lost from error
        self.actors[number] = actor
        return actor

    def restart(
        self, actor: RemoteActor, error: WorkerDied, now: int, last_seen: Callable[[Fault], Any]
    ) -> RemoteActor:
        """Build a dead actor again, as often as is allowed.

        Args:
            actor: that died of `error`.
            now: counts the ops of its rows.
            last_seen: makes what the new actor gets of its rows from the fault that they are to report.

        Raises:
            RestartLimit: it died, or could not be built, too often.
        """
        cause = actor.hung or error
        fault = reported = Fault.of(cause, error.phase or "step", error=cause)
        while True:
            try:
                self._policies[actor.number].allow(fault, now)
                return self.replace(actor.number, last_seen(reported))
            except RestartLimit as limit:
                limit.rows = actor.rows
                raise
            except EnvError as failure:  # it could not be built again
                fault = Fault.of(failure, "make", error=failure)

    def kill(self, actor: RemoteActor) -> None:
        """End an actor, whatever it does."""
        with contextlib.suppress(Exception):
            self.ray.kill(actor.handle, no_restart=True)

    def result(self, actor: RemoteActor, reference: Any, phase: Phase) -> Any:
        """What an actor answered. Raises WorkerDied if it is gone, and what its answer raised otherwise."""
        exceptions = self.ray.exceptions
        try:
            return self.ray.get(reference)
        except (
            exceptions.RayActorError,
            exceptions.ObjectLostError,
            exceptions.NodeDiedError,
            exceptions.WorkerCrashedError,
        ) as error:
            raise actor.died(error, phase) from error

    def wait(self, references: list[Any], timeout: float | None, *, only_first: bool = False) -> list[Any]:
        """Those that are ready, at least one unless time runs out.

        Args:
            only_first: return the first one that is ready; do not ask for others.

        Raises:
            ClosedError: another thread closes the actors.
        """
        self._check_open()
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        ready, left = self.ray.wait(references, num_returns=1, timeout=_look_up(deadline))
        while not ready and time.monotonic() < deadline:
            self._check_open()
            ready, left = self.ray.wait(references, num_returns=1, timeout=_look_up(deadline))
        if ready and left and not only_first:
            more, _ = self.ray.wait(left, num_returns=len(left), timeout=0)
            ready += more
        return ready

    def close(self, timeout: float = 5.0) -> None:
        """End all actors within `timeout` seconds and leave the cluster. Idempotent; after Ctrl-C it does the rest."""
        self.closing = True
        with self._lock:
            if self._close.still_active():
                complaints = _close_actors(*self._to_close, timeout)
                self._close.cancel()  # only now: after an interrupt there is something left to close
                warn_of(complaints)

    def _check_open(self) -> None:
        if self.closing:
            raise ClosedError("close() was called meanwhile, by another thread or a signal handler")

    def abandon(self) -> None:
        """End all actors at once, because they could not be started."""
        for actor in self.actors:
            self.kill(actor)
        self.actors.clear()
        self.close()

    def _create(self, number: int, last_seen: Any) -> RemoteActor:
        start, stop = self._bounds[number]
        return RemoteActor(number, start, stop, self._class.remote(*self._arguments(number, last_seen)), self._again)

    def _build(self, actors: list[RemoteActor]) -> list[Built]:
        deadline = time.monotonic() + self._start_timeout
        for actor, place in self._each(actors, "hello", deadline):
            actor.place = place
        built: dict[int, Built] = {}
        for actor, result in self._each(actors, "build", deadline):
            if isinstance(result, BaseException):
                raise result
            if isinstance(result, tuple):
                row, fault = result
                assert isinstance(fault, Fault)
                raise fault.to_error(row, actor.number, actor.pid)
            built[actor.number] = result
        return [built[number] for number in sorted(built)]

    def _each(self, actors: list[RemoteActor], method: str, deadline: float) -> list[tuple[RemoteActor, Any]]:
        """Ask all actors the same while they start."""
        asked = {getattr(actor.handle, method).remote(): actor for actor in actors}
        ready, late = self.ray.wait(
            list(asked), num_returns=len(asked), timeout=max(0.0, deadline - time.monotonic()), fetch_local=True
        )
        answers = [(asked[reference], self.result(asked[reference], reference, "make")) for reference in ready]
        if not late:
            return answers
        actor = asked[late[0]]
        if method == "hello":
            check_room(self.ray, len(late), self._num_cpus, 0.0)
            raise NoResources(
                f"{len(late)} of {len(asked)} actors were not started by Ray within {self._start_timeout:g} s; "
                "start_timeout= gives them longer"
            )
        raise actor.late(actor.start, self._start_timeout, "make")


def _look_up(deadline: float) -> float:
    """How long to wait at once."""
    return min(_LOOK_UP_SECONDS, max(0.0, deadline - time.monotonic()))


def _close_actors(ray: Any, actors: list[RemoteActor], user: object, timeout: float) -> list[str]:
    """Close all envs, end all actors, leave the cluster. Not a method, so that it can run when the pool is gone."""
    complaints: list[str] = []
    with contextlib.suppress(Exception):
        if ray.is_initialized() and actors:
            complaints = _close_envs(ray, actors, timeout)
    actors.clear()
    with contextlib.suppress(Exception):
        CONNECTION.leave(user)
    return complaints


def _close_envs(ray: Any, actors: list[RemoteActor], timeout: float) -> list[str]:
    complaints: list[str] = []
    leaving = {actor.handle.close.remote(): actor for actor in actors if actor.error is None and actor.place}
    if leaving:
        closed, late = ray.wait(list(leaving), num_returns=len(leaving), timeout=timeout)
        for reference in closed:
            with contextlib.suppress(Exception):
                complaints += ray.get(reference) or []
        complaints += [f"{leaving[each].name} did not close within {timeout} s and was killed" for each in late]
    for actor in actors:
        with contextlib.suppress(Exception):
            ray.kill(actor.handle, no_restart=True)
    return complaints
