package connector

import (
	"context"

	connectorv1 "penstock/go/api/connector/v1"
	errorv1 "penstock/go/api/error/v1"
)

// ApplyAction is what happened to a connector. The numbers equal penstock.api.connector.v1.
type ApplyAction int32

// What happens to connectors.
const (
	// ApplyCreate: its first start.
	ApplyCreate = ApplyAction(connectorv1.ApplyAction_APPLY_ACTION_CREATE)
	// ApplyUpdate: its configuration changed.
	ApplyUpdate = ApplyAction(connectorv1.ApplyAction_APPLY_ACTION_UPDATE)
	// ApplyDelete: it was deleted. An error is tried again for some minutes: tasks may be ending.
	ApplyDelete = ApplyAction(connectorv1.ApplyAction_APPLY_ACTION_DELETE)
	// ApplyReset: it starts again from nothing.
	ApplyReset = ApplyAction(connectorv1.ApplyAction_APPLY_ACTION_RESET)
)

// Change is what happened to a connector that may own something outside.
type Change[C any] struct {
	// Action says what.
	Action ApplyAction
	// Last is, of ApplyUpdate, the configuration that was applied last, to remove what only that one
	// has; nil where it is not known, or cannot be read any more.
	Last *C
}

// change is a Change without the type of its configuration.
type change struct {
	action ApplyAction
	last   any
}

type applies func(ctx context.Context, config any, change change) ([]string, error)

// appliesOf returns the Apply of a spec without the type of its configuration.
func appliesOf[C any](apply func(context.Context, C, Change[C]) ([]string, error)) applies {
	if apply == nil {
		return nil
	}
	return func(ctx context.Context, config any, change change) ([]string, error) {
		typed := Change[C]{Action: change.action}
		if last, known := change.last.(C); known {
			typed.Last = &last
		}
		return apply(ctx, config.(C), typed)
	}
}

// Apply sets up, changes or removes what a connector owns outside.
func (c *control) Apply(
	ctx context.Context, request *connectorv1.ApplyRequest,
) (*connectorv1.ApplyResponse, error) {
	kind, err := c.connectors.find(request.Target.GetConnector(), anyKind)
	if err != nil || kind.apply == nil {
		return &connectorv1.ApplyResponse{}, err
	}
	config, err := kind.configure(request.Target, nil)
	if err != nil {
		return nil, err
	}
	response := &connectorv1.ApplyResponse{}
	change := change{action: ApplyAction(request.Action)}
	if request.LastApplied != nil {
		last, err := kind.configure(request.LastApplied, nil)
		if err == nil {
			change.last = last
		} else {
			response.Diagnostics = append(response.Diagnostics, unreadable(err))
		}
	}
	failure := guard(kind.name+".Apply", func() (err error) {
		response.Actions, err = kind.apply(ctx, config, change)
		return err
	})
	if failure != nil {
		return nil, failure
	}
	return response, nil
}

func unreadable(err error) *errorv1.Diagnostic {
	why := asError(err, "configure")
	found := ConfigErrorf("config.last_applied",
		"the configuration that was applied last cannot be read any more: %s", why.Message).
		WithFix("Remove by hand what only that one had outside.").At(why.ConfigPath).diagnostic()
	found.Severity = errorv1.Severity_SEVERITY_WARNING
	return found
}
