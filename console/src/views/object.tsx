/** One object: as YAML. */
import type { JSX } from "preact";
import { stringify } from "yaml";
import { type Kind, type KubeObject, pathOf } from "../api/kinds";
import { listPlace } from "../api/route";
import { useApp, useLoaded } from "../ui/app";
import { Busy, Problem } from "../ui/parts";

export function ObjectView({ kind, namespace, name, options }: {
  kind: Kind;
  namespace: string;
  name: string;
  options: Record<string, string>;
}): JSX.Element {
  const { session } = useApp();
  const path = pathOf(kind, namespace, name);
  const object = useLoaded((signal) => session.json<KubeObject>(path, { signal }), [session, path]);
  return (
    <section class="page">
      <header class="title">
        <h1>
          {name}
          <small>
            <a href={listPlace(kind, { ns: options.ns })}>{kind.kind}</a>
            {namespace && ` in ${namespace}`}
          </small>
        </h1>
      </header>
      <Problem error={object.error} />
      {object.value ? <pre class="yaml">{stringify(object.value)}</pre> : object.loading && <Busy what="Loading…" />}
    </section>
  );
}
