// The cluster: its nodes, and who holds and leads which tablespace.
import { useRef } from "preact/hooks";
import { records, type Row } from "./api";
import { count, duration, number, plural } from "./format";
import { useView } from "./live";
import { Badge, Bar, Heading, Spark, Viewed } from "./ui";

const KEPT = 60; // figures of the line that shows how fast a changelog grows
const LATE = 1000; // entries behind, from which a replica counts as late

export function ClusterPage() {
  const live = useView("cluster", 2);
  const rates = useRates(live.at, records(live.view?.tablespaces));
  return (
    <>
      <Heading title="Cluster" live={live} />
      <Viewed live={live} what="the cluster">
        {() => {
          const nodes = records(live.view!.nodes);
          const spaces = records(live.view!.tablespaces);
          const replicas = records(live.view!.replicas);
          const log = records(live.view!.log);
          return (
            <>
              <Summary nodes={nodes} spaces={spaces} replicas={replicas} stale={log.some((row) => row.cluster_stale === true)} />
              <section aria-label="Nodes" class="cards">
                {nodes.map((node) => (
                  <NodeCard key={String(node.node)} node={node} replicas={replicas} />
                ))}
              </section>
              <SpaceMap nodes={nodes} spaces={spaces} replicas={replicas} rates={rates} />
            </>
          );
        }}
      </Viewed>
    </>
  );
}

function Summary({ nodes, spaces, replicas, stale }: { nodes: Row[]; spaces: Row[]; replicas: Row[]; stale: boolean }) {
  const troubles = [
    ...nodes.filter((node) => node.alive !== true).map((node) => `Node ${node.node} is down.`),
    ...spaces.filter((space) => !space.leader).map((space) => `${space.tablespace} has no leader: writes wait.`),
    ...spaces
      .filter((space) => space.under_replicated === true)
      .map((space) => `${space.tablespace} has ${space.live_replicas} of ${space.expected_replicas} replicas.`),
    ...replicas
      .filter((replica) => (number(replica.lag) ?? 0) > LATE)
      .map((replica) => `${replica.node} is ${count(replica.lag)} entries behind in ${replica.tablespace}.`),
    ...(stale ? ["ZooKeeper cannot be reached: the data shown may be old."] : []),
  ];
  if (!troubles.length)
    return (
      <p class="summary good">
        <span class="dot" aria-hidden="true" /> No problems: {plural(nodes.length, "node")},{" "}
        {plural(spaces.length, "tablespace")}.
      </p>
    );
  return (
    <ul class="summary bad" aria-label="Problems">
      {troubles.map((trouble) => (
        <li key={trouble}>
          <span class="dot" aria-hidden="true" /> {trouble}
        </li>
      ))}
    </ul>
  );
}

function NodeCard({ node, replicas }: { node: Row; replicas: Row[] }) {
  const own = replicas.filter((replica) => replica.node === node.node);
  const leads = own.filter((replica) => replica.role === "leader").length;
  const load = number(node.load);
  const alive = node.alive === true;
  return (
    <article class={`card ${alive ? "" : "down"}`}>
      <h2>
        <span class={`dot ${alive ? "good" : "bad"}`} aria-hidden="true" /> {String(node.node)}
        {node.this_node === true && <Badge tone="accent">this node</Badge>}
        {!alive && <Badge tone="bad">down</Badge>}
      </h2>
      <dl class="facts">
        <dt>Address</dt>
        <dd>{node.host ? `${node.host}:${node.port}` : "–"}</dd>
        <dt>Leads</dt>
        <dd>
          {leads} of {plural(own.length, "tablespace")}
        </dd>
        <dt>Connections</dt>
        <dd>{count(node.connections)}</dd>
        <dt>Up</dt>
        <dd>{duration(node.up)}</dd>
        <dt>Load</dt>
        <dd>{load === null ? "–" : <Bar part={load}>{`${Math.round(load * 100)} %`}</Bar>}</dd>
        <dt>Version</dt>
        <dd>{String(node.version ?? "–")}</dd>
      </dl>
      {alive && node.admin && node.this_node !== true && (
        <a class="card-link" href={consoleOf(String(node.admin))} target="_blank" rel="noopener noreferrer">
          Open its console
        </a>
      )}
    </article>
  );
}

/** Of a node's administration port, HOST:PORT or https://HOST:PORT. */
function consoleOf(admin: string): string {
  return admin.includes("://") ? `${admin}/` : `http://${admin}/`;
}

interface MapProps {
  nodes: Row[];
  spaces: Row[];
  replicas: Row[];
  rates: Map<string, number[]>;
}

function SpaceMap({ nodes, spaces, replicas, rates }: MapProps) {
  return (
    <section>
      <h2 class="section">Tablespaces</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Tablespaces by node">
        <table class="map">
          <thead>
            <tr>
              <th scope="col">Tablespace</th>
              <th scope="col" class="numeric">Head</th>
              <th scope="col">Entries per second</th>
              {nodes.map((node) => (
                <th scope="col" key={String(node.node)}>
                  {String(node.node)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {spaces.map((space) => {
              const values = rates.get(String(space.tablespace)) ?? [];
              return (
                <tr key={String(space.tablespace)}>
                  <th scope="row">
                    {String(space.tablespace)}
                    <div class="muted small">
                      {plural(number(space.live_replicas) ?? 0, "replica")}
                      {number(space.epoch) ? `, epoch ${space.epoch}` : ""}
                    </div>
                  </th>
                  <td class="numeric">{count(space.head_lsn)}</td>
                  <td class="rate">
                    <span>{values.length ? values[values.length - 1]!.toFixed(0) : "–"}</span>
                    <Spark values={values} label={`Entries per second of ${space.tablespace} over the last minutes`} />
                  </td>
                  {nodes.map((node) => (
                    <td key={String(node.node)}>
                      <Replica
                        replica={replicas.find((item) => item.node === node.node && item.tablespace === space.tablespace)}
                      />
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Replica({ replica }: { replica: Row | undefined }) {
  if (!replica) return <span class="muted" aria-label="no replica">·</span>;
  const lag = number(replica.lag);
  const role = String(replica.role ?? "missing");
  const tone = role === "leader" ? "accent" : role === "follower" ? (lag !== null && lag > LATE ? "warn" : "good") : "warn";
  const seen = replica.this_node === true ? "" : `, seen ${duration(replica.seen)} ago`;
  return (
    <div class="replica">
      <Badge tone={tone} title={`applied ${count(replica.applied_lsn)}, flushed ${count(replica.flushed_lsn)}${seen}`}>
        {role === "leader" ? "★ " : ""}
        {role}
      </Badge>
      <div class="muted small">
        {standing(role, replica)}
      </div>
    </div>
  );
}

function standing(role: string, replica: Row): string {
  const lag = number(replica.lag);
  if (role === "leader") return `LSN ${count(replica.applied_lsn)}`;
  if (role === "missing") return "should be here";
  if (lag === null) return "lag unknown";
  return lag === 0 ? "up to date" : `${count(lag)} behind`;
}

/** Entries per second of each tablespace, from one answer to the next. */
function useRates(at: number, spaces: Row[]): Map<string, number[]> {
  const kept = useRef({ at: 0, heads: new Map<string, number>(), rates: new Map<string, number[]>() });
  const last = kept.current;
  if (at > last.at) {
    for (const space of spaces) {
      const name = String(space.tablespace);
      const head = number(space.head_lsn) ?? 0;
      const before = last.heads.get(name);
      if (before !== undefined && last.at) {
        const rate = Math.max(0, head - before) / ((at - last.at) / 1000);
        last.rates.set(name, [...(last.rates.get(name) ?? []), rate].slice(-KEPT));
      }
      last.heads.set(name, head);
    }
    last.at = at;
  }
  return last.rates;
}
