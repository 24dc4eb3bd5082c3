/** Who may do what: what the server says of oneself, and what roles say of others. */
import { ApiError, type Session } from "./http";

export interface Rule {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  nonResourceURLs?: string[];
}

export interface Rules {
  resourceRules: Rule[];
  nonResourceRules: Rule[];
  incomplete: boolean;
  evaluationError: string;
}

/** What the person who asks may do in a namespace. */
export async function rulesOf(session: Session, namespace: string, signal: AbortSignal): Promise<Rules> {
  const review = await session.json<{ status: Partial<Rules> }>("apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {
    method: "POST",
    body: { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace } },
    signal,
  });
  const { resourceRules, nonResourceRules, incomplete, evaluationError } = review.status;
  return {
    resourceRules: resourceRules ?? [],
    nonResourceRules: nonResourceRules ?? [],
    incomplete: incomplete ?? false,
    evaluationError: evaluationError ?? "",
  };
}

export interface Question {
  verb: string;
  group: string;
  resource: string;
  namespace: string;
}

/** Whether `user` may, or oneself if that is empty; and why. */
export async function mayThey(session: Session, question: Question, user: string): Promise<{ allowed: boolean; reason: string }> {
  const kind = user ? "SubjectAccessReview" : "SelfSubjectAccessReview";
  const review = await session.json<{ status: { allowed: boolean; reason?: string; evaluationError?: string } }>(
    `apis/authorization.k8s.io/v1/${kind.toLowerCase()}s`,
    {
      method: "POST",
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind,
        spec: { resourceAttributes: question, ...(user ? { user } : {}) },
      },
    },
  );
  return { allowed: review.status.allowed, reason: review.status.reason ?? review.status.evaluationError ?? "" };
}

interface Role {
  metadata: { name: string; namespace?: string };
  rules?: Rule[];
}

interface Binding {
  metadata: { name: string; namespace?: string };
  roleRef: { kind: string; name: string };
  subjects?: { kind: string; name: string; namespace?: string }[];
}

export interface Holder {
  subject: string;
  binding: string;
  role: string;
}

/** Who may according to roles and their bindings, which one has to be allowed to list. */
export async function whoMay(session: Session, question: Question): Promise<Holder[]> {
  const list = async <T>(resource: string, namespaced: boolean): Promise<T[]> => {
    const path = namespaced ? `namespaces/${encodeURIComponent(question.namespace)}/${resource}` : resource;
    return (await session.json<{ items?: T[] }>(`apis/rbac.authorization.k8s.io/v1/${path}`)).items ?? [];
  };
  const inside = question.namespace !== "";
  const [clusterRoles, clusterBindings, roles, bindings] = await Promise.all([
    list<Role>("clusterroles", false),
    list<Binding>("clusterrolebindings", false),
    inside ? list<Role>("roles", true) : [],
    inside ? list<Binding>("rolebindings", true) : [],
  ]);
  const allowing = (some: Role[]): Set<string> =>
    new Set(some.filter((role) => role.rules?.some((rule) => covers(rule, question))).map((role) => role.metadata.name));
  const names = { ClusterRole: allowing(clusterRoles), Role: allowing(roles) };
  return [...clusterBindings, ...bindings].flatMap((binding) => {
    const { kind, name } = binding.roleRef;
    if (!(kind === "Role" ? names.Role : names.ClusterRole).has(name)) return [];
    return (binding.subjects ?? []).map((subject) => ({
      subject: `${subject.kind} ${subject.namespace ? `${subject.namespace}/` : ""}${subject.name}`,
      binding: binding.metadata.name,
      role: `${kind} ${name}`,
    }));
  });
}

export function covers(rule: Rule, question: Question): boolean {
  const has = (list: string[] | undefined, wanted: string): boolean => list?.some((one) => one === "*" || one === wanted) ?? false;
  return (
    has(rule.verbs, question.verb) &&
    has(rule.apiGroups, question.group) &&
    has(rule.resources, question.resource) &&
    !rule.resourceNames?.length
  );
}

/** Whether an error says that the server has no such review. */
export function isNotServed(error: unknown): boolean {
  return error instanceof ApiError && error.code === 404;
}
