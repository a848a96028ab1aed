"""Functions over arrays as a person writes them. Each changes the state; all work in plain NumPy too."""

import math

import numpy as np

MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]], np.int8)
WEIGHTS = (0.5, 0.25, 0.25)
NEIGHBOURS = [(0, 1), (1, 0), (0, -1), (-1, 0)]
STEP = np.float32(0.1)


def doubled(x, by=2.0):
    return x * by


def row_of(board, row):
    return board[row]


def both(x):
    return x + 1, x[::-1].copy(), x.sum()


def larger(x, y):
    if x.sum() > y.sum():
        return x
    return y


def add_into(out, x):
    out += x


def counted(board, value):
    return np.count_nonzero(board == value)


def in_place(s):
    s.x += s.y
    s.x *= 2
    s.c -= 1
    s.m /= 3.0
    s.u //= 2
    s.q &= s.x > 0
    s.i[1:] += s.i[:-1]


def fields_are_copied(s):
    s.x = s.y
    s.x[0] = 5.0
    s.m = s.x
    s.b = 3
    s.c = np.arange(4)


def overlapping(s):
    s.x[1:] = s.x[:-1]
    s.y[:-1] = s.y[1:] + s.y[:-1]
    s.i[:] = s.i[::-1]
    s.m[1:] = s.m[:-1] * 2
    s.w[:] = s.w.T
    s.w[0] = s.w[:, 1]
    s.w[1:, 1:] = s.w[:-1, :-1]


def masks(s):
    s.x[s.x < 0] = 0.0
    s.b[s.b == 2] = -2
    s.y[s.q] += 1.5
    s.m[s.m > 0.5] *= -1
    s.i[s.i % 2 == 0] = s.c[s.i % 2 == 0]
    s.b[0][s.b[1] > 0] = 9
    s.w[s.x > 0] = s.y
    s.f[~s.q] = 0.3


def views(s):
    row = s.b[1]
    row[0] = 7
    part = s.b[:2, 1:3]
    part[:] = part + 1
    part[1, 1] = -4
    column = s.m[:, s.k]
    column[:] = 0.5
    turned = s.w.T
    turned[0, 1] = 3.25
    back = s.x[::-1]
    back[0] = 9.0
    row_of(s.b, 2)[1] = 6
    first = row_of(s.m, s.k)
    first *= 2


def locals_in_loops(s):
    total = np.zeros(4)
    for turn in range(3):
        total = total + s.x * turn
        scratch = np.zeros(4)
        scratch[turn] = total[turn]
        total += scratch
    s.y = total
    for row in s.m:
        row[:] = row - row.mean()
    for value in s.x * 2:
        s.a += value
    for place, row in enumerate(s.b):
        s.i[place] += row.sum()


def helpers(s):
    s.x = doubled(s.x) + doubled(s.y, by=0.5)
    d = doubled(s.m)
    s.m = d
    up, back, total = both(s.y)
    s.y = up * back
    s.a += total
    best = larger(s.x, s.y)
    best[0] = 100.0
    add_into(s.i, s.c)
    add_into(s.m[1], s.x)
    s.n += counted(s.b, 1) + counted(board=s.b, value=2)
    s.f = doubled(s.f, 0.1)


def counted_on(s):
    s.n = (s.n + 1) % 2
    return 2.5


def values_before_indices(s):
    """The helper changes what the index reads."""
    s.n = 0
    s.m[s.n, 1:] = counted_on(s)
    s.m[int(counted_on(s)) - 2, :2] = s.n
    s.m[:, 0] = counted_on(s)


def repeated_results(s):
    v = s.x.copy()
    for _ in range(3):
        v = doubled(v, 1.1)
        v = np.roll(v, 1) + v
        v = v[::-1]
    s.x = v
    w = s.y
    for _ in range(2):
        w = w + s.x
    s.y = w
    a, b = s.x.copy(), s.y.copy()
    for _ in range(3):
        a, b = a + 1, b * 2
    s.x, s.y = a, b


def conditions(s):
    if np.any(s.x > 0.5) and np.all(s.c != 0):
        s.n += 1
    elif (s.b == 1).sum() > 2 or s.q.any():
        s.n += 2
    while np.sum(s.i) > 3:
        s.i -= 1
    while s.x.max() > 0.25 and s.n < 50:
        s.x = s.x * 0.5
        s.n += 1
    s.y = s.x + 1 if s.x.sum() > 0 else s.y * 2
    s.t = not (s.b > 0).all()
    s.a = s.x.max() if s.q.any() else s.y.min() + s.m.sum()


def selected(s):
    row = s.c[s.c > 0]
    s.n = len(row)
    s.k = row.shape[0]
    for place in range(len(row)):
        s.i[place] = row[place]
    ys, xs = np.nonzero(s.b > 0)
    s.a = ys.sum() * 10.0 + xs.sum()
    for place in range(len(ys)):
        s.b[ys[place], xs[place]] += 1
    cells = np.argwhere(s.b < 0)
    for y, x in cells:
        s.b[y, x] = 0
    places = np.flatnonzero(s.q)
    if len(places) > 0:
        s.a += places[-1] + places.max()
    s.y[places] = -1.0
    where = np.where(s.x > 0)[0]
    s.n += len(where)
    packed = np.concatenate((s.c[s.c != 0], s.c[s.c == 0]))
    s.c = packed
    positive = s.m[s.m > 0]
    s.a += positive.sum() + (positive * 2).sum()


def parts_with_bounds(s):
    s.x[: s.k] = 0.5
    s.x[s.k : s.k + 2] += 1.0
    s.y[s.k :] = s.x[s.k :] * 2
    s.i[1 : s.k + 1] = s.i[: s.k]
    s.a = s.x[: s.k].sum() + s.y[-2:].sum() + s.long[: s.k * 90].sum()
    s.b[s.k, 1:] = s.b[0, :-1]
    s.b[:, s.k] = s.b[:, 0] + 1
    s.m[: s.k + 1, 1:3] *= 2.0
    window = s.b[max(s.k - 1, 0) : s.k + 2, :]
    s.n = window.sum() + window.shape[0]


def flood(s):
    seen = np.zeros((3, 4), dtype=bool)
    queue = np.zeros((12, 2), dtype=np.int64)
    head, tail = 0, 1
    seen[0, 0] = True
    while head < tail:
        y, x = queue[head]
        head += 1
        for dy, dx in NEIGHBOURS:
            ny, nx = y + dy, x + dx
            if 0 <= ny < 3 and 0 <= nx < 4 and not seen[ny, nx] and s.b[ny, nx] >= 0:
                seen[ny, nx] = True
                queue[tail] = ny, nx
                tail += 1
    s.n = tail
    s.b[seen] = 5


def narrow_numbers(s):
    s.n = s.b[0, 0] * 100 + MOVES[s.k, 0] * 50 - MOVES[s.k][1]
    s.k = MOVES.shape[0]
    s.a = STEP * 3 + WEIGHTS[1] * s.f[0] * s.f[1]
    largest = s.c.max() * 100
    s.i[0] = largest + s.b.min() * 300
    for move in MOVES:
        s.n += move[0] * 200
    here = np.array([1, 2], np.int8)
    s.i[1] = here[0] * 1000 + here[1]
    dy, dx = MOVES[1]
    s.i[2] = dy * 300 + dx
    total = 0
    for value in here:
        total += value * 99
    s.i[3] = total


def several_numbers(s):
    s.x[:] = (1.0, s.a, s.n, -0.0)
    s.y[:2] = [s.a, 2]
    s.c[1:3] = 1, 2
    s.m[0] = s.x[0], s.x[1], 3, 4.5
    s.m[1:] = (1, 2, 3, 4)
    s.x = s.x + [1, 2, 3, 4]  # noqa: RUF005
    a, b, c, d = s.y
    s.a = a * 2 + b - c / 3 + d


def physics(s):
    force = np.zeros((3, 4))
    for one in range(3):
        for other in range(3):
            if one != other:
                d = s.m[other] - s.m[one]
                r = math.sqrt((d * d).sum() + 0.1)
                force[one] += d / (r * r * r)
    s.m += force * 0.01
    s.a = np.linalg.norm(s.m[0]) if False else 0.5 * np.sum(force**2)
    turn = np.array([[math.cos(s.a), -math.sin(s.a)], [math.sin(s.a), math.cos(s.a)]])
    s.x[:2] = turn[0] * s.x[0] + turn[1] * s.x[1]


def numbers_and_arrays(s):
    s.a = doubled(s.a) + doubled(3)
    s.x = doubled(s.x)
    s.c = doubled(s.c, 2)
    s.m = doubled(s.m, by=s.x)


def chosen_rows(s):
    row = s.b[0] if s.t else s.b[1]
    row[1] = 4
    values = s.x if s.n > 0 else s.y + 1
    s.a = values.sum()
    s.i[:] = s.b[s.k] if s.q[0] else s.c


def place_of(board, value):
    for y in range(board.shape[0]):
        for x in range(board.shape[1]):
            if board[y, x] == value:
                return y, x
    return 0, 1


def first_free(board):
    place = 0
    while True:
        if board[place // 4, place % 4] <= 0 or place == 11:
            return place // 4, place % 4
        place += 1


def places(s):
    s.b[place_of(s.b, 3)] = 7
    cell = place_of(s.b, 2)
    s.b[cell] += 1
    s.n = s.b[cell] * 10 + s.b[first_free(s.b)]
    s.x[[0, 2]] = 1.5
    s.y = s.x[[3, 2, 1, 0]] + s.y[PLACES]
    s.b[[0, 1], [2, 3]] = 5
    s.m[place_of(s.b, 5)] = 0.25
    s.i[PLACES] = s.i[[1, 1, 2, 2]] + (0, 1, 2, 3)
    y, x = place_of(s.b, 7)
    s.k = (y + x) % 3


def positives(row):
    return row[row > 0]


def parts(row, low):
    """Two selections and a number."""
    return row[row < low], np.flatnonzero(row >= low), row.sum()


def bounded(s):
    row = s.i[s.i != 0]
    more = np.zeros(len(row), int)
    more[:] = row * 2
    ones = np.ones_like(row) + np.full(row.shape, 3) + np.full_like(row > 1, 3) + np.full(row.shape, 2.7, int)
    s.n = more.sum() + ones.sum() + len(row + ones)
    s.i[: len(row)] = row[::-1]
    s.i[len(row) :] = 0
    big = row[row > 2]
    s.k = len(big) % 3
    s.c = np.concatenate((np.where(big > 3, 3, big), np.zeros(4, int)))[:4]
    both = np.concatenate((positives(s.c), row))
    s.a = both.max() if len(both) > 0 else -1.0
    s.t = np.array_equal(row, more // 2) and not np.array_equal(row, both)
    low, at, total = parts(s.c, 2)
    s.a += low.sum() * 0.5 + at.sum() + total
    if len(row) > 0:
        s.a += np.roll(row, 1)[0] + row.argmax() + row.min() + (row == row[0]).sum() + row[-1]
    s.t = s.t or 3 in row
    rows = s.b[s.q[:3]]
    s.n += rows.sum() + (rows > 0).any(axis=1).sum() + rows.shape[0]
    s.b[: len(rows)] = rows + 1
    kept = s.m[s.m.sum(axis=1) > 0]
    kept *= 0.5
    s.m[len(s.m) - len(kept) :] = kept
    for value in positives(s.h):
        s.a += value
    for place, value in enumerate(positives(s.c)):
        s.i[place] -= value


def rotated(s):
    for turn in range(5):
        turned = np.rot90(s.w, turn + s.k)
        s.a += turned[0, 1] * turn
        s.w = np.rot90(turned, -turn)
    turned = np.rot90(s.b)
    s.i[:3] = turned[1]
    s.b = np.rot90(turned, 3) + 1
    s.x = np.rot90(s.w, s.n)[1]
    s.y = np.flip(np.rot90(s.w.T, 2), 0)[:, s.k]
    s.m = np.flipud(np.fliplr(s.m))
    s.w = np.transpose(np.roll(s.w, s.k, axis=0))


def ring(size, value=1):
    around = np.full((size, size), value)
    around[1:-1, 1:-1] = 0
    return around


def sizes_by_helpers(s):
    s.n = ring(4).sum() + ring(3, s.k).sum()
    s.w += ring(4) * 0.5
    cube = s.m[:, :, None] * s.x
    s.m += cube.sum(axis=2) - cube.sum(axis=1)
    s.x += cube.sum(axis=0)[1] + cube.mean(axis=0)[0]
    s.y = (s.m**2).sum(axis=0)


def masks_that_overlap(s):
    s.b[1:][s.b[:-1] > 0] = 4
    s.w[s.w > s.w.T] = -1.0
    s.x[1:][s.q[1:]] = s.x[:-1][s.q[1:]]
    s.m[s.m < 0] = s.m[s.m < 0] * 2
    s.i[s.i > s.i.min()] -= 1
    s.b[s.b == s.b.max()] = s.b.min()


def wholes(s):
    v = np.empty(3)
    v[:] = s.x[:3]
    s.i = np.dot(s.b.T, np.arange(3)) + s.i @ np.eye(4, dtype=int)
    s.n = np.dot(s.i, s.i) + (s.b @ s.i).sum()
    s.a = v.sum()


def bumped(x):
    x += 1
    return x.sum()


def changed_meanwhile(s):
    s.y = s.x[1:].sum() + s.x * bumped(s.x)
    s.m[0] = s.x[::-1] + bumped(s.x)
    s.w[0] = (s.x + 1) * bumped(s.x)
    s.i[place_of(s.b, bumped(s.i))[0]] = bumped(s.i)
    s.i[bumped(s.i) % 4] = bumped(s.i) if s.i.max() > 2 else bumped(s.c)
    s.b[place_of(s.b, 2)] += bumped(s.c) % 3
    s.x[bumped(s.i) % 3 :] += s.x[0]
    s.m[:, bumped(s.c) % 4 : 3] *= s.m[:, :1]
    s.x[::-1][: bumped(s.i) % 5] -= s.x[: bumped(s.c) % 5][0:0].sum()
    s.m[1:] **= 2


def windows(s):
    for k in range(4):
        s.a += (s.x[k : k + 2] * s.y[:2]).sum()  # the last window is cut, and broadcast
        s.n += np.count_nonzero(s.w[k - 1 : k + 1, k : k + 3] > 0)
        s.w[k : k + 2, k : 2 + k] += 1.0
        s.b[s.k : s.k + 2, k : k + 1] = k
        s.b[k - 2 : k, 1:] |= s.b[:1, 1:]
    s.m[:, s.k : s.k + 2] -= s.m[:, :1]
    s.x[s.k + 1 : s.k + 3] = s.x[s.k : s.k + 2][:1] + s.x[0]
    s.u[1 + s.k : 3 + s.k] = 7
    s.y = s.x[s.k : s.k + 1] + s.y


def blocks(s):
    held = s.b.copy()
    s.b[1:] = held[:-1]
    s.m[1:] = s.m[:-1] + s.m[1:]
    s.g = s.m * 2 - s.g
    for value in (3, 259, -253, 0):
        s.n += np.count_nonzero(s.b == value) - 2 * np.count_nonzero(s.u != value)
    value = s.a
    s.n += np.count_nonzero(held == value) + (s.b != value).sum()
    s.w[:3] = held
    s.w[3] = held[s.k]
    s.q = held[1] == s.c


PLACES = [2, 0, 3, 1]
NARROW = [narrow_numbers]
"""NumPy would compute with elements of narrow arrays in their own width; kernels read them as Python's numbers."""
CASES = [
    in_place, fields_are_copied, overlapping, masks, views, locals_in_loops, helpers, repeated_results, conditions,
    selected, parts_with_bounds, flood, several_numbers, physics, chosen_rows, numbers_and_arrays, places, bounded,
    rotated, sizes_by_helpers, masks_that_overlap, wholes, changed_meanwhile, windows, blocks, values_before_indices,
]  # fmt: skip
