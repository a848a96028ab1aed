"""SB3's and sb3-contrib's algorithms learn on our vector envs, bit for bit as on SB3's own."""

import gymnasium
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3.common.vec_env as theirs
import torch
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3, HerReplayBuffer
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy as their_evaluate_policy

import vecenv
import vecenv.sb3 as ours
from tests.sb3.sb3_envs import Goal, Masked

torch.set_num_threads(1)
PROCESSES = {"vec_env_cls": ours.SubprocVecEnv, "vec_env_kwargs": {"workers": 1}}


def small():
    return {"policy_kwargs": {"net_arch": [16]}, "seed": 0, "device": "cpu"}  # new each time: algorithms write into it


def compiled(env_id, count):
    return ours.wrap(vecenv.make(env_id, count, autoreset="same-step"))


def cart_poles(cls, count=4, **keywords):
    return cls([lambda: gymnasium.make("CartPole-v1")] * count, **keywords)


def weights(model):
    return {name: value.numpy() for name, value in model.policy.state_dict().items()}


def assert_same_weights(model, other):
    for name, value in weights(model).items():
        np.testing.assert_array_equal(value, weights(other)[name], err_msg=name)


OURS = {
    "dummy": lambda: cart_poles(ours.DummyVecEnv),
    "subproc": lambda: cart_poles(ours.SubprocVecEnv, workers=1),
    "compiled": lambda: compiled("CartPole-v1", 4),
    "compiled, copy=False": lambda: ours.wrap(vecenv.make("CartPole-v1", 4, autoreset="same-step", copy=False)),
}


@pytest.mark.parametrize("kind", OURS)
def test_ppo_learns_bit_for_bit_what_it_learns_on_sb3s_dummy(kind):
    keywords = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, **small()}
    venv = OURS[kind]()
    model = PPO("MlpPolicy", venv, **keywords).learn(512)
    reference = PPO("MlpPolicy", cart_poles(theirs.DummyVecEnv), **keywords).learn(512)
    assert_same_weights(model, reference)
    venv.close()


@pytest.mark.parametrize("kind", ["dummy", "compiled"])
def test_dqn_learns_bit_for_bit_what_it_learns_on_sb3s_dummy(kind):
    keywords = {"learning_starts": 50, "buffer_size": 1000, "train_freq": 2, **small()}
    model = DQN("MlpPolicy", OURS[kind](), **keywords).learn(400)
    reference = DQN("MlpPolicy", cart_poles(theirs.DummyVecEnv), **keywords).learn(400)
    assert_same_weights(model, reference)


@pytest.mark.parametrize("algorithm", [SAC, TD3])
def test_continuous_algorithms_learn_as_on_sb3s_dummy(algorithm):
    keywords = {"learning_starts": 50, "buffer_size": 1000, "train_freq": 4, **small()}
    pendulums = [lambda: gymnasium.make("Pendulum-v1")] * 2
    model = algorithm("MlpPolicy", ours.DummyVecEnv(pendulums), **keywords).learn(200)
    reference = algorithm("MlpPolicy", theirs.DummyVecEnv(pendulums), **keywords).learn(200)
    assert_same_weights(model, reference)
    algorithm("MlpPolicy", compiled("Pendulum-v1", 2), **keywords).learn(100)


def test_a2c_learns_with_our_normalisation_and_stacking():
    venv = ours.VecFrameStack(ours.VecNormalize(ours.VecMonitor(compiled("CartPole-v1", 4))), 2)
    model = A2C("MlpPolicy", venv, **small()).learn(200)
    assert model.get_vec_normalize_env() is venv.venv
    assert model.ep_info_buffer


def test_sb3s_wrappers_stack_on_ours():
    venv = theirs.VecNormalize(theirs.VecMonitor(ours.DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 2)))
    PPO("MlpPolicy", venv, n_steps=16, batch_size=16, **small()).learn(64)
    assert venv.unwrapped.envs


@pytest.mark.parametrize("kind", ["dummy", "subproc"])
def test_her_computes_rewards_in_the_envs(kind):
    venv = ours.DummyVecEnv([Goal]) if kind == "dummy" else ours.SubprocVecEnv([Goal] * 2, workers=1)
    keywords = {"replay_buffer_class": HerReplayBuffer, "learning_starts": 50, "buffer_size": 500, **small()}
    model = DQN("MultiInputPolicy", venv, **keywords).learn(150)
    sample = model.replay_buffer.sample(200)
    reached, goals = (sample.next_observations[key].numpy() for key in ("achieved_goal", "desired_goal"))
    assert len(np.unique(goals)) > 1  # some are not the env's
    np.testing.assert_array_equal(sample.rewards[:, 0].numpy(), Goal().compute_reward(reached, goals, {}))
    venv.close()


def test_eval_callback_saving_and_loading(tmp_path):
    venv, test_venv = ours.make_vec_env("CartPole-v1", 2, seed=0), ours.make_vec_env("CartPole-v1", 1, seed=1)
    model = PPO("MlpPolicy", venv, n_steps=32, batch_size=32, **small())
    callback = EvalCallback(test_venv, eval_freq=32, n_eval_episodes=2, log_path=str(tmp_path), verbose=0)
    model.learn(128, callback=callback)
    assert callback.evaluations_timesteps == [64, 128]
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", env=ours.make_vec_env("CartPole-v1", 2, **PROCESSES), device="cpu")
    assert_same_weights(loaded, model)
    loaded.learn(64)
    loaded.get_env().close()


@pytest.mark.parametrize(
    "make", [lambda: ours.make_vec_env("CartPole-v1", 3, seed=2), lambda: compiled("CartPole-v1", 3)]
)
@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped:UserWarning")
def test_evaluate_policy_is_sb3s(make):
    model = PPO("MlpPolicy", cart_poles(ours.DummyVecEnv), n_steps=16, batch_size=16, **small())
    seen = []
    results = []
    for evaluate in (ours.evaluate_policy, their_evaluate_policy):
        venv = make()
        venv.seed(0)
        results.append(
            evaluate(model, venv, 7, return_episode_rewards=True, callback=lambda here, _: seen.append(here["i"]))
        )
    assert results[0] == results[1]
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    assert ours.evaluate_policy(model, gymnasium.make("CartPole-v1"), 2)[0] > 0
    assert (
        ours.evaluate_policy(model, theirs.DummyVecEnv([lambda: ours.Monitor(gymnasium.make("CartPole-v1"))]), 2)[0] > 0
    )
    with pytest.raises(AssertionError, match="threshold"):
        ours.evaluate_policy(model, ours.make_vec_env("CartPole-v1"), 1, reward_threshold=1e6)


def test_evaluate_policy_warns_without_a_monitor():
    model = PPO("MlpPolicy", cart_poles(ours.DummyVecEnv), n_steps=16, batch_size=16, **small())
    with pytest.warns(UserWarning, match="Monitor"):
        ours.evaluate_policy(model, cart_poles(ours.DummyVecEnv, 1), 1)


# --- sb3-contrib -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dummy", "subproc", "compiled"])
def test_maskable_ppo_never_takes_a_forbidden_action(kind):
    venvs = {
        "dummy": lambda: ours.DummyVecEnv([Masked] * 3),
        "subproc": lambda: ours.SubprocVecEnv([Masked] * 3, workers=1),
        "compiled": lambda: compiled("Taxi-v3", 3),
    }
    venv = venvs[kind]()
    model = sb3_contrib.MaskablePPO("MlpPolicy", venv, n_steps=32, batch_size=32, n_epochs=1, **small()).learn(192)
    if kind != "compiled":
        reference = sb3_contrib.MaskablePPO(
            "MlpPolicy", theirs.DummyVecEnv([Masked] * 3), n_steps=32, batch_size=32, n_epochs=1, **small()
        ).learn(192)
        assert_same_weights(model, reference)
    venv.close()


@pytest.mark.slow
def test_recurrent_ppo_and_ars_learn_bit_for_bit_what_they_learn_on_sb3s_dummy():
    keywords = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "seed": 0, "device": "cpu"}
    venvs = compiled("CartPole-v1", 2), cart_poles(theirs.DummyVecEnv, 2)
    assert_same_weights(*(sb3_contrib.RecurrentPPO("MlpLstmPolicy", venv, **keywords).learn(128) for venv in venvs))
    venvs = [library.VecNormalize(cart_poles(library.DummyVecEnv, 1)) for library in (ours, theirs)]
    assert_same_weights(*(sb3_contrib.ARS("LinearPolicy", venv, n_delta=2, seed=0).learn(400) for venv in venvs))


@pytest.mark.slow
def test_ppo_solves_cart_pole_on_compiled_envs():
    venv = ours.VecMonitor(compiled("CartPole-v1", 16))
    model = PPO("MlpPolicy", venv, n_steps=64, batch_size=256, seed=0, device="cpu", learning_rate=1e-3).learn(60_000)
    assert ours.evaluate_policy(model, ours.VecMonitor(compiled("CartPole-v1", 4)), 8)[0] > 150
