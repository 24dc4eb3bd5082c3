"""CustomResourceDefinitions against the recorded cases of what may and may not be created."""

from __future__ import annotations

import re
from typing import Any

import pytest

from oarlock.schema.crd import crd_errors


@pytest.fixture(scope="module")
def groups(shared_vectors: Any) -> Any:
    return shared_vectors("crd_validation.json")["groups"]


def v1(crd: Any, go_schema: Any) -> dict[str, Any]:
    """A CRD of the internal type as the v1 dict that a client would send; top-level fields go to every version."""
    spec, names = crd["Spec"], crd["Spec"].get("Names", {})
    versions = []
    for version in spec.get("Versions") or [{"Name": spec.get("Version", ""), "Served": True, "Storage": True}]:
        tree: dict[str, Any] = {
            "name": version["Name"],
            "served": version.get("Served", False),
            "storage": version.get("Storage", False),
        }
        schema = version.get("Schema") or spec.get("Validation")
        if schema and schema.get("OpenAPIV3Schema") is not None:
            tree["schema"] = {"openAPIV3Schema": go_schema(schema["OpenAPIV3Schema"])}
        scale = (version.get("Subresources") or spec.get("Subresources") or {}).get("Scale")
        if scale:
            tree["subresources"] = {"scale": {key[0].lower() + key[1:]: value for key, value in scale.items()}}
        columns = version.get("AdditionalPrinterColumns") or spec.get("AdditionalPrinterColumns")
        if columns:
            wire = {"JSONPath": "jsonPath"}
            tree["additionalPrinterColumns"] = [{wire.get(k, k.lower()): v for k, v in c.items()} for c in columns]
        fields = version.get("SelectableFields") or spec.get("SelectableFields")
        if fields:
            tree["selectableFields"] = [{"jsonPath": field["JSONPath"]} for field in fields]
        versions.append(tree)
    wire_names = {key[0].lower() + key[1:]: value for key, value in names.items()}
    tree = {"group": spec.get("Group", ""), "scope": spec.get("Scope", ""), "versions": versions}
    tree["names"] = {"plural": "", "kind": "", **wire_names}
    if spec.get("PreserveUnknownFields"):
        tree["preserveUnknownFields"] = True
    return {"metadata": {"name": crd["ObjectMeta"]["Name"]}, "spec": tree}


def path_of(path: Any) -> str:
    if "index" in path:
        return f"{path_of(path['parent'])}[{path['index']}]"
    return f"{path_of(path['parent'])}.{path['name']}" if path.get("parent") else path["name"]


def expected_of(case: Any) -> set[tuple[str, str]]:
    return {(error["errorType"], path_of(error["path"])) for error in case.get("errors", [])}


def found_in(case: Any, go_schema: Any) -> set[tuple[str, str]]:
    """Errors as (reason, path), with the paths of top-level schemas as the internal type has them."""
    spec = case["resource"]["Spec"]
    own = {i for i, version in enumerate(spec.get("Versions") or []) if version.get("Schema")}
    fields = {i for i, version in enumerate(spec.get("Versions") or []) if version.get("SelectableFields")}
    found = set()
    for error in crd_errors(v1(case["resource"], go_schema)):
        path = error.path
        version = re.match(r"spec\.versions\[(\d+)\]\.", path)
        if version is not None and int(version[1]) not in own and spec.get("Validation"):
            path = path.replace(f"spec.versions[{version[1]}].schema", "spec.validation")
        if version is not None and int(version[1]) not in fields:
            path = path.replace(f"spec.versions[{version[1]}].selectable", "spec.selectable")
        found.add((error.reason, path))
    return found


# Cases of creation that are left out, by what they are about.
LEFT_OUT = {
    "conversion isn't part of a definition": re.compile(
        "webhookconfig|ConversionReviewVersions_should|invalid_conversion_strategy|webhook conversion"
    ),
    "status isn't part of a definition": re.compile("stored_version|multiple_storage_version"),
    "singular and listKind have defaults; top-level fields don't exist in v1": re.compile(
        "mismatched name|missing values|bad names|per-version fields may not all be set"
    ),
}


def test_creation(groups: Any, go_schema: Any) -> None:
    ran = 0
    cases = groups["validation:validation.TestValidateCustomResourceDefinition.tests"]
    assert len(cases) == 57
    for case in cases:
        if any(pattern.search(case["name"]) for pattern in LEFT_OUT.values()):
            continue
        ran += 1
        assert found_in(case, go_schema) == expected_of(case), case["name"]
    assert ran == 32


def test_selectable_fields(groups: Any, go_schema: Any) -> None:
    cases = groups["validation:validation.TestSelectableFields.tests"]
    assert len(cases) == 5
    for case in cases:
        assert found_in(case, go_schema) == expected_of(case), case["name"]


# Updates are checked without the old object, because a definition replaces another one whole; so the cases in
# which something wrong is forgiven, because it was there before, can't pass. These 17 say what the new one does wrong.
UPDATES = re.compile(
    "invalid types updates disallowed|reject |to non-structural updates not allowed|setting defaults|"
    "switch off preserveUnknownFields without|switch to preserveUnknownFields: true is forbidden|"
    "schema required if|too many selectableFields are not allowed|^unchanged"
)


def test_what_an_update_may_not_bring(groups: Any, go_schema: Any) -> None:
    cases = groups["validation:validation.TestValidateCustomResourceDefinitionUpdate.tests"]
    assert len(cases) == 43
    ran = 0
    for case in cases:
        if UPDATES.search(case["name"]):
            ran += 1
            new = found_in(case, go_schema)
            old = found_in({"resource": case["old"]}, go_schema)
            assert expected_of(case) <= new, case["name"]
            assert new <= expected_of(case) | old, case["name"]
    assert ran == 17
