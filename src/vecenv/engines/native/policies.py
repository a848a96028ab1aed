"""Policies of rollouts: their native code is held ready, and they are tried out in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv.errors import ConfigError
from vecenv.kernel.backend import NativeCode
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.reads import Reads, reads_of
from vecenv.kernel.language.snapshot import EnvOf, Trials, policy_trials

_MOST = 8
"""Policies whose code is held ready."""

Policy = Callable[..., Any]


@dataclass
class _Held:
    """A policy whose code is held ready.

    Attributes:
        code: the row loop with the policy in it.
        trials: of the policy; None before the first.
        tried: whether it was tried with the parameters that the rows have now.
    """

    code: NativeCode
    trials: Trials | None = None
    tried: bool = False


class Policies:
    """Native code of policies. It is made again if a policy reads other values than it did.

    Args:
        kernel: of the rows.
        compiled: makes the row loop with a policy in it.
        env_of: for trials of policies. None: code with checks needs no trial.
    """

    def __init__(self, kernel: Kernel, compiled: Callable[[Policy], NativeCode], env_of: EnvOf | None) -> None:
        self._kernel, self._compiled, self._env_of = kernel, compiled, env_of
        self._constants = _reads_of_kernel(kernel)
        self._held: dict[Reads, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def parameters_changed(self) -> None:
        """Let every policy be tried again before it is run."""
        for held in self._held.values():
            held.tried = False

    def code_of(self, policy: Policy, columns: Callable[[], Mapping[str, np.ndarray]]) -> NativeCode:
        """The row loop with a policy in it.

        Args:
            policy: as `rollout` takes it.
            columns: called for a trial: those of the rows. `P_` are the parameters of their episodes, `B_` those of the
                next ones.

        Raises:
            ConfigError: the kernel reads other values than it did when the envs were made.
            KernelError: the policy breaks a rule of kernels, or an index in it is out of range.
        """
        reads = reads_of(policy)
        if reads not in self._held:
            self._hold(reads, policy)
        held = self._held[reads]
        if not held.tried and self._env_of is not None and not self._kernel.shared:
            self._try_out(held, policy, self._env_of, columns())
        held.tried = True
        return held.code

    def _hold(self, reads: Reads, policy: Policy) -> None:
        if _reads_of_kernel(self._kernel) != self._constants:
            raise ConfigError(
                f"{self._kernel.id} reads other values of its module than when these envs were made, so a new policy "
                "cannot be compiled with them; make them again"
            )
        code = self._compiled(policy)
        while len(self._held) >= _MOST:
            del self._held[next(iter(self._held))]
        self._held[reads] = _Held(code)

    def _try_out(self, held: _Held, policy: Policy, env_of: EnvOf, columns: Mapping[str, np.ndarray]) -> None:
        now = {name: columns[f"P_{name}"] for name in self._kernel.params}
        if held.trials is None:
            held.trials = policy_trials(self._kernel, env_of, policy, self._kernel.row_of(now, 0))
        held.trials.run(now)
        held.trials.run({name: columns.get(f"B_{name}", now[name]) for name in now})


def _reads_of_kernel(kernel: Kernel) -> list[Reads]:
    return [reads_of(source.function) for source in kernel.methods.values()]
