/** How an object was: the revisions that the store still has, and what differs between two of them. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Kind, KubeObject } from "../api/kinds";
import { before } from "../api/object";
import { shownObject, toYaml } from "../api/yaml";
import { useApp } from "../ui/app";
import { Diff } from "../ui/diff";
import { Busy, Problem } from "../ui/parts";

const AT_ONCE = 10;

export function Revisions({ kind, object }: { kind: Kind; object: KubeObject }): JSX.Element {
  const { session } = useApp();
  const [found, setFound] = useState<KubeObject[]>([]);
  const [wanted, setWanted] = useState(AT_ONCE);
  const [ended, setEnded] = useState(false);
  const [error, setError] = useState<unknown>();
  const [older, setOlder] = useState<string>();
  const [newer, setNewer] = useState<string>();
  const version = object.metadata.resourceVersion;
  useEffect(() => {
    const stopping = new AbortController();
    void (async () => {
      const revisions = [object];
      setEnded(false);
      for (let last: KubeObject | undefined = object; last && revisions.length <= wanted; ) {
        last = await before(session, kind, last, stopping.signal);
        if (stopping.signal.aborted) return;
        if (last) revisions.push(last);
        else setEnded(true);
        setFound([...revisions]);
      }
    })().catch((caught: unknown) => {
      if (!stopping.signal.aborted) setError(caught);
    });
    return () => stopping.abort();
  }, [session, kind, version, wanted]);
  const pick = (name: string | undefined, otherwise: number): KubeObject | undefined =>
    found.find((one) => one.metadata.resourceVersion === name) ?? found[otherwise];
  const [from, to] = [pick(older, 1), pick(newer, 0)];
  return (
    <div class="revisions">
      <Problem error={error} />
      {!found.length && error === undefined && <Busy what="Asking the store…" />}
      {found.length > 0 && (
        <p class="pickers">
          <Picker label="From" found={found} chosen={from} onPick={setOlder} />
          <Picker label="to" found={found} chosen={to} onPick={setNewer} />
          {!ended && (
            <button type="button" onClick={() => setWanted(wanted + AT_ONCE)}>
              Look further back
            </button>
          )}
        </p>
      )}
      {ended && found.length === 1 && <p class="hint">The store has no earlier revision of it.</p>}
      {from && to && from !== to && (
        <Diff label="What differs" before={toYaml(shownObject(from))} after={toYaml(shownObject(to))} />
      )}
    </div>
  );
}

function Picker({ label, found, chosen, onPick }: {
  label: string;
  found: KubeObject[];
  chosen: KubeObject | undefined;
  onPick: (version: string) => void;
}): JSX.Element {
  return (
    <label>
      {label}{" "}
      <select value={chosen?.metadata.resourceVersion} onChange={(event) => onPick(event.currentTarget.value)}>
        {found.map((one, index) => (
          <option key={one.metadata.resourceVersion} value={one.metadata.resourceVersion}>
            {one.metadata.resourceVersion}
            {index === 0 ? " (now)" : ""} {lastWriter(one)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Who wrote a revision: the manager with the latest time. */
function lastWriter(object: KubeObject): string {
  const latest = [...(object.metadata.managedFields ?? [])].sort((a, b) => (b.time ?? "").localeCompare(a.time ?? ""))[0];
  return latest ? `${latest.manager ?? ""} ${(latest.time ?? "").slice(11, 19)}` : "";
}
