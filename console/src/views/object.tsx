/** One object: what it is, how it is, what belongs to it, how it was, and what may be done with it. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import { apiVersionOf, type Kind, type KubeObject } from "../api/kinds";
import { follow } from "../api/object";
import { listPlace, objectPlace } from "../api/route";
import { age } from "../api/table";
import { shownObject, toYaml } from "../api/yaml";
import { go, useApp, useNow } from "../ui/app";
import { Busy, Later, Problem } from "../ui/parts";
import Yaml from "../ui/yaml";
import { ObjectActions } from "./actions";
import { Edit } from "./edit";
import { Logs } from "./logs";
import { Revisions } from "./revisions";
import { Relations } from "./relations";
import { Actions, actionsOf } from "./subresource";
import { Summary } from "./summary";

interface ObjectProps {
  kind: Kind;
  namespace: string;
  name: string;
  options: Record<string, string>;
}

interface Tab {
  id: string;
  title: string;
}

export function ObjectView({ kind, namespace, name, options }: ObjectProps): JSX.Element {
  const { object, error, gone } = useObject(kind, namespace, name);
  const now = useNow();
  const tabs = tabsOf(kind);
  const tab = tabs.find((one) => one.id === options.tab)?.id ?? "yaml";
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const busy = document.querySelector("dialog[open]") ?? (event.target as Element | null)?.closest("input,textarea,select,.editor");
      if (event.key === "Escape" && !busy) go(listPlace(kind, { ns: options.ns }));
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [kind, options.ns]);
  return (
    <section class="page object" aria-label={`${kind.kind} ${name}`}>
      <header class="title">
        <h1>
          {name}
          <small>
            <a href={listPlace(kind, { ns: options.ns })}>{kind.kind}</a>
            {namespace && ` in ${namespace}`}
            {object?.metadata.creationTimestamp && `, ${age(object.metadata.creationTimestamp, now)} old`}
          </small>
        </h1>
        {gone && <span class="state bad">deleted</span>}
        {!gone && object?.metadata.deletionTimestamp && <span class="state bad">being deleted</span>}
        <span class="space" />
        {object && !gone && <ObjectActions kind={kind} object={object} namespace={options.ns} />}
      </header>
      <nav class="tabs" aria-label="Parts of the object">
        {tabs.map(({ id, title }) => (
          <a
            key={id}
            href={objectPlace(kind, namespace, name, { ns: options.ns, tab: id })}
            aria-current={id === tab ? "page" : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
      <Problem error={error} />
      {object ? <TabContent tab={tab} kind={kind} object={object} /> : error === undefined && <Busy what="Loading…" />}
    </section>
  );
}

function tabsOf(kind: Kind): Tab[] {
  const writable = kind.verbs.includes("update") || kind.verbs.includes("patch");
  return [
    { id: "yaml", title: "YAML" },
    ...(writable ? [{ id: "edit", title: "Edit" }] : []),
    ...(has(kind, "log") ? [{ id: "log", title: "Log" }] : []),
    ...(has(kind, "exec") ? [{ id: "terminal", title: "Terminal" }] : []),
    ...(actionsOf(kind).length ? [{ id: "act", title: "Actions" }] : []),
    { id: "state", title: "State and events" },
    { id: "relations", title: "Owners and dependents" },
    { id: "revisions", title: "Revisions" },
  ];
}

function has(kind: Kind, subresource: string): boolean {
  return kind.subresources.some((one) => one.name === subresource && one.verbs.includes("get"));
}

function TabContent({ tab, kind, object }: { tab: string; kind: Kind; object: KubeObject }): JSX.Element {
  const text = useMemo(() => toYaml(shownObject(object)), [object]);
  if (tab === "edit") return <Edit kind={kind} object={object} />;
  if (tab === "log") return <Logs kind={kind} object={object} below="log" />;
  if (tab === "act") return <Actions kind={kind} object={object} />;
  if (tab === "terminal") {
    return (
      <Later load={() => import("./terminal")}>
        {({ TerminalView }) => <TerminalView kind={kind} object={object} below="exec" />}
      </Later>
    );
  }
  if (tab === "state") return <Summary kind={kind} object={object} />;
  if (tab === "relations") return <Relations object={object} />;
  if (tab === "revisions") return <Revisions kind={kind} object={object} />;
  return <Yaml kind={kind} text={text} label={`${object.metadata.name} as YAML`} owner={object} readOnly />;
}

/** The object, kept current. */
export function useObject(kind: Kind, namespace: string, name: string): {
  object: KubeObject | undefined;
  error: unknown;
  gone: boolean;
} {
  const { session } = useApp();
  const [object, setObject] = useState<KubeObject>();
  const [error, setError] = useState<unknown>();
  const [gone, setGone] = useState(false);
  useEffect(() => {
    const stopping = new AbortController();
    const take = (found: KubeObject | undefined): void => {
      setGone(found === undefined);
      if (found) setObject({ ...found, apiVersion: apiVersionOf(kind), kind: kind.kind });
    };
    follow(session, kind, namespace, name, take, stopping.signal).catch((caught: unknown) => {
      if (!stopping.signal.aborted && (caught instanceof ApiError || caught instanceof TypeError)) setError(caught);
    });
    return () => stopping.abort();
  }, [session, kind, namespace, name]);
  return { object, error, gone };
}
