"""Native code of `_returns.py`; `kernel/numba/functions.py` compiles it.

The outer loop runs backwards in time; the inner loop runs over envs, so that it can be vectorised. Values behind the
end of an episode are left out by selection, not multiplied by zero, so a NaN among them does not spread.
"""

from __future__ import annotations

import numpy as np

from vecenv.kernel.numba.functions import float32_at, float64_at, int64_at, uint8_at

values_at = float32_at
number = np.float32
"""The floating-point type of the computation."""
size = 4
"""The size of that type in bytes."""
WORDS = 15
"""Words of the table: addresses (0: not given), except for the sizes LENGTH (T), COUNT (envs) and HORIZON (n)."""
REWARD, VALUE, LAST, TERMINATED, TRUNCATED, FINAL, VALID, RATIO, ADVANTAGE, RESULT = range(10)
LENGTH, COUNT, HORIZON, NUMBERS, ZEROS = range(10, 15)
GAMMA, TRACE, HIGHEST_RHO, HIGHEST_C = range(4)


def gae(table: int) -> int:
    """Advantages and returns."""
    words = int64_at(table, WORDS)
    numbers, count = float64_at(words[NUMBERS], 4), words[COUNT]
    gamma, trace = number(numbers[GAMMA]), number(numbers[TRACE])
    for time in range(words[LENGTH] - 1, -1, -1):
        at = size * count * time
        reward, value = values_at(words[REWARD] + at, count), values_at(words[VALUE] + at, count)
        terminated = uint8_at(words[TERMINATED] + count * time, count)
        truncated = uint8_at(words[TRUNCATED] + count * time, count)
        advantage, result = values_at(words[ADVANTAGE] + at, count), values_at(words[RESULT] + at, count)
        inside, after_row = time < words[LENGTH] - 1, at + size * count
        follows_at = words[VALUE] + after_row if inside else words[LAST]
        follows = values_at(follows_at, count)
        later = values_at(words[ADVANTAGE] + after_row if inside else words[ZEROS], count)
        final = values_at(words[FINAL] + at if words[FINAL] else follows_at, count)
        for env in range(count):
            ending, following = final[env], follows[env]
            after = ending if truncated[env] else following
            advantage[env] = number(0) if terminated[env] else after
        for env in range(count):
            advantage[env] = reward[env] + gamma * advantage[env] - value[env]
        for env in range(count):
            kept = later[env]
            advantage[env] += trace * (number(0) if truncated[env] | terminated[env] else kept)
        if words[VALID]:
            valid = uint8_at(words[VALID] + count * time, count)
            for env in range(count):
                passed = number(0) if truncated[env] | terminated[env] else later[env]
                advantage[env] = advantage[env] if valid[env] else passed
        for env in range(count):
            result[env] = advantage[env] + value[env]
    if words[VALID]:
        total = words[LENGTH] * count
        valid, value = uint8_at(words[VALID], total), values_at(words[VALUE], total)
        advantage, result = values_at(words[ADVANTAGE], total), values_at(words[RESULT], total)
        for at in range(total):
            advantage[at] = advantage[at] if valid[at] else number(0)
            result[at] = result[at] if valid[at] else value[at]
    return 0


def discounted(table: int) -> int:
    """Sums of discounted rewards, bootstrapped from the last values."""
    words = int64_at(table, WORDS)
    gamma, count = number(float64_at(words[NUMBERS], 4)[GAMMA]), words[COUNT]
    for time in range(words[LENGTH] - 1, -1, -1):
        at = size * count * time
        reward, result = values_at(words[REWARD] + at, count), values_at(words[RESULT] + at, count)
        terminated = uint8_at(words[TERMINATED] + count * time, count)
        truncated = uint8_at(words[TRUNCATED] + count * time, count)
        later_at = words[RESULT] + at + size * count if time < words[LENGTH] - 1 else words[LAST]
        later, final = values_at(later_at, count), values_at(words[FINAL] + at if words[FINAL] else later_at, count)
        for env in range(count):
            after = final[env] if truncated[env] else later[env]
            after = number(0) if terminated[env] else after
            result[env] = reward[env] + gamma * after
    return 0


def n_step(table: int) -> int:
    """Rewards of at most n steps of the same episode, plus the discounted value of the state after them."""
    words = int64_at(table, WORDS)
    gamma, length, count = number(float64_at(words[NUMBERS], 4)[GAMMA]), words[LENGTH], words[COUNT]
    total = length * count
    reward, value, last = values_at(words[REWARD], total), values_at(words[VALUE], total), values_at(words[LAST], count)
    terminated, truncated = uint8_at(words[TERMINATED], total), uint8_at(words[TRUNCATED], total)
    result, final = values_at(words[RESULT], total), values_at(words[FINAL], total if words[FINAL] else 0)
    for begin in range(total):
        collected, factor, at = number(0), number(1), begin
        for _ in range(words[HORIZON]):
            collected += factor * reward[at]
            factor *= gamma
            if terminated[at] | truncated[at] or at + count >= total:
                break
            at += count
        else:
            at -= count
        if truncated[at] and not terminated[at] and words[FINAL]:
            collected += factor * final[at]
        elif not terminated[at]:
            collected += factor * (value[at + count] if at + count < total else last[at - (total - count)])
        result[begin] = collected
    return 0


def v_trace(table: int) -> int:
    """Values of the target policy, and advantages for the policy gradient."""
    words = int64_at(table, WORDS)
    numbers, count = float64_at(words[NUMBERS], 4), words[COUNT]
    gamma, trace = number(numbers[GAMMA]), number(numbers[TRACE])
    highest_rho, highest_c = number(numbers[HIGHEST_RHO]), number(numbers[HIGHEST_C])
    for time in range(words[LENGTH] - 1, -1, -1):
        at = size * count * time
        reward, value = values_at(words[REWARD] + at, count), values_at(words[VALUE] + at, count)
        terminated = uint8_at(words[TERMINATED] + count * time, count)
        truncated = uint8_at(words[TRUNCATED] + count * time, count)
        advantage, result = values_at(words[ADVANTAGE] + at, count), values_at(words[RESULT] + at, count)
        ratio = values_at(words[RATIO] + at, count)
        inside, after_row = time < words[LENGTH] - 1, at + size * count
        follows_at = words[VALUE] + after_row if inside else words[LAST]
        follows = values_at(follows_at, count)
        later = values_at(words[RESULT] + after_row if inside else words[LAST], count)
        final = values_at(words[FINAL] + at if words[FINAL] else follows_at, count)
        for env in range(count):
            rho, c = min(highest_rho, ratio[env]), trace * min(highest_c, ratio[env])
            after = final[env] if truncated[env] else follows[env]
            after = number(0) if terminated[env] else after
            # The correction of the next value; zero after the end of an episode.
            correction = number(0) if truncated[env] | terminated[env] else later[env] - follows[env]
            result[env] = value[env] + rho * (reward[env] + gamma * after - value[env]) + gamma * c * correction
            advantage[env] = rho * (reward[env] + gamma * (after + correction) - value[env])
    return 0
