/** The address of what is shown, in the part of the URL after `#`, which never reaches a server. */

export interface Place {
  /** What kind of page, and the parts that say which. */
  parts: string[];
  options: Record<string, string>;
}

export function parsePlace(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return {
    parts: path.split("/").filter(Boolean).map(safelyDecoded),
    options: Object.fromEntries(new URLSearchParams(query)),
  };
}

function safelyDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function placeText(parts: string[], options: Record<string, string | undefined> = {}): string {
  const pairs = Object.entries(options).filter((pair): pair is [string, string] => Boolean(pair[1]));
  const query = new URLSearchParams(pairs).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${query && `?${query}`}`;
}

interface Named {
  group: string;
  version: string;
  resource: string;
}

/** The core group has no name, and a cluster's objects no namespace; a path can't have empty parts. */
const NONE = "_";

export function listPlace(kind: Named, options: Record<string, string | undefined> = {}): string {
  return placeText(["list", kind.group || NONE, kind.version, kind.resource], options);
}

export function objectPlace(
  kind: Named,
  namespace: string | undefined,
  name: string,
  options: Record<string, string | undefined> = {},
): string {
  const parts = ["object", kind.group || NONE, kind.version, kind.resource, namespace ? namespace : NONE, name];
  return placeText(parts, options);
}

export function createPlace(kind: Named, namespace: string): string {
  return placeText(["create", kind.group || NONE, kind.version, kind.resource], { ns: namespace });
}

export function given(part: string | undefined): string {
  return part === undefined || part === NONE ? "" : part;
}
