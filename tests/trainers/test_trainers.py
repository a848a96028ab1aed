"""PPO and SAC as a whole: exact, repeatable, resumable. Whether they learn is tested in test_learning.py."""

import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import vecenv
from vecenv.errors import CallOrderError, ConfigError, SpaceError
from vecenv.trainers import DQN, PPO, SAC, DQNConfig, PPOConfig, SACConfig, a2c
from vecenv.trainers._collect import Collector
from vecenv.trainers._progress import Clock

SMALL = {"num_envs": 4, "rollout_steps": 16, "minibatch": 32, "epochs": 2, "hidden": (16,)}
VARIANTS = {
    "plain": SMALL,
    "normalized": {**SMALL, "normalize_obs": True, "normalize_reward": True, "anneal": True},
    "lstm": {**SMALL, "lstm": 8, "entropy": 0.01},
    "a2c": {**SMALL, "epochs": 1, "minibatch": 0, "optimizer": "rmsprop"},
}
SOFT = SACConfig(num_envs=2, capacity=500, warmup=20, updates_per_step=0.5, minibatch=16, hidden=(16,), report=10)


def vector(trainer):
    return torch.cat([part.detach().reshape(-1) for part in trainer.network.parameters()])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_seed_gives_the_same_weights(variant):
    config = PPOConfig(**VARIANTS[variant])
    first, second, other = (PPO("CartPole-v1", config, seed=seed).learn(256) for seed in (1, 1, 2))
    assert torch.equal(vector(first), vector(second))
    assert not torch.equal(vector(first), vector(other))


@pytest.mark.parametrize("variant", VARIANTS)
def test_training_that_was_stored_ends_with_the_same_weights(variant, tmp_path):
    config = PPOConfig(**VARIANTS[variant])
    whole = PPO("CartPole-v1", config, seed=1).learn(640)
    half = PPO("CartPole-v1", config, seed=1).learn(640, lambda progress: progress.steps < 320)
    assert half.steps == 320
    half.save(tmp_path / "half.npz")
    again = PPO.load(tmp_path / "half.npz")
    assert torch.equal(vector(again), vector(half))
    again.learn(640)
    assert torch.equal(vector(again), vector(whole))
    assert again.collector.episodes.ended == whole.collector.episodes.ended


@pytest.mark.parametrize("changes", [{}, {"n_step": 3, "priority": 0.6, "normalize_obs": True}])
def test_soft_training_that_was_stored_ends_with_the_same_weights(changes, tmp_path):
    config = SACConfig(**{**vars(SOFT), **changes})
    whole = SAC("Pendulum-v1", config, seed=1).learn(160)
    half = SAC("Pendulum-v1", config, seed=1).learn(160, lambda progress: progress.steps < 80)
    assert half.steps == 80
    half.save(tmp_path / "half.npz")
    again = SAC.load(tmp_path / "half.npz").learn(160)
    assert torch.equal(vector(again), vector(whole))
    assert torch.equal(again.flat_critic.vector, whole.flat_critic.vector)
    with pytest.raises(ConfigError, match="a checkpoint of SAC, not of PPO"):
        PPO.load(tmp_path / "half.npz")


def test_envs_that_cannot_be_stored_begin_new_episodes(tmp_path):
    envs = [vecenv.make("CartPole-v1", 4, engine="sync", autoreset="same-step") for _ in range(2)]
    PPO(envs[0], PPOConfig(**SMALL), seed=1).learn(64).save(tmp_path / "some.npz")
    with pytest.raises(ConfigError, match="pass them"):
        PPO.load(tmp_path / "some.npz")
    again = PPO.load(tmp_path / "some.npz", envs[1])
    again.learn(128)
    assert again.steps == 128


def test_episodes_that_begin_anew_do_not_count_what_was_made_before(tmp_path):
    def envs():
        return vecenv.make("MountainCar-v0", 2, engine="sync", autoreset="same-step")

    config = PPOConfig(**{**SMALL, "rollout_steps": 150, "normalize_reward": True})
    PPO(envs(), config, seed=1).learn(300).save(tmp_path / "some.npz")
    again, records = PPO.load(tmp_path / "some.npz", envs()), []
    again.learn(900, records.append)
    lengths = np.concatenate([record.lengths for record in records])
    assert lengths.tolist() == [200, 200]
    with pytest.raises(ConfigError, match="of 2 envs, these are 3"):
        PPO.load(tmp_path / "some.npz", vecenv.make("MountainCar-v0", 3))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_rollout_that_was_broken_off_is_begun_anew(groups):
    trainer = PPO("CartPole-v1", PPOConfig(**VARIANTS["normalized"] | {"groups": groups}), seed=0).learn(64)
    receive, calls = trainer.collector.receive, []

    def interrupted(group):
        calls.append(group)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return receive(group)

    trainer.collector.receive = interrupted
    with pytest.raises(KeyboardInterrupt):
        trainer.learn(256)
    assert trainer.steps == 64
    trainer.collector.receive, records = receive, []
    trainer.learn(640, records.append)
    assert trainer.steps == 640
    for record in records:
        np.testing.assert_array_equal(record.returns, record.lengths)
    assert trainer.buffer.full


@pytest.mark.parametrize(("warmup", "updates"), [(8, [0, 0, 4, 8]), (10, [0, 0, 4, 8]), (7, [0, 4, 8, 12])])
@pytest.mark.parametrize(("cls", "config", "env"), [(SAC, SACConfig, "Pendulum-v1"), (DQN, DQNConfig, "CartPole-v1")])
def test_the_first_updates_follow_the_step_that_exceeds_warmup(cls, config, env, warmup, updates):
    """One update for each step of an env: four for a step of four envs."""
    settings = config(num_envs=4, capacity=100, warmup=warmup, updates_per_step=1, minibatch=4, hidden=(8,))
    trainer = cls(env, settings, seed=0)
    assert [trainer.learn(steps).updates for steps in (4, 8, 12, 16)] == updates
    trainer.close()


def test_a_soft_step_that_was_broken_off_is_followed_by_new_episodes():
    trainer = SAC("Pendulum-v1", SOFT, seed=0).learn(40)
    receive = trainer.collector.receive

    def interrupted(group):
        receive(group)
        raise KeyboardInterrupt

    trainer.collector.receive = interrupted
    with pytest.raises(KeyboardInterrupt):
        trainer.learn(80)
    trainer.collector.receive = receive
    trainer.learn(80)
    assert trainer.buffer._ended[:80].reshape(40, 2)[19].all()
    assert len(trainer.buffer) == 80
    assert (trainer.collector.episodes.lengths == 20).all()


@pytest.mark.parametrize("variant", ["plain", "lstm", "normalized"])
@pytest.mark.parametrize("mode", ["same-step", "next-step"])
def test_before_the_first_gradient_step_probabilities_are_those_that_were_stored(variant, mode):
    """The ratio of PPO begins at one: observations, memories, masks and order are the same in both passes."""
    envs = vecenv.make("CartPole-v1", 4, autoreset=mode, max_episode_steps=11)
    trainer = PPO(envs, PPOConfig(**{**VARIANTS[variant], "minibatch": 0, "epochs": 1}), seed=3)
    trainer.learn(1)  # a rollout and an update, so that memories are not empty
    memory = trainer._collect(Clock())
    seen = []
    trainer._gradient_step = lambda batch, clip_range, entropy: seen.append(batch) or {}
    trainer._update(memory, 0.0)
    (batch,) = seen
    with torch.no_grad():
        if variant == "lstm":
            outputs, _ = trainer.network.sequences(batch["obs"], batch["memory"], batch["began"])
            actions, old = (batch[name].flatten(0, 1) for name in ("actions", "log_prob"))
            log_prob = trainer.network.head.judge(outputs, None, actions)[0][batch["kept"]]
            old = old[batch["kept"]]
        else:
            obs, actions, numbers = (torch.from_numpy(batch[name]) for name in ("obs", "actions", "numbers"))
            outputs, _, _ = trainer.network(obs)
            log_prob, old = trainer.network.head.judge(outputs, None, actions)[0], numbers[:, 3]
    torch.testing.assert_close(log_prob, old, rtol=1e-4, atol=1e-5)  # one multiplication is of 4 rows, one of 64
    assert len(old) == trainer.buffer.valid.sum()
    assert trainer.buffer.valid.all() == (mode == "same-step")


@pytest.mark.parametrize("lstm", [0, 8])
def test_truncated_episodes_go_on_with_the_value_of_where_they_ended(lstm):
    """Every episode is cut after one step: each advantage is reward + gamma * value(final obs) - value(obs)."""
    envs = vecenv.make("CartPole-v1", 4, autoreset="same-step", max_episode_steps=1)
    trainer = PPO(envs, PPOConfig(**{**SMALL, "lstm": lstm}), seed=3)
    trainer._begin(3)
    trainer._collect(Clock())
    advantages, _ = trainer._advantages()
    moves = trainer.buffer.transitions()
    assert moves.truncated.all()
    with torch.no_grad():
        _, value, memory = trainer.network(torch.from_numpy(moves.obs))
        _, after, _ = trainer.network(torch.from_numpy(moves.next_obs), memory)
    expected = moves.reward + 0.99 * after.numpy() - value.numpy()
    np.testing.assert_allclose(advantages[moves.index, moves.env_ids], expected, rtol=1e-4, atol=1e-5)


def test_a2c_is_the_special_case_whose_gradient_is_the_policy_gradient():
    config = a2c(num_envs=4, hidden=(16,), max_grad_norm=1e9, value_weight=0.0)
    trainer = PPO("CartPole-v1", config, seed=0)
    trainer._begin(0)
    memory = trainer._collect(Clock())
    taken = []
    trainer.optimizer.step = taken.append
    trainer._update(memory, 0.0)
    assert len(taken) == 1
    advantages, _ = trainer._advantages()
    outputs, _, _ = trainer.network(torch.from_numpy(trainer.buffer.obs[:-1]).flatten(0, 1))
    log_prob, _ = trainer.network.head.judge(outputs, None, torch.from_numpy(trainer.buffer.actions).flatten(0, 1))
    loss = -(torch.from_numpy(advantages).flatten() * log_prob).mean()
    actor = [part for name, part in trainer.network.named_parameters() if "critic" not in name]
    expected = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, actor)])
    sizes = [(name, part.numel()) for name, part in trainer.network.named_parameters()]
    found = [
        part
        for (name, _), part in zip(sizes, taken[0].split([size for _, size in sizes]), strict=True)
        if "critic" not in name
    ]
    torch.testing.assert_close(torch.cat(found), expected, rtol=1e-3, atol=1e-6)  # sums of 20 terms in another order


# --- actions and observations of all kinds ---------------------------------------------------------------------------


class Bandit(gymnasium.Env):
    """Four steps; the reward is the action's first number."""

    def __init__(self, observation, action):
        self.observation_space, self.action_space, self.time = observation, action, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        return self.observation_space.sample(), float(np.ravel(action)[0]), False, self.time == 4, {}


@pytest.mark.parametrize(
    "action",
    [spaces.Discrete(3, start=-1), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Box(-1, 2, (2,))],
)
@pytest.mark.parametrize(
    "observation",
    [
        spaces.Box(0, 255, (12, 12, 2), np.uint8),
        spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "n": spaces.Discrete(3)}),
    ],
)
@pytest.mark.parametrize("lstm", [0, 4])
def test_every_kind_of_space_can_be_trained_on(action, observation, lstm):
    envs = vecenv.make(lambda: Bandit(observation, action), 2, engine="sync", autoreset="same-step")
    trainer = PPO(envs, PPOConfig(**{**SMALL, "lstm": lstm, "image_features": 8}), seed=0)
    before = vector(trainer).clone()
    trainer.learn(64)
    assert torch.isfinite(vector(trainer)).all()
    assert not torch.equal(vector(trainer), before)
    obs, _ = envs.reset(seed=1)
    policy = pickle.loads(pickle.dumps(trainer.policy))
    for deterministic in (True, False):
        assert envs.action_space.contains(policy(obs, deterministic=deterministic))


def test_masked_actions_are_never_taken_in_training():
    trainer = PPO("Taxi-v3", PPOConfig(num_envs=8, rollout_steps=32, hidden=(16,), mask="action_mask"), seed=0)
    for _ in range(3):
        trainer.learn(trainer.steps + 1)
        assert 0 < trainer.buffer.extras["mask"].mean() < 1
        assert np.take_along_axis(trainer.buffer.extras["mask"], trainer.buffer.actions, -1).all()
    with pytest.raises(ConfigError, match="have no 'action_mask'"):
        PPO("CartPole-v1", PPOConfig(**SMALL, mask="action_mask")).learn(1)


def test_a_policy_is_a_snapshot_and_knows_the_normalization():
    trainer = PPO("CartPole-v1", PPOConfig(**VARIANTS["normalized"]), seed=0).learn(256)
    policy = trainer.policy
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    actions = policy(obs)
    with torch.no_grad():
        normal = trainer.collector.normalize.normalize(obs)
        np.testing.assert_array_equal(actions, trainer.network(torch.from_numpy(normal))[0].argmax(-1).numpy())
    trainer.learn(1024)
    np.testing.assert_array_equal(policy(obs), actions)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(policy))(obs), actions)
    assert not policy.recurrent


def test_a_policy_with_a_memory_forgets_on_reset():
    trainer = PPO("CartPole-v1", PPOConfig(**VARIANTS["lstm"]), seed=0)
    policy, obs = trainer.policy, torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0)).numpy()
    assert policy.recurrent
    for batch in obs[:3]:
        policy(batch)
    policy.reset(np.array([True, False, False]))
    policy(obs[3])
    state = policy._state[0]
    fresh = trainer.policy
    fresh(obs[3])
    torch.testing.assert_close(state[0], fresh._state[0][0])
    assert not torch.allclose(state[1], fresh._state[0][1])
    for wrong in ([0, 2], [0, 2, 1], [True], True, [[True, False, True]]):
        policy.reset(wrong)
        with pytest.raises(SpaceError, match="episode starts must be 3 bools, one per observation, got"):
            policy(obs[3])
    policy.reset(np.zeros(3))
    policy(obs[3])
    with pytest.raises(CallOrderError, match="memory is of 3 rows, there are 2"):
        policy(obs[3][:2])
    policy.reset()
    assert policy(obs[3][:2]).shape == (2,)


# --- groups, progress ------------------------------------------------------------------------------------------------


def test_groups_that_step_in_turn_see_the_episodes_of_one_group():
    config = PPOConfig(**{**SMALL, "rollout_steps": 1, "epochs": 1, "learning_rate": 0.0})
    single = PPO("CartPole-v1", config, seed=5)
    double = PPO("CartPole-v1", PPOConfig(**{**vars(config), "groups": 2}), seed=5)
    for trainer in (single, double):
        trainer._begin(5)
    np.testing.assert_array_equal(single.buffer.obs[0], double.buffer.obs[0])
    generator = np.random.default_rng(0)
    for _ in range(100):
        actions, seen = generator.integers(0, 2, 4), []
        for trainer in (single, double):
            parts = trainer.collector.parts
            for group, (begin, count) in enumerate(parts):
                trainer.collector.send(group, actions[begin : begin + count])
            steps = [trainer.collector.receive(group) for group in range(len(parts))]
            seen.append(
                [np.concatenate([getattr(step, name) for step in steps]) for name in ("next_obs", "terminated")]
            )
        for one, other in zip(*seen, strict=True):
            np.testing.assert_array_equal(one, other)
    assert single.collector.episodes.recent == double.collector.episodes.recent
    assert single.collector.episodes.ended > 10
    with pytest.raises(ConfigError, match="4 envs cannot be split into 3"):
        PPO("CartPole-v1", PPOConfig(**{**SMALL, "groups": 3}))


@pytest.mark.parametrize("variant", ["plain", "lstm", "normalized"])
def test_groups_in_processes_are_repeatable_and_store_true_transitions(variant):
    def train():
        envs = [vecenv.make("CartPole-v1", 2, engine="process", workers=1, autoreset="same-step") for _ in range(2)]
        trainer = PPO(envs, PPOConfig(**VARIANTS[variant]), seed=1)
        trainer.learn(128)
        trainer.close()
        moves = trainer.buffer.transitions()
        assert len(moves) == 64
        assert moves.terminated.any()
        if variant != "normalized":  # Euler steps: each position is the last one and 0.02 of its speed
            np.testing.assert_allclose(moves.next_obs[:, 0], moves.obs[:, 0] + 0.02 * moves.obs[:, 1], atol=1e-6)
            angle = moves.obs[:, 2] + 0.02 * moves.obs[:, 3]
            np.testing.assert_allclose(moves.next_obs[:, 2], angle, atol=1e-6)
            pushed = np.where(moves.actions[:, 0] == 1, 1, -1)
            assert (np.sign(moves.next_obs[:, 1] - moves.obs[:, 1]) == pushed).all()
        return vector(trainer)

    assert torch.equal(train(), train())


def test_successors_of_observations_without_a_fixed_size_are_those_of_the_step():
    class Word(gymnasium.Env):
        observation_space, action_space = spaces.Text(8), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return "begin", {}

        def step(self, action):
            return "end", 1.0, True, False, {}

    collector = Collector(vecenv.make(Word, 2, engine="sync", autoreset="same-step"), 2, 1)
    collector.reset(0)
    collector.send(0, np.zeros(2, np.int64))
    step = collector.receive(0)
    assert tuple(step.obs) == ("begin", "begin")
    assert tuple(step.next_obs) == ("end", "end")


def test_progress_tells_what_happened():
    records = []
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL), seed=0)
    trainer.learn(640, records.append)
    last = records[-1]
    assert [record.steps for record in records] == list(range(64, 641, 64))
    assert last.total_steps == 640
    assert last.updates == trainer.updates == 10 * 2 * 2
    returns = np.concatenate([record.returns for record in records])
    lengths = np.concatenate([record.lengths for record in records])
    assert len(returns) == last.episodes > 10
    np.testing.assert_array_equal(returns, lengths)  # CartPole gives one for every step
    assert last.mean_return == pytest.approx(returns[-100:].mean())
    assert set(last.time) == {"env", "forward", "buffer", "update"}
    assert 0.5 < sum(last.time.values()) <= 1.0
    assert last.losses.keys() == {"policy", "value", "entropy", "kl"}
    assert sum(lengths) <= 640


def test_losses_that_are_nan_are_said_once():
    class Broken(Bandit):
        def step(self, action):
            obs, *rest = super().step(action)
            return obs * np.nan, *rest

    with vecenv.make(lambda: Broken(spaces.Box(-1, 1, (4,)), spaces.Discrete(2)), 2, autoreset="same-step") as envs:
        trainer = PPO(envs, PPOConfig(**SMALL), seed=0)
        assert not trainer.diverged
        with pytest.warns(RuntimeWarning, match=r"losses are NaN after \d+ steps \(policy, ") as found:
            trainer.learn(256)
    assert len(found) == 1
    assert trainer.diverged
    assert not PPO("CartPole-v1", PPOConfig(**SMALL)).learn(64).diverged


def test_threads_of_torch_are_what_they_were():
    torch.set_num_threads(2)
    PPO("CartPole-v1", PPOConfig(**SMALL, torch_threads=1)).learn(64)
    assert torch.get_num_threads() == 2


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match="epochs must be at least 1"):
        PPOConfig(epochs=0)
    with pytest.raises(ConfigError, match="need envs with autoreset"):
        PPO(vecenv.make("CartPole-v1", 2, autoreset="disabled"))
    with pytest.raises(ConfigError, match="one vector env"):
        SAC([vecenv.make("Pendulum-v1", 1), vecenv.make("Pendulum-v1", 1)], SOFT)


def test_memories_belong_to_envs_when_some_of_them_have_finished():
    """An evaluation, where envs drop out of the batch, equals episodes that are run one by one."""
    trainer = PPO("CartPole-v1", PPOConfig(**VARIANTS["lstm"]), seed=0).learn(2000)
    trainer.close()
    policy, result = trainer.policy, vecenv.evaluate(trainer.policy, "CartPole-v1", episodes=6, seeds=[0])
    env = gymnasium.make("CartPole-v1")
    for seed, expected in zip(result.episode_seeds, result.lengths, strict=True):
        obs, _ = env.reset(seed=int(seed))
        state, done, length = None, False, 0
        while not done:
            start = np.array([length == 0])
            actions, state = policy.predict(obs[None], state, start)
            obs, _, terminated, truncated, _ = env.step(actions[0])
            done, length = terminated or truncated, length + 1
        assert length == expected
    assert len(set(result.lengths.tolist())) > 1


def test_the_number_of_threads_does_not_change_the_first_weights():
    before = torch.get_num_threads()
    first = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        trainer = PPO("CartPole-v1", PPOConfig(num_envs=2, hidden=(256, 256)), seed=3)
        first.append([value.clone() for value in trainer.network.parameters()])
        trainer.close()
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*first, strict=True))


# --- masks -----------------------------------------------------------------------------------------------------------


class Doors(gymnasium.Env):
    """Three doors, of which one is open; any other ends the episode without reward."""

    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(3)

    def __init__(self, name="legal", silent_after=99, as_list=False):
        self.name, self.silent_after, self.as_list = name, silent_after, as_list

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), self._told()

    def step(self, action):
        good = action == self.open
        self.time += 1
        return np.zeros(1, np.float32), float(good), not good, self.time == 10, self._told()

    def _told(self):
        self.open = int(self.np_random.integers(3))
        if self.time >= self.silent_after:
            return {}
        mask = [int(door == self.open) for door in range(3)]
        return {self.name: mask if self.as_list else np.array(mask, np.int8)}


@pytest.mark.parametrize("as_list", [False, True])
def test_a_policy_is_evaluated_with_the_masks_it_was_trained_with(as_list):
    def trained(mask):
        envs = vecenv.make(lambda: Doors(as_list=as_list), 4, engine="sync", autoreset="same-step")
        with envs:
            return PPO(envs, PPOConfig(**SMALL, mask=mask), seed=0).learn(64).policy

    def mean(policy, **kwargs):
        return vecenv.evaluate(policy, lambda: Doors(as_list=as_list, **kwargs), episodes=20).mean

    assert mean(trained("legal")) == 10.0
    assert mean(pickle.loads(pickle.dumps(trained("legal"))).predict) == 10.0
    assert mean(trained(None), name="action_mask") < 5.0
    with pytest.raises(ConfigError, match="have no 'legal'"):
        mean(trained("legal"), name="action_mask")


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_masks_of_another_width_than_the_actions_are_refused(width, seen):
    class Wrong(Doors):
        if seen:
            observation_space = spaces.Dict({"at": spaces.Box(0, 1, (1,)), "legal": spaces.MultiBinary(width)})

        def reset(self, *, seed=None, options=None):
            obs, _ = super().reset(seed=seed)
            mask = np.ones(width, np.int8)
            return ({"at": obs, "legal": mask}, {}) if seen else (obs, {"legal": mask})

    with vecenv.make(Wrong, 4, engine="sync", autoreset="same-step") as envs:
        trainer = PPO(envs, PPOConfig(**SMALL, mask="legal"), seed=0)
        with pytest.raises(ConfigError, match=rf"'legal' of the envs have {width} entries, .*Discrete\(3\) needs 3"):
            trainer.learn(64)


@pytest.mark.parametrize("mode", ["same-step", "next-step"])
def test_a_mask_in_observations_that_allows_nothing_is_refused(mode):
    """Not in the last observation of an episode, after which nobody acts."""

    class Closed(Doors):
        observation_space = spaces.Dict({"at": spaces.Box(0, 1, (1,)), "legal": spaces.MultiBinary(3)})

        def __init__(self, closed_after):
            super().__init__()
            self.closed_after, self.steps = closed_after, 0

        def seen(self, obs):
            return {"at": obs, "legal": np.full(3, self.steps < self.closed_after, np.int8)}

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return self.seen(super().reset(seed=seed)[0]), {}

        def step(self, action):
            self.steps += 1
            obs, reward, terminated, truncated, _ = super().step(action)
            return self.seen(obs), reward, terminated, truncated, {}

    def learn(*limits):
        with vecenv.make(
            [lambda limit=limit: Closed(limit) for limit in limits], engine="sync", autoreset=mode
        ) as envs:
            PPO(envs, PPOConfig(**SMALL, mask="legal"), seed=0).learn(64)

    learn(99, 10)
    with pytest.raises(ConfigError, match="env 1 gave a 'legal' that allows no action"):
        learn(99, 3)


def test_a_policy_of_taxi_can_be_evaluated():
    trainer = PPO("Taxi-v3", PPOConfig(num_envs=4, rollout_steps=16, hidden=(16,), mask="action_mask"), seed=0)
    trainer.learn(64)
    trainer.close()
    assert vecenv.evaluate(trainer.policy, "Taxi-v3", episodes=2, max_episode_steps=20).lengths.max() <= 20


@pytest.mark.parametrize("mode", ["same-step", "next-step"])
def test_an_env_that_tells_no_mask_is_refused(mode):
    """Not after the last step of an episode, where nobody acts."""

    def trainer(*limits):
        doors = [lambda limit=limit: Doors(silent_after=limit) for limit in limits]
        return PPO(vecenv.make(doors, engine="sync", autoreset=mode), PPOConfig(**SMALL, mask="legal"), seed=0)

    policy = trainer(99, 10).learn(64).policy
    with pytest.raises(ConfigError, match="env 1 gave no 'legal'"):
        trainer(99, 3).learn(64)
    assert vecenv.evaluate(policy, lambda: Doors(silent_after=10), episodes=2).mean == 10.0
    with pytest.raises(ConfigError, match=r"env 0 gave no 'legal'|have no 'legal'"):
        vecenv.evaluate(policy, lambda: Doors(silent_after=3), episodes=2)
