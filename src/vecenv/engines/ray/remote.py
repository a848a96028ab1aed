"""Actors as the driver sees them: where they are, how busy they are, and how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vecenv.engines.ray.actor import Place
from vecenv.errors import EnvError, Phase, WorkerDied, WorkerTimeout

_TEXT = 600
"""Characters of Ray's own words that an error repeats."""


@dataclass
class RemoteActor:
    """One actor as the driver sees it, with the rows `start` ... `stop - 1`.

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
        """The error for an actor that is gone."""
        advice = f"{self.again}() starts it again"
        error = WorkerDied(
            f"{self.name} died; {advice}; Ray says: {_brief(reason)}",
            row=self.start,
            rows=self.rows,
            phase=phase,
            worker=self.number,
            pid=self.pid,
        )
        error._advice = advice
        return error

    def late(self, row: int, seconds: float | None, phase: Phase) -> WorkerTimeout:
        """The error for an actor that did not answer in time."""
        advice = f"{self.again}() kills it and starts it again"
        if self.again != "reset":
            advice = "it can be waited for again"
        if phase == "make":
            advice = "start_timeout= gives it longer"
        error = WorkerTimeout(
            f"{self.name} did not answer within {seconds} s in {phase}; {advice}",
            row=row,
            phase=phase,
            worker=self.number,
            pid=self.pid,
        )
        error._advice = advice
        return error


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


def load_of(actors: Sequence[RemoteActor]) -> list[ActorLoad]:
    """How busy each actor is."""
    placed = [(actor, actor.place) for actor in actors if actor.place is not None]
    on_node = Counter(place.node for _, place in placed)
    return [
        ActorLoad(
            actor.number,
            place.node,
            place.node_id,
            place.pid,
            actor.stop - actor.start,
            on_node[place.node] / place.processors,
            actor.seconds,
            actor.cpu_seconds,
        )
        for actor, place in placed
    ]


def summary_of(actors: Sequence[RemoteActor]) -> str:
    """Where the actors are, and whether they have to take turns."""
    load = load_of(actors)
    nodes = {each.node: each.per_processor for each in load}
    crowded = {node: share for node, share in nodes.items() if share > 1}
    text = f"{len(load)} actors on {len(nodes)} nodes"
    if crowded:
        worst = max(crowded, key=lambda node: crowded[node])
        text += f"; oversubscribed: node {worst} has {crowded[worst]:g} actors per processor, which take turns"
    return text


def _brief(reason: BaseException) -> str:
    text = " ".join(str(reason).split())
    return text if len(text) <= _TEXT else text[:_TEXT] + " ..."
