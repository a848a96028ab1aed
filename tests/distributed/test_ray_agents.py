"""Every PettingZoo env that is installed gives the bits of PettingZoo's own loop, in actors too."""

from __future__ import annotations

import pytest

from tests.agents.test_pettingzoo import SHORT, factory, run
from tests.agents.test_pettingzoo import pytestmark as of_their_envs

pytestmark = [*of_their_envs, pytest.mark.usefixtures("cluster")]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "kind"), SHORT)
def test_ray_gives_the_same_bits(name: str, kind: str) -> None:
    assert run(factory(name, kind), "ray", "same-step", "any")
