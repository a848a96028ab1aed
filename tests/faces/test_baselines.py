"""`vecenv.baselines` gives what Baselines' VecEnv gave; the oracle is Gymnasium's SyncVectorEnv in SAME_STEP mode."""

import inspect
import os
import pickle

import gymnasium
import numpy as np
import pytest

from tests.faces.face_envs import Breaks, Walk, cart_poles, oracle, row_of, same, walks
from vecenv.baselines import (
    AlreadySteppingError,
    CloudpickleWrapper,
    DummyVecEnv,
    NotSteppingError,
    ShmemVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecEnvObservationWrapper,
    VecEnvWrapper,
    clear_mpi_env_vars,
    tile_images,
)
from vecenv.errors import ClosedError, ConfigError, SpaceError, UnsupportedError

STEPS = 60
BUILDS = {
    "dummy": DummyVecEnv,
    "subproc": lambda env_fns: SubprocVecEnv(env_fns, context="fork"),
    "in_series": lambda env_fns: SubprocVecEnv(env_fns, context="fork", in_series=len(env_fns)),
    "shmem": lambda env_fns: ShmemVecEnv(env_fns, context="fork"),
}


def seeded_cart_poles(count):
    def build(fn, row):
        env = fn()
        env.reset(seed=row)
        return env

    return [lambda fn=fn, row=row: build(fn, row) for row, fn in enumerate(cart_poles(count))]


@pytest.fixture(params=list(BUILDS))
def build(request):
    """Builds vector envs that are closed after the test."""
    built = []

    def build(env_fns):
        built.append(BUILDS[request.param](env_fns))
        return built[-1]

    yield build
    for venv in built:
        venv.close()


@pytest.fixture(params=[seeded_cart_poles, walks], ids=["cart_poles", "walks"])
def env_fns(request):
    return request.param(4)


def histories(venv, env_fns):
    """Pairs of (our step, the oracle's step) with the same actions; the envs seed themselves."""
    theirs = oracle(env_fns)
    theirs.action_space.seed(7)
    first, _ = theirs.reset()
    assert same(venv.reset(), first)
    actions = [theirs.action_space.sample() for _ in range(STEPS)]
    pairs = [(venv.step(action), theirs.step(action)) for action in actions]
    theirs.close()
    assert any((step[2] | step[3]).any() for _, step in pairs)
    return pairs


def test_steps_are_bit_equal_to_gymnasiums_same_step_with_float32_rewards(build, env_fns):
    for (obs, rewards, dones, _), theirs in histories(build(env_fns), env_fns):
        assert same(obs, theirs[0])
        assert same(rewards, theirs[1].astype(np.float32))
        assert same(dones, theirs[2] | theirs[3])


def test_infos_of_ended_episodes_have_the_terminal_observation_and_tell_truncation(build, env_fns):
    for (obs, _, dones, infos), theirs in histories(build(env_fns), env_fns):
        for row, info in enumerate(infos):
            assert ("terminal_observation" in info) == ("TimeLimit.truncated" in info) == dones[row]
            if dones[row]:
                assert same(info["terminal_observation"], theirs[4]["final_obs"][row])
                assert not same(info["terminal_observation"], row_of(obs, row))
                assert info["TimeLimit.truncated"] is bool(theirs[3][row] and not theirs[2][row])


def test_infos_are_what_the_env_said_on_the_transition_never_on_its_reset(build):
    for (_, _, dones, infos), theirs in histories(build(walks(4)), walks(4)):
        for row, info in enumerate(infos):
            said = theirs[4]["final_info"] if dones[row] else theirs[4]
            assert info["clock"] == said["clock"][row]
            assert info["nested"] == {"odd": said["nested"]["odd"][row]}
            assert same(info["track"], said["track"][row])
            assert "limit" not in info


def test_infos_are_fresh_dicts(build):
    venv = build(cart_poles(2))
    venv.reset()
    infos = venv.step([0, 1])[3]
    infos[0]["mine"] = 1
    assert infos[1] == {}
    assert all(info == {} for info in venv.step([0, 1])[3])


def test_spaces_are_those_of_a_single_env(build):
    venv = build(walks(2))
    assert isinstance(venv, VecEnv)
    assert venv.num_envs == 2
    assert venv.observation_space == Walk.observation_space
    assert venv.action_space == Walk.action_space
    assert venv.unwrapped is venv


def test_step_async_while_stepping_is_an_error_that_loses_nothing(build):
    venv = build(walks(2))
    venv.reset()
    venv.step_async([0, 0])
    with pytest.raises(AlreadySteppingError):
        venv.step_async([0, 0])
    assert [info["clock"] for info in venv.step_wait()[3]] == [1, 1]


def test_step_wait_without_step_async_is_an_error(build):
    venv = build(walks(2))
    with pytest.raises(NotSteppingError):
        venv.step_wait()
    venv.reset()
    venv.step([0, 0])
    with pytest.raises(NotSteppingError):
        venv.step_wait()


def test_reset_while_stepping_consumes_the_step(build):
    venv = build(walks(2))
    venv.reset()
    venv.step_async([0, 0])
    assert same(venv.reset()["clock"], np.array([0, 0]))
    with pytest.raises(NotSteppingError):
        venv.step_wait()
    assert [info["clock"] for info in venv.step([0, 0])[3]] == [1, 1]


def test_a_failed_env_is_named_and_reset_goes_on(build):
    venv = build([Walk, Breaks])
    venv.reset()
    venv.step([1, 1])
    with pytest.raises(ZeroDivisionError) as caught:
        venv.step([1, 1])
    assert caught.value.row == 1
    venv.reset()
    assert len(venv.step([1, 1])) == 4


def test_closing_twice_is_fine_and_later_calls_are_refused(build):
    venv = build(walks(2))
    venv.reset()
    venv.step_async([0, 0])
    venv.close()
    venv.close()
    assert venv.closed
    for call in (venv.step_wait, venv.reset, lambda: venv.step_async([0, 0])):
        with pytest.raises(ClosedError):
            call()


def test_images_are_one_per_env_and_render_tiles_them(build):
    venv = build([lambda: Walk(render_mode="rgb_array")] * 3)
    venv.reset()
    assert [image.shape for image in venv.get_images()] == [(2, 3, 3)] * 3
    assert same(venv.render("rgb_array"), tile_images(venv.get_images()))


def test_render_for_humans_uses_the_viewer_and_says_so_if_there_is_none(build):
    class Viewer:
        isopen, shown = True, None

        def imshow(self, image):
            self.shown = image

        def close(self):
            self.isopen = False

    venv = build([lambda: Walk(render_mode="rgb_array")])
    venv.reset()
    with pytest.raises(UnsupportedError, match="viewer"):
        venv.render()
    venv.viewer = viewer = Viewer()
    assert venv.render() is True
    assert viewer.shown.shape == (2, 3, 3)
    venv.close()
    assert not viewer.isopen


def test_a_dummy_with_one_env_takes_its_bare_action():
    venv = DummyVecEnv(walks(1))
    venv.reset()
    for action in (1, np.int64(1), [1], np.array([1])):
        assert venv.step(action)[1].shape == (1,)
    two = DummyVecEnv(walks(2))
    two.reset()
    with pytest.raises(SpaceError):
        two.step(1)


def test_a_dummy_with_one_env_takes_a_bare_vector_as_its_action():
    venv = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])
    venv.reset()
    assert same(venv.step(np.zeros(1, np.float32))[2], np.array([False]))
    assert same(venv.step(np.zeros((1, 1), np.float32))[2], np.array([False]))


def test_a_dummy_shows_its_envs():
    assert [env.name for env in DummyVecEnv(walks(2)).envs] == ["walk 0", "walk 1"]


class Located(Walk):
    """Says in which process it lives."""

    def step(self, action):
        obs, reward, _, _, _ = super().step(action)
        return obs, reward, False, False, {"pid": os.getpid()}


@pytest.mark.parametrize(("in_series", "processes"), [(1, 4), (2, 2), (4, 1)])
def test_in_series_envs_share_a_process(in_series, processes):
    venv = SubprocVecEnv([Located] * 4, context="fork", in_series=in_series)
    venv.reset()
    pids = [info["pid"] for info in venv.step([0] * 4)[3]]
    venv.close()
    assert len(set(pids)) == processes
    assert pids == [pid for pid in dict.fromkeys(pids) for _ in range(in_series)]


@pytest.mark.parametrize("in_series", [0, 3])
def test_in_series_must_divide_the_number_of_envs(in_series):
    with pytest.raises(ConfigError, match="in_series"):
        SubprocVecEnv([Located] * 4, context="fork", in_series=in_series)


def test_positional_order_and_defaults_are_those_of_baselines():
    def defaults(cls):
        parameters = inspect.signature(cls).parameters.items()
        return {name: parameter.default for name, parameter in parameters if parameter.kind != parameter.KEYWORD_ONLY}

    required = inspect.Parameter.empty
    common = {"env_fns": required, "spaces": None, "context": "spawn"}
    assert list(defaults(SubprocVecEnv).items()) == list({**common, "in_series": 1}.items())
    assert list(defaults(ShmemVecEnv).items()) == list(common.items())
    assert list(defaults(DummyVecEnv)) == ["env_fns"]
    assert list(defaults(VecEnv)) == ["num_envs", "observation_space", "action_space"]


def test_spawned_processes_take_lambdas():
    venv = SubprocVecEnv([lambda: gymnasium.make("CartPole-v1")] * 2, in_series=2)
    assert venv.reset().shape == (2, 4)
    venv.close()


@pytest.mark.parametrize("cls", [SubprocVecEnv, ShmemVecEnv])
def test_given_spaces_must_be_those_of_the_envs(cls):
    cls(walks(2), (Walk.observation_space, Walk.action_space), "fork").close()
    with pytest.raises(SpaceError, match="action_space"):
        cls(walks(2), (Walk.observation_space, gymnasium.spaces.Discrete(9)), "fork")


class Clocks(VecEnvObservationWrapper):
    def process(self, obs):
        return obs["clock"]


def test_an_observation_wrapper_processes_resets_and_steps_and_leaves_the_rest():
    venv = Clocks(DummyVecEnv(walks(2)), observation_space=gymnasium.spaces.Discrete(100))
    assert venv.observation_space == gymnasium.spaces.Discrete(100)
    assert venv.action_space == Walk.action_space
    assert same(venv.reset(), np.array([0, 0]))
    obs, rewards, dones, infos = venv.step([0, 0])
    assert same(obs, np.array([1, 1]))
    assert rewards.shape == dones.shape == (2,)
    assert len(infos) == 2


def test_a_wrapper_forwards_public_names_only():
    inner = DummyVecEnv(walks(2))
    venv = Clocks(Clocks(inner))
    assert venv.envs is inner.envs
    assert venv.unwrapped is inner
    with pytest.raises(AttributeError, match="_front"):
        venv._front
    with pytest.raises(AttributeError, match="missing"):
        venv.missing
    venv.close()
    assert inner.closed
    assert venv.closed


def test_abstract_classes_cannot_be_built():
    for cls, arguments in ((VecEnv, (1, Walk.observation_space, Walk.action_space)), (VecEnvWrapper, (None,))):
        with pytest.raises(TypeError, match="abstract"):
            cls(*arguments)


@pytest.mark.parametrize("error", [AlreadySteppingError, NotSteppingError])
def test_errors_need_no_arguments_and_survive_pickling(error):
    again = pickle.loads(pickle.dumps(error()))
    assert type(again) is error
    assert str(again) == str(error())


def test_cloudpickle_wrapper_carries_lambdas():
    assert pickle.loads(pickle.dumps(CloudpickleWrapper(lambda: 5))).x() == 5


def test_mpi_variables_are_hidden_and_come_back(monkeypatch):
    monkeypatch.setenv("OMPI_RANK", "1")
    with clear_mpi_env_vars():
        assert "OMPI_RANK" not in os.environ
    assert os.environ["OMPI_RANK"] == "1"


@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 1, 1), (2, 2, 1), (3, 2, 2), (5, 3, 2), (9, 3, 3)])
def test_tiles_are_laid_row_by_row_and_empty_places_are_black(count, rows, columns):
    images = [np.full((2, 3, 1), number + 1, np.uint8) for number in range(count)]
    tiled = tile_images(images)
    assert tiled.shape == (rows * 2, columns * 3, 1)
    for place in range(rows * columns):
        row, column = divmod(place, columns)
        tile = tiled[row * 2 : row * 2 + 2, column * 3 : column * 3 + 3]
        assert (tile == (place + 1 if place < count else 0)).all()
