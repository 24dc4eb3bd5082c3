/** Small parts that several views are made of. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, messageOf } from "../api/http";

/** Says what went wrong; that something may not be seen is said as such. */
export function Problem({ error, what }: { error: unknown; what?: string }): JSX.Element | null {
  if (error === undefined || error === null || error === "") return null;
  const forbidden = error instanceof ApiError && error.code === 403;
  return (
    <div class={`problem ${forbidden ? "forbidden" : ""}`} role="alert">
      <strong>{forbidden ? "You may not see this" : (what ?? "That didn't work")}</strong>
      <span>{messageOf(error)}</span>
    </div>
  );
}

export function Busy({ what }: { what: string }): JSX.Element {
  return (
    <div class="busy" role="status">
      <span class="spinner" aria-hidden="true" />
      {what}
    </div>
  );
}

/** A dialog over the page: Escape closes it, and the focus stays inside. */
export function Dialog({
  title,
  onClose,
  children,
  wide = false,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? "wide" : ""}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div class="dialog">
        <header>
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export function Labels({ labels, onPick }: {
  labels: Record<string, string> | undefined;
  onPick?: (label: string) => void;
}): JSX.Element | null {
  const pairs = Object.entries(labels ?? {});
  if (!pairs.length) return null;
  return (
    <span class="labels">
      {pairs.map(([key, value]) => {
        const text = value ? `${key}=${value}` : key;
        return onPick ? (
          <button type="button" class="label" key={key} onClick={() => onPick(text)}>
            {text}
          </button>
        ) : (
          <span class="label" key={key}>
            {text}
          </span>
        );
      })}
    </span>
  );
}

function useImported<T>(load: () => Promise<T>): T | undefined {
  const [loaded, setLoaded] = useState<{ value: T }>();
  useEffect(() => {
    let wanted = true;
    void load().then((value) => {
      if (wanted) setLoaded({ value });
    });
    return () => {
      wanted = false;
    };
  }, []);
  return loaded?.value;
}

/** Shows what is in a file of its own, once that is loaded. */
export function Later<T>({ load, children }: { load: () => Promise<T>; children: (module: T) => ComponentChildren }): JSX.Element {
  const loaded = useImported(load);
  return loaded === undefined ? <Busy what="Loading…" /> : <>{children(loaded)}</>;
}
