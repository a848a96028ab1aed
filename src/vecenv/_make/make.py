"""`make`: from an id or a function to a running vector env."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gymnasium.vector import AutoresetMode

from vecenv._batch.faults import OnError
from vecenv._batch.finite import Policy
from vecenv._batch.seeding import Seeding
from vecenv._front.device import DeviceVectorEnv
from vecenv._front.vector_env import VectorEnv
from vecenv._make.choose import choose
from vecenv._make.decorate import decorate
from vecenv._make.options import check_request, of_rows, split_options
from vecenv._make.source import resolve
from vecenv.agents._vector_env import with_agents
from vecenv.engines import Engine, SupportsSummary, registry
from vecenv.engines.options import EngineBuilder, EngineOptions
from vecenv.engines.python.factories import EnvWrapper
from vecenv.engines.request import Request
from vecenv.errors import ConfigTypeError


def make(
    env: Any,
    num_envs: int = 1,
    *,
    engine: str | EngineBuilder | EngineOptions = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    autoreset: str | AutoresetMode = "next-step",
    copy: bool | None = None,
    seeding: Seeding = "gymnasium",
    on_error: OnError = "raise",
    timeout: float | None = None,
    check_finite: Policy | Mapping[str, Policy] | None = None,
    observation_mode: Any = "same",
    env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    wrappers: Sequence[EnvWrapper] | None = None,
    preprocessing: Any = None,
    record: Literal["last-episode"] | None = None,
    record_folder: str | os.PathLike[str] = "recordings",
    record_limit: int = 256 * 2**20,
    agents: bool | None = None,
    end: Literal["all", "any"] = "all",
    slots: int | Mapping[str, int] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    pad: bool = False,
    **kwargs: Any,
) -> VectorEnv:
    """Make `num_envs` environments and run them as one.

    An option that the engine cannot honour is an error; with "auto", such an engine is not chosen.

    Args:
        env: an id of a kernel or a Gymnasium env, the class of a kernel or of a MuJoCo task, an EnvSpec, a callable
            that makes an env, or a list of such callables (one per env) or of ids of Atari games. A PettingZoo env (a
            callable that makes one, or a name such as "pettingzoo:mpe2.simple_spread_v3") gives a
            `vecenv.agents.MultiAgentVectorEnv`, see docs/agents.md.
        num_envs: how many; left out with a list.
        engine: the name of an engine ("sync", "thread", "process", ...), an object of `vecenv.engines` such as
            `Process(workers=4)`, an engine object of your own (docs/engines.md), or "auto": the fastest on this machine
            that is faithful, see `engine_reason`.
        workers: threads, processes or actors; the short form of the engine's option of that name.
        batch_size: how many envs `recv` waits for by default; with fewer than `num_envs`, `recv` returns the envs
            that are ready first.
        autoreset: "next-step", "same-step" or "disabled", or Gymnasium's AutoresetMode.
        copy: False hands out views of the batch that the next step overwrites; those of kernels stay as they are during
            the next three steps. Default: False for tensors on a device, else True.
        seeding: how `reset(seed=int)` spreads over envs: "gymnasium" (seed, seed + 1, ...) or "spawn" (never
            overlapping).
        on_error: "raise", or "restart": build a failed env again and report its episode as truncated.
        timeout: seconds that a step, reset or call may take; None waits for ever.
        check_finite: what to do about NaN and infinity: "error" (a NotFiniteError; that env needs a reset), "truncate"
            (end its episode, with `info["fault"]`, and go on), "warn" (once per env) or "off"; for observations and
            rewards alike, or {"obs": ..., "reward": ...}. Default: rewards warn, observations are not looked at.
        observation_mode: "same", "different" or Gymnasium's pair (batched space, single space).
        env_kwargs: constructor arguments of the envs, one dict for all or one per env.
        wrappers: single-env wrappers, applied to every env in this order.
        preprocessing: Atari games: True, "dqn", a dict of options or a `vecenv.atari.Preprocessing`.
        record: "last-episode" keeps what is needed to run the current episode of each env again: how it began, and the
            actions since. When an env raises, returns something invalid, hangs, dies, or is not finite where
            check_finite is "error" or "truncate", a file of data is written, and the error names it (`.recording`; with
            on_error="restart" it is `info["fault"]["recording"]`). `vecenv replay FILE` runs it again;
            `envs.recording(row)` has the same on demand. What is changed from outside (`set_attr`, `call`, writing to
            `envs.state`) is not recorded, nor are the steps of `rollout`.
        record_folder: where those files go. At most 100 of a vector env are kept, readable by their owner alone.
        record_limit: bytes to keep in memory. When there is more, the oldest steps are forgotten, and episodes that are
            longer are marked as not complete: they cannot be replayed.
        agents: True: the env has several agents; of a Gymnasium env, `num_agents` says how many. None: PettingZoo envs
            have. False: none has.
        end: several agents: the episode of an env ends when "all" of its agents are done, or when "any" is.
        slots: several agents: how many may live at once, for agents that join later, vary in number or are not known
            beforehand; by group if there are several. They take the first free slot. None: one slot per possible agent.
        groups: several agents: names of agents by group. None: agents with equal spaces are a group.
        pad: several agents: True makes one group of agents with unequal spaces. Observations are padded with zeros; a
            Discrete action that an agent does not have becomes 0.
        **kwargs: options of the engine by name, the short form of its fields: `engine="process", context="fork"` is
            `engine=vecenv.engines.Process(context="fork")`; `device="cuda:0"` is
            `engine=vecenv.engines.Device(device="cuda:0")`, whose results are torch tensors (docs/gpu.md). With "auto",
            engines that have these options are chosen from. All other names are constructor arguments, for all envs. A
            kernel's parameter may be an array of one value per env.

    Raises:
        ConfigError: an argument is not valid. Nothing was started.
        EngineRefused: the engine cannot do what is asked; the message names the engines that can.
        EnvError: an env could not be built; it says which and why.
    """
    options, kwargs = split_options({"workers": workers, **kwargs})
    given: Any = {
        "batch_size": batch_size,
        "autoreset": autoreset,
        "copy": copy,
        "seeding": seeding,
        "on_error": on_error,
        "timeout": timeout,
        "check_finite": check_finite,
        "observation_mode": observation_mode,
        "wrappers": wrappers,
        "record": record,
        "record_folder": record_folder,
        "record_limit": record_limit,
    }
    request = check_request(Request(num_envs, **given))
    asked = {"agents": agents, "end": end, "slots": slots, "groups": groups, "pad": pad}
    source = resolve(env, num_envs, env_kwargs, wrappers, kwargs, preprocessing, asked)
    request = of_rows(request, len(source.env_fns))
    chosen, reason = choose(engine, options, source, request)
    if source.kernel is not None and not registry.declares(chosen, "native"):
        source.kernel.check_native(source.kernel.parameters({}, 1))  # Python refuses what native code refuses
    running = _checked(chosen, chosen.build(source, request))
    recording = (source.env_fns, request.record_folder, request.record_limit) if request.record is not None else None
    tensors = bool(getattr(chosen, "returns_tensors", False))
    envs = (DeviceVectorEnv if tensors else VectorEnv)(
        running if tensors else decorate(running, request.autoreset, request.check_finite, recording),
        autoreset=request.autoreset,
        batch_size=request.batch_size,
        copy=not tensors if request.copy is None else request.copy,
        seeding=request.seeding,
        timeout=request.timeout,
        engine_reason=f"{reason}: {running.summary()}" if isinstance(running, SupportsSummary) else reason,
        shared_params=frozenset() if source.kernel is None else source.kernel.shared_params,
    )
    envs.spec = source.spec
    return with_agents(envs)  # type: ignore[return-value]  # several agents are known only when the envs are made


def _checked(asked: object, built: Any) -> Engine:
    """The engine that an object of others built, if it is one."""
    missing = [
        name for name in ("name", "batch", "facts", "send", "recv", "pending", "close") if not hasattr(built, name)
    ]
    if missing:
        raise ConfigTypeError(
            f"{type(asked).__name__}.build must return an engine (see vecenv.engines.Engine); what it returned, "
            f"{built!r:.60}, has no {', '.join(missing)}"
        )
    return built
