"""check_finite over actors: results are looked at where they arrive, whoever ran the envs."""

from __future__ import annotations

import numpy as np
import pytest

import vecenv
from vecenv.errors import NotFiniteError
from vecenv.testing import FaultEnv

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.mark.parametrize("check", ["error", "truncate"])
@pytest.mark.parametrize("kind", ["obs-nan", "reward-inf"])
def test_rows_of_actors_are_looked_at(check: str, kind: str) -> None:
    envs = FaultEnv.many(4, kind=kind, at=2, env=2, length=50)
    with vecenv.make(envs, engine="ray", workers=2, num_cpus=0.5, autoreset="same-step", check_finite=check) as envs:
        envs.reset(seed=7)
        before = envs.step(np.zeros(4, int))[0]
        if check == "error":
            with pytest.raises(NotFiniteError, match=f"{kind.partition('-')[0]} of env 2"):
                envs.step(np.zeros(4, int))
            assert envs.recv().env_ids.tolist() == [0, 1, 3]
            return
        obs, reward, _, truncated, infos = envs.step(np.zeros(4, int))
        assert truncated.tolist() == [False, False, True, False]
        assert infos["final_obs"][2].tolist() == before[2].tolist()
        assert (obs[2, 1], obs[2, 2], reward[2]) == (2, 0, 0.0)  # episode, step
        assert not envs.step(np.zeros(4, int))[3].any()
