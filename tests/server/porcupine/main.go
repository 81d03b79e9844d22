// Porcupine, a checker of histories by search, beside that of registers.py.
//
// Each line of standard input is the history of one register as JSON: calls as [is a commit, value, begin, end], with
// times in nanoseconds; a call without an end has null. Each line of standard output is what porcupine says of it: Ok,
// Illegal, or Unknown if it did not end in time.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const uncommitted = -1
const patience = 10 * time.Second

type call struct {
	isCommit bool
	value    int
}

var register = porcupine.Model{
	Init: func() interface{} { return uncommitted },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		if one := input.(call); one.isCommit {
			return true, one.value
		}
		return output.(int) == state.(int), state
	},
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, math.MaxInt32)
	for lines.Scan() {
		var rows [][4]*float64
		if err := json.Unmarshal(lines.Bytes(), &rows); err != nil {
			log.Fatalf("a line is no history: %v", err)
		}
		operations := make([]porcupine.Operation, 0, len(rows))
		for at, row := range rows {
			end := int64(math.MaxInt64)
			if row[3] != nil {
				end = int64(*row[3])
			}
			one := call{*row[0] == 1, int(*row[1])}
			operations = append(operations, porcupine.Operation{
				ClientId: at, Input: one, Call: int64(*row[2]), Output: one.value, Return: end,
			})
		}
		fmt.Println(porcupine.CheckOperationsTimeout(register, operations, patience))
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
