"""Exported policies: files that other programs run choose the same actions as the policy."""

import importlib.util
import logging
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

import vecenv
from tests.trainers.test_trainers import SMALL, SOFT, Bandit
from vecenv.errors import ConfigError, MissingExtra
from vecenv.trainers import DQN, PPO, SAC, DQNConfig, PPOConfig

NESTED = spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "n": spaces.Discrete(3)})
IMAGE = spaces.Box(0, 255, (12, 12, 2), np.uint8)


def of_bandit(observation, action, **changes):
    envs = vecenv.make(lambda: Bandit(observation, action), 2, engine="sync", autoreset="same-step")
    return PPO(envs, PPOConfig(**{**SMALL, "image_features": 8, **changes}), seed=0).learn(64)


def of_large_numbers():
    """Observations that would be equal as float32."""
    trainer = of_bandit(spaces.Box(1e6, 1e6 + 1, (3,), np.float64), spaces.Box(-1, 1, (2,)), normalize_obs=True)
    moments = trainer.collector.normalize.moments[""]
    moments.mean, moments.var = np.full(3, 1e6 + 0.5), np.full(3, 1e-3)
    return trainer


CASES = {
    "normalized": lambda: PPO("CartPole-v1", PPOConfig(**SMALL, normalize_obs=True), seed=0).learn(256),
    "nested": lambda: of_bandit(NESTED, spaces.MultiDiscrete([2, 3], start=[1, 1])),
    "float64": lambda: of_bandit(spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float64)}), spaces.Box(-1, 1, (2,))),
    "normalized float64": of_large_numbers,
    "normalized number": lambda: of_bandit(spaces.Box(-1, 1, ()), spaces.Discrete(2), normalize_obs=True),
    "choices": lambda: of_bandit(spaces.Discrete(5, start=2), spaces.Discrete(3)),
    "image": lambda: of_bandit(IMAGE, spaces.Box(-0.01, 0.01, (2, 1))),
    "lstm": lambda: of_bandit(NESTED, spaces.Discrete(3, start=-1), lstm=4),
    "masks": lambda: PPO("Taxi-v3", PPOConfig(**SMALL, mask="action_mask"), seed=0).learn(64),
    "sac": lambda: SAC("Pendulum-v1", SOFT, seed=0).learn(40),
    "dqn": lambda: DQN("CartPole-v1", DQNConfig(hidden=(16,), warmup=20, capacity=200, dueling=True), seed=0).learn(60),
}


def runner(path):
    """A function from named arrays to outputs, by the file alone."""
    if path.suffix == ".pt":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch prefers its newer format
            module = torch.jit.load(path)
        return lambda arrays: [part.numpy() for part in module(*map(torch.from_numpy, arrays.values()))]
    import onnxruntime

    session = onnxruntime.InferenceSession(path.read_bytes())
    return lambda arrays: session.run(None, arrays)


@pytest.mark.timeout(240)  # importing what writes ONNX takes seconds
@pytest.mark.parametrize("suffix", ["pt", "onnx"])
@pytest.mark.parametrize("case", CASES)
def test_the_file_acts_as_the_policy(case, suffix, tmp_path, caplog):
    trainer = CASES[case]()
    policy, path = trainer.policy, tmp_path / f"policy.{suffix}"
    policy.export(path)
    trainer.close()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    run, space = runner(path), trainer.collector.envs[0].single_observation_space
    space.seed(0)
    generator, memory = np.random.default_rng(0), [np.zeros((5, 4), np.float32)] * 2
    for time in range(3):
        several = [space.sample() for _ in range(5)]
        if isinstance(space, spaces.Dict):
            obs = {key: np.stack([one[key] for one in several]) for key in space}
            inputs = {f"obs.{key}": part for key, part in obs.items()}
        else:
            obs = np.stack(several)
            inputs = {"obs": obs}
        mask = None
        if policy.mask_name:
            inputs["mask"] = mask = generator.random((5, 6)) < 0.5
            mask[:, 0] = True
        if policy.recurrent:
            began = np.array([time == 0, True, False, False, False])
            inputs |= {"memory_0": memory[0], "memory_1": memory[1], "began": began}
            policy.reset(began)
        actions, *memory = run(inputs)
        expected = policy(obs, mask=mask)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(actions, expected, rtol=1e-4, atol=1e-5)  # sums in another order
        else:
            np.testing.assert_array_equal(actions, expected)


def test_other_names_and_missing_packages_are_refused(tmp_path, monkeypatch):
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL), seed=0)
    with pytest.raises(ConfigError, match=r"must end with .onnx, or .pt"):
        trainer.policy.export(tmp_path / "policy.h5")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnx" else find(name))
    with pytest.raises(MissingExtra, match="ONNX files need onnx"):
        trainer.policy.export(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
