/** The first page: how much there is of each kind. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { ApiError, type Session } from "../api/http";
import { type Kind, pathOf } from "../api/kinds";
import { listPlace } from "../api/route";
import { useApp, useLoaded } from "../ui/app";
import { Problem } from "../ui/parts";

type Count = number | "forbidden" | "unknown";

const AT_A_TIME = 6;

export function Home({ namespace }: { namespace: string }): JSX.Element {
  const { catalog, session, settings, namespacesRefused } = useApp();
  const kinds = useMemo(() => catalog.preferred().filter((kind) => kind.verbs.includes("list")), [catalog]);
  const counts = useLoaded((signal) => countAll(session, kinds, namespace, signal), [session, kinds, namespace]);
  const found = counts.value;
  const groups = catalog.groups.map((group) => ({ group, kinds: kinds.filter((kind) => kind.group === group.name) }));
  const hidden = found ? kinds.filter((kind) => found.get(kind) === "forbidden").length : 0;
  return (
    <section class="page homepage">
      <header class="title">
        <h1>{settings.name}</h1>
        <p class="lead">
          {kinds.length} kinds in {groups.filter((one) => one.kinds.length).length} groups
          {namespace ? `, objects in ${namespace}` : ""}
        </p>
      </header>
      {namespacesRefused && (
        <p class="hint">You may not list namespaces ({namespacesRefused}): type the one you want to see at the top.</p>
      )}
      {hidden > 0 && <p class="hint">{hidden} kinds you may not list{namespace ? " here" : " in all namespaces"}.</p>}
      <Problem error={counts.error} />
      {groups.map(({ group, kinds: own }) =>
        own.length || group.stale.length ? (
          <section key={group.name}>
            <h2>{group.name || "core"}</h2>
            {group.stale.length > 0 && <p class="stale">{group.stale.join(", ")} isn't available at the moment</p>}
            <ul class="tiles">
              {own.map((kind) => (
                <li key={kind.resource}>
                  <a class="tile" href={listPlace(kind, { ns: namespace })}>
                    <span>{kind.kind}</span>
                    <CountText count={found?.get(kind)} />
                  </a>
                </li>
              ))}
            </ul>
          </section>
        ) : null,
      )}
    </section>
  );
}

function CountText({ count }: { count: Count | undefined }): JSX.Element {
  if (count === "forbidden") return <small class="forbidden">not allowed</small>;
  if (count === undefined || count === "unknown") return <small>{count === undefined ? "…" : "?"}</small>;
  return <strong class={count ? "" : "none"}>{count.toLocaleString("en")}</strong>;
}

async function countAll(session: Session, kinds: Kind[], namespace: string, signal: AbortSignal): Promise<Map<Kind, Count>> {
  const counts = new Map<Kind, Count>();
  const waiting = [...kinds];
  const work = async (): Promise<void> => {
    for (let kind = waiting.shift(); kind; kind = waiting.shift()) {
      counts.set(kind, await countOf(session, kind, namespace, signal));
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  return counts;
}

async function countOf(session: Session, kind: Kind, namespace: string, signal: AbortSignal): Promise<Count> {
  try {
    const list = await session.json<{ metadata?: { remainingItemCount?: number }; items?: unknown[] }>(
      pathOf(kind, namespace),
      {
        accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        query: { limit: 1 },
        signal,
      },
    );
    return (list.items?.length ?? 0) + (list.metadata?.remainingItemCount ?? 0);
  } catch (error) {
    if (error instanceof ApiError) return error.code === 403 ? "forbidden" : "unknown";
    throw error;
  }
}
