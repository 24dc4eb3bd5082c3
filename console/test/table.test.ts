import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../src/api/http";
import { age, compareBy, inOrderOf, LiveTable, matches, type Row } from "../src/api/table";

function row(name: string, cells: unknown[] = [name], labels: Record<string, string> = {}): Row {
  return { key: `/${name}`, cells, meta: { name, labels }, changed: 0 };
}

function event(type: string, name: string, version: string): Parameters<LiveTable["take"]>[0] {
  return { type, object: { rows: [{ cells: [name], object: { metadata: { name, resourceVersion: version } } }] } };
}

test("ages are printed as kubectl prints them", () => {
  const seconds = [5, 119, 125, 600, 10_799, 10_860, 28_800, 172_800, 180_000, 691_200, 63_072_000, 70_000_000];
  const printed = seconds.map((one) => age(new Date(1_800_000_000_000 - one * 1000).toISOString(), 1_800_000_000_000));
  assert.deepEqual(printed, ["5s", "119s", "2m5s", "10m", "179m", "3h1m", "8h", "2d", "2d2h", "8d", "2y", "2y80d"]);
  assert.equal(age("", 0), "");
});

test("numbers are ordered as numbers, and names by the numbers in them", () => {
  const rows = [row("b-10", [10]), row("b-9", [9]), row("b-2", [2])];
  assert.deepEqual(rows.toSorted(compareBy(0)).map((one) => one.meta.name), ["b-2", "b-9", "b-10"]);
});

test("rows keep the order they had, as they are now", () => {
  const [a, b, c] = [row("a"), row("b"), row("c")];
  const newer = row("b", ["changed"]);
  const kept = inOrderOf([c, b, a], new Map([a, newer, row("d")].map((one) => [one.key, one])));
  assert.deepEqual(kept.map((one) => one.meta.name), ["b", "a", "d"]);
  assert.equal(kept[0], newer);
});

test("a filter looks for every word, in cells, names and labels", () => {
  const one = row("web", ["web", "Running"], { app: "shop" });
  assert.ok(matches(one, "running APP=shop"));
  assert.ok(!matches(one, "running db"));
});

test("events of a watch change the rows, and bookmarks only the version", () => {
  const table = new LiveTable(new Session("https://here/"), "api/v1/pods", {}, () => undefined);
  table.take(event("ADDED", "a", "1"));
  table.take(event("MODIFIED", "a", "2"));
  table.take(event("ADDED", "b", "3"));
  table.take(event("DELETED", "b", "4"));
  table.take({ type: "BOOKMARK", object: { metadata: { name: "", resourceVersion: "9" } } });
  assert.deepEqual([...table.rows.keys()], ["/a"]);
  assert.equal(table.changes, 4);
  assert.throws(() => table.take({ type: "ERROR", object: { code: 410, message: "too old" } }), /too old/);
  table.stop();
});
