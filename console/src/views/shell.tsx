/** What stands around every page: the bar with namespace and search, the kinds at the side. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Group, type Kind } from "../api/kinds";
import { given, listPlace, placeText, type Place } from "../api/route";
import { go, useApp, usePlace } from "../ui/app";
import { Dialog, Later } from "../ui/parts";
import { Home } from "./home";
import { ListView } from "./list";
import { Mark } from "./login";
import { Palette } from "./palette";

export const EVERYWHERE = "";

export function Shell(): JSX.Element {
  const app = useApp();
  const place = usePlace();
  const [searching, setSearching] = useState(false);
  const [helping, setHelping] = useState(false);
  const [open, setOpen] = useState(false);
  const namespace = place.options.ns ?? EVERYWHERE;
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const typing = event.target instanceof Element && event.target.closest("input,textarea,select,[contenteditable]");
      const inEditor = event.composedPath().some((one) => one instanceof Element && one.classList.contains("cm-editor"));
      if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === ":" && !typing && !inEditor)) {
        event.preventDefault();
        setSearching(true);
      } else if (event.key === "?" && !typing && !inEditor && !document.querySelector("dialog[open]")) {
        setHelping(true);
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  useEffect(() => setOpen(false), [place]);
  return (
    <div class={`shell ${open ? "open" : ""}`}>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.querySelector<HTMLElement>("main")?.focus();
      }}>
        Skip to the content
      </a>
      <header class="bar">
        <button type="button" class="quiet menu" aria-label="Kinds" aria-expanded={open} onClick={() => setOpen(!open)}>
          ☰
        </button>
        <a class="home" href={placeText([], { ns: namespace })}>
          <Mark /> <span>{app.settings.name}</span>
        </a>
        <NamespacePicker place={place} namespace={namespace} />
        <button type="button" class="search" onClick={() => setSearching(true)}>
          <span>Go to a kind…</span> <kbd>Ctrl K</kbd>
        </button>
        <nav class="pages" aria-label="The server">
          <a href={placeText(["health"], { ns: namespace })} aria-current={place.parts[0] === "health" ? "page" : undefined}>
            Health
          </a>
          <a href={placeText(["me"], { ns: namespace })} aria-current={place.parts[0] === "me" ? "page" : undefined}>
            {app.user?.username ?? "Access"}
          </a>
          {app.session.token && (
            <button type="button" class="quiet" onClick={app.logOut}>
              Log out
            </button>
          )}
        </nav>
      </header>
      <Kinds place={place} namespace={namespace} />
      <main id="main" tabIndex={-1}>
        <Page place={place} namespace={namespace} />
      </main>
      {searching && <Palette namespace={namespace} onClose={() => setSearching(false)} />}
      {helping && <Keys onClose={() => setHelping(false)} />}
    </div>
  );
}

function Page({ place, namespace }: { place: Place; namespace: string }): JSX.Element {
  const { catalog } = useApp();
  const [page, ...parts] = place.parts;
  if (!page) return <Home namespace={namespace} />;
  if (page === "me") return <Later key="me" load={() => import("./me")}>{({ Me }) => <Me namespace={namespace} />}</Later>;
  if (page === "health") return <Later key="health" load={() => import("./health")}>{({ Health }) => <Health />}</Later>;
  const kind = catalog.find(given(parts[0]), parts[1] ?? "", parts[2] ?? "");
  if (page === "list" && kind) {
    const inside = kind.namespaced ? namespace : "";
    return <ListView key={`${listPlace(kind)} ${inside}`} kind={kind} namespace={inside} options={place.options} />;
  }
  if (page === "object" && kind) {
    const name = parts[4] ?? "";
    return (
      <Later key={location.hash.split("?")[0]} load={() => import("./object")}>
        {({ ObjectView }) => <ObjectView kind={kind} namespace={given(parts[3])} name={name} options={place.options} />}
      </Later>
    );
  }
  if (page === "create" && kind) {
    return (
      <Later key={location.hash} load={() => import("./edit")}>
        {({ Create }) => <Create kind={kind} namespace={namespace} />}
      </Later>
    );
  }
  return <Lost what={location.hash} />;
}

function Lost({ what }: { what: string }): JSX.Element {
  return (
    <section class="page">
      <h1>There is nothing here</h1>
      <p>
        The server doesn't serve <code>{what}</code>, or not to you.
      </p>
    </section>
  );
}

function NamespacePicker({ place, namespace }: { place: Place; namespace: string }): JSX.Element | null {
  const { catalog, namespaces, namespacesRefused } = useApp();
  if (!catalog.kinds.some((kind) => kind.namespaced)) return null;
  const change = (value: string): void => {
    const parts = place.parts[0] === "object" ? ["list", ...place.parts.slice(1, 4)] : place.parts;
    go(placeText(parts, { ...place.options, ns: value, tab: undefined }));
  };
  // Without the right to list them, a namespace is typed.
  if (!namespaces.length) {
    return (
      <label class="namespace" title={namespacesRefused || "Namespace; empty for all"}>
        <span>Namespace</span>
        <input
          value={namespace}
          placeholder="all"
          spellcheck={false}
          onChange={(event) => change(event.currentTarget.value.trim())}
        />
      </label>
    );
  }
  return (
    <label class="namespace">
      <span>Namespace</span>
      <select value={namespace} onChange={(event) => change(event.currentTarget.value)}>
        <option value="">all</option>
        {[...new Set([...namespaces, ...(namespace ? [namespace] : [])])].map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Kinds({ place, namespace }: { place: Place; namespace: string }): JSX.Element {
  const { catalog } = useApp();
  const [text, setText] = useState("");
  const preferred = useMemo(() => new Set(catalog.preferred()), [catalog]);
  const current = place.parts.slice(1, 4);
  const wanted = (kind: Kind): boolean =>
    kind.verbs.includes("list") &&
    (preferred.has(kind) || isCurrent(kind, current)) &&
    [kind.resource, kind.kind, kind.group, ...kind.shortNames].some((one) => one.toLowerCase().includes(text.toLowerCase()));
  const shown = catalog.groups
    .map((group) => ({ group, kinds: group.kinds.filter(wanted) }))
    .filter(({ group, kinds }) => kinds.length || (!text && group.stale.length));
  return (
    <aside class="kinds" aria-label="Kinds">
      <input
        type="search"
        placeholder="Filter kinds"
        aria-label="Filter kinds"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {shown.map(({ group, kinds }) => (
        <KindGroup key={group.name} group={group} kinds={kinds} current={current} namespace={namespace} />
      ))}
      {!shown.length && <p class="hint">No kind is called so.</p>}
    </aside>
  );
}

function isCurrent(kind: Kind, current: string[]): boolean {
  return kind.group === given(current[0]) && kind.version === current[1] && kind.resource === current[2];
}

function KindGroup({ group, kinds, current, namespace }: {
  group: Group;
  kinds: Kind[];
  current: string[];
  namespace: string;
}): JSX.Element {
  return (
    <details open>
      <summary>{group.name || "core"}</summary>
      {group.stale.length > 0 && <p class="stale">{group.stale.join(", ")} isn't available at the moment</p>}
      <ul>
        {kinds.map((kind) => (
          <li key={`${kind.version}/${kind.resource}`}>
            <a
              href={listPlace(kind, { ns: namespace })}
              aria-current={isCurrent(kind, current) ? "page" : undefined}
              title={`${kind.resource}.${kind.version}${kind.group && `.${kind.group}`}`}
            >
              {kind.kind}
              {group.versions[0] !== kind.version && <small>{kind.version}</small>}
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}

const KEYS: [string, string][] = [
  ["Ctrl K or :", "go to a kind"],
  ["/", "filter the list"],
  ["j, k, ↓, ↑", "the next or previous row"],
  ["Home, End, Page Up, Page Down", "further steps"],
  ["Enter", "open the object"],
  ["Space", "select the row"],
  ["n", "create an object"],
  ["Escape", "back, or close"],
  ["?", "these keys"],
];

function Keys({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

