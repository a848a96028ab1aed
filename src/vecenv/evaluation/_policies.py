"""One interface to all kinds of policies: actions for some envs, with recurrent states kept per env."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import cloudpickle
import gymnasium
import numpy as np

from vecenv._batch.layout import map_tree
from vecenv._front.action_masks import action_masks
from vecenv._util.checks import brief
from vecenv.errors import ConfigTypeError, InvalidAction, SpaceError

_STARTS = ("episode_start", "episode_starts")
_MASKS = ("action_masks", "action_mask", "mask")
_MASK_INFO = "action_mask"
"""The info with masks, for policies without a `mask_name` attribute that names it."""


def check_policy(policy: Any) -> None:
    """Raise ConfigTypeError unless the policy is callable or has `predict`, or is a dict of such policies."""
    if isinstance(policy, Mapping) and policy:
        for own in policy.values():
            check_policy(own)
    elif not callable(policy) and not callable(getattr(policy, "predict", None)):
        raise ConfigTypeError(
            f"policy must be a function of a batch of observations or have predict(); got {brief(policy)}"
        )


def snapshot(policy: Any) -> Any:
    """A copy that does not change when the policy does."""
    if isinstance(policy, Mapping):
        return {group: snapshot(own) for group, own in policy.items()}
    policy = _inner(policy)
    by_value = (types.FunctionType, types.MethodType, functools.partial)  # not copied by copy.deepcopy
    try:
        if isinstance(policy, by_value):
            return cloudpickle.loads(cloudpickle.dumps(policy))
        return copy.deepcopy(policy)
    except Exception as error:
        raise ConfigTypeError(
            f"the policy ({type(policy).__name__}) cannot be copied: {error!r:.200}; background=True needs a copy, so "
            "pass a policy that can be pickled, or evaluate in the foreground"
        ) from error


class Actor:
    """Calls a policy for actions in `envs`. Policies that have an argument `deterministic` get it."""

    def __init__(self, policy: Any, envs: gymnasium.vector.VectorEnv, deterministic: bool) -> None:
        policy = _inner(policy)
        _check_actions(policy, envs.single_action_space)
        self._function, self._layers_first = _function_of(policy, envs)
        names, required = _parameters(self._function)
        self._recurrent = "state" in names or required >= 3
        self._by_name = {name for name in ("state", *_STARTS) if name in names}
        self._mask_name = next((name for name in _MASKS if name in names), None)
        owner = getattr(policy, "__self__", policy)
        self._mask_info, self._mask_needed = getattr(owner, "mask_name", _MASK_INFO), hasattr(owner, "mask_name")
        self._fixed = {"deterministic": deterministic} if "deterministic" in names else {}
        self._count = envs.num_envs
        self._memory: Any = None

    def act(self, obs: Any, rows: np.ndarray, starts: np.ndarray, masks: Any) -> Any:
        """Actions for batched observations of the envs `rows`.

        `starts` marks first observations of episodes; `masks` says which actions are allowed, None without masks.
        """
        keywords = dict(self._fixed)
        if self._mask_name is not None and masks is not None:
            keywords[self._mask_name] = masks
        if not self._recurrent:
            return map_tree(_as_array, self._function(obs, **keywords))
        state = None if self._memory is None else map_tree(lambda leaf: self._envs_first(leaf[rows]), self._memory)
        if self._by_name:
            given = {"state": state, **dict.fromkeys(self._by_name - {"state"}, starts)}
            answer = self._function(obs, **given, **keywords)
        else:
            answer = self._function(obs, state, starts, **keywords)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InvalidAction(
                f"a policy that takes states returns (actions, states); it returned {type(answer).__name__}"
            )
        actions, state = answer
        if state is not None:
            self._keep(state, rows)
        return map_tree(_as_array, actions)

    def masks(self, infos: Any, env_ids: np.ndarray, acting: np.ndarray) -> np.ndarray | None:
        """The masks for `act`, from the infos of `env_ids`; None if the policy takes none or was trained without them.

        Raises ConfigError if an env that is `acting` next has no mask although the policy needs one or others have one.
        """
        name = self._mask_info
        if self._mask_name is None or name is None or not acting.any():
            return None
        return action_masks(infos, name, env_ids, acting) if self._mask_needed or name in infos else None

    def _envs_first(self, leaf: Any) -> Any:
        """A recurrent state with its axes of layers and envs exchanged, if layers come first."""
        return leaf.swapaxes(0, 1) if self._layers_first and leaf.ndim > 2 else leaf

    def _keep(self, state: Any, rows: np.ndarray) -> None:
        some = map_tree(self._envs_first, state)
        if self._memory is None:
            self._memory = map_tree(lambda leaf: _zeros(leaf, self._count), some)
        map_tree(lambda kept, leaf: kept.__setitem__(rows, leaf), self._memory, some)


@contextmanager
def evaluation_mode(policy: Any) -> Iterator[None]:
    """Set torch modules to evaluation mode, and restore their mode afterwards."""
    several = map(_inner, policy.values() if isinstance(policy, Mapping) else [policy])
    modules = [module for own in several if _is_module(own) for module in own.modules()]
    training = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, was in zip(modules, training, strict=True):
            module.training = was


def _inner(policy: Any) -> Any:
    """The policy inside an algorithm, without its envs and buffers; any other policy unchanged."""
    inner = getattr(policy, "policy", None)
    return inner if callable(getattr(policy, "predict", None)) and callable(getattr(inner, "predict", None)) else policy


def _check_actions(policy: Any, space: gymnasium.Space[Any]) -> None:
    """Raise SpaceError if the policy says that it was trained to choose among other actions."""
    trained = getattr(policy, "action_space", None)  # policies of vecenv's trainers and of Stable-Baselines3 have it
    if isinstance(trained, gymnasium.Space) and _choices(trained) != _choices(space):
        raise SpaceError(f"the policy was trained for the actions {trained}, those of these envs are {space}")


def _choices(space: gymnasium.Space[Any]) -> tuple[Any, ...]:
    """What spaces have in common if a policy for one of them can act in the other: bounds of a Box may differ."""
    sizes = np.asarray(getattr(space, "nvec", getattr(space, "n", 0))).tolist()
    return type(space), space.shape, sizes, np.asarray(getattr(space, "start", 0)).tolist()


def _function_of(policy: Any, envs: gymnasium.vector.VectorEnv) -> tuple[Callable[..., Any], bool]:
    """The function to call, and whether its states are [layers, envs, ...], as in Stable-Baselines3, or [envs, ...]."""
    predict = getattr(policy, "predict", None)
    if callable(predict):
        return predict, True
    if getattr(policy, "__name__", None) == "predict":
        return policy, True
    if _is_module(policy):
        return functools.partial(_ask_module, policy, envs.single_action_space), False
    return policy, False


def _parameters(function: Callable[..., Any]) -> tuple[set[str], int]:
    """Names of the parameters, and the number of required ones."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # not a Python function
        return set(), 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]
    return {one.name for one in parameters}, len(required)


def _is_module(policy: Any) -> bool:
    torch = sys.modules.get("torch")  # to pass a module, the caller has imported torch
    return torch is not None and isinstance(policy, torch.nn.Module)


def _ask_module(module: Any, space: gymnasium.Space[Any], obs: Any) -> Any:
    """Actions from a torch module; if it returns one score per action of a Discrete space, the highest one counts."""
    torch = sys.modules["torch"]
    like = next(module.parameters(), torch.zeros(0))

    def tensor(leaf: np.ndarray) -> Any:
        made = torch.as_tensor(leaf, device=like.device)
        return made.to(like.dtype) if made.is_floating_point() else made

    with torch.inference_mode():
        answer = module(map_tree(tensor, obs))
    scores = torch.is_tensor(answer) and answer.is_floating_point() and answer.ndim == 2
    if scores and isinstance(space, gymnasium.spaces.Discrete) and answer.shape[1] == space.n:
        return answer.argmax(dim=1) + int(space.start)
    return answer


def _as_array(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if hasattr(leaf, "detach") else leaf


def _zeros(leaf: Any, count: int) -> Any:
    """States for all envs, of the kind of the given states of some: array or tensor."""
    shape = (count, *leaf.shape[1:])
    return leaf.new_zeros(shape) if hasattr(leaf, "new_zeros") else np.zeros(shape, np.asarray(leaf).dtype)
