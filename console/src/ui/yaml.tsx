/** YAML of an object, with the schema's words where the pointer is and the managers as colours. */
import type { JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { Kind, KubeObject } from "../api/kinds";
import { managersOf, ownedFields, type Owned } from "../api/managers";
import { schemasOf, type Schemas, typeName } from "../api/openapi";
import { parseYaml, samePath, spotAt, type Spot } from "../api/yaml";
import { useApp, useLoaded } from "./app";
import Editor, { COLOURS, type Diagnostic, type Hint, type Mark } from "./editor";

export interface YamlProps {
  kind: Kind;
  text: string;
  label: string;
  /** The object whose managers are shown. */
  owner?: KubeObject;
  readOnly?: boolean;
  diagnostics?: Diagnostic[];
  onChange?: (text: string) => void;
  onSave?: () => void;
}

export default function Yaml({ kind, text, label, owner, readOnly, diagnostics, onChange, onSave }: YamlProps): JSX.Element {
  const { session } = useApp();
  const schemas = useLoaded(() => schemasOf(session, kind), [session, kind]).value;
  const parsed = useMemo(() => parseYaml(text), [text]);
  const owned = useMemo(() => (owner ? ownedFields(owner) : []), [owner]);
  const managers = useMemo(() => managersOf(owned), [owned]);
  const marks = useMemo(() => marksOf(parsed.spots, owned, managers), [parsed, owned, managers]);
  const hint = useCallback(
    (position: number) => hintOf(parsed.spots, position, kind, schemas, owned),
    [parsed, kind, schemas, owned],
  );
  return (
    <div class="yaml-view" data-schemas={schemas ? "loaded" : ""}>
      {owner && <Managers owned={owned} managers={managers} />}
      <Editor
        label={label}
        value={text}
        readOnly={readOnly ?? false}
        marks={marks}
        diagnostics={diagnostics ?? []}
        hint={hint}
        {...(onChange ? { onChange } : {})}
        {...(onSave ? { onSave } : {})}
      />
    </div>
  );
}

function Managers({ owned, managers }: { owned: Owned[]; managers: string[] }): JSX.Element | null {
  if (!managers.length) return null;
  return (
    <ul class="managers" aria-label="Field managers">
      {managers.map((manager, index) => (
        <li key={manager}>
          <span class={`swatch manager-${index % COLOURS}`} aria-hidden="true" />
          {manager} <small>{fieldsText(owned.filter((one) => one.owner.manager === manager).length)}</small>
        </li>
      ))}
    </ul>
  );
}

function fieldsText(count: number): string {
  return count === 1 ? "1 field" : `${count} fields`;
}

function marksOf(spots: Spot[], owned: Owned[], managers: string[]): Mark[] {
  const byPath = new Map(spots.map((spot) => [JSON.stringify(spot.path), spot]));
  return owned.flatMap((one) => {
    const spot = byPath.get(JSON.stringify(one.path));
    return spot ? [{ from: spot.from, to: Math.max(spot.from, spot.to - 1), colour: managers.indexOf(one.owner.manager) }] : [];
  });
}

function hintOf(spots: Spot[], position: number, kind: Kind, schemas: Schemas | undefined, owned: Owned[]): Hint | undefined {
  const spot = spotAt(spots, position);
  if (!spot) return undefined;
  const schema = schemas?.at(schemas.of(kind), spot.path);
  const owners = owned.filter((one) => samePath(one.path, spot.path)).map(({ owner }) => `${owner.manager} (${owner.operation})`);
  const parts = [
    schema && typeName(schema),
    schema?.enum && `one of ${schema.enum.map(String).join(", ")}`,
    schema?.default !== undefined && `default ${JSON.stringify(schema.default)}`,
    owners.length > 0 && `set by ${owners.join(", ")}`,
  ];
  return {
    from: spot.from,
    to: Math.max(spot.nameEnd, spot.from),
    title: pathText(spot.path),
    detail: parts.filter(Boolean).join(" · "),
    text: schema?.description ?? "",
  };
}

function pathText(path: readonly (string | number)[]): string {
  return path.map((step, index) => (typeof step === "number" ? `[${step}]` : index ? `.${step}` : step)).join("");
}
