"""Tasks of a user, and the same in plain Gymnasium."""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.mujoco import MujocoEnv

from vecenv.kernel.rng import random, uniform
from vecenv.mujoco import Task

ARM = """
<mujoco>
  <option timestep="0.01" integrator="RK4"/>
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body name="upper" pos="0 0 .6">
      <joint name="shoulder" type="hinge" axis="0 1 0" damping=".1"/>
      <geom name="upper" type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body name="lower" pos=".3 0 0">
        <joint name="elbow" type="hinge" axis="0 1 0" damping=".1"/>
        <geom name="lower" type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
        <site name="tip" pos=".3 0 0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="shoulder" gear="5" ctrlrange="-1 1" ctrllimited="true"/>
    <motor joint="elbow" gear="3" ctrlrange="-1 1" ctrllimited="true"/>
  </actuator>
</mujoco>
"""


class Arm(Task, id="TestArm-v0", max_episode_steps=40):
    """Hold the tip of an arm up."""

    model = ARM
    frame_skip = 2
    observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float64)
    state = {"target": float}
    info = {"height": float}
    step_info = {"effort": float}
    model_params = ("body_mass", "geom_friction", "gravity")

    class Params:
        noise = 0.1
        cost = 0.01

    def reset(s: Any, rng: Any, p: Any) -> None:
        for k in range(2):
            s.qpos[k] += uniform(rng, -p.noise, p.noise)
        s.target = uniform(rng, 0.2, 1.0)

    def begin(s: Any, p: Any) -> None:
        s.height = s.site_xpos[0, 2]

    def reward(s: Any, action: Any, p: Any) -> float:
        s.height = s.site_xpos[0, 2]
        s.effort = action[0] * action[0] + action[1] * action[1]
        return -abs(s.height - s.target) - p.cost * s.effort

    def terminated(s: Any, p: Any) -> bool:
        return s.height < 0.05

    def observe(s: Any, obs: Any, p: Any) -> None:
        obs[0:2] = s.qpos
        obs[2:4] = s.qvel
        obs[4] = s.site_xpos[0, 0]
        obs[5] = s.site_xpos[0, 2]
        obs[6] = s.cfrc_ext[2, 5]
        obs[7] = s.target


class GymnasiumArm(MujocoEnv):
    """The same, as one writes it for Gymnasium."""

    metadata = {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"], "render_fps": 50}

    def __init__(self, file: str, noise: float = 0.1, cost: float = 0.01, **changes: Any) -> None:
        self.noise, self.cost = noise, cost
        space = spaces.Box(-np.inf, np.inf, (8,), np.float64)
        super().__init__(file, 2, space)
        for name, value in changes.items():
            (self.model.opt.gravity if name == "gravity" else getattr(self.model, name))[...] = value

    def observation(self) -> np.ndarray:
        data = self.data
        tip = data.site_xpos[0]
        return np.concatenate([data.qpos, data.qvel, [tip[0], tip[2], data.cfrc_ext[2, 5], self.target]])

    def reset_model(self) -> np.ndarray:
        qpos = self.init_qpos + self.np_random.uniform(-self.noise, self.noise, 2)
        self.target = self.np_random.uniform(0.2, 1.0)
        self.set_state(qpos, self.init_qvel)
        return self.observation()

    def _get_reset_info(self) -> dict[str, float]:
        return {"height": self.data.site_xpos[0, 2]}

    def step(self, action: np.ndarray) -> Any:
        self.do_simulation(action, self.frame_skip)
        height = self.data.site_xpos[0, 2]
        first, second = map(float, action)
        effort = first * first + second * second
        reward = -abs(height - self.target) - self.cost * effort
        return self.observation(), reward, bool(height < 0.05), False, {"height": height, "effort": effort}


class Law(Task):
    """What LawEnv does, but for its infos; the simulation swings along."""

    model = ARM
    observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float64)
    action_space = spaces.Discrete(3)
    state = {"episode": int, "step": int, "drawn": float, "last": int, "gain": float, "ended": bool}

    class Params:
        index = 0
        bonus = 0.0

    def reset(s: Any, rng: Any, p: Any) -> None:
        s.episode += 1
        s.step = 0
        s.drawn = random(rng)
        s.last = -1
        s.qpos[0] = s.drawn

    def control(s: Any, action: Any, rng: Any, p: Any) -> None:
        s.ctrl[0] = action - 1
        s.last = action
        s.drawn = random(rng)
        s.gain = random(rng) + p.bonus

    def reward(s: Any, action: Any, p: Any) -> float:
        s.step += 1
        s.ended = s.step >= 3 + p.index
        return s.gain

    def terminated(s: Any, p: Any) -> bool:
        return s.ended and s.episode % 2 == 0

    def truncated(s: Any, p: Any) -> bool:
        return s.ended and s.episode % 2 == 1

    def observe(s: Any, obs: Any, p: Any) -> None:
        obs[0] = p.index
        obs[1] = s.episode
        obs[2] = s.step
        obs[3] = s.drawn
        obs[4] = s.last


class Explosive(Task, max_episode_steps=20):
    """A simulation that goes wrong when it is told to."""

    model = ARM
    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
    step_info = {"count": int}
    state = {"steps": int}

    def reset(s: Any, rng: Any, p: Any) -> None:
        s.qpos[0] = uniform(rng, -1.0, 1.0)
        s.steps = 0

    def control(s: Any, action: Any, rng: Any, p: Any) -> None:
        s.ctrl[:] = action
        if action[0] > 0.99:
            s.qvel[0] = 1e12

    def reward(s: Any, action: Any, p: Any) -> float:
        s.steps += 1
        s.count = s.steps
        return 1.0

    def observe(s: Any, obs: Any, p: Any) -> None:
        obs[0:2] = s.qpos
        obs[2:4] = s.qvel
