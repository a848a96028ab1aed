"""Framed messages between the parent process and a worker: everything that is not a column.

The parent's end never blocks: what does not fit into the socket is kept, and written while the parent waits for
answers. So two ends that both send much do not wait for each other for ever, nor does the parent for a worker that does
not read. Frames are numbered; one that comes twice is taken once.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
from collections import deque
from typing import Any

_HEADER = struct.Struct("!QQ")
"""Length of a message and its number."""
_WAKE = b""


class Channel:
    """One end of a socket pair. Messages are pickles; an empty one only wakes the other end."""

    def __init__(self, sock: socket.socket, *, blocking: bool) -> None:
        sock.setblocking(blocking)
        self.sock = sock
        self._blocking = blocking
        self.inbox: deque[bytes] = deque()
        """Complete messages that `drain` found."""
        self.ended = False
        """Nothing more can be read."""
        self.broken = False
        """Nothing more can be written."""
        self.failure: OSError | None = None
        """Why, unless the other end is gone. Only non-blocking ends set these three; the others raise instead."""
        self.unsent = bytearray()
        """Frames that are still to be written."""
        self._partial = bytearray()
        self._numbered = 0
        self._last_number = 0

    def fileno(self) -> int:
        return self.sock.fileno()

    def wake(self) -> None:
        """Make the other end return from its poll."""
        self.send_bytes(_WAKE)

    def send(self, message: Any) -> None:
        self.send_bytes(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))

    def frame(self, payload: bytes) -> bytes:
        """The payload as it goes over the wire."""
        self._numbered += 1
        return _HEADER.pack(len(payload), self._numbered) + payload

    def send_bytes(self, payload: bytes) -> None:
        """Send one message, or as much of it as the socket takes now if this end is non-blocking."""
        self.unsent += self.frame(payload)
        self.flush()

    def flush(self) -> None:
        """Write what is left of messages, also of one that an interrupt cut short.

        On a non-blocking end a peer that is gone is not an error here: `broken` is set.
        """
        while self.unsent and not self.broken:
            try:
                # By `map`: after a call a signal handler may run and raise, and then the count would be lost.
                (count,) = map(self.sock.send, (self.unsent,))
                del self.unsent[:count]
            except InterruptedError:
                continue
            except BlockingIOError:
                return
            except OSError as error:
                self.broken = self._is_over(error)
        if self.broken:
            self.unsent.clear()

    def drain(self) -> None:
        """Move everything that has arrived to the inbox, without waiting (non-blocking ends only)."""
        while not self.ended:
            try:
                (chunk,) = map(self.sock.recv, (1 << 18,))  # as in `flush`: bytes taken from the socket are never lost
            except InterruptedError:
                continue
            except BlockingIOError:
                break
            except OSError as error:
                self.ended = self._is_over(error)
                break
            self._partial += chunk
            self.ended = not chunk
        self._cut()

    def receive_bytes(self) -> bytes:
        """Wait for the next message that is not a wake-up (blocking ends only). Raises EOFError if the peer is gone."""
        while not (payload := self._next()):
            pass
        return payload

    def consume_wake(self) -> bytes | None:
        """Read one frame: None for a wake-up, else the message (blocking ends only)."""
        return self._next() or None

    def send_descriptors(self, descriptors: list[int]) -> None:
        """Give the other end a copy of these file descriptors. They do not wait in line: before any message."""
        try:
            socket.send_fds(self.sock, [b"f"], descriptors)
        except InterruptedError:
            self.send_descriptors(descriptors)
        except OSError as error:
            self.broken = self._is_over(error)

    def receive_descriptors(self, count: int) -> list[int]:
        """Wait for `count` file descriptors (blocking ends only)."""
        data, descriptors, _, _ = socket.recv_fds(self.sock, 1, count)
        if not data or len(descriptors) < count:
            raise EOFError
        return list(descriptors)

    def lose(self, why: str) -> None:
        """Nothing that is still to come can be trusted (non-blocking ends only)."""
        self.failure = self.failure or ConnectionError(why)
        self.ended = True

    def close(self) -> None:
        self.sock.close()

    def _is_over(self, error: OSError) -> bool:
        if self._blocking:
            raise error
        if not isinstance(error, (BrokenPipeError, ConnectionResetError)):
            self.failure = error
        return True

    def _next(self) -> bytes:
        """The next frame's message; an empty one for a frame that was taken before."""
        length, number = _HEADER.unpack(self._exactly(_HEADER.size))
        payload, again = self._exactly(length), number <= self._last_number
        self._last_number = max(self._last_number, number)
        return _WAKE if again else payload

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                chunk = self.sock.recv(min(count - len(parts), 1 << 20))
            except InterruptedError:
                continue
            if not chunk:
                raise EOFError
            parts += chunk
        return bytes(parts)

    def _cut(self) -> None:
        """Cut complete frames off the bytes that arrived."""
        start, available, last = 0, len(self._partial), self._last_number
        complete: list[bytes] = []
        while available - start >= _HEADER.size:
            length, number = _HEADER.unpack_from(self._partial, start)
            if number > last + 1:
                self.lose("its messages are damaged: did something else write into their socket?")
                break
            if available - start - _HEADER.size < length:
                break
            start += _HEADER.size
            if length and number > last:
                complete.append(bytes(self._partial[start : start + length]))
            last = max(last, number)
            start += length
        self._last_number = last
        self.inbox += complete
        del self._partial[:start]


def wait(readable: list[int], writable: list[int], seconds: float | None = None) -> set[int]:
    """Which descriptors are ready within the time. Unlike `select.select` it takes descriptors above 1023."""
    poll = select.poll()
    for descriptor in {*readable, *writable}:
        poll.register(descriptor, select.POLLIN * (descriptor in readable) | select.POLLOUT * (descriptor in writable))
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}
