"""`gym.vector.make`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from vecenv.engines.python.factories import factories
from vecenv.gym._vector_env import AsyncVectorEnv, Infos, StepTuple, SyncVectorEnv, VectorEnv

EnvWrapper = Callable[[gymnasium.Env[Any, Any]], gymnasium.Env[Any, Any]]


def make_of(sync: type[SyncVectorEnv], process: type[AsyncVectorEnv]) -> Callable[..., VectorEnv]:
    """The function `make` that makes vector envs of these two classes."""

    def make(
        id: str,
        num_envs: int = 1,
        asynchronous: bool = True,
        wrappers: EnvWrapper | Sequence[EnvWrapper] | None = None,
        disable_env_checker: bool | None = None,
        *,
        step_tuple: StepTuple | None = None,
        infos: Infos | None = None,
        new_step_api: bool | None = None,
        context: Any = None,
        check_finite: Any = "off",
        **kwargs: Any,
    ) -> VectorEnv:
        """Make a vector env of a registered environment, as `gym.vector.make` did.

        Args:
            id: a Gymnasium id.
            num_envs: number of envs.
            asynchronous: True runs them in worker processes, False in this one.
            wrappers: one or several wrappers, applied to each env.
            disable_env_checker: whether env 0 runs without Gymnasium's checker; None: as its spec says. Other envs have
                none.
            step_tuple: 4: `step` returns (obs, rewards, dones, infos) and `reset` obs alone, unless `return_info=True`;
                5: `step` returns (obs, rewards, terminateds, truncateds, infos) and `reset` (obs, infos). None: 4 in
                `vecenv.gym`, 5 in `vecenv.gym.v26`.
            infos: "tuple" or "list": one dict per env, as before 0.24; "dict": one dict of arrays. None: "tuple" in
                `vecenv.gym`, "dict" in `vecenv.gym.v26`.
            new_step_api: the argument of 0.25 for `step_tuple`: True is 5, False is 4.
            context: start method of the worker processes.
            check_finite: as in `vecenv.make`; gym had no such check.
            **kwargs: constructor arguments of the envs.
        """
        if new_step_api is not None:
            step_tuple = 5 if new_step_api else 4
        env_kwargs = [
            {**kwargs, "disable_env_checker": True if row else disable_env_checker} for row in range(num_envs)
        ]
        env_fns, spec = factories(id, num_envs, env_kwargs, wrappers)  # type: ignore[arg-type]  # or one wrapper
        asked: Any = {"step_tuple": step_tuple, "infos": infos, "check_finite": check_finite}
        envs = process(env_fns, context=context, **asked) if asynchronous else sync(env_fns, **asked)
        envs.spec = spec
        return envs

    return make
