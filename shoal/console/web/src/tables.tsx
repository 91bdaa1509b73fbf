// Tables, their sizes, and the columns that analytic queries read.
import { useEffect, useState } from "preact/hooks";
import { api, records, RequestError, type Row, type View } from "./api";
import { bytes, count, number, plural, quoted } from "./format";
import { useView } from "./live";
import { Badge, Bar, Empty, Failure, Heading, List, Viewed, type Tone } from "./ui";

const KINDS: Record<string, string> = { r: "table", m: "materialized view", p: "partitioned" };
const SAVE = 0; // in the place of a table's number: all columns are saved together
const TOGETHER = 50; // tables whose sizes are asked for in one request
const REDRAW = 500; // milliseconds between two looks at what has come
const STATES: Record<string, Tone> = { ready: "good", loading: "accent" };
const MANY = 200; // tables, from which the figures are read once a minute

export function TablesPage({ open }: { open: (sql: string) => void }) {
  const [seconds, setSeconds] = useState(15);
  const live = useView("tables", seconds);
  const columns = useView("columns", 2).view;
  const names = records(live.view?.tables);
  const { sizes, error } = useSizes(names, live.at);
  const states = columnsOf(columns);
  const work = workOf(columns);
  useEffect(() => setSeconds(names.length > MANY ? 60 : 15), [names.length > MANY]);
  return (
    <>
      <Heading title="Tables" live={live} />
      {error && <Failure error={error} />}
      <Viewed live={live} what="tables">
        {() => {
          const rows: Row[] = names.map((row) => {
            const size = sizes.get(Number(row.oid));
            const total = size ? (number(size.bytes) ?? 0) + (number(size.index_bytes) ?? 0) : null;
            const columns = work.get(Number(row.oid))?.phase ?? states.get(nameOf(row))?.state ?? null;
            return { ...row, ...size, total_bytes: total, columns };
          });
          const largest = Math.max(...rows.map((row) => number(row.total_bytes) ?? 0), 1);
          const total = rows.reduce((sum, row) => sum + (number(row.total_bytes) ?? 0), 0);
          const known = rows.filter((row) => row.total_bytes !== null).length;
          return (
            <>
              {rows.length > 0 && (
                <p class="muted">
                  {plural(rows.length, "table")}, {bytes(total)} with their indexes
                  {known < rows.length ? ` (${known} read so far)` : ""}.{work.has(SAVE) ? " Columns are being saved." : ""}
                </p>
              )}
              <List
                label="Tables"
                rows={rows}
                truncated={live.view!.tables?.truncated}
                keyOf={(row) => String(row.oid)}
                sort={{ by: "total_bytes", down: true }}
                empty={
                  <Empty title="This database has no tables yet.">
                    Make the first one in the <a href="#/sql">SQL editor</a>: <code>CREATE TABLE t (id int PRIMARY KEY)</code>
                  </Empty>
                }
                columns={[
                  {
                    name: "name",
                    title: "Table",
                    grow: true,
                    show: (row) => (
                      <button
                        class="link"
                        title="Show the rows in the editor"
                        onClick={() => open(`SELECT * FROM ${nameOf(row)} LIMIT 100`)}
                      >
                        {row.schema === "public" ? "" : `${row.schema}.`}
                        {String(row.name)}
                      </button>
                    ),
                  },
                  { name: "kind", title: "Kind", wide: true, show: (row) => <Badge>{KINDS[String(row.kind)] ?? String(row.kind)}</Badge> },
                  {
                    name: "total_bytes",
                    title: "Total size",
                    numeric: true,
                    show: (row) => <Bar part={(number(row.total_bytes) ?? 0) / largest}>{bytes(row.total_bytes)}</Bar>,
                  },
                  { name: "rows", title: "Rows (estimate)", numeric: true, show: (row) => count(row.rows) },
                  { name: "bytes", title: "Table size", numeric: true, show: (row) => bytes(row.bytes) },
                  { name: "index_bytes", title: "Index size", numeric: true, show: (row) => bytes(row.index_bytes) },
                  {
                    name: "columns",
                    title: "Columns",
                    show: (row) => <Columns state={states.get(nameOf(row))} work={work.get(Number(row.oid))} />,
                  },
                  { name: "inserted", title: "Inserted", numeric: true, show: (row) => count(row.inserted) },
                  { name: "updated", title: "Updated", numeric: true, show: (row) => count(row.updated) },
                  { name: "deleted", title: "Deleted", numeric: true, show: (row) => count(row.deleted) },
                  { name: "owner", title: "Owner" },
                  { name: "tablespace", title: "Tablespace" },
                ]}
              />
            </>
          );
        }}
      </Viewed>
    </>
  );
}

/** What the analytic worker has of a table, and what it does with it now. */
function Columns({ state, work }: { state: Row | undefined; work: Row | undefined }) {
  if (work) {
    const total = number(work.tuples_total);
    const part = total ? Math.min((number(work.tuples_done) ?? 0) / total, 1) : 0;
    return (
      <Bar part={part}>
        {String(work.phase)}
        {total ? ` ${(part * 100).toFixed(0)} %` : ""}
      </Bar>
    );
  }
  if (!state) return <>–</>;
  const shown = state.state === "none" ? String(state.setting) : String(state.state);
  const lag = number(state.lag) ?? 0;
  const size = number(state.bytes);
  return (
    <Badge tone={STATES[String(state.state)] ?? "plain"} title={lag > 0 ? `${plural(lag, "commit")} to be applied` : undefined}>
      {shown}
      {size === null ? "" : `, ${bytes(size)}`}
    </Badge>
  );
}

function nameOf(row: Row): string {
  return `${quoted(String(row.schema))}.${quoted(String(row.name))}`;
}

function columnsOf(view: View | undefined): ReadonlyMap<string, Row> {
  return new Map(records(view?.states).map((row) => [nameOf(row), row]));
}

function workOf(view: View | undefined): ReadonlyMap<number, Row> {
  return new Map(records(view?.work).map((row) => [Number(row.relid), row]));
}

/** The sizes of tables by their numbers, asked for a few at a time whenever the names have come. */
function useSizes(names: Row[], at: number): { sizes: ReadonlyMap<number, Row>; error: RequestError | undefined } {
  const [sizes, setSizes] = useState<ReadonlyMap<number, Row>>(new Map());
  const [error, setError] = useState<RequestError>();
  useEffect(() => {
    let ended = false;
    const ask = async () => {
      let read: Row[] = [];
      let drawn = Date.now();
      for (let from = 0; from < names.length && !ended; from += TOGETHER) {
        read = read.concat(await api.sizes(names.slice(from, from + TOGETHER).map((row) => Number(row.oid))));
        if (ended || (Date.now() - drawn < REDRAW && from + TOGETHER < names.length)) continue;
        const found = read.map((row) => [Number(row.oid), row] as const);
        setSizes((before) => new Map([...before, ...found]));
        read = [];
        drawn = Date.now();
      }
      setError(undefined);
    };
    ask().catch((failed: unknown) => {
      if (!(failed instanceof RequestError)) throw failed;
      setError(failed);
    });
    return () => {
      ended = true;
    };
  }, [at]);
  return { sizes, error };
}
