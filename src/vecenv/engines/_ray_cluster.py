"""Ray clusters: connect to one or start one, ask what it has, place actors on it and explain what became of them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.util import Finalize
from typing import Any

from vecenv._faults import Fault, RestartPolicy
from vecenv.engines._local import warn_of
from vecenv.engines._ray_actor import Built, Place
from vecenv.errors import (
    ConfigError,
    EnvError,
    MissingExtra,
    NoResources,
    Phase,
    RestartLimit,
    WorkerDied,
    WorkerTimeout,
)

_STORE_BYTES = 1 << 30
"""Object store of a cluster that we start, unless its file system has less."""
_PLACE_SECONDS = 10.0
"""How long to wait for processors that others hold."""
_TEXT = 600


def load_ray() -> Any:
    """The module, or MissingExtra."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("this needs Ray, which is not installed: pip install 'vecenv[ray]'") from error
    return ray


class Connection:
    """This process's connection to a cluster; Ray allows one. What it began, it ends with its last user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._ours = False

    def join(self, address: str | None) -> Any:
        """Connect, or start a cluster on this machine if there is no address. Returns Ray."""
        ray = load_ray()
        with self._lock:
            if not ray.is_initialized():
                self._users, self._ours = 0, True
                _init(ray, address or os.environ.get("RAY_ADDRESS") or "local")
            elif address not in (None, "auto", (here := ray.get_runtime_context().gcs_address)):
                raise ConfigError(
                    f"ray_address={address!r}, but this process is connected to the cluster at {here}; leave "
                    "ray_address out, or call ray.shutdown() first"
                )
            self._users += 1
        return ray

    def leave(self) -> None:
        """One user less. A cluster that we started is shut down after the last one; a connection we made is closed."""
        with self._lock:
            self._users = max(0, self._users - 1)
            ray = load_ray()
            if not self._users and self._ours:
                self._ours = False
                if ray.is_initialized():
                    ray.shutdown()


CONNECTION = Connection()


def _init(ray: Any, address: str) -> None:
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address != "local":
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(f"there is no Ray cluster at {address!r}: {error!s:.300}") from error
        return
    ray.init(address="local", include_dashboard=False, object_store_memory=_store_bytes(), **quiet)


def _store_bytes() -> int:
    with contextlib.suppress(OSError):
        room = os.statvfs("/dev/shm")
        return max(100 << 20, min(_STORE_BYTES, room.f_bavail * room.f_frsize // 2))
    return _STORE_BYTES


def check_room(ray: Any, actors: int, num_cpus: float, patience: float = _PLACE_SECONDS) -> None:
    """Raise NoResources unless the cluster can hold these actors, now or within `patience` seconds."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    room = sum(_fit(node["Resources"].get("CPU", 0.0), num_cpus) for node in nodes)
    if room < actors:
        raise NoResources(
            f"{_wanted(actors, num_cpus)} do not fit this cluster, which has room for {room}: {_listed(nodes)}; use "
            "fewer workers=, a smaller num_cpus= (fractions are fine), or add nodes"
        )
    deadline = time.monotonic() + patience
    while _fit(free := ray.available_resources().get("CPU", 0.0), num_cpus) < actors:
        if time.monotonic() > deadline:
            raise NoResources(
                f"{_wanted(actors, num_cpus)} cannot be placed: {free:g} CPUs are free, others hold the rest and did "
                f"not give them back within {patience:g} s; the cluster has {_listed(nodes)}; close what holds them, "
                "use fewer workers= or a smaller num_cpus="
            )
        time.sleep(0.05)


def _fit(cpus: float, num_cpus: float) -> int:
    return int(cpus / num_cpus + 1e-6)


def _wanted(actors: int, num_cpus: float) -> str:
    return f"{actors} actors of {num_cpus:g} CPUs each"


def _listed(nodes: list[Any]) -> str:
    if not nodes:
        return "no nodes"
    names = [f"{node['NodeManagerAddress']} with {node['Resources'].get('CPU', 0):g} CPUs" for node in nodes[:4]]
    return f"{len(nodes)} nodes: {', '.join(names)}{', ...' if len(nodes) > 4 else ''}"


@dataclass
class RemoteActor:
    """One actor as the front sees it, with the rows `start` ... `stop - 1`.

    Attributes:
        again: the user's call that starts it again.
        error: why it is gone, once it is.
        hung: why we killed it, if we did.
        seconds, cpu_seconds: its engine's time on the clock and on the processor.
    """

    number: int
    start: int
    stop: int
    handle: Any
    again: str
    place: Place | None = None
    error: EnvError | None = None
    hung: EnvError | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(range(self.start, self.stop))

    @property
    def pid(self) -> int | None:
        return None if self.place is None else self.place.pid

    @property
    def name(self) -> str:
        where = (
            "not placed yet"
            if self.place is None
            else f"pid {self.place.pid} on node {self.place.node}, {self.place.node_id[:8]}"
        )
        return f"actor {self.number} ({where}) with envs {self.start} to {self.stop - 1}"

    def died(self, reason: BaseException, phase: Phase) -> WorkerDied:
        """The error that says that it is gone."""
        return WorkerDied(
            f"{self.name} died; {self.again}() starts it again; Ray says: {_brief(reason)}",
            row=self.start,
            rows=self.rows,
            phase=phase,
            worker=self.number,
            pid=self.pid,
        )

    def late(self, row: int, seconds: float | None, phase: Phase) -> WorkerTimeout:
        """The error for an actor that did not answer in time."""
        advice = (
            f"{self.again}() kills it and starts it again" if self.again == "reset" else "it can be waited for again"
        )
        return WorkerTimeout(
            f"{self.name} did not answer within {seconds} s in {phase}; "
            + ("start_timeout= gives it longer" if phase == "make" else advice),
            row=row,
            phase=phase,
            worker=self.number,
            pid=self.pid,
        )


@dataclass(frozen=True)
class ActorLoad:
    """How busy an actor is.

    Attributes:
        actor, node, node_id, pid, envs: which it is, on which machine, and how many envs it has.
        per_processor: actors of ours on its node, for each processor there; more than 1 is oversubscription.
        seconds, cpu_seconds: what its envs took so far, on the clock and on the processor. The difference is waiting,
            for a processor if there are too few, or for whatever the envs wait for.
    """

    actor: int
    node: str
    node_id: str
    pid: int
    envs: int
    per_processor: float
    seconds: float
    cpu_seconds: float


class Pool:
    """Actors over parts of the rows, and the connection that they need.

    Args:
        actor: the class.
        bounds: rows of each actor.
        arguments: of the constructor, by number and life.
        num_cpus: processors that each actor reserves; a fraction is fine.
        spread: over the nodes, instead of as Ray likes.
        again: the user's call that starts a dead actor again.
        start_timeout: seconds that placing them and building their envs may take.
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
    ) -> None:
        self._bounds = bounds
        self._arguments = arguments
        self._num_cpus = num_cpus
        self._again = again
        self._start_timeout = start_timeout
        self._policies = [RestartPolicy(start) for start, _ in bounds]
        self.ray = CONNECTION.join(ray_address)
        self.actors: list[RemoteActor] = []
        self._close = Finalize(self, _close_actors, args=(self.ray, self.actors, 1.0), exitpriority=100)
        self._class = self.ray.remote(actor).options(
            num_cpus=num_cpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD" if spread else "DEFAULT",
        )

    def start(self) -> list[Built]:
        """Place all actors and build their envs."""
        check_room(self.ray, len(self._bounds), self._num_cpus, min(_PLACE_SECONDS, self._start_timeout))
        self.actors.extend(self._create(number, None) for number in range(len(self._bounds)))
        return self._build(self.actors)

    def revive(self, number: int, life: Any) -> RemoteActor:
        """A new actor in the place of a lost one. Raises EnvError if it cannot be had."""
        dead = self.actors[number]
        self.kill(dead)
        try:
            check_room(self.ray, 1, self._num_cpus, min(_PLACE_SECONDS, self._start_timeout))
            actor = self._create(number, life)
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

    def restart(self, actor: RemoteActor, error: WorkerDied, now: int, life: Callable[[Fault], Any]) -> RemoteActor:
        """Build a dead actor again, as often as is allowed.

        Args:
            actor: that died of `error`.
            now: counts the ops of its rows.
            life: what its rows were, of the reason that they are to report.

        Raises:
            RestartLimit: it died, or could not be built, too often.
        """
        cause = actor.hung or error
        fault = told = Fault.of(cause, error.phase or "step", error=cause)
        while True:
            try:
                self._policies[actor.number].allow(fault, now)
                return self.revive(actor.number, life(told))
            except RestartLimit as limit:
                limit.rows = actor.rows
                raise
            except EnvError as failure:  # it could not be built again
                fault = Fault.of(failure, "make", error=failure)

    def kill(self, actor: RemoteActor) -> None:
        """End an actor, whatever it does."""
        with contextlib.suppress(Exception):
            self.ray.kill(actor.handle, no_restart=True)

    def load(self) -> list[ActorLoad]:
        """How busy each actor is."""
        on_node = Counter(actor.place.node for actor in self.actors if actor.place is not None)
        return [
            ActorLoad(
                actor.number,
                actor.place.node,
                actor.place.node_id,
                actor.place.pid,
                actor.stop - actor.start,
                on_node[actor.place.node] / actor.place.processors,
                actor.seconds,
                actor.cpu_seconds,
            )
            for actor in self.actors
            if actor.place is not None
        ]

    def summary(self) -> str:
        """Where the actors are, and whether they have to take turns."""
        load = self.load()
        nodes = {each.node: each.per_processor for each in load}
        crowded = {node: share for node, share in nodes.items() if share > 1}
        text = f"{len(load)} actors on {len(nodes)} nodes"
        if crowded:
            worst = max(crowded, key=lambda node: crowded[node])
            text += f"; oversubscribed: node {worst} has {crowded[worst]:g} actors per processor, which take turns"
        return text

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

    def wait(self, references: list[Any], timeout: float | None) -> list[Any]:
        """Those that are ready, at least one unless time runs out."""
        ready, left = self.ray.wait(references, num_returns=1, timeout=timeout)
        if ready and left:
            more, _ = self.ray.wait(left, num_returns=len(left), timeout=0)
            ready += more
        return ready

    def close(self, timeout: float = 5.0) -> None:
        """End all actors within `timeout` seconds and leave the cluster. Idempotent."""
        if self._close.still_active():
            self._close.cancel()
            warn_of(_close_actors(self.ray, self.actors, timeout))

    def abandon(self) -> None:
        """End all actors at once, because they could not be started."""
        for actor in self.actors:
            self.kill(actor)
        self.actors.clear()
        self.close()

    def _create(self, number: int, life: Any) -> RemoteActor:
        start, stop = self._bounds[number]
        return RemoteActor(number, start, stop, self._class.remote(*self._arguments(number, life)), self._again)

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


def _brief(reason: BaseException) -> str:
    text = " ".join(str(reason).split())
    return text if len(text) <= _TEXT else text[:_TEXT] + " ..."


def _close_actors(ray: Any, actors: list[RemoteActor], timeout: float) -> list[str]:
    """Close all envs, end all actors, leave the cluster. Not a method, so that it can run when the pool is gone."""
    complaints: list[str] = []
    with contextlib.suppress(Exception):
        if ray.is_initialized() and actors:
            complaints = _say_goodbye(ray, actors, timeout)
    actors.clear()
    with contextlib.suppress(Exception):
        CONNECTION.leave()
    return complaints


def _say_goodbye(ray: Any, actors: list[RemoteActor], timeout: float) -> list[str]:
    complaints: list[str] = []
    leaving = {actor.handle.close.remote(): actor for actor in actors if actor.error is None and actor.place}
    if leaving:
        done, late = ray.wait(list(leaving), num_returns=len(leaving), timeout=timeout)
        for reference in done:
            with contextlib.suppress(Exception):
                complaints += ray.get(reference) or []
        complaints += [f"{leaving[each].name} did not close within {timeout} s and was killed" for each in late]
    for actor in actors:
        with contextlib.suppress(Exception):
            ray.kill(actor.handle, no_restart=True)
    return complaints
