"""Ids of Atari games: what ale-py registers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from gymnasium.envs.registration import EnvSpec, registry

from vecenv._util.specs import find_spec
from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, ConfigTypeError, MissingExtra, UnknownEnv

GAME_IDS = re.compile(r"ALE/|\w+NoFrameskip-v[04]$")
"""Ids that only games of ale-py have."""
_OF_ALE = "ale_py.env:AtariEnv"
NO_GAME = "{} for Atari games, and {} is none; "
NATIVE_VERSION = "0.12."
"""Versions of ale-py whose native envs are known to give the same results as `AtariGame` begin so."""


def load_ale(id: str) -> Any:
    """ale-py, which registers its games when it is imported."""
    try:
        import ale_py  # pyright: ignore[reportMissingImports]  # optional
    except ImportError as error:
        raise MissingExtra(f"{id} is a game of ale-py (GPL-2.0): pip install 'vecenv[atari]'") from error
    return ale_py


def is_game(id: Any) -> bool:
    """Whether this is the id of a game that ale-py has registered."""
    return isinstance(id, str) and id in registry and registry[id].entry_point == _OF_ALE


def find_game(env: Any) -> EnvSpec:
    """Gymnasium's spec of a game. Raises UnknownEnv with names that are near, ConfigError for another kind of env."""
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
        raise ConfigError(NO_GAME.format("preprocessing is", spec.id) + "use wrappers")
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
