"""An environment that fails in a worker process: the run goes on, and the failure is replayed afterwards.

    python examples/failing_env_and_replay.py

A robot arm has a bug that it meets about once in 5,000 steps. Eight arms run in two processes. `on_error="restart"`
ends the episode of the arm that fails and begins another; `record="last-episode"` writes what led to the failure to a
small file. `vecenv.replay` runs that episode again, in this process, and it fails in the same step with the same
error. Prints the fault, what the other arms did meanwhile, and the result of the replay. Needs Linux or macOS.
"""

import tempfile

import gymnasium
import numpy as np

import vecenv

CABLE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # metres that are wound up after so many turns to the left


class Arm(gymnasium.Env):
    """Turn left (0), turn right (1), lift (2) or lower (3). Turning left six times in a row is one time too many."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        """Begin somewhere near the middle."""
        super().reset(seed=seed)
        self.height, self.turns = self.np_random.uniform(-1.0, 1.0), 0
        return self.observe(), {}

    def step(self, action):
        """Move, and pay for the cable that is wound up."""
        self.turns = self.turns + 1 if action == 0 else 0
        self.height += {2: 0.1, 3: -0.1}.get(int(action), 0.0)
        return self.observe(), -CABLE[self.turns], abs(self.height) > 2.0, False, {}

    def observe(self):
        """Height and turns."""
        return np.array([self.height, self.turns], np.float32)


def main():
    """Run until an arm fails and 200 steps longer, then replay the failure."""
    with tempfile.TemporaryDirectory() as folder:
        keep = {"on_error": "restart", "record": "last-episode", "record_folder": folder}
        envs = vecenv.make(Arm, 8, engine="process", workers=2, **keep)
        envs.reset(seed=0)
        envs.action_space.seed(0)
        recording, steps, last = None, 0, None
        while last is None or steps < last:
            _, _, _, _, info = envs.step(envs.action_space.sample())
            steps += 1
            if recording is None and "fault" in info:
                env = int(np.flatnonzero(info["_fault"])[0])
                fault = {name: values[env] for name, values in info["fault"].items()}
                recording, last = fault["recording"], steps + 200
                print(f"step {steps}: env {env} raised {fault['kind']}: {fault['message']}")
        print(f"the run went on to step {steps} with {envs.num_envs} arms")
        envs.close()

        replay = vecenv.replay(recording, trust=True)
        print(replay.text)
        print(replay.failure.traceback.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
