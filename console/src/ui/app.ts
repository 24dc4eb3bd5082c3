/** What all views share: the session, what is served, who is logged in. */
import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Session } from "../api/http";
import { Catalog } from "../api/kinds";
import { type Place, parsePlace } from "../api/route";

export interface Settings {
  name: string;
  oidc: { issuer: string; clientID: string; scopes: string[] } | null;
}

export interface User {
  username: string;
  groups: string[];
  uid: string;
  extra: Record<string, string[]>;
}

export interface App {
  session: Session;
  settings: Settings;
  catalog: Catalog;
  /** Undefined where the server doesn't say (it has no SelfSubjectReview). */
  user: User | undefined;
  namespaces: string[];
  /** Why namespaces can't be listed. */
  namespacesRefused: string;
  say: (text: string, kind?: "done" | "failed") => void;
  logOut: () => void;
  rediscover: () => void;
}

export const AppContext = createContext<App | undefined>(undefined);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("this is shown to those who are logged in");
  return app;
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => parsePlace(location.hash));
  // An effect would begin after the page is painted, and the address may change between the two.
  useLayoutEffect(() => {
    const changed = (): void => setPlace(parsePlace(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return place;
}

export function go(place: string): void {
  location.hash = place;
}

/** Changes the address without a further step in the browser's history. */
export function goQuietly(place: string): void {
  if (place === location.hash) return;
  history.replaceState(null, "", place);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The time, anew every few seconds, for ages. */
export function useNow(everyMs = 10_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export interface Loaded<T> {
  value: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
}

/** What `load` brings, again whenever one of `inputs` is another. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ value: T | undefined; error: unknown; loading: boolean }>({
    value: undefined,
    error: undefined,
    loading: true,
  });
  const [count, setCount] = useState(0);
  useEffect(() => {
    const stopping = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    load(stopping.signal).then(
      (value) => {
        if (!stopping.signal.aborted) setState({ value, error: undefined, loading: false });
      },
      (error: unknown) => {
        if (!stopping.signal.aborted) setState({ value: undefined, error, loading: false });
      },
    );
    return () => stopping.abort();
  }, [...inputs, count]);
  return { ...state, reload: () => setCount((before) => before + 1) };
}
