"""What users bring: networks, optimizers, schedules, callbacks, loggers, trainers of their own; and wrong arguments."""

import csv
import errno
import functools
import time
from collections import deque
from contextlib import closing
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import vecenv
from tests.trainers.test_devices import DEEP
from tests.trainers.test_trainers import SMALL, SOFT, Bandit, vector
from vecenv.errors import ConfigError, ConfigTypeError, SpaceError, UnsafeFile, UnsupportedError
from vecenv.trainers import (
    CSV,
    DQN,
    PPO,
    SAC,
    DQNConfig,
    PeriodicEvaluation,
    Policy,
    PPOConfig,
    SACConfig,
    TensorBoard,
    a2c,
)
from vecenv.trainers._collect import _numbers_of
from vecenv.trainers._progress import callbacks_of
from vecenv.trainers.ppo import clipped_value_loss


class Plain(nn.Module):
    """One layer for outputs, one for values."""

    def __init__(self, space, outputs):
        super().__init__()
        self.outputs, self.value = nn.Linear(space.shape[0], outputs), nn.Linear(space.shape[0], 1)
        self.unused = nn.Linear(2, 2)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, obs, memory, began):
        return self.outputs(obs), self.value(obs).squeeze(-1), None


class Counting(Plain):
    """Its memory is the number of steps since the episode began."""

    def __init__(self, space, outputs):
        super().__init__(space, outputs)
        self.of_time = nn.Linear(1, outputs)

    def initial_memory(self, count):
        return (torch.zeros(count, 1),)

    def forward(self, obs, memory, began):
        (time,) = memory
        time = torch.where(began[:, None], 0.0, time)
        outputs, value, _ = super().forward(obs, None, None)
        return outputs + self.of_time(time * 0.01), value, (time + 1,)


class Several(Counting):
    """Its memory has parts of other shapes and dtypes."""

    def initial_memory(self, count):
        return torch.zeros(count, 1), torch.zeros(count, dtype=torch.int64)

    def forward(self, obs, memory, began):
        time, steps = memory
        assert steps.dtype == torch.int64
        outputs, value, (time,) = super().forward(obs, (time,), began)
        return outputs + 0.01 * steps[:, None], value, (time, torch.where(began, 0, steps) + 1)


class Halving(Plain):
    def forward(self, obs, memory, began):
        return super().forward(obs * 0.5, memory, began)


class HalvingInPlace(Plain):
    def forward(self, obs, memory, began):
        obs *= 0.5
        return super().forward(obs, memory, began)


class Keeping(Counting):
    """Returns a tensor of its own as its memory, and writes to it the next time."""

    def forward(self, obs, memory, began):
        outputs, value, (time,) = super().forward(obs, memory, began)
        if getattr(self, "kept", time).shape != time.shape or not hasattr(self, "kept"):
            self.kept = torch.empty_like(time)
        self.kept.copy_(time)
        return outputs, value, (self.kept,)


class CountingInPlace(Counting):
    def forward(self, obs, memory, began):
        outputs, value, _ = super().forward(obs, memory, began)
        time = memory[0].masked_fill_(began[:, None], 0.0)
        time += 1
        began |= True
        return outputs, value, (time,)


# --- networks and optimizers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "env_id", "config", "network"),
    [
        (PPO, "CartPole-v1", PPOConfig(**SMALL), Plain),
        (PPO, "CartPole-v1", PPOConfig(**SMALL), Counting),
        (PPO, "CartPole-v1", PPOConfig(**SMALL), Several),
        (PPO, "Pendulum-v1", PPOConfig(**SMALL), Plain),
        (SAC, "Pendulum-v1", SOFT, Plain),
        (DQN, "CartPole-v1", DEEP, Plain),
    ],
)
def test_a_network_of_your_own_learns_acts_and_comes_back_from_a_file(algorithm, env_id, config, network, tmp_path):
    whole = algorithm(env_id, config, seed=1, network=network, optimizer=torch.optim.AdamW).learn(256)
    half = algorithm(env_id, config, seed=1, network=network, optimizer=torch.optim.AdamW)
    before = vector(half).clone()
    half.learn(256, lambda progress: progress.steps < 128)
    assert not torch.equal(vector(half), before)
    assert torch.equal(half.network.module.frozen, torch.ones(3))
    half.save(tmp_path / "half.npz")
    with pytest.raises(ConfigError, match=f"was trained with network '{network.__name__}'"):
        algorithm.load(tmp_path / "half.npz")
    again = algorithm.load(tmp_path / "half.npz", network=network, optimizer=torch.optim.AdamW).learn(256)
    assert torch.equal(vector(again), vector(whole))
    envs = vecenv.make(env_id, 3)
    assert envs.action_space.contains(whole.policy(envs.reset(seed=0)[0]))
    assert whole.policy.recurrent == issubclass(network, Counting)


@pytest.mark.parametrize(
    ("algorithm", "env_id", "config", "network", "in_place"),
    [
        (PPO, "CartPole-v1", PPOConfig(**SMALL), Halving, HalvingInPlace),
        (PPO, "CartPole-v1", PPOConfig(**SMALL), Counting, CountingInPlace),
        (PPO, "CartPole-v1", PPOConfig(**SMALL), Counting, Keeping),
        (SAC, "Pendulum-v1", SOFT, Halving, HalvingInPlace),
        (DQN, "CartPole-v1", DEEP, Halving, HalvingInPlace),
    ],
)
def test_a_network_may_change_what_it_gets_in_place(algorithm, env_id, config, network, in_place):
    one, other = (algorithm(env_id, config, seed=1, network=each).learn(256) for each in (network, in_place))
    assert torch.equal(vector(one), vector(other))
    obs = np.ones((2, *one.collector.observation_space.shape), np.float32)
    np.testing.assert_array_equal(other.policy(obs), one.policy(obs))
    assert (obs == 1).all()


def test_groups_of_parameters_keep_the_ratio_of_their_learning_rates():
    def make(parameters, lr):
        return torch.optim.AdamW([{"params": parameters[:1], "lr": 0.0}, {"params": parameters[1:2], "lr": 10 * lr},
                                  {"params": parameters[2:]}], lr=lr)  # fmt: skip

    config = PPOConfig(**SMALL, learning_rate=lambda done: 1e-3 * (1 - done))
    trainer = PPO("CartPole-v1", config, network=Plain, optimizer=make)
    first, second, third = (part.detach().clone() for part in trainer.flat.parameters[:3])
    trainer.learn(128)
    assert [group["lr"] for group in trainer.optimizer._own.param_groups] == pytest.approx([0, 5e-3, 5e-4])
    assert trainer.optimizer.learning_rate == pytest.approx(5e-4)
    assert torch.equal(trainer.flat.parameters[0], first)
    assert (trainer.flat.parameters[1] - second).abs().max() > 3 * (trainer.flat.parameters[2] - third).abs().max() > 0
    trainer.optimizer._own.add_param_group({"params": [nn.Parameter(torch.zeros(2))], "lr": 1e-3})
    trainer.learn(256)
    assert [group["lr"] for group in trainer.optimizer._own.param_groups] == pytest.approx([0, 2.5e-3, 2.5e-4, 5e-4])
    own = partial(torch.optim.SGD, lr=0.1)
    with pytest.raises(ConfigError, match="keep their ratio to the setting learning_rate, which is 0"):
        PPO("CartPole-v1", PPOConfig(**SMALL, learning_rate=0.0), optimizer=lambda parameters, lr: own(parameters))


def test_memories_of_own_networks_are_the_same_when_acting_and_learning():
    trainer = PPO("CartPole-v1", PPOConfig(**{**SMALL, "minibatch": 0, "epochs": 1}), seed=3, network=Counting)
    trainer.learn(1)
    seen = []
    step = trainer._gradient_step
    trainer._gradient_step = lambda batch, *others: seen.append(dict(batch)) or step(batch, *others)
    trainer.learn(trainer.steps + 1)
    fresh = PPO("CartPole-v1", PPOConfig(**{**SMALL, "minibatch": 0, "epochs": 1}), seed=3, network=Counting)
    fresh.learn(1)  # the weights that acted in the second rollout
    with torch.no_grad():
        outputs, _ = fresh.network.sequences(seen[0]["obs"], seen[0]["memory"], seen[0]["began"])
        log_prob, _ = fresh.network.head.judge(outputs, None, seen[0]["actions"].flatten(0, 1))
    torch.testing.assert_close(log_prob, seen[0]["log_prob"].flatten(), rtol=1e-4, atol=1e-5)  # 4 rows, then 64
    assert seen[0]["memory"][0].max() > 3


def test_any_optimizer_of_torch_does_what_it_does_there():
    """Adam of torch, passed as a class, ends with the weights of the trainer's own Adam."""
    make = functools.partial(torch.optim.Adam, eps=1e-5)
    config = PPOConfig(**SMALL, anneal=True)
    own, theirs = PPO("CartPole-v1", config, seed=0), PPO("CartPole-v1", config, seed=0, optimizer=make)
    for trainer in (own, theirs):
        trainer.learn(128)
    torch.testing.assert_close(vector(own), vector(theirs), rtol=1e-4, atol=1e-6)  # roundings in another order
    momentum = PPO("CartPole-v1", config, optimizer=functools.partial(torch.optim.SGD, momentum=0.9)).learn(64)
    assert momentum.optimizer._own.param_groups[0]["momentum"] == 0.9


def test_networks_that_do_not_fit_are_refused_with_the_reason():
    class Short(Plain):
        def forward(self, obs, memory, began):
            return self.outputs(obs), None

    class Broken(nn.Module):
        def forward(self, obs):
            return obs

    class Doubles(Plain):
        def __init__(self, space, outputs):
            super().__init__(space, outputs)
            self.value.double()

        def forward(self, obs, memory, began):
            return self.outputs(obs), self.value(obs.double()).squeeze(-1).float(), None

    too_many = Plain(spaces.Box(-1, 1, (4,)), 5)
    for network, message in (
        (Short, r"must return \(outputs, values, memory\), got a tuple of 2"),
        (Broken(), r"must have forward\(obs, memory, began\)"),
        (too_many, r"outputs of shape \(2, 2\) for 2 observations, got \(2, 5\)"),
        ("MlpPolicy", "network must be a torch.nn.Module"),
        (lambda space, outputs: None, "got NoneType"),
        (Doubles, "must have one dtype, .* they have torch.float32, torch.float64"),
    ):
        with pytest.raises(ConfigError, match=message):
            PPO("CartPole-v1", PPOConfig(**SMALL), network=network)
    with pytest.raises(ConfigError, match="DQN has no memory"):
        DQN("CartPole-v1", DEEP, network=Counting)


# --- schedules and clipped values ------------------------------------------------------------------------------------


def test_a_schedule_is_called_with_the_progress_and_anneal_is_a_schedule():
    rates = []
    config = PPOConfig(**SMALL, learning_rate=lambda done: rates.append(done) or 1e-3 * (1 - done),
                       clip_range=lambda done: 0.2 * (1 - done))  # fmt: skip
    rates.clear()  # it was called when the settings were checked
    trainer = PPO("CartPole-v1", config, seed=0).learn(256)
    assert rates == [0.0, 0.0, 0.25, 0.5, 0.75]  # to make the optimizer, then once per update
    same = PPO("CartPole-v1", PPOConfig(**SMALL, learning_rate=1e-3, anneal=True), seed=0).learn(256)
    assert torch.equal(vector(trainer), vector(same))
    soft = SAC("Pendulum-v1", SACConfig(**{**vars(SOFT), "learning_rate": lambda done: 1e-3 * (1 - done)})).learn(100)
    assert soft.critic_optimizer.learning_rate == pytest.approx(1e-3 * (1 - 98 / 100))


def test_functions_are_not_stored_and_must_be_passed_again(tmp_path):
    config = PPOConfig(**SMALL, learning_rate=lambda done: 1e-3 * (1 - done))
    whole = PPO("CartPole-v1", config, seed=0).learn(256)
    half = PPO("CartPole-v1", config, seed=0).learn(256, lambda progress: progress.steps < 128)
    half.save(tmp_path / "half.npz")
    with pytest.raises(ConfigError, match="functions as learning_rate, which files do not store"):
        PPO.load(tmp_path / "half.npz")
    again = PPO.load(tmp_path / "half.npz", config=config).learn(256)
    assert torch.equal(vector(again), vector(whole))


def test_clipped_values_are_those_of_the_formula_sample_by_sample():
    generator = np.random.default_rng(0)
    value, old, returns = generator.normal(size=(3, 100))
    expected = []
    for new, before, wanted in zip(value, old, returns, strict=True):
        near = before + min(max(new - before, -0.2), 0.2)
        expected.append(max((new - wanted) ** 2, (near - wanted) ** 2))
    tensors = [torch.tensor(column) for column in (value, old, returns)]
    assert float(clipped_value_loss(*tensors, 0.2)) == pytest.approx(np.mean(expected))
    assert float(clipped_value_loss(*tensors, None)) == pytest.approx(np.mean((value - returns) ** 2))
    plain, clipped = (PPO("CartPole-v1", PPOConfig(**SMALL, clip_value=clip)).learn(128) for clip in (None, 1e-3))
    assert not torch.equal(vector(plain), vector(clipped))


# --- callbacks, loggers, evaluation ----------------------------------------------------------------------------------


def test_all_callbacks_are_called_and_any_of_them_stops():
    first, second = [], []
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL))
    trainer.learn(640, [lambda progress: first.append(progress) or True, lambda progress: second.append(progress)])
    assert len(first) == len(second) == 10
    assert first[0].trainer is trainer
    other = PPO("CartPole-v1", PPOConfig(**SMALL))
    other.learn(640, [lambda progress: progress.steps < 192, first.append])
    assert other.steps == 192
    assert len(first) == 13


def test_loggers_get_every_point(tmp_path):
    class Own:
        def __init__(self):
            self.points = []

        def write(self, step, scalars):
            self.points.append((step, dict(scalars)))

        def close(self):
            raise AssertionError("the caller closes loggers")

    own, table, board = Own(), CSV(tmp_path / "logs" / "curve.csv"), TensorBoard(tmp_path / "board")
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL), seed=0)
    trainer.learn(128, lambda progress: trainer.log({"own/steps": progress.steps}), loggers=[own, table, board])
    trainer.learn(192, loggers=own)
    table.close()
    board.close()
    assert [step for step, _ in own.points] == [64, 64, 128, 128, 192]
    names = {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps"}
    losses = {f"train/{name}" for name in ("policy", "value", "entropy", "kl")}
    assert own.points[-1][1].keys() == names | losses
    with open(table.path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["64", "64", "128", "128"]
    assert [row["own/steps"] for row in rows] == ["", "64.0", "", "128.0"]
    assert float(rows[2]["train/kl"]) == own.points[2][1]["train/kl"]
    assert rows[1]["train/kl"] == ""
    events = board.path.read_bytes()
    assert events.count(b"own/steps") == 2
    again = CSV(table.path)
    again.write(500, {"new": 1.5})
    again.close()
    with open(table.path, newline="") as file:
        assert [(row["step"], row["new"]) for row in csv.DictReader(file)][-2:] == [("128", ""), ("500", "1.5")]


@pytest.mark.timeout(120)
def test_weights_and_biases_writes_a_run_offline(tmp_path, monkeypatch):
    import wandb

    from vecenv.trainers import WandB

    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandB("test", mode="offline", dir=str(tmp_path))
    PPO("CartPole-v1", PPOConfig(**SMALL), seed=0).learn(256, loggers=logger)
    assert logger.run.step == 256
    logger.close()
    assert wandb.run is None
    (written,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    deadline = time.monotonic() + 30  # a process of wandb writes it
    while b"ep_rew_mean" not in written.read_bytes():
        assert time.monotonic() < deadline, written.read_bytes()[:100]
        time.sleep(0.1)


def test_the_best_agent_is_kept_and_a_training_that_goes_on_knows_it(tmp_path, monkeypatch):
    returns = iter([5.0, 9.0, 7.0, 8.0])

    def stub(policy, envs, *, episodes, **options):
        if not isinstance(policy, Policy):
            policy(None)  # what `learn` tries first
        row = type("Row", (), {"mean": next(returns), "length": 3.0})
        return type("Result", (), {"summary": [row]})

    monkeypatch.setattr("vecenv.trainers._evaluation.evaluate", stub)
    best, config = tmp_path / "best.npz", PPOConfig(**SMALL)
    trainer = PPO("CartPole-v1", config, seed=0).learn(320, PeriodicEvaluation(100, best=best))
    assert trainer.evaluations == {"eval": [(128, 5.0), (256, 9.0), (320, 7.0)]}
    assert PPO.load(best).steps == 256
    trainer.save(tmp_path / "last.npz")
    PPO.load(tmp_path / "last.npz").learn(448, PeriodicEvaluation(100, best=best))
    assert PPO.load(best).steps == 256


def test_an_evaluation_without_a_number_is_never_the_best(tmp_path):
    class Unlucky(Bandit):
        lucky = False

        def step(self, action):
            obs, reward, *rest = super().step(action)
            return obs, reward if self.lucky else np.nan, *rest

    best, envs = tmp_path / "best.npz", lambda: Unlucky(spaces.Box(-1, 1, (4,)), spaces.Discrete(2))
    evaluation = PeriodicEvaluation(64, envs, episodes=3, num_envs=1, check_finite="off", best=best)
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL), seed=0)
    trainer.learn(192, [evaluation, lambda progress: setattr(Unlucky, "lucky", True)])
    means = [mean for _, mean in trainer.evaluations["eval"]]
    assert np.isnan(means).tolist() == [True, False, False]
    assert PPO.load(best).steps == (128 if means[1] >= means[2] else 192)


def test_evaluations_are_those_of_evaluate(tmp_path):
    points = []
    logger = type("Own", (), {"write": lambda self, step, scalars: points.append(scalars), "close": print})()
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL), seed=0)
    evaluation = PeriodicEvaluation(100, episodes=3)
    trainer.learn(128, evaluation, loggers=logger)
    expected = vecenv.evaluate(trainer.policy, "CartPole-v1", episodes=3)
    assert trainer.evaluations == {"eval": [(128, expected.summary[0].mean)]}
    np.testing.assert_array_equal(evaluation.result.returns, expected.returns)
    assert points[-1] == {
        "eval/mean_reward": expected.summary[0].mean,
        "eval/mean_ep_length": expected.summary[0].length,
    }
    envs = vecenv.make("CartPole-v1", 4, autoreset="same-step")
    with pytest.raises(ConfigError, match="say where to evaluate"):
        PPO(envs, PPOConfig(**SMALL)).learn(64, PeriodicEvaluation(1))
    with pytest.raises(ConfigError, match="there is no directory"):
        PeriodicEvaluation(10, best=tmp_path / "none" / "best.npz")
    with pytest.raises(ConfigError, match="leave background out"):
        PeriodicEvaluation(10, background=True)


@pytest.mark.parametrize(
    ("envs", "options", "message"),
    [
        (None, {"seeds": 0}, "seeds"),
        (None, {"engine": "proces"}, "did you mean 'process'"),
        (None, {"gravitation": 1}, "gravitation"),
        (None, {"confidence": 2}, "confidence must be between 0 and 1"),
        ("CartPol-v1", {}, "Did you mean: `CartPole`"),
        (["CartPole-v1"], {}, "evaluate takes one env"),
    ],
)
def test_wrong_arguments_of_periodic_evaluations_are_errors_before_the_first_step(envs, options, message):
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL))
    with pytest.raises(Exception, match=message):
        trainer.learn(10_000, PeriodicEvaluation(10_000, envs, **options))
    assert trainer.steps == 0


def test_two_evaluations_have_a_schedule_and_a_best_agent_each(tmp_path):
    first = PeriodicEvaluation(128, episodes=2, best=tmp_path / "a.npz")
    second = PeriodicEvaluation(192, episodes=2, seeds=[5], name="test", best=tmp_path / "b.npz")
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL), seed=0).learn(384, [first, second])
    assert {name: [steps for steps, _ in points] for name, points in trainer.evaluations.items()} == {
        "eval": [128, 256, 384],
        "test": [192, 384],
    }
    for file, name in (("a.npz", "eval"), ("b.npz", "test")):
        points = PPO.load(tmp_path / file).evaluations[name]
        assert points == trainer.evaluations[name][: len(points)]
        assert points[-1][1] == max(mean for _, mean in trainer.evaluations[name])
    with pytest.raises(ConfigError, match="need names of their own"):
        trainer.learn(512, [first, PeriodicEvaluation(100)])


@pytest.mark.parametrize("no", [False, np.False_])
def test_a_callback_that_returns_false_stops_training_and_no_other_answer_does(no):
    def trained(answer):
        return PPO("CartPole-v1", PPOConfig(**SMALL)).learn(256, lambda progress: answer).steps

    assert trained(no) == 64
    assert [trained(answer) for answer in (None, 0, np.True_)] == [256] * 3


def curve_of(path, *points):
    logger = CSV(path)
    for step, scalars in points:
        logger.write(step, scalars)
    logger.close()
    return path.read_text()


def test_a_csv_goes_on_after_an_empty_or_a_torn_file_and_refuses_another_table(tmp_path):
    path = tmp_path / "curve.csv"
    path.touch()
    assert curve_of(path, (5, {"a": 1.0})) == "step,a\n5,1.0\n"
    path.write_text("step,a\n1,2\n2,3")
    assert curve_of(path, (5, {"a": 1.0})) == "step,a\n1,2\n5,1.0\n"
    for other in ("a,b\n1,2\n", "hello"):
        path.write_text(other)
        with pytest.raises(ConfigError, match="no table of CSV"):
            CSV(path)
        assert path.read_text() == other


def test_a_csv_on_a_full_disk_warns_once_and_training_goes_on(tmp_path, monkeypatch):
    logger, full = CSV(tmp_path / "curve.csv"), OSError(errno.ENOSPC, "No space left on device")

    def fails(*args):
        raise full

    monkeypatch.setattr("vecenv.trainers.loggers.append", fails)
    monkeypatch.setattr("vecenv.trainers.loggers.write_file", fails)
    with pytest.warns(RuntimeWarning, match=r"curve.csv cannot be written \(No space left on device\)") as said:
        [logger.write(step, {"a": 1.0}) for step in (1, 2)]
    assert len(said) == 1
    monkeypatch.undo()
    logger.write(3, {"a": 3.0})
    logger.close()
    assert (tmp_path / "curve.csv").read_text() == "step,a\n3,3.0\n"


# --- trainers of your own --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BonusConfig(PPOConfig):
    bonus: float = 0.5
    sizes: tuple[tuple[int, ...], ...] = ((1, 2), (3,))

    ranges = {**PPOConfig.ranges, "bonus": (0, 1)}
    fixed = frozenset({"bonus", "sizes"})


class BonusPPO(PPO):
    Config = BonusConfig

    def _build(self):
        super()._build()
        self.rollouts = 0

    def _collect(self, clock):
        self.rollouts += 1
        memory = super()._collect(clock)
        self.buffer.reward += self.config.bonus
        return memory

    def state_dict(self):
        return {**super().state_dict(), "rollouts": self.rollouts}

    def load_state_dict(self, state, same_envs):
        super().load_state_dict(state, same_envs)
        self.rollouts = state["rollouts"]


def test_trainers_of_your_own_save_and_load(tmp_path):
    config = BonusConfig(**SMALL, bonus=0.25)
    whole = BonusPPO("CartPole-v1", config, seed=1).learn(256)
    half = BonusPPO("CartPole-v1", config, seed=1).learn(256, lambda progress: progress.steps < 128)
    half.save(tmp_path / "half.npz")
    again = BonusPPO.load(tmp_path / "half.npz")
    assert (again.rollouts, again.config) == (2, config)
    again.learn(256)
    assert torch.equal(vector(again), vector(whole))
    assert not torch.equal(vector(again), vector(PPO("CartPole-v1", PPOConfig(**SMALL), seed=1).learn(256)))
    for name, value in {"bonus": 0.5, "sizes": ((1, 2), (4,)), "hidden": (7,)}.items():
        with pytest.raises(ConfigError, match=f"was begun with {name}=.*; continue with the same value, got"):
            BonusPPO.load(tmp_path / "half.npz", config=replace(config, **{name: value}))
    assert BonusPPO.load(tmp_path / "half.npz", config=replace(config, epochs=1)).config.epochs == 1
    with pytest.raises(ConfigError, match=r"is a checkpoint of BonusPPO, not of PPO; use BonusPPO.load"):
        PPO.load(tmp_path / "half.npz")
    with pytest.raises(ConfigError, match="bonus must be from 0 to 1, got 2"):
        BonusConfig(bonus=2)


# --- wrong arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lambda: PPOConfig(learning_rate=-1), "learning_rate must be at least 0 and finite, got -1"),
        (lambda: PPOConfig(learning_rate=float("inf")), "learning_rate must be at least 0 and finite, got inf"),
        (lambda: PPOConfig(log_std=float("nan")), "log_std must be finite, got nan"),
        (
            lambda: PPOConfig(entropy=lambda done: float("inf")),
            "returned float inf at 0.00",
        ),
        (lambda: SACConfig(entropy=float("inf")), "entropy must be positive and finite, got inf"),
        (lambda: SACConfig(target_entropy=-float("inf")), "target_entropy must be finite, got -inf"),
        (lambda: PPOConfig(torch_threads=100_000), "torch_threads must be from 1 to 1024"),
        (lambda: PPOConfig(num_envs=np.array([1.0])), "num_envs must be an int, got"),
        (lambda: SACConfig(updates_per_step=float("inf")), "updates_per_step must be at least 0 and finite"),
        (lambda: PPOConfig(gamma=2), "gamma must be from 0 to 1, got 2"),
        (lambda: PPOConfig(gamma=float("nan")), "gamma must be from 0 to 1, got nan"),
        (lambda: PPOConfig(hidden=(64, 0)), "hidden must be at least 1, got 0"),
        (lambda: PPOConfig(hidden=64), "hidden must be a list of ints, got int 64"),
        (lambda: PPOConfig(num_envs="8"), "num_envs must be an int, got str '8'"),
        (lambda: PPOConfig(num_envs=True), "num_envs must be an int, got bool True"),
        (lambda: PPOConfig(anneal=1), "anneal must be True or False, got int 1"),
        (lambda: PPOConfig(optimizer="sgd"), "optimizer must be one of 'adam', 'rmsprop', got 'sgd'"),
        (lambda: PPOConfig(activation="gelu"), "activation must be one of 'tanh', 'relu', got 'gelu'"),
        (lambda: PPOConfig(clip_value=0.0), "clip_value must be positive, got 0.0"),
        (lambda: PPOConfig(learning_rate=lambda done: -done), "returned float -1.0 at 1.00; it must return a number"),
        (lambda: PPOConfig(learning_rate="1e-3"), "must be a number or a function of progress, got str '1e-3'"),
        (lambda: SACConfig(tau=1.5), "tau must be from 0 to 1, got 1.5"),
        (lambda: SACConfig(capacity=1e6), "capacity must be an int, got float 1000000.0"),
        (lambda: DQNConfig(final_exploration=-0.1), "final_exploration must be from 0 to 1"),
        (lambda: DQNConfig(stack=4, normalize_obs=True), "use one of them"),
        (lambda: a2c(lam=1.1), "lam must be from 0 to 1"),
        (lambda: PPOConfig(n_steps=3), "PPOConfig: there is no setting 'n_steps'; it is 'rollout_steps' here"),
        (lambda: SACConfig(gama=0.9), "SACConfig: there is no setting 'gama'; did you mean 'gamma'"),
    ],
)
def test_settings_out_of_range_or_of_a_wrong_type_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        settings()


def test_numpy_numbers_are_settings_too():
    config = PPOConfig(num_envs=np.int64(4), gamma=np.float32(0.5), hidden=[np.int32(8)], learning_rate=1)
    assert (type(config.num_envs), type(config.gamma), config.hidden) == (int, float, (8,))


class Scaled(PPOConfig):
    def __init__(self, scale=1, **settings):
        super().__init__(num_envs=4 * scale, **settings)


@dataclass(frozen=True)
class WithInitVar(PPOConfig):
    scale: InitVar[int] = 1

    def __post_init__(self, scale):
        object.__setattr__(self, "num_envs", 4 * scale)
        super().__post_init__()


class OnlyScale(PPOConfig):
    def __init__(self, *, scale):
        super().__init__(num_envs=4 * scale)


def test_subclasses_of_settings_may_have_arguments_of_their_own():
    assert (Scaled(scale=2, gamma=0.5).num_envs, Scaled(scale=2, gamma=0.5).gamma) == (8, 0.5)
    assert (WithInitVar(scale=2, gamma=0.5).num_envs, WithInitVar(scale=2, gamma=0.5).gamma) == (8, 0.5)
    assert OnlyScale(scale=2).num_envs == 8
    with pytest.raises(ConfigError, match="there is no setting 'gama'; did you mean 'gamma'"):
        WithInitVar(gama=0.5)
    with pytest.raises(ConfigError, match="there is no setting 'gamma'"):
        OnlyScale(gamma=0.5)


def test_callbacks_are_none_one_or_any_iterable_of_them():
    both = {print: 1, len: 2}
    for given in ([print, len], (print, len), both, both.keys(), iter(both), deque(both), np.array([print, len])):
        assert callbacks_of(given) == [print, len]
    assert callbacks_of(None) == callbacks_of(()) == []
    assert callbacks_of(print) == [print]
    with pytest.raises(ConfigTypeError, match="a callback must be a function of a Progress, or an object"):
        callbacks_of(PeriodicEvaluation)


def test_wrong_arguments_are_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr("vecenv.trainers._collect.make", lambda *args, **options: pytest.fail("envs were made"))
    env = gymnasium.make("CartPole-v1")
    envs, closed = (vecenv.make("CartPole-v1", 2, autoreset="same-step") for _ in range(2))
    closed.close()
    for call, message in (
        (lambda: PPO("MlpPolicy", env), r"takes no name of a policy \('MlpPolicy'\): write PPO\(envs\)"),
        (lambda: PPO("MlpPolicy", env, verbose=1), r"takes no name of a policy \('MlpPolicy'\): write PPO\(envs\)"),
        (lambda: PPO("MlpPolicy"), "a network of your own is network="),
        (lambda: PPO("CartPole-v1", learning_rate=-1), r"a setting: write PPO\(envs, PPOConfig\(learning_rate=-1\)\)"),
        (lambda: SAC("Pendulum-v1", batch_size=64), r"\(here minibatch\) is .* SAC\(envs, SACConfig\(minibatch=64\)\)"),
        (lambda: PPO("CartPole-v1", verbose=1), r"progress goes to a callback: PPO\(envs\).learn\(steps, print\)"),
        (lambda: PPO("CartPole-v1", divice="cpu"), r"no argument 'divice'; did you mean 'device'\?"),
        (lambda: PPO("CartPole-v1", None, 0, 7), r"too many positional arguments; write PPO\(envs, PPOConfig"),
        (lambda: PPO(), r"missing a required argument: 'envs'; write PPO\(envs, PPOConfig"),
        (lambda: PPO(env), "trains on a vector env, got the env TimeLimit"),
        (lambda: PPO(lambda: env), "envs must be an env id, a vector env or a list"),
        (lambda: PPO([]), "envs must be an env id"),
        (lambda: PPO(["CartPole-v1"] * 2), r"a list must be of vector envs.* write PPO\('CartPole-v1'\)"),
        (lambda: PPO([envs, envs]), "the same vector env is in the list twice"),
        (lambda: PPO(closed), "the vector env is closed; make another one"),
        (lambda: PPO("CartPole-v1", device="xpu"), 'device must be "auto", "cpu", "cuda" or "mps", got \'xpu\''),
        (lambda: PPO("CartPole-v1", {"gamma": 0.9}), r"config must be PPOConfig\(...\), got dict"),
        (lambda: PPO("CartPole-v1", SACConfig()), r"config must be PPOConfig\(...\), got SACConfig"),
        (lambda: PPO("CartPole-v1", seed=-1), "seed must be an int of at least 0"),
        (lambda: PPO("CartPole-v1", seed=1.5), "seed must be an int"),
        (lambda: PPO("CartPole-v1", seed=2**70), r"at least 0 and at most 2\*\*63 - 2\*\*32, got 118059"),
        (lambda: PPO("CartPole-v1", seed=True), "seed must be an int"),
        (lambda: PPO("CartPole-v1", optimizer="adamw"), "optimizer must be a class such as torch.optim.AdamW"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()


def test_calls_of_learn_as_in_other_libraries_say_what_to_write():
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL))
    for call, message in (
        (
            lambda: trainer.learn(total_timesteps=100),
            "learn has no total_timesteps: the number of steps is total_steps",
        ),
        (lambda: trainer.learn(100, progress_bar=True), r"progress goes to a callback: learn\(total_steps, print\)"),
        (lambda: trainer.learn(100, calback=print), "learn has no argument 'calback'; did you mean 'callback'"),
        (lambda: trainer.learn(100, envs=1), "no argument 'envs'; it has total_steps, callback and loggers"),
        (lambda: trainer.learn(), r"missing a required argument: 'total_steps'; write learn\(total_steps\)"),
    ):
        with pytest.raises(TypeError, match=message) as refused:
            call()
        assert isinstance(refused.value, ConfigError)
    assert trainer.steps == 0


@dataclass(frozen=True)
class OwnTypes(PPOConfig):
    betas: tuple[float, float] = (0.9, 0.999)
    kind: Literal["a", "b"] | None = None
    extra: dict[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    folder: Path | None = None


def test_settings_of_own_trainers_may_have_types_of_their_own():
    given = {"betas": [0.5, 1], "kind": "b", "extra": {"x": 1}, "names": ("a", "b"), "folder": Path("x")}
    config = OwnTypes(**given)
    assert (config.betas, config.kind, config.names) == ((0.5, 1), "b", ("a", "b"))
    assert (config.extra, config.folder) == ({"x": 1}, Path("x"))
    assert OwnTypes().kind is None
    for wrong, message in (
        ({"betas": (1.0,)}, "betas must have 2 values"),
        ({"betas": ("a", 1.0)}, r"betas\[0\] must be a number"),
        ({"kind": "c"}, "kind must be one of 'a', 'b'"),
        ({"names": (1,)}, r"names\[0\] must be text"),
    ):
        with pytest.raises(ConfigError, match=message):
            OwnTypes(**wrong)


def test_a_type_that_the_module_of_settings_does_not_know_is_named():
    known = {"PPOConfig": PPOConfig, "__name__": __name__}
    exec("class Odd(PPOConfig):\n    some: 'Unknown' = None", known)
    with pytest.raises(ConfigTypeError, match="Odd: name 'Unknown' is not defined in its module; import the types"):
        dataclass(frozen=True)(known["Odd"])()


class Frozen(nn.Module):
    """A layer that was trained elsewhere, dropout and heads; works for every trainer."""

    def __init__(self, space, outputs, normalization=False):
        super().__init__()
        self.body = nn.Linear(space.shape[0], 32).requires_grad_(False)
        self.norm = nn.BatchNorm1d(32) if normalization else nn.Dropout(0.1)
        self.head, self.value = nn.Linear(32, outputs), nn.Linear(32, 1)

    def forward(self, obs, memory, began):
        features = self.norm(self.body(obs).tanh())
        return self.head(features), self.value(features).squeeze(-1), None


@pytest.mark.parametrize("memory", [None, torch.zeros(2, 1), (torch.zeros(2, 2),), (torch.zeros(2, 1),) * 2, ()])
def test_a_memory_of_another_form_than_the_initial_one_is_refused(memory):
    class Forgets(Counting):
        def forward(self, obs, given, began):
            return self.outputs(obs), self.value(obs).squeeze(-1), memory

    with pytest.raises(ConfigError, match=r"must return a memory like initial_memory\(2\): .*shapes \[\(2, 1\)\], got"):
        PPO("CartPole-v1", PPOConfig(**SMALL), network=Forgets)


@pytest.mark.parametrize("normalization", [False, True])
@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda **parts: PPO("CartPole-v1", PPOConfig(**SMALL), seed=1, **parts), 128),
        (lambda **parts: DQN("CartPole-v1", DQNConfig(warmup=40, minibatch=8, report=60), seed=1, **parts), 120),
        (lambda **parts: SAC("Pendulum-v1", SACConfig(warmup=40, minibatch=8, report=60), seed=1, **parts), 120),
    ],
    ids=["PPO", "DQN", "SAC"],
)
def test_training_with_frozen_layers_dropout_or_batch_norm_goes_on_bit_for_bit(tmp_path, make, count, normalization):
    network = partial(Frozen, normalization=normalization)
    whole = make(network=network).learn(count)
    torch.rand(7)  # what the program draws elsewhere does not matter
    state = torch.get_rng_state()
    half = make(network=network).learn(count, lambda progress: False)
    assert half.steps < count
    half.save(tmp_path / "half.npz")
    again = type(half).load(tmp_path / "half.npz", network=network)
    obs = np.ones((3, *half.collector.observation_space.shape), np.float32)
    np.testing.assert_array_equal(again.policy(obs), half.policy(obs))
    again.learn(count)
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in whole.network.state_dict().items():
        assert torch.equal(again.network.state_dict()[name], value), name


class Mixed(gymnasium.Env):
    """Numbers, a choice and an image."""

    observation_space = spaces.Dict(
        n=spaces.Box(-50, 50, (3,), np.float32), c=spaces.Discrete(3), i=spaces.Box(0, 255, (36, 36, 1), np.uint8)
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.1), False, {}


def test_of_a_dict_the_numbers_are_normalized_and_choices_and_images_are_not():
    with vecenv.make(Mixed, 2, engine="sync", autoreset="same-step") as envs:
        config = PPOConfig(**SMALL, image_features=16, normalize_obs=True)
        trainer = PPO(envs, config, seed=0).learn(64)
        assert list(trainer.collector.normalize.moments) == ["n"]
        seen = trainer.buffer.obs
        assert abs(seen["n"]).max() <= 10.0
        assert seen["i"].max() > 200
        assert set(np.unique(seen["c"])) <= {0, 1, 2}
        obs, _ = envs.reset(seed=5)
        assert trainer.policy(obs).shape == (2,)
    only = spaces.Dict(c=spaces.Discrete(3))
    with pytest.raises(ConfigError, match=r"nothing to normalize in .*: only Boxes of numbers directly"):
        _numbers_of(only)
    inner = spaces.Dict(a=spaces.Box(-1, 1, (2,)), z=spaces.Dict(q=spaces.Box(-1, 1, (2,))))
    assert _numbers_of(inner) == ["a"]
    with pytest.raises(ConfigError, match="not those in nested Dicts"):
        _numbers_of(spaces.Dict(z=inner))
    with pytest.raises(ConfigError, match=r"a Box, or the Boxes of a Dict; got Tuple\("):
        _numbers_of(spaces.Tuple([spaces.Box(-1, 1, (2,))]))


class Descent:
    """Written like an optimizer of torch, and not derived from it."""

    def __init__(self, parameters, lr):
        self.param_groups = [{"params": list(parameters), "lr": lr}]

    def step(self):
        for part in self.param_groups[0]["params"]:
            part.data -= self.param_groups[0]["lr"] * part.grad

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class WithoutRate(Descent):
    """Has its learning rate from the trainer alone."""

    def __init__(self, parameters, lr):
        self.param_groups = [{"params": list(parameters)}]


def test_optimizers_need_not_derive_from_torchs():
    found = [
        vector(PPO("CartPole-v1", PPOConfig(**SMALL), seed=1, optimizer=optimizer).learn(128))
        for optimizer in (Descent, WithoutRate, torch.optim.SGD)
    ]
    torch.testing.assert_close(found[0], found[2])
    assert torch.equal(found[0], found[1])


def test_a_checkpoint_is_loaded_with_the_optimizer_it_was_made_with(tmp_path):
    own, plain = tmp_path / "own.npz", tmp_path / "plain.npz"
    PPO("CartPole-v1", PPOConfig(**SMALL), optimizer=torch.optim.AdamW).learn(64).save(own)
    PPO("CartPole-v1", PPOConfig(**SMALL)).learn(64).save(plain)
    PPO.load(own, optimizer=torch.optim.AdamW).learn(128)
    with pytest.raises(ConfigError, match="was trained with optimizer 'AdamW', whose state does not fit 'SGD'"):
        PPO.load(own, optimizer=torch.optim.SGD)
    with pytest.raises(ConfigError, match="with the trainer's own optimizer, whose state does not fit 'SGD'"):
        PPO.load(plain, optimizer=torch.optim.SGD)
    with pytest.raises(ConfigError, match="with the trainer's own network, whose state does not fit 'Plain'"):
        PPO.load(plain, network=Plain)


@pytest.mark.parametrize(
    ("algorithm", "env_id", "config", "changes"),
    [
        (PPO, "CartPole-v1", PPOConfig(**SMALL), {"hidden": (8,), "lstm": 4, "activation": "relu", "num_envs": 8}),
        (
            PPO,
            "CartPole-v1",
            PPOConfig(**SMALL),
            {"optimizer": "rmsprop", "normalize_obs": True, "mask": "action_mask"},
        ),
        (PPO, "CartPole-v1", PPOConfig(**SMALL, normalize_obs=True), {"normalize_obs": False}),
        (SAC, "Pendulum-v1", SOFT, {"hidden": (8,), "capacity": 77, "entropy": 0.1, "normalize_reward": True}),
        (DQN, "CartPole-v1", DEEP, {"hidden": (8,), "capacity": 77, "priority": 0.5, "dueling": True, "stack": 4}),
    ],
)
def test_settings_that_what_is_stored_depends_on_stay_the_same(algorithm, env_id, config, changes, tmp_path):
    algorithm(env_id, config).learn(64).save(tmp_path / "a.npz")
    for name, value in changes.items():
        with pytest.raises(ConfigError, match=rf"was begun with {name}=.*; continue with the same value"):
            algorithm.load(tmp_path / "a.npz", config=replace(config, **{name: value}))
    other = replace(config, learning_rate=1e-4, gamma=0.9, minibatch=8)
    assert algorithm.load(tmp_path / "a.npz", config=other).learn(128).config == other


class Constant(nn.Module):
    """Nothing to learn."""

    def forward(self, obs, memory, began):
        return torch.zeros(len(obs), 2), torch.zeros(len(obs)), None


@pytest.mark.parametrize(
    ("parts", "error", "says"),
    [
        ({"optimizer": torch.optim.LBFGS}, ConfigError, "LBFGS computes the loss several times"),
        (
            {"optimizer": lambda parameters, lr: 3},
            ConfigTypeError,
            "must make a torch.optim.Optimizer, or an object",
        ),
        ({"network": nn.Linear}, ConfigTypeError, "raised TypeError when it was called with the observation"),
        ({"network": Constant()}, ConfigError, "Constant has no parameters that can learn"),
        (
            {"config": lambda: PPOConfig(learning_rate=lambda one, two: 1.0)},
            ConfigTypeError,
            "TypeError when it was called with the progress",
        ),
    ],
)
def test_parts_that_cannot_learn_are_refused_before_a_step(parts, error, says):
    with pytest.raises(error, match=says):
        PPO("CartPole-v1", **{name: part() if name == "config" else part for name, part in parts.items()})


@pytest.mark.parametrize("obs", [None, "x", {"a": 1}, object()])
def test_a_policy_says_that_these_are_no_observations(obs):
    trainer = PPO("CartPole-v1")
    with pytest.raises(SpaceError, match=r"these are no observations of Box"):
        trainer.policy(obs)
    trainer.close()


class Embedded(nn.Module):
    """An embedding of choices that begin with `start`."""

    def __init__(self, space, outputs):
        super().__init__()
        self.start, self.outputs = int(space.start), nn.Embedding(int(space.n), outputs + 1)

    def forward(self, obs, memory, began):
        found = self.outputs(obs - self.start)
        return found[:, 1:], found[:, 0], None


def test_networks_are_tried_with_observations_of_the_space():
    """Zero is none of the choices 2 ... 6."""
    envs = vecenv.make(lambda: Bandit(spaces.Discrete(5, start=2), spaces.Discrete(3)), 2, autoreset="same-step")
    with closing(envs):
        trainer = PPO(envs, PPOConfig(**SMALL), network=Embedded)
        trainer._measure_acting()
        assert trainer.policy(6) in range(3)


def test_spaces_without_numbers_are_refused_with_networks_of_ones_own():
    envs = vecenv.make(lambda: Bandit(spaces.Text(4), spaces.Discrete(3)), 2, autoreset="same-step")
    with closing(envs), pytest.raises(UnsupportedError, match="learning needs spaces of numbers"):
        PPO(envs, PPOConfig(**SMALL), network=lambda space, outputs: nn.Linear(1, outputs))


def test_wrong_arguments_of_learn_are_refused_before_a_step():
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL))
    for call, message in (
        (lambda: trainer.learn(0), "total_steps must be an int >= 1"),
        (lambda: trainer.learn("1e5"), "total_steps must be an int"),
        (lambda: trainer.learn(100, ["print"]), "a callback must be a function"),
        (lambda: trainer.learn(100, 3), "a callback must be a function"),
        (lambda: trainer.learn(100, "print"), "a callback must be a function .* got str 'print'"),
        (lambda: trainer.learn(100, {"print": print}), "a callback must be a function"),
        (lambda: trainer.learn(100, loggers=["tensorboard"]), "a logger must be an object with write"),
        (lambda: trainer.learn(100, loggers=7), "a logger must be an object with write"),
        (lambda: trainer.learn(100, loggers=CSV), "a logger must be an object with write"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
    assert trainer.steps == 0


def test_sizes_of_own_networks_say_nothing_about_settings_but_damaged_files_are_refused(tmp_path):
    """The settings of the trainer's own layers are not those of the network, which is smaller."""
    trainer = PPO("CartPole-v1", PPOConfig(**{**SMALL, "hidden": (2000, 2000)}), network=Plain).learn(64)
    trainer.save(tmp_path / "small.npz")
    assert PPO.load(tmp_path / "small.npz", network=Plain).steps == 64
    plain = PPO("CartPole-v1", PPOConfig(**SMALL)).learn(64)
    object.__setattr__(plain.config, "hidden", (100_000, 100_000))
    plain.save(tmp_path / "huge.npz")
    with pytest.raises(UnsafeFile, match="the settings need"):
        PPO.load(tmp_path / "huge.npz")


# --- one observation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: PPO("CartPole-v1", PPOConfig(**SMALL, normalize_obs=True)), lambda: SAC("Pendulum-v1", SOFT),
             lambda: PPO("FrozenLake-v1", PPOConfig(**SMALL)), lambda: DQN("CartPole-v1", DEEP)],
)  # fmt: skip
def test_a_policy_takes_one_observation_or_a_batch(make):
    trainer = make()
    policy, envs = trainer.policy, trainer.collector.envs[0]
    env = gymnasium.make(trainer.collector.env_id)
    batch = np.stack([env.reset(seed=seed)[0] for seed in range(3)])
    actions = policy(batch)
    for obs, action in zip(batch, actions, strict=True):
        one = policy(obs)
        assert env.action_space.contains(one)
        np.testing.assert_allclose(one, action, rtol=1e-5)  # one row, then three
    assert envs.single_action_space.contains(policy(batch[0], deterministic=False))


def test_a_seed_may_be_an_integer_of_numpy(tmp_path):
    seed: Any = np.int64(3)
    with closing(PPO("CartPole-v1", PPOConfig(hidden=(8,)), seed=seed)) as trainer:
        assert type(trainer.seed) is int
        trainer.save(tmp_path / "a.npz")
    with closing(PPO.load(tmp_path / "a.npz")) as loaded:
        assert loaded.seed == 3
