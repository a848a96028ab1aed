"""A vector env whose actions and results are torch tensors in a device's memory.

Nothing is copied to the host and nothing waits for the device, unless a method says so. Tensors that `step` and `reset`
return are the device's own memory: what one step returned stays as it is during the next three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch.batch import Op
from vecenv._batch.layout import map_tree
from vecenv._batch.random_state import CLONES, fresh_words
from vecenv._batch.seeding import NO_SEED, check_spread, one_seed, spread
from vecenv._front.device_actions import DeviceActions
from vecenv._front.device_results import DeviceState, RolloutGraphs, TensorRollout
from vecenv._front.vector_env import VectorEnv
from vecenv._util.checks import brief, positive_int
from vecenv.errors import ConfigError, ConfigTypeError, NotResetError, SpaceError
from vecenv.errors import UnsupportedError as Unsupported
from vecenv.kernel.lower.columns import is_lasting

if TYPE_CHECKING:
    from vecenv.engines.device.engine import DeviceEngine

_RESET = int(Op.RESET)


class DeviceVectorEnv(VectorEnv, gymnasium.vector.VectorEnv):  # type: ignore[misc]  # skrl looks at direct bases
    """Many environments on a device, with torch tensors in and out. `vecenv.make(id, n, device="cuda:0")` makes one.

    With `copy=True`, `step` and `reset` return copies on the device; else what one step returned stays as it is during
    the next three.

    Attributes:
        device: torch's.
    """

    engine: DeviceEngine

    def __init__(self, engine: Any, **options: Any) -> None:
        import torch

        super().__init__(engine, **options)
        self._torch = torch
        memory = self.engine.columns_apart
        assert memory is not None
        self._memory = memory
        self.device = torch.device(self.engine.device)
        self._tensors = {name: _tensor(array).reshape(memory.shapes[name]) for name, array in memory.arrays.items()}
        """Of each column; those in the ring have an axis of layers."""
        self._leaves = range(len(self._batch.observation_layout.leaves))
        columns = [self._tensors[f"A_{leaf}"] for leaf in range(len(self._batch.action_layout.leaves))]
        self._actions = DeviceActions(self._batch, columns, memory)
        self._results_of = [self._views(layer) for layer in range(memory.layers)]
        """What a step returns, by the layer that it writes to."""
        self._graphs = RolloutGraphs(self)
        alive, over = self._alive_op, self._over_op
        self._ops = alive, 0 if self.autoreset_mode is AutoresetMode.DISABLED else over

    def _views(self, layer: int) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        names = [*self._batch.info]
        infos = {name: self._tensors[f"O{_slot(name)}"][layer] for name in names}
        if self._may_roll:
            infos["final_obs"] = self._observed("F", layer)
            infos["final_info"] = {name: self._tensors[f"F{_slot(name)}"][layer] for name in names}
        flags = (self._tensors[name][layer] for name in ("REWARD", "TERMINATED", "TRUNCATED"))
        reward, terminated, truncated = flags
        return self._observed("O", layer), reward, terminated, truncated, infos

    def _observed(self, kind: str, layer: int) -> Any:
        return self._batch.observation_layout.nest([self._tensors[f"{kind}_{leaf}"][layer] for leaf in self._leaves])

    # --- Gymnasium's calls -------------------------------------------------------------------------------------------

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes, of all envs or of those in `options["reset_mask"]`, a bool tensor or array.

        Seeds are as everywhere: the same seed begins the same episode on every engine. One int needs no copy to the
        device. Other keys of `options` are parameters of the kernel; they are looked at on the host.

        Returns:
            Observations of all envs, and infos. With a mask the latest observations are changed in place.
        """
        mask = options.get("reset_mask") if isinstance(options, dict) else None
        if options is not None and (not isinstance(options, dict) or set(options) - {"reset_mask"}):
            host: Any = mask.cpu().numpy() if isinstance(mask, self._torch.Tensor) else mask
            given = {**options, "reset_mask": host} if mask is not None else options
            super().reset(seed=seed, options=given)
        else:
            self._run("reset", self._reset_on_device, seed, mask)
        obs, *_, infos = self._handed_out()
        left_out = {"final_obs", "final_info", *self._batch.step_info}
        return obs, {name: value for name, value in infos.items() if name not in left_out}

    def _reset_on_device(self, seed: Any, mask: Any) -> None:
        torch, tensors = self._torch, self._tensors
        self.engine.to_device()
        seeds = None if seed is None else self._seeds(seed)
        if mask is None:
            tensors["OP"].fill_(_RESET)
            rows, ready = self._call_order.all_rows, np.ones(self.num_envs, np.bool_)
        else:
            mask = self._mask(mask)
            if mask.dtype != torch.bool or tuple(mask.shape) != (self.num_envs,):
                raise SpaceError(
                    f"reset_mask must be {self.num_envs} bools, got {mask.dtype} of shape {tuple(mask.shape)}"
                )
            if not self._call_order.ready.all():
                raise NotResetError("envs need a reset() of all of them before some are reset by a mask")
            tensors["OP"].copy_(mask)  # RESET is 1
            seeds = None if seeds is None else torch.where(mask, seeds, torch.full_like(seeds, NO_SEED))
            rows, ready = self._call_order.all_rows[:0], np.ones(0, np.bool_)
        if seeds is not None:
            tensors["SEED"].copy_(seeds)
        self._launch(0, 0)
        self._call_order.replaced(rows, ready)

    def _mask(self, mask: Any) -> Any:
        """What a user has given as a mask, as a tensor on the device. Raises SpaceError."""
        try:
            return self._torch.as_tensor(mask, device=self.device)
        except Exception as error:  # whatever torch says about it
            raise SpaceError(
                f"reset_mask must be {self.num_envs} bools, a tensor on {self.device} or an array; got {brief(mask)} "
                f"({error})"
            ) from None

    def _seeds(self, seed: Any) -> Any:
        """One seed per env on the device."""
        if self._seeding == "gymnasium" and np.ndim(seed) == 0:
            first = one_seed(seed)
            assert first is not None
            check_spread(first, self.num_envs)
            return self._torch.arange(self.num_envs, device=self.device) + first
        self._memory.transfers += 1
        return self._torch.as_tensor(spread(seed, self.num_envs, self._seeding), device=self.device)

    def step(self, actions: Any, env_ids: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all envs.

        Args:
            actions: a tensor on this device with the dtype and shape of the action space, one row per env; or anything
                that has `__dlpack__` or `__cuda_array_interface__` there. Not copied if it is contiguous. NumPy's
                arrays and lists are checked on the host, as on all engines, and copied to the device.
            env_ids: not on a device; all envs are stepped.

        Returns:
            Observations, rewards, terminated, truncated and infos, as tensors. With autoreset "same-step",
            `infos["final_obs"]` has the observation that ended an episode where one ended.

        Raises:
            InvalidAction: device, dtype or shape of the actions are wrong; nothing was run. Values of tensors are
                looked at by the device: an env whose action is not in the space stays as it is, and `check` raises, or
                the next call that waits for the device.
        """
        return self._step_with(lambda: self._actions.tensors(actions), env_ids)

    def _step_with(self, actions: Callable[[], list[Any]], env_ids: Any = None) -> tuple[Any, ...]:
        """Step all envs with what `actions` returns, tensors as of `DeviceActions`, once envs may be stepped."""
        order = self._call_order
        order.enter("step")
        try:
            if env_ids is not None:
                raise Unsupported("a device steps all envs at once; leave env_ids out, or use engine='compiled'")
            order.check_can_step(None, "step")
            self.engine.to_device()
            address, keep = self._actions.memory_of(actions())
            memory = self._memory
            memory.layer = (memory.layer + 1) % memory.layers
            self._launch(*self._ops, address)
            del keep
            return self._handed_out()
        finally:
            order.inside, order.vacant = None, True

    def _handed_out(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """The latest results."""
        results = self._results_of[self._memory.layer]
        if self.copy:
            return map_tree(lambda leaf: leaf.clone(), results)
        return (*results[:4], dict(results[4]))

    def _launch(self, alive: int, over: int, action: int = 0) -> None:
        stream = None
        if self.device.type == "cuda":  # torch's own stream: what it computes before and after is in order
            from vecenv.kernel.cpp.host import warp

            stream = warp().stream_from_torch(self._torch.cuda.current_stream(self.device))
        self.engine.launch(alive, over, action=action, check=int(alive != 0), stream=stream)

    def check(self) -> None:
        """Wait for the device, and raise what it has noted since the last time.

        Raises:
            InvalidAction: an action was not in the space; it names the first such env. Those envs were not stepped.
            NotResetError: with autoreset "disabled", an env was to be stepped whose episode is over.
            KernelFault: a loop of an env took more than two billion turns and was stopped.

        Warns:
            RuntimeWarning: the simulation of a MuJoCo task has diverged; that env's episode was truncated.
        """
        self._run("check", self.engine.raise_noted)

    # --- many steps --------------------------------------------------------------------------------------------------

    def rollout(
        self,
        actions: Any = None,
        *,
        policy: Any = None,
        steps: int | None = None,
        seed: Any = None,
        graph: bool | None = None,
    ) -> Any:
        """Run many steps of all envs, with a torch module or any function of tensors as the policy.

        Args:
            actions: a tensor of actions with a leading axis of time: [T, N, ...]. Other arrays are taken as by `step`.
            policy: instead, gets the observations of all envs, tensors, and returns their actions as `step` takes them.
                It runs under `torch.no_grad`.
            steps: T, with a policy.
            seed: not for tensors; a torch policy draws by torch.
            graph: on CUDA, whether the second rollout with the same policy and steps is captured as a CUDA graph, which
                that one and later ones replay: kernels of the policy run again, its Python code does not. Default: if
                the policy is a torch module. MuJoCo tasks have graphs of their own instead.

        Returns:
            A TensorRollout. Begin with `reset`; the next rollout goes on where this one ends.

        Raises:
            ConfigError: the results do not fit the device's memory; nothing was run, and nothing is left allocated.
        """
        if (actions is None) == (policy is None):
            raise ConfigError("rollout needs either actions[T, N] or policy=, and not both")
        if seed is not None:
            raise ConfigError("a torch policy draws by torch; use torch.manual_seed instead of seed")
        if policy is not None and not callable(policy):
            raise ConfigTypeError(f"policy must be a torch module or a function of observations, got {brief(policy)}")
        self._call_order.check_open("rollout")
        if actions is None:
            count = positive_int("steps", steps)
        else:
            actions, count = self._actions.of_time(actions, steps)
        self._call_order.check_can_step(None, "rollout")
        if self._captures(policy, graph):
            return self._graphs.rollout(policy, count)
        return self._take_steps(actions, policy, count)

    def _captures(self, policy: Any, graph: bool | None) -> bool:
        """Whether a rollout is to be a CUDA graph. Raises ConfigError where there can be none."""
        possible = self.device.type == "cuda" and policy is not None and self.engine.can_be_captured
        if graph and not possible:
            raise ConfigError(
                "graph=True is for rollouts of kernels with a policy on CUDA; leave it out here: the steps are the same"
            )
        return possible and (isinstance(policy, self._torch.nn.Module) if graph is None else graph)

    def _take_steps(self, actions: Any, policy: Any, count: int) -> TensorRollout:
        obs, reward, terminated, truncated, infos = self._results_of[self._memory.layer]
        like = {
            "obs": obs,
            "actions": self._actions.nest(self._actions.columns),
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
        }
        like |= {"final_obs": infos["final_obs"]} if "final_obs" in infos else {}
        kept = {"final_obs": None, **self._room(like, count)}  # all of it before anything moves
        with self._torch.no_grad():
            for moment, chosen in enumerate(self._chosen(actions, policy, count)):
                before = self._results_of[self._memory.layer][0]
                given = self._actions.tensors(chosen(before))
                self._keep(kept, {"obs": before, "actions": self._actions.nest(given)}, moment)
                obs, *rest, infos = self._step_with(lambda given=given: given)
                self._keep(kept, dict(zip(("reward", "terminated", "truncated"), rest, strict=True)), moment)
                if "final_obs" in infos:
                    self._keep(kept, {"final_obs": infos["final_obs"]}, moment)
        return TensorRollout(**kept, next_obs=obs)

    def _room(self, parts: dict[str, Any], steps: int) -> dict[str, Any]:
        """Memory for as many steps of tensors like these. Raises ConfigError if there is too little."""
        if self.device.type == "cpu":  # Linux grants more memory than it has, and kills the process when that is used
            sizes: list[int] = []
            map_tree(lambda leaf: sizes.append(leaf.nbytes), parts)
            self._memory.check_rollout(sum(sizes), steps)
        try:
            return {
                name: map_tree(lambda leaf: leaf.new_empty((steps, *leaf.shape)), part) for name, part in parts.items()
            }
        except (RuntimeError, MemoryError) as error:
            raise ConfigError(
                f"{steps} steps of {self.num_envs} envs do not fit the memory of {self.device}; roll out fewer steps "
                f"at a time ({str(error).splitlines()[0]})"
            ) from None

    def _chosen(self, actions: Any, policy: Any, count: int) -> Iterator[Callable[[Any], Any]]:
        for moment in range(count):
            yield (lambda obs, moment=moment: actions[moment]) if policy is None else policy

    def _keep(self, kept: dict[str, Any], parts: dict[str, Any], moment: int) -> None:
        """Copy what a step brought to its place in time, on the device."""
        for name, value in parts.items():
            map_tree(lambda into, leaf: into[moment].copy_(leaf), kept[name], value)

    # --- states ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> SimpleNamespace:
        """The kernel's fields of all envs as tensors. Writing to them changes the envs."""
        self.engine.to_device()
        return SimpleNamespace(**{name: self._tensors[f"S_{name}"] for name in self.engine.own_fields})

    @property
    def episode_return(self) -> Any:
        """Return so far of each env's episode, a tensor; of the ended one while its last step is the latest."""
        return self._tensors["RETURN"].clone()

    @property
    def episode_length(self) -> Any:
        """Steps so far of each env's episode, a tensor; of the ended one while its last step is the latest."""
        return self._tensors["LENGTH"].clone()

    def get_state(self, env_ids: Any = None) -> Any:
        """Everything that envs consist of, as tensors on the device. `set_state` brings it back."""
        return self._run("get_state", self._read, env_ids)

    def _read(self, env_ids: Any) -> DeviceState:
        self.engine.to_device()
        rows = self._call_order.all_rows if env_ids is None else self._call_order.parse_rows(env_ids)
        index = None if env_ids is None else self._torch.as_tensor(rows, device=self.device)
        columns = self._lasting()
        read = {name: column.clone() if index is None else column[index] for name, column in columns.items()}
        shared = {name: self.engine.parameters[name] for name in self.shared_params}
        return DeviceState(read, self._call_order.ready[rows], shared)

    def set_state(self, state: Any, env_ids: Any = None) -> None:
        """Make envs what they were in `get_state`; a state of one env may be set to many.

        If the kernel has parameters, it waits for the device: they are checked on the host.

        Raises:
            SpaceError: it is a state of other envs.
            ConfigError: a parameter in it is not within its bounds.
            KernelError: Python raises with a parameter in it. It names the line.
        """
        self._set_state(state, env_ids, check=True)

    def _set_state(self, state: Any, env_ids: Any, check: bool) -> None:
        if not isinstance(state, DeviceState):
            raise ConfigTypeError(
                f"set_state needs what get_state of envs on a device returned, got {type(state).__name__}"
            )
        rows = self._call_order.all_rows if env_ids is None else self._call_order.parse_rows(env_ids)
        if len(state) not in (1, len(rows)):
            raise SpaceError(f"the state is of {len(state)} envs and is to be set to {len(rows)}; pass env_ids")
        self._run("set_state", self._restore, state, rows, env_ids is None, check)

    def _restore(self, state: DeviceState, rows: np.ndarray, everyone: bool, check: bool) -> None:
        self.engine.to_device()
        columns = self._lasting()
        for name, column in columns.items():
            given = state.columns.get(name)
            if given is None or given.dtype != column.dtype or given.shape[1:] != column.shape[1:]:
                raise SpaceError(
                    f"this state is not one of {self.engine.kernel.id} with these parameters and precision="
                    f"{self.engine.precision!r} (column {name} differs)"
                )
        if check:
            self._check_parameters(state, everyone)
        index = self._torch.as_tensor(rows, device=self.device)
        for name, column in columns.items():
            given = state.columns[name].expand(len(rows), *column.shape[1:])
            if everyone:
                column.copy_(given)
            else:
                column[index] = given
        self.engine.mark_host_old()
        self._call_order.replaced(rows, np.broadcast_to(state.ready, len(rows)))

    def _check_parameters(self, state: DeviceState, everyone: bool) -> None:
        """Raise for parameters that no env may have; take over those that all envs share."""
        on_host = {name: tensor.cpu().numpy() for name, tensor in state.columns.items() if name[:2] in ("P_", "B_")}
        self._memory.transfers += len(on_host)
        self.engine.check_state({**on_host, **{f"P_{name}": column for name, column in state.shared.items()}})
        for name, column in state.shared.items():
            own = self.engine.parameters[name]
            if column is own or column.tobytes() == own.tobytes():
                continue
            if not everyone:
                raise SpaceError(
                    f"this state is of envs with other {name}, which all envs share; set it for all envs at once"
                )
            self.engine.set_attr(name, [column[0]] * self.num_envs)
            self.engine.to_device()

    def clone(self, source: Any, target: Any, *, seed: int | None = None) -> None:
        """Make the envs `target` copies of the envs `source`; see `VectorEnv.clone`."""
        one, state, targets = one_seed(seed), self.get_state(np.atleast_1d(source)), np.atleast_1d(target)
        if one is not None:
            words = fresh_words(one, len(targets), CLONES).view(np.int64)
            many = {name: column.expand(len(targets), *column.shape[1:]) for name, column in state.columns.items()}
            many["RNG"] = self._torch.as_tensor(words, device=self.device)
            self._memory.transfers += 1
            state = DeviceState(many, np.broadcast_to(state.ready, len(targets)), state.shared)
        self._set_state(state, targets, check=False)

    def _lasting(self) -> dict[str, Any]:
        """The columns that envs consist of, as they are now."""
        names = [name for name in self._tensors if is_lasting(name) and name not in self._memory.common]
        ring, layer = self._memory.in_ring, self._memory.layer
        return {name: self._tensors[name][layer] if name in ring else self._tensors[name] for name in names}

    # --- what a device has not ---------------------------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Not on a device: a step does not wait for it anyway."""
        raise _all_at_once("send")

    def send_reset(self, env_ids: Any = None, *, seed: Any = None, options: Any = None) -> None:
        """Not on a device, see `send`."""
        raise _all_at_once("send_reset")

    def recv(
        self,
        min_envs: int | None = None,
        max_envs: int | None = None,
        *,
        until: float | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Not on a device, see `send`."""
        raise _all_at_once("recv")

    def xla(self) -> Any:
        """Not on a device: JAX's programs call these envs on the host."""
        raise Unsupported("xla() works on NumPy's arrays; make the envs with results='numpy', or engine='compiled'")


def _all_at_once(call: str) -> Unsupported:
    return Unsupported(
        f"{call}() is not for results that are tensors: a device steps all envs at once, and step() does not wait for "
        "it; use step() and reset(), or make the envs with results='numpy'"
    )


def _slot(info: str) -> str:
    return "M" if info == "action_mask" else f"I_{info}"


def _tensor(array: Any) -> Any:
    """A Warp array as a torch tensor of the same memory; words without a sign as such with one."""
    from vecenv.kernel.cpp.host import warp

    wp = warp()
    signed = {wp.uint64: wp.int64, wp.uint32: wp.int32, wp.uint16: wp.int16}
    return wp.to_torch(array.view(signed[array.dtype]) if array.dtype in signed else array)
