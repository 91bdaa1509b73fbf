// drizzle-kit: generate, migrate, push to an empty and to a filled database, pull; and queries of Drizzle ORM.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import {fileURLToPath} from 'node:url';
import {drizzle} from 'drizzle-orm/node-postgres';
import {sql} from 'drizzle-orm';
import pg from 'pg';

const home = new URL('.', import.meta.url);
const url = process.env.DATABASE_URL;
const kit = fileURLToPath(new URL('node_modules/drizzle-kit/bin.cjs', home));

function run(word, database, ...more) {
  fs.writeFileSync('drizzle.config.ts', `export default {dialect: 'postgresql', schema: './schema.ts', out: './out',
    schemaFilter: ['public', 'side'], entities: {roles: false}, dbCredentials: {url: ${JSON.stringify(url.replace(/[^/]*$/, database))}}};`);
  const done = execFileSync('node', [kit, word, ...more], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe']});
  assert.ok(!/error/i.test(done.replace(/errors?: 0/gi, '')), `${word}: ${done.slice(-1500)}`);
  return done;
}

async function query(database, ...statements) {
  const client = new pg.Client(url.replace(/[^/]*$/, database));
  await client.connect();
  let result;
  for (const statement of statements) result = await client.query(statement);
  await client.end();
  return result.rows;
}

await query(process.env.PGDATABASE, 'DROP DATABASE IF EXISTS pushed', 'CREATE DATABASE pushed', 'DROP DATABASE IF EXISTS migrated', 'CREATE DATABASE migrated');
const first = fs.readFileSync(new URL('schema.ts', home), 'utf8');
const second = first.replace("['admin', 'reader']", "['admin', 'reader', 'writer']").replace("small: smallint('small').default(3)", "small: integer('small').default(4), extra: text('extra').default('e').notNull()")
  .replace("index('users_name')", "index('users_made').on(table.made), index('users_name')").replace("price} >= 0", "price} >= 1");

fs.writeFileSync('schema.ts', first);
run('generate', 'migrated');
run('migrate', 'migrated');
fs.writeFileSync('schema.ts', second);
run('generate', 'migrated');
run('migrate', 'migrated');
assert.equal((await query('migrated', 'SELECT * FROM drizzle.__drizzle_migrations')).length, 2);
run('migrate', 'migrated');

fs.writeFileSync('schema.ts', first);
run('push', 'pushed', '--force');
fs.writeFileSync('schema.ts', second);
run('push', 'pushed', '--force');
assert.match(run('push', 'pushed', '--force'), /No changes detected|Changes applied/);

fs.rmSync('out', {recursive: true, force: true});
run('pull', 'migrated');
const pulled = fs.readFileSync('out/schema.ts', 'utf8');
for (const word of ['users_lower', "pgEnum(\"role\"", 'posts_once', 'labels_post', 'price_is_positive', 'generatedAlwaysAsIdentity', 'pgMaterializedView', 'pgPolicy', 'pgSequence']) {
  assert.ok(pulled.includes(word), `${word} is missing from what was pulled:\n${pulled}`);
}

const pool = new pg.Pool({connectionString: url.replace(/[^/]*$/, 'migrated')});
const db = drizzle(pool);
await db.execute(sql`INSERT INTO users (name, roles, price) VALUES ('ada', '{admin,writer}', 2), ('bob', '{}', 3)`);
await db.transaction(async outer => {
  await outer.execute(sql`INSERT INTO posts (author, title) VALUES (1, 'one')`);
  await outer.transaction(async inner => { await inner.execute(sql`DELETE FROM posts`); inner.rollback(); }).catch(() => undefined);
});
assert.equal((await db.execute(sql`SELECT * FROM totals`)).rows.length, 1);
await pool.end();
