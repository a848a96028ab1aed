"""EnvPool's `make`."""

from __future__ import annotations

from typing import Any, Literal

from vecenv._make.make import make as make_envs
from vecenv._make.source import register_games
from vecenv._util.specs import without_module
from vecenv.atari._ids import is_game
from vecenv.envpool._dm import DmEnvPool
from vecenv.envpool._pool import EnvPool
from vecenv.errors import ConfigError

_SCREENS = {
    "stack_num": "frame_stack",
    "frame_skip": "frame_skip",
    "noop_max": "noop_max",
    "use_fire_reset": "fire_reset",
    "reward_clip": "clip_reward",
    "gray_scale": "grayscale",
}
"""EnvPool's words for options of `vecenv.atari.Preprocessing`."""
_NOT_HERE = {
    "max_num_players": "envs here have one player",
    "thread_affinity_offset": "threads are not pinned; start the program with taskset",
}


def make(task_id: str, env_type: Literal["gym", "gymnasium", "dm"], **kwargs: Any) -> EnvPool | DmEnvPool:
    """Make envs as `envpool.make` does.

    Args:
        task_id: an id that `vecenv.make` takes; of an Atari game also EnvPool's own, such as "Pong-v5", which is the
            game with preprocessing.
        env_type: which results: "gym" and "gymnasium" are the same, as in EnvPool.
        **kwargs: see `make_gymnasium`.
    """
    if env_type not in ("gym", "gymnasium", "dm"):
        raise ConfigError(f"env_type must be 'gym', 'gymnasium' or 'dm', got {env_type!r}")
    return make_dm(task_id, **kwargs) if env_type == "dm" else make_gymnasium(task_id, **kwargs)


def make_gymnasium(
    task_id: str,
    num_envs: int = 1,
    batch_size: int | None = None,
    num_threads: int | None = None,
    seed: Any = 42,
    **kwargs: Any,
) -> EnvPool:
    """Make envs with results as Gymnasium has them.

    Args:
        task_id: see `make`.
        num_envs: how many.
        batch_size: how many envs `recv` waits for; None or 0: all.
        num_threads: `workers` of `vecenv.make`; None or 0: as many as suit.
        seed: of the first reset: an int, from which every env gets a seed of its own, or a list of one int per env.
        **kwargs: options of `vecenv.make`, such as `engine`, and constructor arguments of the envs; for Atari games
            EnvPool's `stack_num`, `frame_skip`, `noop_max`, `episodic_life`, `use_fire_reset`, `reward_clip`,
            `gray_scale`, `img_height` and `img_width`.

    Raises:
        ConfigError: an argument of EnvPool's has no meaning here.
    """
    for name in _NOT_HERE.keys() & kwargs.keys():
        raise ConfigError(f"{name}={kwargs[name]!r}: {_NOT_HERE[name]}; leave it out")
    given = {"num_envs": num_envs, "batch_size": batch_size or num_envs, "num_threads": num_threads, "seed": seed}
    config = {"task_id": task_id, **given, **kwargs}
    id, options = _game(task_id, dict(kwargs))
    if num_threads:
        options["workers"] = num_threads
    envs = make_envs(id, num_envs, batch_size=batch_size or None, autoreset="next-step", **options)
    return EnvPool(envs, seed, config)


def make_gym(task_id: str, **kwargs: Any) -> EnvPool:
    """The same as `make_gymnasium`, as in EnvPool."""
    return make_gymnasium(task_id, **kwargs)


def make_dm(task_id: str, **kwargs: Any) -> DmEnvPool:
    """Make envs with results as dm_env has them; arguments are those of `make_gymnasium`."""
    return DmEnvPool(make_gymnasium(task_id, **kwargs))


def _game(task_id: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The id and the options of a game by EnvPool's words; others unchanged."""
    id = without_module(task_id)
    register_games(id)
    id = f"ALE/{id}" if id.endswith("-v5") and "/" not in id else id
    if not is_game(id):
        return task_id, options
    screens: dict[str, Any] = {"fire_reset": True}
    screens.update((ours, options.pop(theirs)) for theirs, ours in _SCREENS.items() if theirs in options)
    screens["episodic_life"] = "continue" if options.pop("episodic_life", False) else False
    height, width = options.pop("img_height", 84), options.pop("img_width", 84)
    options.setdefault("repeat_action_probability", 0.0)
    return id, {**options, "preprocessing": {**screens, "screen_size": (width, height)}}
