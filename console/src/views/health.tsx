/** How the server is: its checks, its metrics as small plots, its priority levels, and the servers it passes requests to. */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { adviceAbout } from "../api/advice";
import { ApiError } from "../api/http";
import { parseDump, parseMetrics, quantile, type Snapshot, snapshotOf, WANTED } from "../api/metrics";
import { objectPlace } from "../api/route";
import { useApp, useLoaded } from "../ui/app";
import { Problem } from "../ui/parts";

const EVERY_MS = 2000;
const POINTS = 150;

export function Health(): JSX.Element {
  return (
    <section class="page" aria-label="Health">
      <header class="title">
        <h1>Health</h1>
        <Version />
      </header>
      <Plots />
      <div class="columns">
        <Checks probe="readyz" title="Ready to serve" />
        <Checks probe="livez" title="Alive" />
      </div>
      <APIServices />
      <Levels />
    </section>
  );
}

function Version(): JSX.Element | null {
  const { session } = useApp();
  const version = useLoaded(() => session.json<{ gitVersion?: string; platform?: string }>("version"), [session]).value;
  return version ? <small>{version.gitVersion}</small> : null;
}

function Checks({ probe, title }: { probe: string; title: string }): JSX.Element {
  const { session } = useApp();
  const [count, setCount] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setCount((before) => before + 1), 5000);
    return () => clearInterval(timer);
  }, []);
  const found = useLoaded(
    async (signal) => {
      const answer = await session.fetch(probe, { accept: "*/*", query: { verbose: true }, signal });
      const text = await answer.text();
      if (answer.status === 401 || answer.status === 403) throw new ApiError(answer.status, {}, `you may not ask ${probe}`);
      return { well: answer.ok, lines: text.split("\n").filter((line) => line.startsWith("[")) };
    },
    [session, probe, count],
  );
  return (
    <section class="panel">
      <h2>
        {title} {found.value && <span class={`state ${found.value.well ? "good" : "bad"}`}>{found.value.well ? "yes" : "no"}</span>}
      </h2>
      <Problem error={found.error} />
      <ul class="checks">
        {found.value?.lines.map((line) => (
          <li key={line} class={line.startsWith("[+]") ? "good" : "bad"}>
            <span aria-hidden="true">{line.startsWith("[+]") ? "✓" : "✗"}</span> {line.slice(3)}
          </li>
        ))}
      </ul>
    </section>
  );
}

interface APIService {
  metadata: { name: string };
  spec: { service?: { namespace?: string; name?: string } | null };
  status?: { conditions?: { type: string; status: string; reason?: string; message?: string }[] };
}

function APIServices(): JSX.Element | null {
  const { session, catalog } = useApp();
  const kind = catalog.find("apiregistration.k8s.io", "v1", "apiservices");
  const list = useLoaded(
    async (signal) => (kind ? await session.json<{ items?: APIService[] }>("apis/apiregistration.k8s.io/v1/apiservices", { signal }) : { items: [] }),
    [session, kind],
  );
  if (!kind) return null;
  const services = (list.value?.items ?? []).map((one) => ({ one, state: availabilityOf(one) }));
  const others = services.filter(({ one }) => one.spec.service);
  return (
    <section class="panel apiservices">
      <h2>API services</h2>
      <Problem error={list.error} />
      {list.value && (
        <p class="hint">
          {services.length - others.length} are served by this server, {others.length} by others.
        </p>
      )}
      {others.length > 0 && (
        <ul class="conditions">
          {others.map(({ one, state }) => (
            <li key={one.metadata.name}>
              <span class={`state ${state.status === "True" ? "good" : "bad"}`}>{state.status === "True" ? "up" : "down"}</span>
              <div>
                <a href={objectPlace(kind, "", one.metadata.name)}>{one.metadata.name}</a>{" "}
                <small>
                  by {one.spec.service?.namespace}/{one.spec.service?.name}
                </small>
                {state.status !== "True" && <WhyDown reason={`${state.reason}: ${state.message}`} />}
              </div>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function WhyDown({ reason }: { reason: string }): JSX.Element {
  const advice = adviceAbout(reason);
  return (
    <>
      <p>{reason}</p>
      {advice && <p class="advice">→ {advice}</p>}
    </>
  );
}

function availabilityOf(service: APIService): { status: string; reason?: string; message?: string } {
  return service.status?.conditions?.find((one) => one.type === "Available") ?? { status: "Unknown", reason: "Unknown", message: "no aggregator has set this condition yet" };
}

const SHOWN_COLUMNS = ["PriorityLevelName", "ExecutingRequests", "WaitingRequests", "DispatchedRequests", "RejectedRequests"];
const COLUMN_TITLES: Record<string, string> = {
  ...{ PriorityLevelName: "Level", ExecutingRequests: "Executing", WaitingRequests: "Waiting" },
  ...{ DispatchedRequests: "Dispatched", RejectedRequests: "Rejected" },
};

function Levels(): JSX.Element | null {
  const { session } = useApp();
  const found = useLoaded((signal) => session.text("debug/api_priority_and_fairness/dump_priority_levels", { signal }), [session]);
  if (found.error instanceof ApiError && found.error.code === 404) return null;
  const [head = [], ...rows] = parseDump(found.value ?? "");
  const places = SHOWN_COLUMNS.map((name) => head.indexOf(name)).filter((place) => place >= 0);
  return (
    <section class="panel wide levels">
      <h2>Priority and fairness</h2>
      <Problem error={found.error} />
      {rows.length > 0 && (
        <table class="plain">
          <thead>
            <tr>
              {places.map((place) => (
                <th key={place}>{COLUMN_TITLES[head[place] ?? ""]}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row[0]}>
                {places.map((place) => (
                  <td key={place}>{row[place]}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Plots(): JSX.Element {
  const { session } = useApp();
  const [snapshots, setSnapshots] = useState<Snapshot[]>([]);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const stopping = new AbortController();
    const look = async (): Promise<void> => {
      const text = await session.text("metrics", { signal: stopping.signal });
      const snapshot = snapshotOf(parseMetrics(text, WANTED), Date.now() / 1000);
      setSnapshots((before) => [...before.slice(-POINTS), snapshot]);
      setError(undefined);
    };
    const run = (): void => {
      look().catch((caught: unknown) => {
        if (!stopping.signal.aborted) setError(caught);
      });
    };
    run();
    const timer = setInterval(run, EVERY_MS);
    return () => {
      stopping.abort();
      clearInterval(timer);
    };
  }, [session]);
  const series = useMemo(() => seriesOf(snapshots), [snapshots]);
  return (
    <>
      <Problem error={error} />
      <div class="plots" data-points={snapshots.length}>
        {series.map((one) => (
          <figure class="panel" key={one.title}>
            <figcaption>
              {one.title} <strong>{one.now}</strong>
            </figcaption>
            <Plot times={one.times} values={one.values} colour={one.colour} />
          </figure>
        ))}
      </div>
    </>
  );
}

interface Series {
  title: string;
  now: string;
  colour: string;
  times: number[];
  values: (number | null)[];
}

function seriesOf(snapshots: Snapshot[]): Series[] {
  const pairs = snapshots.slice(1).map((to, index) => ({ from: snapshots[index] ?? to, to }));
  const times = pairs.map(({ to }) => to.time);
  const rate = (read: (one: Snapshot) => number): number[] =>
    pairs.map(({ from, to }) => Math.max(0, read(to) - read(from)) / Math.max(0.001, to.time - from.time));
  const requests = rate((one) => one.requests);
  const slowest = pairs.map(({ from, to }) => quantile(0.99, from, to)).map((one) => (one === null ? null : one * 1000));
  const watches = pairs.map(({ to }) => to.watches);
  const memory = pairs.map(({ to }) => to.memory / 1_048_576);
  const last = (values: (number | null)[], unit: string, digits = 0): string => {
    const value = values.findLast((one) => one !== null);
    return typeof value === "number" ? `${value.toFixed(digits)} ${unit}` : "–";
  };
  return [
    { title: "Requests", now: last(requests, "/s", 1), colour: "--manager-0", times, values: requests },
    { title: "Latency, 99 %", now: last(slowest, "ms", 1), colour: "--manager-1", times, values: slowest },
    { title: "Watches", now: last(watches, ""), colour: "--manager-2", times, values: watches },
    { title: "Memory", now: last(memory, "MiB"), colour: "--manager-3", times, values: memory },
  ];
}

const PLOT_HEIGHT = 110;

function Plot({ times, values, colour }: { times: number[]; values: (number | null)[]; colour: string }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const styles = getComputedStyle(document.documentElement);
    const stroke = styles.getPropertyValue(colour).trim();
    const soft = styles.getPropertyValue("--soft").trim();
    const axis = { stroke: soft, grid: { stroke: `${soft}22` }, ticks: { show: false }, font: "11px system-ui" };
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: PLOT_HEIGHT,
        padding: [8, 6, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.15 : 1] } },
        axes: [
          { ...axis, size: 22, space: 70 },
          { ...axis, size: 42, space: 28 },
        ],
        series: [{}, { stroke, fill: `${stroke}22`, width: 1.5, points: { show: false }, spanGaps: true }],
      },
      [times, values],
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: PLOT_HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [colour]);
  useEffect(() => plot.current?.setData([times, values]), [times, values]);
  return <div class="plot" ref={place} />;
}
