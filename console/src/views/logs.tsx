/** What an object logs, as it comes. */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isAbort, linesOf } from "../api/http";
import { type Kind, type KubeObject, pathOf } from "../api/kinds";
import { useApp } from "../ui/app";
import { Problem } from "../ui/parts";

/** Older lines are forgotten. */
const MOST_LINES = 5000;
const SHOW_EVERY_MS = 100;

/** The names of an object's containers, where it has some. */
export function containersOf(object: KubeObject): string[] {
  const spec = object.spec as Record<string, unknown> | undefined;
  const names = ["containers", "initContainers", "ephemeralContainers"].flatMap((list) => {
    const found = spec?.[list];
    return Array.isArray(found) ? (found as { name?: string }[]).map((one) => one.name ?? "") : [];
  });
  return names.filter(Boolean);
}

export function Logs({ kind, object, below }: { kind: Kind; object: KubeObject; below: string }): JSX.Element {
  const containers = containersOf(object);
  const [container, setContainer] = useState(containers[0] ?? "");
  const [follow, setFollow] = useState(true);
  const [previous, setPrevious] = useState(false);
  const [text, setText] = useState("");
  const { lines, error, ended } = useLines(kind, object, below, { container, follow, previous });
  const shown = useMemo(() => lines.filter((line) => line.toLowerCase().includes(text.toLowerCase())), [lines, text]);
  const place = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (atEnd.current && place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [shown]);
  return (
    <div class="logs">
      <div class="filters">
        {containers.length > 0 && (
          <select aria-label="Container" value={container} onChange={(event) => setContainer(event.currentTarget.value)}>
            {containers.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
        <input
          type="search"
          placeholder="Only lines with…"
          aria-label="Only lines with"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <label class="check">
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} />
          follow
        </label>
        {containers.length > 0 && (
          <label class="check">
            <input type="checkbox" checked={previous} onChange={(event) => setPrevious(event.currentTarget.checked)} />
            of the run before
          </label>
        )}
        <span class="hint" role="status">
          {shown.length.toLocaleString("en")} lines{ended ? ", ended" : ""}
        </span>
      </div>
      <Problem error={error} what="There is no log" />
      <pre
        ref={place}
        class="log"
        tabIndex={0}
        aria-label="Log"
        onScroll={(event) => {
          const one = event.currentTarget;
          atEnd.current = one.scrollTop + one.clientHeight >= one.scrollHeight - 4;
        }}
      >
        {shown.join("\n")}
      </pre>
    </div>
  );
}

function useLines(
  kind: Kind,
  object: KubeObject,
  below: string,
  { container, follow, previous }: { container: string; follow: boolean; previous: boolean },
): { lines: string[]; error: unknown; ended: boolean } {
  const { session } = useApp();
  const [lines, setLines] = useState<string[]>([]);
  const [error, setError] = useState<unknown>();
  const [ended, setEnded] = useState(false);
  const path = pathOf(kind, object.metadata.namespace, object.metadata.name, below);
  useEffect(() => {
    const stopping = new AbortController();
    let all: string[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (): void => {
      timer = undefined;
      setLines(all);
    };
    setLines([]);
    setError(undefined);
    setEnded(false);
    const read = async (): Promise<void> => {
      // What isn't asked for isn't named, as a log of another kind may have other parameters.
      const query = {
        container,
        follow: follow ? true : undefined,
        previous: previous ? true : undefined,
        tailLines: container ? MOST_LINES : undefined,
      };
      const answer = await session.ask(path, { accept: "*/*", query, signal: stopping.signal });
      for await (const line of linesOf(answer)) {
        all = [...all.slice(-(MOST_LINES - 1)), line];
        timer ??= setTimeout(show, SHOW_EVERY_MS);
      }
      setEnded(true);
    };
    read().catch((caught: unknown) => {
      if (!isAbort(caught)) setError(caught);
    });
    return () => {
      stopping.abort();
      clearTimeout(timer);
    };
  }, [session, path, container, follow, previous]);
  return { lines, error, ended };
}
