"""Speed next to other libraries, in one run: TorchRL's AsyncEnvPool, gymnax inside lax.scan, EnvPool's xla().

    python benchmarks/clients.py torchrl    # in an environment with torchrl
    python benchmarks/clients.py jax        # in an environment with jax and gymnax
    python benchmarks/clients.py ppo        # the same
    python benchmarks/clients.py ant        # in an environment with jax, mujoco and envpool

Turns alternate, and the best of several counts. Times are processor seconds of this process and all of its threads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import vecenv


def best(contestants: dict[str, Callable[[], float]], turns: int = 5) -> dict[str, float]:
    """The smallest result of each, over turns in which they alternate."""
    seen: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, measure in contestants.items():
            seen[name].append(measure())
    return {name: min(values) for name, values in seen.items()}


def report(title: str, results: dict[str, float], unit: str) -> None:
    print(title)
    first = next(iter(results.values()))
    for name, value in results.items():
        print(f"  {name:44} {value:10.1f} {unit}   {first / value:5.1f}x")


def torchrl(num_envs: int = 8, steps: int = 60) -> None:
    """Microseconds per env step of the dispatch of TorchRL's AsyncEnvPool (threads) and of AsyncEnv, on CartPole."""
    from torchrl.envs import AsyncEnvPool, GymEnv

    import vecenv.torchrl

    pool = AsyncEnvPool(
        [lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)] * num_envs, backend="threading"
    )
    envs = vecenv.make("CartPole-v1", num_envs, engine="sync", autoreset="same-step", batch_size=num_envs // 2)
    ours = vecenv.torchrl.AsyncEnv(envs, categorical_action_encoding=True)

    def loop(send: Callable, recv: Callable, roots) -> float:
        started, received = time.process_time(), 0
        send(roots)
        while received < steps * num_envs:
            _, roots = recv(min_get=num_envs // 2)
            received += len(roots)
            roots["action"] = ours.action_spec.rand((len(roots),))
            send(roots)
        seconds = time.process_time() - started
        running = num_envs
        while running:
            running -= len(recv(min_get=1)[1])
        return seconds / received * 1e6

    def with_actions(roots):
        roots["action"] = ours.action_spec.rand((len(roots),))
        return roots

    def theirs() -> float:
        roots = with_actions(pool.reset())
        return loop(pool.async_step_and_maybe_reset_send, pool.async_step_and_maybe_reset_recv, roots)

    def mine() -> float:
        ours.async_reset_send(seed=0)
        roots = with_actions(ours.async_reset_recv(num_envs))
        return loop(ours.async_step_and_maybe_reset_send, ours.async_step_and_maybe_reset_recv, roots)

    results = best({"TorchRL AsyncEnvPool, threads": theirs, "vecenv.torchrl.AsyncEnv, sync": mine})
    report(f"TorchRL: CartPole, {num_envs} envs, CPU time per env step", results, "us")
    pool.close()
    ours.close()


def jax(num_envs: int = 1024, steps: int = 200) -> None:
    """Nanoseconds per env step of a rollout in one lax.scan with gymnax and with xla(), and by calls from NumPy."""
    import gymnax
    import jax
    import jax.numpy as jnp

    weights = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)), jnp.float32)
    env, parameters = gymnax.make("CartPole-v1")

    @jax.jit
    def in_jax(key):
        obs, state = jax.vmap(env.reset, (0, None))(jax.random.split(key, num_envs), parameters)

        def body(carry, key):
            obs, state = carry
            actions = jnp.argmax(obs @ weights, 1)
            obs, state, *_ = jax.vmap(env.step, (0, 0, 0, None))(
                jax.random.split(key, num_envs), state, actions, parameters
            )
            return (obs, state), None

        return jax.lax.scan(body, (obs, state), jax.random.split(key, steps))[0][0]

    envs = vecenv.make("CartPole-v1", num_envs, autoreset="same-step")
    first, _ = envs.reset(seed=0)
    handle, _, _, step = envs.xla()

    @jax.jit
    def through_xla(handle, obs):
        def body(carry, _):
            handle, obs = carry
            handle, (obs, *_) = step(handle, jnp.argmax(obs @ weights, 1))
            return (handle, obs), None

        return jax.lax.scan(body, (handle, obs), None, length=steps)[0]

    state = {"handle": handle, "obs": jnp.asarray(first)}

    def ours() -> float:
        def run() -> None:
            state["handle"], state["obs"] = jax.block_until_ready(through_xla(state["handle"], state["obs"]))

        return _cpu_nanoseconds(run, num_envs * steps)

    def gymnax_scan() -> float:
        return _cpu_nanoseconds(lambda: jax.block_until_ready(in_jax(jax.random.PRNGKey(0))), num_envs * steps)

    plain = vecenv.make("CartPole-v1", num_envs, autoreset="same-step")
    plain.reset(seed=0)
    numpy_weights = np.asarray(weights)

    def from_numpy() -> float:
        def run() -> None:
            obs = plain.step(np.zeros(num_envs, np.int64))[0]
            for _ in range(steps - 1):
                obs = plain.step(np.argmax(obs @ numpy_weights, 1))[0]

        return _cpu_nanoseconds(run, num_envs * steps)

    gymnax_scan(), ours()  # compile
    contestants = {
        "gymnax in one lax.scan": gymnax_scan,
        "vecenv xla() in one lax.scan": ours,
        "vecenv, NumPy": from_numpy,
    }
    report(
        f"JAX: CartPole, {num_envs} envs, {steps} steps, linear policy, CPU time per env step", best(contestants), "ns"
    )


def ppo(num_envs: int = 256, steps: int = 32, updates: int = 10) -> None:
    """Microseconds per env step of PPO in one lax.scan over updates, the same code around gymnax and around xla()."""
    import gymnax
    import jax
    import jax.numpy as jnp

    env, parameters = gymnax.make("CartPole-v1")
    envs = vecenv.make("CartPole-v1", num_envs, autoreset="same-step")
    first, _ = envs.reset(seed=0)
    handle, _, _, xla_step = envs.xla()

    def gymnax_step(state, key, actions):
        keys = jax.random.split(key, num_envs)
        step = jax.vmap(env.step, (0, 0, 0, None))
        obs, state, reward, terminated, truncated, _ = step(keys, state, actions, parameters)
        return state, obs, reward, terminated | truncated

    def vecenv_step(handle, key, actions):
        handle, (obs, reward, terminated, truncated, _) = xla_step(handle, actions)
        return handle, obs, reward, terminated | truncated

    obs, state = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.PRNGKey(0), num_envs), parameters)
    programs = {
        "PPO, gymnax": (jax.jit(_ppo(gymnax_step, steps, updates)), [state, obs]),
        "PPO, vecenv xla()": (jax.jit(_ppo(vecenv_step, steps, updates)), [handle, jnp.asarray(first)]),
    }
    returns: dict[str, float] = {}

    def measure(name: str) -> Callable[[], float]:
        program, begin = programs[name]

        def run() -> None:
            begin[:], learnt = jax.block_until_ready(program(begin[0], begin[1], jax.random.PRNGKey(1)))
            returns[name] = float(learnt)

        return lambda: _cpu_nanoseconds(run, num_envs * steps * updates) / 1000

    contestants = {name: measure(name) for name in programs}
    for run in contestants.values():  # compile
        run()
    report(
        f"JAX: PPO on CartPole, {num_envs} envs, {updates} updates of {steps} steps, CPU time per env step",
        best(contestants),
        "us",
    )
    print("  steps per ended episode in the last update:", {name: round(value, 1) for name, value in returns.items()})


def _ppo(env_step: Callable, steps: int, updates: int) -> Callable:
    """PPO with one minibatch and four epochs; returns the state, and steps per ended episode in the last update."""
    import jax
    import jax.numpy as jnp

    def forward(weights, obs):
        hidden = jnp.tanh(obs @ weights[0])
        return hidden @ weights[1], (hidden @ weights[2])[..., 0]

    def loss(weights, obs, actions, old, advantages, targets):
        logits, values = forward(weights, obs)
        logp = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], -1)[..., 0]
        ratio = jnp.exp(logp - old)
        clipped = jnp.minimum(ratio * advantages, jnp.clip(ratio, 0.8, 1.2) * advantages)
        return -clipped.mean() + 0.5 * ((values - targets) ** 2).mean()

    def update(carry, key):
        weights, state, obs = carry

        def act(carry, key):
            state, obs = carry
            draw, move = jax.random.split(key)
            logits, value = forward(weights, obs)
            actions = jax.random.categorical(draw, logits)
            logp = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], 1)[:, 0]
            state, following, reward, done = env_step(state, move, actions)
            return (state, following), (obs, actions, logp, value, reward.astype(jnp.float32), done)

        (state, last), (seen, actions, old, values, rewards, dones) = jax.lax.scan(
            act, (state, obs), jax.random.split(key, steps)
        )

        def back(carry, step):
            advantage, following = carry
            value, reward, done = step
            delta = reward + 0.99 * following * ~done - value
            advantage = delta + 0.99 * 0.95 * advantage * ~done
            return (advantage, value), advantage

        begin = jnp.zeros(last.shape[0]), forward(weights, last)[1]
        advantages = jax.lax.scan(back, begin, (values, rewards, dones), reverse=True)[1]
        normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

        def descend(weights, _):
            gradients = jax.grad(loss)(weights, seen, actions, old, normal, advantages + values)
            return jax.tree.map(lambda weight, gradient: weight - 0.05 * gradient, weights, gradients), None

        weights = jax.lax.scan(descend, weights, None, length=4)[0]
        return (weights, state, last), dones.size / jnp.maximum(dones.sum(), 1)

    def program(state, obs, key):
        keys = jax.random.split(key, 3)
        weights = [
            jax.random.normal(key, shape) * 0.1 for key, shape in zip(keys, ((4, 64), (64, 2), (64, 1)), strict=True)
        ]
        (_, state, obs), lengths = jax.lax.scan(update, (weights, state, obs), jax.random.split(key, updates))
        return [state, obs], lengths[-1]

    return program


def ant(num_envs: int = 16, steps: int = 50) -> None:
    """Microseconds per env step of Ant-v5 in one lax.scan: EnvPool's XLA and ours."""
    import envpool
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)  # EnvPool takes float64 actions alone
    actions = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (steps, num_envs, 8)))

    def scan(step: Callable) -> Callable:
        return jax.jit(
            lambda handle: jax.lax.scan(lambda handle, actions: (step(handle, actions)[0], None), handle, actions)[0]
        )

    theirs = envpool.make("Ant-v5", env_type="gymnasium", num_envs=num_envs, num_threads=1)
    theirs.reset()
    ours = vecenv.make("Ant-v5", num_envs, workers=1)
    ours.reset(seed=0)
    functions = {"EnvPool": theirs.xla(), "vecenv": ours.xla()}
    handles = {name: handle for name, (handle, _, _, _) in functions.items()}
    programs = {name: scan(step) for name, (_, _, _, step) in functions.items()}

    def measure(name: str) -> Callable[[], float]:
        def run() -> None:
            handles[name] = jax.block_until_ready(programs[name](handles[name]))

        return lambda: _cpu_nanoseconds(run, num_envs * steps) / 1000

    contestants = {"EnvPool, xla()": measure("EnvPool"), "vecenv, xla()": measure("vecenv")}
    for run in contestants.values():  # compile
        run()
    report(
        f"JAX: Ant-v5, {num_envs} envs, {steps} steps in one lax.scan, one thread, CPU time per env step",
        best(contestants),
        "us",
    )


def _cpu_nanoseconds(run: Callable[[], None], count: int) -> float:
    started = time.process_time()
    run()
    return (time.process_time() - started) / count * 1e9


if __name__ == "__main__":
    questions = {"torchrl": torchrl, "jax": jax, "ppo": ppo, "ant": ant}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(questions)}; default: all")
    names = parser.parse_args().names
    if not set(names) <= set(questions):
        parser.error(f"the names are {', '.join(questions)}")
    for name in names or questions:
        questions[name]()
