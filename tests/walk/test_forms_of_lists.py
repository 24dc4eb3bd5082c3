"""Lists that are made item by item are what they would be in one piece."""

from __future__ import annotations

import pytest
from walk_kit import BOATS, CRATES, boat, fleet, made, path, walk

from oarlock.codec import json, yaml

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
ANSWERS = "application/json", TABLE, METADATA
LISTS = {
    "objects": BOATS,
    "the version that isn't stored": path("boats", version="v1alpha1"),
    "custom resources": CRATES,
    "none": f"{BOATS}?labelSelector=nobody%3Dhas",
    "no custom resources": f"{CRATES}?labelSelector=nobody%3Dhas",
    "one": f"{BOATS}?limit=1",
}


@pytest.mark.parametrize("accept", ANSWERS)
@pytest.mark.parametrize("which", LISTS)
@walk
async def test_a_list_is_the_same_however_it_is_written(which: str, accept: str) -> None:
    where = LISTS[which]
    api, _ = fleet()
    async with api:
        for name in ("a", "b", "c"):
            await made(api, BOATS, boat(name))
            await made(api, CRATES, {"metadata": {"name": name}, "spec": {"size": 1}})
        compact = await api.get(where, accept=accept)
        indented = await api.get(f"{where}{'&' if '?' in where else '?'}pretty=true", accept=accept)
        assert compact.status == indented.status == 200
        assert compact.headers["content-type"] == indented.headers["content-type"]
        assert indented.body == json.pretty(compact.body.removesuffix(b"\n"))
        in_yaml = await api.get(where, accept=accept.replace("json", "yaml"))
        assert in_yaml.headers["content-type"] == "application/yaml"
        assert in_yaml.body == yaml.encode(json.decode(compact.body))
