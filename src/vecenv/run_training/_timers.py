"""How the time of one iteration is spent, from RLlib's own timers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ray.rllib.core import ALL_MODULES
from ray.rllib.utils.metrics import (
    CONNECTOR_PIPELINE_TIMER,
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    ENV_TO_MODULE_CONNECTOR,
    LEARNER_CONNECTOR,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    MODULE_TO_ENV_CONNECTOR,
    TIMERS,
)
from ray.rllib.utils.metrics.stats import EmaStats


class SecondsSinceReading(EmaStats):
    """RLlib's timer, but a reading is the sum of all seconds since the last reading.

    RLlib's own timer is a moving average over hundreds of calls, in which the first, slow ones remain for the whole
    run. Values that are logged rather than timed are averaged as in RLlib. Readings of several runners are averaged,
    because they run in parallel.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timed = False

    def __exit__(self, *exception: Any) -> None:
        before = 0.0 if math.isnan(self._value) else self._value
        self._value = math.nan
        super().__exit__(*exception)
        self._value += before
        self._timed = True

    def reduce(self, compile: bool = True) -> Any:
        """The seconds since the last reading; starts a new sum."""
        reading = super().reduce(compile)
        if self._timed:
            self._value = math.nan
        return reading


def split(result: Mapping[str, Any]) -> dict[str, float]:
    """Columns of a Row, from a result of `Algorithm.train` whose timers are SecondsSinceReading.

    Sampling is stepping envs and calling the module, without connectors. Connectors are those between envs and module,
    and from samples to the train batch. SGD is the rest of the learner's update.
    """
    runners, timers = result[ENV_RUNNER_RESULTS], result[TIMERS]
    pipelines = (ENV_TO_MODULE_CONNECTOR, MODULE_TO_ENV_CONNECTOR)
    around = sum(runners[pipeline][CONNECTOR_PIPELINE_TIMER] for pipeline in pipelines)
    batch = result[LEARNER_RESULTS][ALL_MODULES][LEARNER_CONNECTOR][CONNECTOR_PIPELINE_TIMER]
    return {
        "sampling_seconds": timers[ENV_RUNNER_SAMPLING_TIMER] - around,
        "connectors_seconds": around + batch,
        "sgd_seconds": timers[LEARNER_UPDATE_TIMER] - batch,
    }
