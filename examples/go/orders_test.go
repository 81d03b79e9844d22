package orders

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumer is a member of `shipping` that reads `orders`.
func consumer(t *testing.T, rota *Rota, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(rota.Bootstrap),
		kgo.ConsumerGroup("shipping"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(100 * time.Millisecond),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// read polls until there is a record.
func read(t *testing.T, client *kgo.Client) *kgo.Record {
	t.Helper()
	for {
		fetches := client.PollFetches(within(t))
		if records := fetches.Records(); len(records) > 0 {
			return records[0]
		}
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAConsumerSurvivesTheEndOfItsSession(t *testing.T) {
	rota := StartRota(t)
	rota.Do("create_topic", Fields{"topic": "orders"})
	worker := consumer(t, rota)
	rota.Do("produce", Fields{"topic": "orders", "values": []string{"first"}})
	if value := string(read(t, worker).Value); value != "first" {
		t.Fatalf("read %s", value)
	}
	if err := worker.CommitUncommittedOffsets(within(t)); err != nil {
		t.Fatal(err)
	}

	before := rota.Members("shipping")[0]
	rota.Do("expire", Fields{"member": before})
	rota.Do("wait_until_stable", Fields{"group": "shipping", "members": 1})
	if after := rota.Members("shipping")[0]; after == before {
		t.Fatalf("%s did not join again", after)
	}

	rota.Do("produce", Fields{"topic": "orders", "values": []string{"second"}})
	if value := string(read(t, worker).Value); value != "second" {
		t.Fatalf("read %s: the commit of the first generation was lost", value)
	}
}

func TestTheOlderOfTwoProcessesWithOneInstanceIDIsFenced(t *testing.T) {
	rota := StartRota(t)
	rota.Do("create_topic", Fields{"topic": "orders"})
	older := consumer(t, rota, kgo.InstanceID("worker-1"))
	rota.Do("wait_until_stable", Fields{"group": "shipping", "members": 1})
	first := rota.Members("shipping")[0]

	newer := consumer(t, rota, kgo.InstanceID("worker-1"))
	rota.Do("produce", Fields{"topic": "orders", "values": []string{"one"}})

	for {
		err := older.PollFetches(within(t)).Err()
		if errors.Is(err, kerr.FencedInstanceID) {
			break
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("the older process was not fenced")
		}
	}
	if value := string(read(t, newer).Value); value != "one" {
		t.Fatalf("read %s", value)
	}
	if after := rota.Members("shipping"); len(after) != 1 || after[0] == first {
		t.Fatalf("the members are %v", after)
	}
}

func TestACommitThatFailsIsTriedAgain(t *testing.T) {
	rota := StartRota(t)
	rota.Do("create_topic", Fields{"topic": "orders"})
	rota.Do("produce", Fields{"topic": "orders", "values": []string{"one", "two"}})
	worker := consumer(t, rota)
	record := read(t, worker)

	rota.Do("fail_appends", Fields{"error": "NOT_ENOUGH_REPLICAS"})
	refused := rota.Do("inject_error", Fields{"api": "OffsetCommit", "error": "NOT_COORDINATOR"})
	if err := worker.CommitRecords(within(t), record); err != nil {
		t.Fatalf("the client gave up: %v", err)
	}
	for _, control := range rota.Ask("active", nil)["controls"].([]any) {
		row := control.(map[string]any)
		if row["id"] == refused["id"] && row["count"].(float64) != 1 {
			t.Fatal("no commit was refused")
		}
	}
	if offset := rota.Committed("shipping"); offset != record.Offset+1 {
		t.Fatalf("committed %d", offset)
	}
}
