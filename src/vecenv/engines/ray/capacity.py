"""Whether a Ray cluster has room for actors."""

from __future__ import annotations

import time
from typing import Any

from vecenv.errors import NoResources

PLACE_SECONDS = 10.0
"""How long to wait for processors that others hold."""


def check_room(ray: Any, actors: int, num_cpus: float, patience: float = PLACE_SECONDS) -> None:
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
