"""RLlib's PPO with vecenv's runner, which steps all environments in one native call.

    pip install 'vecenv[rllib]'
    python examples/rllib_ppo.py

RLlib's own runner spends about 50 us of Python on every step of every environment. In mode "native" there is no such
code per environment: 256 environments give one rollout to RLlib's learner. Prints the mean return and the steps of
each iteration; the return rises.
"""

import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig

import vecenv.rllib


def main():
    """Train for six iterations."""
    torch.set_num_threads(1)  # the network is small: threads would only wait for each other
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    config = PPOConfig().training(lr=2e-3, num_epochs=6, entropy_coeff=0.01).debugging(seed=1)
    vecenv.rllib.configure(config, "CartPole-v1", num_envs=256, mode="native", train_batch=8192, minibatch=1024)
    algo = config.build_algo()
    for iteration in range(1, 7):
        result = algo.train()["env_runners"]
        steps, mean = result["num_env_steps_sampled"], result["episode_return_mean"]
        print(f"iteration {iteration}: {steps:.0f} steps, mean return {mean:.1f}", flush=True)
    algo.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
