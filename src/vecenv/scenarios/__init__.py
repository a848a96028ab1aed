"""Scenarios: parameter sets of episodes. For `vecenv.evaluate`, and for training with `VaryScenarios`."""

from vecenv.scenarios._sets import Scenarios, curriculum, grid, uniform
from vecenv.scenarios._sets import listed as list
from vecenv.scenarios._vary import VaryScenarios

__all__ = ["Scenarios", "VaryScenarios", "curriculum", "grid", "list", "uniform"]
