/**
 * Login at an OpenID Connect issuer: authorization code with PKCE (RFC 7636), without a secret.
 *
 * The page is left for the issuer's and loaded again, so the verifier has to outlive it: it waits in this tab's
 * session storage until it is used once. It is worth nothing without the code, and the token that both bring stays in
 * memory.
 */
import { base64urlOf } from "./http";
import type { Settings } from "../ui/app";

interface IssuerDocument {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
}

interface Pending {
  state: string;
  nonce: string;
  verifier: string;
  /** Where the person was. */
  hash: string;
}

const WAITING = "oarlock-login";

/** Where the issuer sends the browser back to: this page, without anything after it. */
export function returnAddress(page: string): string {
  const url = new URL(page);
  return url.origin + url.pathname;
}

export async function beginLogin(settings: Settings): Promise<void> {
  if (!settings.oidc) throw new Error("this server has no issuer");
  const about = await documentOf(settings.oidc.issuer);
  const pending = { state: random(), nonce: random(), verifier: random(), hash: location.hash };
  keep(pending);
  location.assign(await authorizationAddress(about, settings.oidc, pending, returnAddress(location.href)));
}

export async function authorizationAddress(
  about: { authorization_endpoint: string },
  client: { clientID: string; scopes: string[] },
  pending: Pick<Pending, "state" | "nonce" | "verifier">,
  returnTo: string,
): Promise<string> {
  const url = new URL(about.authorization_endpoint);
  const challenge = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier));
  const asked = {
    response_type: "code",
    client_id: client.clientID,
    redirect_uri: returnTo,
    scope: client.scopes.join(" "),
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: base64urlOf(new Uint8Array(challenge)),
    code_challenge_method: "S256",
  };
  for (const [key, value] of Object.entries(asked)) url.searchParams.set(key, value);
  return url.href;
}

/** The ID token, if the page was loaded with an issuer's answer; "" otherwise. Throws what the issuer says. */
export async function completeLogin(settings: Settings): Promise<string> {
  const answer = new URLSearchParams(location.search);
  if (!settings.oidc || !(answer.has("code") || answer.has("error"))) return "";
  const pending = taken();
  history.replaceState(null, "", location.pathname + (pending?.hash ?? ""));
  const error = answer.get("error");
  if (error) throw new Error(`the issuer refused the login: ${answer.get("error_description") ?? error}`);
  if (!pending || answer.get("state") !== pending.state) throw new Error("this isn't the login that was begun here");
  const about = await documentOf(settings.oidc.issuer);
  const given = await fetch(about.token_endpoint, {
    method: "POST",
    credentials: "omit",
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code: answer.get("code") ?? "",
      redirect_uri: returnAddress(location.href),
      client_id: settings.oidc.clientID,
      code_verifier: pending.verifier,
    }),
  });
  const tokens = (await given.json()) as { id_token?: string; error?: string; error_description?: string };
  if (!given.ok || !tokens.id_token) {
    throw new Error(`the issuer gave no token: ${tokens.error_description ?? tokens.error ?? `${given.status}`}`);
  }
  if (nonceOf(tokens.id_token) !== pending.nonce) throw new Error("the token isn't for the login that was begun here");
  return tokens.id_token;
}

/** The nonce in a token. The server checks its signature; this only says whether it answers our question. */
export function nonceOf(token: string): string | undefined {
  const [, payload = ""] = token.split(".");
  const bytes = Uint8Array.from(atob(payload.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  return (JSON.parse(new TextDecoder().decode(bytes)) as { nonce?: string }).nonce;
}

async function documentOf(issuer: string): Promise<IssuerDocument> {
  const answer = await fetch(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, { credentials: "omit" });
  if (!answer.ok) throw new Error(`the issuer doesn't say how to log in: ${answer.status}`);
  const about = (await answer.json()) as IssuerDocument;
  if (about.issuer !== issuer) throw new Error(`${issuer} says that it is ${about.issuer}`);
  return about;
}

function random(): string {
  return base64urlOf(crypto.getRandomValues(new Uint8Array(32)));
}

/* eslint-disable no-restricted-syntax -- see the module: what waits here is no credential */
function keep(pending: Pending): void {
  sessionStorage.setItem(WAITING, JSON.stringify(pending));
}

function taken(): Pending | undefined {
  const found = sessionStorage.getItem(WAITING);
  sessionStorage.removeItem(WAITING);
  return found === null ? undefined : (JSON.parse(found) as Pending);
}
/* eslint-enable no-restricted-syntax */
