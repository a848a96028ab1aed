"""Make the env of a recording again. Code that the file names is imported and called only if the user trusts it."""

from __future__ import annotations

import copy
import functools
import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import EnvSpec, registry

from vecenv._make.source import NAMESPACE, find_build, register_games, resolve
from vecenv.engines.python.envs import Factory
from vecenv.engines.recording.recording import Recording
from vecenv.errors import ConfigError, UnknownEnv, UnsafeFile
from vecenv.mujoco._registry import find_task
from vecenv.recording._kernel_state import env_at_start
from vecenv.recording._scripts import Script

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]")
_Scripts = Callable[[str], Script]


@dataclass(frozen=True)
class Parts:
    """What an env is made of: what `vecenv.make` takes for one env, its constructor arguments, and its wrappers."""

    source: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[Callable[..., Any], ...] = ()


def factory_of(recording: Recording, parts: Parts, render_mode: str | None = None) -> Factory:
    """A function that makes the env of a recording; its `reset` begins the recorded episode.

    Raises:
        ConfigError: the env cannot be made; the message says why.
    """
    kwargs = {**parts.kwargs, **recording.options.get("build_kwargs", {})}
    if recording.start["kind"] == "kernel-state":
        return functools.partial(env_at_start, recording, parts.source, kwargs, render_mode)
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    return resolve(parts.source, 1, kwargs, parts.wrappers or None, {}).env_fns[0]


def parts_of(build: Mapping[str, Any], trust: bool) -> Parts:
    """The parts of an env, from the description in its recording.

    Raises:
        UnsafeFile: the file names code that would have to be imported or called, and is not trusted.
        ConfigError: the description is incomplete, or names something that does not exist here.
    """
    unknown = [part for part in (build, *build.get("wrappers", [])) if part["kind"] == "unknown"]
    if unknown:
        raise ConfigError(
            f"the recording does not say how its env is made: {unknown[0]['why']} ({unknown[0]['repr']:.100}). Pass "
            "what makes it: vecenv.replay(file, env=...), or --env module:function"
        )
    if build["kind"] == "id" and ":" not in build["id"] and not build.get("entry_point") and not _is_known(build):
        raise UnknownEnv(
            f"there is no env {build['id']!r} here; import the package that registers it, or pass env=... "
            f"(--env package:{build['id']})"
        )
    code = [*([] if _is_known(build) else [title_of(build)]), *map(_reference, build.get("wrappers", []))]
    code += names_of_code({**build.get("kwargs", {}), **build.get("params", {})})
    if code and not trust:
        raise UnsafeFile(
            f"the recording names code, {' and '.join(code)}, that would be imported and run; nothing was. If you "
            "trust whoever wrote the file, pass trust=True (--trust); or say yourself what makes the env, with its "
            f"arguments and wrappers: env=... (--env {_example(build)})"
        )
    scripts = functools.cache(Script)  # the env and its wrappers must use the same classes
    if build["kind"] == "reference":
        source, kwargs = _called(build, scripts), {}
    elif build["kind"] == "kernel":
        source, kwargs = build["id"] if _is_known(build) else _imported(build, scripts), build.get("params", {})
    else:
        source, kwargs = _id_or_spec(build, scripts), build.get("kwargs", {})
    return Parts(source, kwargs, tuple(_called(part, scripts) for part in build.get("wrappers", [])))


def _is_known(build: Mapping[str, Any]) -> bool:
    """Whether the env is registered here, or in an installed package, under a plain id."""
    id = build.get("id")
    if build["kind"] == "reference" or id is None or (":" in id and not id.startswith(f"{NAMESPACE}:")):
        return False
    if build["kind"] == "kernel":
        found = find_task(id) or getattr(find_build(id)[0], "definition", None)
        return found is not None and build.get("where") in (None, f"{found.__module__}:{found.__qualname__}")
    register_games(id)
    return id in registry or find_task(id) is not None or find_build(id)[0] is not None


def names_of_code(value: Any) -> list[str]:
    """Texts in the arguments that look like `module:name`: some envs import what such an argument names."""
    if isinstance(value, dict):
        return [name for part in value.values() for name in names_of_code(part)]
    if isinstance(value, (list, tuple)):
        return [name for part in value for name in names_of_code(part)]
    return [value] if isinstance(value, str) and _NAME.match(value) else []


def _id_or_spec(build: Mapping[str, Any], scripts: _Scripts) -> str | EnvSpec:
    """The id, if it is registered as it was when the episode was recorded; else a spec as it was then."""
    id = build["id"]
    module, sign, _ = id.rpartition(":")
    if sign and not _is_known(build):
        try:
            importlib.import_module(module)
        except Exception as error:
            raise ConfigError(f"the module of {id!r} cannot be imported: {type(error).__name__}: {error}") from error
    plain = id.removeprefix(f"{module}:")
    known = registry.get(plain)
    if known is None and _is_known(build):
        return id
    if known is None and not build.get("entry_point"):
        raise UnknownEnv(f"{module} registers no {id!r}; pass env=... (--env)")
    if known is None:
        own: Any = _imported({"where": build["entry_point"], "file": build.get("file")}, scripts)
        spec = EnvSpec(plain, entry_point=own)
    else:
        spec = copy.deepcopy(known)
    for name in ("max_episode_steps", "order_enforce", "disable_env_checker"):
        if name in build:
            setattr(spec, name, build[name])
    return plain if spec == known else spec


def _called(part: Mapping[str, Any], scripts: _Scripts) -> Callable[..., Any]:
    """The object that a reference names, with its arguments bound."""
    found = _imported(part, scripts)
    args, kwargs = part.get("args", []), part.get("kwargs", {})
    return functools.partial(found, *args, **kwargs) if args or kwargs else found


def _imported(part: Mapping[str, Any], scripts: _Scripts) -> Any:
    name = part.get("where") or ""
    module, _, path = name.partition(":")
    try:
        if module == "__main__":
            found: Any = _main(part.get("file"), path, scripts)
        else:
            found = importlib.import_module(module)
    except Exception as error:
        raise ConfigError(
            f"{name!r}, which the recording names, cannot be imported: {type(error).__name__}: {error}. Is its module "
            "on the path (PYTHONPATH)? Or pass env=... (--env)"
        ) from error
    for attribute in path.split("."):
        found = getattr(found, attribute, None)
        if found is None:
            raise ConfigError(f"there is no {name!r}, which the recording names; pass env=... (--env)")
    return found


def _main(file: str | None, path: str, scripts: _Scripts) -> Any:
    """The script that defined the env: the running one, or another."""
    main, name = sys.modules["__main__"], path.partition(".")[0]
    here = getattr(main, "__file__", None)
    if hasattr(main, name) and (file is None or here is None or Path(here).resolve() == Path(file)):
        return main
    if file is None:
        raise ImportError("it was defined at a prompt or in a notebook")
    return scripts(file).defining(name)


def title_of(build: Mapping[str, Any]) -> str:
    """A short name of the env: its id, where it is defined, or its repr."""
    if build["kind"] == "unknown":
        return str(build["repr"])
    id, where = build.get("id"), build.get("where") or build.get("entry_point")
    if id is None or build["kind"] == "reference":
        return _reference(build)
    return f"{id} ({where})" if where and not _is_known(build) else str(id)


def _reference(part: Mapping[str, Any]) -> str:
    where = str(part.get("where"))
    file = part.get("file")
    return f"{where} in {file}" if file else where


def _example(build: Mapping[str, Any]) -> str:
    """An argument of --env: the env's id or class, or a function if it needs arguments or wrappers."""
    where = str(build.get("where") or "__main__")
    if any(build.get(name) for name in ("args", "kwargs", "params", "wrappers")):
        return "module:function"
    if build["kind"] == "id":
        return build["id"] if ":" in build["id"] else f"package:{build['id']}"
    return "module:function" if where.startswith("__main__") else where
