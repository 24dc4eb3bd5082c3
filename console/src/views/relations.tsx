/** What an object belongs to, above it, and what belongs to it, below, as a graph. */
import type { JSX } from "preact";
import type { KubeObject, OwnerReference } from "../api/kinds";
import { familyOf, type Related } from "../api/relations";
import { objectPlace } from "../api/route";
import { useApp, useLoaded } from "../ui/app";
import { Busy, Problem } from "../ui/parts";

export function Relations({ object }: { object: KubeObject }): JSX.Element {
  const { session, catalog } = useApp();
  const { uid = "", namespace = "", name } = object.metadata;
  const family = useLoaded((signal) => familyOf(session, catalog, { uid, namespace }, signal), [session, catalog, uid]);
  const owners = object.metadata.ownerReferences ?? [];
  const found = family.value;
  return (
    <div class="panel family">
      {owners.length > 0 && (
        <ul class="owners" aria-label="Owners">
          {owners.map((owner) => (
            <li key={owner.uid}>
              <OwnerNode owner={owner} namespace={namespace} />
            </li>
          ))}
        </ul>
      )}
      <div class="tree">
        <span class="node self" aria-current="true">
          <small>{object.kind}</small> {name}
        </span>
        {found && <Branch related={found.below} />}
      </div>
      {family.loading && !found && <Busy what="Looking for dependents…" />}
      <Problem error={family.error} />
      {found && !found.below.length && <p class="hint">Nothing that you may list belongs to it.</p>}
      {found && <Missing forbidden={found.forbidden} cut={found.cut} />}
      <button type="button" class="refresh" onClick={family.reload}>
        Look again
      </button>
    </div>
  );
}

export function Missing({ forbidden, cut }: { forbidden: string[]; cut: string[] }): JSX.Element {
  return (
    <>
      {forbidden.length > 0 && <p class="hint forbidden">You may not list {forbidden.join(", ")}: some may be missing.</p>}
      {cut.length > 0 && <p class="hint">There are too many of {cut.join(", ")} to look through them all.</p>}
    </>
  );
}

export function Branch({ related }: { related: Related[] }): JSX.Element | null {
  if (!related.length) return null;
  return (
    <ul>
      {related.map((one) => (
        <li key={one.uid}>
          {one.served ? (
            <a class="node" href={objectPlace(one.served, one.namespace, one.name)}>
              <small>{one.kind}</small> {one.name}
            </a>
          ) : (
            <span class="node">
              <small>{one.kind}</small> {one.name}
            </span>
          )}
          <Branch related={one.below} />
        </li>
      ))}
    </ul>
  );
}

function OwnerNode({ owner, namespace }: { owner: OwnerReference; namespace: string }): JSX.Element {
  const { catalog } = useApp();
  const kind = catalog.ofObject(owner.apiVersion, owner.kind);
  const text = (
    <>
      <small>{owner.kind}</small> {owner.name}
      {owner.controller && <small> controls it</small>}
    </>
  );
  if (!kind) return <span class="node">{text}</span>;
  return (
    <a class="node" href={objectPlace(kind, kind.namespaced ? namespace : "", owner.name)}>
      {text}
    </a>
  );
}
