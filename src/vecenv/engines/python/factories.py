"""From what a user passes as `env` to one factory per row."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from vecenv._util.checks import brief
from vecenv._util.foreign import advice_about
from vecenv._util.specs import find_spec
from vecenv.engines.python.envs import Factory, close_quietly
from vecenv.errors import ConfigError, ConfigTypeError, SpaceError

EnvWrapper = Callable[[gymnasium.Env[Any, Any]], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class MakeEnv:
    """Builds one env. Picklable, and complete: a worker needs no registry of its own."""

    source: EnvSpec | Callable[..., gymnasium.Env[Any, Any]]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[EnvWrapper, ...] = ()

    def __call__(self) -> gymnasium.Env[Any, Any]:
        if isinstance(self.source, EnvSpec):
            env = gymnasium.make(self.source, **self.kwargs)
        else:
            env = self.source(**self.kwargs)
        for wrapper in self.wrappers:
            env = wrapper(env)
        return env


@dataclass(frozen=True)
class Renewal:
    """In the place of reset options: those, and constructor arguments that the env is built again with before.

    Attributes:
        kwargs: added to the arguments of the env's factory.
        options: what its reset gets.
    """

    kwargs: dict[str, Any]
    options: dict[str, Any] | None = None

    def rebuild(self, factory: Factory, env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
        """Close `env` and return the env that replaces it. Raises SpaceError if its spaces differ."""
        built = self.factory(factory)()
        if not self.fits(built, env):
            close_quietly(built)
            raise self.misfit()
        close_quietly(env)
        return built

    def is_met_by(self, kwargs: dict[str, Any]) -> bool:
        """Whether an env was built with these arguments; not if their equality has no truth value, as of arrays."""
        try:
            return bool(self.kwargs == kwargs)
        except Exception:
            return False

    def factory(self, factory: Factory) -> Factory:
        """What builds the env, given the factory of the env before."""
        if isinstance(factory, MakeEnv):
            return replace(factory, kwargs={**factory.kwargs, **self.kwargs})
        return functools.partial(factory, **self.kwargs)

    def fits(self, built: gymnasium.Env[Any, Any], env: gymnasium.Env[Any, Any]) -> bool:
        """Whether what was built has the spaces of the env that it replaces."""
        return (built.observation_space, built.action_space) == (env.observation_space, env.action_space)

    def misfit(self) -> SpaceError:
        """The error about an env that has other spaces."""
        return SpaceError(f"with {self.kwargs!r:.200} the env has other spaces than before; all rows share them")


def factories(
    env: Any,
    num_envs: int,
    env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    wrappers: Sequence[EnvWrapper] | None = None,
) -> tuple[list[Factory], EnvSpec | None]:
    """One factory per row, and Gymnasium's spec if the env has one.

    Args:
        env: a Gymnasium id or EnvSpec, a callable, or a list of callables, which then sets the number of rows.
        num_envs: number of rows.
        env_kwargs: constructor arguments, one mapping for all or one per row.
        wrappers: applied to every single env, in this order.
    """
    sources, spec = _sources(env, num_envs)
    every_kwargs = kwargs_per_env(env_kwargs, len(sources))
    wrapped = check_wrappers(wrappers)
    if not isinstance(env, (str, EnvSpec)) and not wrapped and not any(every_kwargs):
        return list(sources), spec
    if not isinstance(env, (list, tuple)) and not isinstance(env_kwargs, (list, tuple)):
        one = MakeEnv(sources[0], every_kwargs[0], wrapped)  # for all rows: a million would take long to make
        return [one] * len(sources), spec
    return [MakeEnv(source, kwargs, wrapped) for source, kwargs in zip(sources, every_kwargs, strict=True)], spec


def _sources(env: Any, num_envs: int) -> tuple[Sequence[Any], EnvSpec | None]:
    if isinstance(env, (str, EnvSpec)):
        spec = find_spec(env)
        return [importable(spec)] * num_envs, spec
    if isinstance(env, (list, tuple)):
        return _check_list(env, num_envs), None
    if callable(env) and not isinstance(env, gymnasium.Env):
        return [env] * num_envs, None
    raise ConfigTypeError(
        f"env must be a Gymnasium id, EnvSpec, callable or list of callables; got {brief(env)}{advice_about(env)}"
    )


def _check_list(env_fns: Sequence[Any], num_envs: int) -> Sequence[Factory]:
    if not env_fns:
        raise ConfigError("the list of env functions is empty; at least one env factory is needed")
    for row, env_fn in enumerate(env_fns):
        if not callable(env_fn):
            raise ConfigTypeError(f"env_fns[{row}] is not callable (got {type(env_fn).__name__}){advice_about(env_fn)}")
    if num_envs not in (1, len(env_fns)):
        raise ConfigError(f"num_envs={num_envs}, but the list has {len(env_fns)} env functions; leave num_envs out")
    return env_fns


def importable(spec: EnvSpec) -> EnvSpec:
    """A spec that a process without the user's script can build: an entry point in `__main__` becomes the class."""
    entry_point = spec.entry_point
    if isinstance(entry_point, str) and entry_point.startswith("__main__:"):
        spec = copy.copy(spec)
        spec.entry_point = load_env_creator(entry_point)  # type: ignore[assignment]  # what Gymnasium itself calls
    return spec


def kwargs_per_env(env_kwargs: Any, count: int) -> list[Mapping[str, Any]]:
    """One mapping of constructor arguments per row, from one for all or a list."""
    if env_kwargs is None:
        return [{}] * count
    if isinstance(env_kwargs, Mapping):
        return [env_kwargs] * count
    if not isinstance(env_kwargs, (list, tuple)):
        raise ConfigTypeError(f"env_kwargs must be a dict, or a list of one dict per env; got {brief(env_kwargs)}")
    if len(env_kwargs) != count:
        raise ConfigError(f"got {len(env_kwargs)} env_kwargs for {count} envs; pass one dict per env")
    for row, kwargs in enumerate(env_kwargs):
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise ConfigTypeError(f"env_kwargs[{row}] must be a dict or None, got {brief(kwargs)}")
    return [kwargs or {} for kwargs in env_kwargs]


def check_wrappers(wrappers: Any) -> tuple[EnvWrapper, ...]:
    """Single-env wrappers as a tuple; raises if something else is among them."""
    if wrappers is None:
        return ()
    if callable(wrappers):
        wrappers = [wrappers]
    if not isinstance(wrappers, Iterable):
        raise ConfigTypeError(f"wrappers must be a list of callables, one callable or None; got {brief(wrappers)}")
    wrappers = list(wrappers)
    for index, wrapper in enumerate(wrappers):
        if not callable(wrapper):
            raise ConfigTypeError(f"wrappers[{index}] is not callable (got {type(wrapper).__name__})")
    return tuple(wrappers)
