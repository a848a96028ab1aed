"""The same episodes in every way there is, and once by hand."""

import gymnasium
import numpy as np

import vecenv

ENVS, LIMIT, SEED = 3, 9, 7
LENGTH = 40
ACTIONS = np.random.default_rng(3).integers(0, 2, (ENVS, 4 * LENGTH))


def by_hand(env, count=LENGTH):
    """The first transitions of one env, from Gymnasium itself."""
    made = gymnasium.make("CartPole-v1", max_episode_steps=LIMIT)
    obs, _ = made.reset(seed=SEED + env)
    transitions = []
    for action in ACTIONS[env, :count]:
        after, reward, terminated, truncated, _ = made.step(int(action))
        transitions.append((obs, action, reward, after, terminated, truncated))
        obs = made.reset()[0] if terminated or truncated else after
    made.close()
    return transitions


def make(mode, engine="compiled", **kwargs):
    return vecenv.make("CartPole-v1", ENVS, autoreset=mode, engine=engine, max_episode_steps=LIMIT, **kwargs)


def play(envs, note, reset, count=LENGTH, partial=False):
    """Step every env until it made `count` transitions; of envs that have, nothing more is noted.

    Args:
        note: called with obs, actions, step for each exchange.
        reset: called with obs and mask after each reset by hand.
    """
    obs, _ = envs.reset(seed=SEED)
    reset(obs, np.ones(ENVS, bool))
    made, generator = np.zeros(ENVS, int), np.random.default_rng(0)
    while (made < count).any():
        who = np.flatnonzero(made < count)
        if partial:
            who = generator.permutation(who)[: generator.integers(1, len(who) + 1)]
        actions = ACTIONS[who, made[who]]
        envs.send(actions, who)
        while len(who):
            step = envs.recv(1 if partial else None)
            order = np.array([np.flatnonzero(who == env)[0] for env in step.env_ids])
            note(obs[step.env_ids].copy(), actions[order], step)
            obs[step.env_ids] = step.obs
            made[step.env_ids] += step.valid
            keep = np.isin(who, step.env_ids, invert=True)
            who, actions = who[keep], actions[keep]
        if envs.autoreset_mode == gymnasium.vector.AutoresetMode.DISABLED:
            mask = envs._batch.terminated | envs._batch.truncated
            if mask.any():
                obs = envs.reset(options={"reset_mask": mask})[0].copy()
                reset(obs, mask)


def same(transitions, env, expected):
    """Whether the transitions of one env in a buffer are these, in order."""
    rows = np.flatnonzero(transitions.env_ids == env)
    assert len(rows) == len(expected)
    for row, (obs, action, reward, after, terminated, truncated) in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(transitions.obs[row], obs)
        np.testing.assert_array_equal(transitions.next_obs[row], after)
        assert transitions.actions[row] == action
        assert transitions.reward[row] == np.float32(reward)
        assert transitions.terminated[row] == terminated
        assert transitions.truncated[row] == truncated
