// Statements that run now and those that cost most, and who waits for whom.
import { useState } from "preact/hooks";
import { api, records, RequestError, type Answer, type Row, type View } from "./api";
import { count, duration, milliseconds, number, plural } from "./format";
import { useView } from "./live";
import { Badge, Bar, Dialog, Empty, Failure, Heading, List, Loading, toast, Viewed, type Tone } from "./ui";

const LONG = 5; // seconds, from which a statement counts as long

export function StatementsPage({ part, open }: { part: string; open: (sql: string) => void }) {
  return part === "slowest" ? <Slowest open={open} /> : <Now />;
}

function Parts({ current }: { current: string }) {
  return (
    <nav class="parts" aria-label="Statements">
      <a href="#/statements" aria-current={current === "now" ? "page" : undefined}>
        Now
      </a>
      <a href="#/statements/slowest" aria-current={current === "slowest" ? "page" : undefined}>
        Slowest
      </a>
    </nav>
  );
}

function Now() {
  const live = useView("activity", 2);
  const [idle, setIdle] = useState(false);
  return (
    <>
      <Heading title="Statements" live={live}>
        <Parts current="now" />
      </Heading>
      <Viewed live={live} what="sessions">
        {() => {
          const all = records(live.view!.sessions).filter((row) => row.own !== true);
          const rows = all.filter((row) => idle || (row.state !== "idle" && row.state !== null));
          return (
            <>
              <label class="check">
                <input type="checkbox" checked={idle} onChange={(event) => setIdle(event.currentTarget.checked)} /> Show idle
                sessions ({all.length - all.filter((row) => row.state !== "idle" && row.state !== null).length})
              </label>
              <List
                label="Sessions"
                rows={rows}
                truncated={live.view!.sessions?.truncated}
                keyOf={(row) => String(row.pid)}
                empty={<Empty title="No statements are running.">{plural(all.length, "idle session")} on this node.</Empty>}
                expand={(row) => <SessionDetails row={row} done={live.reload} />}
                columns={[
                  { name: "pid", title: "PID", numeric: true },
                  { name: "state", title: "State", show: (row) => <State row={row} /> },
                  { name: "running", title: "For", numeric: true, show: (row) => duration(row.running) },
                  { name: "usename", title: "User", wide: true },
                  { name: "datname", title: "Database", wide: true },
                  { name: "query", title: "Statement", grow: true, show: (row) => <code class="query">{String(row.query ?? "")}</code> },
                  { name: "actions", title: "Actions", fixed: true, wide: true, show: (row) => <Actions row={row} done={live.reload} /> },
                ]}
              />
            </>
          );
        }}
      </Viewed>
    </>
  );
}

function State({ row }: { row: Row }) {
  const blocked = processes(row.blocked_by).length > 0;
  const state = String(row.state ?? "unknown");
  const tone: Tone = blocked
    ? "bad"
    : state === "active"
      ? (number(row.running) ?? 0) > LONG ? "warn" : "good"
      : state.startsWith("idle in transaction") ? "warn" : "plain";
  return <Badge tone={tone}>{blocked ? "waits for a lock" : state}</Badge>;
}

/** The process ids in a cell of type int4[]. */
export function processes(value: unknown): number[] {
  return (String(value ?? "").match(/\d+/g) ?? []).map(Number);
}

function SessionDetails({ row, done }: { row: Row; done: () => void }) {
  const blockers = processes(row.blocked_by);
  return (
    <div class="details">
      <pre>{String(row.query ?? "")}</pre>
      <dl class="facts wide">
        <dt>User and database</dt>
        <dd>
          {String(row.usename ?? "–")}, {String(row.datname ?? "–")}
        </dd>
        <dt>Application</dt>
        <dd>{String(row.application_name || "–")}</dd>
        <dt>Client</dt>
        <dd>{String(row.client ?? "–")}</dd>
        <dt>Connected for</dt>
        <dd>{duration(row.connected)}</dd>
        <dt>Transaction for</dt>
        <dd>{duration(row.transaction)}</dd>
        <dt>Waits for</dt>
        <dd>{blockers.length ? `session ${blockers.join(", ")}` : row.wait_event ? `${row.wait_event_type}: ${row.wait_event}` : "–"}</dd>
      </dl>
      <p class="narrow-only">
        <Actions row={row} done={done} />
      </p>
    </div>
  );
}

export function Actions({ row, done }: { row: Row; done: () => void }) {
  const [asked, setAsked] = useState(false);
  const pid = Number(row.pid);
  const act = async (what: "cancel" | "terminate") => {
    setAsked(false);
    try {
      const answer = await api[what](pid);
      const found = answer.rows[0]?.[0] === true;
      const did = what === "cancel" ? `Asked session ${pid} to cancel its statement.` : `Ended session ${pid}.`;
      toast(found ? did : `Session ${pid} no longer exists.`, found ? "good" : "warn");
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      toast(error.report.message, "bad");
    }
    done();
  };
  return (
    <span class="actions">
      <button class="small" disabled={row.state !== "active" && !processes(row.blocked_by).length} onClick={() => void act("cancel")}>
        Cancel
      </button>
      <button class="small danger" onClick={() => setAsked(true)}>
        Terminate
      </button>
      {asked && (
        <Dialog title={`End session ${pid}`} onClose={() => setAsked(false)}>
          <h2>End session {pid}?</h2>
          <p>
            Its connection is closed and its transaction is rolled back. <em>{String(row.usename)}</em> sees an error.
          </p>
          <p class="buttons">
            <button onClick={() => setAsked(false)}>Keep session</button>
            <button class="danger" onClick={() => void act("terminate")}>
              End session
            </button>
          </p>
        </Dialog>
      )}
    </span>
  );
}

function Slowest({ open }: { open: (sql: string) => void }) {
  const live = useView("slowest", 5);
  const missing = live.error?.report.sqlstate === "42P01";
  return (
    <>
      <Heading title="Statements" live={missing ? undefined : live}>
        <Parts current="slowest" />
      </Heading>
      {missing ? (
        <Empty title="Statement statistics are not enabled in this database.">
          Begin with{" "}
          <button class="link" onClick={() => open("CREATE EXTENSION pg_stat_statements")}>
            <code>CREATE EXTENSION pg_stat_statements</code>
          </button>
        </Empty>
      ) : live.error ? (
        <Failure error={live.error} />
      ) : live.view ? (
        <SlowestList view={live.view} />
      ) : (
        <Loading what="Reading statistics" />
      )}
    </>
  );
}

function names(answer: Answer | undefined): Map<number, string> {
  return new Map(records(answer).map((row) => [Number(row.oid), String(row.name)]));
}

function SlowestList({ view }: { view: View }) {
  const roles = names(view.roles);
  const databases = names(view.databases);
  const rows: Row[] = records(view.statements).map((row, at) => ({
    ...row,
    id: at,
    usename: roles.get(Number(row.userid)) ?? null,
    datname: databases.get(Number(row.dbid)) ?? null,
  }));
  const all = rows.reduce((sum, row) => sum + (number(row.total_exec_time) ?? 0), 0);
  return (
    <List
      label="Statements"
      rows={rows}
      truncated={view.statements?.truncated}
      keyOf={(row) => String(row.id)}
      empty={<Empty title="No statements have been counted yet." />}
      sort={{ by: "total_exec_time", down: true }}
      expand={(row) => <pre>{String(row.query)}</pre>}
      columns={[
        { name: "query", title: "Statement", grow: true, show: (row) => <code class="query">{String(row.query)}</code> },
        { name: "usename", title: "User", wide: true },
        { name: "datname", title: "Database", wide: true },
        { name: "calls", title: "Calls", numeric: true, show: (row) => count(row.calls) },
        {
          name: "total_exec_time",
          title: "Total",
          numeric: true,
          show: (row) => <Bar part={all ? (number(row.total_exec_time) ?? 0) / all : 0}>{milliseconds(row.total_exec_time)}</Bar>,
        },
        { name: "mean_exec_time", title: "Mean", numeric: true, show: (row) => milliseconds(row.mean_exec_time) },
        { name: "max_exec_time", title: "Slowest", numeric: true, show: (row) => milliseconds(row.max_exec_time) },
        { name: "rows", title: "Rows", numeric: true, show: (row) => count(row.rows) },
      ]}
    />
  );
}

// ---- locks ----

interface Waiting {
  row: Row;
  waiters: Waiting[];
}

export function LocksPage() {
  const live = useView("locks", 2);
  return (
    <>
      <Heading title="Locks" live={live} />
      <Viewed live={live} what="locks">
        {() => {
          const sessions = records(live.view!.sessions);
          const roots = chains(sessions);
          return (
            <>
              <section>
                <h2 class="section">Sessions that wait</h2>
                {roots.length ? (
                  <ul class="chain">
                    {roots.map((root) => (
                      <Chain key={String(root.row.pid)} node={root} reload={live.reload} top />
                    ))}
                  </ul>
                ) : (
                  <Empty title="No session is waiting." />
                )}
              </section>
              <section>
                <h2 class="section">Table locks and advisory locks</h2>
                <List
                  label="Locks"
                  rows={records(live.view!.locks)}
                  truncated={live.view!.locks?.truncated}
                  keyOf={(row) => `${row.pid}/${row.object}/${row.mode}/${row.granted}`}
                  empty={<Empty title="No locks are held.">Row locks are listed only when a session waits for one.</Empty>}
                  columns={[
                    { name: "pid", title: "PID", numeric: true },
                    { name: "object", title: "Object" },
                    { name: "locktype", title: "Kind" },
                    { name: "mode", title: "Mode" },
                    {
                      name: "granted",
                      title: "State",
                      show: (row) => <Badge tone={row.granted === true ? "good" : "bad"}>{row.granted === true ? "held" : "waits"}</Badge>,
                    },
                  ]}
                />
              </section>
            </>
          );
        }}
      </Viewed>
    </>
  );
}

/** Those who wait under those that they wait for; the roots wait for nobody. */
export function chains(sessions: Row[]): Waiting[] {
  const known = new Map(sessions.map((row) => [Number(row.pid), { row, waiters: [] as Waiting[] }]));
  const blockersOf = (pid: number) => processes(known.get(pid)?.row.blocked_by);
  const waiting = new Set<number>();
  for (const node of [...known.values()])
    for (const blocker of direct(processes(node.row.blocked_by), blockersOf)) {
      const found = known.get(blocker) ?? { row: { pid: blocker, query: "(not on this node)" }, waiters: [] };
      known.set(blocker, found);
      found.waiters.push(node);
      waiting.add(Number(node.row.pid));
    }
  return [...known.values()].filter((node) => node.waiters.length && !waiting.has(Number(node.row.pid)));
}

/** The blockers without those that another one of them waits for. */
function direct(blockers: number[], blockersOf: (pid: number) => number[]): number[] {
  return blockers.filter((blocker) => !blockers.some((other) => other !== blocker && blockersOf(other).includes(blocker)));
}

function Chain({ node, reload, top = false }: { node: Waiting; reload: () => void; top?: boolean }) {
  const { row } = node;
  return (
    <li>
      <div class="chain-step">
        <Badge tone={top ? "warn" : "bad"}>{top ? "holds" : "waits"}</Badge>
        <strong>{String(row.pid)}</strong>
        <span class="muted">
          {String(row.usename ?? "")} {top ? `transaction for ${duration(row.transaction)}` : `for ${duration(row.running)}`}
        </span>
        <code class="query">{String(row.query ?? "")}</code>
        <Actions row={row} done={reload} />
      </div>
      {node.waiters.length > 0 && (
        <ul>
          {node.waiters.map((waiter) => (
            <Chain key={String(waiter.row.pid)} node={waiter} reload={reload} />
          ))}
        </ul>
      )}
    </li>
  );
}
