// The changelog: how far it is, the ledgers that it lies in, and the checkpoints that a new replica starts from.
import { records, type Row, type View } from "./api";
import { bytes, count, duration, number, plural } from "./format";
import { useView } from "./live";
import { Badge, Empty, Heading, List, Viewed } from "./ui";

export function LogPage() {
  const live = useView("ledgers", 5);
  return (
    <>
      <Heading title="Changelog" live={live} />
      <Viewed live={live} what="the changelog">
        {() => (
          <>
            <section aria-label="Changelogs on this node" class="cards">
              {records(live.view!.log).map((row) => (
                <LogCard key={String(row.tablespace)} row={row} />
              ))}
            </section>
            <Ledgers view={live.view!} />
          </>
        )}
      </Viewed>
    </>
  );
}

function LogCard({ row }: { row: Row }) {
  return (
    <article class="card">
      <h2>
        {String(row.tablespace)} <Badge tone={row.role === "leader" ? "accent" : "plain"}>{String(row.role)}</Badge>
      </h2>
      <dl class="facts">
        <dt>Durable</dt>
        <dd>LSN {count(row.durable_lsn)}</dd>
        <dt>Being written</dt>
        <dd>{plural((number(row.sequenced_lsn) ?? 0) - (number(row.durable_lsn) ?? 0), "entry", "entries")}</dd>
        <dt>Not flushed</dt>
        <dd>
          {plural(Math.max(0, (number(row.durable_lsn) ?? 0) - (number(row.flushed_lsn) ?? 0)), "entry", "entries")}
          {number(row.pending_bytes) ? `, ${bytes(row.pending_bytes)}` : ""}
        </dd>
        <dt>Lag</dt>
        <dd>{duration(row.staleness)}</dd>
      </dl>
    </article>
  );
}

function Ledgers({ view }: { view: View }) {
  return (
    <>
      <section>
        <h2 class="section">Ledgers</h2>
        <List
          label="Ledgers"
          rows={records(view.ledgers)}
          truncated={view.ledgers?.truncated}
          keyOf={(row) => `${row.tablespace}/${row.ledger}`}
          empty={
            <Empty title="No ledgers.">
              A node alone keeps its changelog in segment files of its own; ledgers belong to a cluster.
            </Empty>
          }
          columns={[
            { name: "tablespace", title: "Tablespace" },
            { name: "ledger", title: "Ledger", numeric: true },
            { name: "state", title: "State", show: (row) => <Badge tone={row.state === "open" ? "good" : "plain"}>{String(row.state)}</Badge> },
            { name: "first_lsn", title: "First LSN", numeric: true, show: (row) => count(row.first_lsn) },
            { name: "last_lsn", title: "Last LSN", numeric: true, show: (row) => count(row.last_lsn) },
            { name: "bytes", title: "Size", numeric: true, show: (row) => bytes(row.bytes) },
            { name: "epoch", title: "Epoch", numeric: true },
            { name: "closed", title: "Closed" },
            { name: "store", title: "Store", grow: true },
          ]}
        />
      </section>
      <Streams view={view} />
      <section>
        <h2 class="section">Checkpoints</h2>
        <List
          label="Checkpoints"
          rows={records(view.checkpoints)}
          truncated={view.checkpoints?.truncated}
          keyOf={(row) => `${row.tablespace}/${row.lsn}`}
          empty={
            <Empty title="No checkpoints yet.">
              In a cluster they are made once in a while, and with <code>shoal checkpoint</code>.
            </Empty>
          }
          columns={[
            { name: "tablespace", title: "Tablespace" },
            { name: "lsn", title: "LSN", numeric: true, show: (row) => count(row.lsn) },
            { name: "lag", title: "Entries since", numeric: true, show: (row) => count(row.lag) },
            { name: "created", title: "Created" },
            { name: "bytes", title: "Size", numeric: true, show: (row) => bytes(row.bytes) },
            { name: "hash", title: "Hash", show: (row) => <code title={String(row.hash)}>{String(row.hash ?? "").slice(0, 12)}</code> },
            { name: "folder", title: "Folder", grow: true },
          ]}
        />
      </section>
    </>
  );
}

function Streams({ view }: { view: View }) {
  const rows = records(view.streams);
  if (!rows.length) return null;
  return (
    <section>
      <h2 class="section">Change streams</h2>
      <List
        label="Change streams"
        rows={rows}
        truncated={view.streams?.truncated}
        keyOf={(row) => String(row.name)}
        empty={null}
        columns={[
          { name: "name", title: "Stream" },
          { name: "state", title: "State", show: (row) => <Badge tone={row.state === "retired" ? "bad" : "good"}>{String(row.state)}</Badge> },
          { name: "position", title: "Position", numeric: true, show: (row) => count(row.position) },
          { name: "newest_lsn", title: "Newest", numeric: true, show: (row) => count(row.newest_lsn) },
          { name: "lag_bytes", title: "Unread", numeric: true, show: (row) => bytes(row.lag_bytes) },
          { name: "behind", title: "For", numeric: true, show: (row) => (row.behind === null ? "–" : duration(row.behind)) },
          { name: "tablespace", title: "Tablespace", wide: true },
          { name: "owner", title: "Owner", wide: true },
          { name: "tables", title: "Tables", grow: true },
        ]}
      />
    </section>
  );
}
