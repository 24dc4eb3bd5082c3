/** What the server serves, from discovery; and the paths and shapes of objects. */
import { ApiError, messageOf, type Session } from "./http";

export interface Subresource {
  name: string;
  verbs: string[];
  kind: string;
}

/** A resource in one version. */
export interface Kind {
  group: string;
  version: string;
  resource: string;
  kind: string;
  singular: string;
  namespaced: boolean;
  verbs: string[];
  shortNames: string[];
  categories: string[];
  subresources: Subresource[];
}

export interface Group {
  name: string;
  /** Preferred first. */
  versions: string[];
  kinds: Kind[];
  /** Versions that another server serves, and doesn't at the moment. */
  stale: string[];
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  managedFields?: ManagedFields[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
}

export interface ManagedFields {
  manager?: string;
  operation?: string;
  time?: string;
  subresource?: string;
  fieldsV1?: FieldSet;
}

export interface FieldSet {
  [key: string]: FieldSet;
}

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  [field: string]: unknown;
}

interface DiscoveredResource {
  resource: string;
  responseKind?: { kind?: string };
  scope: string;
  singularResource?: string;
  verbs?: string[];
  shortNames?: string[];
  categories?: string[];
  subresources?: { subresource: string; verbs?: string[]; responseKind?: { kind?: string } }[];
}

interface DiscoveredGroup {
  metadata?: { name?: string };
  versions?: { version: string; freshness?: string; resources?: DiscoveredResource[] }[];
}

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/** All groups, the core group first. Throws ApiError if neither list may be read. */
export async function discover(session: Session): Promise<Group[]> {
  const found: Group[] = [];
  let refused: unknown;
  let answered = false;
  for (const path of ["api", "apis"]) {
    try {
      const document = await session.json<{ items?: DiscoveredGroup[] }>(path, { accept: AGGREGATED });
      found.push(...groupsOf(document.items ?? []));
      answered = true;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code === 401) throw error;
      // an extension server has no core group, and says 404
      if (error.code !== 404) refused = error;
    }
  }
  if (refused && !answered) throw refused instanceof Error ? refused : new Error(messageOf(refused));
  return found;
}

export function groupsOf(items: DiscoveredGroup[]): Group[] {
  return items.map((item) => {
    const name = item.metadata?.name ?? "";
    const versions = item.versions ?? [];
    return {
      name,
      versions: versions.map((one) => one.version),
      stale: versions.filter((one) => one.freshness === "Stale").map((one) => one.version),
      kinds: versions.flatMap((one) => (one.resources ?? []).map((each) => kindOf(name, one.version, each))),
    };
  });
}

function kindOf(group: string, version: string, found: DiscoveredResource): Kind {
  return {
    group,
    version,
    resource: found.resource,
    kind: found.responseKind?.kind ?? found.resource,
    singular: found.singularResource ?? "",
    namespaced: found.scope === "Namespaced",
    verbs: found.verbs ?? [],
    shortNames: found.shortNames ?? [],
    categories: found.categories ?? [],
    subresources: (found.subresources ?? []).map((each) => ({
      name: each.subresource,
      verbs: each.verbs ?? [],
      kind: each.responseKind?.kind ?? "",
    })),
  };
}

export function apiVersionOf(kind: { group: string; version: string }): string {
  return kind.group ? `${kind.group}/${kind.version}` : kind.version;
}

/** The path of a resource, an object, or something below it. */
export function pathOf(kind: Kind, namespace = "", name = "", below = ""): string {
  const parts = kind.group ? ["apis", kind.group, kind.version] : ["api", kind.version];
  if (kind.namespaced && namespace) parts.push("namespaces", namespace);
  parts.push(kind.resource);
  if (name) parts.push(name);
  if (below) parts.push(below);
  return parts.map(encodeURIComponent).join("/");
}

/** Looks up kinds in what discovery said. */
export class Catalog {
  readonly kinds: Kind[];

  constructor(readonly groups: Group[]) {
    this.kinds = groups.flatMap((group) => group.kinds);
  }

  find(group: string, version: string, resource: string): Kind | undefined {
    return this.kinds.find((one) => one.group === group && one.version === version && one.resource === resource);
  }

  /** By the apiVersion and kind that an object or a reference has. */
  ofObject(apiVersion: string, kind: string): Kind | undefined {
    return this.kinds.find((one) => apiVersionOf(one) === apiVersion && one.kind === kind);
  }

  /** Each resource once, in the version its group prefers. */
  preferred(): Kind[] {
    const seen = new Set<string>();
    return this.kinds.filter((one) => {
      const key = `${one.group}/${one.resource}`;
      return !seen.has(key) && Boolean(seen.add(key));
    });
  }

  versionsOf(kind: Kind): Kind[] {
    return this.kinds.filter((one) => one.group === kind.group && one.resource === kind.resource);
  }

  get namespaces(): Kind | undefined {
    return this.find("", "v1", "namespaces");
  }
}
