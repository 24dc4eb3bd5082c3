/** The whole console: the login, or the shell around the page that the address names. */
import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, messageOf, rootOf, Session } from "../api/http";
import { Catalog, discover, type Group } from "../api/kinds";
import { type App, AppContext, type Settings, type User } from "../ui/app";
import { Busy, Problem } from "../ui/parts";
import { Login } from "./login";
import { Shell } from "./shell";

type Stage = "starting" | "login" | "in" | "broken";

const ANONYMOUS = "system:anonymous";

export function Root(): JSX.Element {
  const session = useMemo(() => new Session(rootOf(location.href)), []);
  const [stage, setStage] = useState<Stage>("starting");
  const [settings, setSettings] = useState<Settings>({ name: "oarlock", oidc: null });
  const [problem, setProblem] = useState<unknown>("");
  const [user, setUser] = useState<User>();
  const [groups, setGroups] = useState<Group[]>([]);
  const [anonymous, setAnonymous] = useState(false);
  const [namespaces, setNamespaces] = useState<string[]>([]);
  const [namespacesRefused, setNamespacesRefused] = useState("");
  const [said, setSaid] = useState<{ text: string; kind: "done" | "failed" }>();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  const say = useCallback((text: string, kind: "done" | "failed" = "done") => {
    clearTimeout(timer.current);
    setSaid({ text, kind });
    timer.current = setTimeout(() => setSaid(undefined), kind === "failed" ? 10_000 : 4000);
  }, []);

  const logOut = useCallback(() => {
    session.token = "";
    session.onUnauthorized = undefined;
    setUser(undefined);
    setGroups([]);
    setNamespaces([]);
    setProblem("");
    setStage("login");
  }, [session]);

  const enter = useCallback(async (): Promise<void> => {
    const found = await discover(session);
    setUser(await whoAmI(session));
    setGroups(found);
    const listed = await listNamespaces(session, new Catalog(found));
    setNamespaces(listed.names);
    setNamespacesRefused(listed.refused);
    setStage("in");
    session.onUnauthorized = () => {
      logOut();
      setProblem("The server no longer accepts the credentials: log in again.");
    };
  }, [session, logOut]);

  useEffect(() => {
    void (async () => {
      try {
        const found = await session.json<Settings>("console/settings.json");
        setSettings(found);
        document.title = `${found.name} console`;
        const { completeLogin } = await import("../api/oidc");
        const token = await completeLogin(found);
        if (token) {
          session.token = token;
          await enter();
          return;
        }
        // A certificate that the browser has is somebody. Where nobody says who it is, discovery shows whether one is let in.
        const me = await whoAmI(session);
        setAnonymous(me?.username === ANONYMOUS);
        if (me?.username !== ANONYMOUS) await enter();
        else setStage("login");
      } catch (error) {
        session.token = "";
        const asked = error instanceof ApiError && (error.code === 401 || error.code === 403);
        setProblem(asked ? "" : messageOf(error));
        setStage("login");
      }
    })();
  }, [session, enter, logOut]);

  const app: App = useMemo(
    () => ({
      session,
      settings,
      catalog: new Catalog(groups),
      user,
      namespaces,
      namespacesRefused,
      say,
      logOut,
      rediscover: () => {
        enter().catch((error: unknown) => say(messageOf(error), "failed"));
      },
    }),
    [session, settings, groups, user, namespaces, namespacesRefused, say, logOut, enter],
  );

  if (stage === "starting") return <Busy what="Asking the server…" />;
  if (stage === "broken") return <Problem error={problem} />;
  if (stage === "login") {
    return (
      <Login
        key={messageOf(problem)}
        settings={settings}
        problem={problem ? messageOf(problem) : ""}
        onToken={async (token) => {
          session.token = token;
          try {
            await enter();
          } catch (error) {
            session.token = "";
            if (error instanceof ApiError && error.code === 401) throw new Error("The server doesn't accept this token.");
            throw error;
          }
        }}
        onIssuer={async () => {
          const { beginLogin } = await import("../api/oidc");
          await beginLogin(settings);
        }}
        onWithout={anonymous ? enter : undefined}
      />
    );
  }
  return (
    <AppContext.Provider value={app}>
      <Shell />
      <div class="said" role="status" aria-live="polite">
        {said && <div class={`toast ${said.kind}`}>{said.text}</div>}
      </div>
    </AppContext.Provider>
  );
}

interface Review {
  status?: { userInfo?: { username?: string; groups?: string[]; uid?: string; extra?: Record<string, string[]> } };
}

/** Who the server says this is; undefined where it has no such review, or doesn't let one ask. */
async function whoAmI(session: Session): Promise<User | undefined> {
  try {
    const review = await session.json<Review>("apis/authentication.k8s.io/v1/selfsubjectreviews", {
      method: "POST",
      body: { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" },
    });
    const info = review.status?.userInfo;
    if (!info?.username) return undefined;
    return { username: info.username, groups: info.groups ?? [], uid: info.uid ?? "", extra: info.extra ?? {} };
  } catch (error) {
    if (error instanceof ApiError && error.code !== 401) return undefined;
    throw error;
  }
}

async function listNamespaces(session: Session, catalog: Catalog): Promise<{ names: string[]; refused: string }> {
  if (!catalog.namespaces) return { names: [], refused: "" };
  try {
    const list = await session.json<{ items?: { metadata: { name: string } }[] }>("api/v1/namespaces", {
      accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
    });
    return { names: (list.items ?? []).map((item) => item.metadata.name), refused: "" };
  } catch (error) {
    if (error instanceof ApiError && error.code === 403) return { names: [], refused: error.message };
    throw error;
  }
}
