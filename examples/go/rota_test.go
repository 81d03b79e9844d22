package orders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"testing"
)

// Rota is a server of one test. It ends with the test.
type Rota struct {
	t         *testing.T
	Bootstrap string // for Kafka clients
	control   string // for this test
}

// StartRota starts `rota serve` on free ports and on a clock that stands still, so that no session ends by itself.
func StartRota(t *testing.T) *Rota {
	t.Helper()
	server := exec.Command("rota", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--virtual-clock",
		"--set", "group.initial.rebalance.delay.ms=0", "--json")
	server.Stderr = os.Stderr
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("cannot start rota: %v (is it on the PATH?)", err)
	}
	t.Cleanup(func() {
		server.Process.Signal(os.Interrupt)
		server.Wait()
	})
	// The first line says where it listens, as soon as it does.
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("rota did not start: %v", err)
	}
	var ready struct{ Listen, Control string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return &Rota{t, ready.Listen, "http://" + ready.Control + "/control/"}
}

// Fields are the values that a control takes or gives.
type Fields map[string]any

// Do carries out a control.
func (r *Rota) Do(name string, fields Fields) Fields {
	r.t.Helper()
	body, err := json.Marshal(fields)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.Post(r.control+name, "application/json", bytes.NewReader(body))
	return r.read(name, answer, err)
}

// Ask looks at something.
func (r *Rota) Ask(name string, fields map[string]string) Fields {
	r.t.Helper()
	query := url.Values{}
	for field, value := range fields {
		query.Set(field, value)
	}
	answer, err := http.Get(r.control + name + "?" + query.Encode())
	return r.read(name, answer, err)
}

func (r *Rota) read(name string, answer *http.Response, err error) Fields {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	var told Fields
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	if answer.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %v", name, told["message"])
	}
	return told
}

// Members are the member ids of a group.
func (r *Rota) Members(group string) []string {
	r.t.Helper()
	var ids []string
	for _, member := range r.Ask("members", map[string]string{"group": group})["members"].([]any) {
		ids = append(ids, member.(map[string]any)["member_id"].(string))
	}
	return ids
}

// Committed is the offset that a group has committed of partition 0 of its only topic.
func (r *Rota) Committed(group string) int64 {
	r.t.Helper()
	offsets := r.Ask("committed", map[string]string{"group": group})["offsets"].([]any)
	if len(offsets) != 1 {
		r.t.Fatal(fmt.Sprintf("%s has committed %v", group, offsets))
	}
	return int64(offsets[0].(map[string]any)["offset"].(float64))
}
