// A client of franz-go that connects, writes a message and reads it in a group: ../../test_other_languages.py.
//
// Its settings are JSON on standard input; what came of it is JSON on standard output.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type settings struct {
	Bootstrap string `json:"bootstrap"`
	CA        string `json:"ca"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Token     string `json:"token"`
	Topic     string `json:"topic"`
	Group     string `json:"group"`
	TimeoutMs int    `json:"timeout_ms"`
}

func mechanism(s settings) sasl.Mechanism {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: s.Token}.AsMechanism()
	}
	return nil
}

func round(s settings) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(s.Bootstrap),
		kgo.ConsumerGroup(s.Group),
		kgo.ConsumeTopics(s.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordRetries(0),
		kgo.RetryTimeout(time.Second),
	}
	if s.CA != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(s.CA)) {
			return errors.New("the CA cannot be read")
		}
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: roots}))
	}
	if chosen := mechanism(s); chosen != nil {
		options = append(options, kgo.SASL(chosen))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	limited, cancel := context.WithTimeout(context.Background(), time.Duration(s.TimeoutMs)*time.Millisecond)
	defer cancel()
	if err := client.Ping(limited); err != nil {
		return err
	}
	record := &kgo.Record{Topic: s.Topic, Value: []byte("one")}
	if err := client.ProduceSync(limited, record).FirstErr(); err != nil {
		return err
	}
	for {
		fetches := client.PollFetches(limited)
		if err := fetches.Err(); err != nil {
			return err
		}
		if !fetches.Empty() {
			return client.CommitUncommittedOffsets(limited)
		}
	}
}

func main() {
	var s settings
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		panic(err)
	}
	said := ""
	if err := round(s); err != nil {
		said = err.Error()
	}
	json.NewEncoder(os.Stdout).Encode(map[string]string{"error": said})
}
