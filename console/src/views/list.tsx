/** The objects of a kind: the server's table, live, of which only the rows in sight are in the page. */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import { type Kind, pathOf } from "../api/kinds";
import { createPlace, listPlace, objectPlace } from "../api/route";
import { age, cellText, type Column, compareBy, inOrderOf, LiveTable, matches, type Row } from "../api/table";
import { go, goQuietly, useApp, useNow } from "../ui/app";
import { Busy, Later, Problem } from "../ui/parts";

export const ROW_PX = 34;
const SPARE_ROWS = 8;
const FLASH_MS = 1200;
const NAMESPACE = -2;

interface Shown {
  index: number;
  column: Column;
}

export function ListView({ kind, namespace, options }: {
  kind: Kind;
  namespace: string;
  options: Record<string, string>;
}): JSX.Element {
  const { catalog } = useApp();
  const { q: text = "", label = "", field = "", sort = "0", wide } = options;
  const change = (changed: Record<string, string | undefined>): void => goQuietly(listPlace(kind, { ...options, ...changed }));
  const table = useTable(kind, namespace, label, field);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const columns = useMemo(
    () =>
      table.columns
        .map((column, index) => ({ column, index }))
        .filter(({ column }) => wide === "1" || !column.priority),
    [table.columns, wide],
  );
  const rows = useRows(table, text, sort);
  const chosen = useMemo(() => [...selected].flatMap((key) => table.rows.get(key)?.meta ?? []), [selected, table.rows, table.shown]);
  const versions = catalog.versionsOf(kind);
  const create = useRef<HTMLAnchorElement>(null);
  useKey("n", () => create.current?.click());
  return (
    <section class="page list" aria-label={kind.kind}>
      <header class="title">
        <h1>
          {kind.kind}
          {versions.length > 1 ? (
            <select
              aria-label="Version"
              value={kind.version}
              onChange={(event) => go(listPlace({ ...kind, version: event.currentTarget.value }, options))}
            >
              {versions.map((one) => (
                <option key={one.version}>{one.version}</option>
              ))}
            </select>
          ) : (
            <small>
              {kind.group ? `${kind.group}/` : ""}
              {kind.version}
            </small>
          )}
        </h1>
        <LiveState table={table} count={rows.length} />
        <span class="space" />
        {kind.verbs.includes("create") && (
          <a class="button primary" href={createPlace(kind, namespace)} ref={create}>
            Create
          </a>
        )}
      </header>
      <Filters text={text} label={label} field={field} wide={wide === "1"} onChange={change} />
      {table.state === "refused" || table.state === "waiting" ? <Problem error={table.error} /> : null}
      {table.state === "loading" && !rows.length ? (
        <Busy what={`Loading ${kind.resource}…`} />
      ) : (
        <Grid
          kind={kind}
          columns={columns}
          rows={rows}
          showNamespace={kind.namespaced && !namespace}
          sort={sort}
          namespaceOption={options.ns}
          selected={selected}
          onSelect={setSelected}
          onSort={(value) => change({ sort: value })}
          onLabel={(value) => change({ label: value })}
        />
      )}
      {table.state === "live" && !rows.length && (
        <p class="empty">{table.rows.size ? "No row has this text." : `There are no ${kind.resource}${namespace && ` in ${namespace}`}.`}</p>
      )}
      {chosen.length > 0 && (
        <Later load={() => import("./actions")}>
          {({ ManyActions }) => <ManyActions kind={kind} chosen={chosen} onDone={() => setSelected(new Set())} />}
        </Later>
      )}
    </section>
  );
}

/** The table of a kind, and the views' wish to be drawn anew when it changes. */
function useTable(kind: Kind, namespace: string, label: string, field: string): LiveTable {
  const { session } = useApp();
  const [, setShown] = useState(0);
  const table = useMemo(
    () =>
      new LiveTable(
        session,
        pathOf(kind, namespace),
        { labelSelector: label, fieldSelector: field },
        () => setShown((before) => before + 1),
        kind.verbs.includes("watch"),
      ),
    [session, kind, namespace, label, field],
  );
  useEffect(() => {
    table.start();
    return () => table.stop();
  }, [table]);
  return table;
}

function useRows(table: LiveTable, text: string, sort: string): Row[] {
  const last = useRef<Row[]>([]);
  return useMemo(() => {
    // Nearly in order already: few rows change at a time, and to sort the others anew would take long.
    const rows = inOrderOf(last.current, table.rows).filter((row) => matches(row, text));
    const [column = "0", direction] = sort.split(" ");
    const number = column === "namespace" ? NAMESPACE : Number(column);
    const isAge = table.columns[number]?.name === "Age";
    const order = compareBy(isAge ? -1 : number);
    // The youngest come first where ages go up.
    const down = (direction === "down") !== isAge;
    last.current = rows.sort((a, b) => (down ? order(b, a) : order(a, b)));
    return last.current;
  }, [table, table.shown, text, sort]);
}

/** Does something at a key, unless one writes or a dialog is open. */
function useKey(key: string, action: () => void): void {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const typing = event.target instanceof Element && event.target.closest("input:not([type=checkbox]),textarea,select");
      if (event.key !== key || event.ctrlKey || event.metaKey || typing || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      latest.current();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [key]);
}

function LiveState({ table, count }: { table: LiveTable; count: number }): JSX.Element {
  const refused = table.error instanceof ApiError && table.error.code === 403 ? "not allowed" : "refused";
  const words = { loading: "loading", live: "live", waiting: "connecting again", refused };
  const total = table.rows.size;
  return (
    <span class={`live ${table.state}`} role="status" data-changes={table.changes}>
      <span class="dot" aria-hidden="true" />
      {words[table.state]}
      {table.state !== "refused" && (
        <span class="count">
          {count === total ? total.toLocaleString("en") : `${count.toLocaleString("en")} of ${total.toLocaleString("en")}`}
        </span>
      )}
    </span>
  );
}

function Filters({ text, label, field, wide, onChange }: {
  text: string;
  label: string;
  field: string;
  wide: boolean;
  onChange: (changed: Record<string, string | undefined>) => void;
}): JSX.Element {
  const search = useRef<HTMLInputElement>(null);
  useKey("/", () => search.current?.focus());
  return (
    <div class="filters" role="search">
      <input
        ref={search}
        type="search"
        class="text"
        placeholder="Filter by text  /"
        aria-label="Filter by text"
        value={text}
        onInput={(event) => onChange({ q: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
        }}
      />
      <input
        type="search"
        placeholder="Labels: app=shop,tier!=db"
        aria-label="Label selector"
        spellcheck={false}
        value={label}
        onChange={(event) => onChange({ label: event.currentTarget.value.trim() })}
      />
      <input
        type="search"
        placeholder="Fields: metadata.name=a"
        aria-label="Field selector"
        spellcheck={false}
        value={field}
        onChange={(event) => onChange({ field: event.currentTarget.value.trim() })}
      />
      <label class="check">
        <input
          type="checkbox"
          checked={wide}
          onChange={(event) => onChange({ wide: event.currentTarget.checked ? "1" : undefined })}
        />
        all columns
      </label>
    </div>
  );
}

interface GridProps {
  kind: Kind;
  columns: Shown[];
  rows: Row[];
  showNamespace: boolean;
  sort: string;
  namespaceOption: string | undefined;
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
  onSort: (sort: string) => void;
  onLabel: (label: string) => void;
}

function Grid(props: GridProps): JSX.Element {
  const { kind, columns, rows, showNamespace, selected, onSelect, namespaceOption } = props;
  const now = useNow();
  const scroller = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState<string>();
  const { first, last, height, onScroll } = useWindow(scroller, rows.length);
  const widths = useMemo(() => widthsOf(columns, rows, showNamespace), [columns, rows.length > 0, showNamespace]);
  const position = rows.findIndex((row) => row.key === current);
  const open = (row: Row | undefined): void => {
    if (row) go(objectPlace(kind, row.meta.namespace, row.meta.name, { ns: namespaceOption }));
  };
  const toggle = (row: Row): void => {
    const changed = new Set(selected);
    if (!changed.delete(row.key)) changed.add(row.key);
    onSelect(changed);
  };
  const move = (to: number): void => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (!row) return;
    setCurrent(row.key);
    bringIntoView(scroller.current, rows.indexOf(row));
  };
  const pressed = (event: KeyboardEvent): void => {
    if (event.target instanceof HTMLInputElement && event.key === " ") return;
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const steps: Record<string, number> = {
      ...{ ArrowDown: position + 1, j: position + 1, ArrowUp: position - 1, k: position - 1 },
      ...{ Home: 0, End: rows.length - 1, PageDown: position + page, PageUp: position - page },
    };
    const row = rows[position];
    const to = steps[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (to !== undefined) move(to);
    else if (event.key === "Enter") open(row);
    else if (event.key === " " && row) toggle(row);
    else return;
    event.preventDefault();
  };
  return (
    <div
      ref={scroller}
      class="grid"
      role="grid"
      tabIndex={0}
      aria-label={kind.resource}
      aria-rowcount={rows.length + 1}
      aria-multiselectable="true"
      aria-activedescendant={position >= 0 ? "current-row" : undefined}
      style={{ "--columns": widths }}
      onScroll={onScroll}
      onKeyDown={pressed}
    >
      <GridHead {...props} />
      <div class="rows" style={{ height: `${rows.length * ROW_PX}px` }}>
        {rows.slice(first, last).map((row, offset) => (
          <GridRow
            key={row.key}
            row={row}
            index={first + offset}
            columns={columns}
            showNamespace={showNamespace}
            now={now}
            isCurrent={row.key === current}
            isSelected={selected.has(row.key)}
            href={objectPlace(kind, row.meta.namespace, row.meta.name, { ns: namespaceOption })}
            onFocus={() => setCurrent(row.key)}
            onToggle={() => toggle(row)}
          />
        ))}
      </div>
    </div>
  );
}

function GridHead({ columns, rows, showNamespace, sort, selected, onSelect, onSort }: GridProps): JSX.Element {
  const [by, direction] = sort.split(" ");
  const head = (id: string, column: { name: string; description?: string }): JSX.Element => (
    <span
      key={id}
      role="columnheader"
      aria-sort={by === id ? (direction === "down" ? "descending" : "ascending") : "none"}
    >
      <button
        type="button"
        title={column.description ?? ""}
        tabIndex={-1}
        onClick={() => onSort(by === id && direction !== "down" ? `${id} down` : id)}
      >
        {column.name}
      </button>
    </span>
  );
  const all = rows.length > 0 && rows.every((row) => selected.has(row.key));
  return (
    <div class="row head" role="row">
      <span role="columnheader" class="pick">
        <input
          type="checkbox"
          aria-label="Select all"
          checked={all}
          onChange={() => onSelect(all ? new Set() : new Set(rows.map((row) => row.key)))}
        />
      </span>
      {showNamespace && head("namespace", { name: "Namespace" })}
      {columns.map(({ column, index }) => head(String(index), column))}
    </div>
  );
}

function GridRow({ row, index, columns, showNamespace, now, isCurrent, isSelected, href, onFocus, onToggle }: {
  row: Row;
  index: number;
  columns: Shown[];
  showNamespace: boolean;
  now: number;
  isCurrent: boolean;
  isSelected: boolean;
  href: string;
  onFocus: () => void;
  onToggle: () => void;
}): JSX.Element {
  const fresh = row.changed > 0 && Date.now() - row.changed < FLASH_MS;
  const classes = ["row", isCurrent && "current", isSelected && "selected", row.meta.deletionTimestamp && "leaving"];
  return (
    <div
      class={classes.filter(Boolean).join(" ")}
      role="row"
      id={isCurrent ? "current-row" : undefined}
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      style={{ transform: `translateY(${index * ROW_PX}px)` }}
      onMouseDown={onFocus}
    >
      <span role="gridcell" class="pick">
        <input type="checkbox" tabIndex={-1} aria-label={`Select ${row.meta.name}`} checked={isSelected} onChange={onToggle} />
      </span>
      {showNamespace && <span role="gridcell">{row.meta.namespace}</span>}
      {columns.map(({ column, index: cell }) => (
        <span role="gridcell" key={cell} class={column.type === "integer" || column.type === "number" ? "number" : ""}>
          {cell === 0 ? (
            <a href={href} tabIndex={-1}>
              {cellText(row.cells[cell])}
            </a>
          ) : (
            <Cell row={row} column={column} value={row.cells[cell]} now={now} />
          )}
        </span>
      ))}
      {fresh && <span key={row.meta.resourceVersion} class="flash" aria-hidden="true" />}
    </div>
  );
}

const GOOD = new Set(["Running", "Active", "Ready", "True", "Bound", "Available", "Succeeded", "Completed", "Complete", "Established"]);
const BAD = /^(False|Failed|Error|CrashLoopBackOff|ImagePullBackOff|Evicted|OOMKilled|Lost|NotReady|.*Error.*)$/;
const STATES = new Set(["Status", "Phase", "State", "Ready", "Available", "Established"]);

function Cell({ row, column, value, now }: { row: Row; column: Column; value: unknown; now: number }): JSX.Element {
  if (column.name === "Age") return <>{age(row.meta.creationTimestamp, now) || cellText(value)}</>;
  if (column.format === "date-time" || column.type === "date") return <>{age(cellText(value), now) || cellText(value)}</>;
  const text = cellText(value);
  if (!STATES.has(column.name)) return <span title={text}>{text}</span>;
  return <span class={`state ${GOOD.has(text) ? "good" : BAD.test(text) ? "bad" : ""}`}>{text}</span>;
}

/** Which rows are in sight, with some before and after them. */
function useWindow(scroller: { current: HTMLDivElement | null }, count: number): {
  first: number;
  last: number;
  height: number;
  onScroll: () => void;
} {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, [scroller]);
  const begin = Math.max(0, Math.floor(top / ROW_PX) - SPARE_ROWS);
  const end = Math.ceil((top + height) / ROW_PX) + SPARE_ROWS;
  return {
    first: Math.min(begin, Math.max(0, count - 1)),
    last: Math.min(end, count),
    height,
    // Only whole blocks of rows change what is drawn.
    onScroll: () => {
      const now = scroller.current?.scrollTop ?? 0;
      setTop(Math.floor(now / (ROW_PX * 4)) * ROW_PX * 4);
    },
  };
}

function bringIntoView(element: HTMLDivElement | null, index: number): void {
  if (!element) return;
  const top = index * ROW_PX;
  const seen = element.clientHeight - ROW_PX;
  if (top < element.scrollTop) element.scrollTop = top;
  else if (top + ROW_PX > element.scrollTop + seen) element.scrollTop = top + ROW_PX - seen;
}

/** The widths of the columns by the longest texts among the first rows, so that rows needn't be measured. */
function widthsOf(columns: Shown[], rows: Row[], showNamespace: boolean): string {
  const some = rows.slice(0, 200);
  const longest = (texts: string[]): number => Math.max(...texts.map((text) => text.length), 0);
  const width = (length: number, name: string, most: number): string => {
    const letters = Math.min(Math.max(length, name.length + 2, 4), most);
    return `minmax(${Math.min(letters, 12) + 3}ch, ${letters + 3}fr)`;
  };
  const parts = columns.map(({ column, index }) =>
    width(column.name === "Age" ? 5 : longest(some.map((row) => cellText(row.cells[index]))), column.name, index === 0 ? 48 : 40),
  );
  if (showNamespace) parts.unshift(width(longest(some.map((row) => row.meta.namespace ?? "")), "Namespace", 30));
  return ["36px", ...parts].join(" ");
}
