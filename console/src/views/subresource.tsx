/** What an object can do: its action subresources, each called by a form made of its schema. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Kind, type KubeObject, pathOf, type Subresource } from "../api/kinds";
import { actionPath, schemasOf } from "../api/openapi";
import { toYaml } from "../api/yaml";
import { useApp, useLoaded } from "../ui/app";
import { Form, type Values } from "../ui/form";
import { Busy, Problem } from "../ui/parts";

/** Those that take over the connection. */
const CONNECTIONS = new Set(["exec", "attach", "portforward", "proxy"]);

export function actionsOf(kind: Kind): Subresource[] {
  return kind.subresources.filter((one) => one.verbs.includes("create") && !CONNECTIONS.has(one.name));
}

export function Actions({ kind, object }: { kind: Kind; object: KubeObject }): JSX.Element {
  const actions = actionsOf(kind);
  const [chosen, setChosen] = useState(actions[0]?.name ?? "");
  const action = actions.find((one) => one.name === chosen);
  return (
    <div class="panel act">
      {actions.length > 1 && (
        <label>
          Action{" "}
          <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
            {actions.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        </label>
      )}
      {action && <ActionForm key={action.name} kind={kind} object={object} action={action} />}
    </div>
  );
}

function ActionForm({ kind, object, action }: { kind: Kind; object: KubeObject; action: Subresource }): JSX.Element {
  const { session } = useApp();
  const schemas = useLoaded(() => schemasOf(session, kind), [session, kind]);
  const [values, setValues] = useState<Values>({});
  const [query, setQuery] = useState<Values>({});
  const [answer, setAnswer] = useState<string>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const about = schemas.value?.action(actionPath(kind, action.name), kind, action);
  const call = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    setAnswer(undefined);
    try {
      const given = await session.ask(pathOf(kind, object.metadata.namespace, object.metadata.name, action.name), {
        method: "POST",
        query: query as Record<string, string>,
        ...(about?.body ? { body: bodyOf(about.body, object, values) } : {}),
      });
      setAnswer(shown(await given.text(), given.headers.get("content-type") ?? ""));
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  if (schemas.loading && !schemas.value) return <Busy what="Reading the schema…" />;
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void call();
      }}
    >
      <h2>{action.name}</h2>
      {about?.description && <p class="hint">{about.description}</p>}
      <Problem error={schemas.error} what="There is no schema" />
      {about && schemas.value && about.parameters.length > 0 && (
        <Form
          schemas={schemas.value}
          schema={{
            properties: Object.fromEntries(
              about.parameters.map((one) => [one.name, { ...one.schema, ...(one.description ? { description: one.description } : {}) }]),
            ),
            required: about.parameters.filter((one) => one.required).map((one) => one.name),
          }}
          values={query}
          onChange={setQuery}
        />
      )}
      {about?.body && schemas.value && (
        <Form
          schemas={schemas.value}
          schema={about.body}
          values={values}
          onChange={setValues}
          leaveOut={["apiVersion", "kind", "metadata", "status"]}
        />
      )}
      <footer>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? "Calling…" : `Call ${action.name}`}
        </button>
      </footer>
      <Problem error={error} />
      {answer !== undefined && <pre class="answer">{answer || "It answered with nothing."}</pre>}
    </form>
  );
}

/** What is sent: what the form says, and what the type needs to be known by. */
function bodyOf(schema: { properties?: object; "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[] }, object: KubeObject, values: Values): Values {
  const [known] = schema["x-kubernetes-group-version-kind"] ?? [];
  const typed = known ? { apiVersion: known.group ? `${known.group}/${known.version}` : known.version, kind: known.kind } : {};
  const { name, namespace } = object.metadata;
  const named = schema.properties && "metadata" in schema.properties ? { metadata: { name, ...(namespace ? { namespace } : {}) } } : {};
  return { ...typed, ...named, ...values };
}

function shown(text: string, contentType: string): string {
  if (!contentType.includes("json")) return text;
  try {
    return toYaml(JSON.parse(text));
  } catch {
    return text;
  }
}
