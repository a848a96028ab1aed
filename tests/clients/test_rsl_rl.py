"""`vecenv.rsl_rl.VecEnv` with the real rsl_rl."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from rsl_rl.runners import OnPolicyRunner

import vecenv
from tests.clients.pages import run_page
from vecenv.errors import ConfigError, UnsupportedError

MODEL = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu", "obs_normalization": False}
GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
CONFIG = {
    "num_steps_per_env": 8,
    "save_interval": 100,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**MODEL, "distribution_cfg": GAUSSIAN},
    "critic": MODEL,
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2},
}


class Groups(gymnasium.Env):
    """Dict observations; terminated at step 3, or truncated by a limit of 2."""

    observation_space = gymnasium.spaces.Dict(
        {"policy": gymnasium.spaces.Box(-9, 9, (2,)), "critic": gymnasium.spaces.Box(-9, 9, (3,))}
    )
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def _obs(self):
        return {"policy": np.full(2, self.count, np.float32), "critic": np.full(3, -self.count, np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._obs(), {}

    def step(self, action):
        self.count += 1
        return self._obs(), float(action[0]), self.count == 3, False, {}


def pendulums(**kwargs):
    return vecenv.make("Pendulum-v1", 4, autoreset="same-step", max_episode_steps=20, engine="sync", **kwargs)


def test_steps_are_those_of_gymnasiums_sync_vector_env():
    ours = vecenv.rsl_rl.VecEnv(pendulums(), seed=3)
    single = [lambda: gymnasium.make("Pendulum-v1", max_episode_steps=20)] * 4
    theirs = gymnasium.vector.SyncVectorEnv(single, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    assert torch.equal(ours.get_observations()["policy"], torch.as_tensor(theirs.reset(seed=3)[0]))
    generator = np.random.default_rng(0)
    for step in range(45):
        actions = generator.uniform(-2, 2, (4, 1)).astype(np.float32)
        obs, rewards, dones, extras = ours.step(torch.as_tensor(actions))
        expected = theirs.step(actions)
        assert torch.equal(obs["policy"], torch.as_tensor(expected[0]))
        assert torch.equal(rewards, torch.as_tensor(expected[1], dtype=torch.float32))
        assert dones.all() == extras["time_outs"].all() == (step % 20 == 19)
        assert ours.episode_length_buf.tolist() == [step % 20 + 1] * 4
    ours.close()
    theirs.close()


@pytest.mark.parametrize(("limit", "time_out"), [(2, True), (3, False)])
def test_time_outs_are_truncations_without_termination_and_dicts_are_groups(limit, time_out):
    envs = vecenv.make(lambda: gymnasium.wrappers.TimeLimit(Groups(), limit), 2, autoreset="same-step", engine="sync")
    env = vecenv.rsl_rl.VecEnv(envs, max_episode_length=limit)
    assert {name: tuple(group.shape) for name, group in env.get_observations().items()} == {
        "policy": (2, 2),
        "critic": (2, 3),
    }
    for step in range(1, limit + 1):
        obs, _, dones, extras = env.step(torch.zeros(2, 1))
        assert dones.tolist() == [step == limit] * 2
        assert extras["time_outs"].tolist() == [step == limit and time_out] * 2
    assert obs["critic"].tolist() == [[0.0] * 3] * 2
    env.close()


def test_the_on_policy_runner_trains(tmp_path):
    torch.manual_seed(0)
    env = vecenv.rsl_rl.VecEnv(pendulums(), seed=0)
    runner = OnPolicyRunner(env, CONFIG, log_dir=None, device="cpu")
    before = [parameter.clone() for parameter in runner.alg.get_policy().parameters()]
    runner.learn(3)
    assert any(not torch.equal(*pair) for pair in zip(before, runner.alg.get_policy().parameters(), strict=True))
    with pytest.raises(UnsupportedError, match="init_at_random_ep_len=False"):
        runner.learn(1, init_at_random_ep_len=True)
    env.close()


def test_what_rsl_rl_cannot_use_is_refused_with_the_reason():
    with pytest.raises(UnsupportedError, match="vector of floats, and these envs have Discrete"):
        vecenv.rsl_rl.VecEnv(vecenv.make("CartPole-v1", 2, autoreset="same-step", engine="sync"))
    with pytest.raises(ConfigError, match="autoreset='same-step', these have 'next-step'"):
        vecenv.rsl_rl.VecEnv(vecenv.make("Pendulum-v1", 2, engine="sync"))
    with pytest.raises(ConfigError, match="max_episode_length="):
        vecenv.rsl_rl.VecEnv(vecenv.make(Groups, 2, autoreset="same-step", engine="sync"))


def test_the_page_runs_as_written(tmp_path):
    run_page("rsl_rl", tmp_path)


# --- envs on a device ------------------------------------------------------------------------------------------------


def on_device(**options):
    return vecenv.make("Pendulum-v1", 4, device="cpu", autoreset="same-step", max_episode_steps=20, **options)


def test_tensors_of_a_device_are_those_of_the_host_and_nothing_is_copied():
    ours, theirs = vecenv.rsl_rl.VecEnv(on_device(), seed=3), vecenv.rsl_rl.VecEnv(pendulums(), seed=3)
    assert torch.equal(ours.get_observations()["policy"], theirs.get_observations()["policy"])
    generator = np.random.default_rng(0)
    for _ in range(45):
        actions = torch.as_tensor(generator.uniform(-2, 2, (4, 1)).astype(np.float32)).requires_grad_()
        found, expected = ours.step(actions), theirs.step(actions)
        assert torch.equal(found[0]["policy"], expected[0]["policy"])
        assert found[1].dtype == torch.float32
        assert all(map(torch.equal, found[1:3], expected[1:3]))
        assert torch.equal(found[3]["time_outs"], expected[3]["time_outs"])
        assert torch.equal(ours.episode_length_buf, theirs.episode_length_buf)
    assert ours.envs.engine.columns_apart.transfers == 0
    with pytest.raises(ConfigError, match="these envs are on cpu"):
        vecenv.rsl_rl.VecEnv(ours.envs, device="cuda")
    ours.close()
    theirs.close()


def test_the_on_policy_runner_trains_on_the_device_without_the_host():
    env = vecenv.rsl_rl.VecEnv(on_device(), seed=0)
    runner = OnPolicyRunner(env, CONFIG, log_dir=None, device="cpu")
    before = [parameter.clone() for parameter in runner.alg.get_policy().parameters()]
    runner.learn(3)
    assert any(not torch.equal(*pair) for pair in zip(before, runner.alg.get_policy().parameters(), strict=True))
    assert env.envs.engine.columns_apart.transfers == 0
    env.envs.check()
    env.close()
