"""Parts of random programs in which one thing decides whether another is computed: guards, loops that are left, choices.

What a guard keeps from being computed would raise in Python or be undefined in native code: shifts by less than nothing,
divisions by zero, indices out of range, roots of negative numbers. A compiler that computes it all the same must not let
it be seen.
"""

# ruff: noqa: E501
# Tables of short texts, several in a line.
from __future__ import annotations

import random
import re
from typing import Any

HELPERS = '''
MARKS = {1, 3, 6}
PRICES = {0: 2.5, 2: -1.0, 5: 0.25}


def first_above(x, limit):
    """The place of the first element above a limit, or -1."""
    for place in range(len(x)):
        if x[place] > limit:
            return place
    return -1


def last_below(x, limit):
    found = -1
    for place, value in enumerate(x):
        if not value < limit:
            continue
        found = place
    return found


def bit_of(number, place):
    return 0 <= place < 40 and (number >> place) & 1 == 1


def halved(number):
    """How often a number can be halved."""
    count = 0
    while number > 0 and number % 2 == 0 and count < 9:
        number //= 2
        count += 1
    return count


def ratio(x, y):
    if y == 0.0 or x != x:
        return 0.0
    return x / y


def either(x, flag):
    if flag:
        return x, True
    return -x, False


def counted(s, limit):
    """Changes the state, so it matters whether it is called."""
    s.n = (s.n + 1) % 50
    return s.n > limit


def looked_up(x, y, place):
    """An element of a table of three by four, or zero outside."""
    if place < 0 or place >= 12 or not (x <= y or place // 4 < 2):
        return 0.0
    return y + x * (place % 4)


def descended(n, by):
    total = 0
    while True:
        n -= by
        if n < 0:
            break
        if n % 3 == 1:
            continue
        total += n
    else:
        total = -1
    return total
'''

ARRAYS = ("s.x", "s.y", "s.i", "CURVE", "p.curve")
NARROW = re.compile(r"\bs\.(e|h|w|z|f|g|c|b|j|l|u|v|o)\b|TABLE|MOVES|float32|int8|int16|int32|Queue")
"""What has fewer than 64 bits. Functions without it are translated by vecenv itself (`kernel_functions.py`)."""


class Guards:
    """Writes guarded expressions and statements with them; a part of the writer of programs."""

    random: random.Random
    locals: list[str]
    names: dict[str, Any]
    depth: int
    in_loop: int

    def put(self, line: str) -> None: ...
    def one_of(self, *options: Any) -> Any: ...
    def number(self, kind: str, depth: int = 2) -> str: ...  # type: ignore[empty-body]  # the writer's
    def new_name(self, value: Any) -> str: ...  # type: ignore[empty-body]  # the writer's
    def _nested(self, count: int = 2) -> None: ...
    def _locals_of(self, *types: type) -> list[str]: ...  # type: ignore[empty-body]  # the writer's

    def known_int(self) -> str:
        """An int that is the same when it is computed again."""
        own = [*self._locals_of(int), "s.n", "k", "p.lives", "LIMIT"]
        one = self.random.choice(own)
        place, other = self.random.randrange(4), self.random.choice(own)
        return self.one_of(one, one, f"({one} - {self.random.randint(1, 9)})", f"s.i[{place}]", f"({one} - {other})")

    def known_float(self) -> str:
        own = [*self._locals_of(float), "s.a", "s.x[k]", "s.y[-1]", "SCALE"]
        return self.random.choice(own)

    def guarded_bool(self) -> str:
        i, j, f, g = self.known_int(), self.known_int(), self.known_float(), self.known_float()
        flag = lambda: self.number("bool", 1)  # noqa: E731  # as short as the others
        x = self.one_of(*ARRAYS)
        small = self.one_of("1", "2", "0")
        return self.one_of(
            f"(0 <= {i} < 40 and ({j} >> {i}) & 1 == 1)", f"({i} < 0 or {i} > 30 or ({j} >> {i}) % 2 == {small})",
            f"({i} >= 0 and {i} < 20 and (1 << {i}) & {j} != 0)", f"({i} != 0 and {j} // {i} > {small})",
            f"({i} == 0 or {j} % {i} == {small})", f"({f} != 0.0 and {g} / {f} > 0.5)", f"(not {f} or {g} // {f} < 1.0)",
            f"(0 <= {i} < 4 and {x}[{i}] > {small})", f"(-4 <= {i} <= 3 and {x}[{i}] == {x}[k])",
            f"({i} < 0 or {i} >= len({x}) or {x}[{i}] < {small})", f"({f} > 0.0 and math.log({f}) > {g})",
            f"({f} >= 0.0 and math.sqrt({f}) < 1.0)", f"(abs({f}) <= 1.0 and math.acos({f}) > 1.0)",
            f"({f} == {f} and abs({f}) < 1e6 and int({f}) % 2 == 0)", f"(abs({f}) < 99.0 and 0 <= int({f}) < 4 and {x}[int({f})] > 0.0)",
            f"{i} < {j} <= {self.number('int', 1)}", f"{f} <= {g} < {self.number('float', 1)}", f"{i} == {j} != {small}",
            f"0 <= {i} < len({x}) <= {j}", f"{i} < {j} < {i}", f"-1.0 < {f} < {i} <= {j}",
            f"{i} in ({j}, {small}, {self.known_int()})", f"{i} not in (1, {j})", f"{i} in {{1, 2, 5}}", f"{i} in MARKS", f"{i} not in MARKS",
            f"{i} in PRICES", f"{f} in (0.5, {g})", f"({flag()} and {flag()} or {flag()})", f"({flag()} or {flag()} and not {flag()})",
            f"not ({flag()} and {flag()})", f"({flag()} if {flag()} else {flag()})", f"({flag()} and counted(s, {small}))",
            f"({flag()} or counted(s, {i}))", f"({flag()} and rng.random() < 0.5)", f"({flag()} or rng.integers(3) == {small})",
            f"bit_of({j}, {i})", f"({flag()} and either({f}, {flag()})[1])", f"({flag()}) != ({flag()})", f"({flag()}) < ({flag()})",
            f"({flag()} and np.any(s.x > {f}))", f"bool({i} & {j})",
            f"math.isnan({f}) or {f} > {g}", f"(first_above({x}, {f}) >= 0 and {x}[first_above({x}, {f})] > {g})",
        )  # fmt: skip

    def guarded_int(self) -> str:
        i, j, f = self.known_int(), self.known_int(), self.known_float()
        flag = lambda: self.number("bool", 1)  # noqa: E731  # as short as the others
        return self.one_of(
            f"({j} // {i} if {i} != 0 else {self.number('int', 1)})", f"({self.number('int', 1)} if {i} == 0 else {j} % {i})",
            f"({j} >> {i} if 0 <= {i} < 40 else {i})", f"(1 << {i} if 0 <= {i} and {i} < 12 else 0)",
            f"(s.i[{i}] if 0 <= {i} < 4 else {j})", f"(s.r[{i}, {j}] if 0 <= {i} < 3 and -4 <= {j} < 4 else 2)",
            f"({i} if {flag()} else {j} if {flag()} else 7)", f"(int({f}) if abs({f}) < 1000.0 else -1)",
            f"(math.floor({f}) if abs({f}) < 1000.0 else 0)", f"(round({f}) if abs({f}) < 1000.0 else 0)",
            f"first_above(s.x, {f})", f"last_below(s.y, {f})", f"halved({i})", f"descended({i} % 40, {self.one_of('2', '3', '7')})",
            f"({flag()} + {flag()})", f"(int({flag()}) - {i})", f"divmod({j}, {self.one_of('3', '7')})[{self.one_of('0', '1')}]",
            f"(divmod({j}, {i})[1] if {i} > 0 else 0)", f"math.gcd({i}, {j})", f"min({i}, {j}, {self.known_int()})", f"({i} ^ {j})",
            f"(rng.integers({i}) if 0 < {i} < 99 else 0)", f"({i} ** 2 % 1000)", f"({j} ** {i} if 0 <= {i} < 4 and abs({j}) < 99 else 0)",
            f"max({i}, len(s.x))", f"({i} & 7 | {j} & 8)", f"(~{i} >> 1)", f"math.trunc({f} * 0.5)",
        )  # fmt: skip

    def guarded_float(self) -> str:
        i, f, g = self.known_int(), self.known_float(), self.known_float()
        flag = lambda: self.number("bool", 1)  # noqa: E731  # as short as the others
        x = self.one_of("s.x", "s.y", "CURVE", "p.curve")
        return self.one_of(
            f"({g} / {f} if {f} != 0.0 else {self.number('float', 1)})", f"({g} if not {f} else {g} % {f})",
            f"(math.sqrt({f}) if {f} >= 0.0 else {g})", f"({g} if {f} <= 0.0 else math.log({f}))",
            f"({x}[{i}] if 0 <= {i} < 4 else {g})", f"({g} if {i} < -4 or {i} > 3 else {x}[{i}])", f"({x}[{i}] if {i} in (0, 1, 2) else {g})",
            f"(s.m[{i}, {self.known_int()} % 4] if 0 <= {i} < 3 else {f})", f"({f} if {flag()} else {g} if {flag()} else 0.25)",
            f"({f} if {flag()} and {flag()} else {i})", f"(math.acos({f}) if abs({f}) <= 1.0 else 3.0)", f"ratio({f}, {g})",
            f"either({f}, {flag()})[0]", f"looked_up({f}, {g}, {i})", f"PRICES.get({i}, {f})", f"(PRICES[{i}] if {i} in PRICES else {g})",
            f"({f} // {g} if {g} > 0.1 else {f})", f"(-{f} if {f} < 0.0 else {f})", f"math.copysign({f}, {g})", f"math.floor({f}) * 0.5",
            f"(moved(rng, {f}) if {flag()} else {g})", f"({f} * {flag()})", f"math.degrees({f})", f"({f} ** 3)", f"(abs({f}) ** 0.5)",
            f"(float({i} > 2) - {g})", f"max({f}, {i}, {g})", f"min({f}, {g}) if {flag()} else {g}", f"(1.0 if {flag()} else 0)",
        )  # fmt: skip

    # --- statements --------------------------------------------------------------------------------------------------

    def _inner(self, *lines: str) -> None:
        """Lines of a loop, around statements of any kind."""
        for line in lines:
            self.put(f"    {line}")

    def _leaving_for(self) -> None:
        """A loop that is left or whose turns are cut short, perhaps with an `else`."""
        known = list(self.locals)
        bound, flag = self.known_int(), lambda: self.number("bool", 1)
        text = self.one_of(
            "range(4)", f"range({bound} % 5)", f"range({bound} % 4, -1, -1)", f"range(1, {bound} % 6, 2)", f"range({bound} % 3, 4)",
            "range(4, 0, -2)", "range(len(s.x) - 1)", "reversed(range(3))",
        )  # fmt: skip
        turn = self.new_name(1)
        self.put(f"for {turn} in {text}:")
        self.in_loop += 1
        before, after = self.one_of("continue", "break", None), self.one_of("continue", "break", None)
        if before:
            self._inner(f"if {flag()}:", f"    {before}")
        self._nested()
        if after:
            self._inner(f"if {self.one_of(flag(), f's.x[{turn} % 4] > s.a', f'{turn} == 2')}:", f"    {after}")
            self._inner(f"s.n = (s.n + {turn}) % 50")
        self.in_loop -= 1
        if self.random.random() < 0.3:
            self.put("else:")
            self._nested()
        self.locals = known
        if self.random.random() < 0.5 and text in ("range(4)", "range(4, 0, -2)", "reversed(range(3))"):
            self.put(f"s.n = {turn}")  # what the last turn left

    def _searching_while(self) -> None:
        """A loop whose test reads an element that is there only if its first part holds."""
        place, x = self.new_name(0), self.one_of(*ARRAYS)
        self.locals.remove(place)  # nothing else may change it
        f, i = self.known_float(), self.known_int()
        choice = self.random.randrange(5)
        if choice == 0:
            self.put(f"{place} = 0")
            array = self.one_of("", "", f" and (s.x > {f}).any()")
            self.put(
                f"while {place} < {self.one_of('4', f'len({x})')} and {x}[{place}] {self.one_of('<', '>=')} {f}{array}:"
            )
            self._inner(f"{place} += {self.one_of('1', '2')}")
        elif choice == 1:
            self.put(f"{place} = 3")
            self.put(f"while not ({place} < 0 or {x}[{place}] > {f}):")
            self._inner(f"{place} -= 1", "s.a += 0.5")
        elif choice == 2:
            self.put(f"{place} = abs({i}) % 64")
            self.put(f"while {place} > 0 and ({place} & 1 == 0 or {self.number('bool', 1)}):")
            self._inner(f"{place} >>= 1")
        elif choice == 3:
            self.put(f"{place} = 0")
            self.put("while True:")
            self._inner(
                f"{place} += 1",
                f"if {place} > 5 or {self.number('bool', 1)}:",
                f"    {self.one_of('break', f'return {f}')}",
            )
            self.in_loop += 1
            self._nested()
            self.in_loop -= 1
        else:
            other = self.new_name(0)
            self.locals.remove(other)
            self.put(f"{place}, {other} = 0, 4")
            self.put(f"while {place} < {other}:")
            self._inner(
                f"if {x}[({place} + {other}) // 2] < {f}:", f"    {place} = ({place} + {other}) // 2 + 1",
                "else:", f"    {other} = ({place} + {other}) // 2",
            )  # fmt: skip
        if self.random.random() < 0.3:
            self.put("else:")
            self._nested()
        self.put(f"s.n = {place}")

    def _guarded_if(self) -> None:
        self.put(f"if {self.guarded_bool()} {self.one_of('and', 'or')} {self.guarded_bool()}:")
        self._nested()
        if self.random.random() < 0.5:
            self.put(f"elif not {self.guarded_bool()}:")
            self._nested()
        if self.random.random() < 0.5:
            self.put("else:")
            self._nested()

    def _changed(self) -> None:
        """An element or a number is changed in place, of a place that is drawn perhaps."""
        i, f = self.known_int(), self.known_float()
        place = self.one_of(
            f"{i} % 4", "k", "rng.integers(4)", "-1", f"(s.n if 0 <= s.n < 4 else {self.one_of('0', '-1')})"
        )
        self.put(
            self.one_of(
                f"s.i[{place}] {self.one_of('+', '-', '^', '|', '&')}= {i}", f"s.i[{place}] {self.one_of('//', '%')}= {self.one_of('3', '-4')}",
                f"s.i[{place}] >>= 1", f"s.x[{place}] {self.one_of('+', '-', '*')}= {f}", f"s.x[{place}] /= {self.one_of('2.0', f'(abs({f}) + 1.0)')}",
                f"s.x[{place}] {self.one_of('//', '%')}= 0.75", f"s.n = s.n {self.one_of('>>', '<<')} 1 & 63", "s.n >>= 1", "s.n &= 31", f"s.n ^= {i} & 7",
                f"s.t = s.t != ({self.number('bool', 1)})", f"s.d[{place}] = not s.d[{place}]",
                f"s.d[{place}] |= {self.number('bool', 1)}", f"s.r[{i} % 3, {place}] += 1", f"s.m[{i} % 3][{place}] = {f}",
                f"s.x[{i} % 4], s.x[k] = s.x[k], s.x[{i} % 4]", "s.a, s.n = float(s.n), small(s.a)",
            )
        )  # fmt: skip

    def _many(self) -> None:
        """Lists by comprehension, tables, sums and choices of all elements."""
        items, f, i = self.new_name(None), self.known_float(), self.known_int()
        self.locals.remove(items)
        choice = self.random.randrange(6)
        if choice == 0:
            self.put(
                f"{items} = [2 * value for value in {self.one_of('s.i', 's.r[1]')} if value {self.one_of('>', '!=')} {i}]"
            )
            self.put(f"s.n = (len({items}) + sum({items})) % 50")
        elif choice == 1:
            self.put(f"{items} = [(y, x) for y in range(3) for x in range(4) if s.m[y, x] > {f}]")
            self.put(f"for y, x in {items}:")
            self.put("    s.m[y, x] -= 1.0")
        elif choice == 2:
            self.put("for key, price in PRICES.items():")
            self.put(f"    if key {self.one_of('>', '==', '<=')} {i} or price > {f}:")
            self.put(f"        {self.one_of('break', 'continue', 's.a -= price')}")
            self.put("    s.a += price")
        elif choice == 3:
            self.put(f"{items} = ({i} % 3, {self.known_int()} % 4)")
            self.put(f"s.m[{items}] = s.m[{items}] + {f} if s.m[{items}] < 3.0 else 0.0")
            self.put(f"s.n = {items}[0] + {items}[1]")
        elif choice == 4:
            self.put(
                f"s.t = {self.one_of('any', 'all')}(s.d) {self.one_of('and', 'or')} {self.one_of('any', 'all')}(s.i)"
            )
            self.put("s.n = sum(s.i) % 50")
        else:
            self.put(f"{items} = [0] * 4")
            self.put("for place in range(4):")
            self.put(f"    {items}[place] = place if s.x[place] > {f} else -1")
            self.put(f"s.n = {items}[k] + {items}[{i} % 4]")
