/** Which manager has which field, from an object's managed fields. */
import type { FieldSet, KubeObject, ManagedFields } from "./kinds";
import type { Path } from "./yaml";

export interface Owner {
  manager: string;
  operation: string;
  time: string;
  subresource: string;
}

export interface Owned {
  path: Path;
  owner: Owner;
}

/** Every field that somebody has, with all who have it. */
export function ownedFields(object: KubeObject): Owned[] {
  const found: Owned[] = [];
  for (const entry of object.metadata.managedFields ?? []) {
    walk(entry.fieldsV1 ?? {}, object, [], ownerOf(entry), found);
  }
  return found;
}

function ownerOf(entry: ManagedFields): Owner {
  return {
    manager: entry.manager ?? "unknown",
    operation: entry.operation ?? "",
    time: entry.time ?? "",
    subresource: entry.subresource ?? "",
  };
}

function walk(set: FieldSet, value: unknown, path: Path, owner: Owner, found: Owned[]): void {
  const inside = Object.keys(set).filter((key) => key !== ".");
  if (!inside.length) {
    if (path.length) found.push({ path, owner });
    return;
  }
  for (const key of inside) {
    const step = stepOf(key, value);
    const below = set[key];
    if (step === undefined || !below) continue;
    walk(below, (value as Record<string | number, unknown>)[step], [...path, step], owner, found);
  }
}

/** The name or the place that a key of a field set stands for; undefined if the object has no such thing. */
function stepOf(key: string, value: unknown): string | number | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const text = key.slice(2);
  if (key.startsWith("f:")) return text in value ? text : undefined;
  if (!Array.isArray(value)) return undefined;
  const list: unknown[] = value;
  if (key.startsWith("i:")) return Number(text);
  let wanted: unknown;
  try {
    wanted = JSON.parse(text);
  } catch {
    return undefined;
  }
  const index = key.startsWith("v:")
    ? list.findIndex((item) => JSON.stringify(item) === JSON.stringify(wanted))
    : list.findIndex((item) => hasAll(item, wanted));
  return index < 0 ? undefined : index;
}

function hasAll(item: unknown, wanted: unknown): boolean {
  if (typeof item !== "object" || item === null || typeof wanted !== "object" || wanted === null) return false;
  const fields = item as Record<string, unknown>;
  return Object.entries(wanted).every(([name, value]) => fields[name] === value);
}

/** The managers in the order they are coloured. */
export function managersOf(owned: Owned[]): string[] {
  return [...new Set(owned.map((one) => one.owner.manager))];
}
