"""Atari games as they are usually learnt: frames skipped, pooled, resized."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from vecenv._autoreset import plan
from vecenv._batch import Op
from vecenv._exchange import Exchange
from vecenv._infos import as_arrays
from vecenv._seeding import NO_SEED, spread
from vecenv._vector_env import VectorEnv
from vecenv.errors import ConfigError, MissingExtra, SpaceError, UnsupportedError
from vecenv.wrappers._arrays import as_list
from vecenv.wrappers._streams import Streams
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper

_RESET, _ROLL = int(Op.RESET), int(Op.ROLL)


class AtariPreprocessing(Wrapper):
    """Frame skip, pooling of the last two frames, no-ops at the beginning, end of life, size: Gymnasium's, for the batch.

    A step steps the envs inside `frame_skip` times; envs whose episode ends meanwhile stop there. With `noop_max=0` all
    results are those of `gymnasium.wrappers.AtariPreprocessing` around each env, bit for bit; that includes that an
    episode which ends within a skip shows the frames from before. The number of no-ops comes from a stream of each env
    that `reset(seed=...)` begins, instead of the env's own generator.

    Envs must be made with `frameskip=1`, and with `obs_type="grayscale"` for grey observations. `send` and `recv` are
    not possible: one exchange of this wrapper is many of the envs inside.

    Args:
        env: a vector env of vecenv.
        noop_max: the largest number of no-ops after a reset; 0 for none.
        frame_skip: frames per step.
        screen_size: width and height of observations, or one number for both.
        terminal_on_life_loss: whether an episode ends with a life.
        grayscale_obs: grey observations, otherwise RGB.
        grayscale_newaxis: whether grey observations have an axis of one channel.
        scale_obs: float32 from 0 to 1 instead of uint8.

    Raises:
        MissingExtra: OpenCV is not installed.
    """

    transform: Screens

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int | tuple[int, int] = 84,
        terminal_on_life_loss: bool = False,
        grayscale_obs: bool = True,
        grayscale_newaxis: bool = False,
        scale_obs: bool = False,
    ) -> None:
        size = (screen_size, screen_size) if isinstance(screen_size, int) else screen_size
        if frame_skip < 1 or noop_max < 0 or min(size) < 1:
            raise ConfigError(
                f"frame_skip and screen_size must be positive and noop_max not negative, "
                f"got {frame_skip}, {screen_size} and {noop_max}"
            )
        super().__init__(env, Screens(size, grayscale_obs, grayscale_newaxis, scale_obs, frame_skip > 1))
        self._inner: VectorEnv = self._ours("AtariPreprocessing")
        self._noop_max, self._frame_skip, self._by_life = noop_max, frame_skip, terminal_on_life_loss
        self._check_envs()
        self._streams = Streams(self.num_envs, None)
        self._lives = np.zeros(self.num_envs, np.int64)
        self._over = np.zeros(self.num_envs, np.bool_)
        """Whose episode has ended, as far as users know."""

    # --- calls -------------------------------------------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Not possible: a step of this wrapper is many of the envs inside."""
        raise UnsupportedError("AtariPreprocessing makes many steps of one; use step()")

    def _exchange_recv(self, min_envs: int | None, timeout: float | None) -> Exchange:
        raise UnsupportedError("AtariPreprocessing makes many steps of one; use step()")

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        exchange = self._inner._exchange_reset(seed, options)
        rows = exchange.rows[exchange.touched]
        self._streams.reseed(np.where(exchange.touched, spread(seed, self.num_envs), NO_SEED))
        infos = dict(zip(rows.tolist(), self._infos(exchange, exchange.touched), strict=True))
        self._begin(rows, exchange.obs[rows], infos)
        exchange.obs = self.transform.observations(exchange.rows)
        exchange.infos = as_arrays(infos.items(), self.num_envs)
        return exchange

    def _exchange_step(self, actions: Any, env_ids: Any) -> Exchange:
        rows = self._everyone if env_ids is None else np.asarray(env_ids)
        actions = self._inner._batch.action_layout.pack(actions, len(rows))[0] if False else np.asarray(actions)
        ops = np.broadcast_to(plan(self.autoreset_mode, self._over[rows], self._over[rows]), rows.shape).astype(np.uint8)
        exchange = Exchange(
            rows, None, None, np.zeros(len(rows)), np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_), ops
        )
        told: dict[int, dict[str, Any]] = {}
        moves = ops != _RESET
        self._skip(exchange, np.flatnonzero(moves), actions, told)
        return exchange
