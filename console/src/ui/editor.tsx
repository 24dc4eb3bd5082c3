/**
 * An editor for YAML, with what a field is shown where the pointer or the cursor rests.
 *
 * It is in a shadow root, as CodeMirror then adds its styles by script and needs no inline style, which the page's policy
 * refuses.
 */
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import {
  bracketMatching,
  codeFolding,
  foldGutter,
  foldKeymap,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, RangeSetBuilder, StateEffect, StateField, type Extension } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  hoverTooltip,
  keymap,
  lineNumbers,
  type Tooltip,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

export type { Diagnostic };

/** A stretch of lines that belongs to a manager, by its number. */
export interface Mark {
  from: number;
  to: number;
  colour: number;
}

export const COLOURS = 8;

/** What to say of a place in the text: a title, and lines below. */
export interface Hint {
  from: number;
  to: number;
  title: string;
  detail: string;
  text: string;
}

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--syntax-key)" },
  { tag: [tags.string, tags.special(tags.string), tags.content], color: "var(--syntax-text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--syntax-number)" },
  { tag: [tags.comment, tags.meta], color: "var(--syntax-comment)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", backgroundColor: "var(--paper)", color: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--soft)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent)",
  },
  ".cm-foldPlaceholder": { background: "var(--sunken)", border: "1px solid var(--line)", color: "var(--soft)" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    color: "var(--text)",
    border: "1px solid var(--line)",
    borderRadius: "9px",
    boxShadow: "var(--shadow)",
    overflow: "hidden",
  },
  ".cm-hint": { padding: "9px 13px", maxWidth: "460px", font: "13px/1.45 system-ui, 'DejaVu Sans', sans-serif" },
  ".cm-hint strong": { fontFamily: "var(--mono)", display: "block", overflowWrap: "anywhere" },
  ".cm-hint small": { color: "var(--accent)" },
  ".cm-hint p": { margin: "5px 0 0", whiteSpace: "pre-wrap", maxHeight: "220px", overflow: "auto", overflowWrap: "anywhere" },
  ".cm-diagnostic": { padding: "6px 12px", font: "13px/1.45 system-ui, 'DejaVu Sans', sans-serif", maxWidth: "520px" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--text)" },
  ".cm-textfield, .cm-button": {
    backgroundColor: "var(--paper)",
    backgroundImage: "none",
    color: "var(--text)",
    border: "1px solid var(--line)",
  },
  ...Object.fromEntries(
    Array.from({ length: COLOURS }, (_, number) => [
      `.cm-manager-${number}`,
      { boxShadow: `inset 4px 0 0 var(--manager-${number})`, backgroundColor: `color-mix(in srgb, var(--manager-${number}) 9%, transparent)` },
    ]),
  ),
});

const setMarks = StateEffect.define<Mark[]>();

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(shown, transaction) {
    let after = shown.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(setMarks)) after = decorated(transaction.state, effect.value);
    }
    return after;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function decorated(state: EditorState, given: Mark[]): DecorationSet {
  const byLine = new Map<number, number>();
  for (const mark of given) {
    const last = state.doc.lineAt(Math.min(mark.to, state.doc.length)).number;
    for (let line = state.doc.lineAt(Math.min(mark.from, state.doc.length)).number; line <= last; line += 1) {
      byLine.set(line, mark.colour);
    }
  }
  const builder = new RangeSetBuilder<Decoration>();
  for (const [line, colour] of [...byLine].sort(([a], [b]) => a - b)) {
    const { from } = state.doc.line(line);
    builder.add(from, from, Decoration.line({ class: `cm-manager-${colour % COLOURS}` }));
  }
  return builder.finish();
}

function hintTooltip(find: (position: number) => Hint | undefined): Extension {
  return hoverTooltip(
    (_view, position): Tooltip | null => {
      const hint = find(position);
      if (!hint) return null;
      return { pos: hint.from, end: hint.to, above: true, create: () => ({ dom: hintElement(hint) }) };
    },
    { hoverTime: 250 },
  );
}

/** Text nodes only: descriptions come from schemas that anybody may have written. */
function hintElement(hint: Hint): HTMLElement {
  const element = document.createElement("div");
  element.className = "cm-hint";
  for (const [tag, text] of [
    ["strong", hint.title],
    ["small", hint.detail],
    ["p", hint.text],
  ] as const) {
    if (!text) continue;
    const part = document.createElement(tag);
    part.textContent = text;
    element.append(part);
  }
  return element;
}

export interface EditorProps {
  label: string;
  value: string;
  readOnly?: boolean;
  marks?: Mark[];
  diagnostics?: Diagnostic[];
  hint?: (position: number) => Hint | undefined;
  onChange?: (text: string) => void;
  onSave?: () => void;
}

export default function Editor(props: EditorProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const host = place.current;
    if (!host) return;
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const editor = new EditorView({ root, parent: root, state: stateOf(latest) });
    view.current = editor;
    return () => {
      editor.destroy();
      view.current = undefined;
    };
  }, []);
  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === props.value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: props.value } });
  }, [props.value]);
  useEffect(() => {
    const editor = view.current;
    editor?.dispatch({ effects: setMarks.of(props.marks ?? []) });
  }, [props.marks, props.value]);
  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const length = editor.state.doc.length;
    const shown = (props.diagnostics ?? []).map((one) => ({
      ...one,
      from: Math.min(one.from, length),
      to: Math.min(one.to, length),
    }));
    editor.dispatch(setDiagnostics(editor.state, shown));
  }, [props.diagnostics]);
  return <div class="editor" ref={place} data-readonly={props.readOnly ? "true" : "false"} />;
}

function stateOf(latest: { current: EditorProps }): EditorState {
  const { readOnly = false, value, label } = latest.current;
  const save = {
    key: "Mod-s",
    run: () => {
      latest.current.onSave?.();
      return true;
    },
  };
  return EditorState.create({
    doc: value,
    extensions: [
      lineNumbers(),
      foldGutter(),
      codeFolding(),
      drawSelection(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      bracketMatching(),
      indentOnInput(),
      indentUnit.of("  "),
      history(),
      search({ top: true }),
      yaml(),
      syntaxHighlighting(colours),
      theme,
      marks,
      hintTooltip((position) => latest.current.hint?.(position)),
      new Compartment().of([EditorState.readOnly.of(readOnly), readOnly ? [] : lintGutter()]),
      EditorView.contentAttributes.of({ "aria-label": label }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) latest.current.onChange?.(update.state.doc.toString());
      }),
      // Tab leaves a text that is only read.
      keymap.of([save, ...(readOnly ? [] : [indentWithTab]), ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap]),
    ],
  });
}
