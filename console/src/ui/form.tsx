/** A form made of a schema: a field for each plain value, a group for each object, YAML for the rest. */
import type { JSX } from "preact";
import { parse } from "yaml";
import { type Schema, type Schemas, typeName } from "../api/openapi";

export type Values = Record<string, unknown>;

const DEEPEST = 4;

export function Form({ schemas, schema, values, onChange, leaveOut = [], depth = 0 }: {
  schemas: Schemas;
  schema: Schema;
  values: Values;
  onChange: (values: Values) => void;
  leaveOut?: string[];
  depth?: number;
}): JSX.Element {
  const fields = Object.entries(schema.properties ?? {}).filter(([name]) => !leaveOut.includes(name));
  return (
    <>
      {fields.map(([name, field]) => (
        <Field
          key={name}
          schemas={schemas}
          name={name}
          schema={schemas.resolved(field) ?? {}}
          required={schema.required?.includes(name) === true}
          value={values[name]}
          depth={depth}
          onChange={(value) => {
            const { [name]: _before, ...others } = values;
            onChange(value === undefined ? others : { ...others, [name]: value });
          }}
        />
      ))}
    </>
  );
}

interface FieldProps {
  schemas: Schemas;
  name: string;
  schema: Schema;
  required: boolean;
  value: unknown;
  depth: number;
  onChange: (value: unknown) => void;
}

function Field(props: FieldProps): JSX.Element {
  const { schemas, name, schema, required, value, depth, onChange } = props;
  if (schema.properties && depth < DEEPEST) {
    return (
      <fieldset>
        <legend>{name}</legend>
        {schema.description && <p class="hint">{schema.description}</p>}
        <Form
          schemas={schemas}
          schema={schema}
          values={(value as Values | undefined) ?? {}}
          onChange={(inside) => onChange(Object.keys(inside).length ? inside : undefined)}
          depth={depth + 1}
        />
      </fieldset>
    );
  }
  return (
    <label class="field">
      <span>
        {name}
        {required && " *"} <small>{typeName(schema)}</small>
      </span>
      <Input {...props} />
      {schema.description && <small>{schema.description}</small>}
    </label>
  );
}

function Input({ name, schema, value, required, onChange }: FieldProps): JSX.Element {
  const text = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  if (schema.type === "boolean") {
    return <input type="checkbox" name={name} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked || undefined)} />;
  }
  if (schema.enum) {
    return (
      <select name={name} value={text} required={required} onChange={(event) => onChange(event.currentTarget.value || undefined)}>
        <option value="">–</option>
        {schema.enum.map((one) => (
          <option key={String(one)}>{String(one)}</option>
        ))}
      </select>
    );
  }
  if (schema.type === "integer" || schema.type === "number") {
    return (
      <input
        type="number"
        name={name}
        required={required}
        step={schema.type === "integer" ? 1 : "any"}
        {...(schema.minimum === undefined ? {} : { min: schema.minimum })}
        {...(schema.maximum === undefined ? {} : { max: schema.maximum })}
        value={text}
        onInput={(event) => onChange(event.currentTarget.value === "" ? undefined : Number(event.currentTarget.value))}
      />
    );
  }
  if (schema.type === "string") {
    return <input name={name} required={required} value={text} onInput={(event) => onChange(event.currentTarget.value || undefined)} />;
  }
  return (
    <textarea name={name} required={required} rows={3} spellcheck={false} placeholder="YAML" onChange={(event) => onChange(asYaml(event.currentTarget.value))} />
  );
}

/** What a text is as YAML; the text itself if it is none, so that the server says what is wrong. */
function asYaml(text: string): unknown {
  if (!text.trim()) return undefined;
  try {
    return parse(text) as unknown;
  } catch {
    return text;
  }
}
