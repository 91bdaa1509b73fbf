// The SQL editor: tabs with a connection each, statements run one by one, results as tables, charts and plans.
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, records, RequestError, type Answer, type Session, type Transaction } from "./api";
import type { Editor, Names } from "./editor";
import { count, milliseconds, plural } from "./format";
import { Grid } from "./grid";
import { PlanTree } from "./plan";
import { at, split, withoutComments, type Statement } from "./statements";
import { Badge, Dialog, Empty, Failure, Loading, toast } from "./ui";

interface Outcome {
  sql: string;
  answer?: Answer;
  error?: RequestError;
  plan?: string[];
}

interface Tab {
  id: string;
  text: string;
  outcomes: Outcome[];
  chosen: number;
  since: number; // when the statement that runs began, milliseconds since 1970; 0: none runs
  transaction: Transaction;
}

const KEPT = "shoal-tabs"; // in the browser's storage of this window: it ends with it
const PAST = "shoal-history";
const PAST_KEPT = 100;
const SECRET = /\bpassword\b/i; // such statements are not kept

const tabs: Tab[] = [];
let current = 0;

function newTab(text = ""): Tab {
  return { id: crypto.randomUUID(), text, outcomes: [], chosen: 0, since: 0, transaction: "idle" };
}

function keep(): void {
  const kept = tabs.map(({ id, text, transaction }) => ({ id, text, transaction }));
  sessionStorage.setItem(KEPT, JSON.stringify(kept.filter((tab) => !SECRET.test(tab.text))));
}

function past(): string[] {
  return JSON.parse(sessionStorage.getItem(PAST) ?? "[]") as string[];
}

function remember(sql: string): void {
  if (SECRET.test(sql)) return;
  sessionStorage.setItem(PAST, JSON.stringify([sql, ...past().filter((item) => item !== sql)].slice(0, PAST_KEPT)));
}

/** Puts a statement into a tab of its own, where the editor shows it next. */
export function offer(sql: string): void {
  restore();
  const empty = tabs.findIndex((tab) => !tab.text.trim() && tab.transaction === "idle" && !tab.since);
  if (empty >= 0) tabs[empty]!.text = sql;
  else tabs.push(newTab(sql));
  current = empty >= 0 ? empty : tabs.length - 1;
  keep();
  window.dispatchEvent(new Event("shoal-offer"));
}

function restore(): void {
  if (tabs.length) return;
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]") as Pick<Tab, "id" | "text" | "transaction">[];
  tabs.push(...kept.map((tab) => ({ ...newTab(tab.text), ...tab })));
  if (!tabs.length) tabs.push(newTab());
  current = 0;
}

export function SqlPage({ session }: { session: Session }) {
  restore();
  const [, render] = useState(0);
  const [rows, setRows] = useState(session.rows.usual);
  const [history, setHistory] = useState(false);
  const [ready, setReady] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | undefined>(undefined);
  const again = () => render((n) => n + 1);
  const tab = tabs[current]!;

  const schema = async () => {
    const names: Names = {};
    for (const row of records((await api.view("schema")).columns)) {
      const table = ((names[String(row.schema)] ??= {})[String(row.name)] ??= []);
      table.push({ label: String(row.column), type: "property", detail: String(row.type) });
    }
    editor.current?.complete(names);
  };

  const send = async (to: Tab, sql: string): Promise<Answer> => {
    try {
      const answer = await api.run(to.id, sql, rows);
      to.transaction = answer.transaction;
      return answer;
    } catch (error) {
      if (error instanceof RequestError && error.transaction) to.transaction = error.transaction;
      throw error;
    }
  };

  const work = async (statements: Statement[], run: (to: Tab, sql: string) => Promise<Partial<Outcome>>) => {
    const to = tabs[current]!;
    if (to.since) return toast("A statement of this tab is still running.", "warn");
    if (!statements.length) return toast("There is no statement here.", "warn");
    to.outcomes = [];
    editor.current?.mark(null);
    for (const statement of statements) {
      to.since = Date.now();
      again();
      remember(statement.text);
      try {
        to.outcomes.push({ sql: statement.text, ...(await run(to, statement.text)) });
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        to.outcomes.push({ sql: statement.text, error });
        if (tabs[current] === to) editor.current?.mark(wrong(statement, error));
        break;
      } finally {
        to.since = 0;
        to.chosen = to.outcomes.length - 1;
        keep();
        again();
      }
    }
    if (to.outcomes.some((item) => /^(CREATE|ALTER|DROP)/.test(item.answer?.command ?? ""))) void schema().catch(() => undefined);
  };

  const run = async (to: Tab, sql: string): Promise<Partial<Outcome>> => {
    const answer = await send(to, sql);
    return /^EXPLAIN/i.test(withoutComments(sql)) ? { answer, plan: answer.rows.map((row) => String(row[0])) } : { answer };
  };
  const explain = async (to: Tab, sql: string): Promise<Partial<Outcome>> => {
    const [before, after] = to.transaction === "idle" ? ["BEGIN", "ROLLBACK"] : ["SAVEPOINT console", "ROLLBACK TO console"];
    if (to.transaction !== "failed") await send(to, before!);
    try {
      const answer = await send(to, `EXPLAIN (ANALYZE) ${sql}`);
      return { answer, plan: answer.rows.map((row) => String(row[0])) };
    } finally {
      await send(to, after!).catch(() => undefined);
    }
  };
  const here = (): Statement[] => {
    const text = editor.current?.text ?? "";
    const { from, to } = editor.current?.selection ?? { from: 0, to: 0 };
    if (from < to) return split(text.slice(from, to)).map((item) => ({ ...item, from: item.from + from, to: item.to + from }));
    const found = at(text, from);
    return found ? [found] : [];
  };
  const cancel = () => {
    const to = tabs[current]!;
    if (to.since) api.cancelTab(to.id).catch((error: unknown) => toast(String(error), "bad"));
  };
  const actions = useRef({ run: () => {}, runAll: () => {}, explain: () => {}, escape: () => {}, changed: (_: string) => {} });
  actions.current = {
    run: () => void work(here(), run),
    runAll: () => void work(split(editor.current?.text ?? ""), run),
    explain: () => void work(here().slice(0, 1), explain),
    escape: cancel,
    changed: (text) => {
      tabs[current]!.text = text;
      keep();
    },
  };

  useEffect(() => {
    let ended = false;
    void import("./editor").then(({ Editor }) => {
      if (ended) return;
      const made = new Editor(place.current!, tabs[current]!.text, {
        run: () => actions.current.run(),
        runAll: () => actions.current.runAll(),
        explain: () => actions.current.explain(),
        escape: () => actions.current.escape(),
        changed: (text) => actions.current.changed(text),
      });
      editor.current = made;
      made.focus();
      setReady(true);
      schema().catch((error: unknown) => toast(`Names cannot be completed: ${String(error)}`, "warn"));
    });
    const offered = () => show(current);
    window.addEventListener("shoal-offer", offered);
    return () => {
      ended = true;
      window.removeEventListener("shoal-offer", offered);
      editor.current?.destroy();
      editor.current = undefined;
    };
  }, []);

  const show = (index: number) => {
    current = index;
    if (editor.current) {
      editor.current.text = tabs[index]!.text;
      editor.current.focus();
    }
    again();
  };
  const close = (index: number) => {
    const [closed] = tabs.splice(index, 1);
    if (closed) void api.closeTab(closed.id).catch(() => undefined);
    if (!tabs.length) tabs.push(newTab());
    keep();
    show(Math.min(index <= current ? Math.max(0, current - 1) : current, tabs.length - 1));
  };
  const transact = (sql: string) => void work([{ from: 0, to: 0, text: sql }], run);

  return (
    <>
      <h1 class="hidden" tabIndex={-1}>
        SQL
      </h1>
      <div class="tabs" role="group" aria-label="Editor tabs">
        {tabs.map((item, index) => (
          <span class={`tab ${index === current ? "chosen" : ""}`} key={item.id}>
            <button aria-current={index === current} onClick={() => show(index)}>
              {titleOf(item, index)}
              {item.since > 0 && <span class="spinner" aria-label="running" />}
              {item.transaction !== "idle" && <span class="dot warn" title="a transaction is open" />}
            </button>
            <button class="icon" aria-label={`Close ${titleOf(item, index)}`} onClick={() => close(index)}>
              ×
            </button>
          </span>
        ))}
        <button class="icon" aria-label="New tab" title="New tab" onClick={() => (tabs.push(newTab()), show(tabs.length - 1))}>
          +
        </button>
      </div>
      <div class="editor" ref={place}>
        {!ready && <Loading what="Opening the editor" />}
      </div>
      <div class="editor-bar">
        <button class="primary" disabled={tab.since > 0} onClick={() => actions.current.run()} title="Ctrl+Enter">
          Run
        </button>
        <button disabled={tab.since > 0} onClick={() => actions.current.runAll()} title="Ctrl+Shift+Enter">
          Run all
        </button>
        <button disabled={tab.since > 0} onClick={() => actions.current.explain()} title="Runs the statement and rolls its changes back (Ctrl+Shift+E)">
          Explain
        </button>
        {tab.since > 0 && (
          <button class="danger" onClick={cancel} title="Esc">
            Cancel
          </button>
        )}
        {tab.transaction !== "idle" && (
          <span class="transaction">
            <Badge tone={tab.transaction === "failed" ? "bad" : "warn"}>transaction {tab.transaction}</Badge>
            {tab.transaction === "open" && (
              <button class="small" onClick={() => transact("COMMIT")}>
                Commit
              </button>
            )}
            <button class="small" onClick={() => transact("ROLLBACK")}>
              Roll back
            </button>
          </span>
        )}
        <span class="editor-bar-end">
          <button class="ghost" onClick={() => setHistory(true)}>
            History
          </button>
          <label>
            Rows{" "}
            <select value={String(rows)} onChange={(event) => setRows(Number(event.currentTarget.value))}>
              {[100, session.rows.usual, session.rows.most].map((limit) => (
                <option key={limit} value={String(limit)}>
                  {count(limit)}
                </option>
              ))}
            </select>
          </label>
        </span>
      </div>
      <Results tab={tab} choose={(index) => ((tab.chosen = index), again())} rows={rows} />
      {history && (
        <History
          onClose={() => setHistory(false)}
          onTake={(sql) => {
            setHistory(false);
            offer(sql);
          }}
        />
      )}
    </>
  );
}

function titleOf(tab: Tab, index: number): string {
  const text = withoutComments(tab.text).replace(/\s+/g, " ").trim();
  return text ? (text.length > 22 ? `${text.slice(0, 21)}…` : text) : `Tab ${index + 1}`;
}

/** The word at the place that an error names; positions count characters, the editor UTF-16 units. */
function wrong(statement: Statement, error: RequestError): { from: number; to: number } | null {
  const position = error.report.position;
  if (!position) return null;
  const before = [...statement.text].slice(0, position - 1).join("").length;
  const word = /^(\w+|"[^"]*"|\S)/.exec(statement.text.slice(before))?.[0] ?? "";
  return { from: statement.from + before, to: statement.from + before + Math.max(1, word.length) };
}

function Results({ tab, choose, rows }: { tab: Tab; choose: (index: number) => void; rows: number }) {
  const shown = tab.outcomes[tab.chosen];
  return (
    <section class="results" aria-label="Results">
      {tab.since > 0 && <Running since={tab.since} />}
      {tab.outcomes.length > 1 && (
        <div class="parts" role="group" aria-label="Statements that ran">
          {tab.outcomes.map((item, index) => (
            <button key={index} aria-current={index === tab.chosen} onClick={() => choose(index)} title={item.sql}>
              {index + 1} {item.error ? "failed" : item.answer?.command}
            </button>
          ))}
        </div>
      )}
      {shown ? (
        <Result key={`${tab.id} ${tab.chosen} ${shown.sql}`} outcome={shown} rows={rows} />
      ) : (
        !tab.since && (
          <Empty title="Results appear here.">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd> runs the statement at the cursor. Every tab has a connection, and a transaction, of its
            own.
          </Empty>
        )
      )}
    </section>
  );
}

function Running({ since }: { since: number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 100);
    return () => window.clearInterval(timer);
  }, []);
  return <Loading what={`Running for ${milliseconds(Math.max(0, now - since))}`} />;
}

type Form = "table" | "chart" | "plan";

function Result({ outcome, rows }: { outcome: Outcome; rows: number }) {
  const { answer, error, plan } = outcome;
  const [form, setForm] = useState<Form>(plan ? "plan" : "table");
  if (error) return <Failure error={error} />;
  if (!answer) return null;
  const forms: Form[] = plan ? ["plan", "table"] : ["table", "chart"];
  return (
    <>
      {answer.notices.map((notice) => (
        <p class="notice" key={notice}>
          {notice}
        </p>
      ))}
      <div class="result-bar">
        <span>
          <Badge tone="good">{answer.command || (answer.truncated ? "first rows" : "done")}</Badge>{" "}
          <span class="muted">
            {milliseconds(answer.milliseconds)}
            {answer.columns.length > 0 && `, ${plural(answer.rows.length, "row")}`}
          </span>
        </span>
        {answer.columns.length > 0 && (
          <span class="parts" role="group" aria-label="Form of the result">
            {forms.map((item) => (
              <button key={item} aria-current={item === form} onClick={() => setForm(item)}>
                {item[0]!.toUpperCase() + item.slice(1)}
              </button>
            ))}
            <button onClick={() => save(answer, "csv")}>CSV</button>
            <button onClick={() => save(answer, "json")}>JSON</button>
          </span>
        )}
      </div>
      {answer.truncated && (
        <p class="notice warn">
          {answer.rows.length >= rows
            ? `These are the first ${plural(answer.rows.length, "row")}: there are more. Choose more rows next to the editor, or add LIMIT.`
            : `These are the first ${plural(answer.rows.length, "row")}: the result is larger than the console shows (8 MB).`}
        </p>
      )}
      {answer.columns.length > 0 &&
        (form === "table" ? <Grid answer={answer} /> : form === "plan" ? <PlanTree lines={plan ?? []} /> : <Charted answer={answer} />)}
    </>
  );
}

function Charted({ answer }: { answer: Answer }) {
  const [Chart, setChart] = useState<ComponentType<{ answer: Answer }>>();
  useEffect(() => {
    void import("./chart").then((module) => setChart(() => module.default));
  }, []);
  return Chart ? <Chart answer={answer} /> : <Loading what="Drawing" />;
}

function save(answer: Answer, form: "csv" | "json"): void {
  const quote = (value: unknown) => {
    if (value === null) return "";
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    return text === "" || /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const content =
    form === "csv"
      ? [answer.columns.map((column) => column.name), ...answer.rows].map((row) => row.map(quote).join(",")).join("\r\n")
      : JSON.stringify(records(answer), null, 2);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: form === "csv" ? "text/csv" : "application/json" }));
  link.download = `result.${form}`;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function History({ onClose, onTake }: { onClose: () => void; onTake: (sql: string) => void }) {
  const all = past();
  return (
    <Dialog title="History" onClose={onClose}>
      <h2>History</h2>
      {all.length === 0 && <Empty title="No statements have run in this window yet." />}
      <ul class="history">
        {all.map((sql) => (
          <li key={sql}>
            <button class="link" onClick={() => onTake(sql)}>
              <code class="query">{sql}</code>
            </button>
          </li>
        ))}
      </ul>
      <p class="muted small">The history is kept until you close this window or log out. Statements with passwords are not kept.</p>
      <p class="buttons">
        <button autofocus onClick={onClose}>
          Close
        </button>
      </p>
    </Dialog>
  );
}
