"""The front over MuJoCo tasks: that of kernels, and frames of chosen envs."""

from __future__ import annotations

from typing import Any

from vecenv._compiled_env import CompiledVectorEnv
from vecenv.engines._mujoco import MujocoEngine
from vecenv.errors import ConfigError


class MujocoVectorEnv(CompiledVectorEnv):
    """A vector env of a MuJoCo task."""

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
            assert isinstance(self.engine, MujocoEngine)
            return tuple(self.engine.draw(rows))
        finally:
            self._lifecycle.inside = None
