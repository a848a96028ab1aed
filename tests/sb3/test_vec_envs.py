"""DummyVecEnv and SubprocVecEnv next to SB3's own."""

import functools
import os
import signal
import subprocess
import sys
import threading

import gymnasium
import numpy as np
import pytest
import stable_baselines3.common.vec_env as theirs
from stable_baselines3.common.monitor import Monitor as TheirMonitor

import vecenv.sb3 as ours
from tests.faults.faulty import until
from tests.sb3.sb3_envs import ACTIONS, OBSERVATIONS, Anything, Masked, SameArray, same
from tests.sharing import INFO, SharingEnv
from vecenv.errors import ClosedError, EnvError, InvalidAction, NotResetError, SpaceError
from vecenv.testing import FaultEnv

OURS = {"Dummy": ours.DummyVecEnv, "Subproc": functools.partial(ours.SubprocVecEnv, workers=1)}
"""One worker, because starting them is what takes time here."""


def functions(count, *arguments, **keywords):
    return [lambda: Anything(*arguments, **keywords) for _ in range(count)]


@pytest.fixture(params=OURS)
def cls(request):
    """Each of our two classes."""
    return OURS[request.param]


def plain(infos):
    """Infos whose single observations are comparable: a Discrete one may be an int or one of NumPy's."""
    for info in infos:
        final = info.get("terminal_observation")
        if isinstance(final, np.integer):
            info["terminal_observation"] = int(final)
        elif isinstance(final, dict):
            info["terminal_observation"] = {
                key: int(value) if isinstance(value, np.integer) else value for key, value in final.items()
            }
    return infos


CASES = [(observation, "discrete") for observation in OBSERVATIONS] + [("box", action) for action in ACTIONS]


@pytest.mark.parametrize(("observation", "action"), CASES)
def test_everything_is_as_in_sb3(cls, observation, action):
    mine = cls(functions(3, observation, action))
    reference = theirs.DummyVecEnv(functions(3, observation, action))
    try:
        assert mine.observation_space == reference.observation_space
        assert mine.action_space == reference.action_space
        assert mine.seed(5) == reference.seed(5)
        mine.set_options({"x": 1})
        reference.set_options({"x": 1})
        same(mine.reset(), reference.reset())
        same(mine.reset_infos, reference.reset_infos)
        space = reference.action_space
        space.seed(0)
        for _ in range(200):
            actions = np.array([space.sample() for _ in range(3)])
            mine_step, their_step = mine.step(actions), reference.step(actions)
            same(mine_step[:3], their_step[:3])
            same(plain(mine_step[3]), plain(their_step[3]))
            same(mine.reset_infos, reference.reset_infos)
    finally:
        mine.close()


def test_results_are_new_writable_arrays_that_stay(cls):
    venv = cls(functions(2, "dict"))
    kept = [venv.reset()["b"]]
    copies = [kept[0].copy()]
    infos = []
    for _ in range(30):
        obs, rewards, dones, step_infos = venv.step(np.zeros(2, np.int64))
        assert obs["b"].flags.writeable
        assert rewards.flags.writeable
        assert dones.flags.writeable
        assert rewards.dtype == np.float32
        assert type(step_infos) is list
        kept += [obs["b"], rewards, dones]
        copies += [obs["b"].copy(), rewards.copy(), dones.copy()]
        infos += step_infos
        rewards[0] += 0  # must not matter to anyone
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert len({id(info) for info in infos}) == len(infos)
    venv.close()


def test_an_env_that_reuses_its_arrays_and_infos_is_no_trouble(cls):
    venv = cls([SameArray, SameArray])
    first = venv.reset()
    steps = [venv.step(np.zeros(2, np.int64)) for _ in range(4)]
    np.testing.assert_array_equal(first, 0)
    assert [obs[0, 0] for obs, *_ in steps] == [1, 2, 0, 1]
    np.testing.assert_array_equal(steps[2][3][0]["terminal_observation"], [3, 3])
    assert [infos[1]["nested"]["steps"] for *_, infos in steps] == [1, 2, 3, 1]
    assert steps[0][1].dtype == np.float32, "rewards are floats, also those of an env that returns ints"
    venv.close()


@pytest.mark.parametrize("form", ["array", "view", "row", "dict", "one dict", "ordered", "tuple"])
def test_envs_that_share_one_array_are_rows_of_their_own_as_in_sb3(cls, form):
    makers = [functools.partial(SharingEnv, row, form) for row in range(4)]
    actions = [np.full(4, number) for number in range(6)]
    reference, mine = theirs.DummyVecEnv(makers), cls(makers)
    expected = [reference.reset(), *(reference.step(action)[0] for action in actions)]
    INFO.clear()  # SB3 keeps the dict of the envs, and adds to it
    found = [mine.reset()]
    for action in actions:
        obs, _, dones, infos = mine.step(action)
        found.append(obs)
        for row in np.flatnonzero(dones):
            final = infos[row]["terminal_observation"]
            first = next(iter(final.values())) if isinstance(final, dict) else final[0] if form == "tuple" else final
            assert np.ravel(first)[:4].tolist() == [row, infos[row]["state"][1], 2 + row, action[row]]
    for ours_, theirs_ in zip(found, expected, strict=True):
        same(ours_, theirs_)
    mine.close()


def test_single_envs_are_reached_by_any_index(cls):
    venv = cls(functions(3))
    venv.reset()
    assert venv.env_method("double", 4) == [8, 8, 8]
    assert venv.env_method("double", number=4, indices=-1) == [8]
    venv.set_attr("flavour", "sour", indices=[0, 2])
    assert venv.get_attr("flavour", indices=(2, 0)) == ["sour", "sour"]
    assert not venv.has_attr("flavour")
    venv.set_attr("flavour", "sweet", indices=np.int64(1))
    assert venv.has_attr("flavour")
    assert venv.get_attr("flavour") == ["sour", "sweet", "sour"]
    assert venv.get_attr("steps", indices=range(2)) == [0, 0]
    with pytest.raises(AttributeError):
        venv.get_attr("missing")
    with pytest.raises(IndexError):
        venv.get_attr("steps", indices=3)
    assert venv.step(np.zeros(3, np.int64))[0].shape == (3, 3), "it lives on after the errors"
    venv.close()


def test_set_attr_is_for_the_outermost_wrapper_and_set_wrapper_attr_for_the_owner(cls):
    venv = cls([lambda: gymnasium.wrappers.TimeLimit(Anything(), 5)])
    venv.set_attr("given", "outside")
    assert venv.env_method("get_wrapper_attr", "given") == ["outside"]
    assert venv.env_method("set_wrapper_attr", "steps", 9) == [True]
    assert venv.get_attr("steps") == [9]
    venv.close()


def test_wrappers_are_found_and_both_monitors_are_one(cls):
    venv = cls([lambda: ours.Monitor(Anything()), Anything, Anything])
    assert venv.env_is_wrapped(ours.Monitor) == [True, False, False]
    assert venv.env_is_wrapped(TheirMonitor, indices=[2, 0]) == [False, True]
    assert venv.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [False] * 3
    venv.close()


def test_their_monitor_is_found_as_ours():
    assert ours.DummyVecEnv([lambda: TheirMonitor(Anything())]).env_is_wrapped(ours.Monitor) == [True]


def test_seeds_are_used_once(cls):
    venv = cls(functions(2))
    venv.seed(3)
    first, second = venv.reset(), venv.reset()
    assert not np.array_equal(first, second)
    assert venv.seed(3) == [3, 4]
    np.testing.assert_array_equal(venv.reset(), first)
    np.random.seed(0)
    drawn = venv.seed(None)
    np.random.seed(0)
    assert venv.seed() == drawn
    venv.close()


def test_options_may_differ_and_are_used_once(cls):
    venv = cls(functions(2))
    venv.set_options([{"level": 1}, {}])
    venv.reset()
    assert [info["options"] for info in venv.reset_infos] == [{"level": 1}, None]
    venv.reset()
    assert [info["options"] for info in venv.reset_infos] == [None, None]
    venv.close()


def test_images_are_tiled(cls):
    venv = cls(functions(3, render_mode="rgb_array"))
    venv.reset()
    venv.step(np.zeros(3, np.int64))
    assert [image.shape for image in venv.get_images()] == [(4, 5, 3)] * 3
    picture = venv.render()
    assert picture.shape == (8, 10, 3)
    assert (picture[4:, 5:] == 0).all()
    with pytest.warns(UserWarning, match="render mode"):
        assert venv.render("ansi") is None
    assert venv.metadata["render_fps"] == 7
    venv.close()


def test_without_a_render_mode_there_is_a_warning(cls):
    venv = cls(functions(1))
    with pytest.warns(UserWarning, match="render_mode"):
        assert venv.render() is None
    with pytest.warns(UserWarning, match="rgb_array") as warned:
        assert venv.get_images() == [None]
    assert warned[0].filename == __file__
    venv.close()


def test_nested_spaces_are_refused(cls):
    class Nested(Anything):
        def __init__(self):
            super().__init__()
            self.observation_space = gymnasium.spaces.Dict({"a": OBSERVATIONS["dict"]})

    with pytest.raises(NotImplementedError, match="Nested"):
        cls([Nested])


def test_one_env_twice_is_refused(cls):
    env = Anything()
    with pytest.raises(ValueError, match="same instance"):
        cls([lambda: env, lambda: env])


def test_closing_twice_is_fine(cls):
    venv = cls(functions(2))
    venv.close()
    venv.close()


def test_masks_are_those_of_the_envs(cls):
    venv = cls([Masked] * 3)
    venv.seed(0)
    venv.reset()
    assert venv.has_attr("action_masks")
    for _ in range(40):
        masks = np.stack(venv.env_method("action_masks"))
        assert masks.dtype == np.bool_
        assert (masks.sum(axis=1) == 1).all()
        obs, *_ = venv.step(masks.argmax(axis=1))
        assert obs.shape == (3, 4)
    assert np.array_equal(venv.env_method("action_masks", indices=[2])[0], venv.env_method("action_masks")[2])
    assert venv.observation_space == Masked.observation_space
    venv.close()


# --- DummyVecEnv -----------------------------------------------------------------------------------------------------


def test_dummy_checks_nothing():
    venv = ours.DummyVecEnv(functions(1, action="box"))
    venv.envs[0].reset()
    assert venv.step([[0.0, 0.0], [1.0, 1.0]])[0].shape == (1, 3), "one action too many, and no reset before"
    with pytest.raises(IndexError):
        ours.DummyVecEnv(functions(2)).step(np.zeros(1, np.int64))


def test_dummy_casts_what_numpy_can_cast():
    class Sloppy(Anything):
        def reset(self, **keywords):
            return [0, 1, 2], {}

        def step(self, action):
            return np.arange(3), np.array([1.5]), np.bool_(False), False, {}

    venv = ours.DummyVecEnv([Sloppy, Sloppy])
    assert venv.reset().dtype == np.float32
    obs, rewards, _, _ = venv.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(obs, [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(rewards, np.float32([1.5, 1.5]))


def test_dummy_lets_the_errors_of_envs_through():
    class Broken(Anything):
        def step(self, action):
            raise KeyError("mine")

    venv = ours.DummyVecEnv([Broken])
    venv.reset()
    with pytest.raises(KeyError, match="mine") as caught:
        venv.step([0])
    assert type(caught.value) is KeyError


# --- SubprocVecEnv ---------------------------------------------------------------------------------------------------


def test_subproc_checks_actions_before_anything_is_sent():
    venv = OURS["Subproc"]([SameArray] * 2)
    with pytest.raises(NotResetError):
        venv.step(np.zeros(2, np.int64))
    venv.reset()
    for wrong in (np.zeros(1, np.int64), np.zeros(3, np.int64), np.array([0, 9]), np.zeros(2)):
        with pytest.raises(InvalidAction):
            venv.step(wrong)
    assert not venv.waiting
    venv.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(venv.get_attr("obs"), np.ones((2, 2)))
    venv.close()


def test_subproc_says_which_env_raised_and_goes_on_after_a_reset():
    class Broken(Anything):
        def step(self, action):
            if action == 2:
                raise KeyError("mine")
            return super().step(action)

    venv = ours.SubprocVecEnv([Broken] * 3, workers=2)
    venv.reset()
    with pytest.raises(KeyError, match="env 1"):
        venv.step(np.array([0, 2, 0]))
    venv.reset()
    venv.step(np.array([0, 0, 0]))
    venv.close()


def test_subproc_survives_a_worker_that_dies():
    venv = ours.SubprocVecEnv(functions(2), workers=2)
    venv.reset()
    os.kill(venv.processes[1].pid, signal.SIGKILL)
    with pytest.raises(EnvError):
        venv.step(np.zeros(2, np.int64))
    venv.reset()
    venv.close()
    assert venv.closed


def test_a_thread_in_step_wait_is_woken_by_close():
    venv = ours.SubprocVecEnv(FaultEnv.many(2, kind="hang", seconds=0.5), workers=2)
    venv.reset()
    venv.step_async(np.zeros(2, np.int64))
    errors = []

    def wait():
        try:
            venv.step_wait()
        except ClosedError as error:
            errors.append(str(error))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert until(lambda: not venv.waiting, 30.0)
    venv.close()
    waiting.join(30.0)
    assert len(errors) == 1
    assert "close() meanwhile" in errors[0] or "after a call to `close()`" in errors[0]
    assert venv.closed


def test_subproc_drops_a_running_step_at_reset_and_at_close():
    venv = OURS["Subproc"](functions(2))
    venv.reset()
    venv.step_async(np.zeros(2, np.int64))
    assert venv.waiting
    assert venv.reset().shape == (2, 3)
    assert venv.get_attr("steps") == [0, 0]
    venv.step_async(np.zeros(2, np.int64))
    venv.close()


def test_subproc_refuses_observations_that_do_not_fit():
    class Sloppy(Anything):
        def reset(self, **keywords):
            return np.zeros(2, np.float32), {}

    venv = OURS["Subproc"]([Sloppy])
    with pytest.raises(SpaceError):
        venv.reset()
    venv.close()


def test_subproc_names_a_start_method_that_there_is_not():
    with pytest.raises(ValueError, match="cannot find context for 'x'"):
        ours.SubprocVecEnv(functions(1), start_method="x")


def test_subproc_masks_need_no_call(monkeypatch):
    venv = OURS["Subproc"]([Masked] * 3)
    venv.reset()
    asked = venv.get_attr("asked")
    calls = []
    monkeypatch.setattr(venv._inner, "call", lambda *arguments: calls.append(arguments))
    venv.step(np.stack(venv.env_method("action_masks")).argmax(axis=1))
    venv.env_method("action_masks", indices=1)
    assert calls == []
    monkeypatch.undo()
    assert asked == [1, 1, 1]
    venv.close()


def test_subproc_masks_follow_what_is_set():
    venv = OURS["Subproc"]([Masked] * 2)
    venv.reset()
    venv.set_attr("steps", 2)
    np.testing.assert_array_equal(venv.env_method("action_masks"), [[False, False, True, False]] * 2)
    venv.close()


def test_subproc_masks_follow_what_a_method_does():
    venv = OURS["Subproc"]([Masked] * 2)
    venv.reset()
    venv.set_attr("steps", 1)
    venv.env_method("action_masks")
    venv.env_method("skip")
    np.testing.assert_array_equal(venv.env_method("action_masks"), [[False, False, True, False]] * 2)
    venv.step(np.array([2, 2]))
    venv.env_method("skip")  # after masks that came with observations
    np.testing.assert_array_equal(venv.env_method("action_masks"), [[True, False, False, False]] * 2)
    venv.close()


def test_workers_import_neither_sb3_nor_torch():
    script = """
import sys
import gymnasium
import vecenv.sb3

class Modules(gymnasium.Wrapper):
    def loaded(self):
        import sys
        return sorted({"torch", "stable_baselines3"} & set(sys.modules))

venv = vecenv.sb3.make_vec_env("CartPole-v1", 2, vec_env_cls=vecenv.sb3.SubprocVecEnv, wrapper_class=Modules)
venv.reset()
theirs = type("Monitor", (gymnasium.Wrapper,), {"__module__": "stable_baselines3.common.monitor"})
assert venv.env_is_wrapped(theirs) == [True, True]
assert venv.env_method("loaded") == [[], []], venv.env_method("loaded")
venv.close()
"""
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", script], check=True, timeout=50)
