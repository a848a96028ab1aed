"""`vecenv train`, `eval`, `play` and `check` with several agents per env."""

import json

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from PIL import Image

import vecenv
from vecenv.trainers import PPO, GroupPPO

SMALL = ["--set", "rollout_steps=16", "minibatch=64", "epochs=1", "hidden=[16]", "torch_threads=1"]
SPREAD = "pettingzoo:mpe2.simple_spread_v3"


def train(inside, env, name, *more, steps=400):
    out, _ = inside(
        "train", env, "--steps", steps, "--name", name, "--envs", 4, "--eval-episodes", 3, "--checkpoints", 1, "--json",
        *more, *SMALL,
    )  # fmt: skip
    return json.loads(out)


def test_a_kernel_with_agents_is_trained_evaluated_and_continued(inside, tmp_path, one_thread):
    result = train(inside, "SimpleSpread-v0", "spread")
    assert result["steps"] == 576, "three rollouts of 16 steps of 4 envs with 3 agents"
    assert result["evaluation"]["episodes"] == 3
    out, _ = inside("eval", "runs/spread", "--episodes", 4, "--json")
    found = json.loads(out)
    (file,) = (tmp_path / "runs" / "spread" / "checkpoints").iterdir()
    trainer = PPO.load(file)
    wanted = vecenv.evaluate(trainer.policy, "SimpleSpread-v0", episodes=4)
    trainer.close()
    assert [one["return"] for one in found["episodes"]] == wanted.returns.tolist()
    assert [one["length"] for one in found["episodes"]] == [25] * 4
    out, err = inside("train", "runs/spread", "--steps", 700, "--eval-episodes", 0, "--json")
    assert json.loads(out)["steps"] == 768
    assert "4 SimpleSpread-v0 with 3 agents each, 700 steps of agents" in err
    out, _ = inside("train", "runs/spread", "--steps", 800, "--eval-episodes", 2)
    assert "of all agents together over 2 new" in out
    assert "of each agent over the last" in inside("train", "runs/spread", "--steps", 1100, "--eval-episodes", 0)[0]


def test_list_has_kernels_with_agents_and_their_settings(inside):
    out, _ = inside("list", "SimpleSpread-v0")
    assert "3 x Box 18 float32" in out
    assert "3 x Discrete 5" in out
    assert "settings of `vecenv train SimpleSpread-v0`" in out
    assert "did you mean 'SimpleSpread-v0'" in inside("train", "SimpleSprea-v0", code=2)[1]


def test_agents_that_act_by_turns_are_trained_by_self_play(inside, tmp_path, one_thread):
    result = train(inside, "ConnectFourDuel-v0", "duel", "--gif", steps=300)
    assert result["steps"] == 320, "five rollouts of 16 steps of 4 learners"
    assert result["evaluation"]["episodes"] == 3
    assert result["evaluation"]["against"] == "a random player"
    assert -1.0 <= result["evaluation"]["mean"] <= 1.0
    assert json.loads((tmp_path / "runs/duel/config.json").read_text())["self_play"]
    assert (tmp_path / "runs" / "duel" / "play.gif").exists()
    out, _ = inside("eval", "runs/duel", "--episodes", 2, "--json")
    assert [one["return"] for one in json.loads(out)["episodes"]] == [0.0, 0.0], "the policy plays both"
    out, _ = inside("train", "runs/duel", "--steps", 400, "--eval-episodes", 0, "--json")
    assert json.loads(out)["steps"] == 448
    assert "leave it out" in inside("train", "ConnectFourDuel-v0", "--eval-every", 100, code=2)[1]
    assert "has one" in inside("train", "CartPole-v1", "--self-play", code=2)[1]


@pytest.mark.parametrize(
    ("env", "mask"), [("ConnectFourDuel-v0", "action_mask"), ("pettingzoo:classic.tictactoe_v3", "action_mask"),
                      ("pettingzoo:mpe2.simple_tag_v3.env", None)],
)  # fmt: skip
def test_agents_that_act_by_turns_share_a_policy_if_asked(inside, tmp_path, one_thread, env, mask):
    """Of several groups each has its own. Masks that observations have are used."""
    engine = [] if env == "ConnectFourDuel-v0" else ["--engine", "sync"]
    result = train(inside, env, "all", "--shared-policy", *engine, steps=300)
    assert result["steps"] == (512 if "tag" in env else 384), "rollouts of 16 steps of 4 envs with 4 or 2 agents"
    assert "against" not in result["evaluation"]
    about = json.loads((tmp_path / "runs/all/config.json").read_text())
    assert not about["self_play"]
    assert about["config"]["mask"] == mask
    inside("eval", "runs/all", "--episodes", 1, "--json", *engine)
    assert "leave one out" in inside("train", env, "--shared-policy", "--self-play", code=2)[1]


def test_self_play_is_for_ids_with_turns_and_its_random_player_takes_allowed_actions():
    from vecenv.cli._self_play import RandomPlayer, acts_by_turns
    from vecenv.cli._sources import find_env

    turns = {id: acts_by_turns(find_env(id)) for id in ("ConnectFourDuel-v0", "SimpleSpread-v0", "CartPole-v1")}
    assert turns == {"ConnectFourDuel-v0": True, "SimpleSpread-v0": False, "CartPole-v1": False}
    mask = np.random.default_rng(0).integers(2, size=(200, 4)) | np.eye(4, dtype=int)[np.arange(200) % 4]
    player, obs = RandomPlayer(Discrete(4), 0), np.zeros((200, 3))
    for actions in (player(obs, mask=mask), player({"action_mask": mask, "board": obs})):
        assert mask[np.arange(200), actions].all()
        assert set(actions.tolist()) == {0, 1, 2, 3}
    assert RandomPlayer(Box(-1, 1, (2,)), 0)(obs).shape == (200, 2)


def test_self_play_is_evaluated_with_the_seeds_of_an_evaluation_not_of_training(monkeypatch):
    from vecenv.agents import VersusVectorEnv
    from vecenv.cli._self_play import RandomPlayer, evaluate
    from vecenv.cli._sources import find_env
    from vecenv.evaluation._jobs import plan_jobs

    seeds, players, reset, init = [], [], VersusVectorEnv.reset, RandomPlayer.__init__

    def noted_reset(self, *, seed=None, options=None):
        seeds.append(seed)
        return reset(self, seed=seed, options=options)

    def noted_init(self, space, seed):
        players.append(seed)
        init(self, space, seed)

    learner = RandomPlayer(Discrete(7), 0)
    learner.mask_name = "action_mask"
    monkeypatch.setattr(VersusVectorEnv, "reset", noted_reset)
    monkeypatch.setattr(RandomPlayer, "__init__", noted_init)
    assert evaluate(learner, find_env("ConnectFourDuel-v0"), 3, lambda ended: None)["episodes"] == 3
    assert seeds == [plan_jobs(3, 1, None).episode_seed.tolist()]
    assert min(*seeds[0], *players) > 1_000_000, "training begins with its seed, and the next for each further env"


def test_the_evaluation_of_self_play_cuts_episodes_that_do_not_end(monkeypatch):
    from vecenv.cli._self_play import RandomPlayer, evaluate
    from vecenv.cli._sources import find_env

    allowed = []

    class Learner(RandomPlayer):
        mask_name = "action_mask"

        def __call__(self, obs, mask=None):
            allowed.append(np.asarray(mask).copy())
            return super().__call__(obs, mask)

    monkeypatch.setattr("vecenv.cli._self_play.LONGEST", 2)
    found = evaluate(Learner(Discrete(7), 0), find_env("ConnectFourDuel-v0"), 5, lambda ended: None)
    assert (found["episodes"], found["cut"], found["mean"]) == (5, 5, 0.0)
    assert len(allowed) == 2
    long = find_env("ConnectFourDuel-v0")
    monkeypatch.setattr("vecenv.cli._self_play.LONGEST", 12)
    found = evaluate(Learner(Discrete(7), 0), long, 60, lambda ended: None)
    assert 0 < found["cut"] < found["episodes"] == 60
    assert np.concatenate(allowed).any(axis=1).all(), "an empty board allows every action"


def test_play_shows_the_agents_of_a_run_and_of_an_id(inside, tmp_path, one_thread):
    train(inside, "SimpleSpread-v0", "spread", "--gif")
    assert (tmp_path / "runs" / "spread" / "play.gif").exists()
    out, _ = inside("play", "ConnectFourDuel-v0", "--out", "duel.gif", "--episodes", 2, "--seed", 3, "--json")
    played = json.loads(out)["episodes"]
    assert all(one["ended"] and one["length"] >= 7 for one in played)
    assert [one["return"] for one in played] == [0.0, 0.0], "one player wins what the other loses"
    with Image.open(tmp_path / "duel.gif") as film:
        assert film.n_frames >= 8


def test_groups_of_pettingzoo_get_a_policy_each(inside, tmp_path, one_thread):
    env = "pettingzoo:mpe2.simple_tag_v3"
    result = train(inside, env, "tag", "--engine", "sync", "--kwargs", "max_cycles=10")
    assert result["env"] == env
    (file,) = (tmp_path / "runs" / "tag" / "checkpoints").iterdir()
    with vecenv.make(env, 4, engine="sync", max_cycles=10, autoreset="same-step") as envs:
        trainer = GroupPPO.load(file, envs)
        wanted = vecenv.evaluate(trainer.policy, env, episodes=2, engine="sync", max_cycles=10)
    out, _ = inside("eval", "runs/tag", "--episodes", 2, "--engine", "sync", "--json")
    assert [one["return"] for one in json.loads(out)["episodes"]] == wanted.returns.tolist()
    _, err = inside("train", env, "--algo", "dqn", "--engine", "sync", code=2)
    assert "several groups of agents: use --algo ppo" in err


def test_files_that_name_code_are_not_imported(inside, tmp_path, one_thread):
    """PettingZoo's own envs are made from a file; any other module behind "pettingzoo:" needs --trust."""
    train(inside, SPREAD, "own", "--engine", "sync", steps=100)
    path = tmp_path / "runs" / "own" / "config.json"
    inside("eval", "runs/own", "--episodes", 1, "--engine", "sync", "--json")
    path.write_text(path.read_text().replace(SPREAD, "pettingzoo:antigravity"))
    _, err = inside("eval", "runs/own", "--episodes", 1, code=2)
    assert "pettingzoo:antigravity" in err
    assert "--trust" in err


@pytest.mark.parametrize("env", [SPREAD, "pettingzoo:classic.tictactoe_v3", "ConnectFourDuel-v0"])
def test_check_of_envs_with_agents(inside, env):
    out, _ = inside("check", env, "--steps", 40, "--json")
    found = {one["check"]: one for one in json.loads(out)["checks"]}
    assert {"builds", "spaces", "values", "determinism", "api", "pickling", "engines", "speed"} <= set(found)
    assert "agents" in found["builds"]["message"]
    assert "api_test passes" in found["api"]["message"]
    assert all(one["result"] == "ok" for one in found.values()), found
    assert ("kernel" in found) == (":" not in env)


def test_check_finds_what_is_wrong_with_an_agent(inside):
    out, _ = inside("check", "tests.cli.cli_agents:Astray", "--steps", 20, "--json", code=1)
    found = {one["check"]: one for one in json.loads(out)["checks"]}
    assert found["values"]["result"] == "failed"
    assert "agent 'b'" in found["values"]["message"]
    assert "step 3" in found["values"]["message"]
    out, _ = inside("check", "tests.cli.cli_agents:Forgetful", "--steps", 20, "--json", code=1)
    found = {one["check"]: one for one in json.loads(out)["checks"]}
    assert found["determinism"]["result"] == "failed"


def test_names_that_do_not_exist(inside):
    assert "did you mean 'simple_spread_v3'" in inside("check", "pettingzoo:mpe2.simple_spred_v3", code=2)[1]
    assert "is no PettingZoo env" in inside("train", "pettingzoo:json", code=2)[1]


def test_random_agents_take_allowed_actions():
    from vecenv.cli._agents import sample_all

    with vecenv.make("ConnectFourDuel-v0", 3, autoreset="same-step") as envs:
        obs, infos = envs.reset(seed=0)
        for _ in range(100):
            masks = infos["action_mask"]
            actions = sample_all(envs, obs, infos)
            rows, slots = np.nonzero(envs.acts)
            assert masks[rows, slots, np.asarray(actions)[rows, slots]].all()
            obs, *_, infos = envs.step(actions)
