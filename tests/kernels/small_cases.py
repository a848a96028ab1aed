"""Small things of Python as a person writes them. Each function returns a number; all work in plain Python too."""

import math

import numpy as np

from vecenv.kernel import Queue

FORCE = {0: -1.0, 1: 0.0, 2: 1.0}
MIXED = {0: 1, 2: 0.5, 1: 7}
DELTA = {0: (0, 1), 1: (1, 0), 2: (0, -1)}
NAMED = {"up": 1, "down": 2}
NESTED = {"a": {0: 1, 1: 2, 2: 3}, "b": {0: 5, 1: 6, 2: 7}}
PLACES = [1, 2, 3]
ROWS = [[1, 2, 3], [4, 5, 6]]
RATES = [0.5, 1, 2.5]
PAIRS = ((1, 0.5), (2, 1), (3, 0.25))
STEPS = [(0, 1), (1, 0), (0, -1), (-1, 0)]
SPECIAL = {1, 5}
TABLE = np.array([[1, 2], [3, 4], [100, 120]], np.int8)
RATES32 = np.array([0.1, 0.2, 0.3], np.float32)
NARROW = np.int8(100)


def scaled(x, by=2.0, plus=0.0, table=(1, 2, 3)):
    return x * by + plus + table[1]


def swapped(a, b):
    return b, a


def moved(place, k):
    dy, dx = STEPS[k]
    return place[0] + dy, place[1] + dx


def legal(board):
    moves = []
    for column in range(4):
        if board[0, column] == 0:
            moves.append(column)
    return moves


def legal_at_once(board, most=9):
    moves = [column for column in range(4) if board[0, column] == 0]
    if len(moves) > most:
        return []
    return moves


def push(queue, value, times=1):
    for _ in range(times):
        queue.append(value)


def take(queue):
    if len(queue) == 0:
        return -1
    return queue.popleft()


def squares(count):
    queue = Queue(int, 7)
    for i in range(count):
        queue.append(i * i)
    return queue


def arguments_by_name(s, k, rng):
    return scaled(k, plus=1.5) + scaled(x=1.0, by=3.0) + scaled(plus=k, x=0.5, table=(1, 5, 6)) * 10


def reversed_loops(s, k, rng):
    total = 0.0
    for i in reversed(range(3)):
        total = total * 2 + i
    for i in reversed(range(1, k + 2)):
        total = total * 2 + i
    for i in reversed(range(0, 7, 2)):
        total = total * 2 + i
    for i in reversed(range(5, 0, -2)):
        total = total * 2 - i
    for i in reversed(PLACES):
        total = total * 2 + i
    for i, j in reversed(STEPS):
        total = total * 3 + i - j
    for value in reversed(s.x):
        total = total * 0.5 + value
    for i, v in enumerate(reversed((1, 2, 5))):
        total += i * v
    for i, v in enumerate(PLACES, 1):
        total = total * 2 + i * v
    for i, v in enumerate(RATES, start=k):
        total = total * 2 + i * v
    for i, v in zip(PLACES, RATES, strict=False):
        total = total * 2 + i * v
    return total


def lengths(s, k, rng):
    total = math.hypot(s.x[0], s.x[1]) + math.hypot(k, 3) + math.hypot(s.x[0], s.x[1], s.x[2])
    return total + math.hypot(0.0, 0.0) + math.hypot(-0.0, -2.5) + math.hypot(1e300 * s.x[0], 1e-300)


def dicts(s, k, rng):
    total = FORCE[k] + FORCE[int(k)] * 10 + FORCE[(k + 1) % 3] * 100 + MIXED[k] * 1000
    dy, dx = DELTA[k]
    total += dy * 3 + dx + DELTA[k][1] + NAMED["up"] + NESTED["b"][k] + NESTED["a"][1]
    total += FORCE.get(k + 1, 0.25) + len(FORCE)
    for key, value in MIXED.items():
        total = total * 2 + key * value
    for key in FORCE:
        total += key
    for value in FORCE.values():
        total = total * 3 + value
    if k in DELTA and k + 1 not in FORCE:
        total += 5000
    if k in SPECIAL or k in {0, 7}:
        total += 7000
    return total


def lists_of_the_module(s, k, rng):
    total = PLACES[k] + RATES[k] * 10 + ROWS[1][k] + ROWS[k % 2][k] + len(PLACES) + sum(PLACES) + max(RATES)
    if k in PLACES or (k, 0) in STEPS:
        total += 100
    number, rate = PAIRS[k]
    for n, r in PAIRS:
        total += n * r
    place = PAIRS[1][0]
    return total + number * rate + s.x[place]


def powers(s, k, rng):
    return 2**k + 3 ** (k + 1) + 2.0**-k + (k + 2) ** 3 + (1 << k) + 10**k


def asserted(s, k, rng):
    assert 0 <= k < 3, f"{k} is no action, {s.x[0]:.3f}"
    assert len(s.x) == 4
    assert math.isfinite(s.x[0])
    assert np.isfinite(s.x).all()
    assert (s.x == s.x.copy()).any()
    return k


def tuples(s, k, rng):
    place = moved((1, k), k)
    total = place[0] * 5 + place[1]
    a, b = swapped(1, k)
    a, b = b, a
    total += a * 10 + b
    if place == (1, 2) or place in ((2, 1), (1, 0)) or place != (2, 1):
        total += 1000
    for value in place:
        total = total * 2 + value
    total += max(place) - min(place) + len(place) + place[k % 2]
    place = (1, 2) if k else (3, 4)
    for i in range(3):
        place = (place[0] + i, place[1] - 1)
    number, rate = (k, 2, 0.5)[1:]
    return total + place[0] * place[1] + (1, 2, 3)[k] + number * rate


def tuples_as_indices(s, k, rng):
    place = (1, k)
    s.b[place] = 3
    s.b[STEPS[1]] += 1
    s.b[moved(place, 2)] -= 2
    cube = np.zeros((3, 4, 2))
    cube[place] = (0.5, k)
    cube[place] += cube[place] * 2 + 1
    rows = [0, 2]
    total = s.b[rows].sum() + s.b[[1, 0]].sum() * 2 + s.x[PLACES].sum()
    return total + s.b.sum() + cube[place][1] + cube[1, k, 0] + s.b[place]


def narrow(s, k, rng):
    total = TABLE[k, 0] * 100 + TABLE[2][1] * TABLE[2][0] + NARROW * 2
    s.b[0, 0] = 100
    value = s.b[0, 0]
    total += value * value
    for v in s.b[0]:
        total += v * 3
    return total + RATES32[k] * 3 + RATES32[0] * RATES32[1]


def queue(s, k, rng):
    line = Queue(int, 3)
    total = 0
    for i in range(10):
        line.append(i + k)
        if len(line) == 3:
            total = total * 3 + line.popleft() * line[-1] + line[1]
        if i % 4 == 3:
            total += line.pop()
    line[0] += 5
    line[-1] = 7
    for i, value in enumerate(line):
        total = total * 3 + value * i
    for value in line:
        total = total * 3 % 1009 + value
    if 7 in line and 3 not in line:
        total += 1000
    line.clear()
    line.append(4)
    return total + len(line) + line[0]


def queue_of_tuples(s, k, rng):
    line = Queue((int, 2), 12)
    line.append((0, k))
    total = 0
    while line:
        y, x = line.popleft()
        total = total * 2 + y - x
        s.b[y, x] += 1
        if y < 2:
            line.append((y + 1, x))
            if (2, x) not in line:
                line.append((2, (x + 1) % 4))
    return total + s.b.sum()


def queues_of_types(s, k, rng):
    floats = Queue(float, 4)
    singles = Queue(dtype=np.float32, capacity=4)
    flags = Queue(bool, 4)
    small = Queue(np.int8, 4)
    floats.append(k)
    floats.append(s.x[1])
    singles.append(0.1)
    singles.append(s.x[0])
    flags.append(k > 1)
    small.append(100)
    total = floats.pop() / 3 + floats.pop() + singles.pop() * 3 + singles.popleft() + small[0] * 100
    return total + 5 if flags.pop() else total


def queue_in_helpers(s, k, rng):
    line = Queue(int, 9)
    push(line, 3, times=2)
    push(line, k)
    total = take(line) + line.pop() * 10 + len(line)
    total += take(line) + take(line)
    more = squares(k + 2)
    more.append(50)
    while len(more) > 0:
        total = (total * 2 + more.popleft()) % 977
    return total


def order_of_effects(s, k, rng):
    line = Queue(int, 9)
    for i in range(6):
        line.append(i)
    total = line.popleft() - line.popleft() * 10 + len(line) * 100
    if line and line.popleft() > 1 and line.popleft() > 2:
        total += 7
    line.append(line.pop() + line.popleft())
    total += line[-1] if k else line.pop()
    while line and line[0] > 0 and total < 2000:
        line.append(line.popleft() - 1)
        total += 1
    return total + len(line)


def stack(s, k, rng):
    items = []
    for i in range(4):
        items.append(i * k)
    total = items.pop() * 10 + items.pop(0) + len(items) * 100
    for value in items:
        total += value
    cells = [(0, 0)]
    cells.append((1, k))
    while cells:
        y, x = cells.pop()
        s.b[y, x] += 1
    values = [1, 2]
    values.append(0.5)
    total += values[0] / 3 + values[2] + sum([1, 2])
    if not cells and values:
        total += 1000
    return total + max(items) - min(items) + sum(items)


def counters(s, k, rng):
    counts = [0, 0, 0]
    for i in range(10):
        counts[i % 3] += i
    many = [k] * 5
    many[2] = 9
    pairs = 2 * [1, 2]
    pairs[0] = 5
    total = 0
    for count in counts:
        total = total * 100 + count
    for value in many:
        total += value
    return total + pairs[2] * 3 + pairs[0] + pairs[3]


def lists_in_loops(s, k, rng):
    total = 0
    i = 1000
    for turn in range(50):
        found = []
        for j in range(3):
            if j == k:
                continue
            found.append(turn * j)
        total += len(found) + found[-1]
    cells = [(y, x) for y in range(3) for x in range(4) if s.b[y, x] == 0]
    doubled = [2 * i for i in range(5) if i != k]
    halves = [value / 2 for value in s.x]
    copied = []
    for place in range(len(doubled)):
        copied.append(doubled[place] + place)
    for y, x in cells:
        total += y * x
    s.b[cells[k]] = 1
    return total + i + len(cells) + sum(copied) + halves[1] + doubled[-1]


def lists_of_helpers(s, k, rng):
    s.b[0, k] = 1
    moves = legal(s.b)
    total = len(moves)
    if moves:
        s.b[0, moves[rng.integers(len(moves))]] = 1
    moves = legal_at_once(s.b)
    moves.append(9)
    total = total * 10 + len(moves)
    if k in moves:
        total += 100
    none = legal_at_once(s.b, most=0)
    return total * 2 + len(none) + rng.choice(moves) + moves[0]


CASES = [
    arguments_by_name, reversed_loops, lengths, dicts, lists_of_the_module, powers, asserted, tuples, tuples_as_indices,
    queue, queue_of_tuples, queues_of_types, queue_in_helpers, order_of_effects, stack, counters, lists_in_loops,
    lists_of_helpers,
]  # fmt: skip
NARROW_CASES = [narrow]
"""NumPy would compute with elements of narrow arrays in their own width."""
