"""The rules of kernels, checked on the syntax tree before any compiler sees the code.

Here are those of a function as a whole: its head, its syntax, its parameters, what it returns. `elements.py` has those
of fields and arrays, `names.py` those of names and calls; `scope.py` is what all of them ask.
"""

from __future__ import annotations

import ast

from vecenv.kernel.language import forbidden
from vecenv.kernel.language.draws import is_draw_argument
from vecenv.kernel.language.elements import check_assignment, check_field, check_subscript
from vecenv.kernel.language.found import Found
from vecenv.kernel.language.names import check_names
from vecenv.kernel.language.scope import METHODS, USES, Scope, root
from vecenv.kernel.language.source import MISSING, returned_values

_SHORT = {"state": "s", "params": "p"}
_ROLE_OF_NAME = {"s": "state", "state": "state", "p": "params", "params": "params"}
_ROLE_OF_NAME |= {"rng": "rng", "action": "action", "obs": "obs", "mask": "mask"}
_REPLACED = {
    "state": "assign its fields: {name}.x = ...",
    "params": "Params are read-only; use a variable of another name",
    "rng": "every env has one stream",
    "obs": "write into it: {name}[:] = ..., or {name}[0] = ...",
    "mask": "write into it: {name}[0] = 1",
    "action": "use a variable of another name",
}


class Rules(Scope):
    """Checks one function, and the functions that it calls."""

    def check(self, found: Found) -> None:
        """Check everything that this function alone decides; note every mistake."""
        with found.noting():
            self._check_head()
        for node, noting in self.each(found):
            with noting:
                self._check_node(node)
        wanted = {"step": "reward, terminated", "policy": "the action"}.get(self.method or "")
        if wanted and not self._writes_action and not _always_returns(self.source.node.body):
            last = self.source.node.body[-1]
            found.add(self.fail(last, f"{self.source.name} can end without a return; return {wanted} on every path"))

    def check_names(self, found: Found) -> None:
        """Check that every name exists and can be compiled, here and in all helpers; note every mistake.

        Later than `check`: a helper may be defined below the class. Mistakes of a helper have its own file and lines.
        """
        helpers = check_names(self, found)
        for node, noting in self.each(found) if self.method == "step" else ():
            if isinstance(node, ast.Return):
                with noting:
                    self._check_results(node)
        for source, roles in helpers:
            leaves = {role: tuple(its.values()) for role, its in self.leaves.items()}
            callers = (*self.callers, self.source.function)
            helper = Rules(
                self.kernel, source, roles, self.fields, self.params, leaves, callers=callers, later=self.later
            )
            helper.check(found)
            helper.check_names(found)

    # --- the function's head -----------------------------------------------------------------------------------------

    def _check_head(self) -> None:
        head = self.source.node
        if self.method in METHODS:
            self._check_method(self.method)
        elif not self.source.is_plain:
            raise self.fail(head, "a function that kernels call has plain parameters; no *, ** or /")
        elif hasattr(self.source.function, "__wrapped__"):
            raise self.fail(head, "it is wrapped by a decorator, which native code would not run; take it off")
        elif self.method == "policy" and not self._writes_action and self.keys("action"):
            keys = ", ".join(f"action[{key!r}]" for key in self.keys("action"))
            raise self.fail(head, f"the action has parts; define policy(obs, action) and write into {keys}")

    def _check_method(self, method: str) -> None:
        head = self.source.node
        for decorator in head.decorator_list:
            text = ast.unparse(decorator)
            if text != "staticmethod":
                rule = f"@{text} has no effect on native code; methods of kernels are plain `def`s"
                raise self.fail(decorator, rule)
        for parameter, role in self.roles.items():
            if parameter in ("self", "cls"):
                raise self.fail(head, f"kernels have no {parameter}: write {signature(method)}")
            if _ROLE_OF_NAME.get(parameter, role) != role:
                raise self.fail(head, f"{parameter!r} is given the {role}; the order is {signature(method)}")

    # --- one node ----------------------------------------------------------------------------------------------------

    def _check_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Return):
            self._check_return(node)
        rule = None if self._is_no_list(node) else forbidden.SYNTAX.get(type(node))
        if rule is not None:
            raise self.fail(node, rule)
        if isinstance(node, ast.Constant):
            self._check_constant(node)
        elif isinstance(node, ast.Name):
            self._check_parameter(node)
        elif isinstance(node, ast.Attribute):
            check_field(self, node)
        elif isinstance(node, ast.Subscript):
            check_subscript(self, node)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            check_assignment(self, node)

    def _is_no_list(self, node: ast.AST) -> bool:
        """`[a, b] = 1, 2` and `rng.choice([1, 2])` build no list; `x = [i for i in y]` builds one that has a name."""
        if isinstance(node, ast.ListComp):
            return self._has_name(node)
        if isinstance(node, ast.Set):  # k in {1, 2}
            parent = self.parent(node)
            return isinstance(parent, ast.Compare) and isinstance(parent.ops[-1], (ast.In, ast.NotIn))
        return isinstance(node, ast.List) and (isinstance(node.ctx, ast.Store) or is_draw_argument(self, node))

    def _has_name(self, node: ast.ListComp) -> bool:
        parent = self.parent(node)
        if isinstance(parent, ast.Return):
            return self.method is None
        targets = parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
        return len(targets) == 1 and isinstance(targets[0], ast.Name)

    def _check_constant(self, node: ast.Constant) -> None:
        value, parent = node.value, self.parent(node)
        if isinstance(value, complex):
            raise self.fail(node, "complex numbers have no native form here; keep real and imaginary part")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise self.fail(node, f"{value} does not fit into the 64 bits that native code has for an int")
        if not isinstance(value, (str, bytes)):
            return
        sides = (parent.left, *parent.comparators) if isinstance(parent, ast.Compare) else ()
        if "action" in map(self.role, sides):
            raise self.fail(node, f"the action is compared with the string {value!r}; actions are numbers")
        if isinstance(parent, ast.Subscript) and isinstance(self.source.evaluate(parent.value), dict):
            return
        if not (isinstance(parent, ast.Subscript) and self.role(root(parent)) in ("obs", "action")):
            raise self.fail(node, f"the string {value!r} has no native form; use numbers, by names of the module")

    def _check_parameter(self, node: ast.Name) -> None:
        role, parent = self.role(node), self.parent(node)
        if role is None:
            return
        if isinstance(node.ctx, ast.Store) and self.is_own_action(node):
            return
        if isinstance(node.ctx, ast.Store):
            what = _REPLACED["action" if (self.method, role) == ("policy", "obs") else role].format(name=node.id)
            raise self.fail(node, f"{node.id!r} is the {role} of the env and cannot be replaced; {what}")
        if role not in USES or isinstance(parent, (ast.Attribute, ast.Call, ast.keyword)):
            return
        if isinstance(parent, ast.Subscript) and parent.value is node:
            key = parent.slice.value if isinstance(parent.slice, ast.Constant) else "x"
            raise self.fail(node, f"fields are attributes; write {node.id}.{key}, not {ast.unparse(parent)}")
        raise self.fail(node, f"{node.id} {USES[role].format(name=node.id)}")

    def is_own_action(self, node: ast.Name) -> bool:
        """Whether a step or a helper replaces its action by a value of its own: a variable like any other then."""
        return self.method in ("step", None) and self.role(node) == "action" and not self.keys("action")

    # --- returns -----------------------------------------------------------------------------------------------------

    @property
    def _writes_action(self) -> bool:
        """Whether this is a policy that gets the action to write into."""
        return self.method == "policy" and "action" in self.roles.values()

    def _check_return(self, node: ast.Return) -> None:
        if self.method == "step":
            self._check_results(node)
        elif self.method == "policy" and not self._writes_action:
            self._check_action(node)
        elif self.method is not None and not _is_none(node.value):
            target = self.source.parameters[0 if self.method == "reset" else 1]
            into = f"assigns fields: {target}.x = ..." if self.method == "reset" else f"writes: {target}[0] = ..."
            raise self.fail(node, f"{self.source.name} returns a value; it returns nothing and {into}")

    def _check_results(self, node: ast.Return) -> None:
        value = node.value
        count = len(value.elts) if isinstance(value, ast.Tuple) else int(value is not None)
        if isinstance(value, ast.Call) and (
            returned_values(self.source, value) in (2, 3) or self.source.evaluate(value.func) is MISSING
        ):
            return  # what a helper returns; one that is defined below the class is looked at in `check_names`
        if not isinstance(value, ast.Tuple) or count not in (2, 3):
            more = "; observations are written by observe, infos are fields declared in `info`" if count > 3 else ""
            raise self.fail(
                node,
                f"step returns {count} value{'s' * (count != 1)}; write return reward, terminated (and, if the env "
                f"itself truncates, truncated as a third){more}",
            )
        for name, part in zip(("reward", "terminated", "truncated"), value.elts, strict=False):
            kind, text = self.kind(part), ast.unparse(part)
            if kind is dict:
                raise self.fail(part, f"{name} is a dict; infos are fields declared in `info` and assigned like others")
            if name == "reward" and kind not in (None, int, float, bool):
                raise self.fail(part, f"the reward is {text}; it must be a number")
            if name != "reward" and kind not in (None, int, bool):
                raise self.fail(part, f"{name} is {text}; return reward, terminated, in this order; it must be a bool")

    def _check_action(self, node: ast.Return) -> None:
        leaf = self.leaves.get("action", {}).get("")
        kind = type(None) if node.value is None else self.kind(node.value)
        if kind in (tuple, type(None), dict, str):
            raise self.fail(node, "a policy returns one number; to write more, define policy(obs, action)")
        if kind is float and leaf is not None and leaf.dtype.kind != "f":
            text = "" if node.value is None else ast.unparse(node.value)
            raise self.fail(node, f"the action is {leaf.dtype}, but {text} is a float; use int(...) or //")


def signature(method: str) -> str:
    """How a method is written."""
    return f"{method}({', '.join(_SHORT.get(role, role) for role in METHODS[method])})"


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _always_returns(body: list[ast.stmt]) -> bool:
    """Whether no path leads past the end of these statements."""
    return any(map(_returns, body))


def _returns(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return _always_returns(statement.body) and _always_returns(statement.orelse)
    if isinstance(statement, ast.While):
        return isinstance(statement.test, ast.Constant) and bool(statement.test.value) and not _breaks(statement.body)
    return isinstance(statement, ast.Return)


def _breaks(body: list[ast.stmt]) -> bool:
    """Whether a loop with this body can be left by break."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(statement, ast.If) and (_breaks(statement.body) or _breaks(statement.orelse)):
            return True
        if isinstance(statement, (ast.For, ast.While)) and _breaks(statement.orelse):
            return True
    return False
