"""MinAtar's Seaquest: a submarine that rescues divers, shoots, and needs air."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vecenv.envs._minatar import ACTIONS, DOWN, FIRE, LEFT, RIGHT, SIZE, STAY, UP, actions, draw, planes, stick
from vecenv.kernel.language.define import kernel

USEFUL = tuple(range(ACTIONS))
AIR, FULL = 200, 6
"""The largest amount of oxygen, and of divers on board."""
SPAWN_SPEED, MOVE_SPEED, DIVER_EVERY, DIVER_SPEED, COOLDOWN, SHOT_EVERY = 20, 5, 30, 5, 5, 10
X, Y, TO_RIGHT, TIMER, SHOT_TIMER = 0, 1, 2, 3, 4
"""Columns of the lists of things."""
FISH, DIVERS, BULLETS, TORPEDOES = 48, 8, 8, 64
"""How many of each there is room for. There are never that many."""
FRONT, BACK, BULLET, TRAIL, TORPEDO, FISH_PLANE, SUB, OXYGEN, RESCUED, DIVER = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
LOOKS = (
    ((250, 206, 82), 0.94),
    ((190, 150, 60), 0.8),
    ((255, 250, 225), 0.3),
    ((70, 90, 130), 0.4),
    ((255, 120, 120), 0.3),
    ((118, 204, 120), 0.7),
    ((239, 83, 110), 0.9),
    ((200, 225, 255), 0.6),
    ((72, 178, 214), 0.6),
    ((132, 200, 255), 0.6),
)


@kernel("MinAtar/Seaquest-v0")
@kernel("MinAtar/Seaquest-v1", kwargs={"use_minimal_action_set": True})
class MinAtarSeaquest:
    """Equal to MinAtar's: an enemy that is shot gives 1; surfacing with six divers gives up to 10, by the air left.

    The episode ends when an enemy or a torpedo meets the submarine, when the air is used up, and when it surfaces
    without a diver. Every time it surfaces the game becomes harder, unless `difficulty_ramping` is False.
    Planes: front and back of the submarine, own bullets, trails, torpedoes, fish, enemy submarines, oxygen, rescued
    divers, divers.
    """

    class Params:
        sticky_action_prob = 0.1
        difficulty_ramping = True
        use_minimal_action_set = False

    bounds: ClassVar = {"sticky_action_prob": (0.0, 1.0)}
    observation_space = planes(10)

    def action_space(p):
        return actions(USEFUL, p)

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = {
        "x": int,
        "y": int,
        "to_right": bool,
        "oxygen": int,
        "rescued": int,
        "at_surface": bool,
        "fish": (np.int8, (FISH, 4)),
        "fish_count": int,
        "subs": (np.int8, (FISH, 5)),
        "sub_count": int,
        "divers": (np.int8, (DIVERS, 4)),
        "diver_count": int,
        "bullets": (np.int8, (BULLETS, 3)),
        "bullet_count": int,
        "torpedoes": (np.int8, (TORPEDOES, 3)),
        "torpedo_count": int,
        "spawn_speed": int,
        "spawn_timer": int,
        "diver_timer": int,
        "move_speed": int,
        "ramps": int,
        "cooldown": int,
        "last_action": int,
    }

    def reset(s, rng, p):
        s.x = 5
        s.y = 0
        s.to_right = False
        s.oxygen = AIR
        s.rescued = 0
        s.at_surface = True
        s.fish_count = s.sub_count = s.diver_count = s.bullet_count = s.torpedo_count = 0
        s.spawn_speed = s.spawn_timer = SPAWN_SPEED
        s.diver_timer = DIVER_EVERY
        s.move_speed = MOVE_SPEED
        s.ramps = 0
        s.cooldown = 0
        s.last_action = STAY

    def step(s, action, rng, p):
        action = stick(s, action, rng, p)
        if s.spawn_timer == 0:
            spawn_enemy(s, rng)
            s.spawn_timer = s.spawn_speed
        if s.diver_timer == 0:
            spawn_diver(s, rng)
            s.diver_timer = DIVER_EVERY
        steer(s, action)
        hits = move_bullets(s)
        move_divers(s)
        more, dead = move_subs(s)
        hits += more
        dead |= move_torpedoes(s)
        more, met = move_fish(s)
        reward = float(hits + more)
        dead |= met
        s.spawn_timer = max(s.spawn_timer - 1, 0)
        s.diver_timer = max(s.diver_timer - 1, 0)
        s.cooldown = max(s.cooldown - 1, 0)
        if s.oxygen < 0:
            dead = True
        if s.y > 0:
            s.oxygen -= 1
            s.at_surface = False
        elif not s.at_surface:
            if s.rescued == 0:
                dead = True
            else:
                reward += surface(s, p)
        return reward, dead

    def observe(s, obs, p):
        obs[s.y, s.x, FRONT] = True
        obs[s.y, s.x - 1 if s.to_right else s.x + 1, BACK] = True
        obs[-1, : s.oxygen * SIZE // AIR, OXYGEN] = True
        obs[-1, SIZE - 1 - s.rescued : SIZE - 1, RESCUED] = True
        for x, y, _ in s.bullets[: s.bullet_count]:
            obs[y, x, BULLET] = True
        for x, y, _ in s.torpedoes[: s.torpedo_count]:
            obs[y, x, TORPEDO] = True
        show(obs, s.fish[: s.fish_count], FISH_PLANE)
        show(obs, s.subs[: s.sub_count], SUB)
        show(obs, s.divers[: s.diver_count], DIVER)

    def render(s, p) -> np.ndarray:
        """The board in colour."""
        seen = np.zeros((SIZE, SIZE, 10), bool)
        MinAtarSeaquest.observe(s, seen, p)
        order = (TRAIL, OXYGEN, RESCUED, DIVER, FISH_PLANE, SUB, BACK, FRONT, BULLET, TORPEDO)
        return draw(seen[:, :, order], tuple(LOOKS[plane] for plane in order))


def steer(s, action):
    """Move the submarine, or shoot."""
    if action == FIRE and s.cooldown == 0:
        s.bullets[s.bullet_count] = (s.x, s.y, s.to_right)
        s.bullet_count += 1
        s.cooldown = COOLDOWN
    elif action == LEFT:
        s.x = max(s.x - 1, 0)
        s.to_right = False
    elif action == RIGHT:
        s.x = min(s.x + 1, SIZE - 1)
        s.to_right = True
    elif action == UP:
        s.y = max(s.y - 1, 0)
    elif action == DOWN:
        s.y = min(s.y + 1, SIZE - 2)


def spawn_enemy(s, rng):
    """A fish or, less often, a submarine; none in a row where one goes the other way."""
    to_right = rng.random() < 0.5
    is_sub = rng.random() < 1 / 3
    x = 0 if to_right else SIZE - 1
    y = rng.integers(1, SIZE - 1)
    if meets_traffic(s.fish[: s.fish_count], y, to_right) or meets_traffic(s.subs[: s.sub_count], y, to_right):
        return
    if is_sub:
        s.subs[s.sub_count] = (x, y, to_right, s.move_speed, SHOT_EVERY)
        s.sub_count += 1
    else:
        s.fish[s.fish_count] = (x, y, to_right, s.move_speed)
        s.fish_count += 1


def meets_traffic(things, y, to_right):
    """Whether one of the things in a row goes the other way."""
    return ((things[:, Y] == y) & (things[:, TO_RIGHT] != to_right)).any()


def spawn_diver(s, rng):
    """A diver at the left or right end of a row."""
    to_right = rng.random() < 0.5
    y = rng.integers(1, SIZE - 1)
    s.divers[s.diver_count] = (0 if to_right else SIZE - 1, y, to_right, DIVER_SPEED)
    s.diver_count += 1


def advance(things):
    """Move things by one cell."""
    things[:, X] += np.where(things[:, TO_RIGHT] != 0, 1, -1)


def inside(things):
    """Which things are on the board."""
    return (things[:, X] >= 0) & (things[:, X] < SIZE)


def at_player(s, things):
    """Which things are where the submarine is."""
    return (things[:, X] == s.x) & (things[:, Y] == s.y)


def swim(things, speed):
    """Move things whose timers have run down, and start these again; return which moved."""
    moves = things[:, TIMER] == 0
    things[:, X] += np.where(moves, np.where(things[:, TO_RIGHT] != 0, 1, -1), 0)
    things[:, TIMER] = np.where(moves, speed, things[:, TIMER] - 1)
    return moves


def keep(things, kept):
    """Move the things to be kept to the beginning, in their order; return how many there are."""
    rest = things[kept]
    things[: len(rest)] = rest
    return len(rest)


def move_bullets(s):
    """Own bullets, the newest first; return how many enemies they hit. Of enemies in one cell the oldest is hit."""
    bullets = s.bullets[: s.bullet_count]
    advance(bullets)
    kept = inside(bullets)
    hits = 0
    for place in reversed(range(s.bullet_count)):
        if not kept[place]:
            continue
        x, y = bullets[place, X], bullets[place, Y]
        if shoot(s.fish[: s.fish_count], y, x):
            s.fish_count -= 1
        elif shoot(s.subs[: s.sub_count], y, x):
            s.sub_count -= 1
        else:
            continue
        hits += 1
        kept[place] = False
    s.bullet_count = keep(bullets, kept)
    return hits


def shoot(things, y, x):
    """Remove the first thing at a cell; return whether there is one."""
    for place in range(len(things)):
        if things[place, X] == x and things[place, Y] == y:
            things[place:-1] = things[place + 1 :]
            return True
    return False


def move_divers(s):
    """Divers, who are picked up where they are and where they get to."""
    divers = s.divers[: s.diver_count]
    kept = pick_up(s, divers, np.ones(len(divers), bool))
    swim(divers, DIVER_SPEED)
    kept &= inside(divers)
    s.diver_count = keep(divers, pick_up(s, divers, kept))


def pick_up(s, divers, kept):
    """Take divers on board where the submarine is, while there is room; return which are left."""
    for place in np.flatnonzero(at_player(s, divers) & kept):
        if s.rescued < FULL:
            s.rescued += 1
            kept[place] = False
    return kept


def move_subs(s):
    """Enemy submarines, which shoot torpedoes; return how many are hit, and whether one meets the player."""
    subs = s.subs[: s.sub_count]
    dead = at_player(s, subs).any()
    moved = swim(subs, s.move_speed)
    kept = inside(subs)
    dead |= at_player(s, subs).any()
    shoots = subs[:, SHOT_TIMER] == 0
    subs[:, SHOT_TIMER] = np.where(shoots, SHOT_EVERY, subs[:, SHOT_TIMER] - 1)
    for place in np.flatnonzero(shoots & kept):
        s.torpedoes[s.torpedo_count] = subs[place, :TIMER]
        s.torpedo_count += 1
    hits = run_into_bullets(s, subs, moved, kept)
    s.sub_count = keep(subs, kept)
    return hits, dead


def move_torpedoes(s):
    """Torpedoes of enemies; return whether one meets the player."""
    torpedoes = s.torpedoes[: s.torpedo_count]
    dead = at_player(s, torpedoes).any()
    advance(torpedoes)
    dead |= at_player(s, torpedoes).any()
    s.torpedo_count = keep(torpedoes, inside(torpedoes))
    return dead


def move_fish(s):
    """Fish; return how many are hit, and whether one meets the player."""
    fish = s.fish[: s.fish_count]
    dead = at_player(s, fish).any()
    moved = swim(fish, s.move_speed)
    dead |= at_player(s, fish).any()
    kept = inside(fish)
    hits = run_into_bullets(s, fish, moved, kept)
    s.fish_count = keep(fish, kept)
    return hits, dead


def run_into_bullets(s, enemies, moved, kept):
    """Remove enemies that have moved to a bullet, and the bullet; return how many."""
    hits = 0
    for place in reversed(range(len(enemies))):
        x, y = enemies[place, X], enemies[place, Y]
        if moved[place] and kept[place] and shoot(s.bullets[: s.bullet_count], y, x):
            s.bullet_count -= 1
            kept[place] = False
            hits += 1
    return hits


def surface(s, p):
    """Take in air. One diver leaves; with six on board all are saved, and as in the original the count is then -1."""
    s.at_surface = True
    reward = 0.0
    if s.rescued == FULL:
        s.rescued = 0
        reward = float(s.oxygen * 10 // AIR)
    s.rescued -= 1
    s.oxygen = AIR
    if p.difficulty_ramping and (s.spawn_speed > 1 or s.move_speed > 2):
        if s.move_speed > 2 and s.ramps % 2 == 1:
            s.move_speed -= 1
        if s.spawn_speed > 1:
            s.spawn_speed -= 1
        s.ramps += 1
    return reward


def show(obs, things, plane):
    """Things with their trails."""
    for place in range(len(things)):
        x, y = things[place, X], things[place, Y]
        obs[y, x, plane] = True
        behind = x - 1 if things[place, TO_RIGHT] else x + 1
        if 0 <= behind < SIZE:
            obs[y, behind, TRAIL] = True
