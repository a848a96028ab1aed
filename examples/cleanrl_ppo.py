"""PPO in one file, as CleanRL writes it, on environments that are native code.

    python examples/cleanrl_ppo.py

CartPole-v1 has a kernel, so `vecenv.make` steps all 64 environments in one native call. Everything else is plain
PyTorch and the Gymnasium API. Prints the mean return of the episodes that ended in each iteration; it rises from
about 20 to several hundred in about 100,000 steps.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import vecenv

NUM_ENVS, STEPS, GAMMA, GAE_LAMBDA = 64, 64, 0.99, 0.95
EPOCHS, MINIBATCHES, CLIP, ENTROPY, VALUE, LEARNING_RATE = 6, 8, 0.2, 0.01, 0.5, 2e-3


def mlp(inputs, outputs):
    """Two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Agent(nn.Module):
    """A policy and a value function."""

    def __init__(self, inputs, actions):
        super().__init__()
        self.actor, self.critic = mlp(inputs, actions), mlp(inputs, 1)

    def value(self, obs):
        """The value of each observation."""
        return self.critic(obs).squeeze(-1)


@torch.no_grad()
def rollout(agent, envs, obs):
    """Step all environments `STEPS` times; returns what happened, the next observations and the returns of episodes."""
    shape = (STEPS, NUM_ENVS)
    memory = {"obs": torch.zeros(*shape, *envs.single_observation_space.shape), "action": torch.zeros(shape)}
    memory |= {name: torch.zeros(shape) for name in ("logprob", "reward", "done", "value")}
    finished = []
    for step in range(STEPS):
        seen = torch.as_tensor(obs)
        policy = Categorical(logits=agent.actor(seen))
        action = policy.sample()
        obs, reward, terminated, truncated, info = envs.step(action.numpy())
        if truncated.any():  # the episode could have gone on: add the value of where it would have
            last = np.stack(info["final_obs"][truncated])
            reward[truncated] += GAMMA * agent.value(torch.as_tensor(last)).numpy()
        done = terminated | truncated
        finished += envs.episode_return[done].tolist()
        row = {"obs": seen, "action": action, "logprob": policy.log_prob(action), "value": agent.value(seen)}
        row |= {"reward": torch.as_tensor(reward), "done": torch.as_tensor(done)}
        for name, value in row.items():
            memory[name][step] = value
    return memory, obs, finished


@torch.no_grad()
def gae(agent, memory, obs):
    """Generalised advantage estimates."""
    advantage, next_value, advantages = 0.0, agent.value(torch.as_tensor(obs)), torch.zeros(STEPS, NUM_ENVS)
    for step in reversed(range(STEPS)):
        goes_on = 1.0 - memory["done"][step]
        delta = memory["reward"][step] + GAMMA * goes_on * next_value - memory["value"][step]
        advantages[step] = advantage = delta + GAMMA * GAE_LAMBDA * goes_on * advantage
        next_value = memory["value"][step]
    return advantages


def update(agent, optimizer, memory, advantages):
    """Several passes over the rollout, in minibatches."""
    batch = {name: values.flatten(0, 1) for name, values in memory.items()}
    batch |= {"advantage": advantages.flatten(), "return": (advantages + memory["value"]).flatten()}
    for _ in range(EPOCHS):
        for rows in torch.randperm(STEPS * NUM_ENVS).chunk(MINIBATCHES):
            part = {name: values[rows] for name, values in batch.items()}
            policy = Categorical(logits=agent.actor(part["obs"]))
            ratio = (policy.log_prob(part["action"]) - part["logprob"]).exp()
            advantage = (part["advantage"] - part["advantage"].mean()) / (part["advantage"].std() + 1e-8)
            surrogate = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
            value_loss = (agent.value(part["obs"]) - part["return"]).square().mean()
            loss = -surrogate + VALUE * value_loss - ENTROPY * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def main():
    """Train, and print how it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)  # the network is small: threads would only wait for each other

    envs = vecenv.make("CartPole-v1", NUM_ENVS, autoreset="same-step")
    print(envs.engine_reason)
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.n)
    optimizer = torch.optim.Adam(agent.parameters(), lr=LEARNING_RATE, eps=1e-5)
    obs, _ = envs.reset(seed=arguments.seed)
    for iteration in range(1, arguments.iterations + 1):
        memory, obs, finished = rollout(agent, envs, obs)
        update(agent, optimizer, memory, gae(agent, memory, obs))
        mean = np.mean(finished) if finished else float("nan")
        print(f"{iteration * STEPS * NUM_ENVS:>7} steps, mean return {mean:6.1f} of {len(finished)} episodes")
    envs.close()


if __name__ == "__main__":
    main()
