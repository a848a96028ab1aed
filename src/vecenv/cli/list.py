"""List envs, engines and packages: which are available, and why others are not.

Examples:
  vecenv list
  vecenv list mountain
  vecenv list pong
  vecenv list CartPole-v1
  vecenv list my_envs.py
  vecenv list --all
  vecenv list --json
"""

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import dataclass
from typing import Annotated, Any

import gymnasium
import tyro
from rich.table import Table

from vecenv._make.source import NAMESPACE
from vecenv._util.cpus import usable_cpus
from vecenv.atari._ids import is_game, load_ale
from vecenv.cli._options import Flag, Optional
from vecenv.cli._screen import Screen, new_table
from vecenv.cli._sources import action_words, envs_in, family_of, missing_for, space_words, suggested
from vecenv.engines import Ale, Compiled, Mujoco, registry
from vecenv.errors import ConfigError, MissingExtra
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.language.registry import find_kernel, kernel_ids
from vecenv.mujoco._registry import GYMNASIUM
from vecenv.presets import presets_for

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


@dataclass(frozen=True)
class Options:
    """Options of `vecenv list`."""

    pattern: Annotated[tyro.conf.Positional[str | None], Optional] = None
    """Only envs whose name contains this text; with a whole id, its settings for training too; with a file.py, the envs
    in it."""
    all: Flag = False
    """List every env, not only families of envs."""
    json: Flag = False
    """Print the list as JSON."""


def run(options: Options, screen: Screen) -> int:
    """Print tables."""
    if (options.pattern or "").endswith(".py"):
        return _list_file(options.pattern or "", screen)
    pattern = (options.pattern or "").lower()
    kernels = [_kernel(id) for id in kernel_ids() if pattern in id.lower()]
    others = [one for one in _others() if pattern in one["id"].lower()]
    if pattern and not kernels and not others:
        hint = suggested(options.pattern or "", "see `vecenv list --all`")
        raise ConfigError(f"no env has {options.pattern!r} in its name{hint}")
    data: dict[str, Any] = {"envs": [*kernels, *others]}
    shown: list[Any] = [_kernel_table(kernels, bool(pattern))] if kernels else []
    if others:
        shown.append(_named(others) if options.all or pattern else _families(others))
    for id in (one["id"] for one in (*kernels, *others) if one["id"].lower() == pattern):
        data["presets"] = {algo: {"steps": one.steps, **one.settings} for algo, one in presets_for(id).items()}
        shown.append(_preset_table(id))
    if not pattern:
        engines, packages = _engines(), _packages()
        data |= {"engines": engines, "packages": packages, "cpus": usable_cpus()}
        shown += [_status_table("engines", engines), _status_table("packages", packages)]
    screen.answer(data, *shown)
    return 0


def _list_file(file: str, screen: Screen) -> int:
    names, table = envs_in(file), _table(f"envs of {file}", "name for vecenv train, check, play and bench")
    for name in names:
        table.add_row(name)
    screen.answer({"envs": [{"id": name} for name in names]}, table)
    return 0


def _kernel(id: str) -> dict[str, Any]:
    kernel = find_kernel(id)
    assert kernel is not None
    env = KernelEnv(kernel)
    theirs = gymnasium.registry.get(id)
    known = None if is_game(id) else theirs  # ale-py has a Breakout-v0 too
    limit = kernel.max_episode_steps if known is None else known.max_episode_steps
    return {
        "id": id,
        "engine": Compiled.name,
        "observations": space_words(env.observation_space),
        "actions": action_words(env),
        "max_episode_steps": limit,
        "parameters": kernel.own_params,
        "missing": None,
    }


def _others() -> list[dict[str, Any]]:
    """Envs in Gymnasium's registry that have no kernel."""
    with contextlib.suppress(MissingExtra):
        load_ale("")  # registers its games
    kernels = set(kernel_ids())
    return [
        {
            "id": id,
            "family": family_of(spec),
            "max_episode_steps": spec.max_episode_steps,
            "missing": missing_for(id),
            "engine": Mujoco.name if id in GYMNASIUM else Ale.name if is_game(id) else None,
        }
        for id, spec in sorted(gymnasium.registry.items())
        if id not in kernels and not id.startswith(f"{NAMESPACE}/") and spec.entry_point is not None
    ]


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
    table = _table("other envs", "id", "family", "limit", "runs")
    for one in others:
        table.add_row(one["id"], one["family"], str(one["max_episode_steps"] or "-"), one["missing"] or _runs(one))
    return table


def _runs(one: dict[str, Any]) -> str:
    """How an env runs."""
    words = {
        Mujoco.name: "native code (engine mujoco)",
        Ale.name: "in Python; native with --preprocessing (engine ale)",
    }
    return words.get(one["engine"], "in Python")


def _preset_table(id: str) -> Any:
    """The settings that `vecenv train` uses for an env, by algorithm."""
    found = presets_for(id)
    if not found:
        return f"no settings of its own: `vecenv train {id}` uses PPO with its defaults"
    table = _table(f"settings of `vecenv train {id}`", "--algo", "steps", "settings")
    for algo, preset in found.items():
        settings = " ".join(f"{name}={value}" for name, value in preset.settings.items())
        table.add_row(algo, f"{preset.steps:,}", settings.replace(", ", ","))
    return table


def _families(others: list[dict[str, Any]]) -> Table:
    table = _table("other envs; --all names them", "family", "envs", "runs")
    for family in sorted({one["family"] for one in others}):
        mine = [one for one in others if one["family"] == family]
        reasons = sorted({one["missing"] for one in mine if one["missing"]})
        able = sum(one["missing"] is None for one in mine)
        runs = (
            "in Python" if not reasons else "; ".join(reasons) if not able else f"{able}; others: {'; '.join(reasons)}"
        )
        engine = next((one["engine"] for one in mine if one["engine"] and not one["missing"]), None)
        native = sum(one["engine"] is not None and one["missing"] is None for one in mine)
        runs += f"; {native} as native code (engine {engine})" if engine else ""
        table.add_row(family, str(len(mine)), runs)
    return table


def _status_table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = _table(title, "name", "for", "available")
    for one in rows:
        table.add_row(one["name"], one["for"], "yes" if one["missing"] is None else f"no: {one['missing']}")
    return table
