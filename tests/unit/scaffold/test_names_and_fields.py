"""Names that people choose for projects and kinds: what is refused is refused with the rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oarlock.scaffold.fields import read_field, read_fields
from oarlock.scaffold.names import (
    ScaffoldError,
    check_group,
    check_kind,
    check_plural,
    check_project,
    check_short_name,
    check_subresource,
    check_version,
    collection_of,
    module_of,
)


@pytest.mark.parametrize(
    ("check", "name", "rule"),
    [
        (check_project, "Shop", "lower-case letters, digits and single dashes"),
        (check_project, "shop--two", "single dashes"),
        (check_project, "json", "Python or oarlock has a module called json"),
        (check_project, "oarlock", "has a module called oarlock"),
        (check_project, "class", "has a module called class"),
        (check_group, "demo", "write a domain of yours"),
        (check_group, "Demo.example.com", "in lower case"),
        (check_group, "apps.k8s.io", "Kubernetes' own"),
        (check_version, "1", "write v1, v1beta1"),
        (check_version, "v1gamma1", "write v1, v1beta1"),
        (check_version, "v0", "write v1, v1beta1"),
        (check_kind, "foo", "an upper-case letter first"),
        (check_kind, "Foo-Bar", "letters and digits"),
        (check_kind, "FooList", "clients use this name for lists of Foo"),
        (check_kind, "Resource", "import something else with this name"),
        (check_plural, "Foos", "lower-case letters"),
        (check_short_name, "FO", "lower-case letters"),
        (check_subresource, "Bar", "lower-case letters"),
        (check_subresource, "status", "status_subresource=True"),
        (check_subresource, "scale", "scale=Scale("),
    ],
)
def test_a_bad_name_is_refused_with_the_rule(check: Callable[[str], str], name: str, rule: str) -> None:
    with pytest.raises(ScaffoldError) as refused:
        check(name)
    assert repr(name) in str(refused.value)
    assert rule in str(refused.value)


@pytest.mark.parametrize(
    ("check", "name"),
    [
        (check_project, "pizza-shop"),
        (check_group, "demo.example.com"),
        (check_version, "v2alpha3"),
        (check_kind, "HTTPRoute"),
        (check_plural, "foos"),
        (check_subresource, "dry-run"),
    ],
)
def test_a_good_name_is_taken_as_it_is(check: Callable[[str], str], name: str) -> None:
    assert check(name) == name


@pytest.mark.parametrize(
    ("name", "module"),
    [("Foo", "foo"), ("PizzaOrder", "pizza_order"), ("HTTPRoute", "http_route"), ("Import", "import_")],
)
def test_a_kind_has_a_module_in_words(name: str, module: str) -> None:
    assert module_of(name) == module


@pytest.mark.parametrize(
    ("text", "line", "sample"),
    [
        ("size:int=3", "size: int = 3", 1),
        ("name:str", "name: str", "example"),
        ('note:str=a "b"', 'note: str = "a \\"b\\""', "example"),
        ("ok:bool=true", "ok: bool = True", True),
        ("colour:red|green=red", 'colour: Literal["red", "green"] = "red"', "red"),
        ("until:datetime?", "until: datetime | None = None", "2026-01-01T00:00:00Z"),
        ("extras:list[str]", "extras: list[str] = []", ["example"]),
        ("counts:dict[str,int]", "counts: dict[str, int] = {}", {"example": 1}),
        ("amount:Quantity=1", 'amount: Quantity = "1"', "500m"),
    ],
)
def test_a_field_is_written_as_in_a_class(text: str, line: str, sample: object) -> None:
    field = read_field(text)
    assert (field.source, field.sample) == (line, sample)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("size", "write NAME:TYPE"),
        ("Size:int", "lower-case words"),
        ("class:str", "no keyword of Python"),
        ("size:integer", "isn't a type: write str, int"),
        ("size:int=x", "'x' is no int"),
        ("ok:bool=maybe", "write true or false"),
        ("colour:red|green=blue", "none of its choices"),
        ("extras:list[str]=a", "written in the class"),
    ],
)
def test_a_field_without_meaning_is_refused(text: str, rule: str) -> None:
    with pytest.raises(
        ScaffoldError, match=f"--field {text.replace('|', '.').replace('[', '.')}".replace("]", ".")
    ) as refused:
        read_field(text)
    assert rule in str(refused.value)


def test_a_field_is_there_once() -> None:
    with pytest.raises(ScaffoldError, match="two fields called a"):
        read_fields(("a:int", "a:str"))


@pytest.mark.parametrize(
    ("kind", "plural", "name"),
    [
        ("Foo", "", "Foos"),
        ("Policy", "policies", "Policies"),
        ("Day", "", "Days"),
        ("Box", "boxes", "Boxes"),
        ("Person", "people", "People"),
        ("PizzaBox", "pizzaboxes", "PizzaBoxes"),
        ("PizzaBox", "pizza-boxes", "PizzaBoxes"),
        ("Sheep", "sheep", "SheepCollection"),
    ],
)
def test_the_class_of_a_kinds_objects_has_the_plural_in_capitals(kind: str, plural: str, name: str) -> None:
    assert collection_of(kind, plural) == name
