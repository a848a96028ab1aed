"""The last few frames of many envs."""

import numpy as np
import pytest

from vecenv.wrappers._stacking import Stacker

COUNT, DEPTH = 5, 3
FRAMES = [((), None), ((3,), None), ((3,), 0), ((4, 5, 2), -1), ((2, 4, 5), 0), ((4, 5, 2), None), ((4, 5), 1)]


@pytest.mark.parametrize("fill", ["zero", "first", "frame"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((), None), ((3,), None), ((3,), 0), ((4, 5, 2), -1), ((2, 4, 5), 0), ((4, 5, 2), None), ((4, 5), 1)],
)
def test_stacks_are_what_lists_of_frames_say(shape, axis, fill):
    rng = np.random.default_rng(1)
    given = {"zero": 0, "first": None, "frame": rng.integers(0, 9, shape)}[fill]
    stacker = Stacker(COUNT, DEPTH, shape, np.int64, axis)
    frames = [[np.zeros(shape, np.int64)] * DEPTH for _ in range(COUNT)]

    def joined(row):
        return np.stack(frames[row]) if axis is None else np.concatenate(frames[row], axis)

    for turn in range(60):
        rows = np.arange(COUNT) if rng.random() < 0.5 else rng.permutation(COUNT)[: rng.integers(1, COUNT + 1)]
        new, began = rng.integers(0, 99, (len(rows), *shape)), rng.random(len(rows)) < 0.3
        final = stacker.final(rows, new)
        stacks = stacker.push(rows, new, began, given)
        assert stacks.shape == (len(rows), *joined(0).shape)
        for place, row in enumerate(rows):
            before, first = frames[row], new[place] if given is None else np.broadcast_to(given, shape)
            frames[row] = [*before[1:], new[place]]
            np.testing.assert_array_equal(final[place], joined(row))
            if began[place]:
                frames[row] = [*[first] * (DEPTH - 1), new[place]]
            np.testing.assert_array_equal(stacks[place], joined(row))
        some = np.array([3, 1])
        np.testing.assert_array_equal(stacker.current(some), [joined(3), joined(1)])
        if turn % 7 == 0:
            kept, stacker = stacker.frames(), Stacker(COUNT, DEPTH, shape, np.int64, axis)
            assert stacker.fits(kept)
            stacker.restore(kept)


def test_stacks_that_were_handed_out_are_not_changed():
    stacker, everyone, nobody = Stacker(2, 3, (4,), np.uint8), np.arange(2), np.zeros(2, np.bool_)
    stacks = [stacker.push(everyone, np.full((2, 4), turn, np.uint8), nobody) for turn in range(9)]
    for turn, stack in enumerate(stacks[2:], 2):
        np.testing.assert_array_equal(stack[0, :, 0], [turn - 2, turn - 1, turn])
        assert stack.flags.writeable
        stack[:] = 0
    np.testing.assert_array_equal(stacker.current(everyone)[1, :, 3], [6, 7, 8])
