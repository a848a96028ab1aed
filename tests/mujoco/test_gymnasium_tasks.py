"""Gymnasium's tasks: the same bits as Gymnasium's own envs, in every autoreset mode and with every option."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import vecenv
from tests.mujoco.comparing import IDS, OPTIONS, compare, gymnasiums, play, same
from tests.sampling import quick

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")  # Gymnasium's, of v4
MODES = list(AutoresetMode)
QUICK = ("Ant-v5", "HalfCheetah-v5", "Hopper-v5", "InvertedPendulum-v5", "Reacher-v5")
"""Of every kind of task one; the others are compiled only in `make test-all`."""
CASES = [(id, options) for id in IDS for options in [{}, *OPTIONS[id]]]
NAMES = [f"{id}-{number}" for id in IDS for number in range(1 + len(OPTIONS[id]))]


@pytest.mark.timeout(180)  # the first run compiles
@pytest.mark.parametrize("id", quick(IDS, *QUICK))
def test_bits(id: str) -> None:
    """Observations, rewards, flags and infos, over episodes of 30 steps."""
    for mode in MODES:
        ended = compare(id, count=3, steps=70, mode=mode, seed=5, max_episode_steps=30)
        assert ended >= 6


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("id", "options"),
    [
        pytest.param(id, options, marks=() if id == "Hopper-v5" else pytest.mark.slow)
        for id in IDS
        for options in OPTIONS[id]
    ],
)
def test_options(id: str, options: dict) -> None:
    compare(id, count=2, steps=40, seed=3, max_episode_steps=25, **options)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("id", "options"), CASES, ids=NAMES)
def test_bits_for_long(id: str, options: dict) -> None:
    """Eight seeds, a thousand steps, several episodes each."""
    for mode in MODES if not options else [AutoresetMode.SAME_STEP]:
        assert compare(id, count=8, steps=1000, mode=mode, seed=1, max_episode_steps=300, **options) >= 16


@pytest.mark.timeout(180)
def test_options_may_differ_per_env() -> None:
    weights = [0.1, 0.2, 0.4]
    rows = [{"ctrl_cost_weight": weight, "reset_noise_scale": weight} for weight in weights]
    ours = vecenv.make("HalfCheetah-v5", 3, ctrl_cost_weight=np.array(weights), reset_noise_scale=np.array(weights))
    assert ours.engine.name == "mujoco"
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda row=row: gymnasium.make("HalfCheetah-v5", **row) for row in rows], observation_mode="same"
    )
    with ours:
        play(ours, theirs, 20, 0, AutoresetMode.NEXT_STEP)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "given",
    [
        {"ctrl_cost_weight": np.array([0.1, 0.3])},
        {"ctrl_cost_weight": np.float64(0.3)},
        {"env_kwargs": [{"ctrl_cost_weight": np.float64(0.1)}, {"ctrl_cost_weight": np.array(0.3)}]},
    ],
)
def test_numbers_of_numpy_are_plain_numbers(given: dict) -> None:
    """Gymnasium would compute with np.float64(0.1) in another precision than with 0.1; engines do not differ."""
    with (
        vecenv.make("HalfCheetah-v5", 2, engine="mujoco", **given) as ours,
        vecenv.make("HalfCheetah-v5", 2, engine="sync", **given) as python,
    ):
        play(ours, python, 20, 0, AutoresetMode.NEXT_STEP)


@pytest.mark.timeout(180)
def test_envs_with_different_models_are_gymnasiums() -> None:
    looks = [{"default_camera_config": {"lookat": np.zeros(3)}}, {"default_camera_config": {"lookat": np.ones(3)}}]
    for each in ([{"frame_skip": 1}, {"frame_skip": 2}], looks):
        with vecenv.make("Swimmer-v5", 2, env_kwargs=each) as envs:
            assert envs.engine.name in ("sync", "process")
            assert "share xml_file, frame_skip and the camera" in envs.engine_reason
            envs.reset(seed=0)
        with pytest.raises(vecenv.errors.EngineRefused, match="share xml_file, frame_skip and the camera"):
            vecenv.make("Swimmer-v5", 2, env_kwargs=each, engine="mujoco")
    with vecenv.make("Swimmer-v5", 2, env_kwargs=[looks[0], {**looks[0]}]) as envs:
        assert envs.engine.name == "mujoco"


@pytest.mark.timeout(180)
def test_custom_model(tmp_path) -> None:
    """`xml_file`: another body, other sizes."""
    from vecenv.mujoco._kernel import ASSETS

    changed = (ASSETS / "hopper.xml").read_text().replace('damping="1"', 'damping="2"')
    assert 'damping="2"' in changed
    file = tmp_path / "hopper.xml"
    file.write_text(changed)
    compare("Hopper-v5", count=2, steps=30, xml_file=str(file))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_thread_count_changes_nothing(workers: int) -> None:
    def run(workers: int) -> list:
        with vecenv.make("Hopper-v5", 7, workers=workers, autoreset="same-step", max_episode_steps=9) as envs:
            envs.action_space.seed(0)
            seen = [envs.reset(seed=1)]
            for step in range(30):
                actions = envs.action_space.sample()
                seen.append(envs.step(actions[::2], [6, 4, 2, 0]) if step % 3 == 0 else envs.step(actions))
            return seen

    for wanted, got in zip(run(1), run(workers), strict=True):
        same(wanted, got, f"{workers} threads")


def test_time_limit_and_none() -> None:
    with vecenv.make("Swimmer-v5", 2, max_episode_steps=-1) as envs:
        assert envs.engine.max_episode_steps is None
    with vecenv.make("Swimmer-v5", 2) as envs:
        assert envs.engine.max_episode_steps == gymnasium.spec("Swimmer-v5").max_episode_steps


def test_facts() -> None:
    theirs = gymnasiums("Swimmer-v5", 2, AutoresetMode.NEXT_STEP)
    with vecenv.make("Swimmer-v5", 2) as envs:
        assert envs.engine_reason.startswith("Swimmer-v5 is a MuJoCo task")
        assert envs.observation_space == theirs.observation_space
        assert envs.action_space == theirs.action_space
        assert envs.metadata["render_fps"] == theirs.envs[0].metadata["render_fps"]
    theirs.close()


def test_a_registered_spec_is_its_id_and_a_changed_one_is_not() -> None:
    spec = gymnasium.spec("Hopper-v5")
    with vecenv.make(spec, 2) as envs:
        assert envs.engine.name == "mujoco"
    changed = copy.deepcopy(spec)
    changed.max_episode_steps = 7
    with vecenv.make(changed, 1) as envs:
        assert envs.engine.name == "sync"


def test_older_tasks_take_no_more_arguments_than_gymnasiums() -> None:
    for engine in ("mujoco", "sync"):
        with pytest.raises((TypeError, vecenv.errors.EnvError), match="xml_file"):
            vecenv.make("Swimmer-v4", 1, engine=engine, xml_file="swimmer.xml")
