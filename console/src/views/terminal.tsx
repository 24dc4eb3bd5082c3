/** A terminal of a command beside an object. */
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as XTerm } from "@xterm/xterm";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Kind, type KubeObject, pathOf } from "../api/kinds";
import { RemoteCommand } from "../api/remote";
import { useApp } from "../ui/app";
import { containersOf } from "./logs";

export function TerminalView({ kind, object, below }: { kind: Kind; object: KubeObject; below: string }): JSX.Element {
  const containers = containersOf(object);
  const [container, setContainer] = useState(containers[0] ?? "");
  const [command, setCommand] = useState("sh");
  const [running, setRunning] = useState<{ container: string; command: string; count: number }>();
  const [state, setState] = useState("");
  return (
    <div class="terminal">
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          setState("connecting");
          setRunning({ container, command, count: (running?.count ?? 0) + 1 });
        }}
      >
        {containers.length > 0 && (
          <select aria-label="Container" value={container} onChange={(event) => setContainer(event.currentTarget.value)}>
            {containers.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
        <input
          aria-label="Command"
          class="command"
          value={command}
          spellcheck={false}
          onInput={(event) => setCommand(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={!command.trim()}>
          {running ? "Run again" : "Run"}
        </button>
        <span class="hint" role="status">
          {state}
        </span>
      </form>
      {running && (
        <Screen
          key={running.count}
          path={pathOf(kind, object.metadata.namespace, object.metadata.name, below)}
          container={running.container}
          words={wordsOf(running.command)}
          onState={setState}
        />
      )}
    </div>
  );
}

/** The words of a command: quotes keep spaces. */
export function wordsOf(command: string): string[] {
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((found) => found[1] ?? found[2] ?? found[3] ?? "");
}

function Screen({ path, container, words, onState }: {
  path: string;
  container: string;
  words: string[];
  onState: (state: string) => void;
}): JSX.Element {
  const { session } = useApp();
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const styles = getComputedStyle(document.documentElement);
    const colour = (name: string): string => styles.getPropertyValue(name).trim();
    const terminal = new XTerm({
      fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
      fontSize: 13,
      cursorBlink: true,
      screenReaderMode: true,
      theme: { background: colour("--screen"), foreground: colour("--screen-text"), cursor: colour("--screen-text") },
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    openIn(terminal, element);
    fit.fit();
    terminal.focus();
    const query = { container, stdin: true, stdout: true, tty: true };
    const remote = new RemoteCommand(
      session,
      path,
      query,
      {
        onOutput: (bytes) => terminal.write(bytes),
        onEnd: (problem) => {
          onState(problem ? `ended: ${problem}` : "ended");
          terminal.options.disableStdin = true;
        },
      },
      words,
    );
    remote.whenOpen(() => {
      onState("connected");
      remote.resize(terminal.cols, terminal.rows);
    });
    terminal.onData((text) => remote.write(text));
    terminal.onResize(({ cols, rows }) => remote.resize(cols, rows));
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(element);
    return () => {
      observer.disconnect();
      remote.close();
      terminal.dispose();
    };
  }, []);
  return <div class="screen" ref={place} />;
}

const createElement = (tag: string): HTMLElement => Document.prototype.createElement.call(document, tag);

/**
 * Opens the terminal without inline styles, which the page's policy refuses: its style elements are constructed style
 * sheets instead.
 */
function openIn(terminal: XTerm, place: HTMLElement): void {
  const make = (tag: string): HTMLElement => (tag === "style" ? sheetElement() : createElement(tag));
  document.createElement = make;
  try {
    terminal.open(place);
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}

/** Colours of single letters are set as style attributes: property by property the policy lets them in. */
HTMLSpanElement.prototype.setAttribute = function setAttribute(this: HTMLSpanElement, name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

function sheetElement(): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = createElement("span");
  element.hidden = true;
  Object.defineProperty(element, "textContent", { set: (css: string) => sheet.replaceSync(css), get: () => "" });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    remove();
  };
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  return element;
}
