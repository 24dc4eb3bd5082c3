/** A list as the server's Table, kept current by a watch. */
import { ApiError, isAbort, linesOf, messageOf, type Query, type Session } from "./http";
import type { ObjectMeta } from "./kinds";

export interface Column {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority?: number;
}

export interface Row {
  key: string;
  cells: unknown[];
  meta: ObjectMeta;
  /** When a watch last brought it, in milliseconds; 0 if it came with the list. */
  changed: number;
}

interface TableAnswer {
  metadata?: { resourceVersion?: string; continue?: string; remainingItemCount?: number };
  columnDefinitions?: Column[];
  rows?: { cells: unknown[]; object?: { metadata?: ObjectMeta } }[];
}

interface WatchEvent {
  type: string;
  object: TableAnswer & { code?: number; message?: string; metadata?: ObjectMeta & { resourceVersion?: string } };
}

export type TableState = "loading" | "live" | "waiting" | "refused";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PAGE = 1000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** Changes are shown together, so often at most. */
const SHOW_EVERY_MS = 80;

export class LiveTable {
  columns: Column[] = [];
  rows = new Map<string, Row>();
  state: TableState = "loading";
  error: unknown = undefined;
  /** How many changes the watch has brought. */
  changes = 0;
  /** Grows whenever something is shown anew. */
  shown = 0;
  private version = "";
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly stopping = new AbortController();

  constructor(
    private readonly session: Session,
    private readonly path: string,
    private readonly query: Query,
    private readonly onShow: () => void,
    private readonly watchable = true,
  ) {}

  start(): void {
    void this.run();
  }

  stop(): void {
    this.stopping.abort();
    clearTimeout(this.timer);
  }

  /** Lists, then watches, and begins again when the connection or the history is gone. */
  private async run(): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    let listed = false;
    const { signal } = this.stopping;
    while (!signal.aborted) {
      try {
        if (!listed) await this.list();
        listed = true;
        this.become("live");
        if (!this.watchable) return;
        const before = this.changes;
        await this.watch();
        if (this.changes > before) pause = FIRST_PAUSE_MS;
      } catch (error) {
        if (isAbort(error)) return;
        const code = error instanceof ApiError ? error.code : 0;
        this.error = error;
        if (code === 410) {
          listed = false;
          continue;
        }
        if (code >= 400 && code < 500 && code !== 429) {
          this.become("refused");
          return;
        }
        this.become("waiting");
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }

  private become(state: TableState): void {
    if (state === "live") this.error = undefined;
    this.state = state;
    this.show();
  }

  private async list(): Promise<void> {
    const rows = new Map<string, Row>();
    let next: string | undefined;
    do {
      const answer = await this.session.json<TableAnswer>(this.path, {
        accept: TABLE,
        query: { ...this.query, limit: PAGE, continue: next },
        signal: this.stopping.signal,
      });
      if (answer.columnDefinitions?.length) this.columns = answer.columnDefinitions;
      for (const row of rowsOf(answer, 0)) rows.set(row.key, row);
      this.version = answer.metadata?.resourceVersion ?? "";
      next = answer.metadata?.continue;
      if (this.state === "loading") {
        this.rows = rows;
        this.show();
      }
    } while (next);
    this.rows = rows;
  }

  private async watch(): Promise<void> {
    const answer = await this.session.ask(this.path, {
      accept: TABLE,
      query: { ...this.query, watch: true, resourceVersion: this.version, allowWatchBookmarks: true },
      signal: this.stopping.signal,
    });
    for await (const line of linesOf(answer)) {
      if (line.trim()) this.take(JSON.parse(line) as WatchEvent);
    }
  }

  /** One event of the watch. Throws ApiError for an ERROR. */
  take(event: WatchEvent): void {
    if (event.type === "ERROR") {
      throw new ApiError(event.object.code ?? 500, event.object, event.object.message ?? "the watch has ended");
    }
    const [row] = rowsOf(event.object, Date.now());
    this.version = row?.meta.resourceVersion ?? event.object.metadata?.resourceVersion ?? this.version;
    if (!row || event.type === "BOOKMARK") return;
    this.changes += 1;
    if (event.type === "DELETED") this.rows.delete(row.key);
    else this.rows.set(row.key, row);
    this.show();
  }

  private show(): void {
    if (this.timer !== undefined) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.shown += 1;
      if (!this.stopping.signal.aborted) this.onShow();
    }, SHOW_EVERY_MS);
  }

  get problem(): string {
    return this.error === undefined ? "" : messageOf(this.error);
  }
}

function rowsOf(answer: TableAnswer, changed: number): Row[] {
  return (answer.rows ?? []).map((row) => {
    const meta = row.object?.metadata ?? { name: cellText(row.cells[0]) };
    return { key: `${meta.namespace ?? ""}/${meta.name}`, cells: row.cells, meta, changed };
  });
}

/** The rows as they are now, in the order they had before; new ones come last. */
export function inOrderOf(before: Row[], rows: ReadonlyMap<string, Row>): Row[] {
  const known = new Set<string>();
  const kept: Row[] = [];
  for (const { key } of before) {
    const row = rows.get(key);
    if (!row) continue;
    known.add(key);
    kept.push(row);
  }
  for (const row of rows.values()) if (!known.has(row.key)) kept.push(row);
  return kept;
}

/** Whether a row has `text`, in small or capital letters, in its name, namespace, labels or a cell. */
export function matches(row: Row, text: string): boolean {
  if (!text) return true;
  const labels = Object.entries(row.meta.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const all = [row.meta.name, row.meta.namespace ?? "", ...labels, ...row.cells.map(cellText)].join("\n").toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

export function cellText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

const collator = new Intl.Collator("en", { numeric: true });

/** Orders rows by a column: -2 is the namespace, -1 the age, else the number of a cell. */
export function compareBy(column: number): (a: Row, b: Row) => number {
  const value = (row: Row): unknown => {
    if (column === -2) return row.meta.namespace ?? "";
    return column === -1 ? (row.meta.creationTimestamp ?? "") : row.cells[column];
  };
  return (a, b) => {
    const [left, right] = [value(a), value(b)];
    const order =
      typeof left === "number" && typeof right === "number"
        ? left - right
        : collator.compare(cellText(left), cellText(right));
    return order || collator.compare(a.key, b.key);
  };
}

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
const YEAR = 365 * DAY;

/** How long ago something was, as kubectl prints ages. */
export function age(time: string | undefined, now: number): string {
  const then = Date.parse(time ?? "");
  if (Number.isNaN(then)) return "";
  const seconds = Math.max(0, Math.floor((now - then) / 1000));
  const two = (unit: string, size: number, below: string, smaller: number): string => {
    const rest = Math.floor((seconds % size) / smaller);
    return `${Math.floor(seconds / size)}${unit}${rest ? `${rest}${below}` : ""}`;
  };
  if (seconds < 2 * MINUTE) return `${seconds}s`;
  if (seconds < 10 * MINUTE) return two("m", MINUTE, "s", 1);
  if (seconds < 3 * HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < 8 * HOUR) return two("h", HOUR, "m", MINUTE);
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)}h`;
  if (seconds < 8 * DAY) return two("d", DAY, "h", HOUR);
  if (seconds < 2 * YEAR) return `${Math.floor(seconds / DAY)}d`;
  if (seconds < 8 * YEAR) return two("y", YEAR, "d", DAY);
  return `${Math.floor(seconds / YEAR)}y`;
}
