// What the page asks of the server: the requests of shoal/console/routes.py.

export type Value = null | boolean | number | string | object;

export interface Answer {
  columns: { name: string; type: string }[];
  rows: Value[][];
  command: string;
  truncated: boolean;
  notices: string[];
  milliseconds: number;
  transaction: Transaction;
}

export type Transaction = "idle" | "open" | "failed";

export interface Session {
  user: string;
  database: string;
  token: string;
  node: string;
  rows: { usual: number; most: number };
}

export interface Report {
  severity?: string;
  sqlstate: string;
  message: string;
  detail?: string | null;
  hint?: string | null;
  position?: number | null;
}

/** What the server refused. `status` 0: it could not be reached. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly report: Report,
    readonly transaction?: Transaction,
  ) {
    super(report.message);
  }
}

export type Row = Record<string, Value>;
export type View = Record<string, Answer>;

const TOKEN = "shoal-token"; // kept for all windows of this origin; useless without the cookie
let onLoggedOut: () => void = () => undefined;

export function whenLoggedOut(action: () => void): void {
  onLoggedOut = action;
}

async function ask<T>(path: string, body?: object, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        "X-Shoal-Token": localStorage.getItem(TOKEN) ?? "",
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(0, { sqlstate: "08001", message: "The node cannot be reached." });
  }
  const text = await response.text();
  let answer: { error?: Report; transaction?: Transaction };
  try {
    answer = JSON.parse(text) as typeof answer;
  } catch {
    throw new RequestError(response.status, { sqlstate: "08P01", message: text.trim() || response.statusText });
  }
  if (!response.ok) {
    if (response.status === 401) onLoggedOut();
    throw new RequestError(response.status, answer.error ?? { sqlstate: "XX000", message: text }, answer.transaction);
  }
  return answer as T;
}

/** Lets go of the login's token. */
export function forget(): void {
  localStorage.removeItem(TOKEN);
}

function kept(session: Session): Session {
  localStorage.setItem(TOKEN, session.token);
  return session;
}

export const api = {
  session: () => ask<Session | null>("/api/session"),
  logIn: async (user: string, password: string, database: string) =>
    kept(await ask<Session>("/api/login", { user, password, database })),
  logOut: () => ask<object>("/api/logout", {}),
  view: (name: string) => ask<View>(`/api/view/${name}`),
  sizes: async (oids: number[]) => records((await ask<View>(`/api/view/sizes?oids=${oids.join()}`)).sizes),
  run: (tab: string, sql: string, rows: number, signal?: AbortSignal) =>
    ask<Answer>("/api/sql", { tab, sql, rows }, signal),
  cancelTab: (tab: string) => ask<object>("/api/sql/cancel", { tab }),
  closeTab: (tab: string) => ask<object>("/api/sql/close", { tab }),
  cancel: (pid: number) => ask<Answer>("/api/sessions/cancel", { pid }),
  terminate: (pid: number) => ask<Answer>("/api/sessions/terminate", { pid }),
};

/** The rows of an answer as objects by the names of its columns. */
export function records(answer: Answer | undefined): Row[] {
  if (!answer) return [];
  return answer.rows.map((row) => Object.fromEntries(answer.columns.map((column, at) => [column.name, row[at] ?? null])));
}
