/** Schemas of objects, from the server's OpenAPI v3 documents: what a field is, and what it is for. */
import type { Session } from "./http";
import { apiVersionOf, type Kind, type Subresource } from "./kinds";

export interface Schema {
  $ref?: string;
  type?: string;
  format?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  allOf?: Schema[];
  minimum?: number;
  maximum?: number;
  pattern?: string;
  example?: unknown;
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
  "x-kubernetes-int-or-string"?: boolean;
  "x-kubernetes-preserve-unknown-fields"?: boolean;
}

interface Operation {
  description?: string;
  requestBody?: { content?: Record<string, { schema?: Schema }> };
  parameters?: Parameter[];
}

export interface Parameter {
  name: string;
  in: string;
  description?: string;
  required?: boolean;
  schema?: Schema;
}

interface Document {
  components?: { schemas?: Record<string, Schema> };
  paths?: Record<string, Record<string, Operation> | undefined>;
}

/** Deeper than this nothing is resolved: a schema may contain itself. */
const DEEPEST = 24;

export class Schemas {
  constructor(private readonly document: Document) {}

  /** The schema of a kind. */
  of(kind: Kind): Schema | undefined {
    return Object.values(this.document.components?.schemas ?? {}).find((schema) =>
      schema["x-kubernetes-group-version-kind"]?.some(
        (one) => one.group === kind.group && one.version === kind.version && one.kind === kind.kind,
      ),
    );
  }

  /** A schema with its reference followed; what stands beside the reference (a description, a default) counts. */
  resolved(schema: Schema | undefined): Schema | undefined {
    let found = schema;
    for (let depth = 0; found && depth < DEEPEST; depth += 1) {
      const [only] = found.allOf ?? [];
      const ref = found.$ref ?? (found.allOf?.length === 1 ? only?.$ref : undefined);
      if (!ref) return found.allOf?.length === 1 ? { ...only, ...found } : found;
      const name = decodeURIComponent(ref.split("/").pop() ?? "").replaceAll("~1", "/").replaceAll("~0", "~");
      const target = this.document.components?.schemas?.[name];
      if (!target) return undefined;
      const { $ref: _ref, allOf: _all, ...beside } = found;
      found = { ...target, ...beside };
    }
    return found;
  }

  /** The schema of what is at a path in an object. */
  at(root: Schema | undefined, path: readonly (string | number)[]): Schema | undefined {
    let schema = this.resolved(root);
    for (const step of path) {
      if (!schema) return undefined;
      const inside: Schema | boolean | undefined =
        typeof step === "number" ? schema.items : (schema.properties?.[step] ?? schema.additionalProperties);
      schema = typeof inside === "object" ? this.resolved(inside) : undefined;
    }
    return schema;
  }

  /** The schema of a body: discovery knows better when a document names the object's own kind for that of another. */
  private bodyOf(schema: Schema | undefined, kind: Kind, action: Subresource): Schema | undefined {
    const isOwn = schema?.["x-kubernetes-group-version-kind"]?.some((one) => one.kind === kind.kind);
    if (!isOwn || action.kind === kind.kind) return schema;
    return Object.values(this.document.components?.schemas ?? {}).find((one) =>
      one["x-kubernetes-group-version-kind"]?.some((each) => each.kind === action.kind),
    );
  }

  /** What an action of an object takes: its body, and its parameters. */
  action(path: string, kind: Kind, action: Subresource): { body: Schema | undefined; parameters: Parameter[]; description: string } | undefined {
    const item = this.document.paths?.[path];
    const operation = item?.post;
    if (!operation) return undefined;
    const [content] = Object.values(operation.requestBody?.content ?? {});
    return {
      body: this.bodyOf(this.resolved(content?.schema), kind, action),
      parameters: (operation.parameters ?? []).filter((one) => one.in === "query" && !COMMON.has(one.name)),
      description: operation.description ?? "",
    };
  }
}

const COMMON = new Set(["dryRun", "fieldManager", "fieldValidation", "pretty"]);

const kept = new WeakMap<Session, Map<string, Promise<Schemas>>>();

/** The schemas of a kind's group and version, asked for once. */
export function schemasOf(session: Session, kind: Kind): Promise<Schemas> {
  const known = kept.get(session) ?? new Map<string, Promise<Schemas>>();
  kept.set(session, known);
  const path = kind.group ? `openapi/v3/apis/${kind.group}/${kind.version}` : `openapi/v3/api/${kind.version}`;
  const found = known.get(path);
  if (found) return found;
  const asked = session.json<Document>(path).then((document) => new Schemas(document));
  known.set(path, asked);
  asked.catch(() => known.delete(path));
  return asked;
}

/** The path template of an action, as OpenAPI documents spell it. */
export function actionPath(kind: Kind, action: string): string {
  const root = kind.group ? `/apis/${kind.group}/${kind.version}` : `/api/${kind.version}`;
  return `${root}${kind.namespaced ? "/namespaces/{namespace}" : ""}/${kind.resource}/{name}/${action}`;
}

/** What a type is called for people. */
export function typeName(schema: Schema): string {
  if (schema["x-kubernetes-int-or-string"]) return "integer or string";
  if (schema.type === "array") return `list of ${schema.items?.type ?? lastName(schema.items?.$ref) ?? "objects"}`;
  if (schema.type === "object" && typeof schema.additionalProperties === "object") {
    return `map to ${schema.additionalProperties.type ?? lastName(schema.additionalProperties.$ref) ?? "objects"}`;
  }
  return schema.format ? `${schema.type ?? "value"} (${schema.format})` : (schema.type ?? "any value");
}

function lastName(ref: string | undefined): string | undefined {
  return ref?.split(/[./]/).pop();
}

/** An object to begin with: the required fields and the defaults, the rest as comments that say what they are. */
export function example(schemas: Schemas, kind: Kind, namespace: string): string {
  const root = schemas.of(kind);
  const lines = [`apiVersion: ${apiVersionOf(kind)}`, `kind: ${kind.kind}`, "metadata:", `  name: my-${kind.singular || kind.kind.toLowerCase()}`];
  if (kind.namespaced) lines.push(`  namespace: ${namespace || "default"}`);
  const schema = schemas.resolved(root);
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    if (["apiVersion", "kind", "metadata", "status"].includes(name)) continue;
    lines.push(...fieldLines(schemas, name, field, schema?.required?.includes(name) === true, 0));
  }
  return `${lines.join("\n")}\n`;
}

const SHOWN_DEPTH = 6;

function fieldLines(schemas: Schemas, name: string, field: Schema, required: boolean, depth: number): string[] {
  const schema = schemas.resolved(field) ?? {};
  const indent = "  ".repeat(depth);
  const properties = Object.entries(schema.properties ?? {});
  // The first level is shown whole, as a spec is what one came to write.
  const wanted = required || depth === 0 || name === "spec";
  if (!wanted) return [`${indent}# ${name}: ${typeName(schema)}`];
  if (properties.length && depth < SHOWN_DEPTH) {
    const inside = properties.flatMap(([key, one]) =>
      fieldLines(schemas, key, one, schema.required?.includes(key) === true, depth + 1),
    );
    const bare = inside.every((line) => line.trim().startsWith("#"));
    return [`${indent}${name}:${bare ? " {}" : ""}`, ...inside];
  }
  const items = schemas.resolved(schema.items);
  if (schema.type === "array" && items?.properties && required && depth < SHOWN_DEPTH) {
    const inside = Object.entries(items.properties)
      .filter(([key]) => items.required?.includes(key))
      .flatMap(([key, one]) => fieldLines(schemas, key, one, true, depth + 2));
    const [first = `${indent}    {}`, ...rest] = inside;
    return [`${indent}${name}:`, `${indent}  - ${first.trim()}`, ...rest];
  }
  return [`${indent}${name}: ${sampleOf(schema)}`];
}

function sampleOf(schema: Schema): string {
  const given = schema.example ?? schema.default ?? schema.enum?.[0];
  if (given !== undefined) return JSON.stringify(given);
  const samples: Record<string, string> = {
    ...{ string: '""', integer: String(schema.minimum ?? 1), number: String(schema.minimum ?? 1) },
    ...{ boolean: "false", array: "[]", object: "{}" },
  };
  return samples[schema.type ?? ""] ?? '""';
}
