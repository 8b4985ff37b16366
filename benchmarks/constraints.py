"""Conditions between parameters, such as `slots <= 8 or threads == 1`: a small part of Python. Pure."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

MOST_CHARACTERS = 300
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, some: one in some,
    ast.NotIn: lambda one, some: one not in some,
}
_COMPUTE: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


class BadConstraint(ValueError):
    """The message says what is not understood."""


def holds(constraint: str, values: Mapping[str, Any]) -> bool:
    """Raises BadConstraint."""
    if len(constraint) > MOST_CHARACTERS:
        raise BadConstraint(f"longer than {MOST_CHARACTERS} characters")
    try:
        return bool(_value(ast.parse(constraint, mode="eval").body, values))
    except (SyntaxError, TypeError, ZeroDivisionError, RecursionError) as error:
        raise BadConstraint(str(error)) from None


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | bool() as value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Name(id=name):
            raise BadConstraint(f"{name} is no parameter of the space: {', '.join(values)}")
        case ast.Tuple(elts=some) | ast.List(elts=some):
            return [_value(one, values) for one in some]
        case ast.BoolOp(op=ast.And(), values=some):
            return all(_value(one, values) for one in some)
        case ast.BoolOp(op=ast.Or(), values=some):
            return any(_value(one, values) for one in some)
        case ast.UnaryOp(op=ast.Not(), operand=one):
            return not _value(one, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTE:
            one, other = _value(left, values), _value(right, values)
            if not all(isinstance(side, int | float) for side in (one, other)):
                raise BadConstraint("only numbers are computed with")
            return _COMPUTE[type(op)](one, other)
        case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(op) in _COMPARE for op in ops):
            sides = [_value(one, values) for one in (left, *rights)]
            pairs = zip(sides, ops, sides[1:], strict=False)
            return all(_COMPARE[type(op)](one, other) for one, op, other in pairs)
    raise BadConstraint(f"{ast.unparse(node)} is not understood: compare parameters, with and, or, not")
