"""The front over MuJoCo tasks: that of kernels, and frames of chosen envs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from vecenv._front.compiled_env import CompiledVectorEnv
from vecenv._front.exchange import Exchange
from vecenv._front.rollout import Rollout
from vecenv.engines.native.mujoco import MujocoEngine
from vecenv.errors import ConfigError


class MujocoVectorEnv(CompiledVectorEnv):
    """A vector env of a MuJoCo task.

    Of simulations that have gone wrong it warns last, when nothing is under way: a warning may be an error.
    """

    engine: MujocoEngine  # pyright: ignore[reportIncompatibleVariableOverride]  # it is set once

    def step(self, actions: Any, env_ids: Any = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs, or those of `env_ids` alone; then position k of every result belongs to `env_ids[k]`."""
        results = super().step(actions, env_ids)
        if self.engine.warnings:
            self._warn()
        return results

    def rollout(self, *args: Any, **kwargs: Any) -> Rollout:
        results = super().rollout(*args, **kwargs)
        if self.engine.warnings:
            self._warn()
        return results

    def _exchange_step(self, actions: Any, env_ids: Any) -> Exchange:
        results = super()._exchange_step(actions, env_ids)
        if self.engine.warnings:
            self._warn()
        return results

    def _deliver(self, *args: Any, **kwargs: Any) -> Any:
        results = super()._deliver(*args, **kwargs)
        if self.engine.warnings:
            self._warn()
        return results

    def _warn(self) -> None:
        told, self.engine.warnings = self.engine.warnings, []
        for text in told:
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def render(self, env_ids: Any = None) -> tuple[Any, ...] | None:
        """One frame of every env, or of those of `env_ids` alone, drawn by Gymnasium's renderer.

        Raises:
            ConfigError: there is no render_mode, or MuJoCo cannot draw on this machine; it says what to set.
        """
        if env_ids is None:
            return super().render()
        if self.render_mode is None:
            raise ConfigError("these envs have no render_mode; make them with render_mode='rgb_array'")
        rows = self._lifecycle.parse_rows(env_ids)
        self._lifecycle.enter("render")
        try:
            self._lifecycle.check_idle("render")
            return tuple(self.engine.draw(rows))
        finally:
            self._lifecycle.inside = None
