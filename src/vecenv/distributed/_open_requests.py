"""Requests for fragments: sent, waited for, and sent again when their actor is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from vecenv._batch.faults import Fault, OnError
from vecenv._front.rollout import Rollout
from vecenv.distributed._actor import Collected
from vecenv.distributed._fragment import Fragment
from vecenv.engines.ray.actor import LastSeen, Seen
from vecenv.engines.ray.pool import ActorPool
from vecenv.engines.ray.remote import RemoteActor
from vecenv.errors import RestartLimit, WorkerDied, env_error


@dataclass
class FragmentRequest:
    """A fragment that an actor is collecting."""

    actor: RemoteActor
    steps: int
    weights: Any
    update: int


class OpenRequests:
    """All fragments that the actors of a pool are collecting.

    Args:
        seen: state of the rows of each actor at the start.
        on_error: "raise" or "restart" when an actor dies or times out.
        timeout: seconds to wait for a fragment; None: no limit.
    """

    def __init__(self, pool: ActorPool, seen: list[Any], on_error: OnError, timeout: float | None) -> None:
        self._pool = pool
        self._seen = seen
        self._on_error: OnError = on_error
        self._timeout = timeout
        self._steps = [0] * len(seen)
        self._requests: dict[Any, FragmentRequest] = {}

    def collect(self, total: int, steps: int, weights: Any, update: int) -> Iterator[Fragment]:
        """Request fragments from the first `total` actors; return them when ready. `weights` are a Ray reference."""
        self._discard()
        for actor in self._pool.actors[:total]:
            self._request(FragmentRequest(self._running(actor), steps, weights, update))
        return self._arrivals(total)

    def forget(self) -> None:
        """Stop waiting for all fragments."""
        self._requests = {}  # another thread may be waiting, and has the old ones

    def _arrivals(self, total: int) -> Iterator[Fragment]:
        to_request = total - len(self._requests)
        for _ in range(total):
            request, collected = self._next()
            if to_request:
                to_request -= 1
                self._request(replace(request, actor=self._pool.actors[request.actor.number]))
            yield self._fragment(request, collected)

    def _request(self, request: FragmentRequest) -> None:
        self._requests[request.actor.handle.fragment.remote(request.steps, request.weights)] = request

    def _next(self) -> tuple[FragmentRequest, Collected]:
        """Wait for a fragment."""
        while True:
            requests = self._requests
            ready = self._pool.wait(list(requests), self._timeout, only_first=True)
            if not ready:
                self._late()
                continue
            request = requests[ready[0]]
            try:
                collected = self._pool.result(request.actor, ready[0], "step")
            except WorkerDied as error:
                del requests[ready[0]]
                self._handle_death(request, error)
                continue
            del requests[ready[0]]
            if isinstance(collected, Fault):
                raise self._error_of(request, collected)
            self._complete(request, collected)
            return request, collected

    def _complete(self, request: FragmentRequest, collected: Collected) -> None:
        actor = request.actor
        # A copy: a view would keep the whole fragment in the object store.
        seen = collected.seen
        kept = {name: column.copy() for name, column in seen.kept.items()}
        self._seen[actor.number] = Seen(kept, [column.copy() for column in seen.obs])
        self._steps[actor.number] += request.steps
        actor.seconds += collected.seconds
        actor.cpu_seconds += collected.cpu_seconds

    def _fragment(self, request: FragmentRequest, collected: Collected) -> Fragment:
        actor = request.actor
        return Fragment(
            **{each.name: getattr(collected.rollout, each.name) for each in fields(Rollout)},
            first_obs=collected.first_obs,
            env_ids=np.arange(actor.start, actor.stop),
            worker=actor.number,
            update=request.update,
            faults=collected.faults,
        )

    def _discard(self) -> None:
        """Wait for requested fragments that were not taken, and discard them: their envs have moved on."""
        while self._requests:
            self._next()

    def _running(self, actor: RemoteActor) -> RemoteActor:
        """The actor, started again if it had failed."""
        if actor.error is None:
            return actor
        return self._pool.replace(
            actor.number, self._last_seen_of(actor, Fault.of(actor.error, "step", error=actor.error))
        )

    def _last_seen_of(self, actor: RemoteActor, fault: Fault) -> LastSeen:
        """The state from which the rows of a lost actor continue."""
        seen = self._seen[actor.number]
        kept = {**seen.kept, "restarts": seen.kept["restarts"] + 1}
        self._seen[actor.number] = Seen(kept, seen.obs)
        return LastSeen(fault, self._seen[actor.number])

    def _error_of(self, request: FragmentRequest, fault: Fault) -> Exception:
        if fault.phase != "call":
            return fault.to_error(request.actor.start, request.actor.number, request.actor.pid)
        return env_error(
            fault.original,
            f"the policy or its actions raised {fault.kind} in {request.actor.name}: {fault.message}",
            worker=request.actor.number,
            pid=request.actor.pid,
            remote_traceback=fault.traceback,
        )

    def _late(self) -> None:
        actor = next(iter(self._requests.values())).actor
        error = actor.late(actor.start, self._timeout, "step")
        if self._on_error == "raise":
            raise error
        actor.hung = error
        self._pool.kill(actor)

    def _handle_death(self, request: FragmentRequest, error: WorkerDied) -> None:
        """Handle the death of an actor: raise, or start it again and repeat its request."""
        actor = request.actor
        if self._on_error == "raise":
            actor.error = error
            raise error
        try:
            request.actor = self._pool.restart(
                actor, error, self._steps[actor.number], lambda fault: self._last_seen_of(actor, fault)
            )
        except RestartLimit as limit:
            actor.error = limit
            raise
        self._request(request)
