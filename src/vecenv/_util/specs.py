"""Looking up ids in Gymnasium's registry."""

from __future__ import annotations

import importlib
import importlib.util
import re
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, registry

from vecenv._util.text import text_of, type_name
from vecenv.errors import UnknownEnv

PETTINGZOO = "pettingzoo:"
"""Before the name of a module of PettingZoo's, which is no id."""
FAMILIES = ("classic", "butterfly", "sisl", "atari", "mpe", "magent")
"""Of PettingZoo's own envs; their names need no "pettingzoo." before them."""
_MAY_BE_GAME = re.compile(r"\w+-v5")
_GAMES_HINT = " If it is an Atari game, use 'ALE/{}', which needs ale-py: pip install 'vecenv[atari]'."
_OWN_ENV = re.compile(rf"{PETTINGZOO}({'|'.join((*FAMILIES, 'mpe2'))})[./]\w+_v\d+([.:](raw_|parallel_)?env)?")


def imports_code(env: str) -> bool:
    """Whether making an env of this name imports what the name says, rather than an env of a known package.

    So a file that may come from anyone must not have it made.
    """
    return ":" in env and not _OWN_ENV.fullmatch(env)


def without_module(env: Any) -> Any:
    """The id of "module:id", after its module was imported, which registers it. Anything else is returned unchanged.

    Raises:
        UnknownEnv: there is no such module, or it cannot be imported.
    """
    if not isinstance(env, str) or ":" not in env or env.startswith(PETTINGZOO):
        return env
    module, _, id = env.partition(":")
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UnknownEnv(f"{env!r}: there is no module {error.name!r}; install the package that has it") from error
    except Exception as error:  # whatever the module does when it is imported
        raise UnknownEnv(f"{env!r}: importing {module} raised {type_name(error)}: {text_of(error)}") from error
    return id


def find_spec(env: str | EnvSpec) -> EnvSpec:
    """Gymnasium's spec for an id, with its own "did you mean" if there is none."""
    if isinstance(env, EnvSpec):
        return env
    id = without_module(env)
    try:
        return gymnasium.spec(id)
    except gymnasium.error.UnregisteredEnv as error:
        namesake = next((known for known in registry if known.partition("/")[2] == id), None)
        if namesake is not None:
            raise UnknownEnv(f"there is no env {id!r}; did you mean {namesake!r}?") from error
        hint = "" if importlib.util.find_spec("ale_py") or not _MAY_BE_GAME.fullmatch(id) else _GAMES_HINT.format(id)
        raise UnknownEnv(f"{error} Import the package that registers it first, or pass a function.{hint}") from error
    except gymnasium.error.Error as error:
        raise UnknownEnv(str(error)) from error
