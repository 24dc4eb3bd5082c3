/** One object: kept current, its revisions, and the ways to change it. */
import { ApiError, isAbort, linesOf, type Session } from "./http";
import { apiVersionOf, type Kind, type KubeObject, pathOf } from "./kinds";

const PAUSE_MS = 1000;

/** Calls `onObject` with the object, again whenever it changes, and with undefined once it is deleted. */
export async function follow(
  session: Session,
  kind: Kind,
  namespace: string,
  name: string,
  onObject: (object: KubeObject | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  const read = async (): Promise<string> => {
    const object = await session.json<KubeObject>(pathOf(kind, namespace, name), { signal });
    onObject(object);
    return object.metadata.resourceVersion ?? "";
  };
  let version = await read();
  while (kind.verbs.includes("watch") && !signal.aborted) {
    try {
      const query = { watch: true, resourceVersion: version, fieldSelector: `metadata.name=${name}` };
      const answer = await session.ask(pathOf(kind, namespace), { query, signal });
      for await (const line of linesOf(answer)) {
        const event = JSON.parse(line) as { type: string; object: KubeObject };
        if (event.type === "ERROR") throw new ApiError(410, {}, "the watch has ended");
        version = event.object.metadata.resourceVersion ?? version;
        onObject(event.type === "DELETED" ? undefined : event.object);
      }
    } catch (error) {
      if (isAbort(error)) return;
      // Whoever may read one object may not watch: then it is read again from time to time.
      await new Promise((resolve) => setTimeout(resolve, error instanceof ApiError && error.code === 403 ? 10_000 : PAUSE_MS));
      try {
        version = await read();
      } catch (again) {
        if (isAbort(again)) return;
        if (again instanceof ApiError && again.code === 404) onObject(undefined);
        if (again instanceof ApiError && again.code === 401) return;
      }
    }
  }
}

/** The object as it was before a revision: undefined if it wasn't there, or the store no longer has it. */
export async function before(
  session: Session,
  kind: Kind,
  object: KubeObject,
  signal?: AbortSignal,
): Promise<KubeObject | undefined> {
  const version = BigInt(object.metadata.resourceVersion ?? "0") - 1n;
  if (version <= 0n) return undefined;
  try {
    const list = await session.json<{ items?: KubeObject[] }>(pathOf(kind, object.metadata.namespace), {
      query: {
        fieldSelector: `metadata.name=${object.metadata.name}`,
        resourceVersion: version.toString(),
        resourceVersionMatch: "Exact",
      },
      ...(signal ? { signal } : {}),
    });
    const [found] = list.items ?? [];
    if (!found || found.metadata.uid !== object.metadata.uid) return undefined;
    // Items of a list don't say what they are.
    return { ...found, apiVersion: apiVersionOf(kind), kind: kind.kind };
  } catch (error) {
    if (error instanceof ApiError && (error.code === 410 || error.code === 504 || error.code === 400)) return undefined;
    throw error;
  }
}

export const MANAGER = "oarlock-console";

export type Way = "apply" | "replace";

/** Writes an object, or tries what would come of it. */
export async function write(
  session: Session,
  kind: Kind,
  object: KubeObject,
  way: Way,
  { dryRun = false, force = false, signal }: { dryRun?: boolean; force?: boolean; signal?: AbortSignal } = {},
): Promise<KubeObject> {
  const { namespace, name } = object.metadata;
  const query = {
    fieldManager: MANAGER,
    fieldValidation: "Strict",
    dryRun: dryRun ? "All" : undefined,
    force: way === "apply" && force ? true : undefined,
  };
  const stopping = signal ? { signal } : {};
  if (way === "replace") {
    return await session.json<KubeObject>(pathOf(kind, namespace, name), { method: "PUT", query, body: object, ...stopping });
  }
  return await session.json<KubeObject>(pathOf(kind, namespace, name), {
    method: "PATCH",
    query,
    body: applied(object),
    contentType: "application/apply-patch+yaml",
    ...stopping,
  });
}

/** What is applied of an object as it was read: not what the server alone decides. */
export function applied(object: KubeObject): KubeObject {
  const {
    managedFields: _fields,
    resourceVersion: _version,
    uid: _uid,
    generation: _generation,
    creationTimestamp: _created,
    ...metadata
  } = object.metadata;
  const { status: _status, ...rest } = object;
  return { ...rest, metadata };
}

export async function create(
  session: Session,
  kind: Kind,
  object: KubeObject,
  { dryRun = false, signal }: { dryRun?: boolean; signal?: AbortSignal } = {},
): Promise<KubeObject> {
  return await session.json<KubeObject>(pathOf(kind, object.metadata.namespace), {
    method: "POST",
    query: { fieldManager: MANAGER, fieldValidation: "Strict", dryRun: dryRun ? "All" : undefined },
    body: object,
    ...(signal ? { signal } : {}),
  });
}

/** The managers that have what was to be applied, from the answer to a conflict: field by manager. */
export function conflictsOf(error: unknown): { manager: string; field: string }[] {
  if (!(error instanceof ApiError) || error.code !== 409) return [];
  return (error.status.details?.causes ?? [])
    .filter((cause) => cause.reason === "FieldManagerConflict")
    .map((cause) => ({
      manager: /conflict with "([^"]*)"/.exec(cause.message ?? "")?.[1] ?? cause.message ?? "",
      field: cause.field ?? "",
    }));
}
