"""Plan by trying actions on copies of the environment.

    python examples/planning_with_clone.py

Environment 0 is the real one. Before each of its steps, `clone` makes the 200 others copies of it, with random
numbers of their own, and `rollout` plays 40 random actions in each of them, in one native call. The action is taken
whose copies survived longer on average. Nothing is learnt. Prints how long CartPole's pole stays up with random
actions and with the planner.
"""

import numpy as np

import vecenv

COPIES = np.arange(1, 201)
HORIZON = 40


def plan(envs, rng, seed):
    """The action for environment 0 whose copies survive longest on average."""
    real = envs.get_state([0])
    envs.clone(0, COPIES, seed=seed)
    actions = rng.integers(0, 2, (HORIZON, envs.num_envs))
    future = envs.rollout(actions)
    envs.set_state(real, [0])  # the rollout moved environment 0, too
    ended = future.terminated | future.truncated
    survived = np.where(ended.any(axis=0), ended.argmax(axis=0), HORIZON)[COPIES]
    first = actions[0, COPIES]
    return int(survived[first == 1].mean() > survived[first == 0].mean())


def steps_until_the_pole_falls(envs, choose, seed, limit=500):
    """Play one episode in environment 0."""
    envs.reset(seed=seed)
    for step in range(1, limit + 1):
        _, _, terminated, truncated, _ = envs.step([choose(step)], env_ids=[0])
        if terminated[0] or truncated[0]:
            break
    return step


def main():
    """Play three episodes with each."""
    envs = vecenv.make("CartPole-v1", 1 + len(COPIES))
    rng = np.random.default_rng(0)
    at_random = [steps_until_the_pole_falls(envs, lambda step: int(rng.integers(2)), seed) for seed in range(3)]
    planned = [steps_until_the_pole_falls(envs, lambda step: plan(envs, rng, step), seed) for seed in range(3)]
    print(f"random actions: {at_random} steps, mean {np.mean(at_random):.0f}")
    print(f"planned:        {planned} steps, mean {np.mean(planned):.0f}")
    envs.close()


if __name__ == "__main__":
    main()
