/** Two texts side by side in one column: what goes and what comes. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { diffLines, withContext } from "../api/diff";

const SIGNS = { same: " ", added: "+", removed: "−", gap: "⋯" };

export function Diff({ before, after, label }: { before: string; after: string; label: string }): JSX.Element {
  const lines = useMemo(() => withContext(diffLines(before, after)), [before, after]);
  if (lines.every((line) => line.kind === "gap" || line.kind === "same")) {
    return <p class="hint unchanged">Nothing changes.</p>;
  }
  return (
    <div class="diff" role="figure" aria-label={label} tabIndex={0}>
      {lines.map((line, index) => (
        <div class={line.kind} key={index}>
          <span aria-hidden="true">{SIGNS[line.kind]}</span>
          {line.kind === "added" ? <ins>{line.text}</ins> : line.kind === "removed" ? <del>{line.text}</del> : null}
          {line.kind === "same" && <span>{line.text}</span>}
          {line.kind === "gap" && <span>{line.count} equal lines</span>}
        </div>
      ))}
    </div>
  );
}
