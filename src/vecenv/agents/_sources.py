"""What users pass to `make` as an env with several agents: names of PettingZoo's modules, classes, functions."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import gymnasium

from vecenv._util.specs import FAMILIES, PETTINGZOO
from vecenv._util.suggest import nearest
from vecenv.agents._groups import SlotOptions
from vecenv.agents._slot_env import slotted
from vecenv.errors import ConfigError, ConfigTypeError, MissingExtra, UnknownEnv

EXAMPLE = f"{PETTINGZOO}mpe2.simple_spread_v3"
NO_SLOTS = {"agents": None, "end": "all", "slots": None, "groups": None, "pad": False}


def agent_env(env: Any, asked: Mapping[str, Any]) -> tuple[Any, Callable[[Any], Any] | None]:
    """What makes the env, and the wrapper that gives its rows slots; None if it cannot have several agents.

    Args:
        env: what a user passes to `make`; no kernel and no task.
        asked: `agents`, `end`, `slots`, `groups` and `pad` of `make`.

    Raises:
        ConfigError: an option is not valid, or is not for this env.
        UnknownEnv: there is no PettingZoo env of this name.
        MissingExtra: it needs a package that is not installed.
    """
    given = {name: value for name, value in asked.items() if value is not NO_SLOTS[name] and value != NO_SLOTS[name]}
    agents = given.pop("agents", None)
    if agents not in (None, True, False):
        raise ConfigTypeError(f"agents must be True, False or None, got {agents!r:.40}")
    SlotOptions(**given)
    named = isinstance(env, str) and env.startswith(PETTINGZOO)
    if agents is False and (given or named):
        raise ConfigError(f"agents=False, but {', '.join(given) or repr(env)} is for envs with several agents")
    if named:
        find_pettingzoo(env)  # a wrong name is an error of the call, not of the first env
        return functools.partial(make_pettingzoo, env), functools.partial(slotted, agents=True, **given)
    if agents or given:
        return env, functools.partial(slotted, agents=True, **given)
    may_have_agents = agents is None and not isinstance(env, str) and not _makes_one_agent(env)
    return env, slotted if may_have_agents else None


def refuse_slots(asked: Mapping[str, Any], what: str, with_agents: bool = False) -> None:
    """Raise ConfigError for options of agents where they are not for this env; `end` is for all that have agents."""
    for name, default in NO_SLOTS.items():
        if with_agents and name == "end":
            continue
        if asked[name] is not default and asked[name] != default:
            raise ConfigError(f"{name}={asked[name]!r:.40} is for PettingZoo envs and envs with num_agents; {what}")


def _makes_one_agent(env: Any) -> bool:
    """Whether everything that is passed makes Gymnasium envs, as far as one can see without calling it."""
    if isinstance(env, (list, tuple)):
        return all(map(_makes_one_agent, env))
    while isinstance(env, functools.partial):
        env = env.func
    return not callable(env) or (inspect.isclass(env) and issubclass(env, gymnasium.Env))


def make_pettingzoo(name: str, **kwargs: Any) -> Any:
    """The PettingZoo env of a name, see `find_pettingzoo`."""
    return find_pettingzoo(name)(**kwargs)


def find_pettingzoo(name: str) -> Callable[..., Any]:
    """What makes the PettingZoo env of a name such as "pettingzoo:mpe2.simple_spread_v3".

    Its `parallel_env` if the module has one, else its `env`; "pettingzoo:mpe2.simple_spread_v3.env" names one of them.

    Raises:
        UnknownEnv: there is no such module.
        MissingExtra: PettingZoo, or what the env needs, is not installed.
    """
    with warnings.catch_warnings():
        # PettingZoo 1.27 deprecates these modules in favour of its registry, which has the same names.
        warnings.simplefilter("ignore", DeprecationWarning)
        found = _find(name.removeprefix(PETTINGZOO).replace("/", ".").replace(":", "."))
        _refuse_old(name, found)
    if isinstance(found, ModuleType):
        found = getattr(found, "parallel_env", None) or getattr(found, "env", None)
    if not callable(found):
        raise UnknownEnv(f"{name!r} is no PettingZoo env: a module with parallel_env or env, or one of these functions")
    return found


def _find(path: str) -> Any:
    """A module, or something in one; PettingZoo's own families need no "pettingzoo." before them."""
    if path.partition(".")[0] in FAMILIES:
        path = f"pettingzoo.{path}"
    outer, _, last = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not (path == error.name or path.startswith(f"{error.name}.")):
            raise _missing(path, error) from error
        if error.name in ("pettingzoo", "mpe2"):
            raise _missing(path, error) from error
    if not outer:
        raise UnknownEnv(f"there is no module {path!r}; pass a module of PettingZoo envs, as in {EXAMPLE!r}")
    try:
        module = importlib.import_module(outer)
    except ModuleNotFoundError as error:
        parent, _, inner = outer.rpartition(".")
        if parent and error.name == outer:
            _refuse_old(path, getattr(importlib.import_module(parent), inner, None))
        raise UnknownEnv(f"there is no module {path!r}, nor {error.name!r}; pass a module of PettingZoo envs") from None
    found = getattr(module, last, None)
    if found is None:
        raise UnknownEnv(_unknown(path, module, last))
    return found


def _refuse_old(name: str, found: Any) -> None:
    """Raise UnknownEnv for what PettingZoo has in the place of an env of an older version."""
    if type(found).__name__ != "DeprecatedModule":
        return
    try:
        found.env()
    except ImportError as error:  # PettingZoo's DeprecatedEnv, which names the newer version
        raise UnknownEnv(f"the PettingZoo that is installed has no {name!r}: {error}") from None


def _missing(path: str, error: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(
        f"{path} needs {error.name}, which is not installed; pip install 'vecenv[agents]', and what PettingZoo's page "
        "of that env names (pip install 'pettingzoo[classic]', ...)"
    )


def _unknown(path: str, module: Any, last: str) -> str:
    try:
        folder = [entry.name for place in module.__path__ for entry in _entries(place)]
    except AttributeError:
        folder = list(vars(module))
    near = nearest(last, folder)
    return f"there is no PettingZoo env {path!r}" + (f"; did you mean {near!r}?" if near else "")


def _entries(place: str) -> Any:
    import pkgutil

    return pkgutil.iter_modules([place])
