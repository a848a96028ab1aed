"""Envs that fail when an action tells them to, and a bare loop that runs one episode of a recording again."""

import ctypes
import os
import signal
import time

import gymnasium
import numpy as np
from gymnasium import spaces

from vecenv._batch.layout import Layout
from vecenv._batch.random_state import set_words
from vecenv.engines.recording.digests import digest_rows
from vecenv.kernel.language.snapshot import generator, snapshot

RAISE, KILL, HANG, SHAPE, NAN, CRASH, BAD_REWARD, EXIT, END_BADLY, INTERRUPT = range(99, 89, -1)
"""Actions that go wrong; END_BADLY ends the episode with an observation that is not finite."""
FINE = 90
"""Smaller ones do not."""


class Diary(gymnasium.Env):
    """An episode is a function of the random stream before its reset, the options and the actions; nothing else."""

    def __init__(self, length=6.0, reset_fails=0.0, how="raise"):
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float64)
        self.action_space = spaces.Discrete(100)
        self.length, self.reset_fails, self.how = length, reset_fails, how

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.last, self.option = 0, -1, float((options or {}).get("level", 0.0))
        if self.np_random.random() < self.reset_fails or (options or {}).get("fail"):
            FAILURES[self.how](self)
        return self._obs(), {}

    def step(self, action):
        self.steps, self.last = self.steps + 1, int(action)
        if self.last in WRONG:
            FAILURES[WRONG[self.last]](self)
        obs, reward = self._obs(), self.last + self.np_random.random()
        ended = bool(self.np_random.random() < 1 / self.length)
        if self.last in (NAN, END_BADLY):
            obs, ended = obs * np.nan, ended or self.last == END_BADLY
        if self.last == BAD_REWARD:
            reward = np.nan
        return obs[:3] if self.last == SHAPE else obs, reward, ended, False, {}

    def _obs(self):
        return np.array([self.steps, self.last, self.option, self.length, self.np_random.random()])


class OldDiary(Diary):
    """Its random stream is none of NumPy's new ones."""

    @property
    def np_random(self):
        return self.__dict__.setdefault("stream", np.random.RandomState(3))

    @np_random.setter
    def np_random(self, value):
        pass

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.np_random.seed(seed)
        return Diary.reset(self, options=options)


class Rich(gymnasium.Env):
    """Nested spaces, one leaf that is large, and leaves that travel by value."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (20, 20, 3), np.uint8),
            "pair": spaces.Tuple([spaces.Discrete(50), spaces.Box(-9, 9, (2,), np.float32)]),
            "name": spaces.Text(12),
            "some": spaces.Sequence(spaces.Box(-1, 1, (2,), np.float32)),
            "net": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
        }
    )
    action_space = spaces.Dict(
        {"move": spaces.MultiDiscrete([3, 100]), "say": spaces.Text(5), "push": spaces.Box(-1, 1, (2,), np.float32)}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.said = ""
        return self._obs(), {}

    def step(self, action):
        self.said += action["say"]
        if action["move"][1] == RAISE:
            raise ValueError(self.said)
        return self._obs(), float(action["push"].sum()), bool(self.np_random.random() < 0.1), False, {}

    def _obs(self):
        random = self.np_random
        nodes = random.random((int(random.integers(2, 5)), 2), np.float32)
        edges = np.array([0, 1]), np.array([[0, 1], [1, 0]])
        return {
            "image": random.integers(0, 256, (20, 20, 3), dtype=np.uint8),
            "pair": (int(random.integers(50)), random.random(2, np.float32)),
            "name": self.said[-12:] or "nobody",
            "some": tuple(random.random(2, np.float32) for _ in range(int(random.integers(4)))),
            "net": spaces.GraphInstance(nodes, *edges),
        }


def _raise(env):
    raise ValueError(f"boom at step {env.steps}")


def _kill(env):
    os.kill(os.getpid(), signal.SIGKILL)


def _crash(env):
    ctypes.string_at(0)


def _hang(env):
    time.sleep(60)


def _interrupt(env):
    raise KeyboardInterrupt


def _exit(env):
    os._exit(5)


FAILURES = {"raise": _raise, "kill": _kill, "crash": _crash, "hang": _hang, "exit": _exit, "interrupt": _interrupt}
WRONG = {RAISE: "raise", KILL: "kill", CRASH: "crash", HANG: "hang", EXIT: "exit", INTERRUPT: "interrupt"}


def run_again(recording, factory):
    """Run a recording's episode in a bare loop, all that came back compared bit for bit; what the last call raised.

    A last call that killed or hung the worker is not made.
    """
    env = factory()
    layouts = Layout(env.observation_space), Layout(env.action_space)
    list_actions = layouts[1].read_many([_column(column) for column in recording.actions])
    actions = list_actions(slice(None), recording.steps) if recording.steps else []
    how = {"seed": recording.start["seed"]} if recording.start["kind"] == "seed" else {}
    if recording.start["kind"] == "random-state":
        set_words(env.unwrapped.np_random, recording.start["words"])
    if recording.options["kind"] == "value":
        how["options"] = recording.options["value"]
    fatal = recording.failure is not None and recording.failure["kind"] in ("died", "hung")
    came = 0
    try:
        if fatal and recording.failure["phase"] == "reset":
            return None
        _compare(recording, layouts[0], 0, env.reset(**how)[0])
        for step, action in enumerate(actions):
            if fatal and step == recording.steps - 1:
                return None
            obs, reward, terminated, truncated, _ = env.step(recording.given.get(step, action))
            if step >= len(recording.reward):
                continue  # it was not received, or was not valid
            _compare(recording, layouts[0], step + 1, obs)
            came += 1
            np.testing.assert_array_equal(np.float64(reward), recording.reward[step])
            assert (terminated, truncated) == (recording.terminated[step], recording.truncated[step])
    except ValueError as error:
        return error
    finally:
        assert came == len(recording.reward)
        env.close()
    return None


def run_kernel_again(recording, kernel):
    """The same for the state of a kernel."""
    columns = recording.start["columns"]
    params = {name: columns[f"P_{name}"][None] for name in kernel.params}
    env = snapshot(kernel, params, {name: columns[f"S_{name}"] for name in kernel.state})
    env.np_random = generator(columns["RNG"])
    layout = Layout(env.observation_space)
    _compare(recording, layout, 0, env._observe())
    limit, elapsed = recording.build["max_episode_steps"], int(columns["ELAPSED"])
    for step in range(recording.steps):
        obs, reward, terminated, truncated, _ = env.step(recording.actions[0][step])
        _compare(recording, layout, step + 1, obs)
        assert (reward, terminated) == (recording.reward[step], recording.terminated[step])
        assert (truncated or elapsed + step + 1 >= limit) == recording.truncated[step]


def _column(column):
    if isinstance(column, np.ndarray):
        return column
    made = np.full(len(column), None, object)
    made[:] = column
    return made


def _compare(recording, layout, place, obs):
    """One observation, each leaf of it."""
    columns = [
        np.full(1, None, object) if leaf.by_value else np.zeros((1, *leaf.shape), leaf.dtype) for leaf in layout.leaves
    ]
    layout.writer(columns)(0, obs)
    for mine, theirs, digested in zip(columns, recording.obs, recording.digested, strict=True):
        mine = digest_rows(mine) if digested else mine
        if mine.dtype == object:
            np.testing.assert_equal(theirs[place], mine[0])
        else:
            assert mine[0].tobytes() == theirs[place].tobytes()
            assert mine.dtype == theirs.dtype
