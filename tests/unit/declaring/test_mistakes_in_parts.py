"""A part that couldn't be served as it is meant is refused where it is declared, with file, line and what to write."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from oarlock import DeclarationError

Told = Callable[[str], tuple[int, str]]


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], None]:
    """Imports a program that begins with ``from oarlock import *`` in its first line, as a file of its own."""

    def run(program: str) -> None:
        file = tmp_path / "user.py"
        file.write_text("from oarlock import *; from typing import *\n" + program)
        spec = importlib.util.spec_from_file_location("mistakes_in_parts", file)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    return run


@pytest.fixture
def told(load: Callable[[str], None]) -> Told:
    """The line that is blamed and the text."""

    def run(program: str) -> tuple[int, str]:
        with pytest.raises(DeclarationError) as caught:
            load(program)
        file, line, text = str(caught.value).split(":", 2)
        assert file.endswith("user.py")
        return int(line), text.strip()

    return run


HEAD = """
class Spec(Model):
    days: int
    note: str = ""
class Inner(Model):
    left: int = 0
class Status(Model):
    inner: Inner | None = None
class Leave(Resource, group="mistakes.example.com", version="v1", plural="leaves"):
    spec: Spec
    status: Status | None = None
class Old(Spoke[Leave], version="v1beta1"):
    spec: Spec
    def to_hub(self) -> Leave: return Leave(metadata=self.metadata, spec=self.spec)
    @classmethod
    def from_hub(cls, hub: Leave) -> "Old": return cls(metadata=hub.metadata, spec=hub.spec)
class Leaves(StoredCollection[Leave]):
"""
FIRST = 1 + HEAD.count("\n") + 1
"""The line of what a test adds."""


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ('    x = part("status", fields=["status"])', 0, "part('status'): no part can be called 'status'"),
        ('    x = part("Approval", fields=["spec"])', 0, "part('Approval'): no part can be called 'Approval'"),
        ('    x = part("a", fields=[])', 0, "part('a'): fields=[]"),
        ('    x = part("a", fields="spec.note")', 0, "part('a'): fields='spec.note' (a list of paths"),
        ('    x = part("a", fields=["spec[0]"])', 0, "part('a'): 'spec[0]' is no path of a field"),
        (
            '    x = part("a", fields=["metadata.labels"])',
            0,
            "part('a'): 'metadata.labels' belongs to the object",
        ),
        (
            '    x = part("a", fields=["spec", "spec.note"])',
            0,
            "part('a'): the field 'spec.note' is named twice",
        ),
        ('    x = part("a", fields=["spec.note", "spec.note"])', 0, "part('a'): the field 'spec.note' is named twice"),
        (
            '    x = part("a", fields=["spec.note"], versions="v1")',
            0,
            "part('a'): versions='v1' (write versions=['v1'])",
        ),
        (
            '    x = part("a", fields=["spec.note"])\n    y = part("a", fields=["spec.note"])',
            1,
            "Leaves.y: x serves 'a' already",
        ),
        (
            '    x = part("a", fields=["spec.note"])\n'
            '    @subresource("a", method="POST")\n    async def _a(self, name: str) -> None: ...',
            0,
            "Leaves.x: _a serves 'a' already",
        ),
        (
            '    x = part("a", fields=["spec.note"])\n    @x.validate\n    def _v(self, new): ...',
            2,
            "Leaves._v(self, new): has other parameters than the server gives it (write def _v(self, new, old, ctx))",
        ),
        (
            '    x = part("a", fields=["spec.note"])\n    @x.prepare\n    async def _v(self, new, old, ctx): ...',
            2,
            "Leaves._v: may not wait",
        ),
        (
            '    x = part("a", fields=["spec.note"])\n    @x.validate\n    def _v(self, new, old, ctx): ...\n'
            "    @x.validate\n    def _w(self, new, old, ctx): ...",
            3,
            "part 'a': _v is its validate already",
        ),
    ],
)
def test_what_the_class_says_is_wrong(told: Told, body: str, line: int, said: str) -> None:
    at, text = told(HEAD + body)
    assert text.startswith(said)
    assert at - FIRST == line


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ('part("a", fields=["spec.nte"])', "v1 has no field 'spec.nte': no 'nte' (there are days, note"),
        ('part("a", fields=["spec.note.x"])', "v1 has no field 'spec.note.x': no 'x' (it has no fields with names"),
        ('part("a", fields=["status.inner.left"])', "v1beta1 has no field 'status.inner.left': no 'status'"),
        ('part("a", fields=["spec.days"])', "'spec.days' is required, and objects are created without what belongs"),
        ('part("a", fields=["spec.note"], versions=["v2"])', "there is no version 'v2' (there are v1, v1beta1)"),
    ],
)
def test_what_the_types_do_not_have(told: Told, part: str, said: str) -> None:
    at, text = told(f"{HEAD}    x = {part}\nserved_from([Leaves, Old])")
    assert text.startswith(f"Leaves.x: {said}")
    assert at >= FIRST


@pytest.mark.parametrize(
    "part",
    [
        'part("a", fields=["spec.days"], shared=True)',
        'part("a", fields=["status.inner.left"], versions=["v1"])',
        'part("a", fields=[".spec.note"])',
    ],
)
def test_what_is_right(load: Callable[[str], None], part: str) -> None:
    load(f"{HEAD}    x = {part}\nserved_from([Leaves, Old])")


def test_a_virtual_part_is_read_and_written(told: Told) -> None:
    program = (
        'class L(Resource, group="mistakes.example.com", version="v1"):\n    note: str = ""\n'
        "class Ls(VirtualCollection[L]):\n"
        '    x = part("a", fields=["note"])\n    async def get(self, name: str, ctx: Context) -> L: ...'
    )
    assert told(program)[1] == "Ls.x: a part is read and written (write get and update)"
