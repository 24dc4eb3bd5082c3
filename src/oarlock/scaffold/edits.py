"""Edits of Python source by its syntax tree: what isn't named stays as it is, to the byte.

Must not know: files, projects.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from oarlock.scaffold.names import ScaffoldError


def with_import(source: str, line: str) -> str:
    """The source with an import, given as ``from .api.v1.foo import Foo``; as it is if that is there already."""
    module = cst.parse_module(source)
    statement = cst.parse_statement(line)
    if any(statement.deep_equals(node) for node in module.body):
        return source
    at = 0
    for number, node in enumerate(module.body):
        if _is_docstring(node) or _is_import(node):
            at = number + 1
    return module.with_changes(body=[*module.body[:at], statement, *module.body[at:]]).code


def _small(node: cst.CSTNode) -> cst.CSTNode | None:
    return node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None


def _is_import(node: cst.CSTNode) -> bool:
    return isinstance(_small(node), cst.Import | cst.ImportFrom)


def _is_docstring(node: cst.CSTNode) -> bool:
    small = _small(node)
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString | cst.ConcatenatedString)


def with_item(source: str, callees: Collection[str], keyword: str, item: str) -> str:
    """The source with `item` in the list that a call of one of `callees` has as `keyword`; as it is if it is there.

    The list stands in the call, or is a name of the module for one. Raises `ScaffoldError` where it is neither.
    """
    module = cst.parse_module(source)
    calls = _Calls(callees)
    module.visit(calls)
    if len(calls.found) != 1:
        number = "no call" if not calls.found else f"{len(calls.found)} calls"
        raise ScaffoldError(f"there is {number} of {' or '.join(sorted(callees))}: add {keyword}=[{item}] by hand")
    (call,) = calls.found
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == keyword:
            list_of = _list_of(module, argument.value)
            if list_of is None:
                raise ScaffoldError(f"{keyword}= isn't a list that is written there: add {item} to it by hand")
            return module.deep_replace(list_of, _with_element(module, list_of, item)).code  # type: ignore[union-attr]
    added = _argument(f"{keyword}=[{item}]")
    arguments = list(call.args)
    at = next((number for number, given in enumerate(arguments) if _keyword_of(given) == "name"), len(arguments))
    if at < len(arguments):
        added = added.with_changes(comma=_COMMA)
    elif arguments:
        arguments[-1] = arguments[-1].with_changes(comma=_COMMA)
    arguments.insert(at, added)
    return module.deep_replace(call, call.with_changes(args=arguments)).code  # type: ignore[union-attr]


_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _keyword_of(argument: cst.Arg) -> str:
    return argument.keyword.value if argument.keyword is not None else ""


def _argument(text: str) -> cst.Arg:
    call = cst.parse_expression(f"_({text})")
    assert isinstance(call, cst.Call)
    return call.args[0]


class _Calls(cst.CSTVisitor):
    def __init__(self, callees: Collection[str]) -> None:
        super().__init__()
        self.found: list[cst.Call] = []
        self._callees = callees

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value in self._callees:
            self.found.append(node)


def _list_of(module: cst.Module, value: cst.BaseExpression) -> cst.List | None:
    """The list that an expression is, or that its name is assigned."""
    if isinstance(value, cst.List):
        return value
    if not isinstance(value, cst.Name):
        return None
    for node in module.body:
        small = _small(node)
        target = small.targets[0].target if isinstance(small, cst.Assign) else getattr(small, "target", None)
        if isinstance(target, cst.Name) and target.value == value.value:
            assigned = getattr(small, "value", None)
            return assigned if isinstance(assigned, cst.List) else None
    return None


def _with_element(module: cst.Module, list_of: cst.List, item: str) -> cst.List:
    elements = list(list_of.elements)
    if any(module.code_for_node(element.value) == item for element in elements):
        return list_of
    new = cst.Element(cst.parse_expression(item))
    if elements:
        trailing = elements[-1].comma
        on_lines = isinstance(list_of.lbracket.whitespace_after, cst.ParenthesizedWhitespace)
        between = list_of.lbracket.whitespace_after if on_lines else cst.SimpleWhitespace(" ")
        elements[-1] = elements[-1].with_changes(comma=cst.Comma(whitespace_after=between))
        if isinstance(trailing, cst.Comma):
            new = new.with_changes(comma=trailing)
    return list_of.with_changes(elements=[*elements, new])


def with_method(source: str, of_class: str, method: str) -> str:
    """The source with a method, at the end of a class. Raises `ScaffoldError` if the class has it, or isn't there."""
    module = cst.parse_module(source)
    definition = cst.parse_statement(method)
    assert isinstance(definition, cst.FunctionDef)
    for node in module.body:
        if isinstance(node, cst.ClassDef) and node.name.value == of_class:
            break
    else:
        raise ScaffoldError(f"there is no class {of_class} in it")
    if not isinstance(node.body, cst.IndentedBlock):
        raise ScaffoldError(f"{of_class} has its body on its own line: put it below")
    names = {inner.name.value for inner in node.body.body if isinstance(inner, cst.FunctionDef)}
    if definition.name.value in names:
        raise ScaffoldError(f"{of_class} has a method {definition.name.value} already")
    spaced = definition.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    body = node.body.with_changes(body=[*node.body.body, spaced])
    return module.deep_replace(node, node.with_changes(body=body)).code  # type: ignore[union-attr]
