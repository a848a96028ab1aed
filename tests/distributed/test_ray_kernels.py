"""Kernels in actors of Ray: parameters that all envs share, and frames."""

from __future__ import annotations

import numpy as np
import pytest

import vecenv
from tests.kernels.test_native import equal
from tests.kernels.test_shared_params import OTHERS, PRICES, SHARED, make, play
from vecenv.errors import ConfigError

pytestmark = pytest.mark.usefixtures("cluster", "no_pauses")


def test_actors_have_shared_parameters() -> None:
    with make(4, "ray", prices=OTHERS, workers=2) as envs, make(4, prices=OTHERS) as native:
        assert equal(envs.reset(seed=0)[0], native.reset(seed=0)[0])
        for both in (envs, native):
            both.set_attr("prices", PRICES)
        with pytest.raises(ConfigError, match=SHARED):
            envs.set_attr("prices", [PRICES, PRICES, OTHERS, OTHERS])
        assert equal([step[:4] for step in play(envs, 12)], [step[:4] for step in play(native, 12)])


def test_actors_draw_the_envs_of_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    with (
        vecenv.make("CartPole-v1", 2, engine="ray", workers=1, render_mode="rgb_array") as envs,
        vecenv.make("CartPole-v1", 2, render_mode="rgb_array") as local,
    ):
        for each in (envs, local):
            each.reset(seed=0)
        np.testing.assert_array_equal(envs.render(), local.render())
