"""Queues: what a kernel collects while it computes, up to a capacity that is known beforehand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from vecenv.kernel.language.fields import Field, FieldError, conform, declare

LIST_METHODS = ("append", "pop", "clear")
"""Methods that a list has in kernels."""
QUEUE_METHODS = (*LIST_METHODS, "popleft")


class Queue:
    """A queue, or a stack, of at most `capacity` items: `queue = Queue(int, 100)` in a function of a kernel.

    It has `append(x)`, `popleft()`, `pop()`, `clear()`, `len(queue)`, `queue[i]`, `x in queue` and loops over it.
    Native code keeps it on its stack. An item too many is an error in Python and with `check="bounds"`; unchecked
    native code drops it.

    Args:
        dtype: `int`, `float`, `bool` or a NumPy type; `(int, 2)` for items that are tuples of two numbers.
        capacity: how many items it holds at most, a constant.
    """

    def __init__(self, dtype: Any, capacity: int) -> None:
        self._field = declare("Queue", dtype)
        if len(self._field.shape) > 1:
            raise FieldError(f"an item of a Queue is a number or several, such as (int, 2), not {dtype!r}")
        if type(capacity) is not int or capacity < 1:
            raise FieldError(f"the capacity of a Queue must be an int of 1 or more, got {capacity!r}")
        self.capacity = capacity
        self._number = Field("Queue", self._field.dtype)
        self._items: deque[Any] = deque()

    def append(self, item: Any) -> None:
        """Add an item behind the last. Raises FieldError, a KernelError in a kernel, if the queue is full."""
        if len(self._items) >= self.capacity:
            raise FieldError(f"the queue is full: its capacity is {self.capacity}; native code would drop this item")
        self._items.append(self._held(item))

    def popleft(self) -> Any:
        """Take the first item away and return it."""
        self._check_not_empty()
        return self._items.popleft()

    def pop(self) -> Any:
        """Take the last item away and return it."""
        self._check_not_empty()
        return self._items.pop()

    def clear(self) -> None:
        """Take all items away."""
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, place: int) -> Any:
        return self._items[place]

    def __setitem__(self, place: int, item: Any) -> None:
        self._items[place] = self._held(item)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __contains__(self, item: Any) -> bool:
        return item in self._items

    def __repr__(self) -> str:
        return f"Queue({list(self._items)}, capacity={self.capacity})"

    def _check_not_empty(self) -> None:
        if not self._items:
            raise IndexError("the queue is empty; test it first: if len(queue) > 0")

    def _held(self, item: Any) -> Any:
        """An item as it is read back."""
        if not self._field.shape:
            return conform(self._number, item)
        numbers = tuple(item) if isinstance(item, (tuple, list)) else ()
        if len(numbers) != self._field.shape[0]:
            raise FieldError(f"an item of this Queue is a tuple of {self._field.shape[0]} numbers, got {item!r:.40}")
        return tuple(conform(self._number, number) for number in numbers)
