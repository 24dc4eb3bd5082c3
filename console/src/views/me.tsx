/** Who one is to the server, what one may do, and who else may. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Holder, isNotServed, mayThey, type Question, type Rule, rulesOf, whoMay } from "../api/access";
import { useApp, useLoaded } from "../ui/app";
import { Busy, Problem } from "../ui/parts";

const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

export function Me({ namespace }: { namespace: string }): JSX.Element {
  const { user } = useApp();
  return (
    <section class="page" aria-label="Access">
      <header class="title">
        <h1>{user?.username ?? "Who you are isn't said by this server"}</h1>
      </header>
      <div class="columns">
        {user && (
          <section class="panel">
            <h2>Who am I</h2>
            <dl class="facts">
              <dt>Groups</dt>
              <dd>{user.groups.join(", ") || "none"}</dd>
              {user.uid && <dt>UID</dt>}
              {user.uid && <dd>{user.uid}</dd>}
              {Object.entries(user.extra).map(([key, values]) => [<dt key={key}>{key}</dt>, <dd key={`${key}=`}>{values.join(", ")}</dd>])}
            </dl>
          </section>
        )}
        <Ask namespace={namespace} />
        <RulesPanel namespace={namespace} />
      </div>
    </section>
  );
}

function RulesPanel({ namespace }: { namespace: string }): JSX.Element {
  const { session } = useApp();
  const place = namespace || "default";
  const rules = useLoaded((signal) => rulesOf(session, place, signal), [session, place]);
  const found = rules.value;
  return (
    <section class="panel wide">
      <h2>What may I do in {place}</h2>
      {isNotServed(rules.error) ? (
        <p class="hint">This server has no SelfSubjectRulesReview.</p>
      ) : (
        <Problem error={rules.error} />
      )}
      {rules.loading && !found && <Busy what="Asking…" />}
      {found && (
        <>
          {found.incomplete && <p class="hint forbidden">This is not all: {found.evaluationError || "some authorizers can't list what they allow"}.</p>}
          <RuleTable rules={found.resourceRules} of={(rule) => resourcesText(rule)} what="Resources" />
          <RuleTable rules={found.nonResourceRules} of={(rule) => rule.nonResourceURLs?.join(", ") ?? ""} what="Paths" />
        </>
      )}
    </section>
  );
}

function resourcesText(rule: Rule): string {
  const groups = rule.apiGroups ?? [];
  const of = groups.length && !(groups.length === 1 && groups[0] === "") ? ` of ${groups.map((one) => one || "core").join(", ")}` : "";
  const named = rule.resourceNames?.length ? ` named ${rule.resourceNames.join(", ")}` : "";
  return `${rule.resources?.join(", ") ?? ""}${of}${named}`;
}

function RuleTable({ rules, of, what }: { rules: Rule[]; of: (rule: Rule) => string; what: string }): JSX.Element | null {
  if (!rules.length) return null;
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>{what}</th>
          <th>Verbs</th>
        </tr>
      </thead>
      <tbody>
        {rules.map((rule, index) => (
          <tr key={index}>
            <td>{of(rule)}</td>
            <td>{rule.verbs.join(", ")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Ask({ namespace }: { namespace: string }): JSX.Element {
  const { session, catalog } = useApp();
  const kinds = catalog.preferred();
  const [verb, setVerb] = useState("get");
  const [chosen, setChosen] = useState(0);
  const [user, setUser] = useState("");
  const [answer, setAnswer] = useState("");
  const [holders, setHolders] = useState<Holder[]>();
  const [error, setError] = useState<unknown>();
  const kind = kinds[chosen];
  const question: Question = {
    verb,
    group: kind?.group ?? "",
    resource: kind?.resource ?? "",
    namespace: kind?.namespaced ? namespace : "",
  };
  const run = async (action: () => Promise<void>): Promise<void> => {
    setError(undefined);
    setAnswer("");
    setHolders(undefined);
    try {
      await action();
    } catch (caught) {
      setError(caught);
    }
  };
  const where = question.namespace ? `in ${question.namespace}` : kind?.namespaced ? "in all namespaces" : "";
  return (
    <section class="panel">
      <h2>Who may</h2>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            const said = await mayThey(session, question, user.trim());
            setAnswer(`${user.trim() || "You"} may${said.allowed ? "" : " not"} ${verb} ${question.resource}${said.reason && `: ${said.reason}`}`);
          });
        }}
      >
        <div class="filters">
          <select aria-label="Verb" value={verb} onChange={(event) => setVerb(event.currentTarget.value)}>
            {VERBS.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
          <select aria-label="Kind" value={chosen} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
            {kinds.map((one, index) => (
              <option key={index} value={index}>
                {one.resource}
                {one.group && `.${one.group}`}
              </option>
            ))}
          </select>
          <small>{where}</small>
        </div>
        <input aria-label="User" placeholder="another user; empty for yourself" value={user} spellcheck={false} onInput={(event) => setUser(event.currentTarget.value)} />
        <footer class="buttons">
          <button type="submit" class="primary">
            {user.trim() ? "May they?" : "May I?"}
          </button>
          <button type="button" onClick={() => void run(async () => setHolders(await whoMay(session, question)))}>
            Who may, by roles
          </button>
        </footer>
      </form>
      <Problem error={error} />
      {answer && (
        <p class="answer" role="status">
          {answer}
        </p>
      )}
      {holders && (
        <table class="plain holders">
          <thead>
            <tr>
              <th>Who</th>
              <th>By</th>
            </tr>
          </thead>
          <tbody>
            {holders.map((one, index) => (
              <tr key={index}>
                <td>{one.subject}</td>
                <td>
                  {one.role} <small>{one.binding}</small>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {holders?.length === 0 && <p class="hint">No role allows it; system:masters may do everything.</p>}
    </section>
  );
}
