"""Edits of Python source by its syntax tree, and updates of what was generated, by a three-way merge.

What isn't named stays as it is, to the byte. Must not know: projects.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from oarlock.meta.dataclass import dataclass
from oarlock.scaffold.changes import Changes
from oarlock.scaffold.names import ScaffoldError
from oarlock.scaffold.project import MADE, Project, made_by, project_files


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


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Lines of a template that a file doesn't have, because its owner changed the same place."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    """`lines` in place of the lines of a text from `start` to `end`."""

    start: int
    end: int
    lines: tuple[str, ...]

    def touches(self, other: _Edit) -> bool:
        return self.start <= other.end and other.start <= self.end


def update(project: Project, changes: Changes, oarlock: str) -> list[LeftAlone]:
    """Put what the templates of this version changed into `changes`. Raises `ScaffoldError`."""
    if not changes.exists(MADE):
        raise ScaffoldError(f"{MADE} isn't there, which says what oarlock new wrote: nothing can be compared")
    try:
        before: dict[str, str] = json.loads(changes.text(MADE))["files"]
    except (ValueError, KeyError, TypeError):
        raise ScaffoldError(f"{MADE} isn't what oarlock new wrote: nothing can be compared") from None
    after = project_files(project, oarlock)
    left: list[LeftAlone] = []
    for path, text in after.items():
        if path not in before:
            changes.create_if_missing(path, text)
        elif changes.exists(path) and text != before[path]:
            merged, refused = three_way(before[path], changes.text(path), text)
            changes.edit(path, lambda _, merged=merged: merged)  # type: ignore[misc]
            if refused:
                left.append(LeftAlone(path, tuple(refused)))
    changes.edit(MADE, lambda _: made_by(oarlock, after))
    return left


def three_way(base: str, own: str, new: str) -> tuple[str, list[str]]:
    """`own` with the changes from `base` to `new`, where it has none of its own; and the lines it didn't take."""
    lines = base.splitlines(keepends=True)
    kept = list(_edits(lines, own.splitlines(keepends=True)))
    taken, refused = list(kept), []
    for edit in _edits(lines, new.splitlines(keepends=True)):
        if edit in kept:
            continue
        if any(edit.touches(other) for other in kept):
            refused += [line.rstrip("\n") for line in edit.lines]
        else:
            taken.append(edit)
    for edit in sorted(taken, key=lambda edit: (edit.start, edit.end), reverse=True):
        lines[edit.start : edit.end] = edit.lines
    return "".join(lines), refused


def _edits(before: Sequence[str], after: Sequence[str]) -> Iterator[_Edit]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag != "equal":
            yield _Edit(start, end, tuple(after[first:last]))
