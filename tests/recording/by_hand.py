"""Recordings made by a bare loop over one env: what the recorder is to write, without the recorder."""

from dataclasses import replace

import gymnasium
import numpy as np

from vecenv._batch.layout import Layout
from vecenv._batch.random_state import words_of
from vecenv.engines.recording.digests import digest_rows, is_digested
from vecenv.recording import Recording


def reference(cls, **kwargs):
    """How an env of a class is built."""
    where = f"{cls.__module__}:{cls.__qualname__}"
    return {"kind": "reference", "where": where, "args": [], "kwargs": kwargs, "wrappers": []}


def by_id(id, **kwargs):
    return {"kind": "id", "id": id, "kwargs": kwargs, "wrappers": []}


def record(env, build, actions, *, seed=None, options=None, failure=None):
    """Run one env and write down everything; a step that raises, and a reset, are the end of it."""
    layouts = Layout(env.observation_space), Layout(env.action_space)
    columns = [_columns(layout, len(actions) + 1) for layout in layouts]
    write_obs, write_action = (layout.writer(made) for layout, made in zip(layouts, columns, strict=True))
    if seed is None:
        start = {"kind": "random-state", "words": np.array(words_of(env.unwrapped.np_random), np.uint64)}
        how = {}
    else:
        start, how = {"kind": "seed", "seed": seed}, {"seed": seed}
    how |= {} if options is None else {"options": options}
    rewards, terminated, truncated, came, sent = [], [], [], 0, 0
    try:
        write_obs(0, env.reset(**how)[0])
        came = 1
        for number, action in enumerate(actions):
            write_action(number, action)
            sent += 1
            obs, reward, ends, cut, _ = env.step(action)
            write_obs(number + 1, obs)
            came += 1
            rewards.append(reward)
            terminated.append(ends)
            truncated.append(cut)
            if ends or cut:
                break
    except Exception as error:
        failure = failure or {"kind": "raised", "type": type(error).__name__, "message": str(error)}
    digested = tuple(is_digested(column[0].nbytes) if column.dtype != object else False for column in columns[0])
    return Recording(
        row=0,
        num_envs=1,
        engine="sync",
        autoreset="next-step",
        versions={"vecenv": "0.1.0", "numpy": np.__version__},
        build=build,
        start=start,
        options={"kind": "none"} if options is None else {"kind": "value", "value": options},
        action_paths=tuple(leaf.path for leaf in layouts[1].leaves),
        obs_paths=tuple(leaf.path for leaf in layouts[0].leaves),
        actions=tuple(_cut(column, sent) for column in columns[1]),
        obs=tuple(
            digest_rows(column[:came]) if flag else _cut(column, came)
            for column, flag in zip(columns[0], digested, strict=True)
        ),
        digested=digested,
        reward=np.array(rewards, np.float64),
        terminated=np.array(terminated, np.bool_),
        truncated=np.array(truncated, np.bool_),
        steps=sent,
        failure=None if failure is None else {"phase": "step" if sent else "reset", "message": "", **failure},
    )


def kernel_recording(env, build, actions, columns):
    """Of a kernel's Python env that is in the middle of things: its state is where the episode begins."""
    made = record(_Going(env), build, actions)
    return replace(made, engine="compiled", start={"kind": "kernel-state", "columns": columns})


class _Going(gymnasium.Wrapper):
    """An env whose reset changes nothing."""

    def reset(self, **how):
        return self.env._observe(), {}


def _columns(layout, count):
    return [
        np.full(count, None, object) if leaf.by_value else np.zeros((count, *leaf.shape), leaf.dtype)
        for leaf in layout.leaves
    ]


def _cut(column, count):
    return tuple(column[:count]) if column.dtype == object else column[:count].copy()
