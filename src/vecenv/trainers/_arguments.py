"""Arguments of trainers: what is wrong with them, and what to write instead."""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

import gymnasium

from vecenv._batch.seeding import LARGEST_OF_RUN
from vecenv._util.checks import brief
from vecenv._util.suggest import did_you_mean
from vecenv.agents import MultiAgentVectorEnv
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.trainers._settings import OTHER_NAMES

_ELSEWHERE = {
    "verbose": "progress goes to a callback: {name}(envs).learn(steps, print)",
    "tensorboard_log": "curves go to loggers: {name}(envs).learn(steps, loggers=TensorBoard('runs/mine'))",
    "policy_kwargs": "layers are settings, {name}(envs, {usual}(hidden=(64, 64))); a network of your own is network=",
    "env": "the envs come first: {name}(envs)",
    "policy": "there is no policy to name: {name}(envs); a network of your own is network=",
}
"""Its other arguments, and what to write."""
_OF_LEARN = {
    "total_timesteps": "the number of steps is total_steps",
    "timesteps": "the number of steps is total_steps",
    "steps": "the number of steps is total_steps",
    "log_interval": "progress goes to a callback: learn(total_steps, print)",
    "progress_bar": "progress goes to a callback: learn(total_steps, print)",
    "tb_log_name": "curves go to loggers: learn(total_steps, loggers=TensorBoard('runs/mine'))",
    "reset_num_timesteps": "total_steps counts from the first call of learn",
}
"""Arguments of `learn` in other libraries, and what to write."""
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def explained(learn: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorate `learn`: a call that does not fit its arguments is a ConfigTypeError that says what to write."""
    signature = inspect.signature(learn)

    @functools.wraps(learn)
    def checked(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        try:
            signature.bind(*arguments, **named)
        except TypeError as error:
            for name in named:
                if name in _OF_LEARN:
                    raise ConfigTypeError(f"learn has no {name}: {_OF_LEARN[name]}") from error
                if name not in signature.parameters:
                    hint = did_you_mean(name, signature.parameters, "it has total_steps, callback and loggers")
                    raise ConfigTypeError(f"learn has no argument {name!r}{hint}") from error
            raise ConfigTypeError(f"learn: {error}; write learn(total_steps)") from error
        return learn(*arguments, **named)

    return checked


def check_call(cls: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raise ConfigError if `cls.__init__` cannot be called like this."""
    if arguments and isinstance(arguments[0], str):
        _refuse_policy(cls, arguments[0])
    signature = inspect.signature(cls.__init__)
    try:
        signature.bind(None, *arguments, **named)
    except TypeError as error:
        for name in named:
            if name not in signature.parameters:
                raise ConfigTypeError(_unknown(cls, name, named[name], signature)) from error
        name, usual = cls.__name__, cls.Config.__name__
        raise ConfigTypeError(f"{name}: {error}; write {name}(envs, {usual}(...), seed=0)") from error


def _unknown(cls: Any, argument: str, value: Any, signature: inspect.Signature) -> str:
    """What to write instead of an argument that there is not."""
    name, usual = cls.__name__, cls.Config.__name__
    known = [field.name for field in fields(cls.Config)]
    setting = argument if argument in known else OTHER_NAMES.get(argument)
    if setting in known:
        ours = "" if setting == argument else f" (here {setting})"
        return f"{argument}{ours} is a setting: write {name}(envs, {usual}({setting}={value!r:.40}))"
    if argument in _ELSEWHERE:
        return f"{name} has no {argument}: {_ELSEWHERE[argument].format(name=name, usual=usual)}"
    ours = [each for each in signature.parameters if each != "self"]
    hint = did_you_mean(argument, [*ours, *known], f"it has {', '.join(ours)}")
    return f"{name} has no argument {argument!r}{hint}"


def _refuse_policy(cls: Any, envs: str) -> None:
    """Raise ConfigError for a call in the manner of Stable-Baselines3."""
    name, usual = cls.__name__, cls.Config.__name__
    if envs.endswith("Policy"):
        raise ConfigError(
            f"{name} takes no name of a policy ({envs!r}): write {name}(envs), or {name}(envs, {usual}(hidden=(64,))); "
            "a network of your own is network="
        )


def check_arguments(cls: Any, envs: Any, config: Any, seed: Any, optimizer: Any) -> None:
    """Raise ConfigError for arguments that cannot be right, before anything is made."""
    name, usual = cls.__name__, cls.Config.__name__
    if isinstance(envs, gymnasium.Env):
        raise ConfigTypeError(
            f"{name} trains on a vector env, got the env {type(envs).__name__}; write {name}('CartPole-v1') or "
            f"{name}(vecenv.make(lambda: make_my_env(), 8))"
        )
    several = envs if isinstance(envs, (list, tuple)) else [envs]
    if not several or not all(
        isinstance(one, (str, gymnasium.vector.VectorEnv, MultiAgentVectorEnv)) for one in several
    ):
        raise ConfigTypeError(f"envs must be an env id, a vector env or a list of vector envs, got {brief(envs)}")
    if several is envs and any(isinstance(one, str) for one in several):
        raise ConfigTypeError(
            f"a list must be of vector envs, got {brief(envs)}; write {name}({several[0]!r:.40}) to train on an id"
        )
    if len({id(getattr(one, "unwrapped", one)) for one in several}) < len(several):
        raise ConfigError("the same vector env is in the list twice; make one for each group")
    if any(getattr(one, "closed", False) is True for one in several):
        raise ConfigError("the vector env is closed; make another one")
    if config is not None and not isinstance(config, cls.Config):
        raise ConfigTypeError(
            f"config must be {usual}(...), got {brief(config)}; write {name}(envs, {usual}(learning_rate=1e-3))"
        )
    checked_seed(seed)
    if optimizer is not None and not callable(optimizer):
        raise ConfigTypeError(
            f"optimizer must be a class such as torch.optim.AdamW, or a function that makes one, got {brief(optimizer)}"
        )


def checked_seed(seed: Any) -> int:
    """The seed of a trainer as an int; Python's and NumPy's integers are accepted. Raises ConfigError otherwise."""
    number = None
    if not isinstance(seed, bool):
        with contextlib.suppress(TypeError):
            number = operator.index(seed)
    if number is None:
        raise ConfigTypeError(f"seed must be an int of at least 0, got {brief(seed)}")
    if not 0 <= number <= LARGEST_OF_RUN:
        raise ConfigError(f"seed must be an int of at least 0 and at most 2**63 - 2**32, got {number}")
    return number
