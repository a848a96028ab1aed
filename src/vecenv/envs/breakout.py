"""Breakout: keep a ball in play and break the bricks of a wall with it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color, between
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import uniform

SIZE = 84
CEILING = 8
ROWS, COLUMNS = 6, 12
BRICK_HEIGHT, BRICK_WIDTH = 4, 7
"""Size of a place in the wall; bricks are drawn one pixel smaller, and the joint counts as brick."""
WALL_TOP = 14
POINTS = (3, 3, 2, 2, 1, 1)
"""Points for a brick, by row from the top."""
PADDLE_TOP, PADDLE_HEIGHT = 78, 3
RADIUS = 1.0
"""Size of the ball, which is drawn as 2 x 2 pixels."""
MAX_SPEED = 3.0
PADDLE_ANGLE, MAX_ANGLE, SERVE_ANGLE = 1.0, 1.2, 0.6
"""Largest angles to the vertical, in radians: off the end of the paddle, of any flight, and of a serve."""
SERVE_Y = 46.0
SERVE_WAIT = 10
LIMIT = 10_000

STAY, LEFT, RIGHT = 0, 1, 2
LINE_SHADE, LIFE_SHADE, TRAIL_SHADE, PADDLE_SHADE, BALL_SHADE = 80, 150, 100, 200, 255
BRICK_SHADES = (220, 205, 190, 175, 160, 145)
SHOWN_LIVES = 9

SCALE = 4
"""Pixels of a frame per pixel of the observation."""
BRICK_COLORS: tuple[Color, ...] = (
    (239, 83, 110),
    (247, 126, 88),
    (250, 186, 82),
    (118, 204, 120),
    (72, 178, 214),
    (132, 126, 230),
)
SKY: tuple[Color, Color] = ((18, 18, 40), (44, 32, 74))
BALL_COLOR: Color = (255, 250, 225)
PADDLE_COLOR: Color = (226, 232, 248)
LIFE_COLOR: Color = (255, 120, 140)


@kernel("Breakout-v0", max_episode_steps=LIMIT)
class Breakout:
    """A paddle, a ball, and a wall of 6 x 12 bricks.

    Actions: 0 stays, 1 moves the paddle left, 2 moves it right.

    Where the ball hits the paddle decides its direction: straight up from the middle, slanting from the ends. Every
    such hit makes it a little faster. A ball that passes the paddle costs a life; the next one waits below the wall for
    ten steps and then falls. When all bricks are gone, a new wall appears the next time the ball hits the paddle. The
    episode ends with the last life.

    Observation: a grey picture of 84 x 84 pixels. The ball has a dimmer trail at its previous position, so one picture
    shows its direction.

    Reward: the points of a brick, 1 in the lowest two rows, then 2, then 3.
    """

    class Params:
        brick_reward = 1.0
        """Reward per point."""
        life_reward = 0.0
        """Reward for losing a life; a penalty if negative."""
        lives = 3
        ball_speed = 1.5
        """Speed of a new ball in pixels per step."""
        speed_up = 0.05
        """Pixels per step that a hit of the paddle adds, up to a speed of 3."""
        spin = 0.05
        """Largest random deflection by the paddle, in radians."""
        paddle_width = 14.0
        """Width of the paddle in pixels."""
        paddle_speed = 2.5

    bounds: ClassVar = {
        "lives": (1, None),
        "ball_speed": (0.5, MAX_SPEED),
        "speed_up": (0.0, MAX_SPEED),
        "spin": (0.0, math.pi),
        "paddle_width": (4.0, SIZE / 2),
        "paddle_speed": (0.0, SIZE),
    }

    observation_space = spaces.Box(0, 255, (SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(3)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}
    state: ClassVar = {
        "bricks": (np.int8, (ROWS, COLUMNS)),
        "paddle": float,
        "ball_y": float,
        "ball_x": float,
        "speed_y": float,
        "speed_x": float,
        "speed": float,
        "trail_y": float,
        "trail_x": float,
        "wait": int,
    }
    info: ClassVar = {"lives": int, "score": int, "bricks_left": int}

    def reset(s, rng, p):
        """Build the wall and place a ball."""
        s.lives = p.lives
        s.score = 0
        s.paddle = SIZE / 2
        _build_wall(s)
        _serve(s, rng, p)

    def step(s, action, rng, p):
        """Move the paddle, then the ball, by at most one pixel at a time."""
        _move_paddle(s, action, p)
        s.trail_y = s.ball_y
        s.trail_x = s.ball_x
        if s.wait > 0:
            s.wait -= 1
            return 0.0, False
        points = 0
        moves = math.ceil(s.speed)
        for _ in range(moves):
            points += _fly_across(s, s.speed_x / moves)
            points += _fly_along(s, s.speed_y / moves)
            _bounce_off_paddle(s, rng, p)
        s.score += points
        reward = p.brick_reward * points
        if s.ball_y - RADIUS >= SIZE:
            reward += p.life_reward
            s.lives -= 1
            _serve(s, rng, p)
        return reward, s.lives <= 0

    def observe(s, obs, p):
        obs[CEILING - 1, :] = LINE_SHADE
        for life in range(min(s.lives, SHOWN_LIVES)):
            obs[2:5, 3 + 6 * life : 7 + 6 * life] = LIFE_SHADE
        for row in range(ROWS):
            top = WALL_TOP + row * BRICK_HEIGHT
            for column in range(COLUMNS):
                if s.bricks[row, column] != 0:
                    left = column * BRICK_WIDTH
                    obs[top : top + BRICK_HEIGHT - 1, left : left + BRICK_WIDTH - 1] = BRICK_SHADES[row]
        _draw_dot(obs, s.trail_y, s.trail_x, TRAIL_SHADE)
        half = _half_width(p)
        left = int(s.paddle - half + 0.5)
        right = int(s.paddle + half + 0.5)
        obs[PADDLE_TOP : PADDLE_TOP + PADDLE_HEIGHT, left:right] = PADDLE_SHADE
        _draw_dot(obs, s.ball_y, s.ball_x, BALL_SHADE)

    def render(s, p) -> np.ndarray:
        """The same picture, larger and in colour."""
        canvas = Canvas(SIZE * SCALE, SIZE * SCALE, SKY[0])
        canvas.fade(*SKY)
        _draw_head_line(canvas, s)
        for row, column in np.argwhere(s.bricks).tolist():
            _draw_brick(canvas, row, column)
        _draw_paddle(canvas, s.paddle, _half_width(p))
        _draw_ball(canvas, s)
        return canvas.frame()


def _build_wall(s):
    s.bricks[:, :] = 1
    s.bricks_left = ROWS * COLUMNS


def _serve(s, rng, p):
    s.ball_y = SERVE_Y
    s.ball_x = uniform(rng, 0.2 * SIZE, 0.8 * SIZE)
    s.trail_y = s.ball_y
    s.trail_x = s.ball_x
    s.speed = p.ball_speed
    angle = uniform(rng, -SERVE_ANGLE, SERVE_ANGLE)
    s.speed_y = s.speed * math.cos(angle)
    s.speed_x = s.speed * math.sin(angle)
    s.wait = SERVE_WAIT


def _half_width(p):
    return p.paddle_width / 2


def _move_paddle(s, action, p):
    half = _half_width(p)
    if action == LEFT:
        s.paddle = max(s.paddle - p.paddle_speed, half)
    elif action == RIGHT:
        s.paddle = min(s.paddle + p.paddle_speed, SIZE - half)


def _fly_across(s, way):
    """Move the ball sideways, or reverse it at an obstacle; return the points of a brick that was hit."""
    x = s.ball_x + way
    if x < RADIUS or x > SIZE - RADIUS:
        s.speed_x = -s.speed_x
        return 0
    points = _smash(s, s.ball_y, x + math.copysign(RADIUS, way))
    if points > 0:
        s.speed_x = -s.speed_x
    else:
        s.ball_x = x
    return points


def _fly_along(s, way):
    """Move the ball up or down, or reverse it at an obstacle; there is no wall below. Return the points, as above."""
    y = s.ball_y + way
    if y < CEILING + RADIUS:
        s.speed_y = -s.speed_y
        return 0
    points = _smash(s, y + math.copysign(RADIUS, way), s.ball_x)
    if points > 0:
        s.speed_y = -s.speed_y
    else:
        s.ball_y = y
    return points


def _smash(s, y, x):
    """Remove the brick at a point; return its points, 0 if there is none."""
    if not (WALL_TOP <= y < WALL_TOP + ROWS * BRICK_HEIGHT and 0.0 <= x < SIZE):
        return 0
    row = int(y - WALL_TOP) // BRICK_HEIGHT
    column = int(x) // BRICK_WIDTH
    if s.bricks[row, column] == 0:
        return 0
    s.bricks[row, column] = 0
    s.bricks_left -= 1
    return POINTS[row]


def _bounce_off_paddle(s, rng, p):
    half = _half_width(p)
    reaches = s.ball_y + RADIUS >= PADDLE_TOP and s.ball_y < PADDLE_TOP + RADIUS
    if s.speed_y <= 0.0 or not reaches or abs(s.ball_x - s.paddle) > half + RADIUS:
        return
    s.speed = min(s.speed + p.speed_up, MAX_SPEED)
    angle = PADDLE_ANGLE * (s.ball_x - s.paddle) / half + p.spin * uniform(rng, -1.0, 1.0)
    angle = min(max(angle, -MAX_ANGLE), MAX_ANGLE)
    s.speed_y = -s.speed * math.cos(angle)
    s.speed_x = s.speed * math.sin(angle)
    if s.bricks_left == 0:
        _build_wall(s)


def _draw_dot(obs, y, x, shade):
    top = int(y - RADIUS + 0.5)
    left = int(x - RADIUS + 0.5)
    obs[top : top + 2, left : left + 2] = shade


def _draw_head_line(canvas: Canvas, s: Any) -> None:
    canvas.box(CEILING * SCALE - 3, 0, 3, SIZE * SCALE, (98, 88, 140))
    for life in range(min(s.lives, SHOWN_LIVES)):
        x = (5 + 6 * life) * SCALE
        canvas.disc(12, x - 3.4, 4.4, LIFE_COLOR)
        canvas.disc(12, x + 3.4, 4.4, LIFE_COLOR)
        canvas.polygon([(13.5, x - 7.4), (13.5, x + 7.4), (22, x)], LIFE_COLOR)
    digits = len(str(s.score))
    canvas.number(8, SIZE * SCALE - 8 - (4 * digits - 1) * 3, s.score, 3, PADDLE_COLOR)


def _draw_brick(canvas: Canvas, row: int, column: int) -> None:
    y, x = (WALL_TOP + row * BRICK_HEIGHT) * SCALE + 1, column * BRICK_WIDTH * SCALE + 1
    height, width = BRICK_HEIGHT * SCALE - 2, BRICK_WIDTH * SCALE - 2
    color = BRICK_COLORS[row]
    canvas.box(y, x, height, width, between(color, SKY[0], 0.35), radius=3)
    canvas.box(y, x, height - 3, width, color, radius=3)
    canvas.box(y + 2, x + 3, 2, width - 6, (255, 255, 255), radius=1, opacity=0.4)


def _draw_paddle(canvas: Canvas, middle: float, half: float) -> None:
    y, x = PADDLE_TOP * SCALE, (middle - half) * SCALE
    height, width = PADDLE_HEIGHT * SCALE, 2 * half * SCALE
    canvas.box(y + 3, x, height, width, (0, 0, 0), radius=6, opacity=0.35)
    canvas.box(y, x, height, width, PADDLE_COLOR, radius=6)
    canvas.box(y, x, height, 10, BRICK_COLORS[0], radius=5)
    canvas.box(y, x + width - 10, height, 10, BRICK_COLORS[0], radius=5)


def _draw_ball(canvas: Canvas, s: Any) -> None:
    y, x = s.ball_y * SCALE, s.ball_x * SCALE
    canvas.glow(y, x, 26, BALL_COLOR, opacity=0.5)
    for share in (3.0, 2.0, 1.0):
        back_y, back_x = s.trail_y * SCALE - y, s.trail_x * SCALE - x
        canvas.disc(y + share * back_y, x + share * back_x, 5.0 - share, BALL_COLOR, opacity=0.45 - 0.12 * share)
    canvas.disc(y, x, 5, BALL_COLOR)
