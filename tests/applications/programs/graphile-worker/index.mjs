// graphile-worker: its migrations, jobs added from Node and from SQL, keys, queues, a crontab, failures.
import assert from 'node:assert/strict';
import {makeWorkerUtils, run} from 'graphile-worker';

const connectionString = process.env.DATABASE_URL;
const utils = await makeWorkerUtils({connectionString});
await utils.migrate();
await utils.migrate();
for (let i = 0; i < 20; i++) await utils.addJob('count', {i}, {priority: i % 3});
for (const jobKeyMode of ['replace', 'preserve_run_at', 'unsafe_dedupe']) await utils.addJob('count', {}, {jobKey: 'k', jobKeyMode});
await utils.addJobs([{identifier: 'count', payload: {a: 1}}, {identifier: 'count', payload: {a: 2}}]);
await utils.withPgClient(client => client.query(`SELECT graphile_worker.add_job('count', json_build_object('a', 1), queue_name := 'serial',
  run_at := now() + interval '1 second', max_attempts := 3, flags := array['x'])`));
await utils.addJob('fail', {}, {maxAttempts: 1});
await utils.addJob('count', {}, {runAt: new Date(Date.now() + 1e8), jobKey: 'later'});
await utils.withPgClient(client => client.query(`SELECT graphile_worker.remove_job('later')`));
const held = await utils.addJob('count', {}, {runAt: new Date(Date.now() + 1e8)});
assert.equal((await utils.rescheduleJobs([held.id], {attempts: 2})).length, 1);
assert.equal((await utils.completeJobs([held.id])).length, 1);
let ran = 0;
const runner = await run({connectionString, concurrency: 4, pollInterval: 200, noHandleSignals: true, crontab: '* * * * * count ?id=x',
  taskList: {count: async () => { ran += 1; }, fail: async () => { throw new Error('as planned'); }}});
for (let i = 0; i < 60 && ran < 24; i++) await new Promise(resolve => setTimeout(resolve, 200));
await runner.stop();
assert.equal(ran, 24, `${ran} of 24 jobs ran`);
const {rows: left} = await utils.withPgClient(client => client.query('SELECT task_identifier, attempts, last_error FROM graphile_worker.jobs'));
assert.equal(left.length, 1);
assert.match(left[0].last_error, /as planned/);
await utils.cleanup({tasks: ['GC_TASK_IDENTIFIERS', 'GC_JOB_QUEUES', 'DELETE_PERMAFAILED_JOBS']});
await utils.release();
