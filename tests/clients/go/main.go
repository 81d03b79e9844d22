// A consumer of franz-go, driven over standard input and output (../README.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

type request struct {
	ID                  int      `json:"id"`
	Do                  string   `json:"do"`
	Bootstrap           string   `json:"bootstrap"`
	ClientID            string   `json:"client_id"`
	Group               string   `json:"group"`
	Topics              []string `json:"topics"`
	Pattern             *string  `json:"pattern"`
	Assignor            string   `json:"assignor"`
	SessionTimeoutMs    int      `json:"session_timeout_ms"`
	HeartbeatIntervalMs int      `json:"heartbeat_interval_ms"`
	MetadataMaxAgeMs    int      `json:"metadata_max_age_ms"`
	PollMs              int      `json:"poll_ms"`
	GroupProtocol       string   `json:"group_protocol"`
	InstanceID          *string  `json:"instance_id"`
	MaxPollIntervalMs   *int     `json:"max_poll_interval_ms"`
	KeepsRevoked        bool     `json:"keeps_revoked"`
	Offsets             [][]any  `json:"offsets"`
	Topic               string   `json:"topic"`
	Partition           int32    `json:"partition"`
	Values              []string `json:"values"`
	TransactionalID     string   `json:"transactional_id"`
	Count               int      `json:"count"`
	WithinMs            int      `json:"within_ms"`
}

type fields map[string]any

var writing sync.Mutex

// write writes one line with the time of CLOCK_MONOTONIC, which the clocks of other processes share.
func write(line fields) {
	writing.Lock()
	defer writing.Unlock()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	line["at_ms"] = float64(now.Nano()) / 1e6
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(text, '\n'))
}

// told gives the name, code and text of an error. Fatal is an error that the client does not retry.
func told(err error) fields {
	var known *kerr.Error
	if errors.As(err, &known) {
		return fields{"name": known.Message, "code": known.Code, "fatal": !known.Retriable, "text": err.Error()}
	}
	return fields{"name": "client", "code": -1, "fatal": true, "text": err.Error()}
}

type place struct {
	topic     string
	partition int32
}

// member polls a group and says what it owns, what its callbacks were given and what it read.
type member struct {
	client *kgo.Client
	poll   time.Duration
	mutex  sync.Mutex
	owned  map[place]bool
	read   map[place]int64
}

func sorted(places map[place]bool) [][]any {
	listed := make([]place, 0, len(places))
	for one := range places {
		listed = append(listed, one)
	}
	sort.Slice(listed, func(i, j int) bool {
		a, b := listed[i], listed[j]
		return a.topic < b.topic || a.topic == b.topic && a.partition < b.partition
	})
	pairs := make([][]any, 0, len(listed))
	for _, one := range listed {
		pairs = append(pairs, []any{one.topic, one.partition})
	}
	return pairs
}

func (m *member) called(name string, owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		given := map[place]bool{}
		for topic, partitions := range topics {
			for _, partition := range partitions {
				one := place{topic, partition}
				given[one] = true
				if owns {
					m.owned[one] = true
				} else {
					delete(m.owned, one)
				}
			}
		}
		write(fields{"event": "callback", "name": name, "partitions": sorted(given)})
		write(fields{"event": "owned", "partitions": sorted(m.owned)})
	}
}

// giveUp is closed by the request give_up, for which the callback of a member that keeps its partitions waits.
var giveUp = make(chan struct{})

func (m *member) revoked(keeps bool) func(context.Context, *kgo.Client, map[string][]int32) {
	told := m.called("revoked", false)
	return func(within context.Context, client *kgo.Client, topics map[string][]int32) {
		told(within, client, topics)
		if keeps && len(topics) > 0 {
			<-giveUp
		}
	}
}

func options(asked request) []kgo.Opt {
	level := kgo.LogLevelWarn
	if debug := os.Getenv("ROTA_TEST_DEBUG"); debug != "" && debug != "0" {
		level = kgo.LogLevelDebug
	}
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(asked.Bootstrap, ",")...),
		kgo.ClientID(asked.ClientID),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, level, nil)),
	}
}

var assignors = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func join(asked request) (*member, error) {
	m := &member{
		poll:  time.Duration(asked.PollMs) * time.Millisecond,
		owned: map[place]bool{},
		read:  map[place]int64{},
	}
	chosen := append(options(asked),
		kgo.ConsumerGroup(asked.Group),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMaxAge(time.Duration(asked.MetadataMaxAgeMs)*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.OnPartitionsAssigned(m.called("assigned", true)),
		kgo.OnPartitionsRevoked(m.revoked(asked.KeepsRevoked)),
		kgo.OnPartitionsLost(m.called("lost", false)),
	)
	if asked.GroupProtocol == "consumer" {
		// By its balancer the client chooses the coordinator's assignor: sticky is uniform.
		chosen = append(chosen, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		chosen = append(chosen,
			kgo.SessionTimeout(time.Duration(asked.SessionTimeoutMs)*time.Millisecond),
			kgo.HeartbeatInterval(time.Duration(asked.HeartbeatIntervalMs)*time.Millisecond),
			kgo.Balancers(assignors[asked.Assignor]))
	}
	if asked.MaxPollIntervalMs != nil {
		chosen = append(chosen, kgo.RebalanceTimeout(time.Duration(*asked.MaxPollIntervalMs)*time.Millisecond))
	}
	if asked.InstanceID != nil {
		chosen = append(chosen, kgo.InstanceID(*asked.InstanceID))
	}
	if asked.Pattern != nil {
		chosen = append(chosen, kgo.ConsumeRegex(), kgo.ConsumeTopics(*asked.Pattern))
	} else {
		chosen = append(chosen, kgo.ConsumeTopics(asked.Topics...))
	}
	client, err := kgo.NewClient(chosen...)
	m.client = client
	return m, err
}

func (m *member) turn() {
	within, cancel := context.WithTimeout(context.Background(), m.poll)
	defer cancel()
	fetches := m.client.PollFetches(within)
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			write(fields{"event": "error"}.with(told(err)))
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		m.mutex.Lock()
		m.read[place{record.Topic, record.Partition}] = record.Offset + 1
		m.mutex.Unlock()
		write(fields{"event": "message", "topic": record.Topic, "partition": record.Partition,
			"offset": record.Offset, "value": string(record.Value)})
	})
}

func (f fields) with(more fields) fields {
	for name, value := range more {
		f[name] = value
	}
	return f
}

// commit commits the given offsets, or all that was read of the partitions that it owns.
func (m *member) commit(asked [][]any) ([][]any, error) {
	m.mutex.Lock()
	if asked == nil {
		for one, offset := range m.read {
			if m.owned[one] {
				asked = append(asked, []any{one.topic, float64(one.partition), float64(offset)})
			}
		}
	}
	m.mutex.Unlock()
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, one := range asked {
		topic := one[0].(string)
		if offsets[topic] == nil {
			offsets[topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[topic][int32(one[1].(float64))] = kgo.EpochOffset{Epoch: -1, Offset: int64(one[2].(float64))}
	}
	var failed error
	m.client.CommitOffsetsSync(context.Background(), offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil {
				return
			}
			for _, topic := range answer.Topics {
				for _, partition := range topic.Partitions {
					if failed == nil {
						failed = kerr.ErrorForCode(partition.ErrorCode)
					}
				}
			}
		})
	return asked, failed
}

func produce(asked request) ([]int64, error) {
	client, err := kgo.NewClient(append(options(asked), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	offsets := []int64{}
	for _, value := range asked.Values {
		record := &kgo.Record{Topic: asked.Topic, Partition: asked.Partition, Value: []byte(value)}
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			return nil, err
		}
		offsets = append(offsets, record.Offset)
	}
	return offsets, nil
}

func main() {
	requests := make(chan request)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var asked request
			if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
				panic(err)
			}
			requests <- asked
		}
		os.Exit(0) // the test that drove this program is gone
	}()
	var joined *member
	for {
		var asked request
		if joined == nil {
			asked = <-requests
		} else {
			select {
			case asked = <-requests:
			default:
				joined.turn()
				continue
			}
		}
		reply := fields{"id": asked.ID, "ok": true}
		var err error
		switch asked.Do {
		case "consume":
			joined, err = join(asked)
		case "commit":
			reply["offsets"], err = joined.commit(asked.Offsets)
		case "produce":
			reply["result"], err = produce(asked)
		case "give_up":
			close(giveUp)
		case "transform":
			err = transform(asked)
		case "copy":
			copyForever(asked)
		case "close":
			if joined != nil {
				// Close leaves a static member of the newer protocol in the group; this says that it may come back.
				err = joined.client.LeaveGroupContext(context.Background())
				joined.client.Close()
			}
		default:
			err = errors.New("this program has no request " + asked.Do)
		}
		if err != nil {
			reply.with(fields{"ok": false, "error": told(err)})
		}
		write(reply)
		if asked.Do == "close" {
			os.Exit(0)
		}
	}
}
