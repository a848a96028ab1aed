"""Find the envs and checkpoints that users name on the command line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from vecenv._make.make import make
from vecenv._make.source import NAMESPACE, find_build, resolve
from vecenv._util.files import open_text, parsed
from vecenv._util.specs import find_spec
from vecenv._util.suggest import did_you_mean
from vecenv.engines import Request, registry
from vecenv.engines.python.factories import factories
from vecenv.errors import ConfigError, UnknownEnv
from vecenv.kernel.language.registry import kernel_ids, kernel_of
from vecenv.recording._builds import names_of_code

CHECKPOINTS, SUFFIX = "checkpoints", ".npz"
_CONFIG = {"env": str, "algo": str, "kwargs": dict, "engine": str, "steps": int}
"""Required entries of config.json."""


@dataclass(frozen=True)
class EnvSource:
    """An env named on the command line: `env` is what `vecenv.make` takes, `kwargs` are constructor arguments."""

    name: str
    env: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str | None:
        """The id, if the env is made from nothing but an id; else None."""
        return self.env if isinstance(self.env, str) and not self.kwargs else None

    @property
    def title(self) -> str:
        """The name for headings and file names."""
        return self.name.rpartition(":")[2].replace("/", "-")

    def refusal(self, engine: str) -> str | None:
        """Why the engine of this name cannot run the env, None if it can."""
        kind = registry.find(engine)
        found = resolve(self.env, 1, dict(self.kwargs) or None, None, {})
        return kind.unavailable() or kind().refuses(found, Request(1))

    def factory(self) -> Callable[[], Any]:
        """Builds one Python env, as the engines build it."""
        return factories(find_build(self.env)[1], 1, self.kwargs or None)[0][0]

    def make(self, num_envs: int, **options: Any) -> Any:
        return make(self.env, num_envs, env_kwargs={**self.kwargs, **options.pop("env_kwargs", {})}, **options)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint named on the command line, and the config of its run.

    Attributes:
        path: path of the file.
        run: the run's directory, None if the file is not in one.
        config: content of the run's config.json, empty if there is none.
    """

    path: Path
    run: Path | None
    config: dict[str, Any]


def find_env(name: str, kwargs: Mapping[str, Any] | None = None) -> EnvSource:
    """The env of an id, `module:Class` or `path/file.py:Class`. Raises a ConfigError that names similar ones."""
    kwargs = dict(kwargs or {})
    module, _, attribute = name.partition(":")
    if _imports(name):
        found = _imported(name, module, attribute)
        if found is not None:
            return EnvSource(name, found, kwargs)
    kernel, _ = find_build(name)
    if kernel is None:
        try:
            find_spec(name)
        except (UnknownEnv, gymnasium.error.Error) as error:
            ids = [*kernel_ids(), *(id for id in gymnasium.registry if not id.startswith(f"{NAMESPACE}/"))]
            hint = did_you_mean(name, ids, "see `vecenv list`, or name a class: module:Class")
            raise UnknownEnv(f"there is no env {name!r}{hint}") from error
    return EnvSource(name, name, kwargs)


def _imported(name: str, module: str, attribute: str) -> Any:
    """The object named by `module:attribute`; None if it is an id that Gymnasium understands: module:Id-v0."""
    path = Path(module)
    if path.suffix == ".py":
        if not path.is_file():
            raise ConfigError(f"there is no file {module} (in {Path.cwd()})")
        sys.path.insert(0, str(path.parent.resolve()))
        module = path.stem
    elif os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # as with `python -m`
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(f"{module!r} cannot be imported: {error}") from error
        raise ConfigError(f"there is no module {module!r} (looked in {os.getcwd()} too), as in {name!r}") from error
    except Exception as error:
        raise ConfigError(f"{module!r} cannot be imported: {type(error).__name__}: {error}") from error
    holder = found
    for part in attribute.split("."):
        holder, found = found, getattr(found, part, None)
        if found is None:
            if name in gymnasium.registry or attribute in gymnasium.registry:
                return None
            raise ConfigError(f"{module!r} has no {attribute!r}{did_you_mean(part, dir(holder))}")
    if kernel_of(found) is None and not callable(found):
        raise ConfigError(
            f"{name} is a {type(found).__name__}; name an env class, a kernel or a function that makes one"
        )
    return found


def space_words(space: gymnasium.Space[Any]) -> str:
    """A short description of a space: Box 4 float32."""
    if isinstance(space, gymnasium.spaces.Box):
        return f"Box {'x'.join(map(str, space.shape)) or 'scalar'} {space.dtype}"
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"Discrete {space.n}"
    if isinstance(space, gymnasium.spaces.Tuple):
        return f"({', '.join(map(space_words, space.spaces))})"
    if isinstance(space, gymnasium.spaces.Dict):
        return f"{{{', '.join(f'{name}: {space_words(part)}' for name, part in space.spaces.items())}}}"
    return " ".join(str(space).split())


def looks_like_path(name: str) -> bool:
    """Whether the name is a checkpoint or a run rather than an env such as path/file.py:Class."""
    if name.partition(":")[0].endswith(".py"):
        return False
    return Path(name).exists() or name.endswith(SUFFIX) or name.startswith(("./", "../", "/", "runs/"))


def find_checkpoint(name: str) -> Checkpoint:
    """A checkpoint by its path, or the newest of a run's directory. Raises a ConfigError that names similar ones."""
    path = Path(name)
    if not path.exists():
        parent = path.parent
        near = did_you_mean(path.name, (one.name for one in parent.iterdir())) if parent.is_dir() else ""
        raise ConfigError(f"there is no checkpoint or run {name!r}{near}")
    if path.is_dir():
        inside = path if path.name == CHECKPOINTS else path / CHECKPOINTS
        numbered = [file for file in inside.glob(f"step-*{SUFFIX}") if file.stem.partition("-")[2].isdecimal()]
        files = sorted(numbered, key=lambda file: int(file.stem.partition("-")[2]))
        if not files:
            raise ConfigError(f"the run {name!r} has no checkpoints ({inside}/step-N{SUFFIX})")
        path = files[-1]
    run = path.parent.parent if path.parent.name == CHECKPOINTS else path.parent
    return Checkpoint(path, *read_run(run))


def read_run(run: Path) -> tuple[Path | None, dict[str, Any]]:
    """A run's directory and its config; (None, {}) if it is not a run."""
    file = run / "config.json"
    if not file.is_file():
        return None, {}
    try:
        with open_text(file) as text:
            found = parsed(text.read())
    except ValueError as error:
        raise ConfigError(f"{file} is damaged: {error}") from error
    for name, kind in _CONFIG.items():
        given = found.get(name) if isinstance(found, dict) else None
        if not isinstance(given, kind) or isinstance(given, bool):
            raise ConfigError(f"{file} is damaged: {name!r} must be {kind.__name__}, it has {given!r:.80}")
    return run, found


def env_of(checkpoint: Checkpoint, env: str | None, kwargs: Mapping[str, Any], trust: bool) -> EnvSource:
    """The env that a checkpoint was trained on, or the env named by --env.

    Raises:
        ConfigError: the files do not say which env, there is no such env, or they name code and are not trusted.
    """
    if env is not None:
        return find_env(env, kwargs)
    name = _trained_on(checkpoint)
    if name is None:
        raise ConfigError(f"{checkpoint.path} does not say which env it was trained on; pass --env")
    code = _code_of(checkpoint)
    if code and not trust:
        raise ConfigError(
            f"{checkpoint.path} names code, {' and '.join(code)!s:.300}, that would be imported and run; nothing was. "
            "If you trust whoever made it, pass --trust; eval and play also take an env that you name: --env"
        )
    try:
        return find_env(name, {**checkpoint.config.get("kwargs", {}), **kwargs})
    except ConfigError as error:
        raise type(error)(f"the env of {checkpoint.path}: {error}; pass another with --env") from error


def load_trainer(checkpoint: Checkpoint, make_envs: Callable[[Any], Any]) -> Any:
    """The trainer of a checkpoint, of whichever algorithm; `make_envs` is called if it has no plain id of its envs."""
    from vecenv import trainers

    stored = _stored(checkpoint)
    cls = trainers.PPO if stored["algorithm"] == "PPO" else trainers.SAC
    if stored["env_id"] is not None and not _imports(stored["env_id"]):
        return cls.load(checkpoint.path)
    return cls.load(checkpoint.path, make_envs(cls.config_of(checkpoint.path)))


@contextmanager
def acting(policy: Any) -> Iterator[Any]:
    """The policy for `evaluate` and `play`, with a number of torch threads that suits its size."""
    from vecenv.trainers._collect import torch_threads

    with torch_threads(None, sum(part.numel() for part in policy._network.parameters())):
        yield policy


def load_policy(checkpoint: Checkpoint, source: EnvSource, trust: bool) -> Any:
    """The policy of a checkpoint, loaded with envs as in training; with envs of `source` if it names none to trust."""

    def make_envs(config: Any) -> Any:
        known = _trained_on(checkpoint) is not None and (trust or not _code_of(checkpoint))
        return (env_of(checkpoint, None, {}, trust) if known else source).make(config.num_envs)

    trainer = load_trainer(checkpoint, make_envs)
    trainer.close()
    return trainer.policy


def _trained_on(checkpoint: Checkpoint) -> str | None:
    """The name of the env that a checkpoint was trained on, if its files say it."""
    return checkpoint.config.get("env") or _stored(checkpoint)["env_id"]


def _code_of(checkpoint: Checkpoint) -> list[str]:
    """What the files of a checkpoint name that would be imported or called to make its env: they may be anyone's."""
    name = _trained_on(checkpoint) or ""
    return [*([name] if _imports(name) else []), *names_of_code(checkpoint.config.get("kwargs", {}))]


def _imports(name: str) -> bool:
    """Whether finding the env of this name imports something: module:Class, module:Id-v0, file.py:Class."""
    return ":" in name and not name.startswith(f"{NAMESPACE}:")


def _stored(checkpoint: Checkpoint) -> dict[str, Any]:
    from vecenv.trainers._trainer import read_checkpoint

    return read_checkpoint(checkpoint.path)
