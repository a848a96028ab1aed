"""List envs, engines and packages: which are available, and why others are not.

Examples:
  vecenv list
  vecenv list mountain
  vecenv list --all
  vecenv list --json
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Annotated, Any

import gymnasium
import tyro
from rich.table import Table

from vecenv._make.source import NAMESPACE
from vecenv._util.cpus import usable_cpus
from vecenv.cli._options import Flag, Optional
from vecenv.cli._screen import Screen, new_table
from vecenv.cli._sources import space_words
from vecenv.engines import Compiled, registry
from vecenv.errors import ConfigError
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.language.registry import find_kernel, kernel_ids

PACKAGES = {
    "torch": ("train, eval and play agents", "vecenv[torch]"),
    "matplotlib": ("pictures", "vecenv[cli]"),
    "imageio_ffmpeg": ("videos", "vecenv[video]"),
    "pygame": ("rendering Gymnasium's envs", "vecenv[render]"),
    "stable_baselines3": ("vecenv.sb3; bench", "vecenv[sb3]"),
    "envpool": ("bench", "envpool"),
    "pufferlib": ("bench", "pufferlib"),
    "jax": ("JAX arrays", "vecenv[jax]"),
    "ale_py": ("Atari games", "vecenv[atari]"),
}
_NEEDS = {
    "box2d": ("Box2D", "gymnasium[box2d]"),
    "mujoco": ("mujoco", "gymnasium[mujoco]"),
    "phys2d": ("jax", "gymnasium[jax]"),
    "tabular": ("jax", "gymnasium[jax]"),
}
"""Families of Gymnasium's that need more than Gymnasium: the module and the package."""


@dataclass(frozen=True)
class Options:
    """Options of `vecenv list`."""

    pattern: Annotated[tyro.conf.Positional[str | None], Optional] = None
    """Only envs whose name contains this text."""
    all: Flag = False
    """List every env, not only families of envs."""
    json: Flag = False
    """Print the list as JSON."""


def run(options: Options, screen: Screen) -> int:
    """Print tables."""
    pattern = (options.pattern or "").lower()
    kernels = [_kernel(id) for id in kernel_ids() if pattern in id.lower()]
    others = [one for one in _others() if pattern in one["id"].lower()]
    if pattern and not kernels and not others:
        raise ConfigError(f"no env has {options.pattern!r} in its name; see `vecenv list --all`")
    data: dict[str, Any] = {"envs": [*kernels, *others]}
    shown: list[Any] = [_kernel_table(kernels, bool(pattern))] if kernels else []
    if others:
        shown.append(_named(others) if options.all or pattern else _families(others))
    if not pattern:
        engines, packages = _engines(), _packages()
        data |= {"engines": engines, "packages": packages, "cpus": usable_cpus()}
        shown += [_status_table("engines", engines), _status_table("packages", packages)]
    screen.answer(data, *shown)
    return 0


def _kernel(id: str) -> dict[str, Any]:
    kernel = find_kernel(id)
    assert kernel is not None
    env = KernelEnv(kernel)
    limit = gymnasium.registry[id].max_episode_steps if id in gymnasium.registry else kernel.max_episode_steps
    return {
        "id": id,
        "engine": Compiled.name,
        "observations": space_words(env.observation_space),
        "actions": space_words(env.action_space),
        "max_episode_steps": limit,
        "parameters": list(kernel.params),
        "missing": None,
    }


def _others() -> list[dict[str, Any]]:
    """Envs in Gymnasium's registry that have no kernel."""
    found = []
    kernels = set(kernel_ids())
    for id, spec in sorted(gymnasium.registry.items()):
        if id in kernels or id.startswith(f"{NAMESPACE}/") or spec.entry_point is None:
            continue
        family = _family(spec)
        module, package = _NEEDS.get(family.rpartition(".")[2], (None, None))
        missing = None
        if module is not None and importlib.util.find_spec(module) is None:
            missing = f"needs {module}: pip install '{package}'"
        elif family == "gymnasium.envs":  # entries that only raise an error about their removal
            missing = "retired; use a newer version"
        found.append({"id": id, "family": family, "max_episode_steps": spec.max_episode_steps, "missing": missing})
    return found


def _family(spec: Any) -> str:
    point = spec.entry_point if isinstance(spec.entry_point, str) else getattr(spec.entry_point, "__module__", "")
    parts = point.partition(":")[0].split(".")
    return ".".join(parts[:3]) if parts[0] == "gymnasium" else parts[0]


def _engines() -> list[dict[str, Any]]:
    return [
        {"name": engine.name, "where": engine.where, "for": engine.use_for, "missing": engine.unavailable()}
        for engine in registry.classes()
    ]


def _packages() -> list[dict[str, Any]]:
    return [
        {
            "name": module,
            "for": use,
            "missing": None if importlib.util.find_spec(module) else f"pip install '{package}'",
        }
        for module, (use, package) in PACKAGES.items()
    ]


def _table(title: str, *heads: str) -> Table:
    table = new_table(title)
    for place, head in enumerate(heads):
        table.add_column(head, no_wrap=place == 0)
    return table


def _kernel_table(kernels: list[dict[str, Any]], parameters: bool) -> Table:
    heads = ("id", "observations", "actions", "limit", *(("parameters",) if parameters else ()))
    table = _table("envs with a kernel (native code)", *heads)
    for one in kernels:
        row = one["id"], one["observations"], one["actions"], str(one["max_episode_steps"] or "-")
        table.add_row(*row, *((" ".join(one["parameters"]) or "-",) if parameters else ()))
    return table


def _named(others: list[dict[str, Any]]) -> Table:
    table = _table("other envs (Python)", "id", "family", "limit", "runs")
    for one in others:
        table.add_row(one["id"], one["family"], str(one["max_episode_steps"] or "-"), one["missing"] or "yes")
    return table


def _families(others: list[dict[str, Any]]) -> Table:
    table = _table("other envs (Python); --all names them", "family", "envs", "runs")
    for family in sorted({one["family"] for one in others}):
        mine = [one for one in others if one["family"] == family]
        reasons = sorted({one["missing"] for one in mine if one["missing"]})
        able = sum(one["missing"] is None for one in mine)
        runs = "yes" if not reasons else "; ".join(reasons) if not able else f"{able}; the others: {'; '.join(reasons)}"
        table.add_row(family, str(len(mine)), runs)
    return table


def _status_table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = _table(title, "name", "for", "available")
    for one in rows:
        table.add_row(one["name"], one["for"], "yes" if one["missing"] is None else f"no: {one['missing']}")
    return table
