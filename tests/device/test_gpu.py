"""For those who have a GPU: `pytest -m gpu`. Everything here ran on the CPU device only, where it is bit-equal.

CUDA's sin, cos, exp, log and pow are not those of the C library: floats may differ by a few units in the last place,
which dynamics multiply. So single steps are compared, from the same states.
"""

import numpy as np
import pytest
import torch

import vecenv
from tests.kernels.shipped import SHIPPED

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
ULPS = 64
"""Units in the last place that a float of a single step may differ by; CUDA's functions have errors of one or two."""


@pytest.mark.parametrize("id", SHIPPED)
def test_a_step_on_the_gpu_is_the_step_on_the_cpu(id):
    with (
        vecenv.make(id, 256, device="cpu", results="numpy") as one,
        vecenv.make(id, 256, device="cuda:0", results="numpy") as other,
    ):
        for envs in (one, other):
            envs.reset(seed=0)
        one.action_space.seed(0)
        for _ in range(50):
            other.set_state(one.get_state())
            actions = one.action_space.sample()
            theirs, ours = one.step(actions), other.step(actions)
            before, after = one.get_state().columns, other.get_state().columns
            for name, column in before.items():
                if column.dtype.kind == "f":
                    np.testing.assert_array_max_ulp(column, after[name], ULPS)
                else:
                    assert np.array_equal(column, after[name]), name
            assert np.array_equal(theirs[2], ours[2])


def test_tensors_stay_on_the_gpu():
    with vecenv.make("CartPole-v1", 4096, device="cuda:0", autoreset="same-step") as envs:
        obs, _ = envs.reset(seed=0)
        policy = torch.nn.Linear(4, 2).to(envs.device)
        taken = envs.rollout(policy=lambda obs: policy(obs).argmax(1), steps=100)
        assert taken.obs.is_cuda
        assert obs.is_cuda
        assert envs.engine.columns_apart.transfers == 0
        envs.check()
        with pytest.raises(vecenv.errors.InvalidAction, match="cpu"):
            envs.step(torch.zeros(4096, dtype=torch.int64))


def test_a_rollout_that_is_a_graph_is_the_rollout_that_is_none():
    policy = torch.nn.Sequential(torch.nn.Linear(4, 2), Greedy()).to("cuda:0")
    with (
        vecenv.make("CartPole-v1", 64, device="cuda:0", autoreset="same-step") as one,
        vecenv.make("CartPole-v1", 64, device="cuda:0", autoreset="same-step") as other,
    ):
        for envs in (one, other):
            envs.reset(seed=0)
        for _ in range(9):  # the ring has four layers: some begin at each of them
            expected, found = one.rollout(policy=policy, steps=5, graph=False), other.rollout(policy=policy, steps=5)
            for name in ("obs", "actions", "reward", "terminated", "final_obs", "next_obs"):
                assert torch.equal(getattr(expected, name), getattr(found, name)), name
        assert other._graphs._captured
        assert torch.equal(one.episode_return, other.episode_return)


class Greedy(torch.nn.Module):
    def forward(self, scores):
        return scores.argmax(1)


@pytest.mark.timeout(1800)
def test_a_task_on_the_gpu_is_near_the_task_on_the_cpu():
    with (
        vecenv.make("HalfCheetah-v5", 16, device="cuda:0", results="numpy") as one,
        vecenv.make("HalfCheetah-v5", 16, engine="mujoco") as other,
    ):
        np.testing.assert_allclose(one.reset(seed=0)[0], other.reset(seed=0)[0], atol=1e-6)
        actions = np.full((16, 6), 0.3, np.float32)
        for _ in range(3):  # the second and third are graphs
            np.testing.assert_allclose(one.step(actions)[0], other.step(actions)[0], atol=1e-2)


def test_fast_code_is_near_exact_code():
    with (
        vecenv.make("Pendulum-v1", 512, device="cuda:0", results="numpy") as one,
        vecenv.make("Pendulum-v1", 512, device="cuda:0", precision="fast", results="numpy") as other,
    ):
        obs = [envs.reset(seed=0)[0] for envs in (one, other)]
        np.testing.assert_allclose(*obs, rtol=1e-5, atol=1e-6)


def test_arrays_of_other_libraries_are_actions_without_a_copy():
    class Foreign:
        def __init__(self, tensor):
            self.tensor, self.__cuda_array_interface__ = tensor, tensor.__cuda_array_interface__

    actions = torch.ones(8, dtype=torch.int64, device="cuda:0")
    with (
        vecenv.make("CartPole-v1", 8, device="cuda:0") as one,
        vecenv.make("CartPole-v1", 8, device="cuda:0") as other,
    ):
        for envs in (one, other):
            envs.reset(seed=0)
        assert torch.equal(one.step(Foreign(actions))[0], other.step(actions)[0])
        assert one.engine.columns_apart.transfers == 0
