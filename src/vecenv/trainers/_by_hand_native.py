"""Native code of `_by_hand.py`: distributions of actions and PPO's loss; see `kernel/numba/functions.py`.

Numbers are computed in double precision. Comparisons are written such that NaN spreads.
"""

from __future__ import annotations

import math

from vecenv.kernel.numba.functions import float32_at, float64_at, int64_at, uint8_at

LOG_2_PI = math.log(2 * math.pi)
FORBIDDEN = -1e8
"""The logit of an action that a mask forbids; not minus infinity: times a probability of zero, that would be NaN."""
OUTPUTS, MASK, ACTIONS, ROWS, WIDTH, CHOICES, SIZES, LOG_STD, NOISE, LOG_PROB = range(10)
"""Words of both tables: addresses (MASK may be 0), except for the sizes ROWS, WIDTH (of a row of outputs), CHOICES."""
NUMBERS, VALUE, FOR_OUTPUTS, FOR_VALUE, FOR_LOG_STD, PARTS, PRECISION, SETTINGS = range(10, 18)
"""Further words of the loss: minibatch, values, the derivatives by each, the parts of the loss, which are zero before,
room for a float64 per column of outputs, and then, as float64, the settings."""
CLIP_RANGE, VALUE_WEIGHT, ENTROPY_WEIGHT, CLIP_VALUE, NORMALIZE = range(5)
POLICY_LOSS, VALUE_LOSS, ENTROPY, KL = range(4)


def draw_choices(table: int) -> int:
    """Sample actions and their log probabilities. NOISE is exponentially distributed."""
    words = int64_at(table, 10)
    rows, width, choices = words[ROWS], words[WIDTH], words[CHOICES]
    logits, sizes = float32_at(words[OUTPUTS], rows * width), int64_at(words[SIZES], choices)
    noise, mask = float32_at(words[NOISE], rows * width), uint8_at(words[MASK], rows * width if words[MASK] else 0)
    actions, log_probs = int64_at(words[ACTIONS], rows * choices), float32_at(words[LOG_PROB], rows)
    for row in range(rows):
        at, log_prob = row * width, 0.0
        for choice in range(choices):
            size, best, pick = sizes[choice], -1.0, 0
            highest, total = log_total(logits, mask, at, size)
            for action in range(size):
                # The largest p / e, with e exponentially distributed, is a sample from p.
                score = math.exp(allowed(logits, mask, at + action) - highest) / noise[at + action]
                if score > best:
                    best, pick = score, action
            actions[row * choices + choice] = pick
            log_prob += allowed(logits, mask, at + pick) - highest - total
            at += size
        log_probs[row] = log_prob
    return 0


def draw_gaussian(table: int) -> int:
    """Sample actions and their log densities. NOISE is normally distributed."""
    words = int64_at(table, 10)
    rows, width = words[ROWS], words[WIDTH]
    means, log_std = float32_at(words[OUTPUTS], rows * width), float32_at(words[LOG_STD], width)
    noise, actions = float32_at(words[NOISE], rows * width), float32_at(words[ACTIONS], rows * width)
    log_probs = float32_at(words[LOG_PROB], rows)
    for row in range(rows):
        log_prob = 0.0
        for column in range(width):
            at = row * width + column
            actions[at] = means[at] + noise[at] * math.exp(log_std[column])
            log_prob -= 0.5 * noise[at] * noise[at] + log_std[column] + 0.5 * LOG_2_PI
        log_probs[row] = log_prob
    return 0


def choices_loss(table: int) -> int:
    """PPO's loss, and its derivatives by logits and values."""
    words = int64_at(table, SETTINGS)
    rows, width, choices = words[ROWS], words[WIDTH], words[CHOICES]
    logits, sizes = float32_at(words[OUTPUTS], rows * width), int64_at(words[SIZES], choices)
    mask = uint8_at(words[MASK], rows * width if words[MASK] else 0)
    actions, derivatives = int64_at(words[ACTIONS], rows * choices), float32_at(words[FOR_OUTPUTS], rows * width)
    numbers, settings, parts, mean, deviation = of_loss(table, words, rows)
    highest = total = 0.0
    for row in range(rows):
        at, log_prob = row * width, 0.0
        for choice in range(choices):
            highest, total = log_total(logits, mask, at, sizes[choice])
            log_prob += allowed(logits, mask, at + actions[row * choices + choice]) - highest - total
            at += sizes[choice]
        by_log_prob = policy_loss(log_prob, numbers, row, rows, mean, deviation, settings, parts)
        at = row * width
        for choice in range(choices):
            size, entropy, pick = sizes[choice], 0.0, actions[row * choices + choice]
            if choices > 1:  # else they are known
                highest, total = log_total(logits, mask, at, size)
            for action in range(size):
                log = allowed(logits, mask, at + action) - highest - total
                derivatives[at + action] = chance = math.exp(log)
                entropy -= chance * log
            parts[ENTROPY] += entropy / rows
            for action in range(size):
                log, chance = allowed(logits, mask, at + action) - highest - total, derivatives[at + action]
                derivative = by_log_prob * ((1.0 if action == pick else 0.0) - chance)
                derivative += settings[ENTROPY_WEIGHT] / rows * chance * (log + entropy)
                derivatives[at + action] = derivative if len(mask) == 0 or mask[at + action] else 0.0
            at += size
    value_losses(words, numbers, rows, settings, parts)
    return 0


def gaussian_loss(table: int) -> int:
    """PPO's loss, and its derivatives by means, log standard deviations and values."""
    words = int64_at(table, SETTINGS)
    rows, width = words[ROWS], words[WIDTH]
    means, log_std = float32_at(words[OUTPUTS], rows * width), float32_at(words[LOG_STD], width)
    actions, derivatives = float32_at(words[ACTIONS], rows * width), float32_at(words[FOR_OUTPUTS], rows * width)
    for_log_std = float32_at(words[FOR_LOG_STD], width)
    numbers, settings, parts, mean, deviation = of_loss(table, words, rows)
    precision = float64_at(words[PRECISION], width)
    for column in range(width):
        for_log_std[column] = -settings[ENTROPY_WEIGHT]
        precision[column] = math.exp(-log_std[column])
        parts[ENTROPY] += log_std[column] + 0.5 * LOG_2_PI + 0.5
    for row in range(rows):
        log_prob = 0.0
        for column in range(width):
            at = row * width + column
            distance = (actions[at] - means[at]) * precision[column]
            log_prob -= 0.5 * distance * distance + log_std[column] + 0.5 * LOG_2_PI
        by_log_prob = policy_loss(log_prob, numbers, row, rows, mean, deviation, settings, parts)
        for column in range(width):
            at = row * width + column
            distance = (actions[at] - means[at]) * precision[column]
            derivatives[at] = by_log_prob * distance * precision[column]
            for_log_std[column] += by_log_prob * (distance * distance - 1.0)
    value_losses(words, numbers, rows, settings, parts)
    return 0


# --- parts -----------------------------------------------------------------------------------------------------------


def allowed(logits, mask, at):  # type: ignore[no-untyped-def]  # compiled for its arguments
    """A logit, or a very low one if the mask forbids the action."""
    return FORBIDDEN if len(mask) and not mask[at] else float(logits[at])


def log_total(logits, mask, begin, size):  # type: ignore[no-untyped-def]  # compiled for its arguments
    """The highest logit, and the logarithm of the sum of all exponentials after it was subtracted."""
    highest, total = allowed(logits, mask, begin), 0.0
    for at in range(begin + 1, begin + size):
        highest = max(highest, allowed(logits, mask, at))
    for at in range(begin, begin + size):
        total += math.exp(allowed(logits, mask, at) - highest)
    return highest, math.log(total)


def of_loss(table, words, rows):  # type: ignore[no-untyped-def]  # compiled for its arguments
    """What both losses need: minibatch, settings, parts of the loss, and the moments of advantages."""
    numbers, settings = float32_at(words[NUMBERS], 4 * rows), float64_at(table + 8 * SETTINGS, 5)
    mean, deviation = advantage_moments(numbers, rows, settings)
    return numbers, settings, float64_at(words[PARTS], 4), mean, deviation


def advantage_moments(numbers, rows, settings):  # type: ignore[no-untyped-def]  # compiled for its arguments
    """What advantages are reduced by and divided by."""
    if not settings[NORMALIZE] or rows < 2:
        return 0.0, 1.0
    mean, squares = 0.0, 0.0
    for row in range(rows):
        mean += numbers[4 * row] / rows
    for row in range(rows):
        squares += (numbers[4 * row] - mean) ** 2
    return mean, math.sqrt(squares / (rows - 1)) + 1e-8


def policy_loss(log_prob, numbers, row, rows, mean, deviation, settings, parts):  # type: ignore[no-untyped-def]
    """Add the loss of one action; return its derivative by the log probability: zero where the limit holds."""
    advantage, log_ratio = (numbers[4 * row] - mean) / deviation, log_prob - numbers[4 * row + 3]
    ratio, limit = math.exp(log_ratio), settings[CLIP_RANGE]
    gain, limited = advantage * ratio, advantage * min(max(ratio, 1 - limit), 1 + limit)
    parts[POLICY_LOSS] -= (limited if limited < gain else gain) / rows
    parts[KL] += (ratio - 1 - log_ratio) / rows
    return 0.0 if limited < gain else -gain / rows


def value_losses(words, numbers, rows, settings, parts):  # type: ignore[no-untyped-def]  # compiled for its arguments
    """Add the loss of all values, and write the derivatives by them."""
    values, derivatives = float32_at(words[VALUE], rows), float32_at(words[FOR_VALUE], rows)
    clip = settings[CLIP_VALUE]
    for row in range(rows):
        returns, old = float(numbers[4 * row + 1]), float(numbers[4 * row + 2])
        error, change = values[row] - returns, values[row] - old
        near = old + min(max(change, -clip), clip) - returns
        counts = abs(change) <= clip or near * near <= error * error
        parts[VALUE_LOSS] += (error * error if counts else near * near) / rows
        derivatives[row] = 2 * settings[VALUE_WEIGHT] * error / rows if counts else 0.0 * near
