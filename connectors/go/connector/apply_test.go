package connector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	connectorv1 "penstock/go/api/connector/v1"
)

type slotConfig struct {
	Slot string `required:"true"`
	Size int    `default:"1"`
}

func drop(_ context.Context, config slotConfig, change Change[slotConfig]) ([]string, error) {
	if config.Slot == "held" {
		return nil, Retriablef("slot.held", "another reads it")
	}
	var done []string
	if change.Last != nil && change.Last.Slot != config.Slot {
		done = append(done, "drop "+change.Last.Slot)
	}
	return append(done, fmt.Sprintf("%d %s", change.Action, config.Slot)), nil
}

func slotted(apply func(context.Context, slotConfig, Change[slotConfig]) ([]string, error)) []Connector {
	return []Connector{
		SourceSpec[slotConfig]{Name: "source", New: func() Source[slotConfig] { return nil }, Apply: apply},
		SinkSpec[slotConfig]{Name: "sink", Apply: apply},
		TransactionalSpec[slotConfig]{Name: "transactional", Apply: apply},
	}
}

func applied(t *testing.T, given []Connector, request *connectorv1.ApplyRequest) (*connectorv1.ApplyResponse, error) {
	t.Helper()
	all, err := newConnectors(given)
	if err != nil {
		t.Fatal(err)
	}
	return (&control{connectors: all}).Apply(context.Background(), request)
}

func slotOf(name, slot string) *connectorv1.Target {
	return &connectorv1.Target{Connector: name, Config: map[string]string{"slot": slot}}
}

func TestApplyHearsWhatHappened(t *testing.T) {
	for _, name := range []string{"source", "sink", "transactional"} {
		answer, err := applied(t, slotted(drop), &connectorv1.ApplyRequest{
			Target: slotOf(name, "new"), LastApplied: slotOf(name, "old"),
			Action: connectorv1.ApplyAction_APPLY_ACTION_UPDATE,
		})
		if err != nil {
			t.Fatal(err)
		}
		wanted := []string{"drop old", fmt.Sprintf("%d new", ApplyUpdate)}
		if !slices.Equal(answer.Actions, wanted) || len(answer.Diagnostics) > 0 {
			t.Errorf("%s: %v, %v", name, answer.Actions, answer.Diagnostics)
		}
	}
}

func TestApplyWarnsOfAnEarlierConfigurationThatCannotBeRead(t *testing.T) {
	last := slotOf("sink", "old")
	last.Config["size"] = "large"
	answer, err := applied(t, slotted(drop), &connectorv1.ApplyRequest{
		Target: slotOf("sink", "new"), LastApplied: last,
		Action: connectorv1.ApplyAction_APPLY_ACTION_UPDATE,
	})
	if err != nil || len(answer.Actions) != 1 || len(answer.Diagnostics) != 1 {
		t.Fatal(answer, err)
	}
	if found := answer.Diagnostics[0]; found.Code != "config.last_applied" || found.ConfigPath != "size" {
		t.Error(found)
	}
}

func TestApplyOfAConnectorThatOwnsNothingDoesNothing(t *testing.T) {
	answer, err := applied(t, slotted(nil), &connectorv1.ApplyRequest{
		Target: slotOf("sink", "new"), Action: connectorv1.ApplyAction_APPLY_ACTION_DELETE,
	})
	if err != nil || len(answer.Actions) > 0 {
		t.Error(answer, err)
	}
}

func TestApplyFailsWithTheErrorOfTheAuthor(t *testing.T) {
	_, err := applied(t, slotted(drop), &connectorv1.ApplyRequest{Target: slotOf("sink", "held")})
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != "slot.held" {
		t.Error(err)
	}
}
