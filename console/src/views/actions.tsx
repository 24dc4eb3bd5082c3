/** What is done with whole objects: scaling, deleting, labels of many at once. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { messageOf, type Session } from "../api/http";
import { apiVersionOf, type Kind, type KubeObject, type ObjectMeta, pathOf } from "../api/kinds";
import { MANAGER } from "../api/object";
import { countBelow, familyOf } from "../api/relations";
import { listPlace } from "../api/route";
import { go, useApp, useLoaded } from "../ui/app";
import { Busy, Dialog, Problem } from "../ui/parts";
import { Branch, Missing } from "./relations";

const AT_A_TIME = 6;

export function ObjectActions({ kind, object, namespace }: { kind: Kind; object: KubeObject; namespace: string | undefined }): JSX.Element {
  const [open, setOpen] = useState<"scale" | "delete">();
  const scalable = kind.subresources.some((one) => one.name === "scale" && one.verbs.includes("patch"));
  return (
    <div class="buttons">
      {scalable && (
        <button type="button" onClick={() => setOpen("scale")}>
          Scale
        </button>
      )}
      {kind.verbs.includes("delete") && (
        <button type="button" class="danger" onClick={() => setOpen("delete")}>
          Delete
        </button>
      )}
      {open === "scale" && <Scale kind={kind} object={object} onClose={() => setOpen(undefined)} />}
      {open === "delete" && <Delete kind={kind} object={object} back={namespace} onClose={() => setOpen(undefined)} />}
    </div>
  );
}

interface ScaleObject {
  spec?: { replicas?: number };
  status?: { replicas?: number };
}

function Scale({ kind, object, onClose }: { kind: Kind; object: KubeObject; onClose: () => void }): JSX.Element {
  const { session, say } = useApp();
  const path = pathOf(kind, object.metadata.namespace, object.metadata.name, "scale");
  const scale = useLoaded((signal) => session.json<ScaleObject>(path, { signal }), [path]);
  const [replicas, setReplicas] = useState<string>();
  const [error, setError] = useState<unknown>();
  const wanted = replicas ?? String(scale.value?.spec?.replicas ?? 0);
  const save = async (): Promise<void> => {
    try {
      await session.json(path, {
        method: "PATCH",
        query: { fieldManager: MANAGER },
        contentType: "application/merge-patch+json",
        body: { spec: { replicas: Number(wanted) } },
      });
      say(`${object.metadata.name} is scaled to ${wanted}`);
      onClose();
    } catch (caught) {
      setError(caught);
    }
  };
  return (
    <Dialog title={`Scale ${object.metadata.name}`} onClose={onClose}>
      <Problem error={scale.error ?? error} />
      {scale.value ? (
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void save();
          }}
        >
          <label>
            Replicas{" "}
            <input type="number" min={0} value={wanted} autofocus onInput={(event) => setReplicas(event.currentTarget.value)} />
          </label>
          <p class="hint">There are {scale.value.status?.replicas ?? 0} now.</p>
          <footer>
            <button type="submit" class="primary" disabled={!/^\d+$/.test(wanted)}>
              Scale
            </button>
          </footer>
        </form>
      ) : (
        !scale.error && <Busy what="Asking for the scale…" />
      )}
    </Dialog>
  );
}

type Propagation = "Background" | "Foreground" | "Orphan";

const PROPAGATIONS: [Propagation, string][] = [
  ["Background", "the object at once, then what belongs to it"],
  ["Foreground", "first what belongs to it, then the object"],
  ["Orphan", "the object alone; what belongs to it stays"],
];

function Propagations({ value, onChange }: { value: Propagation; onChange: (value: Propagation) => void }): JSX.Element {
  return (
    <fieldset>
      <legend>What to delete</legend>
      {PROPAGATIONS.map(([name, what]) => (
        <label key={name} class="choice">
          <input type="radio" name="propagation" checked={value === name} onChange={() => onChange(name)} />
          <span>
            {name} <small>{what}</small>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

function Delete({ kind, object, back, onClose }: {
  kind: Kind;
  object: KubeObject;
  back: string | undefined;
  onClose: () => void;
}): JSX.Element {
  const { session, catalog, say } = useApp();
  const { name, namespace = "", uid = "" } = object.metadata;
  const [propagation, setPropagation] = useState<Propagation>("Background");
  const [error, setError] = useState<unknown>();
  const family = useLoaded((signal) => familyOf(session, catalog, { uid, namespace }, signal), [session, catalog, uid]);
  const found = family.value;
  const count = found ? countBelow(found.below) : 0;
  const remove = async (): Promise<void> => {
    try {
      await deleteOne(session, kind, object.metadata, propagation);
      say(`${kind.kind} ${name} is deleted`);
      onClose();
      go(listPlace(kind, { ns: back }));
    } catch (caught) {
      setError(caught);
    }
  };
  return (
    <Dialog title={`Delete ${kind.kind} ${name}?`} onClose={onClose}>
      <Propagations value={propagation} onChange={setPropagation} />
      {kind.resource === "namespaces" && kind.group === "" && <p class="hint">Everything in the namespace goes with it.</p>}
      {!found && !family.error && <Busy what="Looking for what belongs to it…" />}
      <Problem error={family.error} />
      {found && (
        <div class="going">
          <p>
            {count
              ? propagation === "Orphan"
                ? `${count} that belong to it stay:`
                : `${count} go with it:`
              : "Nothing that you may list belongs to it."}
          </p>
          <div class="tree">
            <Branch related={found.below} />
          </div>
          <Missing forbidden={found.forbidden} cut={found.cut} />
        </div>
      )}
      <Problem error={error} />
      <footer>
        <button type="button" onClick={onClose}>
          Keep it
        </button>
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete
        </button>
      </footer>
    </Dialog>
  );
}

async function deleteOne(session: Session, kind: Kind, meta: ObjectMeta, propagationPolicy: Propagation): Promise<void> {
  const preconditions = meta.uid ? { preconditions: { uid: meta.uid } } : {};
  await session.json(pathOf(kind, meta.namespace, meta.name), {
    method: "DELETE",
    body: { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy, ...preconditions },
  });
}

/** What may be done with the rows that are selected. */
export function ManyActions({ kind, chosen, onDone }: { kind: Kind; chosen: ObjectMeta[]; onDone: () => void }): JSX.Element {
  const [open, setOpen] = useState<"labels" | "delete">();
  const close = (): void => setOpen(undefined);
  return (
    <div class="selection" role="region" aria-label="Selected">
      <strong>{chosen.length} selected</strong>
      {kind.verbs.includes("patch") && (
        <button type="button" onClick={() => setOpen("labels")}>
          Labels
        </button>
      )}
      {kind.verbs.includes("delete") && (
        <button type="button" class="danger" onClick={() => setOpen("delete")}>
          Delete
        </button>
      )}
      <button type="button" class="quiet" onClick={onDone}>
        Clear
      </button>
      {open === "labels" && <LabelMany kind={kind} chosen={chosen} onClose={close} />}
      {open === "delete" && (
        <DeleteMany
          kind={kind}
          chosen={chosen}
          onClose={() => {
            close();
            onDone();
          }}
        />
      )}
    </div>
  );
}

function LabelMany({ kind, chosen, onClose }: { kind: Kind; chosen: ObjectMeta[]; onClose: () => void }): JSX.Element {
  const { session } = useApp();
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [removing, setRemoving] = useState(false);
  const known = [...new Set(chosen.flatMap((meta) => Object.keys(meta.labels ?? {})))].sort();
  return (
    <Dialog title={`Labels of ${chosen.length} ${kind.resource}`} onClose={onClose}>
      <label class="stack">
        Key <input list="known-labels" value={key} autofocus spellcheck={false} onInput={(event) => setKey(event.currentTarget.value.trim())} />
      </label>
      <datalist id="known-labels">
        {known.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <label class="stack">
        Value{" "}
        <input value={value} disabled={removing} spellcheck={false} onInput={(event) => setValue(event.currentTarget.value.trim())} />
      </label>
      <label class="check">
        <input type="checkbox" checked={removing} onChange={(event) => setRemoving(event.currentTarget.checked)} />
        Remove the label
      </label>
      <Carried
        verb={removing ? "Remove" : "Set"}
        ready={key !== ""}
        chosen={chosen}
        onClose={onClose}
        action={(meta) =>
          session.json(pathOf(kind, meta.namespace, meta.name), {
            method: "PATCH",
            query: { fieldManager: MANAGER },
            contentType: "application/merge-patch+json",
            body: {
              apiVersion: apiVersionOf(kind),
              kind: kind.kind,
              metadata: { labels: { [key]: removing ? null : value } },
            },
          })
        }
      />
    </Dialog>
  );
}

function DeleteMany({ kind, chosen, onClose }: { kind: Kind; chosen: ObjectMeta[]; onClose: () => void }): JSX.Element {
  const { session } = useApp();
  const [propagation, setPropagation] = useState<Propagation>("Background");
  return (
    <Dialog title={`Delete ${chosen.length} ${kind.resource}?`} onClose={onClose}>
      <p class="names">{chosen.map((meta) => meta.name).join(", ")}</p>
      <Propagations value={propagation} onChange={setPropagation} />
      <Carried
        verb="Delete"
        danger
        ready
        chosen={chosen}
        onClose={onClose}
        action={(meta) => deleteOne(session, kind, meta, propagation)}
      />
    </Dialog>
  );
}

/** Carries out one request for each object, and says of each that failed why. */
function Carried({ verb, danger = false, ready, chosen, action, onClose }: {
  verb: string;
  danger?: boolean;
  ready: boolean;
  chosen: ObjectMeta[];
  action: (meta: ObjectMeta) => Promise<unknown>;
  onClose: () => void;
}): JSX.Element {
  const { say } = useApp();
  const [done, setDone] = useState<number>();
  const [failures, setFailures] = useState<string[]>([]);
  const run = async (): Promise<void> => {
    const waiting = [...chosen];
    const failed: string[] = [];
    let count = 0;
    setDone(0);
    const work = async (): Promise<void> => {
      for (let meta = waiting.shift(); meta; meta = waiting.shift()) {
        try {
          await action(meta);
        } catch (error) {
          failed.push(`${meta.name}: ${messageOf(error)}`);
        }
        count += 1;
        setDone(count);
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, work));
    setFailures(failed);
    setDone(undefined);
    if (!failed.length) {
      say(`Done for ${chosen.length}`);
      onClose();
    }
  };
  return (
    <>
      {failures.length > 0 && (
        <div class="problem" role="alert">
          <strong>
            {failures.length} of {chosen.length} failed
          </strong>
          <span>{failures.join("\n")}</span>
        </div>
      )}
      <footer>
        {done !== undefined && <progress value={done} max={chosen.length} />}
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class={danger ? "danger" : "primary"} disabled={!ready || done !== undefined} onClick={() => void run()}>
          {verb}
        </button>
      </footer>
    </>
  );
}
