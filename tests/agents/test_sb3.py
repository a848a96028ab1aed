"""Several agents with Stable-Baselines3: rows of dead agents are left out, and the rest is what SB3 computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer as TheirRolloutBuffer
from stable_baselines3.common.vec_env import VecEnv

import vecenv
import vecenv.sb3
from tests.agents.test_group_ppo import Pairs
from vecenv.errors import ConfigError, ConfigTypeError, UnsupportedError

STEPS = 30


def wrapped(count: int = 4) -> Any:
    return vecenv.sb3.wrap(vecenv.make(Pairs, count, engine="sync", autoreset="same-step", pad=True).flat())


def model_of(venv: Any, **kwargs: Any) -> Any:
    given = {"rollout_buffer_class": vecenv.sb3.RolloutBuffer, "rollout_buffer_kwargs": {"valid": venv.valid}}
    return PPO("MlpPolicy", venv, n_steps=STEPS, batch_size=60, n_epochs=3, seed=1, device="cpu", **{**given, **kwargs})


def weights(model: Any) -> torch.Tensor:
    return torch.cat([part.detach().flatten() for part in model.policy.parameters()])


def test_the_update_is_theirs_on_the_valid_rows_alone() -> None:
    """Their buffer, their advantages and their train(), with the rows of dead agents taken out by hand."""
    venv = wrapped()
    ours, theirs = model_of(venv), model_of(venv)
    assert isinstance(venv, VecEnv)
    _, callback = ours._setup_learn(STEPS * 12, None)
    ours.collect_rollouts(venv, callback, ours.rollout_buffer, STEPS)
    filled = ours.rollout_buffer
    whole = TheirRolloutBuffer(STEPS, venv.observation_space, venv.action_space, "cpu", 0.95, 0.99, venv.num_envs)
    for step in range(STEPS):
        value, log_prob = torch.tensor(filled.values[step]), torch.tensor(filled.log_probs[step])
        whole.add(filled.observations[step], filled.actions[step], filled.rewards[step], filled.episode_starts[step],
                  value, log_prob)  # fmt: skip
    with torch.no_grad():
        last = ours.policy.predict_values(torch.tensor(ours._last_obs))
    whole.compute_returns_and_advantage(last, ours._last_episode_starts)
    valid = filled.valid.T.reshape(-1)  # env by env, as theirs numbers steps
    assert 0 < valid.sum() < valid.size, "no agent died"
    some = TheirRolloutBuffer(int(valid.sum()), venv.observation_space, venv.action_space, "cpu", 0.95, 0.99, 1)
    for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
        column = getattr(whole, name)
        flat = column.swapaxes(0, 1).reshape(valid.size, *column.shape[2:])
        getattr(some, name)[:] = flat[valid].reshape(getattr(some, name).shape)
    some.full, some.pos = True, some.buffer_size
    assert np.allclose(filled.advantages[filled.valid], whole.advantages[filled.valid], atol=1e-6)
    theirs.rollout_buffer = some
    theirs.set_logger(ours.logger)
    for model in (ours, theirs):
        model._current_progress_remaining = 1.0
        np.random.seed(5)
        model.train()
    assert torch.equal(weights(ours), weights(theirs))


def test_rows_without_transitions_never_reach_a_minibatch() -> None:
    venv = wrapped()
    model = model_of(venv)
    seen = []
    get = model.rollout_buffer.get

    def spied(size: int | None = None) -> Any:
        for batch in get(size):
            seen.append(len(batch.observations))
            assert (batch.observations != 0).any(dim=1).all(), "the observation of a dead agent"
            yield batch

    model.rollout_buffer.get = spied
    model.learn(STEPS * 12)
    assert sum(seen) == 3 * int(model.rollout_buffer.valid.sum()) < 3 * STEPS * 12


def test_what_the_vec_env_returns_is_what_flat_rows_return() -> None:
    venv, twin = wrapped(2), vecenv.make(Pairs, 2, engine="sync", autoreset="same-step", pad=True)
    venv.seed(7)
    rows = twin.flat()
    obs = venv.reset()
    expected, _ = rows.reset(seed=[7, 10])
    assert np.array_equal(obs, expected)
    rng, totals, lengths, ends = np.random.default_rng(0), np.zeros(6), np.zeros(6, int), 0
    for _ in range(60):
        actions = rng.integers(2, size=6)
        obs, rewards, dones, infos = venv.step(actions)
        expected, reward, terminated, truncated, told = rows.step(actions)
        assert np.array_equal(obs, expected)
        assert np.array_equal(rewards, reward.astype(np.float32))
        assert np.array_equal(dones, terminated | truncated)
        assert np.array_equal(venv.valid, told["valid"])
        totals, lengths = totals + reward, lengths + told["valid"]
        for row, info in enumerate(infos):
            assert info["valid"] == told["valid"][row]
            assert info["TimeLimit.truncated"] == (truncated[row] and not terminated[row])
            assert ("terminal_observation" in info) == ("episode" in info) == dones[row]
            if dones[row]:
                assert np.array_equal(info["terminal_observation"], told["final_obs"][row])
                assert (info["episode"]["r"], info["episode"]["l"]) == (totals[row], lengths[row])
                totals[row], lengths[row], ends = 0.0, 0, ends + 1
    assert ends > 6
    assert venv.get_attr("limit") == [10] * 6
    venv.set_attr("limit", 3)
    assert venv.get_attr("limit", [0]) == [3]
    assert vecenv.sb3.unwrap(venv).num_slots == 3
    venv.close()
    twin.close()


def test_a_model_learns_and_is_saved_and_read(tmp_path: Any) -> None:
    venv = wrapped()
    model = model_of(vecenv.sb3.VecNormalize(venv), rollout_buffer_kwargs={"valid": venv.valid})
    model.learn(STEPS * 12 * 2)
    assert model.ep_info_buffer[-1]["l"] <= 10
    model.save(tmp_path / "model")
    again = PPO.load(tmp_path / "model", device="cpu")
    assert torch.equal(weights(again), weights(model))


def test_masks_are_those_of_the_agents() -> None:
    venv = vecenv.sb3.wrap(vecenv.make("ConnectFourDuel-v0", 2, autoreset="same-step").flat())
    venv.reset()
    assert venv.has_attr("action_masks")
    assert np.array(venv.env_method("action_masks")).all()
    with pytest.raises(UnsupportedError, match="act by turns"):
        venv.step(np.zeros(4, int))
    venv.close()


def test_what_cannot_be_wrapped_is_said() -> None:
    with vecenv.make(Pairs, 2, engine="sync", pad=True) as envs:
        with pytest.raises(ConfigTypeError, match=r"wrap\(envs.flat\(\)\)"):
            vecenv.sb3.wrap(envs)
        with pytest.raises(ConfigError, match="autoreset='same-step'"):
            vecenv.sb3.wrap(envs.flat())
    venv = wrapped()
    with pytest.raises(ConfigError, match="there are 12 rows"):
        model_of(venv, rollout_buffer_kwargs={"valid": np.ones(3, bool)})
    with pytest.raises(UnsupportedError, match="share its attributes"):
        venv.set_attr("limit", 3, [0])
    venv.close()
