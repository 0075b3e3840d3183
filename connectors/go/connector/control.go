package connector

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	connectorv1 "penstock/go/api/connector/v1"
)

// sdkName is the name and version of this SDK.
const sdkName = "penstock-sdk-go/0.1"

// pluginService is the process: what is in it, and its end.
type pluginService struct {
	connectorv1.UnimplementedPluginServiceServer
	description *connectorv1.DescribeResponse
	shutdown    func(grace time.Duration)
}

// Describe tells what the plugin serves; needs no configuration.
func (p *pluginService) Describe(
	_ context.Context, request *connectorv1.DescribeRequest,
) (*connectorv1.DescribeResponse, error) {
	if !canRead(request.MemoryFile) {
		return p.description, nil
	}
	description := proto.CloneOf(p.description)
	description.MemoryFile = ownMemoryFile()
	return description, nil
}

// Shutdown drains all tasks; the process ends after the answer.
func (p *pluginService) Shutdown(
	_ context.Context, request *connectorv1.ShutdownRequest,
) (*connectorv1.ShutdownResponse, error) {
	p.shutdown(request.Grace.AsDuration())
	return &connectorv1.ShutdownResponse{}, nil
}

// control is validation, planning, checks: everything about a connector that is not rows.
type control struct {
	connectorv1.UnimplementedConnectorServiceServer
	connectors *connectors
	ending     context.Context
}

// ValidateConfig checks the values one by one and together.
func (c *control) ValidateConfig(
	_ context.Context, request *connectorv1.ValidateConfigRequest,
) (*connectorv1.ValidateConfigResponse, error) {
	target := request.Target
	kind, err := c.connectors.find(target.GetConnector(), anyKind)
	if err != nil {
		return nil, err
	}
	given := map[string]string{}
	for _, part := range []map[string]string{target.GetConfig(), target.GetSecrets()} {
		for name, value := range part {
			given[name] = value
		}
	}
	config, errs := kind.read(given)
	if len(errs) == 0 {
		failure := guard(kind.name+".Validate", func() error {
			errs = kind.validate(config)
			return nil
		})
		if failure != nil {
			return nil, failure
		}
	}
	hints, failure := kind.keyHints(withoutReach(target.GetConfig()))
	if failure != nil {
		return nil, failure
	}
	response := validation(kind, withoutReach(given), errs)
	for _, value := range response.Values {
		hint := hints[value.Name]
		value.Visible, value.RecommendedValues = !hint.Hidden, hint.RecommendedValues
	}
	return response, nil
}

func validation(kind *kind, given map[string]string, errs []*Error) *connectorv1.ValidateConfigResponse {
	response := &connectorv1.ValidateConfigResponse{}
	values := map[string]*connectorv1.ConfigValue{}
	add := func(name string) *connectorv1.ConfigValue {
		if values[name] == nil {
			values[name] = &connectorv1.ConfigValue{Name: name, Visible: true}
			response.Values = append(response.Values, values[name])
		}
		return values[name]
	}
	for _, name := range sortedKeys(given) {
		add(name)
	}
	for _, key := range kind.keys {
		value := add(key.name)
		text, found := given[key.name]
		if !found && key.standard.IsValid() {
			text, found = key.text(), true
		}
		if found && !key.sensitive {
			value.Value = &text
		}
	}
	for _, err := range errs {
		if value := values[err.ConfigPath]; value != nil {
			value.Diagnostics = append(value.Diagnostics, err.diagnostic())
			continue
		}
		response.Diagnostics = append(response.Diagnostics, err.diagnostic())
	}
	return response
}

// CheckConnection checks the configuration, then the outside.
func (c *control) CheckConnection(
	request *connectorv1.CheckConnectionRequest,
	stream grpc.ServerStreamingServer[connectorv1.CheckConnectionResponse],
) error {
	var found *kind
	var config any
	steps := map[string]func() error{
		"config": func() (err error) {
			if found, err = c.connectors.find(request.Target.GetConnector(), anyKind); err != nil {
				return err
			}
			config, err = found.configure(request.Target, nil)
			return err
		},
		"outside": func() error { return found.check(stream.Context(), config) },
	}
	for _, step := range []string{"config", "outside"} {
		began := time.Now()
		failure := guard("check", steps[step])
		response := &connectorv1.CheckConnectionResponse{
			Step: step, Ok: failure == nil, Took: durationpb.New(time.Since(began)),
		}
		if failure != nil {
			response.Diagnostics = append(response.Diagnostics, failure.diagnostic())
		}
		if err := stream.Send(response); err != nil || failure != nil {
			return err
		}
	}
	return nil
}

func (k *kind) planned(config any, maxTasks int, known []Partition) (partitions []Partition, err error) {
	failure := guard(k.name+".Plan", func() (err error) {
		partitions, err = k.plan(config, maxTasks, known)
		return err
	})
	return partitions, orNil(failure)
}

// Plan returns the partitions; the host spreads them over tasks.
func (c *control) Plan(
	_ context.Context, request *connectorv1.PlanRequest,
) (*connectorv1.PlanResponse, error) {
	kind, err := c.connectors.find(request.Target.GetConnector(), anyKind)
	if err != nil {
		return nil, err
	}
	config, err := kind.configure(request.Target, nil)
	if err != nil || !kind.isSource {
		return &connectorv1.PlanResponse{}, err
	}
	known, err := partitionsFromProto(request.KnownPartitions)
	if err != nil {
		return nil, err
	}
	maxTasks := int(max(request.MaxTasks, 1))
	partitions, err := kind.planned(config, maxTasks, known)
	if err != nil {
		return nil, err
	}
	planned, err := partitionsToProto(partitions)
	if err != nil {
		return nil, err
	}
	return &connectorv1.PlanResponse{
		Partitions: planned, Monitor: kind.monitored(config, maxTasks),
	}, nil
}

// AlterOffsets says what becomes of offsets that a person wants to set.
func (c *control) AlterOffsets(
	_ context.Context, request *connectorv1.AlterOffsetsRequest,
) (*connectorv1.AlterOffsetsResponse, error) {
	kind, err := c.connectors.find(request.Target.GetConnector(), anyKind)
	if err != nil || kind.alter == nil {
		return &connectorv1.AlterOffsetsResponse{Partitions: request.Partitions}, err
	}
	config, err := kind.configure(request.Target, nil)
	if err != nil {
		return nil, err
	}
	partitions, err := partitionsFromProto(request.Partitions)
	if err != nil {
		return nil, err
	}
	failure := guard(kind.name+".AlterOffsets", func() (err error) {
		partitions, err = kind.alter(config, partitions, request.DryRun)
		return err
	})
	if failure != nil {
		return nil, failure
	}
	altered, err := partitionsToProto(partitions)
	return &connectorv1.AlterOffsetsResponse{Partitions: altered}, err
}

func orNil(failure *Error) error {
	if failure == nil {
		return nil
	}
	return failure
}
