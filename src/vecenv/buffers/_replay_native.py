"""Native code of `_replay.py` and `_sum_tree.py`; see `kernel/numba/functions.py` for how it is compiled."""

from __future__ import annotations

from vecenv.kernel.numba.functions import float32_at, float64_at, int64_at, uint8_at


def look_ahead(table: int) -> int:
    """Follow transitions for at most n steps within their episode.

    Words of the table: index, count, reward, terminated, ended, newest (slot of each lane), slots, lanes, horizon,
    gamma (address); results: reward, discount, last index, steps.
    """
    words = int64_at(table, 14)
    count, slots, lanes, gamma = words[1], words[6], words[7], float64_at(words[9], 1)[0]
    size = slots * lanes
    index, reward = int64_at(words[0], count), float32_at(words[2], size)
    terminated, ended, newest = uint8_at(words[3], size), uint8_at(words[4], size), int64_at(words[5], lanes)
    rewards, discounts = float32_at(words[10], count), float32_at(words[11], count)
    last, steps = int64_at(words[12], count), int64_at(words[13], count)
    for row in range(count):
        at, collected, factor, taken = index[row], 0.0, 1.0, 0
        while True:
            collected += factor * reward[at]
            factor *= gamma
            taken += 1
            if taken == words[8] or ended[at] or at // lanes == newest[at % lanes]:
                break
            at = at + lanes if at + lanes < size else at + lanes - size
        rewards[row], discounts[row], last[row], steps[row] = collected, factor, at, taken
        if terminated[at]:
            discounts[row] = 0.0
    return 0


def update_tree(table: int) -> int:
    """Set leaves and all sums above them. Words of the table: tree, leaves, index, count, values."""
    words = int64_at(table, 5)
    tree, leaves = float64_at(words[0], 2 * words[1]), words[1]
    index, values = int64_at(words[2], words[3]), float64_at(words[4], words[3])
    for row in range(words[3]):
        tree[leaves + index[row]] = values[row]
    for row in range(words[3]):
        node = (leaves + index[row]) // 2
        while node > 0:
            tree[node] = tree[2 * node] + tree[2 * node + 1]
            node //= 2
    return 0


def search_tree(table: int) -> int:
    """Find the leaf of each cumulative sum. Words of the table: tree, leaves, index (written), count, sums."""
    words = int64_at(table, 5)
    tree, leaves = float64_at(words[0], 2 * words[1]), words[1]
    index, sums = int64_at(words[2], words[3]), float64_at(words[4], words[3])
    for row in range(words[3]):
        node, wanted = 1, sums[row]
        while node < leaves:
            node *= 2
            # Rounding may lead past the last leaf with a positive weight: never return a leaf of weight zero.
            if wanted >= tree[node] and tree[node + 1] > 0.0:
                wanted -= tree[node]
                node += 1
        index[row] = node - leaves
    return 0
