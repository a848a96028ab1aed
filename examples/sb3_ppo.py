"""Stable-Baselines3's PPO on environments that are native code.

    pip install 'vecenv[sb3]'
    python examples/sb3_ppo.py

`vecenv.sb3.wrap` makes an SB3 `VecEnv` of any vector environment; the rest is SB3 as you know it. Prints the mean
return of an untrained and of a trained policy, measured by SB3's `evaluate_policy`.
"""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import vecenv
from vecenv.sb3 import VecMonitor, wrap


def main():
    """Train for 60,000 steps."""
    torch.set_num_threads(1)  # the network is small: threads would only wait for each other
    envs = VecMonitor(wrap(vecenv.make("CartPole-v1", 64, autoreset="same-step")))
    settings = {"n_steps": 32, "batch_size": 256, "n_epochs": 10, "learning_rate": 1e-3, "gae_lambda": 0.9}
    model = PPO("MlpPolicy", envs, **settings, seed=1, device="cpu")
    before, _ = evaluate_policy(model, envs, n_eval_episodes=64)
    model.learn(60_000)
    after, _ = evaluate_policy(model, envs, n_eval_episodes=64)
    print(f"mean return before {before:.1f}, after {model.num_timesteps} steps {after:.1f}")
    envs.close()


if __name__ == "__main__":
    main()
