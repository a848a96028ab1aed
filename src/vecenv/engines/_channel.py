"""Framed messages between the front's process and a worker: everything that is not a column.

The front's end never blocks on a full socket: while it cannot write it reads, so two ends that both have much to say
cannot wait for each other for ever.
"""

from __future__ import annotations

import contextlib
import pickle
import select
import socket
import struct
from collections import deque
from typing import Any

_HEADER = struct.Struct("!Q")
_WAKE = b""


class Channel:
    """One end of a socket pair. Messages are pickles; an empty one only wakes the other end."""

    def __init__(self, sock: socket.socket, *, blocking: bool) -> None:
        sock.setblocking(blocking)
        self.sock = sock
        self.inbox: deque[bytes] = deque()
        """Complete messages that `drain` found."""
        self.ended = False
        """The other end is gone and everything it sent was read."""
        self.unsent = bytearray()
        """Frames that are still to be written."""
        self._partial = bytearray()

    def fileno(self) -> int:
        return self.sock.fileno()

    def wake(self) -> None:
        """Make the other end return from its poll."""
        self.send_bytes(_WAKE)

    def send(self, message: Any) -> None:
        self.send_bytes(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))

    def send_bytes(self, payload: bytes) -> None:
        """Send one message whole. A dead peer is not an error here: `ended` or its process tells.

        On a non-blocking end, incoming messages are moved to the inbox while the socket is full.
        """
        self.unsent += frame(payload)
        self.flush()

    def flush(self) -> None:
        """Write what is left of messages, also of one that an interrupt cut short."""
        try:
            while self.unsent:
                try:
                    # By `map`: after a call a signal handler may run and raise, and then nobody would know the count.
                    (count,) = map(self.sock.send, (self.unsent,))
                    del self.unsent[:count]
                except BlockingIOError:
                    wait([self.sock.fileno()], [self.sock.fileno()])
                    self.drain()
        except (BrokenPipeError, ConnectionResetError):  # what it sent before can still be read
            self.unsent.clear()

    def drain(self) -> None:
        """Move everything that has arrived to the inbox, without waiting (non-blocking ends only)."""
        while not self.ended:
            try:
                (chunk,) = map(self.sock.recv, (1 << 18,))  # as in `flush`: bytes taken from the socket are never lost
            except BlockingIOError:
                break
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                self.ended = True
                break
            self._partial += chunk
        self._cut()

    def receive_bytes(self) -> bytes:
        """Wait for the next message that is not a wake-up (blocking ends only).

        Raises:
            EOFError: the other end is gone.
        """
        while True:
            payload = self._exactly(_HEADER.unpack(self._exactly(_HEADER.size))[0])
            if payload != _WAKE:
                return payload

    def consume_wake(self) -> bytes | None:
        """Read one frame: None for a wake-up, else the message (blocking ends only)."""
        payload = self._exactly(_HEADER.unpack(self._exactly(_HEADER.size))[0])
        return payload if payload != _WAKE else None

    def send_descriptors(self, descriptors: list[int]) -> None:
        """Give the other end a copy of these file descriptors."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self.sock, [b"f"], descriptors)

    def receive_descriptors(self, count: int) -> list[int]:
        """Wait for `count` file descriptors (blocking ends only)."""
        data, descriptors, _, _ = socket.recv_fds(self.sock, 1, count)
        if not data:
            raise EOFError
        return list(descriptors)

    def close(self) -> None:
        self.sock.close()

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            chunk = self.sock.recv(min(count - len(parts), 1 << 20))
            if not chunk:
                raise EOFError
            parts += chunk
        return bytes(parts)

    def _cut(self) -> None:
        """Cut complete frames off the bytes that arrived."""
        start, available = 0, len(self._partial)
        complete: list[bytes] = []
        while available - start >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._partial, start)
            if available - start - _HEADER.size < length:
                break
            start += _HEADER.size
            if length:
                complete.append(bytes(self._partial[start : start + length]))
            start += length
        self.inbox += complete
        del self._partial[:start]


def wait(readable: list[int], writable: list[int], seconds: float | None = None) -> set[int]:
    """Which descriptors are ready within the time. Unlike `select.select` it knows descriptors above 1023."""
    poll = select.poll()
    for descriptor in {*readable, *writable}:
        poll.register(descriptor, select.POLLIN * (descriptor in readable) | select.POLLOUT * (descriptor in writable))
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}


def frame(payload: bytes) -> bytes:
    """The payload as it goes over the wire."""
    return _HEADER.pack(len(payload)) + payload
