/** Metrics as the server prints them (Prometheus' text format), and what is drawn of them. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string, wanted: ReadonlySet<string>): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("#")) continue;
    const found = LINE.exec(line);
    const name = found?.[1];
    if (!name || !wanted.has(name)) continue;
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(LABEL)].map(([, key = "", value = ""]) => [key, unescaped(value)]));
    samples.push({ name, labels, value: Number(found[3]) });
  }
  return samples;
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, one: string) => (one === "n" ? "\n" : one));
}

export const WANTED: ReadonlySet<string> = new Set([
  "apiserver_request_total",
  "apiserver_request_duration_seconds_bucket",
  "apiserver_request_duration_seconds_sum",
  "apiserver_request_duration_seconds_count",
  "apiserver_longrunning_requests",
  "apiserver_current_inflight_requests",
  "process_resident_memory_bytes",
]);

/** Sums at a moment, of which two make a point. */
export interface Snapshot {
  /** In seconds. */
  time: number;
  requests: number;
  errors: number;
  seconds: number;
  counted: number;
  /** Answers by the bound of their bucket. */
  buckets: Map<number, number>;
  watches: number;
  memory: number;
}

export function snapshotOf(samples: Sample[], time: number): Snapshot {
  const total = (name: string, keep: (labels: Record<string, string>) => boolean = () => true): number =>
    samples.filter((one) => one.name === name && keep(one.labels)).reduce((sum, one) => sum + one.value, 0);
  // Those that last as long as somebody listens aren't slow.
  const short = ({ verb }: Record<string, string>): boolean => verb !== "WATCH" && verb !== "CONNECT";
  const buckets = new Map<number, number>();
  for (const { name, labels, value } of samples) {
    if (name !== "apiserver_request_duration_seconds_bucket" || !short(labels)) continue;
    const bound = Number((labels.le ?? "").replace("+Inf", "Infinity"));
    buckets.set(bound, (buckets.get(bound) ?? 0) + value);
  }
  return {
    time,
    requests: total("apiserver_request_total"),
    errors: total("apiserver_request_total", ({ code }) => Number(code) >= 500),
    seconds: total("apiserver_request_duration_seconds_sum", short),
    counted: total("apiserver_request_duration_seconds_count", short),
    buckets,
    watches: total("apiserver_longrunning_requests", ({ verb }) => verb === "WATCH"),
    memory: total("process_resident_memory_bytes"),
  };
}

/** The time within which a share of the requests between two snapshots was answered, in seconds. */
export function quantile(share: number, from: Snapshot, to: Snapshot): number | null {
  const bounds = [...to.buckets.keys()].sort((a, b) => a - b);
  const counts = bounds.map((bound) => (to.buckets.get(bound) ?? 0) - (from.buckets.get(bound) ?? 0));
  const all = counts.at(-1) ?? 0;
  if (all <= 0) return null;
  const rank = share * all;
  const index = counts.findIndex((count) => count >= rank);
  const bound = bounds[index] ?? 0;
  const below = bounds[index - 1] ?? 0;
  if (bound === Infinity) return below;
  const [less, count] = [counts[index - 1] ?? 0, counts[index] ?? 0];
  return count > less ? below + ((bound - below) * (rank - less)) / (count - less) : bound;
}

/** The table that a debugging page prints, as rows of cells. */
export function parseDump(text: string): string[][] {
  return text
    .split("\n")
    .filter((line) => line.trim())
    .map((line) => line.replace(/,\s*$/, "").split(",").map((cell) => cell.trim()));
}
