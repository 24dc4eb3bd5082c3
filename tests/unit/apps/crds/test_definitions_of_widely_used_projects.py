"""What the definitions of fifty widely used projects say is accepted, and does what it says.

Groups, kinds and versions are those of the projects; a schema has the fields about which one of their rules is, or
what else is unusual in theirs. kube-apiserver takes the definitions that the projects publish.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory, VirtualClock

Tree = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LINES = (Path(__file__).parent / "widely_used.jsonl").read_text().splitlines()
PROJECTS: list[Tree] = [json.loads(line) for line in LINES]
"""Of each a definition, a spec that fits it, and one that doesn't, unless everything fits."""


def definition(project: Tree) -> Tree:
    plural, _, group = project["name"].partition(".")
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": project["spec"], "status": kept}}
    versions = [
        {"name": name, "served": True, "storage": not number, "schema": {"openAPIV3Schema": schema}}
        for number, name in enumerate(project["versions"].split())
    ]
    names = {"plural": plural, "kind": project["kind"]}
    approved = {"api-approved.kubernetes.io": "https://example.com/approved"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": project["name"], "annotations": approved},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": versions},
    }


@pytest.mark.anyio
async def test_they_are_accepted_and_judge_objects() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        answers = {one["name"]: await api.post(DEFINITIONS, definition(one)) for one in PROJECTS}
        assert {name: answer.json["message"] for name, answer in answers.items() if answer.status != 201} == {}
        found: dict[str, list[int]] = {}
        for one in PROJECTS:
            plural, _, group = one["name"].partition(".")
            version = one["versions"].split()[-1]
            body = {"apiVersion": f"{group}/{version}", "kind": one["kind"], "metadata": {"name": "a"}}
            path = f"/apis/{group}/{version}/{plural}"
            while (await api.get(path)).status != 200:
                await clock.run(0.1)
            specs = [one[key] for key in ("misfit", "fits") if key in one]
            found[one["name"]] = [(await api.post(path, {**body, "spec": spec})).status for spec in specs]
        assert found == {one["name"]: [422, 201] if "misfit" in one else [201] for one in PROJECTS}


def test_they_are_fifty() -> None:
    assert len({one["name"].partition(".")[2] for one in PROJECTS}) >= 50
