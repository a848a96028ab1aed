"""Ids of Atari games: what ale-py registers."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Mapping
from typing import Any

from gymnasium.envs.registration import EnvSpec, registry

from vecenv._util.suggest import did_you_mean
from vecenv.engines.python.factories import find_spec
from vecenv.errors import ConfigError, ConfigTypeError, MissingExtra, UnknownEnv
from vecenv.kernel.language.registry import find_kernel
from vecenv.mujoco._registry import find_task

_OURS = re.compile(r"ALE/|\w+NoFrameskip-v[04]$")
_PERHAPS = re.compile(r"\w+-v[04]$")
"""Ids of older games, but of others' envs as well."""
_OF_ALE = "ale_py.env:AtariEnv"
NATIVE_VERSION = "0.12."
"""Of ale-py, whose native envs are known to give the same results as `AtariGame`."""


def register_games(env: Any) -> None:
    """If this is the id of a game that is not registered yet, have ale-py register it.

    Raises:
        MissingExtra: there is no ale-py, and only it can have the id.
    """
    for id in env if isinstance(env, (list, tuple)) else [env]:
        if not isinstance(id, str) or id in registry:
            continue
        if _OURS.match(id):
            load_ale(id)
        elif _PERHAPS.match(id) and find_kernel(id) is None and find_task(id) is None:
            with contextlib.suppress(MissingExtra):  # then it is an unknown id
                load_ale(id)


def are_games(env: Any, engine: str) -> bool:
    """Whether `make_games` is to make these: a list of games, or one with a reason to tell why it is not native."""
    if isinstance(env, str):
        return engine == "auto" and bool(_OURS.match(env)) and _is_game(env)
    return isinstance(env, (list, tuple)) and bool(env) and all(_is_game(id) for id in env)


def load_ale(id: str) -> Any:
    """ale-py, which registers its games when it is imported."""
    try:
        import ale_py  # pyright: ignore[reportMissingImports]  # optional
    except ImportError as error:
        raise MissingExtra(f"{id} is a game of ale-py (GPL-2.0): pip install 'vecenv[atari]'") from error
    return ale_py


def _is_game(id: Any) -> bool:
    return isinstance(id, str) and id in registry and registry[id].entry_point == _OF_ALE


def find_game(env: Any) -> EnvSpec:
    """Gymnasium's spec of a game.

    Raises:
        UnknownEnv: no such game; it says which are near.
        ConfigError: that is another kind of env.
    """
    load_ale(str(getattr(env, "id", env)))
    if not isinstance(env, (str, EnvSpec)):
        raise ConfigTypeError(
            f"preprocessing is for ids of Atari games, such as 'ALE/Pong-v5', or a list of them; got {env!r:.60}"
        )
    try:
        spec = find_spec(env)
    except UnknownEnv:
        games = [id for id, spec in registry.items() if spec.entry_point == _OF_ALE]
        hint = did_you_mean(env, games, "ale-py has ids like 'ALE/Pong-v5'")
        raise UnknownEnv(f"there is no game {env!r}{hint}") from None
    if spec.entry_point != _OF_ALE:
        raise ConfigError(f"preprocessing and engine='ale' are for Atari games, and {spec.id} is none; use wrappers")
    return spec


def check_frame_skip(spec: EnvSpec) -> None:
    """Raise if the game skips frames at random, which preprocessing would change."""
    if isinstance(spec.kwargs.get("frameskip"), tuple):
        name = spec.name
        raise ConfigError(
            f"{spec.id} skips frames at random, preprocessing would not; use '{name}NoFrameskip-v4' or 'ALE/{name}-v5'"
        )


def check_arguments(id: str, given: Mapping[str, Any], options: list[str]) -> None:
    """Raise for constructor arguments that the game does not have, or that are a matter of preprocessing."""
    from ale_py import AtariEnv  # pyright: ignore[reportMissingImports]  # optional

    known = [*inspect.signature(AtariEnv).parameters, "max_episode_steps"]
    for name, value in given.items():
        if name in options or name == "frameskip":
            option = "frame_skip" if name == "frameskip" else name
            raise ConfigTypeError(f"{name} is a matter of preprocessing here: preprocessing={{{option!r}: {value!r}}}")
        if name not in known:
            hint = did_you_mean(name, [*known, *options], f"there are {', '.join(known)}")
            raise ConfigTypeError(f"{id} has no argument {name!r}{hint}")
    for name, plain in (("obs_type", "rgb"), ("continuous", False), ("sound_obs", False)):
        if given.get(name, plain) != plain:
            raise ConfigError(
                f"preprocessing makes frames of screens and passes actions on; {name}={given[name]!r} needs "
                "plain games: leave preprocessing out"
            )
    probability = given.get("repeat_action_probability", 0.0)
    if not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
        raise ConfigError(f"repeat_action_probability must be in 0 ... 1, got {probability!r}")
