/** How an object is: its conditions, its labels and annotations, and what happened to it. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Kind, KubeObject } from "../api/kinds";

import { age, cellText, LiveTable, type Row } from "../api/table";
import { useApp, useNow } from "../ui/app";
import { Busy, Labels, Problem } from "../ui/parts";

interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

/** Conditions of which False is what one hopes for. */
const BETTER_FALSE = /Pressure$|Unavailable$|Failure$|Failed$|Degraded$|Dangling$|NonStructural|Terminating|Unschedulable/;

export function Summary({ kind, object }: { kind: Kind; object: KubeObject }): JSX.Element {
  const now = useNow();
  const conditions = conditionsOf(object);
  const { labels, annotations, finalizers } = object.metadata;
  return (
    <div class="columns">
      <section class="panel">
        <h2>Conditions</h2>
        {conditions.length ? (
          <ul class="conditions">
            {conditions.map((one) => (
              <li key={one.type}>
                <span class={`state ${stateOf(one)}`}>{one.status}</span>
                <div>
                  <strong>{one.type}</strong> <small>{age(one.lastTransitionTime, now)}</small>
                  {one.reason && <small> {one.reason}</small>}
                  {one.message && <p>{one.message}</p>}
                </div>
              </li>
            ))}
          </ul>
        ) : (
          <p class="hint">It has none.</p>
        )}
      </section>
      <section class="panel">
        <h2>Labels</h2>
        {labels ? <Labels labels={labels} /> : <p class="hint">It has none.</p>}
        {annotations && (
          <>
            <h2>Annotations</h2>
            <dl class="annotations">
              {Object.entries(annotations).map(([key, value]) => (
                <div key={key}>
                  <dt>{key}</dt>
                  <dd>{value}</dd>
                </div>
              ))}
            </dl>
          </>
        )}
        {finalizers && (
          <>
            <h2>Finalizers</h2>
            <p>{finalizers.join(", ")}</p>
          </>
        )}
      </section>
      <section class="panel wide">
        <h2>Events</h2>
        <Events kind={kind} object={object} />
      </section>
    </div>
  );
}

function conditionsOf(object: KubeObject): Condition[] {
  const status = object.status as { conditions?: unknown } | undefined;
  if (!Array.isArray(status?.conditions)) return [];
  return (status.conditions as Partial<Condition>[]).map((one) => ({ ...one, type: one.type ?? "", status: one.status ?? "" }));
}

function stateOf({ type, status }: Condition): string {
  if (status !== "True" && status !== "False") return "";
  return (status === "True") !== BETTER_FALSE.test(type) ? "good" : "bad";
}

function Events({ kind, object }: { kind: Kind; object: KubeObject }): JSX.Element {
  const { session, catalog } = useApp();
  const served = catalog.find("", "v1", "events");
  const [, setShown] = useState(0);
  const [table, setTable] = useState<LiveTable>();
  const { uid, namespace = "default" } = object.metadata;
  useEffect(() => {
    if (!served) return;
    const path = `api/v1/namespaces/${encodeURIComponent(namespace)}/events`;
    const query = { fieldSelector: `involvedObject.uid=${uid ?? ""}` };
    const events = new LiveTable(session, path, query, () => setShown((before) => before + 1));
    setTable(events);
    events.start();
    return () => events.stop();
  }, [session, served, uid, namespace]);
  if (!served) return <p class="hint">This server has no events.</p>;
  if (!table || table.state === "loading") return <Busy what="Loading events…" />;
  if (table.state === "refused") return <Problem error={table.error} />;
  const rows = [...table.rows.values()].sort(newestFirst);
  if (!rows.length) return <p class="hint">Nothing was told of this {kind.kind} lately.</p>;
  const shown = ["Last Seen", "Type", "Reason", "Message"];
  const places = shown.map((name) => table.columns.findIndex((column) => column.name === name));
  return (
    <table class="plain">
      <thead>
        <tr>
          {shown.map((name) => (
            <th key={name}>{name}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.key}>
            {places.map((place, index) => (
              <td key={index}>{cellText(row.cells[place])}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function newestFirst(a: Row, b: Row): number {
  return (b.meta.creationTimestamp ?? "").localeCompare(a.meta.creationTimestamp ?? "");
}
