"""The usual preprocessing of Atari games for vector envs: frames skipped, pooled, resized."""

from __future__ import annotations

from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from vecenv._batch.batch import Op
from vecenv._batch.layout import Layout
from vecenv._batch.seeding import NO_SEED, spread
from vecenv._front.autoreset import plan
from vecenv._front.exchange import Exchange
from vecenv._front.infos import as_arrays
from vecenv._front.vector_env import VectorEnv
from vecenv._util.screens import load_frame_maker
from vecenv.errors import ConfigError, SpaceError, UnsupportedError
from vecenv.wrappers._arrays import as_list
from vecenv.wrappers._streams import Streams
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper

_RESET = int(Op.RESET)
_SEVERAL = "a step of AtariPreprocessing is several of the envs inside; use step() instead of {}()"
_Begun: TypeAlias = dict[int, Any]
"""By position: the first screen of an episode and its info."""


class AtariPreprocessing(Wrapper):
    """Frame skip, pooling of the last two frames, no-ops at the beginning, end of life, size: as Gymnasium's.

    A step steps the envs inside `frame_skip` times; envs whose episode ends meanwhile stop there. With `noop_max=0` all
    results are those of `gymnasium.wrappers.AtariPreprocessing` around each env, bit for bit. As there, an episode that
    ends within a skip shows the frames of the step before. The number of no-ops comes from a random stream of each env
    that `reset(seed=...)` starts, instead of the env's own generator.

    Envs must be made with `frameskip=1`, and with `obs_type="grayscale"` for grey observations. `send` and `recv` are
    not possible: one step of this wrapper is several steps of the envs inside.

    Args:
        env: a vector env of vecenv.
        noop_max: the largest number of no-ops after a reset; 0 for none.
        frame_skip: frames per step.
        screen_size: width and height of observations, or one number for both.
        terminal_on_life_loss: whether the loss of a life ends an episode.
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
                "frame_skip and screen_size must be positive and noop_max not negative, "
                f"got {frame_skip}, {screen_size} and {noop_max}"
            )
        super().__init__(env, Screens(size, grayscale_obs, grayscale_newaxis, scale_obs, pools=frame_skip > 1))
        if not isinstance(self.unwrapped, VectorEnv):
            raise self._not_ours("AtariPreprocessing")
        self._inner: Any = env
        self._parse_rows = self.unwrapped._call_order.parse_rows
        self._layout = Layout(env.single_action_space)
        self._noop_max, self._frame_skip, self._by_life = noop_max, frame_skip, terminal_on_life_loss
        self._check_envs()

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Not possible: one step of this wrapper is several steps of the envs inside."""
        raise UnsupportedError(_SEVERAL.format("send"))

    def _exchange_recv(
        self, min_envs: int | None, timeout: float | None, max_envs: int | None = None, until: float | None = None
    ) -> Exchange:
        raise UnsupportedError(_SEVERAL.format("recv"))

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        exchange = self._inner._exchange_reset(seed, options)
        touched = exchange.touched
        self.transform.streams.reseed(np.where(touched, spread(seed, self.num_envs), NO_SEED))
        rows = exchange.rows[touched]
        reset_infos = as_list(exchange.infos, self.num_envs)
        infos = self._begin(rows, exchange.obs[touched], [reset_infos[row] for row in rows.tolist()])
        exchange.obs = self.transform.observations(exchange.rows)
        exchange.infos = as_arrays(zip(rows.tolist(), infos, strict=True), self.num_envs)
        return exchange

    def _exchange_step(self, actions: Any, env_ids: Any) -> Exchange:
        rows = self._everyone if env_ids is None else self._parse_rows(env_ids)
        actions = self._layout.batched(self._layout.pack(actions, len(rows)))
        ops = np.zeros(len(rows), np.uint8)
        ops[...] = plan(self.autoreset_mode, self.transform.over[rows])
        no = np.zeros(len(rows), np.bool_)
        exchange = Exchange(rows, None, None, np.zeros(len(rows)), no, no.copy(), ops)
        infos: list[dict[str, Any]] = [{} for _ in rows]
        begun = self._play(exchange, np.flatnonzero(ops != _RESET), actions, infos)
        self.transform.over[rows] = exchange.done
        rolled = exchange.rolled
        if rolled.any():
            exchange.final_obs = self.transform.observations(rows)
            ended = np.flatnonzero(rolled).tolist()
            final_info = as_arrays([(position, infos[position]) for position in ended], len(rows))
            exchange.infos = {"final_info": final_info, "_final_info": rolled}
        self._begin_at(np.flatnonzero(exchange.began), rows, begun, infos)
        exchange.obs = self.transform.observations(rows)
        exchange.infos.update(as_arrays(enumerate(infos), len(rows)))
        return exchange

    def _play(
        self, exchange: Exchange, positions: np.ndarray, actions: np.ndarray, infos: list[dict[str, Any]]
    ) -> _Begun:
        """Step the envs at these positions until their frames are over or their episode is; add up the results.

        Returns:
            By position, the first screen and info of the envs that were reset inside already.
        """
        begun: _Begun = {}
        for frame in range(self._frame_skip):
            if not len(positions):
                break
            rows = exchange.rows[positions]
            part = self._inner._exchange_step(actions[positions], rows)
            lost = self._notice(part, positions, infos, begun)
            exchange.reward[positions] += part.reward
            exchange.terminated[positions] = part.terminated | lost
            exchange.truncated[positions] = part.truncated
            going = ~exchange.done[positions]
            if frame >= self._frame_skip - 2:
                self.transform.show(rows[going], part.obs[going], last=frame == self._frame_skip - 1)
            positions = positions[going]
        return begun

    def _notice(self, part: Exchange, positions: np.ndarray, infos: list[dict[str, Any]], begun: _Begun) -> np.ndarray:
        """Keep the infos of a frame, and first screens of envs that were reset; return which envs lost a life."""
        firsts = as_list(part.infos, len(part))
        finals = as_list(part.infos.get("final_info", {}), len(part))
        for index, (position, info, final) in enumerate(zip(positions.tolist(), firsts, finals, strict=True)):
            infos[position] = info
            if part.rolled[index]:
                infos[position] = final
                begun[position] = (part.obs[index], info)
        if not self._by_life:
            return np.zeros(len(part), np.bool_)
        lives = self._lives_in([infos[position] for position in positions.tolist()])
        lost = lives < self.transform.lives[part.rows]
        self.transform.lives[part.rows] = lives
        return lost

    def _begin_at(self, positions: np.ndarray, rows: np.ndarray, begun: _Begun, infos: list[dict[str, Any]]) -> None:
        """Begin the episodes at these positions, and keep their infos."""
        waiting = [position for position in positions.tolist() if position not in begun]
        if waiting:
            firsts = self._reset_some(rows[waiting])
            begun.update((position, first) for position, *first in zip(waiting, *firsts, strict=True))
        chosen = positions.tolist()
        if chosen:
            screens = np.stack([begun[position][0] for position in chosen])
            first_infos = self._begin(rows[chosen], screens, [begun[position][1] for position in chosen])
            for position, info in zip(chosen, first_infos, strict=True):
                infos[position] = info

    def _begin(self, rows: np.ndarray, screens: np.ndarray, infos: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Make the no-ops of envs that were just reset; return their infos."""
        screens = screens.copy()
        left = np.zeros(len(rows), np.int64)
        if self._noop_max:
            left += 1 + (self.transform.streams.look(rows, 0) * self._noop_max).astype(np.int64)
            self.transform.streams.advance(rows)
        while (left > 0).any():
            going = np.flatnonzero(left > 0)
            left[going] -= 1
            part = self._inner._exchange_step(create_empty_array(self.single_action_space, len(going)), rows[going])
            screens[going] = part.obs
            for index, info in zip(going.tolist(), as_list(part.infos, len(part)), strict=True):
                infos[index] = {**infos[index], **info}
            ended = going[part.done & ~part.rolled]
            if len(ended):
                screens[ended], reset_infos = self._reset_some(rows[ended])
                for index, info in zip(ended.tolist(), reset_infos, strict=True):
                    infos[index] = info
        self.transform.begin(rows, screens)
        self.transform.over[rows] = False
        if self._by_life:
            self.transform.lives[rows] = self._lives_in(infos)
        return [{key: value for key, value in info.items() if key != "final_info"} for info in infos]

    def _reset_some(self, rows: np.ndarray) -> tuple[np.ndarray, list[dict[str, Any]]]:
        exchange = self._inner._exchange_reset(None, {"reset_mask": np.isin(self._everyone, rows)})
        infos = as_list(exchange.infos, self.num_envs)
        return exchange.obs[rows], [infos[row] for row in rows.tolist()]

    def _lives_in(self, infos: list[dict[str, Any]]) -> np.ndarray:
        try:
            return np.array([info["lives"] for info in infos], np.int64)
        except KeyError:
            raise ConfigError("terminal_on_life_loss needs envs with infos['lives'], as ALE's have") from None

    def _check_envs(self) -> None:
        if self._frame_skip > 1 and any(skip != 1 for skip in self._asked("_frameskip")):
            raise ConfigError("these envs skip frames themselves; make them with frameskip=1")
        if self._noop_max and any(meanings[0] != "NOOP" for meanings in self._asked("get_action_meanings")):
            raise ConfigError("the first action of these envs is not NOOP; pass noop_max=0")

    def _asked(self, name: str) -> tuple[Any, ...]:
        """An attribute of all envs; empty if they do not have it or it cannot be read."""
        try:
            return self.env.get_attr(name)  # type: ignore[attr-defined]  # checked to be ours
        except (AttributeError, UnsupportedError):
            return ()


class Screens(Transform):
    """The last two screens of each env, and the observations made from them.

    Attributes:
        lives: of each env.
        over: whether the last step of each env ended an episode, by the end of the game or the loss of a life.
        streams: random numbers, from which the numbers of no-ops are drawn.
    """

    def __init__(self, size: tuple[int, int], grey: bool, newaxis: bool, scale: bool, *, pools: bool) -> None:
        self._size, self._grey, self._newaxis, self._scale = size, grey, newaxis, scale
        self._frame = load_frame_maker("AtariPreprocessing", size, pools=pools)
        self._newest = self._older = np.zeros(0, np.uint8)
        self._keep(0)

    def bind(self, observation: Any, action: Any, count: int) -> tuple[Any, Any]:
        wanted = "obs_type='grayscale'" if self._grey else "obs_type='rgb'"
        if (
            not isinstance(observation, spaces.Box)
            or observation.dtype != np.uint8
            or len(observation.shape) != (2 if self._grey else 3)
        ):
            raise SpaceError(f"grayscale_obs={self._grey} needs envs made with {wanted}; these observe {observation}")
        self._newest = np.zeros((count, *observation.shape), np.uint8)
        self._older = self._newest.copy()
        self._keep(count)
        width, height = self._size
        channels = () if self._grey and not self._newaxis else (1,) if self._grey else (3,)
        high, dtype = (1, np.float32) if self._scale else (255, np.uint8)
        return spaces.Box(0, high, (height, width, *channels), dtype), action

    def begin(self, rows: np.ndarray, screens: np.ndarray) -> None:
        """First frames of episodes."""
        self._newest[rows], self._older[rows] = screens, 0

    def show(self, rows: np.ndarray, screens: np.ndarray, *, last: bool) -> None:
        """The last frame of a step, or the one before."""
        (self._newest if last else self._older)[rows] = screens

    def observations(self, rows: np.ndarray) -> np.ndarray:
        """Observations of the envs `rows`: a new array."""
        shown = np.stack([self._frame(self._newest[row], self._older[row]) for row in rows.tolist()])
        if self._grey and self._newaxis:
            shown = shown[..., None]
        return shown.astype(np.float32) / np.float32(255) if self._scale else shown

    def state_dict(self) -> dict[str, Any]:
        return {name: column.copy() for name, column in self._state().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["newest"].shape != self._newest.shape:
            raise SpaceError(f"the state is of frames {state['newest'].shape}, these are {self._newest.shape}")
        for name, column in self._state().items():
            column[...] = state[name]

    def _keep(self, count: int) -> None:
        self.lives = np.zeros(count, np.int64)
        self.over = np.zeros(count, np.bool_)
        self.streams = Streams(count, None)

    def _state(self) -> dict[str, np.ndarray]:
        streams = {"keys": self.streams.keys, "turns": self.streams.turns}
        return {"newest": self._newest, "older": self._older, "lives": self.lives, "over": self.over, **streams}
