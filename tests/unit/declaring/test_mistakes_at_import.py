"""What would only be noticed by the first client is refused where it is declared, with file, line and what to write."""

from __future__ import annotations

import importlib.util
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import pytest

from oarlock import (
    APIServer,
    DeclarationError,
    Foreign,
    Ge,
    IntOrString,
    ListSet,
    MaxLength,
    Model,
    OmitEmpty,
    Pattern,
    Resource,
    Rule,
    Spoke,
    dataclass_shape,
    served_from,
)

GROUP = "mistakes.example.com"

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Imports a program that begins with ``from oarlock import *`` in its first line, as a file of its own."""

    def run(program: str) -> ModuleType:
        name = f"mistakes_{uuid.uuid4().hex}"
        file = tmp_path / "user.py"
        file.write_text("from oarlock import *; from typing import *\n" + program)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return run


def told(load: Load, program: str) -> tuple[int, str]:
    """The line that is blamed and the text."""
    with pytest.raises(DeclarationError) as caught:
        load(program)
    file, line, text = str(caught.value).split(":", 2)
    assert file.endswith("user.py")
    return int(line), text.strip()


HEAD = 'class A(Resource, group="mistakes.example.com", version="v1"'


@pytest.mark.parametrize(
    ("program", "line", "said"),
    [
        (f"{HEAD}):\n    '''Doc.'''\n\n    items: list[str] = []", 5, "A.items: is 'items' on the wire, and kubectl"),
        (f'{HEAD}):\n    things: Annotated[list[str], Name("items")] = []', 3, "A.things: is 'items' on the wire"),
        (f"{HEAD}, status_subresource=True):\n    status: JSON", 3, "A.status: is required, and status_subresource=Tr"),
        (
            "class S(Model):\n    a: int\n    b: Annotated[int, Ge(5)] = 1",
            4,
            "S.b: the default 1 is refused by its own",
        ),
        ("class S(Model):\n    a: int\n    b: dict", 4, "S.b: dict says nothing about its values"),
        ("class S(Model):\n    a: int\n    podCIDR: str", 4, "S.podCIDR: no name on the wire can be made of this"),
        (
            f"{HEAD}):\n    pass\nclass C(StoredCollection[A]):\n    x = 1\n\n    def validat(self): ...",
            7,
            "C.validat: not a hook of this collection",
        ),
        (
            f"{HEAD}):\n    pass\nclass C(StoredCollection[A]):\n    @subresource('x')\n    async def _x(self): ...",
            6,
            "C._x: ",
        ),
    ],
)
def test_the_line_of_the_field_or_method_is_told(load: Load, program: str, line: int, said: str) -> None:
    found = told(load, program)
    assert found[0] == line
    assert found[1].startswith(said)


def test_a_hint_that_cannot_be_resolved_names_the_field_and_its_line(load: Load) -> None:
    module = load(f"class Part(Model):\n    a: int\n    b: list['Elsewhere']\n{HEAD}):\n    spec: Part\n")
    with pytest.raises(DeclarationError) as caught:
        served_from([module.A])
    assert f"{module.__file__}:4: Part.b: its hint can't be resolved: name 'Elsewhere' is not defined" in str(
        caught.value
    )


def test_a_hint_that_is_text_is_found_too(load: Load) -> None:
    module = load(f"{HEAD}):\n    a: int\n    spec: 'Elsewhere'\n")
    with pytest.raises(DeclarationError, match=r"user.py:4: A.spec: its hint can't be resolved: name 'Elsewhere'"):
        served_from([module.A])


class Inner(Model):
    size: Annotated[int, Ge(1)] = 1


class Tool(Model):
    name: str


@pytest.mark.parametrize(
    ("hint", "default", "said"),
    [
        (Annotated[int, Ge(5)], 1, "x in body should be greater than or equal to 5"),
        (Annotated[str, Pattern("^[a-z]+$")], "A", "x in body should match '^[a-z]+$'"),
        (Annotated[str, MaxLength(2)], "abc", "Too long: may not be more than 2 bytes"),
        (Annotated[list[str], ListSet], ["a", "a"], 'x[1]: Duplicate value: "a"'),
        (Annotated[int, Rule("self % 2 == 0", message="odd")], 3, "odd"),
        (Inner, Inner(size=0), "x.size in body should be greater than or equal to 1"),
        (Literal["a", "b"], "c", "doesn't fit the hint"),
        (IntOrString, 1.5, "doesn't fit the hint"),
    ],
)
def test_a_default_outside_of_its_own_constraint_is_refused(hint: object, default: object, said: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        type(Model)("Bad", (Model,), {"__annotations__": {"x": hint}, "x": default, "__module__": __name__})
    assert "Bad.x: the default" in str(caught.value)
    assert said in str(caught.value)


def test_a_default_that_counts_as_absent_may_be_outside() -> None:
    class Fine(Model):
        a: Annotated[str, OmitEmpty, Pattern("^[a-z]+$")] = ""
        b: Annotated[int, Ge(5)] | None = None

    assert Fine().a == ""


class Apple(Resource, group=GROUP, version="v1", short_names=["ap"]):
    pass


def test_two_resources_of_a_group_share_no_name() -> None:
    class Apricot(Resource, group=GROUP, version="v1", short_names=["ap"]):
        pass

    class Other(Resource, group=GROUP, version="v1", short_names=["apple"]):
        pass

    class Plural(Resource, group=GROUP, version="v1", plural="ap"):
        pass

    class Singular(Resource, group=GROUP, version="v1", singular="ap"):
        pass

    class Elsewhere(Resource, group="other.example.com", version="v1", short_names=["ap", "apples"]):
        pass

    for cls, said in (
        (Apricot, "its short name 'ap' is taken: it is the short name of Apple"),
        (Other, "its short name 'apple' is taken: it is the singular of Apple"),
        (Plural, "its plural 'ap' is taken: it is the short name of Apple"),
        (Singular, "its singular 'ap' is taken: it is the short name of Apple"),
    ):
        with pytest.raises(DeclarationError) as caught:
            APIServer(serve=[Apple, cls])
        assert said in str(caught.value)
        assert str(caught.value).startswith(__file__)
    APIServer(serve=[Apple, Elsewhere])


def test_a_short_name_is_a_word_and_said_once() -> None:
    for given, said in ((["Ap"], "lower-case letters"), (["ap", "ap"], "'ap' is there twice")):
        with pytest.raises(DeclarationError, match=said):

            class Wrong(Resource, group=GROUP, version="v1", short_names=given):
                pass


def test_a_spoke_is_looked_at_too() -> None:
    with pytest.raises(DeclarationError, match="is 'items' on the wire"):

        class Old(Spoke[Apple], version="v0"):
            items: list[str] = []


@dataclass
class Cart:
    items: list[str]


@dataclass
class Counter:
    count: Annotated[int, Ge(5)] = 1


@dataclass
class State:
    status: int


@dataclass
class Shop:
    metadata: str


@dataclass
class Sort:
    kind: int = 0


def test_types_made_elsewhere_are_looked_at_when_they_are_served() -> None:
    for cls, more, said in (
        (Cart, {}, "field items: is 'items' on the wire"),
        (Counter, {}, "the default 1 is refused by its own rules"),
        (Shop, {}, "field metadata: every object has 'metadata' on the wire, and it is an object"),
        (Sort, {}, "field kind: every object has 'kind' on the wire, and it is a string"),
        (State, {"status_subresource": True}, "field status: is required, and status_subresource=True"),
    ):
        with pytest.raises(DeclarationError) as caught:
            served_from([Foreign(dataclass_shape(cls), group=GROUP, version="v1", kind="Thing", **more)])
        assert said in str(caught.value)
        assert str(caught.value).startswith(__file__)


def test_default_takes_nothing_but_the_object() -> None:
    class Pear(Resource, group=GROUP, version="v1"):
        """A pear."""

        def default(self, ctx: object) -> None:  # type: ignore[override]
            """Nobody gives it a context."""

    with pytest.raises(DeclarationError, match=r"Pear\.default: has other parameters .*write def default\(self\)"):
        served_from([Pear])


def test_a_server_is_told_by_keyword_what_to_serve() -> None:
    with pytest.raises(DeclarationError, match=r"write APIServer\(serve=\[Apple\]\)"):
        APIServer(Apple)  # type: ignore[misc]


PYDANTIC = "import pydantic\nclass V(pydantic.BaseModel):\n    x: int = 1\n"
RECORD = "import dataclasses\nfrom functools import partial\n@dataclasses.dataclass\nclass V:\n    x: int = 1\n"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            f"{PYDANTIC}{HEAD}):\n    spec: V",
            "A.spec: V has no schema (write it as a Model, or serve it whole: Foreign(",
        ),
        (f"{RECORD}{HEAD}):\n    spec: V", "Foreign(dataclass_shape(V), group=…, version=…, kind=…)"),
        (f"{PYDANTIC}APIServer(serve=[V])", "V: can't be served (write it as a Model, or serve it whole: Foreign(py"),
        (f"{RECORD}APIServer(serve=[V])", "Foreign(dataclass_shape(V), group=…, version=…, kind=…)"),
        (f"{PYDANTIC}{HEAD}):\n    n: int = pydantic.Field(default=3, gt=0)", "A.n: pydantic.Field is no default here"),
        (
            f"{PYDANTIC}{HEAD}):\n    n: Annotated[int, pydantic.Field(gt=0)] = 3",
            "A.n: pydantic.Field is no marker here",
        ),
        (
            f"{RECORD}a = Foreign(dataclass_shape(V), group='{GROUP}', version='v1', kind='V')\n"
            "class Old(Spoke[a], version='v0'): ...",
            "is no hub (write Spoke[Hub] with the Resource class itself; another version of a Foreign type is",
        ),
        (
            f"{RECORD}class Old(Spoke[V], version='v0'): ...",
            "class Old: V is no hub (write Spoke[Hub] with the Resource class itself; another version of a Foreign",
        ),
        (
            f"{RECORD}as_v = partial(Foreign, dataclass_shape(V), group='{GROUP}', kind='V')\n"
            "APIServer(serve=[as_v(version='v1'), as_v(version='v2')])",
            "another version is a Spoke[…] of the Resource class, or a .spoke(…) of the Foreign",
        ),
        (
            f"from fractions import Fraction\n{HEAD}):\n    price: Fraction",
            "A.price: Fraction has no schema (use str, int, float, bool, bytes, datetime, Decimal, UUID, list, dict or",
        ),
        (f"{HEAD}):\n    spec = 3", "A.spec: a value without a hint is no field (write spec: int = 3"),
        (
            f"{HEAD}): ...\nclass As(StoredCollection[A], stored='x'): ...",
            "class As: unknown keyword 'stored' (did you mean",
        ),
        (
            f"{HEAD}): ...\nclass As(VirtualCollection[A], off=1): ...",
            "class As: unknown keyword 'off' (did you mean 'of'?)",
        ),
        (f"{HEAD}): ...\nclass Ban(Admission[A], operation=['CREATE']): ...", "did you mean 'operations'?"),
        (
            f"from oarlock.controllers import Controller\n{HEAD}): ...\nclass K(Controller[A], own=[A]): ...",
            "class K: unknown keyword 'own' (did you mean 'owns'?)",
        ),
    ],
)
def test_what_another_library_would_take_is_answered_with_what_to_write(load: Load, program: str, said: str) -> None:
    assert said in told(load, program)[1]


def test_the_parent_of_a_subresource_is_an_object_of_the_collection(load: Load) -> None:
    program = f"{HEAD}): ...\nclass As(StoredCollection[A]):\n    @subresource('x', method='GET')\n"
    assert "its parent can't be seen as int" in told(load, f"{program}    async def _x(self, parent: int) -> A: ...")[1]
    load(f"{program}    async def _x(self, parent: dict[str, Any]) -> A: ...")
    load(f"{program}    async def _x(self, parent: A) -> A: ...")
