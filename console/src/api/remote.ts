/** A command that runs beside an object, over a WebSocket (v5.channel.k8s.io): each message begins with its channel. */
import type { Query, Session } from "./http";

const PROTOCOL = "v5.channel.k8s.io";

const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const OUTCOME = 3;
const RESIZE = 4;
const CLOSE = 255;

export interface RemoteEvents {
  onOutput: (bytes: Uint8Array) => void;
  /** The command has ended: what is wrong, or "" if nothing is. */
  onEnd: (problem: string) => void;
}

export class RemoteCommand {
  private readonly socket: WebSocket;
  private ended = false;
  private opened = false;

  constructor(session: Session, path: string, query: Query, private readonly events: RemoteEvents, commands: string[]) {
    const words = commands.map((word) => `command=${encodeURIComponent(word)}`).join("&");
    this.socket = session.socket(path, query, PROTOCOL, words);
    this.socket.onmessage = (event: MessageEvent<ArrayBuffer>) => this.take(new Uint8Array(event.data));
    this.socket.onopen = () => {
      this.opened = true;
    };
    this.socket.onclose = (event) => void this.closed(event, () => whyNot(session, path, words));
  }

  /** A browser doesn't say why a connection was refused: the same is asked without one. */
  private async closed(event: CloseEvent, ask: () => Promise<string>): Promise<void> {
    const refused = !this.opened && !this.ended ? await ask() : "";
    this.end(event.wasClean && event.code === 1000 ? "" : refused || closedText(event));
  }

  private take(message: Uint8Array): void {
    const [channel] = message;
    const rest = message.subarray(1);
    if (channel === STDOUT || channel === STDERR) this.events.onOutput(rest);
    else if (channel === OUTCOME) this.end(outcomeOf(new TextDecoder().decode(rest)));
  }

  private end(problem: string): void {
    if (this.ended) return;
    this.ended = true;
    this.events.onEnd(problem);
    this.socket.close();
  }

  private send(channel: number, bytes: Uint8Array): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    this.socket.send(message);
  }

  write(text: string): void {
    this.send(STDIN, new TextEncoder().encode(text));
  }

  resize(columns: number, rows: number): void {
    this.send(RESIZE, new TextEncoder().encode(JSON.stringify({ Width: columns, Height: rows })));
  }

  /** Runs once the command can be written to. */
  whenOpen(action: () => void): void {
    this.socket.addEventListener("open", action);
  }

  close(): void {
    this.send(CLOSE, new Uint8Array([STDIN]));
    this.ended = true;
    this.socket.close();
  }
}

async function whyNot(session: Session, path: string, words: string): Promise<string> {
  try {
    const answer = await session.fetch(`${path}?${words}`);
    const status = (await answer.json()) as { message?: string };
    return answer.status === 400 && /upgrade/i.test(status.message ?? "") ? "" : (status.message ?? "");
  } catch {
    return "";
  }
}

/** What the Status at the end says: "" for a success. */
export function outcomeOf(text: string): string {
  try {
    const status = JSON.parse(text) as { status?: string; message?: string };
    return status.status === "Success" ? "" : (status.message ?? "the command failed");
  } catch {
    return text;
  }
}

function closedText(event: CloseEvent): string {
  return event.reason || `the connection is gone (${event.code})`;
}
