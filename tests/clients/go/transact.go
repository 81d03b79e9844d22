package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transform reads so many messages of a topic in a group, and writes each to another topic with the group's offsets: in a
// transaction that it aborts, and then again in one that it commits.
func transform(asked request) error {
	within, cancel := context.WithTimeout(context.Background(), time.Duration(asked.WithinMs)*time.Millisecond)
	defer cancel()
	session, err := newSession(asked)
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

func newSession(asked request) (*kgo.GroupTransactSession, error) {
	return kgo.NewGroupTransactSession(append(options(asked),
		kgo.TransactionalID(asked.TransactionalID),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.DefaultProduceTopic(asked.Topic))...)
}

// copyForever copies a topic in a group, in small transactions, until the program is killed. A session that failed is
// replaced: the next one has the same transactional id, ends what is open, and begins at the committed offsets.
func copyForever(asked request) {
	for {
		fmt.Fprintln(os.Stderr, "a session ended:", copySession(asked))
	}
}

func copySession(asked request) error {
	session, err := newSession(asked)
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		within, cancel := context.WithTimeout(context.Background(), time.Duration(asked.WithinMs)*time.Millisecond)
		err := copySome(within, session, asked.Count)
		cancel()
		if err != nil {
			return err
		}
	}
}

// copySome copies at most so many messages in one transaction. A rebalance aborts it, and the session reads them again.
func copySome(within context.Context, session *kgo.GroupTransactSession, atMost int) error {
	fetches := session.PollRecords(within, atMost)
	if err := fetches.Err(); err != nil {
		return err
	}
	if err := session.Begin(); err != nil {
		return err
	}
	failed := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		session.Produce(within, kgo.StringRecord(string(record.Value)+", copied"), failed.Promise())
	})
	if err := session.Client().Flush(within); err != nil {
		return err
	}
	_, err := session.End(within, failed.Err() == nil)
	return err
}
