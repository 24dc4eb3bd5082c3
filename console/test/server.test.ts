import assert from "node:assert/strict";
import { test } from "node:test";
import { adviceAbout } from "../src/api/advice";
import { covers } from "../src/api/access";
import type { Kind } from "../src/api/kinds";
import { parseDump, parseMetrics, quantile, snapshotOf, WANTED } from "../src/api/metrics";
import { authorizationAddress, nonceOf, returnAddress } from "../src/api/oidc";
import { actionPath, Schemas } from "../src/api/openapi";
import { outcomeOf } from "../src/api/remote";

const bucket = (le: string, verb: string, count: number): string =>
  `apiserver_request_duration_seconds_bucket{le="${le}",verb="${verb}"} ${count}`;

test("requests, latency and watches come from the metrics, without what lasts", () => {
  const at = (fast: number, slow: number): string =>
    [
      "# TYPE apiserver_request_total counter",
      `apiserver_request_total{code="200",resource="a\\"b"} ${slow}`,
      ...[bucket("0.1", "GET", fast), bucket("1.0", "GET", slow), bucket("+Inf", "GET", slow), bucket("+Inf", "WATCH", 99)],
      'apiserver_longrunning_requests{verb="WATCH"} 3',
      "process_resident_memory_bytes 1.5e6",
      "not_asked_for 1",
    ].join("\n");
  const read = (text: string, time: number) => snapshotOf(parseMetrics(text, WANTED), time);
  const [from, to] = [read(at(0, 0), 1), read(at(90, 100), 3)];
  assert.deepEqual([to.requests, to.watches, to.memory], [100, 3, 1_500_000]);
  assert.equal(quantile(0.5, from, to)?.toFixed(3), "0.056");
  assert.equal(quantile(0.95, from, to)?.toFixed(3), "0.550");
  assert.equal(quantile(0.99, to, to), null);
});

test("the table of priority levels is read", () => {
  assert.deepEqual(parseDump("Name, Waiting\ncatch-all,  0, \n\n"), [["Name", "Waiting"], ["catch-all", "0"]]);
});

test("a rule covers what it names, and not what it names by name", () => {
  const question = { verb: "get", group: "apps", resource: "deployments", namespace: "" };
  assert.ok(covers({ verbs: ["*"], apiGroups: ["apps"], resources: ["*"] }, question));
  assert.ok(!covers({ verbs: ["get"], apiGroups: [""], resources: ["deployments"] }, question));
  assert.ok(!covers({ verbs: ["get"], apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["a"] }, question));
});

test("the outcome of a command is what its Status says", () => {
  assert.equal(outcomeOf('{"status":"Success"}'), "");
  assert.equal(outcomeOf('{"status":"Failure","message":"exit code 3"}'), "exit code 3");
});

test("the body of an action is what discovery names, if the document names the object's own kind", () => {
  const kind: Kind = {
    ...{ group: "", version: "v1", resource: "pods", kind: "Pod", singular: "pod", namespaced: true },
    ...{ verbs: [], shortNames: [], categories: [], subresources: [] },
  };
  const of = (name: string) => ({ title: name, "x-kubernetes-group-version-kind": [{ group: "", version: "v1", kind: name }] });
  const path = actionPath(kind, "binding");
  assert.equal(path, "/api/v1/namespaces/{namespace}/pods/{name}/binding");
  const content = { "application/json": { schema: { $ref: "#/components/schemas/Pod" } } };
  const parameters = [{ name: "dryRun", in: "query" }, { name: "mine", in: "query" }, { name: "name", in: "path" }];
  const schemas = new Schemas({
    components: { schemas: { Pod: of("Pod"), Binding: of("Binding") } },
    paths: { [path]: { post: { requestBody: { content }, parameters } } },
  });
  const action = schemas.action(path, kind, { name: "binding", verbs: ["create"], kind: "Binding" });
  assert.deepEqual(action?.body, of("Binding"));
  assert.deepEqual(action.parameters.map((one) => one.name), ["mine"]);
});

test("a login asks the issuer with the challenge of the verifier (RFC 7636, appendix B)", async () => {
  const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
  const client = { clientID: "console", scopes: ["openid", "email"] };
  const pending = { state: "s", nonce: "n", verifier };
  const about = { authorization_endpoint: "https://issuer/auth?realm=1" };
  const back = returnAddress("https://host:6443/p/console/?code=x#/list");
  assert.equal(back, "https://host:6443/p/console/");
  const url = new URL(await authorizationAddress(about, client, pending, back));
  assert.equal(url.searchParams.get("code_challenge"), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
  assert.equal(url.searchParams.get("scope"), "openid email");
  assert.equal(url.searchParams.get("redirect_uri"), back);
  assert.equal(url.searchParams.get("realm"), "1");
  assert.equal(nonceOf(`x.${btoa('{"nonce":"n"}')}.x`), "n");
});

test("what is wrong with an APIService is explained as the doctor explains it", () => {
  const text = 'FailedDiscoveryCheck: Get "https://10.0.0.7:443/": x509: certificate signed by unknown authority';
  assert.equal(adviceAbout(text), "the backend's certificate isn't signed by caBundle: set caBundle to its authority");
  assert.equal(adviceAbout("Passed: all checks passed"), "");
});
