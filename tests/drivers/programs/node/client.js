// node-postgres: prints what it sees, a line each; the test compares the lines of two servers.
// Arguments: host, port, schema.
"use strict";
const { pipeline } = require("node:stream/promises");
const { Readable, Writable } = require("node:stream");
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const { from, to } = require("pg-copy-streams");

const [host, port, schema] = process.argv.slice(2);
const options = {
  host, port: Number(port), user: "postgres", database: "postgres",
  options: `-c search_path=${schema} -c TimeZone=UTC`,
};

function show(title, value) {
  const shown = JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `${item}n` : item));
  console.log(`${title}: ${shown}`);
}

async function failing(title, promise) {
  try {
    await promise;
    show(title, "no error");
  } catch (error) {
    const { code, severity, message, detail, position, table, column, constraint } = error;
    show(title, { code, severity, message, detail, position, table, column, constraint });
  }
}

const TYPES = [
  ["bool", [true, false]],
  ["int2", [-32768, 32767]],
  ["int4", [-2147483648, 2147483647]],
  ["int8", ["-9223372036854775808", "9223372036854775807"]],
  ["float4", [1.5, -0.25]],
  ["float8", [0.1, 1.7976931348623157e308]],
  ["numeric", ["1.10", "-99999999999999999999.5", "NaN"]],
  ["numeric(12,4)", ["1.1000", "-99999999.9999"]],
  ["text", ["", "plain", "äöü 漢字 😀", "it's \\ \"quoted\"\t\n"]],
  ["varchar(20)", ["", "ünïcode"]],
  ["char(5)", ["ab", "äöüßé"]],
  ["bytea", [Buffer.from([0, 1, 255]), Buffer.alloc(0)]],
  ["date", ["2000-02-29", "1969-12-31"]],
  ["time", ["12:30:15.000001"]],
  ["timetz", ["12:30:15+02"]],
  ["timestamp", ["2024-02-29 12:00:00.123456"]],
  ["timestamptz", [new Date(Date.UTC(2024, 1, 29, 12, 0, 0, 123))]],
  ["interval", ["1 year 2 mons 3 days 04:05:06"]],
  ["uuid", ["f47ac10b-58cc-4372-a567-0e02b2c3d479"]],
  ["json", [{ a: [1, null, "x"] }]],
  ["jsonb", [{ b: { c: 2.5 } }]],
  ["inet", ["192.168.1.0/24"]],
  ["int4[]", [[1, 2, 3], []]],
  ["text[]", [["a", 'with "quotes" and, commas', ""]]],
];

async function types(client) {
  for (const [type, values] of TYPES) {
    await client.query("DROP TABLE IF EXISTS t");
    await client.query(`CREATE TABLE t (id int PRIMARY KEY, v ${type})`);
    for (const [id, value] of [...values, null].entries()) {
      const sent = type.startsWith("json") && value !== null ? JSON.stringify(value) : value;
      const done = await client.query("INSERT INTO t VALUES ($1, $2)", [id, sent]);
      if (done.rowCount !== 1) throw new Error("one row");
    }
    const { rows, fields } = await client.query("SELECT v FROM t ORDER BY id");
    show(type, { oid: fields[0].dataTypeID, values: rows.map((row) => row.v) });
  }
}

async function statements(client) {
  await client.query("CREATE TABLE people (id serial PRIMARY KEY, name text UNIQUE NOT NULL, age int CHECK (age >= 0))");
  const added = await client.query("INSERT INTO people (name, age) VALUES ($1, $2), ($3, $4) RETURNING *",
    ["Ann", 30, "Bo", null]);
  show("returning", [added.command, added.rowCount, added.rows]);
  const named = { name: "by-age", text: "SELECT name FROM people WHERE age > $1 ORDER BY name" };
  for (const age of [10, 29, 40]) {
    show(`named ${age}`, (await client.query({ ...named, values: [age] })).rows);
  }
  show("arrays of rows", (await client.query({ text: "SELECT id, name FROM people ORDER BY id", rowMode: "array" })).rows);
  show("any", (await client.query("SELECT name FROM people WHERE id = ANY($1) ORDER BY 1", [[1, 2]])).rows);
  const several = await client.query("SELECT 1 AS a; UPDATE people SET age = 1 WHERE name = 'Bo'; SELECT 2 AS b");
  show("several", several.map((result) => [result.command, result.rowCount, result.rows]));
  await client.query("ALTER TABLE people ADD COLUMN email text DEFAULT 'none'");
  show("altered", (await client.query("SELECT * FROM people ORDER BY id")).rows);
}

async function transactions(client) {
  await client.query("BEGIN");
  await client.query("DELETE FROM people");
  await client.query("SAVEPOINT one");
  await failing("unique", client.query("INSERT INTO people (id, name) VALUES (7, 'Cy'), (8, 'Cy')"));
  await failing("aborted", client.query("SELECT 1"));
  await client.query("ROLLBACK TO one");
  show("inside", (await client.query("SELECT count(*)::int AS n FROM people")).rows);
  await client.query("ROLLBACK");
  show("after", (await client.query("SELECT count(*)::int AS n FROM people")).rows);
}

async function errors(client) {
  await failing("syntax", client.query("SELECT 1 FORM people"));
  await failing("column", client.query("SELECT missing FROM people"));
  await failing("not null", client.query("INSERT INTO people (name) VALUES ($1)", [null]));
  await failing("check", client.query("INSERT INTO people (name, age) VALUES ('Di', -1)"));
  await failing("number", client.query("SELECT $1::int", ["x"]));
  await failing("zero", client.query("SELECT 1 / $1::int", [0]));
  await failing("parameters", client.query("SELECT $1::int, $2::int", [1]));
}

async function streams(client) {
  await client.query("CREATE TABLE numbers (a int PRIMARY KEY, b text)");
  const lines = Array.from({ length: 5000 }, (_, number) => `${number}\tnumber ${number}\n`);
  await pipeline(Readable.from(lines), client.query(from("COPY numbers FROM STDIN")));
  let copied = "";
  const sink = new Writable({ write(chunk, _, done) { copied += chunk; done(); } });
  await pipeline(client.query(to("COPY (SELECT * FROM numbers WHERE a % 1000 = 7 ORDER BY a) TO STDOUT WITH CSV HEADER")), sink);
  show("copy", copied);
  await failing("bad copy", pipeline(Readable.from(["x\ty\n"]), client.query(from("COPY numbers FROM STDIN"))));
  const cursor = client.query(new Cursor("SELECT a FROM numbers WHERE a < $1 ORDER BY a", [250]));
  const sizes = [];
  for (let rows = await cursor.read(100); rows.length; rows = await cursor.read(100)) {
    sizes.push([rows.length, rows[0].a]);
  }
  await cursor.close();
  show("cursor", sizes);
}

async function main() {
  const client = new Client(options);
  client.on("notice", (notice) => show("notice", [notice.severity, notice.code, notice.message]));
  await client.connect();
  await types(client);
  await client.query("DROP TABLE IF EXISTS missing");
  await statements(client);
  await transactions(client);
  await errors(client);
  await streams(client);
  await client.end();
  const pool = new Pool({ ...options, max: 4 });
  const sums = await Promise.all(Array.from({ length: 20 }, (_, n) => pool.query("SELECT sum(g)::int AS s FROM generate_series(1, $1::int) g", [n])));
  show("pool", sums.map((result) => result.rows[0].s));
  await pool.end();
}

main().catch((error) => { console.error(error); process.exit(1); });
