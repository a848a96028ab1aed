"""Updates of PPO and of SAC are those of Stable-Baselines3: same weights, same data, same weights afterwards."""

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from vecenv.trainers import PPO, SAC, PPOConfig, SACConfig
from vecenv.trainers._progress import Clock

RATE = 1e-3
pytestmark = pytest.mark.timeout(180)  # torch imports its compiler when the first optimizer is made


def copy_layers(stacks, stack, layers):
    """Copy the layers of one of our stacks into a list of linear ones; return what both compute with, as pairs."""
    pairs = []
    for weight, bias, layer in zip(stacks.weights, stacks.biases, layers, strict=True):
        pairs += [(weight[stack].T, layer.weight), (bias[stack, 0], layer.bias)]
    return pairs


def linear(layers):
    return [layer for layer in layers if isinstance(layer, torch.nn.Linear)]


def set_theirs(pairs):
    with torch.no_grad():
        for ours, theirs in pairs:
            theirs.copy_(ours)


def largest_difference(pairs):
    return max(float((ours - theirs).detach().abs().max()) for ours, theirs in pairs)


# --- PPO -------------------------------------------------------------------------------------------------------------


def pairs_of_ppo(ours, theirs):
    network, policy = ours.network, theirs.policy
    pairs = [
        *copy_layers(network.stacks, 0, linear(policy.mlp_extractor.policy_net)),
        *copy_layers(network.stacks, 1, linear(policy.mlp_extractor.value_net)),
        (network.actor.weight, policy.action_net.weight), (network.actor.bias, policy.action_net.bias),
        (network.critic.weight, policy.value_net.weight), (network.critic.bias, policy.value_net.bias),
    ]  # fmt: skip
    return [*pairs, (network.head.log_std, policy.log_std)] if hasattr(policy, "log_std") else pairs


def fill(theirs, ours, gamma):
    """Give Stable-Baselines3 our rollout; it adds values of last observations to the rewards of truncated episodes."""
    buffer, into = ours.buffer, theirs.rollout_buffer
    into.reset()
    into.observations[:] = buffer.obs[:-1]
    into.actions[:] = buffer.actions.reshape(into.actions.shape)
    into.values[:], into.log_probs[:] = buffer.extras["value"], buffer.extras["log_prob"]
    into.episode_starts[:] = buffer.began[:-1]
    into.rewards[:] = buffer.reward
    times, envs, finals = buffer.finals()
    truncated = buffer.truncated[times, envs]
    with torch.no_grad():
        values = theirs.policy.predict_values(torch.from_numpy(finals)).numpy()[:, 0]
        into.rewards[times, envs] += gamma * values * truncated
        last = theirs.policy.predict_values(torch.from_numpy(buffer.obs[-1]))
    into.compute_returns_and_advantage(last, buffer.began[-1])
    into.pos, into.full = into.buffer_size, True
    return len(times), int(truncated.sum())


@pytest.mark.parametrize(("env_id", "truncated"), [("CartPole-v1", 0), ("Pendulum-v1", 2)])
def test_an_update_of_ppo_is_that_of_stable_baselines3(env_id, truncated):
    config = PPOConfig(
        num_envs=2, rollout_steps=210, epochs=3, minibatch=420, learning_rate=RATE, entropy=0.01, gamma=0.98, lam=0.9
    )
    ours = PPO(env_id, config, seed=0, device="cpu")
    ours._begin(0)
    memory = ours._collect(Clock())
    theirs = stable_baselines3.PPO(
        "MlpPolicy", stable_baselines3.common.env_util.make_vec_env(env_id, 2), n_steps=210, n_epochs=3,
        batch_size=420, learning_rate=RATE, ent_coef=0.01, gamma=0.98, gae_lambda=0.9, device="cpu",
    )  # fmt: skip
    theirs.set_logger(configure(None, []))
    pairs = pairs_of_ppo(ours, theirs)
    assert sum(one.numel() for one, _ in pairs) == sum(one.numel() for one in ours.network.parameters())
    set_theirs(pairs)
    ended, cut = fill(theirs, ours, 0.98)
    assert (ended > 0, cut) == (True, truncated)
    before = [one.detach().clone() for one, _ in pairs]
    ours._update(memory, 0.0)
    theirs.train()
    pairs = pairs_of_ppo(ours, theirs)
    moved = largest_difference(zip(before, (one for one, _ in pairs), strict=True))
    assert moved > 2 * RATE
    assert largest_difference(pairs) < 0.01 * moved  # Adam's eps is 1e-5: gradients near it differ by rounding
    ours.close()


def test_training_with_normalization_is_that_of_stable_baselines3(monkeypatch):
    """Their env, statistics, values and advantages for our actions, then their update with our minibatches, twice."""
    settings = {"gamma": 0.98, "max_grad_norm": 0.7, "learning_rate": RATE}
    ours = PPO("Pendulum-v1", PPOConfig(
        num_envs=1, rollout_steps=210, epochs=2, minibatch=70, lam=0.9, entropy=0.01, value_weight=0.8, hidden=(32, 32),
        activation="relu", log_std=-1.0, normalize_obs=True, normalize_reward=True, **settings,
    ), seed=0, device="cpu")  # fmt: skip
    envs = VecNormalize(stable_baselines3.common.env_util.make_vec_env("Pendulum-v1", 1, seed=0), gamma=0.98)
    theirs = stable_baselines3.PPO(
        "MlpPolicy", envs, n_steps=210, n_epochs=2, batch_size=70, gae_lambda=0.9, ent_coef=0.01, vf_coef=0.8,
        policy_kwargs={"net_arch": [32, 32], "activation_fn": torch.nn.ReLU}, device="cpu", **settings,
    )  # fmt: skip
    theirs.set_logger(configure(None, []))
    set_theirs(pairs_of_ppo(ours, theirs))
    orders, shuffled = [], torch.randperm
    monkeypatch.setattr(torch, "randperm", lambda *given, **more: orders.append(shuffled(*given, **more)) or orders[-1])
    monkeypatch.setattr(np.random, "permutation", lambda _: orders.pop(0).numpy())
    ours._begin(0)
    obs, began = envs.reset(), np.ones(1, np.bool_)
    for _ in range(2):
        memory, into = ours._collect(Clock()), theirs.rollout_buffer
        into.reset()
        for drawn in ours.buffer.actions:
            tensor = torch.from_numpy(drawn)
            with torch.no_grad():
                value, log_prob, _ = theirs.policy.evaluate_actions(torch.from_numpy(obs), tensor)
            before, first = obs, began
            obs, reward, began, infos = envs.step(np.clip(drawn, -2, 2))
            if began[0]:  # a truncated episode: Pendulum has no other
                final = torch.from_numpy(infos[0]["terminal_observation"][None])
                reward = reward + 0.98 * theirs.policy.predict_values(final).detach().numpy()[0]
            into.add(before, drawn, reward, first, value.flatten(), log_prob)
        into.compute_returns_and_advantage(theirs.policy.predict_values(torch.from_numpy(obs)).detach(), began)
        advantages, returns = ours._advantages()
        assert ours.buffer.truncated.sum() == 1
        np.testing.assert_array_equal(ours.buffer.began[:-1], into.episode_starts)
        np.testing.assert_array_equal(ours.buffer.obs[:-1], into.observations)
        np.testing.assert_allclose(ours.buffer.extras["log_prob"], into.log_probs, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(advantages, into.advantages, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(returns, into.returns, rtol=1e-3, atol=1e-3)
        ours._update(memory, 0.0)
        theirs.train()
        assert not orders
    assert largest_difference(pairs_of_ppo(ours, theirs)) < 0.01 * RATE * ours.updates  # Adam: a rate per update
    ours.close()


# --- SAC -------------------------------------------------------------------------------------------------------------


def pairs_of_sac(ours, theirs):
    actor, size = theirs.actor, ours.network.head.size
    outputs = ours.network.outputs
    pairs = [
        *copy_layers(ours.network.stack, 0, linear(actor.latent_pi)),
        (outputs.weight[:size], actor.mu.weight), (outputs.bias[:size], actor.mu.bias),
        (outputs.weight[size:], actor.log_std.weight), (outputs.bias[size:], actor.log_std.bias),
        (ours.flat_entropy.vector, theirs.log_ent_coef),
    ]  # fmt: skip
    for critic, their_critic in ((ours.critic, theirs.critic), (ours.target, theirs.critic_target)):
        for number, network in enumerate(their_critic.q_networks):
            *hidden, last = linear(network)
            pairs += copy_layers(critic.stacks, number, hidden)
            pairs += [(critic.weight[number].T, last.weight), (critic.bias[number, 0], last.bias)]
    return pairs


def test_first_weights_of_sac_are_distributed_as_those_of_stable_baselines3():
    ours, theirs = SAC("Pendulum-v1", SACConfig(), device="cpu"), stable_baselines3.SAC("MlpPolicy", "Pendulum-v1")
    pairs = pairs_of_sac(ours, theirs)
    ours.close()
    compared = [pair for pair in pairs if pair[0].numel() >= 256]
    assert len(compared) == 6 + 2 * 10  # of the actor, and of two critics and their targets
    for one, other in compared:
        for size in (torch.std, lambda part: part.abs().max()):
            # The standard deviation of 256 uniform numbers differs from its mean by 3 % on average.
            assert float(size(one.detach())) == pytest.approx(float(size(other.detach())), rel=0.2)


def samples(drawn):
    columns = (drawn.obs, drawn.actions, drawn.next_obs, drawn.terminated[:, None], drawn.reward[:, None])
    return ReplayBufferSamples(*(torch.from_numpy(np.asarray(column, np.float32)) for column in columns))


def test_updates_of_sac_are_those_of_stable_baselines3(monkeypatch):
    """With plain gradient descent: Adam would make steps of equal size of gradients that are rounding errors."""
    config = SACConfig(num_envs=2, capacity=1_000, warmup=400, minibatch=64, learning_rate=RATE, hidden=(32, 32))
    ours = SAC("Pendulum-v1", config, seed=0, device="cpu", optimizer=torch.optim.SGD).learn(398)
    theirs = stable_baselines3.SAC(
        "MlpPolicy", "Pendulum-v1", learning_rate=RATE, buffer_size=10, device="cpu",
        policy_kwargs={"net_arch": [32, 32], "optimizer_class": torch.optim.SGD},
    )  # fmt: skip
    theirs.set_logger(configure(None, []))
    theirs.ent_coef_optimizer = torch.optim.SGD([theirs.log_ent_coef], RATE)
    set_theirs(pairs_of_sac(ours, theirs))
    before = [one.detach().clone() for one, _ in pairs_of_sac(ours, theirs)]
    for number in range(3):
        drawn = ours.buffer.sample(64)
        drawn.terminated[:9], drawn.discount[:9] = True, 0.0
        monkeypatch.setattr(theirs.replay_buffer, "sample", lambda *_, drawn=drawn, **__: samples(drawn))
        torch.manual_seed(number)
        theirs.train(1, 64)
        ours.generator.manual_seed(number)
        ours._update(drawn)
        pairs = pairs_of_sac(ours, theirs)
        for (one, other), first in zip(pairs, before, strict=True):
            moved = float((one - first).detach().abs().max())
            assert moved > 0
            # Theirs adds 1e-6 to 1 - tanh(x)^2 before the logarithm.
            torch.testing.assert_close(one, other, rtol=1e-4, atol=max(1e-3 * moved, 1e-7))
    ours.close()


def same_random_numbers(ours, theirs, monkeypatch):
    """Record our random numbers; the function that is returned makes Stable-Baselines3 use them in turn."""
    random, noise, indices = [], [], []

    def recorded(name, note):
        own = getattr(ours, name)
        monkeypatch.setattr(ours, name, lambda *given: note(own, *given))

    def note_random(own):
        random.append(own())
        return random[-1]

    def note_draw(own, obs):
        noise.append(ours.generator.get_state())
        return own(obs)

    def note_update(own, drawn):
        noise.append(ours.generator.get_state())
        indices.append(drawn.index)
        own(drawn)

    recorded("_random", note_random)
    recorded("_draw", note_draw)
    recorded("_update", note_update)

    def replay():
        space, predict, train, buffer = theirs.action_space, theirs.predict, theirs.train, theirs.replay_buffer

        def with_our_noise(function):
            def run(*given, **more):
                torch.set_rng_state(noise.pop(0))
                return function(*given, **more)

            return run

        monkeypatch.setattr(theirs, "action_space", spaces.Box(space.low, space.high, space.shape, space.dtype))
        monkeypatch.setattr(theirs.action_space, "sample", lambda: ours.network.head.to_env(random.pop(0))[0])
        monkeypatch.setattr(theirs, "predict", with_our_noise(predict))
        monkeypatch.setattr(theirs, "train", with_our_noise(train))
        monkeypatch.setattr(buffer, "sample", lambda *_, **__: buffer._get_samples(indices.pop(0)))
        return random, noise, indices

    return replay


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "Hopper-v5"])
def test_a_run_of_sac_is_that_of_stable_baselines3(env_id, monkeypatch):
    """Their whole loop with our first weights and our random numbers: envs, warmup, buffer and updates with Adam."""
    warmup, steps = 210, 230  # an episode of Pendulum is truncated after 200 steps
    config = SACConfig(num_envs=1, capacity=500, warmup=warmup, minibatch=64, learning_rate=RATE, hidden=(32, 32))
    ours = SAC(env_id, config, seed=0, device="cpu")
    theirs = stable_baselines3.SAC(
        "MlpPolicy", stable_baselines3.common.env_util.make_vec_env(env_id, 1, seed=0), learning_rate=RATE,
        buffer_size=500, batch_size=64, learning_starts=warmup, policy_kwargs={"net_arch": [32, 32]}, device="cpu",
    )  # fmt: skip
    theirs.actor.action_dist.epsilon = 0.0  # theirs adds 1e-6 to 1 - tanh(x)^2 before the logarithm
    set_theirs(pairs_of_sac(ours, theirs))
    replay = same_random_numbers(ours, theirs, monkeypatch)
    ours.learn(steps)
    left = replay()
    theirs.learn(steps)
    assert [len(part) for part in left] == [0, 0, 0]
    mine, buffer = ours.buffer.gather(np.arange(steps)), theirs.replay_buffer
    ended = mine.terminated | mine.truncated
    assert ended.any()
    for column, other in (
        (mine.obs, buffer.observations), (mine.next_obs, buffer.next_observations), (mine.actions, buffer.actions),
    ):  # fmt: skip
        np.testing.assert_array_equal(column[:warmup], other[:warmup, 0])
        np.testing.assert_allclose(column, other[:steps, 0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(mine.reward[:warmup], buffer.rewards[:warmup, 0], rtol=1e-6)
    np.testing.assert_array_equal(ended, buffer.dones[:steps, 0])
    np.testing.assert_array_equal(mine.terminated, (buffer.dones * (1 - buffer.timeouts))[:steps, 0])
    np.testing.assert_allclose(mine.discount, 0.99 * ~mine.terminated, rtol=1e-6)
    assert ours.updates == theirs._n_updates
    assert largest_difference(pairs_of_sac(ours, theirs)) < 0.01 * RATE * ours.updates  # Adam: a rate per update
    ours.close()
