"""A wrapper that samples a scenario for every episode of a training env."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.seeding import NO_SEED, spread
from vecenv._front.exchange import Exchange
from vecenv._front.reset_options import ResetOptions
from vecenv._front.vector_env import VectorEnv
from vecenv.errors import UnsupportedError
from vecenv.scenarios._noise import Noise
from vecenv.scenarios._parameter_writers import ParameterWriter, parameter_writer
from vecenv.scenarios._sets import Scenarios, Values, as_scenarios, sets_of, share
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper


class VaryScenarios(Wrapper):
    """Samples a parameter set for every new episode, whether `reset` or autoreset starts it.

    The sample depends only on the seed of the env's last seeded reset, the number of episodes since then, and the
    progress: not on the engine, the workers or the autoreset mode. An env that was never seeded gets a seed of its own.

    Kernels take the parameters from columns. Python envs get them as reset options, merged with those of a `reset`; if
    a parameter is a constructor argument, the env is built again when it changes and each of its episodes is seeded.

    Args:
        env: a vecenv vector env, or a wrapper around one.
        scenarios: an object of `vecenv.scenarios`, a parameter set or a list of them.
        progress: progress of a curriculum, 0 to 1.
        kwargs: the parameters that are constructor arguments; default: those in the signature of a registered env's
            constructor, and none for an env made by a function.

    Raises:
        ConfigError: the env has no such parameter.
    """

    transform: Draws

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        scenarios: Any,
        progress: float = 0.0,
        kwargs: Collection[str] | None = None,
    ) -> None:
        base = env.unwrapped if isinstance(env, gymnasium.vector.VectorEnv) else env
        if not isinstance(base, VectorEnv):
            raise UnsupportedError(
                f"VaryScenarios needs a vecenv vector env, got {type(base).__name__}; make it with vecenv.make"
            )
        if base._may_roll and getattr(base.engine, "loses_options", False):
            raise UnsupportedError(
                "with autoreset='same-step' a restarted worker starts an episode before it can get its scenario; use "
                "autoreset='next-step' or 'disabled' with on_error='restart'"
            )
        made = as_scenarios(scenarios)
        super().__init__(env, Draws(made, parameter_writer(base, [made], None, kwargs), share("progress", progress)))
        self._base = base

    @property
    def progress(self) -> float:
        """Progress of training, 0 to 1. Setting it changes the episodes that start from then on."""
        return self.transform.progress

    @progress.setter
    def progress(self, progress: float) -> None:
        self.transform.move_to(share("progress", progress))

    @property
    def current(self) -> list[Values]:
        """The parameter set of each env's current episode."""
        return self.transform.current()

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        given = ResetOptions.parse(options, self.num_envs)
        seeds = spread(seed, self.num_envs, self._base._seeding)
        return super()._exchange_reset(seed, self.transform.begin(seeds, given))


class Draws(Transform):
    """The episode of each env and the parameters of its next one: a function of four numbers per env."""

    def __init__(self, scenarios: Scenarios, writer: ParameterWriter, progress: float) -> None:
        self._scenarios, self._writer = scenarios, writer
        self.progress = progress
        self._seeds = self._episodes = np.zeros(0, np.int64)
        self._begun_at = np.zeros(0)
        """The progress at which each env's episode started."""

    def bind(self, observation: Any, action: Any, count: int) -> tuple[Any, Any]:
        own = np.random.SeedSequence().generate_state(count, np.uint64) >> np.uint64(1)
        self._seeds, self._episodes, self._begun_at = own.view(np.int64), np.zeros(count, np.int64), np.zeros(count)
        self._prime(np.arange(count))
        return observation, action

    def begin(self, seeds: np.ndarray, given: ResetOptions) -> Any:
        """Prepare a reset; return the options to reset with."""
        everyone = np.arange(len(seeds))
        rows = everyone if given.mask is None else np.flatnonzero(given.mask)
        seeded = rows[seeds[rows] != NO_SEED]
        self._seeds[seeded], self._episodes[seeded] = seeds[seeded], 0
        self._prime(seeded)
        columns = self._scenarios.draw(Noise(self._seeds, self._episodes), self.progress)
        return self._writer.reset_options(given, sets_of(columns, len(seeds)))

    def move_to(self, progress: float) -> None:
        """Sample all next episodes again, at another progress."""
        self.progress = progress
        if self._scenarios.changes:
            self._prime(np.arange(len(self._seeds)))

    def exchange(self, exchange: Exchange) -> None:
        began = exchange.began
        rows = exchange.rows[began]
        self._begun_at[rows] = self.progress
        self._episodes[rows] += 1
        self._prime(rows)
        if "_fault" in exchange.infos:  # a worker that died lost the parameters it was sent
            self._prime(exchange.rows[exchange.infos["_fault"] & ~began])

    def current(self) -> list[Values]:
        """The parameter set of each env's current episode, {} before its first."""
        sets: list[Values] = [{} for _ in self._seeds]
        for progress in np.unique(self._begun_at):
            rows = np.flatnonzero((self._begun_at == progress) & (self._episodes > 0))
            drawn = self._scenarios.draw(Noise(self._seeds[rows], self._episodes[rows] - 1), float(progress))
            for row, values in zip(rows.tolist(), sets_of(drawn, len(rows)), strict=True):
                sets[row] = values
        return sets

    def _prime(self, rows: np.ndarray) -> None:
        """Sample the parameters of the next episodes of these envs."""
        if len(rows):
            noise = Noise(self._seeds[rows], self._episodes[rows])
            self._writer.prime(rows, self._scenarios.draw(noise, self.progress), noise)

    def columns(self) -> dict[str, np.ndarray]:
        return {"seeds": self._seeds, "episodes": self._episodes, "begun_at": self._begun_at}

    def state_dict(self) -> dict[str, Any]:
        return {"progress": self.progress, **super().state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        columns = dict(state)
        progress = columns.pop("progress")
        super().load_state_dict(columns)
        self.progress = progress
        self._prime(np.arange(len(self._seeds)))
