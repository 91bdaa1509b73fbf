// river: its migrations up and down, jobs inserted alone, in bulk, in transactions and once only, worked, retried,
// cancelled, snoozed, scheduled; a periodic job; queues paused.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

type countArgs struct {
	Number int    `json:"number"`
	Way    string `json:"way"`
}

func (countArgs) Kind() string { return "count" }

type countWorker struct {
	river.WorkerDefaults[countArgs]
}

var counted, ticks atomic.Int64

func (w *countWorker) Work(ctx context.Context, job *river.Job[countArgs]) error {
	switch {
	case job.Args.Way == "tick":
		ticks.Add(1)
	case job.Args.Way == "fail once" && job.Attempt == 1:
		return errors.New("as planned")
	case job.Args.Way == "snooze" && job.Attempt == 1 && time.Since(job.CreatedAt) < time.Second:
		return river.JobSnooze(time.Second)
	case job.Args.Way == "cancel":
		return river.JobCancel(errors.New("cancelled as planned"))
	default:
		counted.Add(1)
	}
	return nil
}

func (w *countWorker) NextRetry(job *river.Job[countArgs]) time.Time { return time.Now() }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(holds bool, what string) {
	if !holds {
		fmt.Fprintln(os.Stderr, what)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	must(err)
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: -1})
	must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	must(err)
	validated, err := migrator.Validate(ctx, nil)
	must(err)
	check(validated.OK, fmt.Sprint(validated.Messages))

	workers := river.NewWorkers()
	river.AddWorker(workers, &countWorker{})
	every := river.NewPeriodicJob(river.PeriodicInterval(time.Second), func() (river.JobArgs, *river.InsertOpts) {
		return countArgs{Way: "tick"}, nil
	}, &river.PeriodicJobOpts{RunOnStart: true})
	client, err := river.NewClient(driver, &river.Config{
		Queues:       map[string]river.QueueConfig{"default": {MaxWorkers: 10}, "other": {MaxWorkers: 2}},
		Workers:      workers,
		PeriodicJobs: []*river.PeriodicJob{every},
	})
	must(err)
	many := make([]river.InsertManyParams, 50)
	for number := range many {
		many[number] = river.InsertManyParams{Args: countArgs{Number: number}, InsertOpts: &river.InsertOpts{Priority: 1 + number%4, Tags: []string{"tag"}}}
	}
	_, err = client.InsertMany(ctx, many)
	must(err)
	_, err = client.InsertManyFast(ctx, many)
	must(err)
	tx, err := pool.Begin(ctx)
	must(err)
	_, err = client.InsertTx(ctx, tx, countArgs{Way: "undone"}, nil)
	must(err)
	must(tx.Rollback(ctx))
	once := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByPeriod: time.Hour}, Queue: "other"}
	first, err := client.Insert(ctx, countArgs{Way: "once"}, once)
	must(err)
	second, err := client.Insert(ctx, countArgs{Way: "once"}, once)
	must(err)
	check(!first.UniqueSkippedAsDuplicate && second.UniqueSkippedAsDuplicate, "a unique job was inserted twice")
	for _, way := range []string{"fail once", "snooze", "cancel"} {
		_, err = client.Insert(ctx, countArgs{Way: way}, nil)
		must(err)
	}
	later, err := client.Insert(ctx, countArgs{Way: "later"}, &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)})
	must(err)
	cancelled, err := client.JobCancel(ctx, later.Job.ID)
	must(err)
	check(cancelled.State == rivertype.JobStateCancelled, "a job was not cancelled")

	must(client.Start(ctx))
	for limit := time.Now().Add(30 * time.Second); (counted.Load() < 103 || ticks.Load() == 0) && time.Now().Before(limit); {
		time.Sleep(100 * time.Millisecond)
	}
	check(counted.Load() == 103, fmt.Sprintf("%d of 103 jobs ran", counted.Load()))
	check(ticks.Load() > 0, "the periodic job did not run")
	must(client.QueuePause(ctx, "other", nil))
	must(client.QueueResume(ctx, "other", nil))
	must(client.Stop(ctx))
	listed, err := client.JobList(ctx, river.NewJobListParams().States(rivertype.JobStateCompleted).First(200))
	must(err)
	check(len(listed.Jobs) >= 103, fmt.Sprintf("%d jobs are listed", len(listed.Jobs)))
	_, err = client.JobRetry(ctx, listed.Jobs[0].ID)
	must(err)
	_, err = client.JobDelete(ctx, listed.Jobs[1].ID)
	must(err)
	queues, err := client.QueueList(ctx, nil)
	must(err)
	check(len(queues.Queues) == 2, "queues are missing")
}
