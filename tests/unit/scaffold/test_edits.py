"""Sources are edited where something is named, and nowhere else."""

from __future__ import annotations

import pytest

from oarlock.scaffold.edits import with_import, with_item, with_method
from oarlock.scaffold.names import ScaffoldError

OWN = '''\
"""Ours."""

import os   # as somebody wrote it
from oarlock import (APIServer,
                     Resource)

KINDS = [
    A,  # the first
    B,
]


class Foos:
    def one(self): return 1   # odd


server = APIServer( serve=KINDS,
    name = "x")
'''


def test_an_import_comes_after_those_there_are_and_once() -> None:
    edited = with_import(OWN, "from .a import B")
    assert edited == OWN.replace("Resource)\n", "Resource)\nfrom .a import B\n")
    assert with_import(edited, "from .a import B") == edited


def test_an_item_is_added_to_the_list_that_a_name_stands_for() -> None:
    assert with_item(OWN, {"APIServer"}, "serve", "C") == OWN.replace("    B,\n", "    B,\n    C,\n")


def test_an_item_that_is_there_is_not_added_again() -> None:
    assert with_item(OWN, {"APIServer"}, "serve", "B") == OWN


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("APIServer(serve=[])", "APIServer(serve=[C])"),
        ("APIServer(serve=[A])", "APIServer(serve=[A, C])"),
        ("APIServer(serve=[A, B,])", "APIServer(serve=[A, B, C,])"),
        ("APIServer(name='x')", "APIServer(serve=[C], name='x')"),
        ("APIServer()", "APIServer(serve=[C])"),
        (
            "APIServer(\n    serve=[\n        A,\n    ],\n)",
            "APIServer(\n    serve=[\n        A,\n        C,\n    ],\n)",
        ),
    ],
)
def test_an_item_is_added_to_a_list_in_the_call(before: str, after: str) -> None:
    assert with_item(f"server = {before}\n", {"APIServer"}, "serve", "C") == f"server = {after}\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("server = make()\n", "no call of APIServer: add serve=\\[C\\] by hand"),
        ("a = APIServer()\nb = APIServer()\n", "2 calls of APIServer"),
        ("server = APIServer(serve=found())\n", "isn't a list that is written there: add C"),
    ],
)
def test_what_has_no_list_is_left_to_its_owner(source: str, says: str) -> None:
    with pytest.raises(ScaffoldError, match=says):
        with_item(source, {"APIServer"}, "serve", "C")


def test_a_method_is_added_at_the_end_of_its_class() -> None:
    method = "async def two(self) -> int:\n    return 2\n"
    edited = with_method(OWN, "Foos", method)
    added = "\n    async def two(self) -> int:\n        return 2\n"
    assert edited == OWN.replace("return 1   # odd\n", f"return 1   # odd\n{added}")
    with pytest.raises(ScaffoldError, match="has a method two already"):
        with_method(edited, "Foos", method)
    with pytest.raises(ScaffoldError, match="no class Bars"):
        with_method(edited, "Bars", method)
