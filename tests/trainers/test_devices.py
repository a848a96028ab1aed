"""Devices: what learns is on the device, what acts is where it should be, and nothing comes back by a side door.

There is no GPU here. torch's "meta" device has tensors without data: an operation on tensors of two devices, a
`.numpy()` or a `float()` of one of them is an error, so a training that runs on it has all its tensors on the device.
"""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import vecenv
from tests.trainers.test_trainers import SMALL, SOFT, VARIANTS, vector
from vecenv.errors import ConfigError
from vecenv.trainers import DQN, PPO, SAC, DQNConfig, PPOConfig, SACConfig, _device

DEEP = DQNConfig(num_envs=2, capacity=500, warmup=20, minibatch=16, hidden=(16,), report=10)
META = torch.device("meta")
MODULES = ("ppo", "_device_rollout", "_off_policy", "_trainer", "_distributions", "_soft_networks")
CASES = {
    **{name: (PPO, "CartPole-v1", PPOConfig(**changes)) for name, changes in VARIANTS.items()},
    "target kl": (PPO, "CartPole-v1", PPOConfig(**SMALL, target_kl=0.01, clip_value=0.2, entropy=lambda left: 0.01)),
    "masks": (PPO, "Taxi-v3", PPOConfig(**SMALL, mask="action_mask")),
    "box": (PPO, "Pendulum-v1", PPOConfig(**SMALL, normalize_obs=True)),
    "sac": (SAC, "Pendulum-v1", SOFT),
    "sac, priorities": (SAC, "Pendulum-v1", SACConfig(**{**vars(SOFT), "priority": 0.6, "n_step": 3})),
    "dqn": (DQN, "CartPole-v1", DEEP),
    "dqn, all": (DQN, "CartPole-v1", DQNConfig(**{**vars(DEEP), "dueling": True, "priority": 0.6, "n_step": 3})),
}
COPIES = ("_to_copy", "copy_", "_pin_memory")


class OneDevice(TorchDispatchMode):
    """Every operation is on one device, except for copies; single numbers may be on the CPU, as torch allows."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        devices = {
            leaf.device.type
            for leaf in tree_leaves((args, kwargs or {}))
            if isinstance(leaf, torch.Tensor) and leaf.dim() > 0
        }
        assert len(devices) <= 1 or any(name in str(function) for name in COPIES), f"{function} on {devices}"
        return function(*args, **(kwargs or {}))


@pytest.fixture
def no_data(monkeypatch):
    """The two ways back to the host give zeros and old weights where there is no data."""
    real = _device.host
    read = []

    def host(tensor):
        if not getattr(tensor, "is_meta", False):
            return real(tensor)
        read.append(tuple(tensor.shape))
        return np.zeros(tuple(tensor.shape), real(torch.zeros(1, dtype=tensor.dtype)).dtype)

    for module in MODULES:
        monkeypatch.setattr(f"vecenv.trainers.{module}.host", host)

    def refresh(self):
        for tensor in (self._flat.vector, *self.network.buffers()):
            tensor.zero_()

    monkeypatch.setattr(_device.ActingCopy, "refresh", refresh)
    return read


@pytest.mark.parametrize("case", CASES)
def test_all_that_learns_is_on_the_device(case, no_data):
    algorithm, env_id, config = CASES[case]
    trainer = algorithm(env_id, config, seed=0, device=META)
    parts = [(name, part) for name, part in vars(trainer).items() if isinstance(part, torch.nn.Module)]
    for name, module in parts:
        for part in (*module.parameters(), *module.buffers()):
            assert part.device.type == ("cpu" if name == "acting" else "meta"), name
    with OneDevice():
        trainer.learn(128)
    assert trainer.updates > 0
    # Of an update, what comes back are losses, one number each, and errors as priorities.
    assert set(no_data) <= {(), (config.minibatch,)}


@pytest.mark.parametrize("case", ["box", "sac", "dqn"])
def test_what_acts_on_the_device_too_sends_only_what_envs_and_buffers_need(case, no_data):
    algorithm, env_id, config = CASES[case]
    trainer = algorithm(env_id, config, seed=0, device=META, act_device=META)
    assert trainer.acting is trainer.network
    with OneDevice():
        trainer.learn(128)
    assert trainer.updates > 0
    assert all(shape[:1] in ((), (config.num_envs,)) for shape in no_data)


def test_a_copy_that_acts_learns_the_same_as_one_network(monkeypatch):
    """Pretend that the CPU is another device: the copy acts with the weights that were learnt, bit for bit."""
    for algorithm, env_id, config in (CASES["lstm"], CASES["sac"], CASES["dqn"]):
        plain = algorithm(env_id, config, seed=1).learn(256)
        apart = algorithm(env_id, config, seed=1)
        apart._copy = _device.ActingCopy(apart.network, apart._flat_network(), _device.CPU)
        apart.acting = apart._copy.network
        apart.learn(256)
        assert torch.equal(vector(plain), vector(apart))


def test_tensors_on_the_device_are_used_as_they_are_and_arrays_share_memory():
    tensor, array = torch.zeros(3), np.zeros(3, np.float32)
    found = _device.put({"a": tensor, "b": array}, _device.CPU)
    assert found["a"] is tensor
    found["b"][0] = 1
    assert array[0] == 1
    assert _device.put(array, torch.device("meta")).is_meta


class Transfers(TorchDispatchMode):
    """Counts copies from the CPU to another device."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        before = [leaf.device.type for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        self.count += isinstance(found, torch.Tensor) and found.device.type == "meta" and "cpu" in before
        return found


def test_a_rollout_is_one_transfer_and_nothing_in_it_has_double_precision():
    tree = {"obs": (np.zeros((3, 2)), np.zeros((3, 1), np.bool_)), "actions": np.zeros(3, np.int64),
            "there": torch.zeros(3, device="meta"), "none": np.zeros((0, 2), np.float32)}  # fmt: skip
    with Transfers() as transfers:
        found = _device.Transfer(torch.device("meta")).put(tree)
    assert transfers.count == 1
    assert {leaf.device.type for leaf in tree_leaves(found)} == {"meta"}
    assert [(leaf.dtype, tuple(leaf.shape)) for leaf in tree_leaves(found)] == [
        (torch.float32, (3, 2)), (torch.bool, (3, 1)), (torch.int64, (3,)), (torch.float32, (3,)),
        (torch.float32, (0, 2)),
    ]  # fmt: skip
    for device in ("cpu", "meta"):
        assert _device.put(np.zeros(2), torch.device(device)).dtype == torch.float32


def test_what_is_sent_together_arrives_unchanged():
    """Pretend that the CPU is another device; a second, smaller transfer uses the same buffer."""
    transfer, generator = _device.Transfer(_device.CPU), np.random.default_rng(0)
    for rows in (7, 3):
        leaves = [
            torch.from_numpy(generator.normal(size=(rows, 3)).astype(np.float32)),
            torch.from_numpy(generator.random((rows, 1)) < 0.5),
            torch.from_numpy(generator.integers(0, 9, rows)),
            torch.from_numpy(generator.integers(0, 255, (rows, 2, 5)).astype(np.uint8)).transpose(1, 2),
        ]
        for sent, leaf in zip(transfer._send(leaves), leaves, strict=True):
            assert torch.equal(sent, leaf)


@pytest.mark.gpu
def test_transfers_in_a_row_do_not_overwrite_each_other():
    transfer = _device.Transfer(torch.device("cuda"))
    sent = [transfer.put(np.full(1 << 22, number, np.float32)) for number in range(20)]
    assert [float(one.min()) for one in sent] == [float(one.max()) for one in sent] == list(range(20))


def test_the_faster_device_is_measured():
    first, second = torch.device("cpu"), torch.device("meta")
    slow = {first: 30_000, second: 1}
    assert _device.faster_of([first, second], lambda device: sum(range(slow[device]))) == second
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL), device="cpu")
    trainer._measure = True
    trainer.learn(64)
    assert (trainer.act_device, trainer._measure) == (_device.CPU, False)


def test_wrong_devices_are_refused_before_envs_are_made(monkeypatch):
    made = []
    monkeypatch.setattr("vecenv.trainers._collect.make", lambda *args, **options: made.append(args))
    for device, message in (
        ("gpu", 'must be "auto"'),
        ("meta", 'must be "auto"'),
        ("mps", "is not available"),
        ("cuda", "not available"),
    ):
        if device == "cuda" and torch.cuda.is_available():
            continue
        with pytest.raises(ConfigError, match=message):
            PPO("CartPole-v1", device=device)
    with pytest.raises(ConfigError, match="act_device must be 'cpu' or the device"):
        PPO("CartPole-v1", device="cpu", act_device=META)
    assert not made


def test_a_policy_computes_on_the_device_it_is_moved_to():
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL), seed=0)
    policy = trainer.policy
    assert policy.device.type == "cpu"
    assert policy.to(META).device.type == "meta"
    assert policy.device.type == "cpu"
    obs = np.zeros((3, 4), np.float32)
    np.testing.assert_array_equal(policy.to("cpu")(obs), policy(obs))
    np.testing.assert_array_equal(policy(torch.zeros(3, 4)), policy(obs))
    with pytest.raises(NotImplementedError, match="meta"):
        policy.to(META)(obs)
    assert vecenv.evaluate(policy, "CartPole-v1", episodes=2).returns.shape == (2,)
