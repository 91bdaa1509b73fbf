// TypeORM: synchronize, migrations generated from the difference of two models, relations, trees, locks.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';

const require = createRequire(import.meta.url);
require('reflect-metadata');
const {DataSource, EntitySchema, In, Raw, MoreThan, TableColumn, Table, TableIndex, TableForeignKey} = require('typeorm');

function entities(grown) {
  const columns = {
    id: {type: Number, primary: true, generated: 'increment'},
    uid: {type: 'uuid', generated: 'uuid'},
    name: {type: 'varchar', length: 80, comment: 'the name'},
    role: {type: 'enum', enum: ['admin', 'reader'], default: 'reader'},
    moods: {type: 'enum', enum: grown ? ['a', 'b', 'c'] : ['a', 'b'], array: true, nullable: true},
    labels: {type: 'text', array: true, nullable: true},
    simple: {type: 'simple-array', nullable: true},
    document: {type: 'jsonb', nullable: true, default: {}},
    price: {type: 'numeric', precision: grown ? 14 : 12, scale: 2, default: 0},
    place: {type: 'point', nullable: true},
    span: {type: 'tstzrange', nullable: true},
    words: {type: 'tsvector', nullable: true, asExpression: `to_tsvector('simple', coalesce("name", ''))`, generatedType: 'STORED'},
    bits: {type: 'bit varying', length: '8', nullable: true},
    bytes: {type: 'bytea', nullable: true, select: false},
    wait: {type: 'interval', nullable: true},
    address: {type: 'inet', nullable: true},
    made: {type: 'timestamptz', createDate: true},
    changed: {type: 'timestamp', updateDate: true, precision: 3},
    gone: {type: 'timestamp', deleteDate: true},
    version: {type: 'int', version: true},
    ...(grown ? {extra: {type: 'int', nullable: false, default: 7}, nick: {type: 'varchar', nullable: true, unique: true}} : {}),
  };
  const User = new EntitySchema({name: 'User', tableName: 'users', columns,
    relations: {posts: {type: 'one-to-many', target: 'Post', inverseSide: 'author', cascade: true},
      groups: {type: 'many-to-many', target: 'Group', joinTable: true, cascade: true}},
    indices: [{columns: ['name', 'role'], unique: true}, {columns: ['price'], where: '"price" > 0'}],
    checks: [{expression: '"price" >= 0'}], uniques: [{columns: ['uid']}],
    exclusions: [{name: 'no_overlap', expression: 'USING gist ("span" WITH &&)'}]});
  const Post = new EntitySchema({name: 'Post', tableName: 'posts', columns: {
    id: {type: 'bigint', primary: true, generated: 'identity', generatedIdentity: 'BY DEFAULT'},
    title: {type: 'text'}, views: {type: 'int', default: 0}},
  relations: {author: {type: 'many-to-one', target: 'User', onDelete: 'CASCADE', nullable: false, inverseSide: 'posts'}},
  indices: [{columns: ['author', 'title']}]});
  const Group = new EntitySchema({name: 'Group', tableName: 'groups', columns: {
    code: {type: 'varchar', primary: true, length: 10}, note: {type: 'text', nullable: true}}});
  const Node = new EntitySchema({name: 'Node', tableName: 'nodes', columns: {
    id: {type: Number, primary: true, generated: true}, label: {type: 'text'}},
  trees: [{type: 'closure-table'}],
  relations: {parent: {type: 'many-to-one', target: 'Node', treeParent: true, inverseSide: 'children'},
    children: {type: 'one-to-many', target: 'Node', treeChildren: true, inverseSide: 'parent'}}});
  const Totals = new EntitySchema({name: 'Totals', type: 'view', expression:
    'SELECT u."id", count(p."id")::int AS n FROM "users" u LEFT JOIN "posts" p ON p."authorId" = u."id" GROUP BY u."id"',
  columns: {id: {type: Number}, n: {type: Number}}});
  const Cached = new EntitySchema({name: 'Cached', type: 'view',
    expression: 'SELECT "role", count(*)::int AS n FROM "users" GROUP BY "role"', columns: {role: {type: String}, n: {type: Number}}});
  return [User, Post, Group, Node, Totals, Cached];
}

const open = (grown, more = {}) => new DataSource({type: 'postgres', url: process.env.DATABASE_URL, entities: entities(grown),
  logging: process.env.VERBOSE ? true : false, installExtensions: false, uuidExtension: 'pgcrypto', ...more}).initialize();

async function pending(source) {
  return (await source.driver.createSchemaBuilder().log()).upQueries.map(query => query.query);
}

async function rows(source) {
  const users = source.getRepository('User');
  const ada = await users.save({name: 'ada', role: 'admin', moods: ['b', 'a'], labels: ['x', 'y'], simple: ['p', 'q'],
    document: {a: [1]}, price: '12.50', place: '(1,2)', bits: '101', bytes: Buffer.from([1, 2]), wait: '2 hours',
    address: '10.0.0.1', posts: [{title: 'one'}, {title: 'two'}], groups: [{code: 'g1'}, {code: 'g2'}]});
  const read = await users.findOne({where: {id: ada.id}, relations: {posts: true, groups: true}, order: {posts: {id: 'ASC'}}});
  assert.deepEqual(read.moods, ['b', 'a']);
  assert.deepEqual(read.posts.map(post => post.title), ['one', 'two']);
  assert.equal(read.groups.length, 2);
  read.price = '13.00';
  read.posts = [read.posts[0], {title: 'three'}];
  await users.save({...read, posts: undefined});
  assert.equal((await users.findOneBy({id: ada.id})).version, 2);
  await users.insert([{name: 'bob', price: 1}, {name: 'eve', price: 3}]);
  await users.upsert([{name: 'bob', role: 'reader', price: 5}], {conflictPaths: ['name', 'role'], skipUpdateIfNoValuesChanged: true});
  assert.equal((await users.findOneBy({name: 'bob'})).price, '5.00');
  assert.equal(await users.countBy({name: In(['bob', 'eve']), price: MoreThan(4)}), 1);
  assert.equal(await users.countBy({labels: Raw(alias => `${alias} @> ARRAY['x']`)}), 1);
  await users.increment({name: 'bob'}, 'price', 2);
  await users.softDelete({name: 'eve'});
  assert.equal(await users.count(), 2);
  assert.equal(await users.count({withDeleted: true}), 3);
  await users.restore({name: 'eve'});
  const [page, total] = await users.findAndCount({relations: {posts: true}, order: {name: 'DESC'}, take: 2, skip: 1});
  assert.equal(total, 3);
  assert.equal(page.length, 2);
  const raw = await users.createQueryBuilder('u').leftJoin('u.posts', 'p').select('u.role', 'role').addSelect('count(p.id)', 'n')
    .groupBy('u.role').having('count(*) > :least', {least: 0}).orderBy('u.role').getRawMany();
  assert.equal(raw.length, 2);
  const changed = await users.createQueryBuilder().update().set({price: () => 'price + 1'}).where('name = :n', {n: 'bob'}).returning('*').execute();
  assert.equal(changed.raw.length, 1);
  const recursive = await source.createQueryBuilder().addCommonTableExpression('SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5', 't',
    {recursive: true, columnNames: ['n']}).select('sum(n)', 's').from('t', 't').getRawOne();
  assert.equal(Number(recursive.s), 15);
  for (const mode of ['pessimistic_read', 'pessimistic_write', 'for_no_key_update', 'for_key_share']) {
    await source.transaction('REPEATABLE READ', manager => manager.findOne('User', {where: {name: 'bob'}, lock: {mode, onLocked: 'skip_locked'}}));
  }
  await assert.rejects(source.transaction('SERIALIZABLE', async manager => {
    await manager.save('User', {name: 'lost'});
    await manager.transaction(inner => inner.save('User', {name: 'lost'}));
  }), {code: '23505'});
  assert.equal(await users.countBy({name: 'lost'}), 0);
  const trees = source.getTreeRepository('Node');
  const root = await trees.save({label: 'root'});
  const child = await trees.save({label: 'child', parent: root});
  await trees.save({label: 'leaf', parent: child});
  assert.equal(await trees.countDescendants(root), 3);
  assert.equal((await trees.findTrees())[0].children[0].children[0].label, 'leaf');
  assert.equal((await source.getRepository('Totals').find()).length, 3);
  assert.equal((await source.getRepository('Cached').find()).length, 2);
  const stream = await users.createQueryBuilder('u').stream();
  let streamed = 0;
  for await (const _ of stream) streamed += 1;
  assert.equal(streamed, 3);
}

async function changes(source) {
  const runner = source.createQueryRunner();
  await runner.createTable(new Table({name: 'made', columns: [{name: 'id', type: 'int', isPrimary: true}, {name: 'a', type: 'text'}]}));
  await runner.addColumn('made', new TableColumn({name: 'b', type: 'enum', enum: ['x', 'y'], isNullable: true}));
  await runner.changeColumn('made', 'b', new TableColumn({name: 'b', type: 'enum', enum: ['x', 'y', 'z'], isNullable: true}));
  await runner.renameColumn('made', 'a', 'c');
  await runner.createIndex('made', new TableIndex({columnNames: ['c']}));
  await runner.createForeignKey('made', new TableForeignKey({columnNames: ['id'], referencedTableName: 'users', referencedColumnNames: ['id']}));
  await runner.renameTable('made', 'remade');
  const table = await runner.getTable('remade');
  assert.equal(table.columns.length, 3);
  assert.equal(table.foreignKeys.length, 1);
  await runner.dropPrimaryKey('remade');
  await runner.createPrimaryKey('remade', ['id']);
  await runner.dropTable('remade');
  await runner.createSchema('side', true);
  await runner.dropSchema('side', true);
  await runner.release();
}

async function migrate(statements) {
  class Grow1700000000000 {
    name = 'Grow1700000000000';
    async up(runner) { for (const {query, parameters} of statements.upQueries) await runner.query(query, parameters); }
    async down(runner) { for (const {query, parameters} of [...statements.downQueries].reverse()) await runner.query(query, parameters); }
  }
  const source = await open(true, {migrations: [Grow1700000000000]});
  assert.equal((await source.runMigrations({transaction: 'each'})).length, 1);
  assert.deepEqual(await pending(source), []);
  await source.undoLastMigration();
  assert.ok((await pending(source)).length > 0);
  await source.runMigrations();
  await source.destroy();
}

let source = await open(false, {synchronize: true});
assert.deepEqual(await pending(source), []);
await source.synchronize();
await rows(source);
await changes(source);
await source.destroy();
source = await open(true);
const statements = await source.driver.createSchemaBuilder().log();
assert.ok(statements.upQueries.length > 2);
await source.destroy();
await migrate(statements);
source = await open(true);
await source.dropDatabase();
await source.synchronize();
assert.deepEqual(await pending(source), []);
await source.destroy();
