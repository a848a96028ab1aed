"""What an engine is built from: the source (what the user passed as env) and the request (how it is to be run)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from vecenv._batch.faults import OnError
from vecenv._batch.finite import Policies
from vecenv._batch.seeding import Seeding
from vecenv.engines.python.envs import Factory

if TYPE_CHECKING:
    from vecenv.atari._games import AtariGames
    from vecenv.kernel.language.define import Kernel
    from vecenv.mujoco._task import Task


@dataclass(frozen=True)
class Source:
    """What a user passed to `make` as env, resolved.

    Attributes:
        env_fns: one Python factory per row; wrappers and preprocessing are already part of them.
        env_kwargs: constructor arguments of the envs: one mapping for all, one per row, or None.
        spec: Gymnasium's, None if the env has none.
        kernel: of the env, None if it has none.
        task: the MuJoCo task of the env, None if it has none.
        task_kernel: the kernel of that task with the model that is asked for; None if there is no such kernel.
        games: the Atari games, None if the envs are no games of ale-py.
        origin: index of the first row among all envs, if these are a part of a larger batch.
    """

    env_fns: Sequence[Factory]
    env_kwargs: Any = None
    spec: EnvSpec | None = None
    kernel: Kernel | None = None
    task: type[Task] | None = None
    task_kernel: Any = None
    games: AtariGames | None = None
    origin: int = 0


@dataclass(frozen=True)
class Request:
    """What `make` was asked for that concerns every engine. All values are checked.

    The vector env handles `batch_size`, `autoreset`, `copy`, `seeding`, `check_finite` and `record_*`. An engine
    handles `on_error`, `timeout` (as an argument of `recv`) and `observation_mode`, or refuses them.

    Attributes:
        num_envs: number of rows.
        batch_size: how many rows `recv` returns by default; None for all.
        autoreset: Gymnasium's mode.
        copy: False if results are to be views; None: as is usual for what the engine returns.
        seeding: how one seed is spread over rows.
        on_error: "raise", or "restart": build a failed env again.
        timeout: seconds that a step, reset or call may take; None for no limit.
        check_finite: what to do about NaN and infinity.
        observation_mode: "same", "different" or a pair of spaces.
        wrappers: single-env wrappers. `Source.env_fns` apply them.
        record: "last-episode" or None.
        record_folder: where recordings are written.
        record_limit: bytes of recordings to keep in memory.
    """

    num_envs: int
    batch_size: int | None = None
    autoreset: AutoresetMode = AutoresetMode.NEXT_STEP
    copy: bool | None = None
    seeding: Seeding = "gymnasium"
    on_error: OnError = "raise"
    timeout: float | None = None
    check_finite: Policies = field(default_factory=Policies)
    observation_mode: Any = "same"
    wrappers: tuple[Callable[..., Any], ...] = ()
    record: str | None = None
    record_folder: Path = Path("recordings")
    record_limit: int = 256 * 2**20

    def asks_for(self, name: str) -> bool:
        """Whether this attribute differs from its default."""
        default, value = getattr(Request(1), name), getattr(self, name)
        return type(value) is not type(default) or value != default
