/** Requests to the API server that serves the console, with the credentials of the person who is logged in. */

/** A Kubernetes Status, as far as the console reads it. */
export interface Status {
  kind?: string;
  message?: string;
  reason?: string;
  code?: number;
  details?: { name?: string; kind?: string; causes?: { reason?: string; message?: string; field?: string }[] };
}

/** An answer that isn't a success. */
export class ApiError extends Error {
  constructor(
    readonly code: number,
    readonly status: Status,
    text: string,
  ) {
    super(text);
  }
}

/** Where the API's paths begin: one folder above the page, whatever prefix stands before both. */
export function rootOf(page: string): string {
  const url = new URL(page);
  return url.origin + url.pathname.replace(/console\/[^/]*$/, "");
}

export type Query = Record<string, string | number | boolean | undefined>;

export interface Asking {
  method?: string;
  query?: Query;
  body?: unknown;
  contentType?: string;
  accept?: string;
  signal?: AbortSignal;
}

/** Who asks: the token is kept here, in the memory of the page, and nowhere else. */
export class Session {
  token = "";
  /** Called when the server no longer accepts the credentials. */
  onUnauthorized: (() => void) | undefined;

  constructor(readonly root: string) {}

  url(path: string, query: Query = {}): string {
    const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
    const text = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
    return this.root + path.replace(/^\//, "") + (text && `?${text}`);
  }

  /** The answer, whatever its status. */
  async fetch(path: string, asking: Asking = {}): Promise<Response> {
    const headers: Record<string, string> = { Accept: asking.accept ?? "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    let body: string | undefined;
    if (asking.body !== undefined) {
      headers["Content-Type"] = asking.contentType ?? "application/json";
      body = typeof asking.body === "string" ? asking.body : JSON.stringify(asking.body);
    }
    return await fetch(this.url(path, asking.query), {
      method: asking.method ?? "GET",
      headers,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      ...(body === undefined ? {} : { body }),
      ...(asking.signal ? { signal: asking.signal } : {}),
    });
  }

  /** A successful answer. Throws ApiError. */
  async ask(path: string, asking: Asking = {}): Promise<Response> {
    const answer = await this.fetch(path, asking);
    if (answer.ok) return answer;
    const error = await errorOf(answer);
    if (error.code === 401) this.onUnauthorized?.();
    throw error;
  }

  async json<T>(path: string, asking: Asking = {}): Promise<T> {
    return (await (await this.ask(path, asking)).json()) as T;
  }

  async text(path: string, asking: Asking = {}): Promise<string> {
    return await (await this.ask(path, { accept: "*/*", ...asking })).text();
  }

  /** An open WebSocket; the token travels as a subprotocol, as browsers can't set headers. */
  socket(path: string, query: Query, protocol: string, more = ""): WebSocket {
    const protocols = [protocol];
    if (this.token) protocols.push(`base64url.bearer.authorization.k8s.io.${base64url(this.token)}`);
    const url = this.url(path, query).replace(/^http/, "ws");
    const socket = new WebSocket(more ? `${url}${url.includes("?") ? "&" : "?"}${more}` : url, protocols);
    socket.binaryType = "arraybuffer";
    return socket;
  }
}

export function base64url(text: string): string {
  return base64urlOf(new TextEncoder().encode(text));
}

export function base64urlOf(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function errorOf(answer: Response): Promise<ApiError> {
  const text = await answer.text();
  let status: Status = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null) status = parsed;
  } catch {
    // an answer in plain text: of a filter, or of something between
  }
  return new ApiError(answer.status, status, status.message ?? (text.trim() || `${answer.status} ${answer.statusText}`));
}

/** What to say of anything that was thrown. */
export function messageOf(error: unknown): string {
  if (error instanceof TypeError) return `the server doesn't answer (${error.message})`;
  return error instanceof Error ? error.message : String(error);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** The lines of a streamed answer, as they come. */
export async function* linesOf(answer: Response): AsyncGenerator<string> {
  if (!answer.body) return;
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
    if (rest) yield rest;
  } finally {
    reader.releaseLock();
  }
}
