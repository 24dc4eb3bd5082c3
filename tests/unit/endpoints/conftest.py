"""What the endpoint tests serve: the definitions of the recorded sample server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from oarlock.endpoints.catalog import Catalog
from oarlock.registry.served import Served
from oarlock.schema.definition import Column, Names, ResourceDefinition, VersionDefinition

GROUP = "wardle.example.com"


def flunder_schema(*references: str) -> dict[str, Any]:
    text = {"type": "string"}
    spec = {"type": "object", "properties": {**dict.fromkeys(references, text), "referenceType": text}}
    return {
        "type": "object",
        "description": "A flunder points at another flunder, or at a fischer.",
        "properties": {"spec": spec, "status": {"type": "object"}},
    }


CREATED_AT = (Column("Created At", ".metadata.creationTimestamp", "date", relative=False),)
FLUNDERS = ResourceDefinition(
    GROUP,
    Names("flunders", "Flunder"),
    "Namespaced",
    (
        VersionDefinition("v1alpha1", flunder_schema("reference"), deprecated=True, columns=CREATED_AT),
        VersionDefinition("v1beta1", flunder_schema("flunderReference", "fischerReference"), columns=CREATED_AT),
    ),
    hub="v1beta1",
    stored_as="v1alpha1",
    unconditional_update=True,
)
FISCHERS = ResourceDefinition(
    GROUP,
    Names("fischers", "Fischer"),
    "Cluster",
    (
        VersionDefinition(
            "v1alpha1",
            {
                "type": "object",
                "properties": {"disallowedFlunders": {"type": "array", "items": {"type": "string"}}},
            },
            columns=CREATED_AT,
        ),
    ),
    hub="v1alpha1",
    stored_as="v1alpha1",
)


@pytest.fixture(scope="session")
def wardle() -> Catalog:
    return Catalog.of([Served(FLUNDERS), Served(FISCHERS)])


@pytest.fixture(scope="session")
def recorded(golden: list[dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
    """`recorded(4)`: the exchange with that number, its JSON body parsed as ``tree``."""
    by_id = {entry["id"]: entry for entry in golden}

    def look_up(number: int) -> dict[str, Any]:
        entry = by_id[number]
        body = entry["response"].get("body", "")
        headers = {name.lower(): value for name, value in entry["response"]["headers"]}
        tree = json.loads(body) if body.startswith("{") else None
        return {**entry, "tree": tree, "headers": headers, "text": body}

    return look_up
