"""A transform around a vector env, as a vector env."""

from __future__ import annotations

import copy
import warnings
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Tuple
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from vecenv._batch.layout import is_custom
from vecenv._front.autoreset import mode_of, plan
from vecenv._front.device import DeviceVectorEnv
from vecenv._front.exchange import Exchange
from vecenv._front.explain import Explanation
from vecenv._front.infos import infos_to_list
from vecenv._front.reset_options import ResetOptions
from vecenv._front.results import SingleStep
from vecenv._front.stats import Stats
from vecenv._front.step import Step
from vecenv._front.vector_env import VectorEnv
from vecenv.engines import SupportsRecording
from vecenv.errors import ClosedError, ConfigTypeError, NotFiniteError, SpaceError, UnsupportedError
from vecenv.wrappers._transform import Transform

if TYPE_CHECKING:
    from vecenv.recording import Recording


class Wrapper(gymnasium.vector.VectorWrapper):
    """A vector env seen through a transform.

    Works around any `gymnasium.vector.VectorEnv`; around one of vecenv's, `send`, `recv`, partial steps, `stats` and
    states pass through as well. Stacked wrappers pass arrays to each other, not Gymnasium's dicts.

    Args:
        env: the vector env.
        transform: what it does to actions and results.

    Raises:
        UnsupportedError: the envs return tensors on a device.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, transform: Transform) -> None:
        if not isinstance(env, gymnasium.vector.VectorEnv):
            raise ConfigTypeError(f"{type(self).__name__} wraps vector envs, got {type(env).__name__}; see vecenv.make")
        if isinstance(env.unwrapped, VectorEnv) and env.unwrapped.closed:
            name = type(self).__name__
            raise ClosedError(f"{name} cannot be put around a closed vector env; make a new one with vecenv.make")
        if isinstance(env.unwrapped, DeviceVectorEnv):
            raise UnsupportedError(
                f"{type(self).__name__} works on NumPy arrays, and these envs return tensors; "
                "make them with results='numpy'"
            )
        super().__init__(env)
        self.transform = transform
        single = transform.bind(env.single_observation_space, env.single_action_space, env.num_envs)
        # Copies: making a batch space seeds a Dict or Tuple, and its parts may be spaces that an env draws from.
        if single[0] is not env.single_observation_space:
            self.single_observation_space = copy.deepcopy(single[0])
            self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        if single[1] is not env.single_action_space:
            self.single_action_space = copy.deepcopy(single[1])
            self.action_space = batch_space(self.single_action_space, env.num_envs)
        self._everyone = np.arange(env.num_envs)
        self._ended = np.zeros(env.num_envs, np.bool_)
        """Only around envs that are not vecenv's: where the next step is a reset in next-step mode."""
        self._warn_if_twice()

    # --- Gymnasium's calls -------------------------------------------------------------------------------------------

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """As of the env inside."""
        exchange = self._exchange_reset(seed, options)
        return exchange.obs, exchange.infos

    def step(self, actions: Any, env_ids: Any = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """As of the env inside; `env_ids` only around vecenv's own."""
        exchange = self._exchange_step(actions, env_ids)
        return exchange.obs, exchange.reward, exchange.terminated, exchange.truncated, exchange.as_gymnasium()

    def close(self, **kwargs: Any) -> None:
        """Close the env inside and the transform."""
        try:
            self.env.close(**kwargs)
        finally:  # after the env: another thread may be in a step
            self.transform.close()

    def __enter__(self) -> Wrapper:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Nothing: Gymnasium 1.2 would close the env inside, which others may still use and which closes itself."""

    # --- vecenv's calls ----------------------------------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """As of the env inside."""
        rows = self._rows(env_ids)
        self._ours("send").send(self.transform.actions(actions, rows), env_ids)

    def send_reset(self, env_ids: Any = None, *, seed: Any = None, options: Any = None) -> None:
        """As of the env inside."""
        self._ours("send_reset").send_reset(env_ids, seed=seed, options=options)

    def recv(
        self,
        min_envs: int | None = None,
        max_envs: int | None = None,
        *,
        until: float | None = None,
        timeout: float | None = None,
    ) -> Step:
        """As of the env inside."""
        return Step.of_exchange(self._exchange_recv(min_envs, timeout, max_envs, until))

    async def recv_async(
        self,
        min_envs: int | None = None,
        max_envs: int | None = None,
        *,
        until: float | None = None,
        timeout: float | None = None,
    ) -> Step:
        """As of the env inside."""
        return await self._vecenvs_own("recv_async")._await_recv(self.recv, min_envs, max_envs, until, timeout)

    async def __aiter__(self) -> AsyncIterator[Step]:
        """What `recv_async()` returns, as long as anything is pending."""
        order = self._vecenvs_own("async for")._call_order
        while order.pending_count:
            yield await self.recv_async()

    def xla(self) -> Any:
        """Not supported: raises UnsupportedError."""
        raise UnsupportedError(
            f"xla() steps envs without wrappers, and this is {type(self).__name__}: do what it does inside of the "
            "compiled program, with JAX, and call xla() of the envs inside (envs.unwrapped.xla())"
        )

    async def step_one(self, env_id: int, action: Any) -> SingleStep:
        """As of the env inside."""
        return self._single(await self._exchange_step_one(env_id, _batch_of_one(self.single_action_space, action)))

    async def reset_one(
        self, env_id: int, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """As of the env inside."""
        obs, _, _, _, info = self._single(await self._exchange_reset_one(env_id, seed, options))
        return obs, info

    async def close_async(self, timeout: float = 5.0) -> None:
        """As `close`, awaited."""
        try:
            await self._ours("close_async").close_async(timeout)
        finally:
            self.transform.close()

    async def __aenter__(self) -> Wrapper:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close_async()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, or read an attribute."""
        return self.env.call(name, *args, **kwargs)  # type: ignore[attr-defined]  # Gymnasium's have it too

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env."""
        return self.env.get_attr(name)  # type: ignore[attr-defined]  # as above

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env."""
        self.env.set_attr(name, values)  # type: ignore[attr-defined]  # as above

    def stats(self) -> Stats:
        """Where time goes."""
        return self._ours("stats").stats()

    def explain(self, show: Callable[[str], object] = print) -> Explanation:
        """Where time goes and which envs are slow, with one line of advice."""
        return self._ours("explain").explain(show)

    def recording(self, row: int) -> Recording:
        """The current episode of an env, as the env itself returned it, without the changes of wrappers."""
        return self._ours("recording").recording(row)

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """What happens when an episode ends."""
        return mode_of(self.env)

    @property
    def batch_size(self) -> int:
        """How many envs `recv` waits for by default."""
        return self._ours("batch_size").batch_size

    @property
    def engine_reason(self) -> str:
        """Why this engine was chosen."""
        return self._ours("engine_reason").engine_reason

    @property
    def episode_return(self) -> np.ndarray:
        """Return so far of each env's episode, as the env itself gave it."""
        return self._ours("episode_return").episode_return

    @property
    def episode_length(self) -> np.ndarray:
        """Steps so far of each env's episode."""
        return self._ours("episode_length").episode_length

    def state_dict(self) -> dict[str, Any]:
        """The state of this wrapper and of those inside it, from the inside out."""
        inner = self.env.state_dict() if isinstance(self.env, Wrapper) else {}
        return {**inner, f"{len(inner)}.{type(self).__name__}": self.transform.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Bring back what `state_dict` returned, to wrappers stacked in the same way.

        Raises:
            ConfigTypeError: the state is of other wrappers.
            SpaceError: it does not fit these envs. In both cases nothing has changed.
        """
        before = self.state_dict()
        wanted = list(before)
        if not isinstance(state, dict) or list(state) != wanted:
            given = list(state) if isinstance(state, dict) else type(state).__name__
            raise ConfigTypeError(f"the state is of the wrappers {given}, these are {wanted}")
        try:
            self._load(state)
        except SpaceError as error:
            self._load(before)
            raise type(error)(f"the state of the wrappers {wanted} does not fit: {error}") from error
        except Exception as error:  # a state from a file can be anything
            self._load(before)
            raise SpaceError(
                f"the state of the wrappers {wanted} is damaged ({type(error).__name__}: {error!s:.200})"
            ) from error

    def _load(self, state: dict[str, Any]) -> None:
        *inner, own = state.items()
        if isinstance(self.env, Wrapper):
            self.env._load(dict(inner))
        self.transform.load_state_dict(own[1])

    # --- between wrappers --------------------------------------------------------------------------------------------

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        inner = self.env
        if isinstance(inner, (Wrapper, VectorEnv)):
            exchange = inner._exchange_reset(seed, options)
        else:
            mask = ResetOptions.parse(options, self.num_envs).mask
            exchange = Exchange.of_reset(*inner.reset(seed=seed, options=options), mask, self.num_envs)
            self._ended[exchange.touched] = False
        self._apply(exchange)
        return exchange

    def _exchange_step(self, actions: Any, env_ids: Any) -> Exchange:
        inner = self.env
        rows = self._rows(env_ids)
        actions = self.transform.actions(actions, rows)
        if isinstance(inner, (Wrapper, VectorEnv)):
            exchange = inner._exchange_step(actions, env_ids)
        elif env_ids is None:
            ops = plan(self.autoreset_mode, self._ended)
            exchange = Exchange.of_step(inner.step(actions), rows, ops)
            self._ended = exchange.done
        else:
            raise self._not_ours("a partial step")
        self._apply(exchange)
        return exchange

    def _exchange_recv(
        self, min_envs: int | None, timeout: float | None, max_envs: int | None = None, until: float | None = None
    ) -> Exchange:
        inner = self.env
        if not isinstance(inner, (Wrapper, VectorEnv)):
            raise self._not_ours("recv")
        exchange = inner._exchange_recv(min_envs, timeout, max_envs, until)
        self._apply(exchange)
        return exchange

    async def _exchange_step_one(self, env_id: int, actions: Any) -> Exchange:
        actions = self.transform.actions(actions, np.array([env_id]))
        exchange = await self._ours("step_one")._exchange_step_one(env_id, actions)
        self._apply(exchange)
        return exchange

    async def _exchange_reset_one(self, env_id: int, seed: int | None, options: dict[str, Any] | None) -> Exchange:
        exchange = await self._ours("reset_one")._exchange_reset_one(env_id, seed, options)
        self._apply(exchange)
        return exchange

    def _single(self, exchange: Exchange) -> SingleStep:
        """What a single env returns, from an exchange of one."""
        (obs,) = iterate(batch_space(self.single_observation_space, 1), exchange.obs)
        (info,) = infos_to_list(exchange.as_gymnasium(), 1)
        reward, terminated, truncated = exchange.reward, exchange.terminated, exchange.truncated
        return obs, float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def _apply(self, exchange: Exchange) -> None:
        try:
            self.transform.exchange(exchange)
        except NotFiniteError as error:
            if isinstance(self.unwrapped, VectorEnv) and isinstance(self.unwrapped._decorated, SupportsRecording):
                self.unwrapped._decorated.failed(error)
            raise

    def _warn_if_twice(self) -> None:
        inner: Any = self.env
        while isinstance(inner, gymnasium.vector.VectorWrapper):
            if type(inner) is type(self) and self.transform.once:
                warnings.warn(
                    f"{type(self).__name__} is around another {type(self).__name__}, which learns or counts the same "
                    "thing already; leave one of them out",
                    UserWarning,
                    stacklevel=4,
                )
                return
            inner = inner.env

    def _rows(self, env_ids: Any) -> np.ndarray:
        """Env ids as numbers; the env inside checks them."""
        if env_ids is None:
            return self._everyone
        ids = np.asarray(env_ids)
        return np.flatnonzero(ids) if ids.dtype == np.bool_ else ids

    def _ours(self, call: str) -> Any:
        if not isinstance(self.env, (Wrapper, VectorEnv)):
            raise self._not_ours(call)
        return self.env

    def _vecenvs_own(self, call: str) -> VectorEnv:
        """The vector env inside all wrappers."""
        if not isinstance(self.unwrapped, VectorEnv):
            raise self._not_ours(call)
        return self.unwrapped

    def _not_ours(self, call: str) -> UnsupportedError:
        return UnsupportedError(f"{call} needs a vector env of vecenv inside, this is {type(self.unwrapped).__name__}")


def _batch_of_one(space: Any, action: Any) -> Any:
    """An action of one env as a batch, as transforms take it."""
    if isinstance(space, (Dict, Tuple)):
        return concatenate(space, [action], create_empty_array(space, 1))
    return [action] if is_custom(space) else np.asarray([action])


class LearningWrapper(Wrapper):
    """A wrapper whose transform has statistics."""

    transform: Any

    @property
    def update_running_mean(self) -> bool:
        """Whether statistics are updated; set it to False for evaluation."""
        return self.transform.learning

    @update_running_mean.setter
    def update_running_mean(self, setting: bool) -> None:
        self.transform.learning = bool(setting)
