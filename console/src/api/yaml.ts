/** Objects as YAML, and where in the text each field is. */
import { isMap, isScalar, isSeq, LineCounter, parseDocument, stringify, type Node } from "yaml";
import type { KubeObject } from "./kinds";

export type Path = readonly (string | number)[];

/** A field in a text: from its name to the end of its value. */
export interface Spot {
  path: Path;
  from: number;
  nameEnd: number;
  to: number;
}

export function toYaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}

/** What is shown of an object: managed fields are colours, not text. */
export function shownObject(object: KubeObject): KubeObject {
  const { apiVersion, kind, metadata, ...rest } = object;
  const { managedFields: _fields, name, namespace, labels, annotations, ...others } = metadata;
  const named = namespace === undefined ? { name } : { name, namespace };
  const described = { ...(labels ? { labels } : {}), ...(annotations ? { annotations } : {}) };
  const typed = { ...(apiVersion ? { apiVersion } : {}), ...(kind ? { kind } : {}) };
  return { ...typed, metadata: { ...named, ...described, ...others }, ...rest };
}

export interface Parsed {
  value: unknown;
  spots: Spot[];
  problem: { message: string; from: number; to: number } | undefined;
}

export function parseYaml(text: string): Parsed {
  const document = parseDocument(text, { lineCounter: new LineCounter(), uniqueKeys: true, maxAliasCount: 50 } as never);
  const [error] = document.errors;
  if (error) {
    const [from, to] = error.pos;
    return { value: undefined, spots: [], problem: { message: error.message.split("\n")[0] ?? "", from, to } };
  }
  const spots: Spot[] = [];
  collect(document.contents, [], spots);
  try {
    return { value: document.toJS({ maxAliasCount: 50 }) as unknown, spots, problem: undefined };
  } catch (caught) {
    return { value: undefined, spots, problem: { message: String(caught), from: 0, to: text.length } };
  }
}

function collect(node: unknown, path: Path, spots: Spot[]): void {
  if (isMap(node)) {
    for (const { key, value } of node.items) {
      if (!isScalar(key) || !key.range) continue;
      const inside = [...path, String(key.value)];
      const end = (value as Node | null)?.range?.[1] ?? key.range[1];
      spots.push({ path: inside, from: key.range[0], nameEnd: key.range[1], to: Math.max(end, key.range[1]) });
      collect(value, inside, spots);
    }
  } else if (isSeq(node)) {
    node.items.forEach((item, index) => {
      const range = (item as Node | null)?.range;
      const inside = [...path, index];
      if (range) spots.push({ path: inside, from: range[0], nameEnd: range[1], to: range[1] });
      collect(item, inside, spots);
    });
  }
}

/** The innermost field at a place in the text. */
export function spotAt(spots: Spot[], position: number): Spot | undefined {
  let best: Spot | undefined;
  for (const spot of spots) {
    if (spot.from <= position && position <= spot.to && (!best || spot.path.length >= best.path.length)) best = spot;
  }
  return best;
}

/** The field that an error of the server is about: the field itself, or the nearest one around it. */
export function spotOfField(spots: Spot[], field: string): Spot | undefined {
  for (let path = fieldPath(field); path.length; path = path.slice(0, -1)) {
    const found = spots.find((spot) => samePath(spot.path, path));
    if (found) return found;
  }
  return undefined;
}

/** The steps of a field's name in an error: `spec.containers[0].image`, `metadata.labels[app.kubernetes.io/name]`. */
export function fieldPath(field: string): Path {
  const steps: (string | number)[] = [];
  for (const [, name, inside] of field.matchAll(/([^.[\]]+)|\[([^\]]*)\]/g)) {
    if (name !== undefined) steps.push(name);
    else if (inside !== undefined) steps.push(/^\d+$/.test(inside) ? Number(inside) : inside.replace(/^["']|["']$/g, ""));
  }
  return steps;
}

export function samePath(a: Path, b: Path): boolean {
  return a.length === b.length && a.every((step, index) => step === b[index]);
}
