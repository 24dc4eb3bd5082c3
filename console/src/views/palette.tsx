/** Going to a kind by a few letters of its name. */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Kind } from "../api/kinds";
import { listPlace } from "../api/route";
import { go, useApp } from "../ui/app";
import { Dialog } from "../ui/parts";

const SHOWN = 12;

export function Palette({ namespace, onClose }: { namespace: string; onClose: () => void }): JSX.Element {
  const { catalog } = useApp();
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const found = useMemo(() => {
    const kinds = catalog.preferred().filter((kind) => kind.verbs.includes("list"));
    return best(kinds, text).slice(0, SHOWN);
  }, [catalog, text]);
  const open = (kind: Kind | undefined): void => {
    if (!kind) return;
    go(listPlace(kind, { ns: namespace }));
    onClose();
  };
  return (
    <Dialog title="Go to a kind" onClose={onClose}>
      <input
        type="search"
        autofocus
        aria-label="Kind"
        aria-controls="palette"
        aria-activedescendant={found[chosen] ? `palette-${chosen}` : undefined}
        placeholder="deploy, po, flunders…"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setChosen(Math.min(chosen + 1, found.length - 1));
          else if (event.key === "ArrowUp") setChosen(Math.max(chosen - 1, 0));
          else if (event.key === "Enter") open(found[chosen]);
          else return;
          event.preventDefault();
        }}
      />
      <ul class="palette" id="palette" role="listbox">
        {found.map((kind, index) => (
          <li
            key={`${kind.group}/${kind.resource}`}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === chosen}
            onClick={() => open(kind)}
          >
            <span>{kind.kind}</span>
            <small>
              {kind.shortNames.join(", ")} {kind.group || "core"}/{kind.version}
            </small>
          </li>
        ))}
      </ul>
      {!found.length && <p class="hint">No kind is called so.</p>}
    </Dialog>
  );
}

/** Kinds by how well a name fits: a short name, the beginning of a name, or any part. */
export function best(kinds: Kind[], text: string): Kind[] {
  const wanted = text.trim().toLowerCase();
  const score = (kind: Kind): number => {
    const names = [kind.resource, kind.kind.toLowerCase(), kind.singular];
    if (!wanted) return 3;
    if (kind.shortNames.includes(wanted) || names.includes(wanted)) return 0;
    if (names.some((name) => name.startsWith(wanted))) return 1;
    if (names.some((name) => name.includes(wanted)) || kind.group.includes(wanted)) return 2;
    return 9;
  };
  return kinds.filter((kind) => score(kind) < 9).sort((a, b) => score(a) - score(b));
}
