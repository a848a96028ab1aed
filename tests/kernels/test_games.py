"""The games that come with vecenv: their rules, what one sees of them, and that they can be played well."""

from __future__ import annotations

import math
from collections import deque

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import vecenv
import vecenv.testing
from vecenv.envs import breakout, four_rooms, snake
from vecenv.envs.breakout import Breakout
from vecenv.envs.four_rooms import FourRooms
from vecenv.envs.snake import Snake
from vecenv.errors import ConfigError
from vecenv.kernel import kernel_of
from vecenv.kernel.language.registry import GAMES

CLASSES = {"FourRooms-v0": FourRooms, "Snake-v0": Snake, "Breakout-v0": Breakout}
IDS = sorted(CLASSES)


def make(id: str, seed: int = 0, **kwargs):
    """The Python env itself, without time limit, just reset."""
    env = vecenv.make_env(id, **kwargs).unwrapped
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


def play_at_random(env, steps: int):
    """Yield what every step of some episodes returns."""
    for _ in range(steps):
        result = env.step(env.action_space.sample())
        yield result
        if result[2]:
            env.reset()


def total_reward(env, player, steps: int) -> float:
    """Reward of one episode, at most so many steps of it."""
    total = 0.0
    for _ in range(steps):
        _, reward, terminated, _, _ = env.step(player(env))
        total += reward
        if terminated:
            break
    return total


def at_random(env) -> int:
    return int(env.action_space.sample())


# All games


@pytest.mark.parametrize("id", IDS)
def test_env_passes_gymnasiums_checker(id):
    check_env(vecenv.make_env(id, render_mode="rgb_array").unwrapped, skip_render_check=False)


@pytest.mark.parametrize("id", IDS)
def test_time_limit_is_the_same_wherever_it_is_written(id):
    limits = {GAMES[id], kernel_of(CLASSES[id]).max_episode_steps, vecenv.make_env(id).spec.max_episode_steps}
    assert len(limits) == 1


@pytest.mark.parametrize("id", ["FourRooms-v0", "Snake-v0"])
def test_episode_that_nothing_ends_is_truncated_at_the_limit(id):
    env = vecenv.make_env(id, **({"wrap": True} if id == "Snake-v0" else {}))
    env.reset(seed=0)
    ends = [env.step(1 if id == "FourRooms-v0" else env.unwrapped.state.direction)[2:4] for _ in range(GAMES[id])]
    assert ends[:-1] == [(False, False)] * (GAMES[id] - 1)
    assert ends[-1] == (False, True)


@pytest.mark.parametrize("id", IDS)
def test_same_seed_same_game(id):
    one, other = make(id), make(id)
    np.testing.assert_array_equal(one.reset(seed=7)[0], other.reset(seed=7)[0])
    for action in np.random.default_rng(7).integers(0, one.action_space.n, 500):
        mine, yours = one.step(action), other.step(action)
        np.testing.assert_array_equal(mine[0], yours[0])
        assert mine[1:4] == yours[1:4]
        assert str(mine[4]) == str(yours[4])
        if mine[2]:
            np.testing.assert_array_equal(one.reset()[0], other.reset()[0])


@pytest.mark.parametrize("id", IDS)
def test_other_seeds_begin_otherwise(id):
    env = make(id)
    beginnings = {env.reset(seed=seed)[0].tobytes() for seed in range(20)}
    assert len(beginnings) > 10


@pytest.mark.parametrize("id", IDS)
def test_observations_are_in_the_space_and_of_its_type(id):
    env = make(id)
    for obs, reward, terminated, truncated, _ in play_at_random(env, 700):
        assert env.observation_space.contains(obs)
        assert math.isfinite(reward)
        assert isinstance(terminated, bool)
        assert not truncated


@pytest.mark.parametrize("id", IDS)
def test_frames_are_new_rgb_arrays_that_differ_as_the_game_goes_on(id):
    env = make(id, render_mode="rgb_array")
    first = env.render()
    for _ in range(15):
        env.step(2 if id == "FourRooms-v0" else 0)
    second = env.render()
    assert first.dtype == np.uint8
    assert first.shape == second.shape
    assert first.shape[2] == 3
    assert max(first.shape) >= 240
    assert first is not second
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 20
    env.reset(seed=1)
    assert not np.array_equal(env.render(), first)


VARIANTS = [
    (FourRooms, {}),
    (FourRooms, {"slip": 0.3, "step_penalty": 0.01, "see_through": True}),
    (Snake, {}),
    (Snake, {"wrap": True, "start_length": 2, "step_reward": -0.01}),
    (Breakout, {"lives": 1, "life_reward": -1.0}),
    (Breakout, {"paddle_width": 42.0, "ball_speed": 3.0, "spin": 0.5}),  # hits the ball often, even by chance
]


@pytest.mark.parametrize(("definition", "kwargs"), VARIANTS)
def test_native_code_gives_the_same_bits(definition, kwargs):
    vecenv.testing.check_kernel(definition, num_envs=3, steps=120, **kwargs)


# FourRooms


def put_agent(env, y: int, x: int, direction: int) -> None:
    env.state.y, env.state.x, env.state.direction = y, x, direction


def put_goal(env, y: int, x: int) -> None:
    env.state.goal_y, env.state.goal_x = y, x


def way_to_goal(env) -> int:
    """The first action of a shortest way, found by looking at the whole house."""
    s = env.state
    start = (s.y, s.x, s.direction)
    first: dict[tuple[int, int, int], int] = {start: -1}
    queue = deque([start])
    while queue:
        y, x, direction = place = queue.popleft()
        if (y, x) == (s.goal_y, s.goal_x):
            return first[place]
        ahead = (y + four_rooms.DOWN_OF[direction], x + four_rooms.RIGHT_OF[direction], direction)
        nexts = [(y, x, (direction + 3) % 4), (y, x, (direction + 1) % 4), ahead]
        for action, following in enumerate(nexts):
            if not s.walls[following[:2]] and following not in first:
                first[following] = action if place == start else first[place]
                queue.append(following)
    raise AssertionError("there is no way to the goal")


def test_every_house_has_one_door_in_each_inner_wall():
    env = make("FourRooms-v0")
    houses = set()
    for seed in range(50):
        env.reset(seed=seed)
        walls = np.array(env.state.walls)
        houses.add(walls.tobytes())
        assert walls[[0, -1]].all()
        assert walls[:, [0, -1]].all()
        assert walls[6, 6] == 1
        for arm in (walls[6, 1:6], walls[6, 7:12], walls[1:6, 6], walls[7:12, 6]):
            assert (arm == 0).sum() == 1
        for y in (0, 6):
            for x in (0, 6):
                assert not walls[y + 1 : y + 6, x + 1 : x + 6].any()
    assert len(houses) > 40


def test_agent_and_goal_start_on_different_cells_of_any_room():
    env = make("FourRooms-v0")
    starts, goals, directions = set(), set(), set()
    for seed in range(400):
        env.reset(seed=seed)
        s = env.state
        assert (s.y, s.x) != (s.goal_y, s.goal_x)
        assert s.walls[s.y, s.x] == s.walls[s.goal_y, s.goal_x] == 0
        starts.add((s.y > 6, s.x > 6))
        goals.add((s.y > 6, s.x > 6, s.goal_y > 6, s.goal_x > 6))
        directions.add(s.direction)
    assert (len(starts), len(goals), len(directions)) == (4, 16, 4)


def test_turns_change_the_direction_and_nothing_else():
    env = make("FourRooms-v0")
    put_agent(env, 3, 3, 0)
    put_goal(env, 11, 11)
    for action, directions in ((four_rooms.LEFT, [3, 2, 1, 0]), (four_rooms.RIGHT, [1, 2, 3, 0])):
        for direction in directions:
            env.step(action)
            assert (env.state.y, env.state.x, env.state.direction) == (3, 3, direction)


@pytest.mark.parametrize(("direction", "end"), [(0, (3, 5)), (1, (5, 3)), (2, (3, 1)), (3, (1, 3))])
def test_walls_block_and_bumps_are_counted(direction, end):
    env = make("FourRooms-v0")
    env.state.walls[6, 1:6] = 1
    env.state.walls[1:6, 6] = 1
    put_goal(env, 11, 11)
    put_agent(env, 3, 3, direction)
    infos = [env.step(four_rooms.FORWARD)[4] for _ in range(4)]
    assert (env.state.y, env.state.x) == end
    assert [info["bumps"] for info in infos] == [0, 0, 1, 2]


def test_goal_ends_the_episode_with_a_reward_that_fades():
    env = make("FourRooms-v0")
    for delay in (0, 10, 40):
        env.reset(seed=0)
        put_agent(env, 2, 2, 0)
        put_goal(env, 2, 4)
        for _ in range(delay):
            assert env.step(four_rooms.LEFT)[1:3] == (0.0, False)
        for _ in range(-delay % 4):
            env.step(four_rooms.LEFT)
        assert env.step(four_rooms.FORWARD)[1:3] == (0.0, False)
        _, reward, terminated, _, _ = env.step(four_rooms.FORWARD)
        assert terminated
        assert reward == pytest.approx(1.0 - 0.9 * env.state.steps / 100)


def test_reward_of_the_goal_is_never_negative():
    env = make("FourRooms-v0")
    put_agent(env, 2, 2, 0)
    put_goal(env, 2, 3)
    for _ in range(400):
        env.step(four_rooms.LEFT)
    assert env.step(four_rooms.FORWARD)[1:3] == (0.0, True)


def test_step_penalty_and_slip_are_parameters():
    env = make("FourRooms-v0", step_penalty=0.25, slip=0.5)
    moved = []
    for _ in range(200):
        put_agent(env, 2, 2, 0)
        put_goal(env, 11, 11)
        assert env.step(four_rooms.FORWARD)[1] == -0.25
        moved.append(env.state.x == 3)
    assert 60 < sum(moved) < 140


def view_of(y: int, x: int, direction: int, **kwargs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is seen in a house whose doors are in the middle of the walls, goal at (3, 9)."""
    env = make("FourRooms-v0", **kwargs)
    env.state.walls[6, :] = env.state.walls[:, 6] = 1
    for door in ((6, 3), (6, 9), (3, 6), (9, 6)):
        env.state.walls[door] = 0
    put_goal(env, 3, 9)
    put_agent(env, y, x, direction)
    return tuple(env._observe())


def test_view_is_what_is_in_front_of_the_agent_whichever_way_it_looks():
    for y, x, direction in ((3, 5, 0), (5, 9, 3), (3, 11, 2)):
        ahead = abs(y - 3) + abs(x - 9)
        floor, walls, goal = view_of(y, x, direction)
        assert np.argwhere(goal).tolist() == [[6 - ahead, 3]]
        assert floor[6, 3] == 1
        assert not (floor & walls).any()


def test_view_is_not_mirrored():
    floor, walls, goal = view_of(5, 8, 3)  # looks up; the goal is two ahead and one to the right
    assert np.argwhere(goal).tolist() == [[4, 4]]
    assert walls[:, 1].sum() + floor[:, 1].sum() >= 5  # the inner wall, two to the left
    floor, walls, goal = view_of(1, 8, 1)  # looks down; to the left now
    assert np.argwhere(goal).tolist() == [[4, 2]]


def test_walls_hide_what_is_behind_and_doors_do_not():
    floor, walls, goal = view_of(2, 5, 0)  # before the wall, door to the right ahead
    assert walls[5, 3] == 1
    assert not (floor | walls | goal)[:5, :4].any()
    assert floor[5, 4] == 1
    floor, _, goal = view_of(3, 3, 0)  # looks through the door
    assert floor[:, 3].all()
    assert goal[0, 3] == 1


def test_walls_of_glass_hide_nothing():
    floor, walls, goal = view_of(2, 5, 0, see_through=True)
    assert goal.sum() == 1
    assert (floor | walls)[:, 1:].all()
    assert not (floor | walls)[:, 0].any()  # above the house


def test_walls_along_a_room_are_seen():
    _, walls, _ = view_of(1, 1, 0)
    assert walls[1:7, 2].all()  # the outer wall to the left of the agent, up to the inner wall


def test_view_agrees_with_the_house():
    env = make("FourRooms-v0")
    for floor, walls, goal in (result[0] for result in play_at_random(env, 500)):
        s = env.state
        for row in range(7):
            for column in range(7):
                y, x = four_rooms._place(s, 6 - row, column - 3)
                if walls[row, column]:
                    assert s.walls[y, x] == 1
                if floor[row, column]:
                    assert s.walls[y, x] == 0
                assert goal[row, column] == (floor[row, column] and (y, x) == (s.goal_y, s.goal_x))


def test_frame_of_four_rooms_shows_goal_agent_walls_and_light():
    env = make("FourRooms-v0", render_mode="rgb_array")
    put_agent(env, 9, 2, 0)
    put_goal(env, 2, 10)
    frame = env.render()
    assert frame.shape == (312, 312, 3)

    def pixel(y: int, x: int, down: int = 12, right: int = 12) -> tuple[int, ...]:
        return tuple(frame[y * 24 + down, x * 24 + right].tolist())

    assert pixel(2, 10) == four_rooms.GOAL_COLOR
    assert pixel(9, 2, 12, 6) == four_rooms.AGENT_COLOR
    lit, dark = pixel(9, 4), pixel(8, 1)
    assert sum(lit) > sum(dark) + 100
    assert lit == four_rooms.ROOM_COLORS[2] or sum(np.abs(np.subtract(lit, four_rooms.ROOM_COLORS[2]))) < 30
    assert pixel(0, 0) == pixel(0, 5) != pixel(1, 1)


def test_who_knows_the_house_finds_every_goal_and_chance_few():
    env = make("FourRooms-v0")
    planned, random = [], []
    for seed in range(15):
        env.reset(seed=seed)
        planned.append(total_reward(env, way_to_goal, 100))
        env.reset(seed=seed)
        random.append(total_reward(env, at_random, 100))
    assert min(planned) > 0.5
    assert np.mean(planned) > 3 * np.mean(random)


# Snake


def lay(env, cells: list[tuple[int, int]], direction: int, food: tuple[int, int] | None) -> None:
    """Lay the snake on cells, from tail to head."""
    s = env.state
    s.taken[:, :] = 0
    for place, (y, x) in enumerate(cells):
        s.body[place] = y * 10 + x
        s.taken[y, x] = 1
    s.tail, s.length, s.direction, s.alive = 0, len(cells), direction, True
    s.food = snake.NOWHERE if food is None else food[0] * 10 + food[1]


def snake_cells(env) -> list[tuple[int, int]]:
    return [divmod(snake._cell(env.state, place), 10) for place in range(env.state.length)]


def along_the_tour(env) -> int:
    """Go round a tour of all cells, as soon as one need not turn back for it."""
    y, x = snake_cells(env)[-1]
    wanted = tour_from(y, x)
    direction = env.state.direction
    return wanted if wanted != (direction + 2) % 4 else (direction + 1) % 4


def tour_from(y: int, x: int) -> int:
    """Up the first column, and down through the others row by row."""
    if x == 0:
        return snake.UP if y > 0 else snake.RIGHT
    if y % 2 == 0:
        return snake.RIGHT if x < 9 else snake.DOWN
    if y == 9:
        return snake.LEFT
    return snake.LEFT if x > 1 else snake.DOWN


def test_snake_starts_straight_alive_and_with_food_elsewhere():
    for length in (2, 3, 5):
        env = make("Snake-v0", start_length=length)
        directions = set()
        for seed in range(40):
            _, info = env.reset(seed=seed)
            cells = np.array(snake_cells(env))
            moves = np.diff(cells, axis=0)
            s = env.state
            assert info["length"] == len(cells) == length
            assert (moves == (snake.DOWN_OF[s.direction], snake.RIGHT_OF[s.direction])).all()
            assert s.taken.sum() == length
            assert s.taken[divmod(s.food, 10)] == 0
            directions.add(s.direction)
        assert directions == {0, 1, 2, 3}


@pytest.mark.parametrize("asked", [-3, 1, 6])
def test_a_start_length_that_does_not_fit_is_refused(asked):
    with pytest.raises(ConfigError, match=r"'start_length' must be in 2 \.\.\. 5"):
        make("Snake-v0", start_length=asked)


def test_snake_moves_and_keeps_its_length():
    env = make("Snake-v0")
    lay(env, [(5, 3), (5, 4), (5, 5)], snake.RIGHT, food=(0, 0))
    _, reward, terminated, _, info = env.step(snake.UP)
    assert snake_cells(env) == [(5, 4), (5, 5), (4, 5)]
    assert (reward, terminated, info["length"]) == (0.0, False, 3)


def test_snake_grows_by_one_when_it_eats():
    env = make("Snake-v0")
    lay(env, [(5, 3), (5, 4), (5, 5)], snake.RIGHT, food=(5, 6))
    _, reward, terminated, _, info = env.step(snake.RIGHT)
    assert snake_cells(env) == [(5, 3), (5, 4), (5, 5), (5, 6)]
    assert (reward, terminated, info["length"]) == (1.0, False, 4)
    assert env.state.food != 56


@pytest.mark.parametrize(
    ("head", "direction"), [((0, 5), snake.UP), ((5, 9), snake.RIGHT), ((9, 5), snake.DOWN), ((5, 0), snake.LEFT)]
)
def test_snake_dies_at_every_wall_and_wraps_if_there_is_none(head, direction):
    y, x = head
    down, right = snake.DOWN_OF[direction], snake.RIGHT_OF[direction]
    cells = [(y - down * behind, x - right * behind) for behind in (2, 1, 0)]
    env = make("Snake-v0")
    lay(env, cells, direction, food=(3, 3))
    assert env.step(direction)[1:3] == (-1.0, True)
    assert not env.state.alive
    assert snake_cells(env) == cells
    env = make("Snake-v0", wrap=True)
    lay(env, cells, direction, food=(3, 3))
    assert env.step(direction)[1:3] == (0.0, False)
    assert snake_cells(env)[-1] == ((y + down) % 10, (x + right) % 10)


def test_snake_dies_of_itself_but_not_of_the_tail_that_moves_on():
    square = [(5, 5), (5, 6), (6, 6), (6, 5)]
    env = make("Snake-v0")
    lay(env, square, snake.LEFT, food=(0, 0))
    assert env.step(snake.UP)[1:3] == (0.0, False)
    assert snake_cells(env) == [*square[1:], square[0]]
    lay(env, [(5, 4), *square], snake.LEFT, food=(0, 0))
    assert env.step(snake.UP)[1:3] == (-1.0, True)


def test_snake_goes_straight_on_when_told_to_turn_back():
    env = make("Snake-v0")
    for direction in range(4):
        env.reset(seed=direction)
        env.state.direction = direction
        lay(env, [(5, 5), (5 + snake.DOWN_OF[direction], 5 + snake.RIGHT_OF[direction])], direction, food=(0, 0))
        env.step((direction + 2) % 4)
        assert env.state.direction == direction
        assert snake_cells(env)[-1] == (5 + 2 * snake.DOWN_OF[direction], 5 + 2 * snake.RIGHT_OF[direction])


def test_action_mask_forbids_only_to_turn_back():
    env = make("Snake-v0")
    for _, _, _, _, info in play_at_random(env, 300):
        expected = np.ones(4, np.int8)
        expected[(env.state.direction + 2) % 4] = 0
        np.testing.assert_array_equal(info["action_mask"], expected)
        assert info["action_mask"].dtype == np.int8


def test_body_board_and_observation_agree_and_food_is_never_on_the_snake():
    env = make("Snake-v0", wrap=True)
    for obs, *_ in play_at_random(env, 700):
        head, body, food = obs
        s, cells = env.state, snake_cells(env)
        assert len(set(cells)) == len(cells)
        assert {tuple(cell) for cell in np.argwhere(s.taken).tolist()} == set(cells)
        assert divmod(s.food, 10) not in cells
        assert np.argwhere(head).tolist() == [list(cells[-1])]
        assert np.argwhere(food).tolist() == [list(divmod(s.food, 10))]
        expected = np.zeros((10, 10), np.float32)
        for place, cell in enumerate(cells):
            expected[cell] = (place + 1) / len(cells)
        np.testing.assert_array_equal(body, expected)


def test_food_comes_to_every_free_cell():
    env = make("Snake-v0")
    cells = [(y, x) for y in range(10) for x in range(10) if (y, x) not in ((2, 7), (8, 1), (9, 9))]
    found = set()
    for _ in range(60):
        lay(env, cells, snake.RIGHT, food=None)
        snake._place_food(env.state, env.np_random)
        found.add(divmod(env.state.food, 10))
    assert found == {(2, 7), (8, 1), (9, 9)}


def test_perfect_snake_fills_the_board_which_ends_the_episode():
    env = make("Snake-v0", seed=3)
    total = 0.0
    for _ in range(10_000):
        obs, reward, terminated, _, info = env.step(along_the_tour(env))
        total += reward
        if terminated:
            break
    assert terminated
    assert info["length"] == 100
    assert total == 97.0
    assert env.state.alive
    assert env.state.food == snake.NOWHERE
    assert not obs[snake.FOOD].any()
    assert (obs[snake.BODY] > 0).all()
    assert Snake.render(env.state, env.params).shape == (352, 352, 3)


def test_tour_beats_chance_by_far():
    env = make("Snake-v0")
    tour, random = [], []
    for seed in range(3):
        env.reset(seed=seed)
        tour.append(total_reward(env, along_the_tour, 1000))
        env.reset(seed=seed)
        random.append(total_reward(env, at_random, 1000))
    assert min(tour) > 15
    assert np.mean(random) < 1


def test_rewards_of_snake_are_parameters():
    env = make("Snake-v0", food_reward=5.0, death_reward=-7.0, step_reward=0.5)
    lay(env, [(0, 7), (0, 8)], snake.RIGHT, food=(0, 9))
    assert env.step(snake.RIGHT)[1] == 5.5
    assert env.step(snake.RIGHT)[1:3] == (-6.5, True)


def test_frame_of_snake_shows_food_body_and_meadow():
    env = make("Snake-v0", render_mode="rgb_array")
    lay(env, [(5, 3), (5, 4), (5, 5), (5, 6)], snake.RIGHT, food=(2, 8))
    frame = env.render()

    def middle(y: int, x: int) -> tuple[int, ...]:
        down, right = snake.middle_of(10 * y + x)
        return tuple(frame[int(down), int(right)].tolist())

    assert frame.shape == (352, 352, 3)
    assert middle(2, 8) == snake.FOOD_COLOR
    assert middle(5, 6) == snake.HEAD_COLOR
    assert middle(8, 1) in snake.MEADOW
    assert middle(8, 2) in snake.MEADOW
    assert middle(8, 1) != middle(8, 2)
    greens = [middle(5, x)[1] for x in (3, 4, 5, 6)]
    assert greens == sorted(greens)
    env.state.alive = False
    frame = env.render()
    assert middle(5, 6) == snake.DEAD_COLOR


# Breakout


def throw(env, y: float, x: float, speed_y: float, speed_x: float) -> None:
    """Put the ball somewhere, flying."""
    s = env.state
    s.ball_y, s.ball_x, s.speed_y, s.speed_x = y, x, speed_y, speed_x
    s.speed, s.wait = math.hypot(speed_y, speed_x), 0


def follow_the_ball(env) -> int:
    """Be under the ball, a little off the middle, now to one side and now to the other."""
    s = env.state
    away = s.ball_x + 3.0 * math.sin(s.score + s.bricks_left) - s.paddle
    if abs(away) < env.params.paddle_speed:
        return breakout.STAY
    return breakout.LEFT if away < 0 else breakout.RIGHT


@pytest.mark.parametrize("kwargs", [{}, {"ball_speed": 3.0, "spin": 3.0, "speed_up": 1.0, "paddle_width": 42.0}])
def test_ball_stays_in_the_field_and_out_of_bricks_and_is_never_level(kwargs):
    env = make("Breakout-v0", **kwargs)
    s = env.state
    for step in range(1000):
        _, _, terminated, _, _ = env.step(at_random(env) if step % 3 == 0 else follow_the_ball(env))
        assert 1.0 <= s.ball_x <= 83.0
        assert 9.0 <= s.ball_y < 85.0
        row, column = math.floor((s.ball_y - 14) / 4), int(s.ball_x) // 7
        assert not (0 <= row < 6 and s.bricks[row, column])
        assert math.hypot(s.speed_y, s.speed_x) == pytest.approx(s.speed)
        assert s.speed <= breakout.MAX_SPEED
        assert abs(s.speed_y) >= 0.3 * s.speed
        if terminated:
            env.reset()


def test_ball_hangs_for_ten_steps_and_falls():
    env = make("Breakout-v0")
    heights = [env.state.ball_y]
    for _ in range(12):
        env.step(breakout.STAY)
        heights.append(env.state.ball_y)
    assert heights[:11] == [46.0] * 11
    assert 46.0 < heights[11] < heights[12]


def test_paddle_moves_and_stops_at_the_sides():
    env = make("Breakout-v0", lives=100)
    env.step(breakout.LEFT)
    assert env.state.paddle == 39.5
    env.step(breakout.STAY)
    assert env.state.paddle == 39.5
    env.step(breakout.RIGHT)
    assert env.state.paddle == 42.0
    for action, end in ((breakout.LEFT, 7.0), (breakout.RIGHT, 77.0)):
        for _ in range(40):
            env.step(action)
        assert env.state.paddle == end


def test_ball_bounces_off_the_sides_and_the_ceiling():
    env = make("Breakout-v0")
    env.state.bricks[:, :] = 0
    throw(env, 60.0, 1.5, 0.5, -1.0)
    env.step(breakout.STAY)
    assert env.state.speed_x == 1.0
    throw(env, 60.0, 82.5, 0.5, 1.0)
    env.step(breakout.STAY)
    assert env.state.speed_x == -1.0
    throw(env, 9.5, 40.0, -1.0, 0.5)
    env.step(breakout.STAY)
    assert env.state.speed_y == 1.0


def test_paddle_sends_the_ball_where_it_was_hit():
    env = make("Breakout-v0", spin=0.0, speed_up=0.25)
    speeds = []
    for offset in (-7.0, -3.0, 0.0, 3.0, 7.0):
        throw(env, 76.5, env.state.paddle + offset, 1.0, 0.0)
        env.step(breakout.STAY)
        assert env.state.speed_y < 0.0
        assert env.state.speed == 1.25
        speeds.append(env.state.speed_x)
    assert speeds == sorted(speeds)
    assert speeds[2] == 0.0
    assert speeds[0] == pytest.approx(-1.25 * math.sin(1.0))
    throw(env, 76.5, env.state.paddle + 9.0, 1.0, 0.0)
    env.step(breakout.STAY)
    assert env.state.speed_y == 1.0


def test_brick_vanishes_scores_and_turns_the_ball_round():
    for row, points in enumerate(breakout.POINTS):
        env = make("Breakout-v0", brick_reward=10.0)
        env.state.bricks[row + 1 :, :] = 0
        throw(env, 14 + 4 * (row + 1) + 1.5, 45.0, -1.0, 0.0)
        _, reward, terminated, _, info = env.step(breakout.STAY)
        assert env.state.bricks[row, 6] == 0
        assert (reward, terminated) == (10.0 * points, False)
        assert info["score"] == points
        assert info["bricks_left"] == 71
        assert env.state.speed_y == 1.0


def test_ball_bounces_off_the_side_of_a_brick():
    env = make("Breakout-v0")
    env.state.bricks[:, 5] = 0
    throw(env, 20.0, 40.5, -0.25, 0.75)
    env.step(breakout.STAY)
    assert env.state.bricks[1, 6] == 0
    assert env.state.speed_x == -0.75
    assert env.state.speed_y == -0.25


def test_score_lives_and_rewards_add_up():
    env = make("Breakout-v0", life_reward=-5.0)
    s = env.state
    points = np.array(breakout.POINTS)[:, None]
    for step in range(1000):
        before, lives, score = np.array(s.bricks), s.lives, s.score
        action = at_random(env) if step % 100 > 60 else follow_the_ball(env)
        _, reward, terminated, _, info = env.step(action)
        gone = (before == 1) & (s.bricks == 0)
        assert info["score"] - score == (gone * points).sum()
        assert reward == (gone * points).sum() - 5.0 * (lives - info["lives"])
        assert info["bricks_left"] == s.bricks.sum()
        assert terminated == (info["lives"] == 0)
        if terminated:
            env.reset()


def test_losing_the_last_life_ends_the_episode():
    env = make("Breakout-v0", lives=2)
    ends = []
    for lives in (1, 0):
        throw(env, 83.5, 10.0, 2.0, 0.0)
        _, reward, terminated, _, info = env.step(breakout.STAY)
        assert (reward, info["lives"]) == (0.0, lives)
        assert env.state.ball_y == 46.0
        ends.append(terminated)
    assert ends == [False, True]


def test_new_wall_is_there_when_the_paddle_has_the_ball_again():
    env = make("Breakout-v0")
    s = env.state
    s.bricks[:, :] = 0
    s.bricks[5, 6] = 1
    s.bricks_left = 1
    throw(env, 39.5, 45.0, -1.0, 0.0)
    _, reward, terminated, _, info = env.step(breakout.STAY)
    assert (reward, terminated, info["bricks_left"]) == (1.0, False, 0)
    for _ in range(200):
        _, _, _, _, info = env.step(follow_the_ball(env))
        if s.speed_y < 0.0:
            break
        assert info["bricks_left"] == 0
    assert info["bricks_left"] == 72
    assert s.bricks.all()
    assert (info["lives"], info["score"]) == (3, 1)


def test_observation_shows_bricks_paddle_ball_trail_and_lives():
    env = make("Breakout-v0")
    env.state.bricks[2, 3] = 0
    throw(env, 60.0, 30.0, 2.0, 2.0)
    obs, *_ = env.step(breakout.STAY)
    for row in range(6):
        for column in range(12):
            brick = obs[14 + 4 * row : 17 + 4 * row, 7 * column : 7 * column + 6]
            assert (brick == (0 if (row, column) == (2, 3) else breakout.BRICK_SHADES[row])).all()
    assert not obs[14:38, 6::7].any()
    assert (obs[78:81, 35:49] == breakout.PADDLE_SHADE).all()
    assert not obs[78:81, :35].any()
    assert not obs[78:81, 49:].any()
    assert (env.state.ball_y, env.state.ball_x) == pytest.approx((62.0, 32.0))
    assert np.argwhere(obs == 255).tolist() == [[61, 31], [61, 32], [62, 31], [62, 32]]
    assert (obs[59:61, 29:31] == breakout.TRAIL_SHADE).all()
    for lives in (3, 2, 1):
        env.state.lives = lives
        assert (env._observe()[2:5] == breakout.LIFE_SHADE).sum() == lives * 12


def test_paddle_and_ball_are_drawn_whole_at_the_edges():
    env = make("Breakout-v0", paddle_width=9.0)
    for x in (1.0, 83.0):
        for paddle in (4.5, 79.5):
            throw(env, 60.0, x, 1.0, 0.0)
            env.state.paddle = paddle
            obs = env._observe()
            assert (obs == 255).sum() == 4
            assert (obs[78:81] == breakout.PADDLE_SHADE).sum() == 27


def test_frame_of_breakout_shows_bricks_paddle_ball_and_lives():
    env = make("Breakout-v0", render_mode="rgb_array")
    env.state.bricks[2, 3] = 0
    throw(env, 60.0, 30.0, 2.0, 2.0)
    frame = env.render()

    def pixel(y: float, x: float) -> tuple[int, ...]:
        return tuple(frame[int(4 * y), int(4 * x)].tolist())

    assert frame.shape == (336, 336, 3)
    for row in range(6):
        assert pixel(14 + 4 * row + 2, 7 * 5 + 3.5) == breakout.BRICK_COLORS[row]
    assert pixel(14 + 4 * 2 + 2, 7 * 3 + 3.5) not in breakout.BRICK_COLORS
    assert pixel(60, 30) == breakout.BALL_COLOR
    assert pixel(79.5, 42) == breakout.PADDLE_COLOR
    hearts = [pixel(3.5, 5 + 6 * life) for life in range(4)]
    assert [heart == breakout.LIFE_COLOR for heart in hearts] == [True, True, True, False]


def test_who_follows_the_ball_beats_chance_by_far():
    env = make("Breakout-v0", seed=1)
    followed = total_reward(env, follow_the_ball, 1500)
    env.reset(seed=1)
    assert followed > 40
    assert followed > 5 * total_reward(env, at_random, 1500)


def test_games_can_be_made_through_gymnasium():
    for id in IDS:
        env = gymnasium.make(f"vecenv:vecenv/{id}")
        obs, _ = env.reset(seed=0)
        np.testing.assert_array_equal(obs, vecenv.make_env(id).reset(seed=0)[0])
        assert env.step(0)[0] in env.observation_space
        env.close()


def test_our_breakout_is_ours_though_another_package_registers_the_name():
    gymnasium.register_envs(ale_py)
    envs = vecenv.make("Breakout-v0", 2)
    assert envs.engine.name == "compiled"
    vecenv.testing.check_kernel("Breakout-v0", num_envs=2, steps=5)
