"""Files of VecNormalize: two formats, nothing in them is ever run."""

import builtins
import os
import pickle
import pickletools
import zipfile

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv.sb3
from tests.sb3.test_vec_normalize import BOX, DICT, IMAGE, assert_equal, functions, ours, theirs
from vecenv.errors import ConfigError, SpaceError, UnsafeFile
from vecenv.sb3.dummy_vec_env import DummyVecEnv
from vecenv.sb3.vec_normalize import VecNormalize

BOXES = spaces.Dict({"first": BOX, "second": BOX})
CASES = {
    "box": (BOX, {"clip_obs": 3, "training": False}),
    "image": (IMAGE, {}),
    "dict": (DICT, {"norm_obs_keys": ["image", "vector"]}),
    "rewards only": (DICT, {"norm_obs": False, "gamma": 0.9}),
}


def learnt(make, case):
    space, arguments = CASES[case]
    venv = make(space, **arguments | {"training": True})
    venv.action_space.seed(0)
    venv.observation_space.seed(0)  # so that there is a generator in the pickle
    venv.reset()
    for _ in range(10):
        venv.step([venv.action_space.sample() for _ in range(3)])
    venv.training = arguments.get("training", True)
    return venv


def statistics(venv):
    known = venv.obs_rms if venv.norm_obs else {}
    known = known if isinstance(known, dict) else {"": known}
    return {key: (each.mean, each.var, each.count) for key, each in [*known.items(), ("returns", venv.ret_rms)]}


SETTINGS = ("training", "norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon", "norm_obs_keys")


def assert_same(loaded, saved):
    for name in SETTINGS:
        assert getattr(loaded, name) == getattr(saved, name)
    assert loaded.observation_space == saved.observation_space
    assert loaded.action_space == saved.action_space
    expected = statistics(saved)
    actual = statistics(loaded)
    assert list(actual) == list(expected)
    for key in expected:
        for own, their in zip(actual[key], expected[key], strict=True):
            np.testing.assert_array_equal(own, their)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("format", ["vecenv", "sb3"])
def test_what_was_saved_is_loaded(tmp_path, case, format):
    saved = learnt(ours, case)
    saved.save(tmp_path / "file", format=format)
    assert os.listdir(tmp_path) == ["file"]
    inner = DummyVecEnv(functions(CASES[case][0], 2))
    loaded = VecNormalize.load(str(tmp_path / "file"), inner)
    assert_same(loaded, saved)
    assert (loaded.venv, loaded.num_envs) == (inner, 2)
    loaded.reset()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_of_stable_baselines3_are_read(tmp_path, case, protocol):
    saved = learnt(theirs, case)
    (tmp_path / "file").write_bytes(pickle.dumps(saved, protocol))
    assert_same(VecNormalize.load(tmp_path / "file", DummyVecEnv(functions(CASES[case][0]))), saved)


@pytest.mark.parametrize("case", CASES)
def test_stable_baselines3_reads_ours(tmp_path, case):
    from stable_baselines3.common import vec_env

    saved = learnt(ours, case)
    saved.save(tmp_path / "file", format="sb3")
    inner = vec_env.DummyVecEnv(functions(CASES[case][0]))
    loaded = vec_env.VecNormalize.load(str(tmp_path / "file"), inner)
    assert type(loaded) is vec_env.VecNormalize
    assert_same(loaded, saved)
    saved.venv = DummyVecEnv(functions(CASES[case][0]))
    assert_equal(saved.reset(), loaded.reset())


@pytest.mark.parametrize("make", [ours, theirs])
def test_statistics_survive_while_observations_are_not_normalised(tmp_path, make):
    saved = learnt(make, "box")
    saved.norm_obs = False
    saved.save(tmp_path / "file")
    loaded = VecNormalize.load(tmp_path / "file", DummyVecEnv(functions(BOX)))
    loaded.norm_obs = saved.norm_obs = True
    assert_same(loaded, saved)


def test_old_files_of_stable_baselines3_normalise_all_keys(tmp_path):
    saved = theirs(BOXES)
    saved.reset()
    del saved.norm_obs_keys
    saved.save(tmp_path / "file")
    assert VecNormalize.load(tmp_path / "file", DummyVecEnv(functions(BOXES))).norm_obs_keys == ["first", "second"]


def test_unknown_format_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="format"):
        ours(BOX).save(tmp_path / "file", format="json")  # type: ignore[arg-type]


def test_a_file_of_other_observations_is_refused(tmp_path):
    ours(BOX).save(tmp_path / "file")
    with pytest.raises(SpaceError, match="shapes"):
        VecNormalize.load(tmp_path / "file", DummyVecEnv(functions(IMAGE)))


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    venv = ours(BOX)
    venv.save(tmp_path / "file")
    before = (tmp_path / "file").read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        venv.save(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == before
    assert os.listdir(tmp_path) == ["file"]


# --- files that must not be loaded -----------------------------------------------------------------------------------

RAN = []


class Runs:
    """Pickled, it is a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def note(*arguments):
    RAN.append(arguments)


def hidden_in_state(attack):
    """A file of Stable-Baselines3 with the attack where data belong."""
    venv = learnt(theirs, "box")
    venv.old_obs = attack
    return pickle.dumps(venv)


ATTACKS = {
    "os.system": lambda: pickle.dumps(Runs(os.system, "touch ran")),
    "own function": lambda: pickle.dumps(Runs(note, 1)),
    "eval": lambda: pickle.dumps(Runs(builtins.eval, "__import__('os').system('touch ran')")),
    "exec": lambda: pickle.dumps(Runs(builtins.exec, "open('ran', 'w')")),
    "getattr chain": lambda: pickle.dumps(Runs(getattr, Runs(__import__, "os"), "system")),
    "open": lambda: pickle.dumps(Runs(open, "ran", "w")),
    "hidden in the state": lambda: hidden_in_state(Runs(os.system, "touch ran")),
    "numpy's own eval": lambda: b"cnumpy.testing._private.utils\nrunstring\n(S'import os'\n}tR.",
    "numpy.load": lambda: b"cnumpy\nload\n(S'ran'\ntR.",
    "dotted name": lambda: b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.dump\x93(\x8c\x03rant\x52.",
    "torch storage": lambda: b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
    "persistent id": lambda: b"\x80\x02X\x01\x00\x00\x00aQ.",
    "extension code": lambda: b"\x80\x02\x82\x01.",
    "instance opcode": lambda: b"(S'touch ran'\nios\nsystem\n.",
    "another object": lambda: pickle.dumps({"a": 1}),
    "build on a class": lambda: b"\x80\x02cnumpy\nndarray\n}X\x01\x00\x00\x00aK\x01sb.",
    "huge memo": lambda: b"\x80\x02]r\xff\xff\xff\x7f.",
    "huge bytes": lambda: b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x0f.",
    "empty": lambda: b"",
    "text": lambda: b"hello",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_files_that_run_code_are_refused_and_run_none(tmp_path, monkeypatch, attack):
    monkeypatch.chdir(tmp_path)
    data = ATTACKS[attack]()
    venv = DummyVecEnv(functions(BOX))
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(UnsafeFile, match="nothing was loaded"):
        VecNormalize.load("file", venv)
    assert os.listdir(tmp_path) == ["file"]
    assert not RAN


@pytest.mark.parametrize("format", ["vecenv", "sb3"])
def test_truncated_files_are_refused(tmp_path, format):
    saved = learnt(ours, "box")
    saved.save(tmp_path / "file", format=format)
    data = (tmp_path / "file").read_bytes()
    for length in range(0, len(data), 7):
        (tmp_path / "file").write_bytes(data[:length])
        with pytest.raises(UnsafeFile):
            VecNormalize.load(tmp_path / "file", saved.venv)


@pytest.mark.parametrize("format", ["vecenv", "sb3"])
def test_damaged_files_are_refused_or_harmless(tmp_path, format):
    saved = learnt(ours, "box")
    saved.save(tmp_path / "file", format=format)
    data = (tmp_path / "file").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        wrong = bytearray(data)
        wrong[rng.integers(len(data))] ^= 1 << rng.integers(8)
        (tmp_path / "file").write_bytes(wrong)
        try:
            VecNormalize.load(tmp_path / "file", saved.venv)
        except (UnsafeFile, SpaceError):
            pass  # and nothing else: an archive has checksums, a changed number in a pickle cannot be seen


def rewritten(data, name, content):
    """Our archive with another entry."""
    with zipfile.ZipFile(data) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    entries[name] = content(entries[name])
    with zipfile.ZipFile(data, "w") as archive:
        for entry, value in entries.items():
            archive.writestr(entry, value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("header.json", lambda text: text.replace(b'"version": 1', b'"version": 2'), "update vecenv"),
        ("header.json", lambda text: text.replace(b"vecenv.sb3", b"other"), "does not say that it is 'vecenv"),
        ("header.json", lambda text: text.replace(b'"gamma": 0.99', b'"gamma": "x"'), "settings"),
        (
            "header.json",
            lambda text: text.replace(b'"norm_obs_keys": null', b'"norm_obs_keys": ["a"]'),
            "statistics of",
        ),
        ("header.json", lambda text: text.replace(b"3", b"4", 1), "file"),
        ("header.json", lambda _: b"[]", "does not say"),
        ("obs.0.mean.npy", lambda data: data[:-8] + np.float64(np.nan).tobytes(), "finite"),
        ("obs.0.var.npy", lambda data: data[:-8] + np.float64(-1).tobytes(), "negative"),
        ("obs.0.var.npy", lambda data: data.replace(b"(3,)", b"(2,)"), "not the size"),
        ("obs.0.var.npy", lambda data: data.replace(b"(3,), }", b"(999999999999,), }"), "not the size"),
        ("obs.0.var.npy", lambda data: data.replace(b"<f8", b"|O8"), "Python objects"),
    ],
)
def test_archives_are_checked(tmp_path, name, content, message):
    saved = learnt(ours, "box")
    saved.save(tmp_path / "file")
    rewritten(tmp_path / "file", name, content)
    with pytest.raises((UnsafeFile, SpaceError), match=message):
        VecNormalize.load(tmp_path / "file", saved.venv)


def test_compressed_archives_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "file", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b" " * 10**6)
    with pytest.raises(UnsafeFile, match="compressed"):
        VecNormalize.load(tmp_path / "file", DummyVecEnv(functions(BOX)))


def test_our_pickle_names_only_what_stable_baselines3_has(tmp_path):
    learnt(ours, "dict").save(tmp_path / "file", format="sb3")
    strings = [argument for _, argument, _ in pickletools.genops((tmp_path / "file").read_bytes())]
    assert not any(isinstance(each, str) and "vecenv.sb3" in each for each in strings)


def test_what_sb3s_checkpoint_callback_writes_is_read_by_sb3(tmp_path):
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import CheckpointCallback
    from stable_baselines3.common.vec_env import DummyVecEnv as TheirDummy
    from stable_baselines3.common.vec_env import VecNormalize as TheirNormalize

    venv = vecenv.sb3.VecNormalize(vecenv.sb3.make_vec_env("CartPole-v1", n_envs=2))
    callback = CheckpointCallback(8, str(tmp_path), save_vecnormalize=True)
    PPO("MlpPolicy", venv, n_steps=8, batch_size=16, n_epochs=1, device="cpu").learn(16, callback)
    (file,) = tmp_path.glob("*vecnormalize*.pkl")
    theirs = TheirNormalize.load(str(file), TheirDummy([lambda: gymnasium.make("CartPole-v1")]))
    assert_equal(theirs.obs_rms.mean, venv.obs_rms.mean)
    assert_equal(theirs.ret_rms.var, venv.ret_rms.var)
    assert theirs.obs_rms.count == venv.obs_rms.count
    venv.close()
