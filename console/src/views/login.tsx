/** Who asks: a token that is given here, a client certificate that the browser has, or an issuer that vouches. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { messageOf } from "../api/http";
import type { Settings } from "../ui/app";

export function Login({
  settings,
  problem,
  onToken,
  onIssuer,
  onWithout,
}: {
  settings: Settings;
  problem: string;
  onToken: (token: string) => Promise<void>;
  onIssuer: () => Promise<void>;
  onWithout: (() => Promise<void>) | undefined;
}): JSX.Element {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(problem);
  const run = async (action: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      await action();
    } catch (caught) {
      setError(messageOf(caught));
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form
        class="card"
        autocomplete="off"
        onSubmit={(event) => {
          event.preventDefault();
          void run(() => onToken(token.trim()));
        }}
      >
        <h1>
          <Mark /> {settings.name}
        </h1>
        <p class="lead">Log in to see and change what this API server has.</p>
        {error && (
          <div class="problem" role="alert">
            <span>{error}</span>
          </div>
        )}
        {settings.oidc && (
          <button type="button" class="primary" disabled={busy} onClick={() => void run(onIssuer)}>
            Log in with {new URL(settings.oidc.issuer).host}
          </button>
        )}
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          value={token}
          spellcheck={false}
          autocomplete="off"
          placeholder="a bearer token"
          autofocus
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit" class={settings.oidc ? "" : "primary"} disabled={busy || !token.trim()}>
          {busy ? "Logging in…" : "Log in"}
        </button>
        {onWithout && (
          <button type="button" class="quiet" disabled={busy} onClick={() => void run(onWithout)}>
            Look around without credentials
          </button>
        )}
        <p class="hint">
          The token stays in this page's memory: it is gone when the page is closed or loaded again. A client
          certificate that the browser has for this server is used without a login.
        </p>
      </form>
    </main>
  );
}

export function Mark(): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M9 7v6a7 7 0 0 0 14 0V7M16 20v6" />
      <circle cx="16" cy="11.5" r="2.6" />
    </svg>
  );
}
