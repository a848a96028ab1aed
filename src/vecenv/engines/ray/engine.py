"""The Ray engine: actors on any number of machines, each with a local engine over a part of the rows."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import numpy as np

from vecenv._batch.batch import Batch, Mail, Op, Rows
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import Fault, OnError
from vecenv.engines.facts import check_observation_mode, merge_facts
from vecenv.engines.pending import PendingRows
from vecenv.engines.process.sendable import pickled
from vecenv.engines.python.local import check_resets, hand_over, results_or_raise, split
from vecenv.engines.ray.actor import ActorRequest, Answer, Build, LastSeen, RowActor, Seen
from vecenv.engines.ray.concurrent_actor import ConcurrentRowActor
from vecenv.engines.ray.pool import ActorPool
from vecenv.engines.ray.remote import ActorLoad, RemoteActor, load_of, summary_of
from vecenv.errors import EnvError, NotResetError, Phase, RestartLimit, WorkerDied, WorkerTimeout


@dataclass(eq=False)
class OpenRequest:
    """A request that is not answered, the actor that it is for, and its rows among all."""

    actor: RemoteActor
    rows: Rows
    message: ActorRequest


class RayEngine:
    """Actors with a local engine each. An actor answers when all rows of one `send` are finished.

    Args:
        build: of rows start ... stop - 1: a picklable function that builds their engine.
        count: number of rows.
        workers: number of actors.
        on_error: what to do about an actor that dies: "raise", and start it again with the next RESET of its rows, or
            "restart": at once. What to do about an env that fails is up to the engine that `build` builds.
        ordered: `recv` returns rows in the order they were sent, whichever is ready first.
        start_timeout: seconds that placing the actors and building the envs may take.
        ray_address: a running cluster; None uses the one that this process is connected to, or starts one.
        num_cpus: processors that each actor reserves; a fraction is fine.
        local: name of the engine that `build` builds, for `summary`.
        each_row: every row is a request of its own, which is answered when that row is finished; the engine that
            `build` builds can be waited for in an event loop (`SupportsGatherAsync`).
    """

    name = "ray"
    knows_running_env = False
    """Whether the error about a worker that died or hangs names the env that was running."""

    def __init__(
        self,
        build: Callable[[int, int], Build],
        count: int,
        *,
        workers: int,
        observation_mode: Any = "same",
        on_error: OnError = "raise",
        ordered: bool = False,
        start_timeout: float = 60.0,
        ray_address: str | None = None,
        num_cpus: float = 1.0,
        local: str | None = None,
        each_row: bool = False,
    ) -> None:
        check_observation_mode(observation_mode)
        self._on_error: OnError = on_error
        self._local = local
        self._each_row = each_row
        self._bounds = bounds = split(count, workers)
        self._worker_of = np.repeat(np.arange(workers), [stop - start for start, stop in bounds])
        self._since = 0.0
        """When waiting began, or an actor was last built again: timeouts do not include the building."""
        self._sent: dict[Any, OpenRequest] = {}
        """By the reference that Ray returns for the answer."""
        self._unsent: list[OpenRequest] = []
        """Requests that are still to be sent; after an interrupt there may be some."""
        self._pending = PendingRows(count, ordered=ordered)
        self._rows_run = np.zeros(workers, np.int64)
        self._watched = False
        self._begun: dict[int, Any] = {}
        builds = [cloudpickle.dumps(build(start, stop)) for start, stop in bounds]
        self._pool = ActorPool(
            ConcurrentRowActor if each_row else RowActor,
            bounds,
            lambda number, last_seen: (builds[number], sys.path, bounds[number][0], last_seen),
            ray_address=ray_address,
            num_cpus=num_cpus,
            spread=False,
            again="reset",
            start_timeout=start_timeout,
            concurrent=2 * max(stop - start for start, stop in bounds) + 10 if each_row else None,
        )
        try:
            built = self._pool.start()
            self.facts = merge_facts([fact for part in built for fact in part.facts], observation_mode)
        except BaseException:
            self._pool.abandon()
            raise
        self.batch = Batch.allocate(self.facts.observation_layout, self.facts.action_layout, count)
        for name, column in built[0].info.items():
            self.batch.info[name] = np.zeros((count, *column.shape[1:]), column.dtype)
            self.batch.final_info[name] = np.zeros_like(self.batch.info[name])

    # --- the seam ----------------------------------------------------------------------------------------------------

    def send(self, rows: Rows) -> None:
        self._resume()
        for actor in [actor for actor in self._pool.actors if actor.error is not None]:
            mine = rows[self._worker_of[rows] == actor.number]
            if len(mine):
                check_resets(self.batch, mine)
                self._pool.replace(actor.number, None)
        rows = np.sort(rows)
        if self._each_row:
            workers = self._worker_of[rows]
            self._unsent = [self._request(int(workers[place]), rows[place : place + 1]) for place in range(len(rows))]
        else:
            self._unsent = [self._request(int(number), rows) for number in np.unique(self._worker_of[rows])]
        self._pending.open(rows)  # if an interrupt comes from here on, the next call sends the requests
        self._send_rest()

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        self._resume()
        for actor in self._pool.actors:  # an interrupt may have kept the error of a dead actor from being raised
            if actor.error is not None and self._pending.sent_at[actor.start : actor.stop].any():
                self._give_up(actor, actor.error)
                raise actor.error
        self._since = time.monotonic()
        while self._pending.missing(count):
            ready = self._pool.wait(list(self._sent), self._left(timeout))
            if not ready:
                self._late(timeout)
            for reference in ready:
                self._complete(reference)
        return self._pending.take(count, self.batch, self._home)

    def pending(self) -> Rows:
        return self._pending.rows()

    def gather(self, count: int, seconds: float, timeout: float | None = None) -> int:
        self._resume()
        self._since = time.monotonic()
        deadline = self._since + seconds
        while self._pending.missing(count):
            left, longest = self._left(timeout), max(0.0, deadline - time.monotonic())
            ready = self._pool.wait(list(self._sent), longest if left is None else min(left, longest))
            for reference in ready:
                self._complete(reference)
            if not ready and (left is None or longest < left):
                break
            if not ready:
                self._late(timeout)
        return self._pending.count_ready()

    def gone(self) -> Rows:
        dead = [actor.number for actor in self._pool.actors if actor.error is not None]
        return np.flatnonzero(np.isin(self._worker_of, dead))

    def wake(self) -> None:
        self._pool.closing = True

    def close(self, timeout: float = 5.0) -> None:
        self._sent.clear()
        self._pool.close(timeout)

    # --- abilities ---------------------------------------------------------------------------------------------------

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        return self._ask("call", lambda actor: (name, args, kwargs), timeout)

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        self._ask("set_attr", lambda actor: (name, values[actor.start : actor.stop]), timeout)

    def kill(self, row: int) -> None:
        self._pool.kill(self._pool.actors[self._worker_of[row]])

    def clocks(self) -> list[tuple[slice, Clocks]]:
        """Envs are not timed one by one here; see `load` for each actor."""
        return [
            (
                slice(actor.start, actor.stop),
                Clocks.together(actor.stop - actor.start, int(1e9 * actor.seconds), int(self._rows_run[actor.number])),
            )
            for actor in self._pool.actors
        ]

    def load(self) -> list[ActorLoad]:
        """How busy each actor is, and how many share a processor."""
        return load_of(self._pool.actors)

    def summary(self) -> str:
        """Where the actors are, and whether they have to take turns."""
        inside = "" if self._local is None else f", engine {self._local!r} in each"
        return summary_of(self._pool.actors) + inside

    def watch(self) -> dict[int, Any]:
        """From now on, actors say how episodes began; see `SupportsStarts`."""
        self._watched = True
        return self._begun

    # --- requests and answers ----------------------------------------------------------------------------------------

    def _request(self, number: int, rows: Rows) -> OpenRequest:
        batch, actor = self.batch, self._pool.actors[number]
        mine = rows[self._worker_of[rows] == number]
        whole = len(mine) == actor.stop - actor.start and not self._each_row
        where: Any = slice(actor.start, actor.stop) if whole else mine
        message = ActorRequest(
            rows=None if whole else mine - actor.start,
            op=batch.op[where].copy(),
            seed=batch.seed[where].copy(),
            given_seed=batch.given_seed[where].copy(),
            actions=[column[where].copy() for column in batch.actions],
            watched=self._watched,
            number=self._pending.sequence + 1,
        )
        local = (mine - actor.start).tolist() if batch.options or batch.raw_actions else []
        hand_over(batch, message, local, actor.start)
        if message.options or message.raw_actions or batch.action_layout.by_value:
            pickled(message)  # raises, if it does, before anything is sent
        return OpenRequest(actor, mine, message)

    def _send_rest(self) -> None:
        while self._unsent:
            request = self._unsent[0]
            try:
                self._sent[request.actor.handle.run.remote(request.message)] = request
            except Exception:  # Ray refuses it: this request and those after it are not sent
                unsent = np.concatenate([request.rows for request in self._unsent])
                self._unsent = []
                self._pending.give_back(unsent[self._pending.sent_at[unsent] > 0])
                raise
            del self._unsent[0]

    def _resume(self) -> None:
        """Send what an interrupt or a death kept from being sent: every pending request is with the actor of its rows.

        A request that may have been sent is sent again; the actor runs it once.
        """
        actors = self._pool.actors
        stale = [request for request in self._sent.values() if request.actor is not actors[request.actor.number]]
        if stale:
            self._unsent = [*self._unsent, *stale]
            self._sent = {reference: request for reference, request in self._sent.items() if request not in stale}
        if self._unsent:
            known = {id(request.message) for request in self._sent.values()}
            left = {
                id(request.message): replace(request, actor=actors[request.actor.number])
                for request in self._unsent
                if id(request.message) not in known and self._pending.sent_at[request.rows].any()
            }
            self._unsent = list(left.values())
            self._send_rest()

    def _complete(self, reference: Any) -> None:
        """Take an answer; if an interrupt comes meanwhile, it is taken again."""
        request = self._sent.get(reference)
        if request is None:
            return  # its actor was found dead through another answer
        try:
            answer = self._pool.result(request.actor, reference, self._phase(request))
        except WorkerDied as error:
            self._handle_death(request.actor, error)
            return
        except Exception as error:  # it cannot be unpickled here, or there is a fault in the actor's own code
            fault = Fault.of(error, self._phase(request))
            self.batch.mail.update({row: Mail(fault=fault) for row in request.rows.tolist()})
        else:
            self._write(request, answer)
        self._pending.finished[request.rows] = self._pending.sent_at[request.rows] > 0
        del self._sent[reference]

    def _write(self, request: OpenRequest, answer: Answer) -> None:
        batch, actor, rows = self.batch, request.actor, request.rows
        where: Any = slice(actor.start, actor.stop) if request.message.rows is None else rows
        for name, column in answer.kept.items():
            getattr(batch, name)[where] = column
        for ours, theirs in zip(batch.obs, answer.obs, strict=True):
            ours[where] = theirs
        for name, column in answer.info.items():
            batch.info[name][where] = column
        ended = rows[answer.ended]
        for ours, theirs in zip(batch.final_obs, answer.final_obs, strict=True):
            ours[ended] = theirs
        for name, column in answer.final_info.items():
            batch.final_info[name][ended] = column
        batch.mail.update((actor.start + row, mail) for row, mail in answer.mail.items())
        self._begun.update((actor.start + row, start) for row, start in answer.begun.items())
        for text in answer.dropped:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        actor.seconds += answer.seconds
        actor.cpu_seconds += answer.cpu_seconds
        self._rows_run[actor.number] += len(rows)

    def _left(self, timeout: float | None) -> float | None:
        return None if timeout is None else max(0.0, self._since + timeout - time.monotonic())

    def _ask(
        self, method: str, arguments: Callable[[RemoteActor], tuple[Any, ...]], timeout: float | None
    ) -> list[Any]:
        """Ask all actors; an actor that dies is asked again if it is to be restarted."""
        for actor in self._pool.actors:
            if actor.error is not None:
                raise NotResetError(f"the envs of {actor.name} are gone with it; reset() builds them again")

        def ask(actor: RemoteActor) -> Any:
            return getattr(actor.handle, method).remote(*arguments(actor))

        asked = {ask(actor): actor for actor in self._pool.actors}
        self._since = time.monotonic()
        results: dict[int, Any] = {}
        while asked:
            ready = self._pool.wait(list(asked), self._left(timeout))
            if not ready:
                actor = next(iter(asked.values()))
                raise actor.late(actor.start, timeout, "call")
            for reference in ready:
                actor = asked.pop(reference)
                try:
                    found = self._pool.result(actor, reference, "call")
                    results.update({actor.start + row: value for row, value in found.items()})
                except WorkerDied as error:
                    self._handle_death(actor, error)
                    asked[ask(self._pool.actors[actor.number])] = self._pool.actors[actor.number]
        return results_or_raise(results, self._home)

    # --- failures ----------------------------------------------------------------------------------------------------

    def _home(self, row: int) -> tuple[int, int | None]:
        actor = self._pool.actors[self._worker_of[row]]
        return actor.number, actor.pid

    def _phase(self, request: OpenRequest) -> Phase:
        return "reset" if self.batch.op[request.rows[0]] == Op.RESET else "step"

    def _late(self, timeout: float | None) -> None:
        """Time ran out: raise WorkerTimeout, or kill the first actor that is late if it may be restarted."""
        request = min(self._sent.values(), key=lambda request: self._pending.sent_at[request.rows[0]])
        error: WorkerTimeout = request.actor.late(int(request.rows[0]), timeout, self._phase(request))
        if self._on_error == "raise":
            raise error
        request.actor.hung = error
        self._pool.kill(request.actor)
        self._since = time.monotonic()

    def _handle_death(self, actor: RemoteActor, error: WorkerDied) -> None:
        """An actor is dead: start it again or raise WorkerDied, as `on_error` says."""
        if self._on_error == "raise":
            self._give_up(actor, error)
            raise error
        mine = slice(actor.start, actor.stop)

        def last_seen(fault: Fault) -> LastSeen:
            self.batch.restarts[mine] += 1
            return LastSeen(fault, Seen.of(self.batch, mine))

        try:
            self._pool.restart(actor, error, self._pending.sequence, last_seen)
        except RestartLimit as limit:
            self._give_up(actor, limit)
            raise
        self._resume()
        self._since = time.monotonic()

    def _give_up(self, actor: RemoteActor, error: EnvError) -> None:
        """Give back the rows that a dead actor was asked for; the next RESET of its rows starts it again."""
        actor.error = error
        self._unsent = [request for request in self._unsent if request.actor is not actor]
        self._sent = {reference: request for reference, request in self._sent.items() if request.actor is not actor}
        self.batch.discard_mail(actor.rows)
        rows = np.arange(actor.start, actor.stop)
        self._pending.give_back(rows[self._pending.sent_at[rows] > 0])
