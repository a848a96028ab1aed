"""Functions that look for wrappers of vector envs."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, TypeVar

from vecenv.sb3.base_vec_env import VecEnv, VecEnvWrapper, counterpart
from vecenv.sb3.vec_normalize import VecNormalize

WrapperT = TypeVar("WrapperT", bound=VecEnvWrapper)


def unwrap_vec_wrapper(env: VecEnv, vec_wrapper_class: type[WrapperT]) -> WrapperT | None:
    """The outermost wrapper of this class, or None. Wrappers of Stable-Baselines3 are searched too."""
    return next((layer for layer in _layers(env) if isinstance(layer, vec_wrapper_class)), None)


def unwrap_vec_normalize(env: VecEnv) -> VecNormalize | None:
    """The outermost VecNormalize, or None."""
    return unwrap_vec_wrapper(env, VecNormalize)


def is_vecenv_wrapped(env: VecEnv, vec_wrapper_class: type[VecEnvWrapper]) -> bool:
    """Whether there is a wrapper of this class."""
    return unwrap_vec_wrapper(env, vec_wrapper_class) is not None


def sync_envs_normalization(env: VecEnv, eval_env: VecEnv) -> None:
    """Give the VecNormalize wrappers of `eval_env` copies of the statistics of those of `env`.

    Raises:
        AssertionError: the two are not wrapped alike.
    """
    kind: Any = counterpart(VecNormalize)  # ours is registered as one of these
    ours, theirs = list(_layers(env)), list(_layers(eval_env))
    for layer, twin in zip(ours, theirs, strict=False):
        if isinstance(layer, kind):
            assert isinstance(twin, kind), _unlike(twin, "a VecNormalize", layer)
            if "obs_rms" in vars(layer):
                twin.obs_rms = deepcopy(layer.obs_rms)
            twin.ret_rms = deepcopy(layer.ret_rms)
    assert len(theirs) >= len(ours), _unlike(eval_env.unwrapped, "a VecEnvWrapper", ours[len(theirs) :])


def _layers(env: VecEnv) -> Iterator[Any]:
    """All wrappers, from the outside in."""
    layer: Any = env
    while layer is not None and "venv" in vars(layer):  # a wrapper that was unpickled has None inside
        yield layer
        layer = layer.venv


def _unlike(got: Any, wanted: str, layer: Any) -> str:
    return (
        f"Error while synchronizing normalization stats: expected the eval env to be {wanted} but got {got} instead. "
        "This is probably due to the training env not being wrapped the same way as the evaluation env. "
        f"Training env type: {layer}."
    )
