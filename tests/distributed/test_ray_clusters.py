"""Clusters: started and ended, joined and left alone, too small, shared, and losing a node."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import ray

import vecenv
from vecenv.errors import ConfigError, EngineRefused, EnvError, MissingExtra, NoResources, WorkerTimeout


def run_script(text: str) -> str:
    """Run a script in a process of its own, with warnings as errors; what it printed."""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", text],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_cluster_is_started_and_ends_with_its_last_user() -> None:
    out = run_script("""
import time, ray, vecenv
from vecenv.errors import WorkerDied
from vecenv.testing import FaultEnv

one = vecenv.make("CartPole-v1", 3, engine="ray", workers=1, num_cpus=0.25)
two = vecenv.make(FaultEnv.many(2, kind="kill"), engine="ray", workers=2, num_cpus=0.25)
one.reset(seed=0), two.reset(seed=0)
one.close()
assert ray.is_initialized()
try:
    two.step([0, 0])
except WorkerDied as error:
    assert error.rows == (1,)
time.sleep(0.5)  # Ray would print by now
two.close()
two.close()
assert not ray.is_initialized()
print(two.engine_reason)
""")
    assert out.startswith("engine='ray' was asked for: 2 actors on 1 nodes")
    assert out.endswith("'sync' in each\n")
    assert "raylet" not in out


@pytest.mark.usefixtures("cluster")
def test_a_cluster_that_is_there_is_used_measured_and_left_alone() -> None:
    address = ray.get_runtime_context().gcs_address
    with vecenv.make("CartPole-v1", 4, engine="ray", workers=4, ray_address=address, num_cpus=0.5) as envs:
        with vecenv.make("CartPole-v1", 4) as reference:
            np.testing.assert_array_equal(envs.reset(seed=3)[0], reference.reset(seed=3)[0])
            for _ in range(30):
                actions = reference.action_space.sample()
                for ours, theirs in zip(envs.step(actions)[:4], reference.step(actions)[:4], strict=True):
                    np.testing.assert_array_equal(ours, theirs)
        assert "'compiled' in each" in envs.engine_reason
        assert envs.call("np_random_seed") == (3, 4, 5, 6)
        assert envs.stats().steps == 4 * 31
        engine: Any = envs.engine
        load = engine.load()
        assert [each.envs for each in load] == [1] * 4
        assert all(each.seconds > 0 and each.cpu_seconds > 0 for each in load)
        crowded = 4 > len(os.sched_getaffinity(0))
        assert ("oversubscribed" in envs.engine_reason) == (load[0].per_processor > 1) == crowded
    assert ray.is_initialized()
    with pytest.raises(ConfigError, match="connected to the cluster"):
        vecenv.make("CartPole-v1", 4, engine="ray", workers=2, ray_address="10.0.0.1:6379")


@pytest.mark.usefixtures("cluster")
def test_actors_that_do_not_fit_are_refused_with_what_is_missing() -> None:
    started = time.monotonic()
    with pytest.raises(NoResources, match=r"8 actors of 1 CPUs each do not fit.*room for 4.*with 4 CPUs.*num_cpus="):
        vecenv.make("CartPole-v1", 8, engine="ray", workers=8)
    with pytest.raises(NoResources, match="1 actors of 64 CPUs"):
        vecenv.make("CartPole-v1", 8, engine="ray", workers=1, num_cpus=64)
    assert time.monotonic() - started < 5
    with vecenv.make("CartPole-v1", 4, engine="ray", workers=1, num_cpus=3):
        with pytest.raises(NoResources, match="1 CPUs are free, others hold the rest"):
            vecenv.make("CartPole-v1", 4, engine="ray", workers=2, start_timeout=1.0)


@pytest.mark.usefixtures("cluster")
def test_what_an_actor_cannot_build_is_said_and_leaves_no_actor() -> None:
    def broken() -> Any:
        raise OSError("no such simulator")

    def forever() -> Any:
        time.sleep(60)

    fine = vecenv.make_env
    with pytest.raises(EnvError, match=r"env 2 \(worker 1, pid \d+\) raised OSError in make: no such simulator"):
        vecenv.make([lambda: fine("CartPole-v1")] * 2 + [broken] * 2, engine="ray", workers=2)
    with pytest.raises(WorkerTimeout, match=r"actor 0 .* did not answer within 20.0 s in make"):
        vecenv.make([forever], engine="ray", workers=1, start_timeout=20.0)  # Ray itself needs some of it
    deadline = time.monotonic() + 10
    while ray.available_resources().get("CPU", 0) < 4:
        assert time.monotonic() < deadline, "actors were left behind"
        time.sleep(0.05)


def test_arguments_of_actors_are_refused_elsewhere() -> None:
    with pytest.raises(ConfigError, match=r"no option ray_address .*use engine='ray'"):
        vecenv.make("CartPole-v1", 2, engine="sync", ray_address="auto")
    with pytest.raises(ConfigError, match="local_engine must be one of"):
        vecenv.make("CartPole-v1", 2, engine="ray", local_engine="ray")
    with pytest.raises(ConfigError, match="num_cpus must be a positive number"):
        vecenv.make("CartPole-v1", 2, engine="ray", num_cpus=0)
    with pytest.raises(EngineRefused, match="there is no kernel"):
        vecenv.make(lambda: vecenv.make_env("CartPole-v1"), 2, engine="ray", local_engine="compiled")


def test_without_ray_the_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vecenv\[ray\]'"):
        vecenv.make("CartPole-v1", 2, engine="ray")


def test_a_node_that_goes_away_is_survived() -> None:
    out = run_script("""
import numpy as np, ray, vecenv
from ray.cluster_utils import Cluster
from vecenv._batch import faults
from vecenv.distributed import Rollouts

faults._FIRST_PAUSE = 0.001
small = {"num_cpus": 2, "object_store_memory": 100 << 20}
checks = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}
head = {**small, "include_dashboard": False, "_system_config": checks}  # so that it is noticed soon
cluster = Cluster(initialize_head=True, head_node_args=head)
gone = cluster.add_node(**small)
cluster.wait_for_nodes()
options = {"workers": 4, "num_cpus": 0.5, "autoreset": "same-step", "ray_address": cluster.address}


def policy(obs):
    return (obs[:, 2] > 0).astype(np.int64)


with Rollouts("CartPole-v1", 8, policy, seed=0, **options) as rollouts:
    before = list(rollouts.collect(10))
    assert not any(fragment.faults for fragment in before)
    lost = [each.actor for each in rollouts.load() if each.node_id == gone.node_id]
    arriving = rollouts.collect(10)
    cluster.remove_node(gone, allow_graceful=False)
    told, rounds = [], 1
    while len(told) < 2 * len(lost):  # its actors live until they notice
        fragments = list(arriving)
        assert sorted(fragment.worker for fragment in fragments) == [0, 1, 2, 3]
        told += [fault["env"] for fragment in fragments for fault in fragment.faults]
        arriving, rounds = rollouts.collect(10), rounds + 1
    assert not [fault for fragment in arriving for fault in fragment.faults]
    assert lost and sorted(told) == sorted(env for actor in lost for env in (2 * actor, 2 * actor + 1)), (told, lost)
    assert all(each.node_id != gone.node_id for each in rollouts.load())
ray.shutdown()
cluster.shutdown()
print("survived", lost)
""")
    assert "survived" in out
