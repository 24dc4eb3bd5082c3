"""The errors of CustomResourceDefinitions: their texts, their places, and what an update tolerates."""

from __future__ import annotations

from typing import Any

import pytest
from crd_kit import DEFINITIONS, GROUP, conditions, definition, established, until, version

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory

Tree = dict[str, Any]
NAME = f"plains.{GROUP}"
SCHEMA = "spec.validation.openAPIV3Schema.properties[spec].properties[x]"


def with_field(schema: Tree, **fields: Any) -> Tree:
    """A definition whose objects have the field ``spec.x``."""
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}
    return definition("plains", "Plain", {**version(), "schema": {"openAPIV3Schema": whole}, **fields})


def changed(**spec: Any) -> Tree:
    return definition(**spec)


async def causes(api: InMemory, tree: Tree) -> list[tuple[str, str]]:
    """The field and text of each error of a definition."""
    answer = await api.post(f"{DEFINITIONS}?dryRun=All", tree)
    if answer.status == 201:
        return []
    assert answer.status == 422, answer.body
    return [(one["field"], one["message"]) for one in answer.json["details"]["causes"]]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("field", "place", "text"),
    [
        ({"description": "?"}, ".type", "Required value: must not be empty for specified object fields"),
        ({"type": "array"}, ".items", "Required value: must be specified"),
        ({"type": "integer", "minimum": 3, "default": 1}, ".default", "greater than or equal to 3"),
        (
            {"type": "integer", "default": 3, "x-kubernetes-validations": [{"rule": "self > 5"}]},
            ".default",
            "Invalid value: 3: failed rule: self > 5",
        ),
        (
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1", "message": "a\nb"}]},
            ".x-kubernetes-validations[0].message",
            'Invalid value: "a\\nb": must not contain line breaks',
        ),
        (
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self + 1"}]},
            ".x-kubernetes-validations[0].rule",
            '"OptionalOldSelf":null}: cel expression must evaluate to a bool',
        ),
    ],
)
async def test_mistakes_in_a_schema(field: Tree, place: str, text: str) -> None:
    async with InMemory(ControlPlane()) as api:
        ((where, message),) = await causes(api, with_field(field))
        assert where == SCHEMA + place
        assert message.endswith(text)


@pytest.mark.anyio
async def test_a_cost_error_names_the_list_without_a_bound() -> None:
    rule = {"rule": "self.all(x, self.all(y, x != y))"}
    field = {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [rule]}
    async with InMemory(ControlPlane()) as api:
        found = await causes(api, with_field(field))
        assert [where for where, _ in found] == [
            f"{SCHEMA}.x-kubernetes-validations[0].rule",
            f"{SCHEMA}.x-kubernetes-validations[0].rule",
            "spec.validation.openAPIV3Schema",
        ]
        assert "without a bound: " in found[0][1]
        assert "(maxItems)" in found[0][1]


@pytest.mark.anyio
async def test_what_versions_have_in_common_is_named_by_its_place_in_the_whole() -> None:
    bad = {"type": "object", "properties": {"spec": {}}}
    wrong = {**version("v1"), "schema": {"openAPIV3Schema": bad}}
    async with InMemory(ControlPlane()) as api:
        alike = definition("plains", "Plain", wrong, {**wrong, "name": "v2", "storage": False})
        assert [where for where, _ in await causes(api, alike)] == [
            "spec.validation.openAPIV3Schema.properties[spec].type"
        ]
        differing = definition("plains", "Plain", version("v1"), {**wrong, "name": "v2", "storage": False})
        assert [where for where, _ in await causes(api, differing)] == [
            "spec.versions[1].schema.openAPIV3Schema.properties[spec].type"
        ]


@pytest.mark.anyio
async def test_what_an_update_may_change() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        path = f"{DEFINITIONS}/{NAME}"
        for patch, field in (
            ({"group": "other.example.com"}, "spec.group"),
            ({"names": {"plural": "others"}}, "spec.names.plural"),
            ({"names": {"kind": "Other"}}, "spec.names.kind"),
            ({"scope": "Cluster"}, "spec.scope"),
        ):
            answer = await api.patch(path, {"spec": patch})
            assert [one["field"] for one in answer.json["details"]["causes"]] == [field]
        answer = await api.patch(path, {"spec": {"names": {"shortNames": ["pl"], "categories": ["all"]}}})
        assert (answer.status, answer.json["metadata"]["generation"]) == (200, 2)


@pytest.mark.anyio
async def test_a_version_that_objects_were_stored_in_stays() -> None:
    async with InMemory(ControlPlane()) as api:
        two = definition("plains", "Plain", version("v1"), version("v2", storage=False))
        await established(api, two)
        path = f"{DEFINITIONS}/{NAME}"
        await api.patch(path, {"spec": {"versions": [version("v1", storage=False), version("v2")]}})
        answer = await api.patch(path, {"spec": {"versions": [version("v2")]}})
        assert [one["field"] for one in answer.json["details"]["causes"]] == ["status.storedVersions[0]"]
        told = await api.patch(f"{path}/status", {"status": {"storedVersions": ["v2"]}})
        assert told.json["status"]["storedVersions"] == ["v2"]
        assert (await api.patch(path, {"spec": {"versions": [version("v2")]}})).status == 200


@pytest.mark.anyio
async def test_kubernetes_own_groups_need_an_approval() -> None:
    async with InMemory(ControlPlane()) as api:
        tree = definition(group="names.k8s.io")
        assert [where for where, _ in await causes(api, tree)] == ["metadata.annotations[api-approved.kubernetes.io]"]
        tree["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental-only"}
        found = await established(api, tree)
        assert conditions(found)["KubernetesAPIApprovalPolicyConformant"] == ("False", "UnapprovedAnnotation")


@pytest.mark.anyio
async def test_unknown_keywords_are_taken_out_and_told() -> None:
    async with InMemory(ControlPlane()) as api:
        tree = with_field({"type": "string", "minLenght": 3, "format": "phone", "title": ""})
        made = await api.post(f"{DEFINITIONS}?dryRun=All", tree)
        field = "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.x.minLenght"
        assert made.warnings == [f'unknown field "{field}"', 'unrecognized format "phone"']
        schema = made.json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert schema["properties"]["spec"]["properties"]["x"] == {"type": "string", "format": "phone"}
        strict = await api.post(f"{DEFINITIONS}?dryRun=All&fieldValidation=Strict", tree)
        assert strict.status == 400
        assert strict.json["message"].endswith(f'strict decoding error: unknown field "{field}"')


@pytest.mark.anyio
async def test_a_ca_without_a_certificate_keeps_a_definition_from_being_established() -> None:
    config = {"url": "https://127.0.0.1:1/c", "caBundle": "bm8gY2VydGlmaWNhdGU="}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
    async with InMemory(ControlPlane()) as api:
        await api.post(DEFINITIONS, definition(conversion={"strategy": "Webhook", "webhook": webhook}))
        found = await until(api, NAME, lambda one: one is not None and bool(conditions(one)))
        assert found is not None
        assert conditions(found)["Established"] == ("False", "InvalidCABundle")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("config", "place", "text"),
    [
        (
            {"url": " https://a/x"},
            "url",
            'parse " https://a/x": first path segment in URL cannot contain colon; desired',
        ),
        ({"url": "https://a\t/x"}, "url", "net/url: invalid control character in URL"),
        ({"url": "ftp://a/x"}, "url", "'https' is the only allowed URL scheme"),
        (
            {"service": {"namespace": "n", "name": "s", "path": "/a//b"}},
            "service.path",
            'Invalid value: "/a//b": segment[1] may not be empty',
        ),
    ],
)
async def test_where_a_conversion_webhook_may_be(config: Tree, place: str, text: str) -> None:
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
    async with InMemory(ControlPlane()) as api:
        found = await causes(api, definition(conversion={"strategy": "Webhook", "webhook": webhook}))
    assert [field for field, _ in found] == [f"spec.conversion.webhookClientConfig.{place}"]
    assert text in found[0][1]


ROOT = "spec.validation.openAPIV3Schema"
TEXT = {"type": "string"}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
NAMES_ONLY = "must not specify anything other than name and generateName, but metadata is implicitly specified"


def with_metadata(**fields: Any) -> Tree:
    return {"type": "object", "properties": {"metadata": {"type": "object", **fields}}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        ({"type": "object", "nullable": True}, {".nullable": "Forbidden: nullable cannot be true at the root"}),
        (
            with_metadata(properties={"x": EMBEDDED}),
            {
                ".properties[metadata]": f"Forbidden: {NAMES_ONLY}",
                ".properties[metadata].properties[x].x-kubernetes-embedded-resource": (
                    "Forbidden: must not be used inside of resource meta"
                ),
            },
        ),
        (with_metadata(description="?"), {".properties[metadata]": f"Forbidden: {NAMES_ONLY}"}),
        (with_metadata(**{"x-kubernetes-validations": [{"rule": "true"}]}), {".properties[metadata]": NAMES_ONLY}),
        (with_metadata(properties={"name": {**TEXT, "pattern": "^a"}}), {}),
        (
            {"type": "object", "properties": {"p": {"type": "array", "items": [TEXT]}}},
            {".properties[p].items": "Forbidden: items must be a schema object and not an array"},
        ),
        (
            {"type": "object", "properties": {"p": {"$ref": "#/q"}, "q": {}}},
            {".properties[p].$ref": "Forbidden: $ref is not supported"},  # what else is wrong can't be said
        ),
        (
            {"type": "object", "default": {"kind": "Plain"}},
            {".default.apiVersion": "Required value"},
        ),
    ],
)
async def test_mistakes_of_whole_schemas(schema: Tree, errors: dict[str, str]) -> None:
    tree = definition("plains", "Plain", {**version(), "schema": {"openAPIV3Schema": schema}})
    async with InMemory(ControlPlane()) as api:
        found = dict(await causes(api, tree))
        assert found.keys() == {f"{ROOT}{where}" for where in errors}
        assert all(found[f"{ROOT}{where}"].endswith(text) for where, text in errors.items())


@pytest.mark.anyio
async def test_a_null_type_is_no_type() -> None:
    async with InMemory(ControlPlane()) as api:
        found = await causes(api, with_field({"type": "null"}))
        assert [(where, text.split(":")[0]) for where, text in found] == [
            (f"{SCHEMA}.type", "Unsupported value"),
            (f"{SCHEMA}.type", "Forbidden"),
        ]


@pytest.mark.anyio
async def test_review_versions_are_labels() -> None:
    webhook = {"conversionReviewVersions": ["V_", "v1"], "clientConfig": {"url": "https://example.com/"}}
    async with InMemory(ControlPlane()) as api:
        found = await causes(api, changed(conversion={"strategy": "Webhook", "webhook": webhook}))
        assert [where for where, _ in found] == ["spec.conversion.conversionReviewVersions[0]"]
