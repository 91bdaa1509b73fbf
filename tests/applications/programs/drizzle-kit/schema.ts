import {sql} from 'drizzle-orm';
import {bigint, bigserial, boolean, check, date, foreignKey, index, inet, integer, interval, json, jsonb, numeric, pgEnum, pgMaterializedView,
  pgPolicy, pgRole, pgSchema, pgSequence, pgTable, pgView, point, primaryKey, real, serial, smallint, text, time, timestamp, unique, uniqueIndex,
  uuid, varchar} from 'drizzle-orm/pg-core';

export const role = pgEnum('role', ['admin', 'reader']);
export const side = pgSchema('side');
export const mood = side.enum('mood', ['a', 'b']);
export const numbers = pgSequence('numbers', {startWith: 100, increment: 5, cache: 3});
export const users = pgTable('users', {
  id: serial('id').primaryKey(),
  uid: uuid('uid').defaultRandom().notNull().unique(),
  name: varchar('name', {length: 80}).notNull(),
  role: role('role').default('reader').notNull(),
  roles: role('roles').array().default([]),
  mood: mood('mood'),
  tags: text('tags').array().notNull().default(sql`'{}'::text[]`),
  grid: integer('grid').array().array(),
  document: jsonb('document').default({a: 1}),
  plain: json('plain'),
  price: numeric('price', {precision: 12, scale: 2}).default('0'),
  ratio: real('ratio'),
  small: smallint('small').default(3),
  active: boolean('active').default(true),
  born: date('born').defaultNow(),
  wakes: time('wakes'),
  wait: interval('wait'),
  place: point('place'),
  address: inet('address'),
  made: timestamp('made', {withTimezone: true, precision: 3}).defaultNow(),
  lower: text('lower').generatedAlwaysAs(sql`lower(name)`),
}, table => [
  index('users_name').on(table.name.desc(), table.role),
  uniqueIndex('users_lower').on(sql`lower(${table.name})`).where(sql`${table.active}`),
  index('users_document').using('gin', table.document),
  check('price_is_positive', sql`${table.price} >= 0`),
]);
export const posts = pgTable('posts', {
  id: bigint('id', {mode: 'number'}).generatedAlwaysAsIdentity({startWith: 10}).primaryKey(),
  author: integer('author').references(() => users.id, {onDelete: 'cascade'}).notNull(),
  title: text('title').notNull(),
}, table => [unique('posts_once').on(table.author, table.title).nullsNotDistinct()]);
export const labels = side.table('labels', {
  post: bigint('post', {mode: 'number'}).notNull(),
  label: text('label').notNull(),
}, table => [primaryKey({columns: [table.post, table.label]}), foreignKey({columns: [table.post], foreignColumns: [posts.id], name: 'labels_post'})]);
export const secrets = pgTable('secrets', {id: bigserial('id', {mode: 'number'}).primaryKey(), owner: text('owner')},
  () => [pgPolicy('own', {for: 'select', to: 'public', using: sql`owner = current_user`}), pgPolicy('none', {as: 'restrictive', for: 'delete', using: sql`false`})]).enableRLS();
export const totals = pgView('totals').as(query => query.select({author: posts.author, n: sql<number>`count(*)`.as('n')}).from(posts).groupBy(posts.author));
export const cached = pgMaterializedView('cached').as(query => query.select({id: users.id}).from(users));
