"""A vector env inside JAX's compiled programs on the CPU, through XLA's foreign function interface.

XLA calls a C function with a call frame that has the addresses of inputs and outputs. Here that C function is a Python
function (ctypes), which steps the vector env and copies results to the outputs. There is one function for each
operation in a process; which vector env it is about, the first input says (the handle).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector.utils import create_empty_array

from vecenv._front.exchange import Exchange
from vecenv._util.extras import load_extra
from vecenv.errors import CallOrderError, UnsupportedError

if TYPE_CHECKING:
    from vecenv._front.vector_env import VectorEnv

_size, _pointer, _int = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
_numbers = itertools.count(1)
_pools: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()
"""Vector envs that compiled programs may call, by their number in the handle."""


def xla(envs: VectorEnv) -> tuple[Any, Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """See `VectorEnv.xla`."""
    jax = load_extra("jax", "xla() needs JAX: pip install 'vecenv[jax]'")
    load_extra(
        "jax.ffi", f"xla() needs JAX 0.5 or newer, and {jax.__version__} is installed: pip install 'vecenv[jax]'"
    )
    pool = Pool(envs, jax)
    envs._xla = pool  # keeps it alive as long as the envs
    return pool.handle(), pool.recv, pool.send, pool.step


class Pool:
    """A vector env, its number, and how many calls it has had.

    Args:
        envs: the vector env.
        jax: the module.
    """

    def __init__(self, envs: VectorEnv, jax: Any) -> None:
        self._envs, self._jax = weakref.ref(envs), jax
        self._number, self._calls = next(_numbers), 0
        if envs._batch.observation_layout.by_value or envs._batch.action_layout.by_value:
            raise UnsupportedError(
                "xla() needs spaces of a fixed size: compiled programs know the shapes of all arrays"
            )
        _pools[self._number] = self
        for name in ("recv", "send", "step"):
            _register(name, jax)

    def handle(self) -> Any:
        """The number of this vector env and of the calls so far; every call takes one and returns the next."""
        return self._jax.numpy.array([self._number, self._calls], dtype=np.int32)

    def recv(self, handle: Any) -> tuple[Any, Any]:
        """Wait for `batch_size` envs: the next handle, and (obs, reward, terminated, truncated, info)."""
        return self._call("recv", self.envs().batch_size, handle)

    def send(self, handle: Any, actions: Any, env_ids: Any = None) -> Any:
        """Start a step of all envs, or of those of `env_ids`: the next handle."""
        shape = self._jax.ShapeDtypeStruct((2,), np.int32)
        return self._ffi("send", shape)(handle, *self._jax.tree.leaves(actions), *_optional(env_ids))

    def step(self, handle: Any, actions: Any, env_ids: Any = None) -> tuple[Any, Any]:
        """Step all envs, or those of `env_ids`: the next handle, and the five of Gymnasium's step."""
        count = self.envs().num_envs if env_ids is None else len(env_ids)
        return self._call("step", count, handle, *self._jax.tree.leaves(actions), *_optional(env_ids))

    def envs(self) -> VectorEnv:
        """The vector env, as long as it exists."""
        envs = self._envs()
        if envs is None:
            raise CallOrderError("the vector env of this handle does not exist any more; keep a reference to it")
        return envs

    def _call(self, name: str, count: int, *inputs: Any) -> tuple[Any, Any]:
        handle, *results = self._ffi(name, self._outputs(count))(*inputs)
        return handle, self._jax.tree.unflatten(self._tree(count), results)

    def _ffi(self, name: str, outputs: Any) -> Callable[..., Any]:
        return self._jax.ffi.ffi_call(f"vecenv_{name}", outputs, has_side_effect=True)

    def _template(self, count: int) -> Any:
        """Results of `count` envs, as arrays of zeros."""
        envs = self.envs()
        obs = create_empty_array(envs.single_observation_space, count, np.zeros)
        info: dict[str, Any] = {"elapsed_step": np.zeros(count, np.int32), "env_id": np.zeros(count, np.int32)}
        if envs._may_roll:
            info["final_obs"] = obs
        return obs, np.zeros(count), np.zeros(count, np.bool_), np.zeros(count, np.bool_), info

    def _tree(self, count: int) -> Any:
        return self._jax.tree.structure(self._template(count))

    def _outputs(self, count: int) -> list[Any]:
        canonical = self._jax.dtypes.canonicalize_dtype
        leaves = [np.zeros(2, np.int32), *self._jax.tree.leaves(self._template(count))]
        return [self._jax.ShapeDtypeStruct(leaf.shape, canonical(leaf.dtype)) for leaf in leaves]

    # --- while a compiled program runs ------------------------------------------------------------------------------

    def run(self, name: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Do what a compiled program asks for, and write the results."""
        envs, (_, calls) = self.envs(), inputs[0].tolist()
        if calls != self._calls:
            raise CallOrderError(
                f"the handle is that of call {calls}, and {self._calls} were made: pass on the handle that each call "
                "returns, or begin again with envs.xla()"
            )
        self._calls += 1
        outputs[0][:] = self._number, self._calls
        if name == "recv":
            exchange = envs._exchange_recv(None, None)
        else:
            layout = envs._batch.action_layout
            leaves = [_widened(given, leaf.dtype) for leaf, given in zip(layout.leaves, inputs[1:], strict=False)]
            actions = layout.batched(leaves)
            env_ids = inputs[1 + len(leaves)] if len(inputs) > 1 + len(leaves) else None
            if name == "send":
                envs.send(actions, env_ids)
                return
            exchange = envs._exchange_step(actions, env_ids)
        self._write(exchange, envs._may_roll, outputs[1:])

    def _write(self, exchange: Exchange, may_roll: bool, outputs: Sequence[np.ndarray]) -> None:
        """Copy results to the outputs, in the order of JAX's trees: dicts by the order of their keys."""
        results = [*self._leaves(exchange.obs), exchange.reward, exchange.terminated, exchange.truncated]
        results += [exchange.episode_length, exchange.rows]
        if may_roll:
            results += self._leaves(exchange.obs if exchange.final_obs is None else exchange.final_obs)
        for output, values in zip(outputs, results, strict=True):
            np.copyto(output, values, casting="same_kind")

    def _leaves(self, obs: Any) -> list[Any]:
        return [obs] if isinstance(obs, np.ndarray) else self._jax.tree.leaves(obs)


def _widened(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """JAX's int32 as the integers of the space, which are packed faster; others as they are."""
    widens = values.dtype.kind == "i" == dtype.kind and values.itemsize < dtype.itemsize
    return values.astype(dtype) if widens else values


def _optional(env_ids: Any) -> tuple[Any, ...]:
    return () if env_ids is None else (env_ids,)


# --- XLA's call frame: xla/ffi/api/c_api.h, version 0.x --------------------------------------------------------------


class _Version(ctypes.Structure):
    _fields_ = (("struct_size", _size), ("extension", _pointer), ("major", _int), ("minor", _int))


class _Metadata(ctypes.Structure):
    _fields_ = (("struct_size", _size), ("version", _Version), ("traits", ctypes.c_uint32))


class _Extension(ctypes.Structure):
    _fields_ = (
        *(("struct_size", _size), ("type", _int), ("next", _pointer)),
        ("metadata", ctypes.POINTER(_Metadata)),
    )


class _Api(ctypes.Structure):
    _fields_ = (
        *(("struct_size", _size), ("extension", _pointer), ("version", _Version), ("internal", _pointer)),
        ("create_error", ctypes.CFUNCTYPE(_pointer, _pointer)),
    )


class _ErrorArguments(ctypes.Structure):
    _fields_ = (("struct_size", _size), ("extension", _pointer), ("message", ctypes.c_char_p), ("code", _int))


class _Buffer(ctypes.Structure):
    _fields_ = (
        *(("struct_size", _size), ("extension", _pointer), ("dtype", _int), ("data", _pointer)),
        *(("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64))),
    )


class _Buffers(ctypes.Structure):
    _fields_ = (
        *(("struct_size", _size), ("extension", _pointer), ("size", ctypes.c_int64), ("types", _pointer)),
        ("buffers", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    )


class _CallFrame(ctypes.Structure):
    _fields_ = (
        *(("struct_size", _size), ("extension", ctypes.POINTER(_Extension)), ("api", ctypes.POINTER(_Api))),
        *(("context", _pointer), ("stage", _int), ("args", _Buffers), ("rets", _Buffers)),
    )


_Handler = ctypes.CFUNCTYPE(_pointer, ctypes.POINTER(_CallFrame))
_DTYPES = {1: "?", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8", 10: "f2", 11: "f4", 12: "f8"}
_INTERNAL_ERROR = 13


@functools.cache
def _register(name: str, jax: Any) -> Any:
    """Register the function of this operation with XLA. Returned, because it must live as long as the process."""
    handler = _Handler(functools.partial(_handle, name))
    address = ctypes.cast(handler, _pointer).value
    jax.ffi.register_ffi_target(f"vecenv_{name}", jax.ffi.pycapsule(address), platform="cpu")
    return handler


def _handle(name: str, frame_pointer: Any) -> int | None:
    """What XLA calls: None, or the address of an error."""
    frame = frame_pointer.contents
    if frame.extension:  # XLA asks which version of the interface this is
        metadata = frame.extension.contents.metadata.contents
        metadata.version.major, metadata.version.minor = 0, 1
        return None
    try:
        inputs = _arrays(frame.args)
        number = int(inputs[0][0])
        if number not in _pools:
            raise CallOrderError("the vector env of this handle does not exist any more; keep a reference to it")
        _pools[number].run(name, inputs, _arrays(frame.rets))
    except BaseException as error:  # no exception may leave a C function
        message = f"{type(error).__name__}: {error}".encode(errors="replace")
        arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message, _INTERNAL_ERROR)
        return frame.api.contents.create_error(ctypes.addressof(arguments))
    return None


def _arrays(buffers: Any) -> list[np.ndarray]:
    """Inputs or outputs as NumPy arrays in their place."""
    found = [pointer.contents for pointer in buffers.buffers[: buffers.size]]
    return [_array_at(buffer.data, buffer.dtype, *buffer.dims[: buffer.rank]) for buffer in found]


@functools.lru_cache(maxsize=1024)
def _array_at(address: int, code: int, *shape: int) -> np.ndarray:
    """The array at an address. Kept, because in a loop XLA uses the same addresses again."""
    dtype = np.dtype(_DTYPES[code])
    size = dtype.itemsize * math.prod(shape)
    memory: Any = (ctypes.c_char * size).from_address(address) if size else b""
    return np.frombuffer(memory, dtype).reshape(shape)
