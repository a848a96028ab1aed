"""Domain randomisation: a controller that was tuned on many worlds works in a new one.

    python examples/domain_randomisation.py

A drone is to hover; its mass and the lag of its motor are parameters of a kernel. The cross-entropy method tunes a
linear controller twice: on drones that are all alike, and on drones whose parameters `VaryScenarios` draws anew for
every episode. `vecenv.evaluate` then measures both on a grid of drones that neither has met. Prints both tables, and
the means.
"""

import numpy as np
from gymnasium.spaces import Box

import vecenv
from vecenv import scenarios

CANDIDATES, EPISODES, STEPS = 64, 16, 100


@vecenv.kernel("Hover-v0", max_episode_steps=STEPS)
class Hover:
    """Stay at height 0. The thrust follows the action with a lag."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Box(0.0, 30.0, (1,), np.float32)
    state = {"height": float, "speed": float, "thrust": float}

    class Params:
        """What varies from drone to drone."""

        mass = 1.0
        lag = 0.1

    bounds = {"mass": (0.1, 10.0), "lag": (0.04, 1.0)}

    def reset(s, rng, p):
        """Begin somewhere near."""
        s.height = rng.uniform(-1.0, 1.0)
        s.speed = rng.uniform(-1.0, 1.0)
        s.thrust = 9.81 * p.mass

    def step(s, action, rng, p):
        """Change the thrust, fly for a twenty-fifth of a second."""
        s.thrust += (min(max(action[0], 0.0), 30.0) - s.thrust) * 0.04 / p.lag
        s.speed += (s.thrust / p.mass - 9.81) * 0.04
        s.height += s.speed * 0.04
        return -min(abs(s.height), 2.0), False

    def observe(s, obs, p):
        """What the controller sees: not the mass, not the lag."""
        obs[0], obs[1], obs[2] = s.height, s.speed, s.thrust


def controller(gains):
    """Thrust as a linear function of the observation; `gains` are [4], or [N, 4] for one controller per environment."""

    def act(obs):
        thrust = 9.81 + (obs * gains[..., :3]).sum(axis=-1) + gains[..., 3]
        return np.clip(thrust, 0.0, 30.0)[:, None].astype(np.float32)

    return act


def tune(envs, generations=30):
    """The cross-entropy method: try candidates around a mean, move the mean to the best of them."""
    rng = np.random.default_rng(0)
    mean, spread = np.zeros(4), np.full(4, 10.0)
    for generation in range(generations):
        gains = mean + spread * rng.standard_normal((CANDIDATES, 4))
        act = controller(np.repeat(gains, EPISODES, axis=0))
        obs, _ = envs.reset(seed=generation)
        total = np.zeros(CANDIDATES * EPISODES)
        for _ in range(STEPS):
            obs, reward, *_ = envs.step(act(obs))
            total += reward
        best = gains[total.reshape(CANDIDATES, EPISODES).mean(axis=1).argsort()[-CANDIDATES // 8 :]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.1
    return mean


def main():
    """Tune on one world and on many, then compare in others."""
    grid = scenarios.grid(mass=[0.6, 1.0, 1.6, 2.4], lag=[0.06, 0.25])
    means = {}
    for name, world in {"one world": [{}], "many worlds": scenarios.uniform(mass=(0.5, 2.5), lag=(0.05, 0.3))}.items():
        envs = scenarios.VaryScenarios(vecenv.make("Hover-v0", CANDIDATES * EPISODES), world)
        gains = tune(envs)
        envs.close()
        result = vecenv.evaluate(controller(gains), "Hover-v0", episodes=20, seeds=1, scenarios=grid)
        means[name] = result.returns.mean()
        print(f"tuned on {name}: gains {gains.round(1)}")
        print(result)
    print("mean return in new worlds: " + ", ".join(f"{name} {mean:.1f}" for name, mean in means.items()))


if __name__ == "__main__":
    main()
