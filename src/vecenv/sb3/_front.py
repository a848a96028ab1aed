"""One of vecenv's vector envs, with the calls of Stable-Baselines3."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch.layout import map_tree
from vecenv._front.exchange import Exchange
from vecenv._front.infos import rows_of_arrays
from vecenv._front.vector_env import VectorEnv
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.errors import ConfigError, EnvError, NothingPendingError, PendingError
from vecenv.sb3 import _served
from vecenv.sb3.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, images_of
from vecenv.sb3.util import check_for_nested_spaces
from vecenv.wrappers import Wrapper

_Dicts = list[dict[str, Any]]
_MASKS = "action_masks"
_FACTS = ("metadata", "render_mode", "spec")
"""Attributes that all kernels of a vector env share, so that no kernel is copied to read them."""


class FrontVecEnv(VecEnv):
    """A VecEnv over one of vecenv's vector envs. Made by `vecenv.sb3.wrap`.

    Actions are checked before anything is sent. Where single envs are kernels, attributes are read from copies of them.

    Args:
        envs: made with autoreset="same-step".

    Attributes:
        waiting: whether a step is running.
        closed: whether everything is closed.

    Raises:
        ConfigError: Stable-Baselines3 cannot use such envs; the message says how to make them.
    """

    def __init__(self, envs: VectorEnv | Wrapper) -> None:
        inner: Any = envs.unwrapped
        self._envs: Any = envs
        self._inner: VectorEnv = inner
        self._kernels = inner.engine if isinstance(getattr(inner, "engine", None), CompiledEngine) else None
        check_usable(envs.autoreset_mode, inner.copy or self._kernels is not None)
        self._has_dicts = envs is inner and self._kernels is None
        self._actions: Any = None
        self._masks: np.ndarray | None = None
        """Which actions are allowed next, if envs say so with their observations."""
        self.waiting = False
        self.closed = False
        observation_space = envs.single_observation_space
        self._carries_masks = isinstance(observation_space, _served.WithMask)
        if isinstance(observation_space, _served.WithMask):
            observation_space = observation_space.spaces[0]
        check_for_nested_spaces(observation_space)
        super().__init__(envs.num_envs, observation_space, envs.single_action_space)
        facts = {key: value for key, value in inner.metadata.items() if key != "autoreset_mode"}
        self.metadata = {**facts, **self.metadata}

    # --- episodes ----------------------------------------------------------------------------------------------------

    def reset(self) -> VecEnvObs:
        self._drop_step()
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        options = [given or None for given in self._options] if any(self._options) else None
        if self._has_dicts:
            self._inner._start_reset(seeds, options)
            step, self.reset_infos, _ = self._inner._recv_dicts()
            obs = step.obs
        else:
            exchange = self._envs._exchange_reset(seeds, options)
            obs, self.reset_infos = exchange.obs, rows_of_arrays(exchange.infos, self.num_envs)
            self._keep_masks(exchange)
        self._reset_seeds()
        self._reset_options()
        return self._observed(obs)

    def step_async(self, actions: Any) -> None:
        if self.waiting:
            raise PendingError("step_async() while a step is running; call step_wait() first")
        if self._kernels is None:
            self._envs.send(actions)
        else:
            self._actions = actions  # native code runs in step_wait, not in the background
        self.waiting = True

    def step_wait(self) -> VecEnvStepReturn:
        if not self.waiting:
            raise NothingPendingError("step_wait() without a step; call step_async() first")
        self.waiting = False
        if self._has_dicts:
            step, infos, final_infos = self._inner._recv_dicts()
            return self._results(step, infos, final_infos)
        if self._kernels is None:
            return self._results(*self._read(self._envs._exchange_recv(None, None)))
        return self._results(*self._read(self._envs._exchange_step(self._actions, None)))

    def _read(self, exchange: Exchange) -> tuple[Exchange, _Dicts, _Dicts]:
        """An exchange with its infos as dicts: those that belong to `obs`, and those of ended episodes."""
        infos = dict(exchange.infos)
        final = infos.pop("final_info", {})
        infos.pop("_final_info", None)
        self._keep_masks(exchange)
        return exchange, rows_of_arrays(infos, self.num_envs), rows_of_arrays(final, self.num_envs) if final else []

    def _keep_masks(self, exchange: Exchange) -> None:
        masks = exchange.infos.get("action_mask")
        self._masks = None if masks is None else masks.astype(np.bool_)

    def _results(self, step: Any, infos: _Dicts, final_infos: _Dicts) -> VecEnvStepReturn:
        dones = step.terminated | step.truncated
        for row in np.flatnonzero(dones).tolist():
            self.reset_infos[row] = infos[row]
            infos[row] = final_infos[row] if final_infos else {}
            fault = self.reset_infos[row].get("fault")
            if isinstance(fault, dict) and fault.get("ended"):
                infos[row]["fault"] = fault
            infos[row]["terminal_observation"] = self._final(step.final_obs, row)
        cut_off = (step.truncated & ~step.terminated).tolist()
        for info, flag in zip(infos, cut_off, strict=True):
            info["TimeLimit.truncated"] = flag
        return self._observed(step.obs), step.reward.astype(np.float32), dones, infos

    def _observed(self, obs: Any) -> VecEnvObs:
        """Observations without their action masks, which are kept in `_masks`."""
        if not self._carries_masks:
            return obs
        obs, self._masks = obs
        return obs

    def _final(self, final_obs: Any, row: int) -> Any:
        single = map_tree(lambda leaf: leaf[row] if leaf.ndim > 1 else leaf[row].item(), final_obs)
        return single[0] if self._carries_masks else single

    def _drop_step(self) -> None:
        """Finish a step whose results are not needed. Its errors are ignored: a reset follows."""
        if self.waiting and self._kernels is None:
            with contextlib.suppress(EnvError):
                self._inner.recv()
        self.waiting = False

    def close(self) -> None:
        if not self.closed:
            self._envs.close()
            self.waiting = False
            self.closed = self._envs.closed

    # --- single envs -------------------------------------------------------------------------------------------------

    def get_images(self) -> Sequence[np.ndarray | None]:
        if self._kernels is not None and self.render_mode == "rgb_array":
            return list(self._inner.render() or ())
        return images_of(self)

    def has_attr(self, attr_name: str) -> bool:
        asked = operator.methodcaller("has_wrapper_attr", attr_name)
        if self._kernels is None:
            return (attr_name == _MASKS and self._carries_masks) or all(self._reach(None, asked))
        has_masks = "action_mask" in self._kernels.batch.info
        known = attr_name in self._kernels.kernel.params or (attr_name == _MASKS and has_masks)
        return known or self._reach(0, asked)[0]

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        rows = self._rows(indices)
        if self._kernels is not None and attr_name in self._kernels.kernel.params:
            values = self._inner.call(attr_name)
            return [values[row] for row in rows]
        if self._kernels is not None and attr_name in _FACTS:
            return [getattr(self._inner, attr_name)] * len(rows)
        return self._reach(rows, operator.methodcaller("get_wrapper_attr", attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        if self._kernels is None:
            self._reach(indices, setattr, attr_name, value)
            self._masks = None
            return
        known = attr_name in self._kernels.kernel.params
        values = list(self._inner.call(attr_name)) if known else [value] * self.num_envs
        for row in self._rows(indices):
            values[row] = value
        self._inner.set_attr(attr_name, values)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the envs. Action masks came with the last observations and need no call."""
        if method_name == _MASKS and not method_args and not method_kwargs:
            if self._masks is not None:
                return list(self._masks[self._rows(indices)].astype(np.bool_))
            return self._reach(indices, _served.call, method_name, (), {})
        if self._kernels is None:
            self._masks = None  # the call may have changed the allowed actions
        return self._reach(indices, _served.call, method_name, method_args, method_kwargs)

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        rows = self._rows(indices)
        if self._kernels is not None:
            return [False] * len(rows)
        return self._reach(rows, _served.is_wrapped, _served.name_of(wrapper_class))

    def _rows(self, indices: VecEnvIndices) -> list[int]:
        everyone = range(self.num_envs)
        return [everyone[index] for index in self._get_indices(indices)]

    def at_envs(self, rows: list[int], function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function with each of these envs and the arguments, in the process of the env; empty for kernels."""
        if self._kernels is not None or not rows:
            return []
        call: Any = self._inner.call
        results = call(_served.at_rows, frozenset(rows), function, *arguments)
        return [results[row] for row in rows]

    def _reach(self, indices: VecEnvIndices, action: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Apply an action to single envs, in their processes; kernels are copied for it."""
        rows = self._rows(indices)
        if self._kernels is not None:
            return [action(self._kernels.copy_of(row), *arguments) for row in rows]
        return self.at_envs(rows, _served.reach, action, *arguments)


def check_usable(mode: AutoresetMode, copies: bool) -> None:
    """Raise ConfigError unless episodes begin again in the same step and arrays are not overwritten by the next one."""
    if mode is not AutoresetMode.SAME_STEP:
        raise ConfigError(
            f"Stable-Baselines3 begins a new episode in the step that ended the last one, these envs have "
            f"autoreset={mode.value!r}; make them with vecenv.make(..., autoreset='same-step')"
        )
    if not copies:
        raise ConfigError(
            "Stable-Baselines3 keeps observations across the next step, which these envs overwrite; "
            "make them with copy=True"
        )
