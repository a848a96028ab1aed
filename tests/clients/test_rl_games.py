"""rl_games' PPO on the lines of its page; the oracle is the same run on Gymnasium's SyncVectorEnv."""

from __future__ import annotations

import gymnasium
import torch
import yaml
from rl_games.torch_runner import Runner

import vecenv
from tests.clients.pages import block

SETTINGS = """
seed: 1
algo: {name: a2c_continuous}
model: {name: continuous_a2c_logstd}
network:
  name: actor_critic
  separate: false
  space:
    continuous:
      {mu_activation: None, sigma_activation: None, mu_init: {name: default}, fixed_sigma: true,
       sigma_init: {name: const_initializer, val: 0}}
  mlp: {units: [32], activation: elu, initializer: {name: default}}
config:
  {name: pendulum, env_name: Pendulum-v1, env_config: {seed: 7, max_episode_steps: 40}, reward_shaper:
   {scale_value: 0.1}, device: cpu, device_name: cpu, num_actors: 4, horizon_length: 32, minibatch_size: 64,
   mini_epochs: 2, max_epochs: 3, gamma: 0.99, tau: 0.95, learning_rate: 3.0e-4, lr_schedule: None,
   normalize_advantage: true, normalize_input: true, normalize_value: true, value_bootstrap: true, clip_value:
   true, e_clip: 0.2, entropy_coef: 0.0, truncate_grads: true, grad_norm: 1.0, critic_coef: 1,
   bounds_loss_coef: 0.0, score_to_win: 1.0e9, save_best_after: 1000, save_frequency: 0, print_stats: false,
   ppo: true, mixed_precision: false, kl_threshold: 0.008}
"""


def learned():
    """The weights after three epochs of PPO on Pendulum."""
    torch.manual_seed(0)
    runner = Runner()
    runner.load({"params": yaml.safe_load(SETTINGS)})
    runner.reset()
    agent = runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)
    agent.train()
    return agent.model.state_dict()


def theirs(id, num_envs, autoreset, **kwargs):
    assert autoreset == "same-step"
    makers = [lambda: gymnasium.make(id, **kwargs)] * num_envs
    return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)


def test_the_lines_of_the_page_learn_what_they_learn_on_gymnasiums_class(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes checkpoints
    exec(block("others", "rl_games"), {})
    ours = learned()
    monkeypatch.setattr(vecenv, "make", theirs)
    expected = learned()
    assert len(ours) > 5
    for name, value in expected.items():
        assert torch.equal(ours[name], value), name
