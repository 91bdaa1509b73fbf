// Sequelize: models with every kind of column, associations, transactions, changes of the schema, sequelize-cli.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import {fileURLToPath} from 'node:url';

const require = createRequire(import.meta.url);
const {Sequelize, DataTypes, Op, Transaction, QueryTypes} = require('sequelize');
const url = process.env.DATABASE_URL;
const sequelize = new Sequelize(url, {logging: process.env.VERBOSE ? console.log : false});
const queries = sequelize.getQueryInterface();

async function models() {
  const User = sequelize.define('User', {
    name: {type: DataTypes.STRING(80), allowNull: false, unique: true},
    role: {type: DataTypes.ENUM('admin', 'writer', 'reader'), defaultValue: 'reader'},
    profile: DataTypes.JSONB,
    plain: DataTypes.JSON,
    tags: DataTypes.ARRAY(DataTypes.TEXT),
    period: DataTypes.RANGE(DataTypes.DATE),
    numbers: DataTypes.RANGE(DataTypes.INTEGER),
    money: DataTypes.DECIMAL(12, 2),
    big: DataTypes.BIGINT,
    ratio: DataTypes.DOUBLE,
    born: DataTypes.DATEONLY,
    wakes: DataTypes.TIME,
    token: {type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4},
    picture: DataTypes.BLOB,
    address: DataTypes.INET,
    mac: DataTypes.MACADDR,
    words: DataTypes.TSVECTOR,
    active: {type: DataTypes.BOOLEAN, defaultValue: true},
    shout: {type: DataTypes.VIRTUAL, get() { return this.name?.toUpperCase(); }},
  }, {paranoid: true, version: true, comment: 'the users', indexes: [
    {fields: ['role', 'born'], name: 'users_role_born', where: {active: true}},
    {fields: ['profile'], using: 'gin', operator: 'jsonb_path_ops'},
    {unique: true, fields: [sequelize.fn('lower', sequelize.col('name'))], name: 'users_lower'},
  ]});
  const Post = sequelize.define('Post', {title: DataTypes.STRING, body: {type: DataTypes.TEXT, comment: 'the text'},
    views: {type: DataTypes.INTEGER, defaultValue: 0, validate: {min: 0}}});
  const Tag = sequelize.define('Tag', {label: {type: DataTypes.STRING, primaryKey: true},
    moods: DataTypes.ARRAY(DataTypes.ENUM('happy', 'sad'))}, {timestamps: false});
  User.hasMany(Post, {as: 'posts', foreignKey: {name: 'authorId', allowNull: false}, onDelete: 'CASCADE'});
  Post.belongsTo(User, {as: 'author', foreignKey: 'authorId'});
  Post.belongsToMany(Tag, {through: 'PostTags'});
  Tag.belongsToMany(Post, {through: 'PostTags'});
  User.hasOne(User, {as: 'mentor', foreignKey: 'mentorId', constraints: false});
  await sequelize.sync();
  // Not Tag: Sequelize 6 alters a column of enum arrays with a cast that PostgreSQL refuses.
  for (const model of [User, User, Post, Post]) await model.sync({alter: true});
  await sequelize.sync({force: true});
  return {User, Post, Tag};
}

async function rows({User, Post, Tag}) {
  const ada = await User.create({name: 'ada', role: 'admin', profile: {lang: ['en'], n: {x: 1}},
    plain: {a: 1}, tags: ['a', 'b"c'], period: [new Date('2026-01-01'), new Date('2026-02-01')], numbers: [1, 10],
    money: '12.34', big: '9007199254740993', ratio: 1.5, born: '1815-12-10', wakes: '07:30:00',
    picture: Buffer.from([0, 1, 255]), address: '10.0.0.1/32', mac: '08:00:2b:01:02:03',
    words: sequelize.fn('to_tsvector', 'english', 'the quick foxes')});
  const read = await User.findByPk(ada.id);
  assert.deepEqual(read.profile, {lang: ['en'], n: {x: 1}});
  assert.deepEqual(read.tags, ['a', 'b"c']);
  assert.equal(read.big, '9007199254740993');
  assert.deepEqual([...read.picture], [0, 1, 255]);
  assert.equal(read.numbers[0].value, 1);
  assert.equal(read.shout, 'ADA');
  await assert.rejects(User.create({name: 'ada'}), {name: 'SequelizeUniqueConstraintError'});
  await assert.rejects(Post.create({title: 'x', authorId: 99}), {name: 'SequelizeForeignKeyConstraintError'});
  await assert.rejects(sequelize.query(`UPDATE "Users" SET role = 'none'`), {name: 'SequelizeDatabaseError'});
  const [bob, created] = await User.findOrCreate({where: {name: 'bob'}, defaults: {role: 'writer'}});
  assert.ok(created);
  assert.ok(!(await User.findOrCreate({where: {name: 'bob'}, defaults: {role: 'writer'}}))[1]);
  const racing = await Promise.all([1, 2, 3].map(() => User.findOrCreate({where: {name: 'racer'}})));
  assert.equal(racing.filter(([, made]) => made).length, 1);
  assert.ok((await User.findCreateFind({where: {name: 'cleo'}}))[1]);
  const [again] = await User.upsert({id: bob.id, name: 'bob', role: 'admin'});
  assert.equal(again.role, 'admin');
  const posts = await Post.bulkCreate([1, 2, 3, 4].map(n => ({title: `t${n}`, authorId: n % 2 ? ada.id : bob.id})),
    {returning: true});
  await Post.bulkCreate([{id: posts[0].id, title: 'new', authorId: ada.id}], {updateOnDuplicate: ['title']});
  await Tag.bulkCreate([{label: 'sql', moods: ['happy', 'sad']}, {label: 'js'}], {ignoreDuplicates: true});
  await Tag.bulkCreate([{label: 'sql'}], {ignoreDuplicates: true});
  assert.equal((await Tag.findOne({where: {moods: {[Op.overlap]: ['sad']}}})).moods.length, 2);
  await posts[0].setTags(['sql', 'js']);
  await posts[1].addTag('sql');
  const found = await User.findAll({include: [{association: 'posts', where: {views: 0}, required: false,
    include: [{model: Tag, through: {attributes: []}}]}], order: [['name', 'ASC'], ['posts', 'id', 'DESC']], limit: 2});
  assert.equal(found[0].posts[1].Tags.length, 2);
  const {count} = await Post.findAndCountAll({include: [{association: 'author', where: {role: 'admin'}}], limit: 1});
  assert.equal(count, 4);
  assert.equal(await User.count({where: {[Op.or]: [{profile: {n: {x: 1}}}, {tags: {[Op.contains]: ['zz']}}]}}), 1);
  assert.equal(await User.count({where: {numbers: {[Op.contains]: 5}, name: {[Op.iLike]: 'AD%'}}}), 1);
  assert.equal(await User.count({where: {words: {[Op.match]: sequelize.fn('to_tsquery', 'fox')}}}), 1);
  const grouped = await Post.findAll({attributes: ['authorId', [sequelize.fn('COUNT', sequelize.col('id')), 'n']],
    group: ['authorId'], having: sequelize.literal('count(*) > 1'), raw: true});
  assert.equal(grouped.length, 2);
  await Post.increment({views: 5}, {where: {authorId: ada.id}});
  assert.equal(Number(await Post.sum('views')), 10);
  const [changed, rowsChanged] = await Post.update({title: 'u'}, {where: {authorId: bob.id}, returning: true});
  assert.equal(changed, rowsChanged.length);
  const stale = await User.findByPk(bob.id);
  await User.findByPk(bob.id).then(row => row.update({role: 'reader'}));
  await assert.rejects(stale.update({role: 'writer'}), {name: 'SequelizeOptimisticLockError'});
  await (await User.findOne({where: {name: 'cleo'}})).destroy();
  assert.equal(await User.count({where: {name: 'cleo'}}), 0);
  await User.restore({where: {name: 'cleo'}});
  await User.destroy({where: {name: 'cleo'}, force: true});
}

async function transactions({User}) {
  await assert.rejects(sequelize.transaction(async transaction => {
    await User.create({name: 'gone'}, {transaction});
    throw new Error('back');
  }), /back/);
  assert.equal(await User.count({where: {name: 'gone'}}), 0);
  for (const isolationLevel of Object.values(Transaction.ISOLATION_LEVELS)) {
    await sequelize.transaction({isolationLevel, deferrable: sequelize.Sequelize.Deferrable?.SET_DEFERRED}, async outer => {
      await User.findAll({transaction: outer, lock: outer.LOCK.UPDATE, skipLocked: true});
      await User.findAll({transaction: outer, lock: outer.LOCK.NO_KEY_UPDATE});
      await User.findAll({transaction: outer, lock: outer.LOCK.KEY_SHARE});
      await sequelize.transaction({transaction: outer}, async inner => User.count({transaction: inner}));
    });
  }
}

async function schema() {
  const described = await queries.describeTable('Users');
  assert.deepEqual([...described.role.special].sort(), ['admin', 'reader', 'writer']);
  assert.equal(described.id.primaryKey, true);
  assert.equal((await queries.describeTable('Posts')).body.comment, 'the text');
  assert.ok((await queries.showAllTables()).includes('PostTags'));
  assert.equal((await queries.showIndex('Users')).length, 5);
  assert.equal((await queries.getForeignKeyReferencesForTable('Posts')).length, 1);
  assert.equal((await queries.getForeignKeysForTables(['Posts'])).Posts.length, 1);
  await queries.addColumn('Posts', 'kind', {type: DataTypes.ENUM('a', 'b'), defaultValue: 'a', allowNull: false});
  await queries.changeColumn('Posts', 'kind', {type: DataTypes.ENUM('a', 'b', 'c'), defaultValue: 'b'});
  await queries.changeColumn('Posts', 'title', {type: DataTypes.TEXT, allowNull: false});
  await queries.renameColumn('Posts', 'kind', 'sort');
  await queries.addIndex('Posts', ['title'], {concurrently: true});
  await queries.removeIndex('Posts', ['title']);
  await queries.addConstraint('Posts', {fields: ['views'], type: 'check', name: 'positive', where: {views: {[Op.gte]: 0}}});
  await queries.addConstraint('Posts', {fields: ['title', 'id'], type: 'unique', name: 'once'});
  assert.ok((await queries.showConstraint('Posts')).length >= 4);
  await queries.removeConstraint('Posts', 'once');
  await queries.removeColumn('Posts', 'sort');
  await queries.renameTable('Posts', 'Articles');
  await queries.createSchema('side');
  assert.ok((await queries.showAllSchemas()).includes('side'));
  await queries.createFunction('double', [{type: 'integer', name: 'n'}], 'integer', 'plpgsql', 'RETURN n * 2;',
    ['IMMUTABLE', 'STRICT'], {variables: [{type: 'integer', name: 'unused', default: 1}]});
  const [{double: doubled}] = await sequelize.query('SELECT double(21)', {type: QueryTypes.SELECT});
  assert.equal(doubled, 42);
  await queries.renameFunction('double', [{type: 'integer', name: 'n'}], 'twice');
  await queries.dropFunction('twice', [{type: 'integer', name: 'n'}]);
  await queries.createTable('Audits', {id: {type: DataTypes.INTEGER, primaryKey: true, autoIncrement: true}, t: DataTypes.TEXT});
  await queries.bulkInsert('Audits', [{t: 'a'}, {t: 'b'}]);
  await queries.bulkDelete('Audits', {t: 'a'});
  await queries.dropSchema('side');
  await sequelize.drop({cascade: true});
  await queries.dropAllTables();
  await queries.dropAllEnums();
}

function commandLine() {
  const cli = fileURLToPath(new URL('node_modules/sequelize-cli/lib/sequelize', import.meta.url));
  const run = (word, at = url) => execFileSync('node', [cli, word, '--url', at], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe']});
  execFileSync('node', [cli, 'init'], {stdio: 'ignore'});
  execFileSync('node', [cli, 'model:generate', '--name', 'Thing', '--attributes',
    'label:string,kind:enum:{x,y},parts:array:integer'], {stdio: 'ignore'});
  fs.writeFileSync('migrations/20990101000000-more.js', `module.exports = {
    up: (q, S) => q.sequelize.transaction(async transaction => {
      await q.addColumn('Things', 'extra', {type: S.JSONB, defaultValue: {}}, {transaction});
      await q.addIndex('Things', ['label'], {unique: true, transaction});
      await q.bulkInsert('Things', [{label: 'a', kind: 'x', createdAt: new Date(), updatedAt: new Date()}], {transaction});
    }),
    down: async q => { await q.bulkDelete('Things', {}); await q.removeIndex('Things', ['label']); await q.removeColumn('Things', 'extra'); },
  };`);
  fs.writeFileSync('seeders/20990101000000-seed.js', `module.exports = {
    up: q => q.bulkInsert('Things', [{label: 's', kind: 'y', createdAt: new Date(), updatedAt: new Date()}]),
    down: q => q.bulkDelete('Things', {label: 's'}),
  };`);
  run('db:migrate');
  assert.equal(run('db:migrate:status').match(/^up/gm).length, 2);
  run('db:seed:all');
  run('db:seed:undo:all');
  run('db:migrate:undo');
  run('db:migrate');
  run('db:migrate:undo:all');
  run('db:create', url.replace('postgresql:', 'postgres:').replace(/[^/]*$/, 'made_by_cli'));
}

const all = await models();
await rows(all);
await transactions(all);
await schema();
await sequelize.close();
commandLine();
