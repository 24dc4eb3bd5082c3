import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines, withContext } from "../src/api/diff";
import { ApiError } from "../src/api/http";
import type { Kind, KubeObject } from "../src/api/kinds";
import { ownedFields } from "../src/api/managers";
import { applied, conflictsOf } from "../src/api/object";
import { example, Schemas, typeName } from "../src/api/openapi";
import { fieldPath, parseYaml, shownObject, spotAt, spotOfField, toYaml } from "../src/api/yaml";

const object: KubeObject = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    ...{ name: "a", uid: "1", resourceVersion: "7" },
    managedFields: [
      {
        manager: "maker",
        fieldsV1: {
          "f:metadata": { "f:labels": { ".": {}, "f:app": {} } },
          "f:spec": { "f:containers": { 'k:{"name":"web"}': { ".": {}, "f:image": {} } }, "f:gone": {}, "f:set": { 'v:"b"': {} } },
        },
      },
    ],
    labels: { app: "x" },
  },
  spec: { containers: [{ name: "db", image: "d" }, { name: "web", image: "w" }], set: ["a", "b"] },
  status: { ready: true },
};

test("fields belong to managers, in lists by key and by value", () => {
  const paths = ownedFields(object).map((one) => one.path.join("/"));
  assert.deepEqual(paths, ["metadata/labels/app", "spec/containers/1/image", "spec/set/1"]);
});

test("every field has its place in the text", () => {
  const text = toYaml(shownObject(object));
  const { spots, value } = parseYaml(text);
  assert.deepEqual((value as KubeObject).metadata.labels, { app: "x" });
  const spot = spotAt(spots, text.indexOf("image: w") + 2);
  assert.deepEqual(spot?.path, ["spec", "containers", 1, "image"]);
  assert.deepEqual(spotOfField(spots, "spec.containers[1].image.tag")?.path, ["spec", "containers", 1, "image"]);
  assert.deepEqual(fieldPath("metadata.labels[app.kubernetes.io/name]"), ["metadata", "labels", "app.kubernetes.io/name"]);
  assert.match(parseYaml("a: [").problem?.message ?? "", /./);
});

test("a text that grows without end isn't read", () => {
  const bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"];
  for (const [name, of] of Object.entries({ b: "a", c: "b", d: "c", e: "d" })) {
    bomb.push(`${name}: &${name} [${Array.from({ length: 9 }, () => `*${of}`).join(", ")}]`);
  }
  assert.ok(parseYaml(bomb.join("\n")).problem);
});

test("what only the server decides isn't applied", () => {
  const sent = applied(object);
  assert.deepEqual(Object.keys(sent.metadata).sort(), ["labels", "name"]);
  assert.equal(sent.status, undefined);
});

test("conflicts are told by manager", () => {
  const causes = [{ reason: "FieldManagerConflict", message: 'conflict with "maker" using v1', field: ".spec.set" }];
  const error = new ApiError(409, { details: { causes } }, "conflict");
  assert.deepEqual(conflictsOf(error), [{ manager: "maker", field: ".spec.set" }]);
  assert.deepEqual(conflictsOf(new Error("x")), []);
});

test("a difference is the fewest lines that go and come", () => {
  const lines = diffLines("a\nb\nc\nd\n", "a\nc\nx\nd\n");
  assert.deepEqual(lines.map((one) => `${one.kind.slice(0, 1)}${one.text}`), ["sa", "rb", "sc", "ax", "sd"]);
  const long = Array.from({ length: 40 }, (_, index) => `line ${index}`).join("\n");
  const shown = withContext(diffLines(long, `${long}\nmore`));
  assert.deepEqual(shown.map((one) => one.kind), ["gap", "same", "same", "same", "added"]);
  assert.equal(shown[0]?.count, 37);
  assert.ok(diffLines("a", "b").every((one) => one.kind !== "same"));
});

test("a rebuilt text is what the difference says, whatever both are", () => {
  let seed = 7;
  const next = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  for (let round = 0; round < 200; round += 1) {
    const make = (): string => Array.from({ length: 1 + next(12) }, () => "abc"[next(3)]).join("\n");
    const [before, after] = [make(), make()];
    const lines = diffLines(before, after);
    const side = (left: string): string => lines.filter((one) => one.kind === "same" || one.kind === left).map((one) => one.text).join("\n");
    assert.equal(side("removed"), before);
    assert.equal(side("added"), after);
  }
});

const kind: Kind = {
  ...{ group: "sea.example.com", version: "v1", resource: "boats", kind: "Boat", singular: "boat", namespaced: true },
  ...{ verbs: [], shortNames: [], categories: [], subresources: [] },
};

const schemas = new Schemas({
  components: {
    schemas: {
      Boat: {
        type: "object",
        required: ["spec"],
        properties: { metadata: {}, spec: { allOf: [{ $ref: "#/components/schemas/Spec" }], description: "its plan" } },
        "x-kubernetes-group-version-kind": [{ group: kind.group, version: "v1", kind: "Boat" }],
      },
      Spec: {
        type: "object",
        required: ["crew", "masts"],
        properties: {
          crew: { type: "integer", minimum: 2 },
          masts: { type: "array", items: { type: "object", required: ["height"], properties: { height: { type: "number", default: 3 } } } },
          self: { $ref: "#/components/schemas/Spec" },
          labels: { type: "object", additionalProperties: { type: "string" } },
        },
      },
    },
  },
});

test("the schema of a field is found through references, lists and maps", () => {
  const root = schemas.of(kind);
  assert.equal(schemas.at(root, ["spec"])?.description, "its plan");
  assert.equal(schemas.at(root, ["spec", "self", "self", "masts", 0, "height"])?.type, "number");
  assert.equal(schemas.at(root, ["spec", "labels", "any.name/at-all"])?.type, "string");
  assert.equal(schemas.at(root, ["spec", "nothing"]), undefined);
  assert.equal(typeName({ type: "object", additionalProperties: { type: "string" } }), "map to string");
});

test("an example has what is required, and names the rest", () => {
  const text = example(schemas, kind, "bay");
  assert.deepEqual(parseYaml(text).value, {
    ...{ apiVersion: "sea.example.com/v1", kind: "Boat", metadata: { name: "my-boat", namespace: "bay" } },
    spec: { crew: 2, masts: [{ height: 3 }] },
  });
  assert.match(text, /# labels: map to string/);
});
