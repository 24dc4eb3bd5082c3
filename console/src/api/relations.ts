/** What belongs to an object, and what it belongs to, by owner references. */
import { ApiError, type Session } from "./http";
import { apiVersionOf, type Catalog, type Kind, type ObjectMeta, pathOf } from "./kinds";

export interface Related {
  apiVersion: string;
  kind: string;
  name: string;
  namespace: string;
  uid: string;
  /** Undefined if this server doesn't serve it. */
  served: Kind | undefined;
  below: Related[];
}

export interface Family {
  below: Related[];
  /** How many kinds may not be listed, so that something of them may be missing. */
  forbidden: string[];
  /** How many kinds have more objects than were looked through. */
  cut: string[];
}

const AT_A_TIME = 6;
const MOST_OF_A_KIND = 5000;

/** Everything below an object, found by looking through the metadata of all that may be listed. */
export async function familyOf(
  session: Session,
  catalog: Catalog,
  top: { uid: string; namespace: string },
  signal: AbortSignal,
): Promise<Family> {
  const children = new Map<string, Related[]>();
  const forbidden: string[] = [];
  const cut: string[] = [];
  // Dependents are in their owner's namespace; what belongs to the cluster may own things everywhere.
  const waiting = catalog
    .preferred()
    .filter((kind) => kind.verbs.includes("list") && kind.verbs.includes("delete") && (kind.namespaced || !top.namespace));
  const work = async (): Promise<void> => {
    for (let kind = waiting.shift(); kind; kind = waiting.shift()) {
      try {
        const { items, more } = await metadataOf(session, kind, top.namespace, signal);
        if (more) cut.push(kind.kind);
        for (const meta of items) note(children, kind, meta);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.code === 403) forbidden.push(kind.kind);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  const seen = new Set([top.uid]);
  const below = (uid: string): Related[] =>
    (children.get(uid) ?? [])
      .filter((one) => !seen.has(one.uid) && Boolean(seen.add(one.uid)))
      .map((one) => ({ ...one, below: below(one.uid) }));
  return { below: below(top.uid), forbidden: forbidden.sort(), cut: cut.sort() };
}

function note(children: Map<string, Related[]>, kind: Kind, meta: ObjectMeta): void {
  for (const owner of meta.ownerReferences ?? []) {
    const siblings = children.get(owner.uid) ?? [];
    children.set(owner.uid, siblings);
    siblings.push({
      apiVersion: apiVersionOf(kind),
      kind: kind.kind,
      name: meta.name,
      namespace: meta.namespace ?? "",
      uid: meta.uid ?? "",
      served: kind,
      below: [],
    });
  }
}

async function metadataOf(
  session: Session,
  kind: Kind,
  namespace: string,
  signal: AbortSignal,
): Promise<{ items: ObjectMeta[]; more: boolean }> {
  const list = await session.json<{ metadata?: { continue?: string }; items?: { metadata: ObjectMeta }[] }>(
    pathOf(kind, namespace),
    {
      accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
      query: { limit: MOST_OF_A_KIND },
      signal,
    },
  );
  return { items: (list.items ?? []).map((item) => item.metadata), more: Boolean(list.metadata?.continue) };
}

export function countBelow(related: Related[]): number {
  return related.reduce((sum, one) => sum + 1 + countBelow(one.below), 0);
}
