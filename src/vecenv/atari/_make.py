"""From ids of games and options to a vector env."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gymnasium.envs.registration import EnvSpec

from vecenv._front.autoreset import parse_mode
from vecenv._front.vector_env import VectorEnv
from vecenv._make import make as making
from vecenv._make.builds import refuses_native
from vecenv._make.decorate import decorate
from vecenv.atari._env import MakeGame
from vecenv.atari._ids import NATIVE_VERSION, check_arguments, check_frame_skip, find_game, load_ale
from vecenv.atari._preprocessing import Preprocessing
from vecenv.engines.ale.games import GameSpec
from vecenv.engines.python.factories import MakeEnv, check_wrappers, kwargs_per_env
from vecenv.errors import ConfigError, EngineRefused

_PLAIN = (
    "where an episode ends ale-py's native games show an older screen than Gymnasium's, so plain games are not run on "
    "them; pass preprocessing=True for native games"
)
_PYTHON_ONLY = {
    "render_mode": "ale-py's native games cannot draw",
    "mode": "ale-py's native games have no modes",
    "difficulty": "ale-py's native games have no difficulties",
    "max_episode_steps": "ale-py's native games count frames, not steps",
}
"""Arguments that go to games in Python, and why."""


def make_games(*, env: Any, num_envs: int, engine: str, preprocessing: Any, env_kwargs: Any, **asked: Any) -> VectorEnv:
    """`vecenv.make` for what involves games: preprocessing, the ale engine, or a list of ids."""
    ids = list(env) if isinstance(env, (list, tuple)) else [env] * num_envs
    if len(ids) != num_envs and num_envs != 1:
        raise ConfigError(f"num_envs={num_envs}, but the list has {len(ids)} games; leave num_envs out")
    specs = [find_game(id) for id in ids]
    if preprocessing is None and engine == "ale":
        raise EngineRefused(_PLAIN)
    rows: list[Mapping[str, Any]] = kwargs_per_env(env_kwargs, len(ids))
    if len({spec.kwargs["game"] for spec in specs}) > 1:
        rows = [{"full_action_space": True, **row} for row in rows]
    if preprocessing is None:
        envs = _make_python([MakeEnv(spec, row) for spec, row in zip(specs, rows, strict=True)], engine, _PLAIN, asked)
    else:
        envs = _make_preprocessed(specs, rows, engine, Preprocessing.parse(preprocessing), asked)
    envs.spec = specs[0] if len({spec.id for spec in specs}) == 1 else None
    return envs


def _make_python(factories: list[Any], engine: str, unfit: str | None, asked: dict[str, Any]) -> VectorEnv:
    envs = making.make(factories, engine=engine, **asked)  # type: ignore[arg-type]  # checked there
    envs.engine_reason += f" (not the ale engine: {unfit})" if engine == "auto" else ""
    return envs


def _make_preprocessed(
    specs: list[EnvSpec], rows: list[Mapping[str, Any]], engine: str, options: Preprocessing, asked: dict[str, Any]
) -> VectorEnv:
    names = [field.name for field in dataclasses.fields(options)]
    for spec, row in zip(specs, rows, strict=True):
        check_frame_skip(spec)
        check_arguments(spec.id, row, names)
    unfit = _refuses(specs, rows, options, asked)
    if engine not in ("auto", "ale") or (engine == "auto" and unfit is not None):
        wrappers = check_wrappers(asked.pop("wrappers"))
        factories = [_factory(spec, row, options, wrappers) for spec, row in zip(specs, rows, strict=True)]
        return _make_python(factories, engine, unfit, asked)
    if unfit is not None:
        raise EngineRefused(unfit)
    return _make_native([_game(spec, row) for spec, row in zip(specs, rows, strict=True)], engine, options, asked)


def _make_native(games: list[GameSpec], engine: str, options: Preprocessing, asked: dict[str, Any]) -> VectorEnv:
    from vecenv.engines.ale.engine import AleEngine

    making.check_batch_size(asked["batch_size"], len(games))
    threads = None if asked["workers"] is None else making.count_workers(asked["workers"], len(games))
    mode = parse_mode(asked["autoreset"])
    ale = AleEngine(games, options, ordered=asked["order"] == "fixed", threads=threads)
    return VectorEnv(
        decorate(ale, mode, asked["check_finite"]),
        autoreset=mode,
        batch_size=asked["batch_size"],
        copy=asked["copy"],
        seeding=asked["seeding"],
        engine_reason=f"engine={engine!r} was asked for" if engine == "ale" else "ale-py's native games, preprocessed",
    )


def _refuses(
    specs: list[EnvSpec], rows: list[Mapping[str, Any]], options: Preprocessing, asked: dict[str, Any]
) -> str | None:
    """Why native games cannot do this, None if they can."""
    for name, reason in _PYTHON_ONLY.items():
        if any(row.get(name) is not None for row in rows):
            return f"{reason} ({name}); games in Python do, with engine='process'"
    pool = asked["workers"] is not None
    if pool and (any(spec != specs[0] for spec in specs) or any(row != rows[0] for row in rows)):
        return "different native games do not share a pool of workers; leave workers out"
    if pool and options.episodic_life == "continue":
        return "native games of a pool cannot go on with the next life alone; leave workers out"
    if asked["record"] is not None:
        return "native games do not say how their episodes begin, so they cannot be recorded; games in Python can"
    if asked["precision"] != "exact":
        return f"precision={asked['precision']!r} is for kernels"
    version = load_ale("the game").__version__
    if not version.startswith(NATIVE_VERSION):
        return f"native games are those of ale-py {NATIVE_VERSION}x, this is {version}; pip install 'ale-py~=0.12.1'"
    return refuses_native(asked["wrappers"], asked["observation_mode"], asked["timeout"], asked["caller_works"])


def _game(spec: EnvSpec, row: Mapping[str, Any]) -> GameSpec:
    from ale_py import roms  # pyright: ignore[reportMissingImports]  # optional

    given = {**spec.kwargs, **row}
    return GameSpec(
        name=given["game"],
        rom=str(roms.get_rom_path(given["game"])),
        repeat_action_probability=given["repeat_action_probability"],
        full_action_space=given["full_action_space"],
        max_frames=given["max_num_frames_per_episode"],
    )


def _factory(spec: EnvSpec, row: Mapping[str, Any], options: Preprocessing, wrappers: tuple[Any, ...]) -> MakeGame:
    given = {**spec.kwargs, **row}
    del given["frameskip"]
    steps, frames = given.pop("max_episode_steps", None), given.pop("max_num_frames_per_episode")
    return MakeGame(given, options, frames, steps, wrappers)
