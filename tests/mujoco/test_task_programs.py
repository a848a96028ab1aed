"""Random programs of calls on simulations, compared with the model."""

import numpy as np
import pytest

import vecenv
from tests.mujoco.own_tasks import Law
from vecenv.testing import check_machine


@pytest.mark.timeout(180)
def test_every_answer_of_a_task_is_the_one_of_the_model() -> None:
    def build(factories, mode):
        return vecenv.make(Law, 4, engine="mujoco", env_kwargs={"index": np.arange(4)}, autoreset=mode)

    tally = check_machine(build, native=True, examples=6, seed=4)
    assert tally["rows"] > 50
