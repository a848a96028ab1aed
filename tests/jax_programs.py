"""Vector envs inside JAX's compiled programs give what they give outside. Run by test_xla.py in its own process."""

from __future__ import annotations

import gc

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vecenv
from vecenv.errors import UnsupportedError
from vecenv.wrappers import NormalizeObservation

STEPS = 80


def policy(obs):
    return (obs[:, 2] > 0.02).astype(jnp.int32)


def roll_out(envs, obs, steps=STEPS):
    """A rollout as one compiled program: the results of all steps."""
    handle, _, _, step = envs.xla()

    @jax.jit
    def program(handle, obs):
        def body(carry, _):
            handle, obs = carry
            handle, results = step(handle, policy(obs))
            return (handle, results[0]), results

        return jax.lax.scan(body, (handle, obs), None, length=steps)[1]

    return jax.block_until_ready(program(handle, obs))


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
@pytest.mark.parametrize("engine", ["compiled", "sync"])
def test_a_scan_gives_the_steps_that_calls_from_python_give(engine, autoreset):
    with vecenv.make("CartPole-v1", 5, engine=engine, autoreset=autoreset) as inside, cart_poles(autoreset) as outside:
        results = roll_out(inside, inside.reset(seed=3)[0])
        obs, _ = outside.reset(seed=3)
        ended = 0
        for step in range(STEPS):
            obs, reward, terminated, truncated, info = outside.step((obs[:, 2] > 0.02).astype(np.int64))
            for ours, theirs in zip(results[:4], (obs, reward, terminated, truncated), strict=True):
                assert np.array_equal(ours[step], theirs)
            ended += int(terminated.sum())
            if "final_obs" in info:
                for row in np.flatnonzero(info["_final_obs"]):
                    assert np.array_equal(results[4]["final_obs"][step][row], info["final_obs"][row])
        assert ended
        assert results[4]["env_id"][0].tolist() == [0, 1, 2, 3, 4]
        assert ("final_obs" in results[4]) == (autoreset == "same-step")


def cart_poles(autoreset):
    return vecenv.make("CartPole-v1", 5, engine="sync", autoreset=autoreset)


def test_send_and_recv_work_with_the_envs_that_are_ready():
    with vecenv.make("CartPole-v1", 4, engine="compiled", batch_size=2) as envs:
        envs.send_reset(seed=1)
        handle, recv, send, _ = envs.xla()

        @jax.jit
        def program(handle):
            def body(handle, _):
                handle, (obs, _, _, _, info) = recv(handle)
                return send(handle, policy(obs), info["env_id"]), (info["env_id"], info["elapsed_step"])

            return jax.lax.scan(body, handle, None, length=10)[1]

        env_ids, elapsed = map(np.asarray, program(handle))
        assert env_ids.shape == (10, 2)
        for row in range(4):
            assert elapsed[env_ids == row].tolist() == list(range(5))
        envs.recv(min_envs=4)


def test_the_face_of_envpool_has_the_same_programs():
    plain = vecenv.make("CartPole-v1", 4, engine="sync", autoreset="next-step")
    pool = vecenv.envpool.make("CartPole-v1", "gymnasium", num_envs=4, seed=3, engine="sync")
    expected, results = roll_out(plain, plain.reset(seed=3)[0], 30), roll_out(pool, pool.reset()[0], 30)
    for one, other in zip(results[:4], expected[:4], strict=True):
        np.testing.assert_array_equal(one, other)
    plain.close()
    pool.close()


def test_wrappers_are_refused_and_never_left_out():
    with NormalizeObservation(vecenv.make("CartPole-v1", 2, engine="sync")) as wrapped:
        for envs in (wrapped, vecenv.envpool.EnvPool(wrapped, 0, {})):
            with pytest.raises(UnsupportedError, match="without wrappers, and this is NormalizeObservation"):
                envs.xla()


def test_a_dict_of_observations_keeps_its_names():
    class Pair(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            {"b": gymnasium.spaces.Box(-9, 9, (2,)), "a": gymnasium.spaces.Discrete(9)}
        )
        action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            self.count = 0
            return {"a": 0, "b": np.zeros(2, np.float32)}, {}

        def step(self, action):
            self.count += int(action)
            return {"a": self.count, "b": np.full(2, -self.count, np.float32)}, 0.0, False, False, {}

    with vecenv.make(Pair, 2, engine="sync") as envs:
        envs.reset()
        handle, _, _, step = envs.xla()
        handle, (obs, *_) = jax.jit(step)(handle, jnp.array([1, 2]))
        assert obs["a"].tolist() == [1, 2]
        assert obs["b"].tolist() == [[-1, -1], [-2, -2]]


def test_a_handle_that_is_used_twice_is_an_error_that_says_so():
    with vecenv.make("CartPole-v1", 2, engine="sync") as envs:
        envs.reset(seed=0)
        handle, _, _, step = envs.xla()
        step(handle, jnp.array([0, 1]))
        with pytest.raises(RuntimeError, match="that of call 0, and 1 were made: pass on the handle"):
            jax.block_until_ready(step(handle, jnp.array([0, 1])))
        handle, *_ = envs.xla()
        step(handle, jnp.array([0, 1]))


def test_errors_of_envs_leave_the_program_with_their_text():
    with vecenv.make("CartPole-v1", 2, engine="sync") as envs:
        envs.reset(seed=0)
        handle, _, _, step = envs.xla()
        with pytest.raises(RuntimeError, match=r"InvalidAction: env 1.*7"):
            jax.block_until_ready(jax.jit(step)(handle, jnp.array([0, 7])))


def test_a_program_whose_envs_are_gone_says_so():
    envs = vecenv.make("CartPole-v1", 2, engine="sync")
    envs.reset(seed=0)
    handle, _, _, step = envs.xla()
    program = jax.jit(step)
    handle, _ = program(handle, jnp.array([0, 1]))
    envs.close()
    del envs
    gc.collect()
    with pytest.raises(RuntimeError, match="does not exist any more; keep a reference"):
        jax.block_until_ready(program(handle, jnp.array([0, 1])))


def test_spaces_without_a_fixed_size_are_refused():
    class Says(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Text(5), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return "a", {}

    with vecenv.make(Says, 2, engine="sync") as envs, pytest.raises(UnsupportedError, match="fixed size"):
        envs.xla()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_mujoco_task_inside_a_scan():
    with vecenv.make("Ant-v5", 3, engine="mujoco", autoreset="same-step") as inside:
        with vecenv.make("Ant-v5", 3, engine="sync", autoreset="same-step") as outside:
            inside.reset(seed=2)
            outside.reset(seed=2)
            handle, _, _, step = inside.xla()
            actions = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (30, 3, 8)), jnp.float32)
            program = jax.jit(
                lambda handle: jax.lax.scan(lambda handle, actions: step(handle, actions), handle, actions)[1]
            )
            obs, reward, *_ = program(handle)
            for index in range(30):
                expected = outside.step(np.asarray(actions[index]))
                assert np.array_equal(obs[index], expected[0].astype(np.float32))
                assert np.array_equal(reward[index], expected[1].astype(np.float32))
