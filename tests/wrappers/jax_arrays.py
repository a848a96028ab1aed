"""Arrays of JAX. Run by test_arrays.py, in a process of its own."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.wrappers.driving import make
from vecenv.wrappers import JaxToNumpy, JaxToTorch, NumpyToJax


def test_jax_arrays_around_arrays_and_back():
    with make("compiled", "CartPole-v1") as envs, make("compiled", "CartPole-v1") as others:
        wrapped = NumpyToJax(envs)
        obs, _ = wrapped.reset(seed=0)
        expected, _ = others.reset(seed=0)
        kept = []
        for step in range(30):
            assert isinstance(obs, jax.Array)
            np.testing.assert_array_equal(obs, expected)
            kept.append((obs, expected))
            actions = np.full(3, step % 2)
            obs, reward, terminated, _, _ = wrapped.step(jax.numpy.asarray(actions))
            expected, wanted, *_ = others.step(actions)
            assert isinstance(terminated, jax.Array)
            np.testing.assert_array_equal(reward, wanted)
        for obs, expected in kept:  # nobody has written to them
            np.testing.assert_array_equal(obs, expected)


def test_jax_does_not_share_memory_that_is_used_again():
    with make("compiled", "CartPole-v1", copy=False) as envs:
        wrapped = NumpyToJax(envs)
        first, _ = wrapped.reset(seed=0)
        before = np.array(first)
        for _ in range(20):
            wrapped.step(np.zeros(3, np.int64))
        np.testing.assert_array_equal(first, before)


class JaxEnvs(gymnasium.vector.VectorEnv):
    """Counts steps, in JAX."""

    num_envs = 2
    single_observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    single_action_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    observation_space = gymnasium.spaces.Box(0, 9, (2, 1), np.float32)
    action_space = gymnasium.spaces.Box(0, 9, (2, 1), np.float32)
    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def reset(self, *, seed=None, options=None):
        self.total = jnp.zeros((2, 1))
        return self.total, {}

    def step(self, actions):
        assert isinstance(actions, jax.Array)
        self.total = self.total + actions
        no = jnp.zeros(2, bool)
        return self.total, self.total[:, 0], no, no, {"total": self.total}


@pytest.mark.parametrize("wrapper", [JaxToTorch, JaxToNumpy])
def test_other_libraries_around_jax(wrapper):
    kind = torch.Tensor if wrapper is JaxToTorch else np.ndarray
    envs = wrapper(JaxEnvs())
    obs, _ = envs.reset()
    assert isinstance(obs, kind)
    actions = np.ones((2, 1), np.float32)
    for count in (1, 2):
        results = envs.step(torch.from_numpy(actions) if kind is torch.Tensor else actions)
        assert all(isinstance(value, kind) for value in (*results[:4], results[4]["total"]))
        assert np.asarray(results[1]).tolist() == [count, count]


def test_everything_else_passes_through_around_jax(tmp_path):
    with make("compiled", "CartPole-v1") as envs:
        wrapped = NumpyToJax(envs, device="cpu")
        wrapped.reset(seed=0)
        wrapped.send(jnp.zeros(1, int), jnp.array([1]))
        step = wrapped.recv()
        assert isinstance(step.next_obs, jax.Array)
        assert step.env_ids.tolist() == [1]
        assert wrapped.stats().exchanges > 0
        assert wrapped.autoreset_mode is envs.autoreset_mode
