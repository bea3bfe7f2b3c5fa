"""AutoGraph: what is rewritten before `malt` sees a function, because it knows no such thing.

Imported on first use only, since it imports `malt`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from malt.core import converter
from malt.pyct import anno, templates


def prepared(node: Any, ctx: Any) -> Any:
    """The syntax tree of a function without what `malt` does not know.

    Raises:
        ValueError: there is something that can't be rewritten, with its line.
    """
    for step in (_Refusals, _Annotations, _Walrus, _LoopElse, _Expressions):
        node = step(ctx).visit(node)
    return node


def line_of(node: Any) -> str:
    """`" in line 3"`, or nothing where it is not known."""
    origin = anno.getanno(node, anno.Basic.ORIGIN, default=None)
    return f" in line {origin.loc.lineno}" if origin is not None else ""


class _Refusals(converter.Base):
    """Names what is left to Python."""

    def visit_Match(self, node: Any) -> Any:
        raise ValueError(f"it has a `match` statement{line_of(node)}; use if and elif")

    def visit_AsyncFor(self, node: Any) -> Any:
        raise ValueError(f"it has an `async for`{line_of(node)}")


class _Annotations(converter.Base):
    """Takes the types off assignments, which Python does not compute inside of a function.

    What stands in a branch or a loop becomes a function, whose `nonlocal` names can't have any.
    """

    def visit_AnnAssign(self, node: Any) -> Any:
        if node.value is None:
            return ast.Pass()
        assignment = ast.Assign(targets=[node.target], value=node.value)
        anno.copyanno(node, assignment, anno.Basic.ORIGIN)
        return ast.copy_location(assignment, node)

    def visit_ClassDef(self, node: Any) -> Any:
        return node  # its annotations are its fields


class _Expressions(converter.Base):
    """Turns `assert`, conditional expressions and `in` into calls, and marks what is raised.

    `malt` takes no message of `assert` but a plain text, and leaves what is inside of a conditional
    expression as it is.
    """

    def visit_Assert(self, node: Any) -> Any:
        self.generic_visit(node)
        return templates.replace(
            "ag__.assert_stmt(test, lambda: msg)",
            test=node.test,
            msg=node.msg or ast.Constant(None),
        )

    def visit_Raise(self, node: Any) -> Any:
        self.generic_visit(node)
        if node.exc is not None:
            node.exc = templates.replace_as_expression("ag__.raised(error)", error=node.exc)
        return node

    def visit_IfExp(self, node: Any) -> Any:
        self.generic_visit(node)
        return templates.replace_as_expression(
            "ag__.if_exp(test, lambda: one, lambda: two, '')",
            test=node.test,
            one=node.body,
            two=node.orelse,
        )

    def visit_TemplateStr(self, node: Any) -> Any:
        # Its node holds the source of each value beside it, and that is what would be written back.
        self.generic_visit(node)
        parts = ast.Tuple([_template_part(x) for x in node.values], ast.Load())
        return templates.replace_as_expression("ag__.template_string(parts)", parts=parts)

    def visit_Compare(self, node: Any) -> Any:
        self.generic_visit(node)
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
            return node
        name = "in_" if isinstance(node.ops[0], ast.In) else "not_in"
        return templates.replace_as_expression(
            f"ag__.{name}(item, items)", item=node.left, items=node.comparators[0]
        )


def _template_part(part: Any) -> Any:
    """A text as it is; for a value the arguments of its `Interpolation`."""
    if isinstance(part, ast.Constant):
        return part
    conversion = ast.Constant(None if part.conversion < 0 else chr(part.conversion))
    arguments = [
        part.value,
        ast.Constant(part.str),
        conversion,
        part.format_spec or ast.Constant(""),
    ]
    return ast.Tuple(arguments, ast.Load())


# ---------------------------------------------------------------------- for ... else


class _Breaks(ast.NodeTransformer):
    """Sets a flag before each `break` of one loop."""

    def __init__(self, flag: str) -> None:
        self.flag = flag
        self.found = False

    def visit_Break(self, node: Any) -> Any:
        self.found = True
        return templates.replace("flag = True\nbreak", flag=self.flag)

    def _leave(self, node: Any) -> Any:
        return node

    visit_For = visit_While = visit_FunctionDef = visit_Lambda = visit_ClassDef = _leave
    visit_AsyncFor = visit_AsyncFunctionDef = _leave


class _LoopElse(converter.Base):
    """Turns the `else` of a loop into an `if` behind it."""

    def _visit_loop(self, node: Any) -> Any:
        self.generic_visit(node)
        if not node.orelse:
            return node
        orelse, node.orelse = node.orelse, []
        flag = self.ctx.namer.new_symbol("did_break", _names(node))
        breaks = _Breaks(flag)
        node.body = [part for statement in node.body for part in _as_list(breaks.visit(statement))]
        if not breaks.found:
            return [node, *orelse]
        before = templates.replace("flag = False", flag=flag)
        after = templates.replace("if not flag:\n  orelse", flag=flag, orelse=orelse)
        return [*before, node, *after]

    visit_For = visit_While = _visit_loop


def _as_list(x: Any) -> list[Any]:
    return x if isinstance(x, list) else [x]


def _names(node: Any) -> set[str]:
    return {n.id for n in ast.walk(node) if hasattr(n, "id") and isinstance(n.id, str)}


# ---------------------------------------------------------------------- :=


class _Walrus(converter.Base):
    """Puts `name := value` before the statement, where `malt` would hide the name in a function."""

    def _move_out(self, node: Any, field: str) -> list[Any]:
        """Assignments to be made before the statement `node`, whose expression loses them."""
        walruses: list[Any] = []
        setattr(node, field, self._without_walruses(getattr(node, field), walruses, []))
        return [
            part
            for walrus in walruses
            for part in templates.replace("y = v", y=walrus.target.id, v=walrus.value)
        ]

    def _without_walruses(self, node: Any, walruses: list[Any], earlier: list[Any]) -> Any:
        """`node` without its assignments; those in it that may not be computed are refused.

        Args:
            node: an expression, from left to right.
            walruses: gets the assignments, in the order in which they are made.
            earlier: gets what is computed before, and would be after them then.
        """
        if isinstance(node, ast.NamedExpr):
            self._check_order(node, earlier)
            node.value = self._without_walruses(node.value, walruses, [])
            walruses.append(node)
            return templates.replace_as_expression("y", y=node.target.id)
        first: Iterable[str] = node._fields
        if isinstance(node, ast.BoolOp):
            node.values[0] = self._without_walruses(node.values[0], walruses, earlier)
            self._refuse(node.values[1:])
            return node
        if isinstance(node, ast.IfExp):
            node.test = self._without_walruses(node.test, walruses, earlier)
            self._refuse([node.body, node.orelse])
            return node
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp):
            return node
        if isinstance(node, ast.GeneratorExp):
            return node
        for name in first:
            value = getattr(node, name)
            if isinstance(value, list):
                value[:] = [self._child(x, walruses, earlier) for x in value]
            else:
                setattr(node, name, self._child(value, walruses, earlier))
        earlier.append(node)
        return node

    def _child(self, x: Any, walruses: list[Any], earlier: list[Any]) -> Any:
        return self._without_walruses(x, walruses, earlier) if isinstance(x, ast.expr) else x

    @staticmethod
    def _check_order(node: Any, earlier: list[Any]) -> None:
        """Refuse what would be computed in another order than before.

        Raises:
            ValueError: something before the assignment reads the name, or calls a function.
        """
        for other in earlier:
            reads = isinstance(other, ast.Name) and other.id == node.target.id
            if reads or isinstance(other, ast.Call | ast.Await | ast.Yield):
                raise ValueError(
                    f"`{node.target.id} :=`{line_of(node)} stands behind a call, or behind a use "
                    "of the name, in its statement; assign before the statement"
                )

    @staticmethod
    def _refuse(nodes: list[Any]) -> None:
        for node in nodes:
            for part in ast.walk(node):
                if isinstance(part, ast.NamedExpr):
                    raise ValueError(
                        f"`{part.target.id} :=`{line_of(part)} is run under a condition only, "
                        "inside of `and`, `or` or `if ... else`; assign before the statement"
                    )

    def _visit_simple(self, node: Any) -> Any:
        self.generic_visit(node)
        field = "test" if hasattr(node, "test") else "value"
        if getattr(node, field) is None:
            return node
        before = self._move_out(node, field)
        return [*before, node] if before else node

    visit_If = visit_Return = visit_Assign = visit_AugAssign = visit_Expr = _visit_simple
    visit_Assert = _visit_simple

    def visit_While(self, node: Any) -> Any:
        self.generic_visit(node)
        before = self._move_out(node, "test")
        if not before:
            return node
        # `while (x := f()): ...` tests anew in each round, so it assigns before the loop and again
        # at the end of its body.
        again = [
            part
            for statement in before
            for part in templates.replace("y = v", y=statement.targets[0].id, v=statement.value)
        ]
        if _Continues().found_in(node.body):
            # A `continue` would pass over the assignment at the end: here the condition moves to
            # the beginning of the body, to which all ways to the next round lead.
            test, node.test = node.test, ast.Constant(True)
            leave = templates.replace("if not test:\n  break", test=test)
            node.body = [*before, *leave, *node.body]
            return node
        node.body = [*node.body, *again]
        return [*before, node]


class _Continues(ast.NodeVisitor):
    """Whether the body of one loop has a `continue` of its own."""

    def __init__(self) -> None:
        self.found = False

    def found_in(self, body: list[Any]) -> bool:
        """Look through the statements."""
        for statement in body:
            self.visit(statement)
        return self.found

    def visit_Continue(self, node: Any) -> None:
        self.found = True

    def _leave(self, node: Any) -> None:
        """What is inside has loops of its own."""

    visit_For = visit_While = visit_FunctionDef = visit_Lambda = visit_ClassDef = _leave
