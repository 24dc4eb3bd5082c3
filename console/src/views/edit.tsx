/** Changing or creating an object: tried by the server while one types, and written when one says so. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, isAbort, messageOf, type Session } from "../api/http";
import { type Kind, type KubeObject } from "../api/kinds";
import { conflictsOf, create, type Way, write } from "../api/object";
import { example, schemasOf } from "../api/openapi";
import { objectPlace } from "../api/route";
import { parseYaml, shownObject, spotOfField, toYaml } from "../api/yaml";
import { go, useApp, useLoaded } from "../ui/app";
import { Diff } from "../ui/diff";
import type { Diagnostic } from "../ui/editor";
import { Busy, Problem } from "../ui/parts";
import Yaml from "../ui/yaml";

/** So long after the last key the server is asked. */
const PAUSE_MS = 400;

interface Trial {
  /** The text that was tried. */
  text: string;
  outcome: "asking" | "fine" | "refused" | "unreadable";
  result?: KubeObject;
  error?: unknown;
  diagnostics: Diagnostic[];
}

type Attempt = (object: KubeObject, options: { dryRun?: boolean; force?: boolean; signal?: AbortSignal }) => Promise<KubeObject>;

export function Edit({ kind, object }: { kind: Kind; object: KubeObject }): JSX.Element {
  const { session, say } = useApp();
  const ways = waysOf(kind);
  const [way, setWay] = useState<Way>(ways[0] ?? "apply");
  // What is edited stays as it was read, whatever others write meanwhile.
  const [base, setBase] = useState(object);
  const newer = base.metadata.resourceVersion !== object.metadata.resourceVersion;
  const before = useMemo(() => toYaml(shownObject(base)), [base]);
  const [text, setText] = useState(before);
  const attempt = useMemo(() => attemptOf(session, kind, way), [session, kind, way]);
  const restart = (): void => {
    setBase(object);
    setText(toYaml(shownObject(object)));
  };
  return (
    <Workbench
      kind={kind}
      text={text}
      before={before}
      owner={base}
      attempt={attempt}
      onText={setText}
      verb={way === "apply" ? "Apply" : "Replace"}
      onWritten={(written) => {
        setBase(written);
        setText(toYaml(shownObject(written)));
        say(`${kind.kind} ${written.metadata.name} is written: revision ${written.metadata.resourceVersion ?? ""}`);
      }}
    >
      {ways.length > 1 && (
        <select aria-label="How to write" value={way} onChange={(event) => setWay(event.currentTarget.value as Way)}>
          <option value="apply">Apply: only what I say</option>
          <option value="replace">Replace: all of it</option>
        </select>
      )}
      {way === "apply" && <small>What isn't in the text stays as it is, unless you applied it before.</small>}
      {newer && (
        <span class="newer">
          Somebody has written it meanwhile.{" "}
          <button type="button" onClick={restart}>
            Begin again with the newest
          </button>
        </span>
      )}
    </Workbench>
  );
}

function waysOf(kind: Kind): Way[] {
  const ways: Way[] = [];
  if (kind.verbs.includes("patch")) ways.push("apply");
  if (kind.verbs.includes("update")) ways.push("replace");
  return ways;
}

function attemptOf(session: Session, kind: Kind, way: Way): Attempt {
  return (object, options) => write(session, kind, object, way, options);
}

export function Create({ kind, namespace }: { kind: Kind; namespace: string }): JSX.Element {
  const { session, say } = useApp();
  const schemas = useLoaded(() => schemasOf(session, kind), [session, kind]);
  const [text, setText] = useState<string>();
  const attempt: Attempt = useMemo(() => (object, options) => create(session, kind, object, options), [session, kind]);
  useEffect(() => {
    if (text === undefined && schemas.value) setText(example(schemas.value, kind, namespace));
    else if (text === undefined && schemas.error) setText("metadata:\n  name: \n");
  }, [schemas.value, schemas.error]);
  return (
    <section class="page object" aria-label={`Create ${kind.kind}`}>
      <header class="title">
        <h1>
          Create {kind.kind}
          <small>the required fields, and the others as comments</small>
        </h1>
      </header>
      {text === undefined ? (
        <Busy what="Reading the schema…" />
      ) : (
        <Workbench
          kind={kind}
          text={text}
          before=""
          attempt={attempt}
          onText={setText}
          verb="Create"
          onWritten={(written) => {
            say(`${kind.kind} ${written.metadata.name} is created`);
            go(objectPlace(kind, written.metadata.namespace, written.metadata.name, { ns: namespace }));
          }}
        />
      )}
    </section>
  );
}

function Workbench({ kind, text, before, owner, attempt, verb, onText, onWritten, children }: {
  kind: Kind;
  text: string;
  before: string;
  owner?: KubeObject;
  attempt: Attempt;
  verb: string;
  onText: (text: string) => void;
  onWritten: (object: KubeObject) => void;
  children?: preact.ComponentChildren;
}): JSX.Element {
  const trial = useTrial(text, attempt, before);
  const [writing, setWriting] = useState(false);
  const [force, setForce] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  const conflicts = conflictsOf(trial.error);
  const unchanged = text === before;
  useEffect(() => setForce(false), [text]);
  const save = async (): Promise<void> => {
    const parsed = parseYaml(text);
    if (parsed.problem || writing || unchanged) return;
    setWriting(true);
    setFailed(undefined);
    try {
      onWritten(await attempt(parsed.value as KubeObject, { force }));
    } catch (error) {
      setFailed(error);
    } finally {
      setWriting(false);
    }
  };
  return (
    <div class="workbench">
      <Yaml
        kind={kind}
        text={text}
        label={`${verb} ${kind.kind}`}
        diagnostics={trial.diagnostics}
        onChange={onText}
        onSave={() => void save()}
        {...(owner ? { owner } : {})}
      />
      <div class="actions">
        <button
          type="button"
          class="primary"
          disabled={writing || unchanged || trial.outcome === "unreadable" || (trial.outcome === "refused" && !(conflicts.length && force))}
          onClick={() => void save()}
        >
          {conflicts.length && force ? `${verb} by force` : verb}
        </button>
        {children}
        <span class="space" />
        <Outcome trial={trial} unchanged={unchanged} />
      </div>
      {conflicts.length > 0 ? (
        <Conflicts conflicts={conflicts} force={force} onForce={setForce} />
      ) : (
        trial.outcome === "refused" && <Problem error={trial.error} what="The server would refuse this" />
      )}
      <Problem error={failed} what="It isn't written" />
      {trial.result && !unchanged && (
        <details class="preview" open>
          <summary>What would change, after defaults and admission</summary>
          <Diff label="What would change" before={before} after={toYaml(shownObject(trial.result))} />
        </details>
      )}
    </div>
  );
}

function Outcome({ trial, unchanged }: { trial: Trial; unchanged: boolean }): JSX.Element {
  const words = { asking: "Asking the server…", fine: "The server would take this", refused: "The server would refuse this", unreadable: "This is no YAML" };
  if (unchanged) return <span class="outcome">Not changed</span>;
  return (
    <span class={`outcome ${trial.outcome}`} role="status">
      {words[trial.outcome]}
    </span>
  );
}

function Conflicts({ conflicts, force, onForce }: {
  conflicts: { manager: string; field: string }[];
  force: boolean;
  onForce: (force: boolean) => void;
}): JSX.Element {
  const managers = [...new Set(conflicts.map((one) => one.manager))];
  return (
    <div class="conflicts" role="alert">
      <strong>Others have set what you change</strong>
      <ul>
        {managers.map((manager) => (
          <li key={manager}>
            <strong>{manager}</strong> has{" "}
            {conflicts
              .filter((one) => one.manager === manager)
              .map((one) => one.field)
              .join(", ")}
          </li>
        ))}
      </ul>
      <label class="check">
        <input type="checkbox" checked={force} onChange={(event) => onForce(event.currentTarget.checked)} />
        Take these fields over
      </label>
    </div>
  );
}

/** What the server says to the text, without writing it. */
function useTrial(text: string, attempt: Attempt, before: string): Trial {
  const [trial, setTrial] = useState<Trial>({ text: "", outcome: "asking", diagnostics: [] });
  useEffect(() => {
    if (text === before) {
      setTrial({ text, outcome: "fine", diagnostics: [] });
      return;
    }
    const { value, spots, problem } = parseYaml(text);
    if (problem) {
      setTrial({ text, outcome: "unreadable", diagnostics: [{ ...problem, severity: "error" }] });
      return;
    }
    if (typeof value !== "object" || value === null || !("metadata" in value)) {
      setTrial({ text, outcome: "unreadable", diagnostics: [{ from: 0, to: 0, message: "This is no object.", severity: "error" }] });
      return;
    }
    setTrial((last) => ({ ...last, outcome: "asking" }));
    const stopping = new AbortController();
    const timer = setTimeout(() => {
      attempt(value as KubeObject, { dryRun: true, signal: stopping.signal }).then(
        (result) => setTrial({ text, outcome: "fine", result, diagnostics: [] }),
        (error: unknown) => {
          if (!isAbort(error)) setTrial({ text, outcome: "refused", error, diagnostics: diagnosticsOf(error, spots) });
        },
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stopping.abort();
    };
  }, [text, attempt, before]);
  return trial;
}

/** The server's messages at the fields they are about. */
export function diagnosticsOf(error: unknown, spots: Parameters<typeof spotOfField>[0]): Diagnostic[] {
  const causes = (error instanceof ApiError && error.status.details?.causes) || [];
  const found = causes.map((cause) => ({ field: cause.field ?? "", message: cause.message ?? "" }));
  // A field that isn't known is told in the text alone: unknown field "spec.replica".
  for (const [, kind, field] of messageOf(error).matchAll(/(unknown|duplicate) field "([^"]+)"/g)) {
    found.push({ field: field ?? "", message: `${kind ?? ""} field` });
  }
  return found.map(({ field, message }) => {
    const spot = spotOfField(spots, field.replace(/^\./, ""));
    return { from: spot?.from ?? 0, to: spot?.nameEnd ?? 0, severity: "error", message: `${field}: ${message}` };
  });
}
