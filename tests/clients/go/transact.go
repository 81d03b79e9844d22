package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transform reads so many messages of a topic in a group, and writes each to another topic with the group's offsets: in a
// transaction that it aborts, and then again in one that it commits.
func transform(asked request) error {
	within, cancel := context.WithTimeout(context.Background(), time.Duration(asked.WithinMs)*time.Millisecond)
	defer cancel()
	session, err := kgo.NewGroupTransactSession(append(options(asked),
		kgo.TransactionalID(asked.TransactionalID),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.DefaultProduceTopic(asked.Topic))...)
	if err != nil {
		return err
	}
	defer session.Close()
	for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := session.Begin(); err != nil {
			return err
		}
		failed := kgo.AbortingFirstErrPromise(session.Client())
		for read := 0; read < asked.Count; {
			fetches := session.PollFetches(within)
			if err := fetches.Err(); err != nil {
				return err
			}
			fetches.EachRecord(func(record *kgo.Record) {
				read++
				session.Produce(within, kgo.StringRecord(string(record.Value)+", processed"), failed.Promise())
			})
		}
		if err := session.Client().Flush(within); err != nil {
			return err
		}
		if err := failed.Err(); err != nil {
			return err
		}
		if committed, err := session.End(within, commit); err != nil {
			return err
		} else if committed != bool(commit) {
			return errors.New("a rebalance aborted the transaction")
		}
	}
	return nil
}
