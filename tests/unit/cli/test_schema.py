"""``oarlock schema``: JSON Schemas that accept what the server accepts, as far as they can say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from oarlock.cli.modelling.command import definitions_in_file
from oarlock.cli.publishing.schema_files import object_json_schema, schemas_of
from oarlock.registry.served import Served

SHOP = """\
from decimal import Decimal
from typing import Annotated, Literal

from oarlock import Ge, IntOrString, Lt, Model, Nullable, Pattern, Resource, Spoke, same_fields


class OrderSpec(Model):
    item: Annotated[str, Pattern("^[a-z]+$")]
    size: Annotated[Literal["small", "large"] | None, Nullable] = None
    count: Annotated[int, Ge(1), Lt(100)] = 1
    price: Decimal | None = None
    port: IntOrString = 80
    labels: dict[str, str] = {}


class Order(Resource, group="shop.example.com", version="v2"):
    \"\"\"An order.\"\"\"

    spec: OrderSpec


class OldOrder(Spoke[Order], version="v1"):
    spec: OrderSpec

    def to_hub(self):
        return same_fields(self, Order)

    @classmethod
    def from_hub(cls, hub):
        return same_fields(hub, cls)
"""


def order(version: str = "v2", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"shop.example.com/{version}",
        "kind": "Order",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"item": "tea", **spec},
    }


def test_schemas_are_written_where_editors_and_kubeconform_are_told_to_look(oarlock, folder: Path):
    (folder / "shop.py").write_text(SHOP)
    done = oarlock("schema", "shop.py", "-o", "schemas")
    assert (done.returncode, done.stderr) == (0, "")
    assert "# yaml-language-server: $schema=schemas/shop.example.com/order_v2.json" in done.stdout
    assert '{"yaml.schemas": {"schemas/all.json": "manifests/**/*.yaml"}}' in done.stdout
    place = "'schemas/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'"
    assert f"-schema-location {place} -schema-location default" in done.stdout  # nobody else is asked about our kinds
    files = {file.relative_to(folder / "schemas").as_posix() for file in folder.glob("schemas/**/*.json")}
    assert files == {"all.json", "shop.example.com/order_v1.json", "shop.example.com/order_v2.json"}
    written = {name: json.loads((folder / "schemas" / name).read_text()) for name in files}
    registry = Registry().with_resources([(name, Resource.from_contents(tree)) for name, tree in written.items()])
    every = jsonschema.Draft7Validator(written["all.json"], registry=registry)
    for version in ("v1", "v2"):
        assert every.is_valid(order(version))
        assert not every.is_valid(order(version, colour="red"))
    assert not every.is_valid(order("v3"))


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"size": None}, True),
        ({"size": "huge"}, False),
        ({"count": 99, "port": "http", "price": 1.5, "labels": {"a": "b"}}, True),
        ({"count": 100}, False),
        ({"item": "TEA"}, False),
        ({"price": "1.50"}, True),
        ({"price": True}, False),
        ({"labels": {"a": 1}}, False),
        ({"port": 1.5}, False),
    ],
)
def test_what_fits_is_what_the_server_takes(oarlock, folder: Path, spec: dict[str, Any], fits: bool):
    (folder / "shop.py").write_text(SHOP)
    oarlock("schema", "shop.py")
    schema = json.loads((folder / "schemas/shop.example.com/order_v2.json").read_text())
    assert jsonschema.Draft7Validator(schema).is_valid(order(**spec)) is fits


def test_every_construct_of_a_definition_makes_a_valid_schema():
    file = Path(__file__).parent / "crds" / "everything.yaml"
    (definition,) = definitions_in_file(str(file), lambda path, what: None)
    for schema in schemas_of([Served(definition)]).values():
        jsonschema.Draft7Validator.check_schema(schema)
    v1 = jsonschema.Draft7Validator(object_json_schema(definition, definition.version("v1")))
    engine = yaml.safe_load("""
apiVersion: works.example.com/v1
kind: Engine
metadata: {name: a}
spec: {count: 1, class: null, coal: {name: a}, links: [{name: a}]}
""")
    assert [error.message for error in v1.iter_errors(engine)] == []
    engine["spec"]["oil"] = {"name": "b"}
    assert not v1.is_valid(engine)
