import assert from "node:assert/strict";
import { test } from "node:test";
import { base64url, rootOf, Session } from "../src/api/http";
import { groupsOf, pathOf, type Kind } from "../src/api/kinds";
import { given, listPlace, objectPlace, parsePlace } from "../src/api/route";

const kind: Kind = {
  ...{ group: "apps", version: "v1", resource: "deployments", kind: "Deployment", singular: "deployment" },
  ...{ namespaced: true, verbs: [], shortNames: [], categories: [], subresources: [] },
};

test("the API is beside the console, behind whatever prefix", () => {
  assert.equal(rootOf("https://host:6443/console/#/list"), "https://host:6443/");
  assert.equal(rootOf("http://127.0.0.1:8001/some/prefix/console/index.html?a#b"), "http://127.0.0.1:8001/some/prefix/");
  assert.equal(new Session("https://h/p/").url("apis/x", { a: "b c", none: "" }), "https://h/p/apis/x?a=b+c");
});

test("a name can hold anything and stays one part of a path", () => {
  assert.equal(pathOf(kind, "ns", "a/../b?c"), "apis/apps/v1/namespaces/ns/deployments/a%2F..%2Fb%3Fc");
  const place = parsePlace(objectPlace(kind, "ns", "a/../b?c#d", { tab: "yaml" }));
  assert.deepEqual(place.parts, ["object", "apps", "v1", "deployments", "ns", "a/../b?c#d"]);
  assert.equal(place.options.tab, "yaml");
});

test("the core group and a cluster's objects have no name in a path", () => {
  assert.equal(listPlace({ group: "", version: "v1", resource: "pods" }), "#/list/_/v1/pods");
  assert.equal(given("_"), "");
});

test("a token is a subprotocol without padding", () => {
  assert.equal(base64url("a>?b"), "YT4_Yg");
});

test("discovery lists kinds by group, and what isn't available", () => {
  const [group] = groupsOf([
    {
      metadata: { name: "apps" },
      versions: [
        { version: "v1", resources: [{ resource: "deployments", scope: "Namespaced", responseKind: { kind: "Deployment" } }] },
        { version: "v0", freshness: "Stale" },
      ],
    },
  ]);
  assert.deepEqual([group?.kinds[0]?.kind, group?.kinds[0]?.namespaced, group?.stale], ["Deployment", true, ["v0"]]);
});
