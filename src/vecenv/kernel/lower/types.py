"""Types of the kernel language: what a value is, before any backend sees it.

Numbers have 64 bits wherever the language computes with them; narrow ones exist in memory, and until `widen` reads
them. An array has a dtype and a shape that are known when the kernel is compiled. Its elements belong to `origins`: the
fields, leaves, arguments or local arrays that it may be a part of, which says what an assignment may overwrite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

Origins: TypeAlias = frozenset[str]
FRESH: Origins = frozenset()
"""Origins of a value that has no memory yet: the result of an expression."""


@dataclass(frozen=True)
class Bound:
    """A size that is known only when the code runs, but is at most this."""

    most: int

    def __str__(self) -> str:
        return f"up to {self.most}"


Size: TypeAlias = int | Bound
Shape: TypeAlias = tuple[Size, ...]


@dataclass(frozen=True)
class Number:
    """A bool, an int or a float.

    Attributes:
        dtype: "bool", "int64", "float64", or the name of a narrower type for a number as it is in memory.
        value: of an int that is the same whenever the code runs, else None.
        most: what an int is at most, if it is the size of an array that is not known.
    """

    dtype: str
    value: int | None = None
    most: int | None = None

    def __str__(self) -> str:
        return {"bool": "a bool", "int64": "an int", "float64": "a float"}.get(self.dtype, f"a number of {self.dtype}")


@dataclass(frozen=True)
class Array:
    """An array.

    Attributes:
        dtype: name of the type of its elements.
        shape: its sizes.
        origins: what memory it may be a part of; none for the value of an expression.
    """

    dtype: str
    shape: Shape
    origins: Origins = field(default=FRESH)

    def __str__(self) -> str:
        return f"a {self.dtype} array of shape {shape_text(self.shape)}"

    @property
    def element(self) -> Number:
        """A number as its elements are in memory."""
        return Number(self.dtype)


@dataclass(frozen=True)
class Tuple:
    """Several values."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"{len(self.items)} values"


@dataclass(frozen=True)
class Iterator:
    """What a for loop runs over, in at most `most` turns if that is known."""

    item: Type
    most: int | None = None

    def __str__(self) -> str:
        return "an iterator"


@dataclass(frozen=True)
class Items:
    """A list or a queue.

    Attributes:
        dtypes: of the numbers that an item consists of; None if nothing is known to be put in.
        is_tuple: whether an item is a tuple and not one number.
        most: how many items there are at most.
        is_queue: whether it is a Queue, whose capacity is `most`, and no list.
    """

    dtypes: tuple[str, ...] | None
    is_tuple: bool
    most: int
    is_queue: bool

    def __str__(self) -> str:
        return "a Queue" if self.is_queue else "a list"

    @property
    def item(self) -> Type:
        """What an item is when it is read."""
        if self.dtypes is None:
            return UNKNOWN
        numbers = tuple(wide(Number(dtype)) for dtype in self.dtypes)
        return Tuple(numbers) if self.is_tuple else numbers[0]


@dataclass(frozen=True)
class Other:
    """A type without parts."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Conflict:
    """What a variable is that holds different things, depending on the path to a place. Using it is a mistake."""

    one: Type
    other: Type

    def __str__(self) -> str:
        return f"{self.one} on one path and {self.other} on another"


Type: TypeAlias = Number | Array | Tuple | Iterator | Items | Other | Conflict

BOOL, INT, FLOAT = Number("bool"), Number("int64"), Number("float64")
NOTHING = Other("nothing")
STREAM = Other("the random stream")
UNKNOWN = Other("a value")
"""Something that only the backend knows the type of."""
UNSURE = Other("what a mistake elsewhere leaves open")
"""What a statement that is wrong would have computed."""
_RANK = ("bool", "int64", "float64")


def shape_text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def number_of(size: Size) -> Number:
    """A size as an int."""
    return Number("int64", None, size.most) if isinstance(size, Bound) else Number("int64", size)


def most(size: Size) -> int:
    """The largest that a size can be."""
    return size.most if isinstance(size, Bound) else size


def wide(value: Type) -> Type:
    """What `widen` makes of a value: a number of 64 bits, anything else as it is."""
    if not isinstance(value, Number) or value.dtype == "bool":
        return value
    return FLOAT if value.dtype.startswith("float") else Number("int64", value.value, value.most)


def plain(value: Type) -> Type:
    """A type without the value of a number that is known."""
    if isinstance(value, Number):
        return Number(value.dtype)
    return Tuple(tuple(map(plain, value.items))) if isinstance(value, Tuple) else value


def join(one: Type | None, other: Type | None) -> Type:
    """The type of a variable that holds one or the other."""
    if one is None or other is None or one == other:
        result = one if other is None else other
        assert result is not None
        return result
    if UNSURE in (one, other):
        return UNSURE
    if UNKNOWN in (one, other):
        return UNKNOWN
    if isinstance(one, Number) and isinstance(other, Number):
        return _join_numbers(one, other)
    if isinstance(one, Tuple) and isinstance(other, Tuple) and len(one.items) == len(other.items):
        return Tuple(tuple(map(join, one.items, other.items)))
    if isinstance(one, Iterator) and isinstance(other, Iterator):
        turns = None if one.most is None or other.most is None else max(one.most, other.most)
        return Iterator(join(one.item, other.item), turns)
    if isinstance(one, Items) and isinstance(other, Items):
        return _join_items(one, other)
    if isinstance(one, Array) and isinstance(other, Array):
        shape = join_shapes(one.shape, other.shape)
        if one.dtype == other.dtype and shape is not None:
            return Array(one.dtype, shape, one.origins | other.origins)
    return one if isinstance(one, Conflict) else other if isinstance(other, Conflict) else Conflict(one, other)


def _join_items(one: Items, other: Items) -> Type:
    if one.is_queue != other.is_queue or (one.is_queue and one.dtypes != other.dtypes):
        return Conflict(one, other)
    if one.dtypes is None or other.dtypes is None:
        known = one if other.dtypes is None else other
        return replace(known, most=max(one.most, other.most))
    if one.is_tuple != other.is_tuple or len(one.dtypes) != len(other.dtypes):
        return Conflict(one, other)
    pairs = zip(one.dtypes, other.dtypes, strict=True)
    dtypes = tuple(_join_numbers(Number(dtype), Number(its)).dtype for dtype, its in pairs)
    return replace(one, dtypes=dtypes, most=max(one.most, other.most))


def _join_numbers(one: Number, other: Number) -> Number:
    if one.dtype == other.dtype:
        return Number(one.dtype)
    one, other = (Number(promoted_dtypes(side.dtype)) for side in (one, other))
    return Number(max(one.dtype, other.dtype, key=_RANK.index))


def promoted_dtypes(dtype: str) -> str:
    """The type of 64 bits for a number of a dtype."""
    kind = np.dtype(dtype).kind
    return {"b": "bool", "f": "float64"}.get(kind, "int64")


def join_shapes(one: Shape, other: Shape) -> Shape | None:
    """The shape of one of two arrays; None if they have another number of axes or other known sizes."""
    if len(one) != len(other):
        return None
    sizes: list[Size] = []
    for size, its in zip(one, other, strict=True):
        if size == its:
            sizes.append(size)
        elif isinstance(size, Bound) or isinstance(its, Bound):
            sizes.append(Bound(max(most(size), most(its))))
        else:
            return None
    return tuple(sizes)


# --- what NumPy computes with ----------------------------------------------------------------------------------------


def common_dtype(operands: Sequence[Number | Array]) -> str:
    """The dtype that NumPy computes with (NEP 50): arrays have their own, numbers are Python's and adapt to it."""
    arrays = [np.dtype(operand.dtype) for operand in operands if isinstance(operand, Array)]
    numbers = [promoted_dtypes(operand.dtype) for operand in operands if isinstance(operand, Number)]
    number = max(numbers, key=_RANK.index, default="bool")
    if not arrays:
        return number
    array = np.result_type(*arrays)
    kinds = "b", "iu", "f"
    rank = next(place for place, kind in enumerate(kinds) if array.kind in kind)
    return array.name if rank >= _RANK.index(number) else number


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The shape of an expression over arrays of these shapes; None if they do not fit."""
    sizes: list[Size] = []
    for axis in range(-max(map(len, shapes), default=0), 0):
        size: Size = 1
        for shape in shapes:
            together = _together(size, shape[axis]) if -axis <= len(shape) else size
            if together is None:
                return None
            size = together
        sizes.append(size)
    return tuple(sizes)


def _together(one: Size, other: Size) -> Size | None:
    if one == other or other == 1:
        return one
    if one == 1:
        return other
    if isinstance(one, Bound) and isinstance(other, Bound):
        return Bound(max(one.most, other.most))
    if isinstance(one, Bound) or isinstance(other, Bound):
        fixed, bound = (other, one) if isinstance(one, Bound) else (one, other)
        return fixed if most(bound) >= most(fixed) or most(bound) >= 1 else None
    return None


def fits(shape: Shape, target: Shape) -> bool:
    """Whether a value of a shape can be assigned to a part of an array with another."""
    together = broadcast([shape, target])
    return (
        together is not None
        and len(together) == len(target)
        and all(
            size == its or isinstance(its, Bound) or isinstance(size, Bound)
            for size, its in zip(together, target, strict=True)
        )
    )
