// Command driver calls the client github.com/go-kafka/connect as it is told: one call in a line of
// JSON on stdin, its outcome in a line on stdout. Its one argument is the address of the gateway.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/go-kafka/connect"
)

type call struct {
	Call   string
	Name   string
	Config connect.ConnectorConfig
}

// refusal is what the client's own error says.
type refusal struct {
	Kind    string `json:"kind"`
	Status  int    `json:"status"`
	Message string `json:"message"`
}

type outcome struct {
	Value   any      `json:"value"`
	Refused *refusal `json:"refused,omitempty"`
}

func main() {
	client := connect.NewClient(os.Args[1])
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked call
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		value, err := answer(client, asked)
		if err := answers.Encode(outcome{value, refused(err)}); err != nil {
			panic(err)
		}
	}
}

func answer(client *connect.Client, asked call) (any, error) {
	switch asked.Call {
	case "names":
		return value(client.ListConnectors())
	case "create":
		made := &connect.Connector{Name: asked.Name, Config: asked.Config}
		_, err := client.CreateConnector(made)
		return made, err
	case "info":
		return value(client.GetConnector(asked.Name))
	case "config":
		return value(client.GetConnectorConfig(asked.Name))
	case "status":
		return value(client.GetConnectorStatus(asked.Name))
	case "tasks":
		return value(client.GetConnectorTasks(asked.Name))
	case "update":
		return value(client.UpdateConnectorConfig(asked.Name, asked.Config))
	case "delete":
		return nothing(client.DeleteConnector(asked.Name))
	case "pause":
		return nothing(client.PauseConnector(asked.Name))
	case "resume":
		return nothing(client.ResumeConnector(asked.Name))
	case "restart":
		return nothing(client.RestartConnector(asked.Name))
	}
	panic(fmt.Sprintf("no such call: %q", asked.Call))
}

func value[T any](found T, _ *http.Response, err error) (any, error) { return found, err }

func nothing(_ *http.Response, err error) (any, error) { return nil, err }

func refused(err error) *refusal {
	if err == nil {
		return nil
	}
	var told connect.APIError
	if !errors.As(err, &told) {
		panic(err)
	}
	return &refusal{fmt.Sprintf("%T", told), told.Code, told.Message}
}
