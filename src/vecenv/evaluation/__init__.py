"""Evaluate policies over seeds and scenarios, with confidence intervals."""

from vecenv.evaluation._background import Running
from vecenv.evaluation._evaluate import evaluate
from vecenv.evaluation._result import Evaluation, Gap, Row
from vecenv.evaluation._statistics import bootstrap, interquartile_mean

__all__ = ["Evaluation", "Gap", "Row", "Running", "bootstrap", "evaluate", "interquartile_mean"]
