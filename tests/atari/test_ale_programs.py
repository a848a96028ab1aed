"""Random programs of calls on native games and on the same games in Python."""

from functools import partial

import vecenv
from vecenv.testing import check_same

MODES = ["next-step", "same-step", "disabled"]


def build(engine, mode):
    return vecenv.make("ALE/Pong-v5", 3, engine=engine, preprocessing=True, autoreset=mode)


def test_native_games_answer_as_games_in_python_do() -> None:
    """Calls reach no Python env in native games, so none are made; everything else is the same."""
    programs = {"examples": 3, "steps": 8, "seed": 2, "shrink": False}
    check_same(partial(build, "sync"), partial(build, "ale"), variants=MODES, **programs)
