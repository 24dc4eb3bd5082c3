/** What differs between two texts, line by line (Myers' algorithm). */

export interface DiffLine {
  kind: "same" | "added" | "removed" | "gap";
  text: string;
  /** How many lines a gap stands for. */
  count?: number;
}

/** A comparison that needs more steps than this says that everything differs. */
const MOST_STEPS = 4000;

export function diffLines(before: string, after: string): DiffLine[] {
  const a = linesOf(before);
  const b = linesOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = myers(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const same = (lines: string[]): DiffLine[] => lines.map((text) => ({ kind: "same", text }));
  return [...same(a.slice(0, start)), ...middle, ...same(end ? a.slice(-end) : [])];
}

function linesOf(text: string): string[] {
  return text.replace(/\n$/, "").split("\n");
}

function myers(a: string[], b: string[]): DiffLine[] {
  const most = a.length + b.length;
  const trace: Map<number, number>[] = [];
  const reach = new Map<number, number>([[1, 0]]);
  for (let steps = 0; steps <= Math.min(most, MOST_STEPS); steps += 1) {
    trace.push(new Map(reach));
    for (let k = -steps; k <= steps; k += 2) {
      const down = k === -steps || (k !== steps && (reach.get(k - 1) ?? 0) < (reach.get(k + 1) ?? 0));
      let x = down ? (reach.get(k + 1) ?? 0) : (reach.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return backwards(a, b, trace);
    }
  }
  return [
    ...a.map((text): DiffLine => ({ kind: "removed", text })),
    ...b.map((text): DiffLine => ({ kind: "added", text })),
  ];
}

function backwards(a: string[], b: string[], trace: Map<number, number>[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let [x, y] = [a.length, b.length];
  for (let steps = trace.length - 1; steps >= 0; steps -= 1) {
    const reach = trace[steps] ?? new Map<number, number>();
    const k = x - y;
    const down = k === -steps || (k !== steps && (reach.get(k - 1) ?? 0) < (reach.get(k + 1) ?? 0));
    const from = down ? k + 1 : k - 1;
    const fromX = reach.get(from) ?? 0;
    const fromY = fromX - from;
    while (x > fromX && y > fromY && x > 0 && y > 0) {
      x -= 1;
      y -= 1;
      lines.push({ kind: "same", text: a[x] ?? "" });
    }
    if (steps === 0) break;
    if (down) {
      y -= 1;
      lines.push({ kind: "added", text: b[y] ?? "" });
    } else {
      x -= 1;
      lines.push({ kind: "removed", text: a[x] ?? "" });
    }
  }
  return lines.reverse();
}

/** The same with long stretches of equal lines left out. */
export function withContext(lines: DiffLine[], around = 3): DiffLine[] {
  const near = lines.map((_, index) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some((line) => line.kind !== "same"),
  );
  const shown: DiffLine[] = [];
  lines.forEach((line, index) => {
    const last = shown.at(-1);
    if (near[index]) shown.push(line);
    else if (last?.kind === "gap") last.count = (last.count ?? 0) + 1;
    else shown.push({ kind: "gap", text: "", count: 1 });
  });
  return shown;
}
